//! `picktwo search`: a search of the web through the provider that the person's policy names.

use super::retrieval;
use picktwo_wire::tools::Request;
use std::process::ExitCode;

/// Searches the web through the provider of your policy, and prints titles, addresses and texts.
///
/// The query leaves the trust boundary: name what is wanted, and nothing that should stay here. What is found is read in a process that
/// has neither files nor a network; addresses that were found may be fetched afterwards. A provider and its key are set up in
/// `[retrieval.search]` of your policy.
///
/// Exit codes: 0 searched, 1 not searched, 3 refused by policy.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to look for
    query: String,
    /// Results wanted
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=20))]
    results: u32,
    /// Print the typed answer as JSON
    #[arg(long)]
    json: bool,
    /// A policy file, read after the user's own (outside a session)
    #[arg(long, value_name = "FILE")]
    policy: Option<std::path::PathBuf>,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let request = Request::Search {
        query: args.query,
        results: Some(args.results),
    };
    retrieval::answer("search", request, args.json, args.policy.as_deref())
}
