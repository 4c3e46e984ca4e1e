//! `picktwo github`: reads repositories by fixed operations of GitHub's API.

use super::{output, retrieval};
use picktwo_wire::github::{Argument, Github, Op, Which};
use picktwo_wire::tools::Request;
use std::process::ExitCode;

/// Reads something of GitHub by one of its fixed, read-only operations.
///
/// No shell, no `gh`, no `git`, no clone. What is asked leaves the trust boundary; what comes back is read in a process that has neither
/// files nor a network. A token, and private repositories, are set up in `[github]` of your policy.
///
/// Exit codes: 0 read, 1 not read, 3 refused by policy.
#[derive(clap::Args)]
#[command(after_help = "\
Operations, with what they need and may have:
  repo O/N                                  what a repository is
  readme O/N [--ref]                        its readme
  tree O/N [PATH] [--ref]                   its files
  file O/N PATH [--ref] [--lines 10-20]     a file; a directory is listed
  commit O/N COMMIT                         a commit with its changes
  commits O/N [PATH] [--ref] [--page]       commits
  compare O/N BASE...HEAD                   what lies between two commits
  issue O/N NUMBER [--page]                 an issue with its comments
  issues O/N [--state] [--page]             issues
  pr, pr-files, pr-comments O/N NUMBER      a pull request, its files, its reviews
  pr-diff O/N NUMBER                        its changes as one diff
  prs O/N [--state] [--page]                pull requests
  checks O/N REF                            checks and statuses of a commit
  releases O/N [TAG] [--page]               releases, or the one of a tag
  tags O/N [--page]                         tags
  runs O/N [BRANCH] [--page]                runs of workflows
  run O/N NUMBER                            a run with its jobs
  log O/N JOB                               the log of a job
  snapshot O/N [PATH] [--ref]               all files, for a --question about them
  gist ID                                   a gist
  search-code O/N QUERY [--path]            search a repository's code
  search-issues QUERY [--repository O/N]    search issues and pull requests
  search-repositories QUERY                 search repositories")]
pub(crate) struct Args {
    /// What to read
    operation: String,
    /// OWNER/NAME, or what the operation takes instead
    target: String,
    /// Path, number, commit, range, tag or query
    what: Option<String>,
    /// A branch, a tag or a commit
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// A path in the repository
    #[arg(long)]
    path: Option<String>,
    /// First and last line of a file
    #[arg(long, value_name = "FIRST-LAST")]
    lines: Option<String>,
    /// open, closed or all
    #[arg(long)]
    state: Option<String>,
    /// Page of a list
    #[arg(long)]
    page: Option<u32>,
    /// A repository to search in
    #[arg(long, value_name = "OWNER/NAME")]
    repository: Option<String>,
    /// What is wanted of it; without, all of it within the budget
    #[arg(long)]
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
    let github = match operation(&args) {
        Ok(github) => github,
        Err(why) => return output::fail(&why),
    };
    let request = Request::Github {
        github,
        question: args.question,
        budget: Some(args.budget),
    };
    retrieval::answer("github", request, args.json, args.policy.as_deref())
}

/// The operation that the arguments say.
fn operation(args: &Args) -> Result<Github, String> {
    let op = Op::named(&args.operation).ok_or_else(|| {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        format!(
            "there is no operation `{}`; there are {}",
            args.operation,
            names.join(", ")
        )
    })?;
    let mut github = Github {
        reference: args.reference.clone(),
        path: args.path.clone(),
        page: args.page,
        repository: args.repository.clone(),
        ..Github::new(op)
    };
    if let Some(lines) = &args.lines {
        github.lines = Some(Github::lines_of(lines).ok_or("--lines takes a first and a last number, e.g. 10-20")?);
    }
    if let Some(state) = &args.state {
        github.state = Some(Which::named(state).ok_or("--state takes open, closed or all")?);
    }
    let (needs, may) = op.arguments();
    let takes = |argument| needs.contains(&argument) || may.contains(&argument);
    match op {
        Op::Gist => github.gist = Some(args.target.clone()),
        Op::SearchIssues | Op::SearchRepositories => github.query = Some(args.target.clone()),
        _ => github.repository = Some(args.target.clone()),
    }
    if let Some(what) = &args.what {
        match op {
            Op::Compare => {
                let (base, head) = what.split_once("...").ok_or("compare takes BASE...HEAD")?;
                github.base = Some(base.to_owned());
                github.reference = Some(head.to_owned());
            }
            Op::SearchCode => github.query = Some(what.clone()),
            _ if takes(Argument::Number) => {
                github.number = Some(what.parse().map_err(|_| format!("{what} is no number"))?);
            }
            _ if takes(Argument::Path) => github.path = Some(what.clone()),
            _ if takes(Argument::Reference) => github.reference = Some(what.clone()),
            _ => return Err(format!("{} takes nothing like `{what}`", op.name())),
        }
    }
    github.check()?;
    Ok(github)
}
