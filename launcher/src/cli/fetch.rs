//! `picktwo fetch`: a quarantined retrieval, inside a session through its launcher, outside with a wall of its own.

use super::retrieval;
use picktwo_wire::tools::Request;
use std::process::ExitCode;

/// Fetches a page in a process that has no files, and prints what answers the question.
///
/// The request leaves the trust boundary: name exactly what is wanted, and nothing that should stay here. Known hosts are fetched at
/// once (`retrieval.hosts` in the policy adds to them); private addresses only where the user's own policy names host and port.
///
/// Exit codes: 0 fetched, 1 not fetched, 3 refused by policy.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An http or https URL
    url: String,
    /// What is wanted of the page; without it, the main content within the budget
    question: Option<String>,
    /// Tokens that the answer may take (about four bytes each)
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(50..=16000))]
    budget: u32,
    /// Print the typed answer as JSON
    #[arg(long)]
    json: bool,
    /// A policy file, read after the user's own (outside a session)
    #[arg(long, value_name = "FILE")]
    policy: Option<std::path::PathBuf>,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let request = Request::Fetch {
        url: args.url,
        question: args.question,
        budget: Some(args.budget),
    };
    retrieval::answer("fetch", request, args.json, args.policy.as_deref())
}
