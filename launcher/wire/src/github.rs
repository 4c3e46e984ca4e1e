//! The fixed read-only operations of GitHub: which there are, what each takes, and what an argument may look like. Every process that
//! handles one checks it again.

use serde::{Deserialize, Serialize};

/// Bytes of a path in a repository.
const MAX_PATH: usize = 1024;
/// Bytes of the name of a branch, a tag or a commit.
const MAX_REF: usize = 255;
/// The last page of a list that can be asked for.
const MAX_PAGE: u32 = 100;
/// The last line that can be asked for.
const MAX_LINE: u32 = 10_000_000;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// What a repository is.
    Repo,
    /// Its readme.
    Readme,
    /// Its files, below a path.
    Tree,
    /// One file, or lines of it; a directory is listed.
    File,
    /// A commit with its changes.
    Commit,
    /// The commits of a branch, or those that touch a path.
    Commits,
    /// What lies between two commits.
    Compare,
    /// An issue with its comments.
    Issue,
    /// Issues.
    Issues,
    /// A pull request with its comments.
    Pr,
    /// Pull requests.
    Prs,
    /// The files that a pull request changes.
    PrFiles,
    /// Its changes as one diff.
    PrDiff,
    /// Its reviews and the comments on its lines.
    PrComments,
    /// Checks and statuses of a commit.
    Checks,
    /// Releases, or the one of a tag.
    Releases,
    /// Tags.
    Tags,
    /// A search of issues and pull requests.
    SearchIssues,
    /// A search of a repository's code.
    SearchCode,
    /// A search of repositories.
    SearchRepositories,
    /// Runs of workflows.
    Runs,
    /// A run of a workflow with its jobs.
    Run,
    /// The log of a job.
    Log,
    /// All files of a repository, for a question about them.
    Snapshot,
    /// A gist.
    Gist,
}

/// An argument of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `owner/name`.
    Repository,
    /// A branch, a tag or a commit.
    Reference,
    /// Where a comparison begins.
    Base,
    /// A path in the repository.
    Path,
    /// First and last line.
    Lines,
    /// Of an issue, a pull request, a run or a job.
    Number,
    /// Words to search for.
    Query,
    /// Open, closed, all.
    State,
    /// Page of a list.
    Page,
    /// Identifier of a gist.
    Gist,
}

use Argument::{Base, Gist, Lines, Number, Page, Path, Query, Reference, State};

impl Argument {
    /// Its name, as tools and commands spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Reference => "ref",
            Self::Base => "base",
            Self::Path => "path",
            Self::Lines => "lines",
            Self::Number => "number",
            Self::Query => "query",
            Self::State => "state",
            Self::Page => "page",
            Self::Gist => "gist",
        }
    }
}

impl Op {
    /// Every operation.
    pub const ALL: [Op; 25] = [
        Op::Repo,
        Op::Readme,
        Op::Tree,
        Op::File,
        Op::Commit,
        Op::Commits,
        Op::Compare,
        Op::Issue,
        Op::Issues,
        Op::Pr,
        Op::Prs,
        Op::PrFiles,
        Op::PrDiff,
        Op::PrComments,
        Op::Checks,
        Op::Releases,
        Op::Tags,
        Op::SearchIssues,
        Op::SearchCode,
        Op::SearchRepositories,
        Op::Runs,
        Op::Run,
        Op::Log,
        Op::Snapshot,
        Op::Gist,
    ];

    /// Its name, as tools and commands spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Op::Repo => "repo",
            Op::Readme => "readme",
            Op::Tree => "tree",
            Op::File => "file",
            Op::Commit => "commit",
            Op::Commits => "commits",
            Op::Compare => "compare",
            Op::Issue => "issue",
            Op::Issues => "issues",
            Op::Pr => "pr",
            Op::Prs => "prs",
            Op::PrFiles => "pr-files",
            Op::PrDiff => "pr-diff",
            Op::PrComments => "pr-comments",
            Op::Checks => "checks",
            Op::Releases => "releases",
            Op::Tags => "tags",
            Op::SearchIssues => "search-issues",
            Op::SearchCode => "search-code",
            Op::SearchRepositories => "search-repositories",
            Op::Runs => "runs",
            Op::Run => "run",
            Op::Log => "log",
            Op::Snapshot => "snapshot",
            Op::Gist => "gist",
        }
    }

    /// The operation of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The arguments that it needs, and those that it may have.
    #[must_use]
    pub fn arguments(self) -> (&'static [Argument], &'static [Argument]) {
        const REPO: Argument = Argument::Repository;
        match self {
            Op::Repo => (&[REPO], &[]),
            Op::Readme => (&[REPO], &[Reference]),
            Op::Tree | Op::Snapshot => (&[REPO], &[Reference, Path]),
            Op::File => (&[REPO, Path], &[Reference, Lines]),
            Op::Commit | Op::Checks => (&[REPO, Reference], &[]),
            Op::Commits => (&[REPO], &[Reference, Path, Page]),
            Op::Compare => (&[REPO, Base, Reference], &[]),
            Op::Issue | Op::Pr | Op::PrFiles | Op::PrComments => (&[REPO, Number], &[Page]),
            Op::Issues | Op::Prs => (&[REPO], &[State, Page]),
            Op::PrDiff | Op::Run | Op::Log => (&[REPO, Number], &[]),
            Op::Releases | Op::Runs => (&[REPO], &[Reference, Page]),
            Op::Tags => (&[REPO], &[Page]),
            Op::SearchIssues => (&[Query], &[REPO, State, Page]),
            Op::SearchCode => (&[REPO, Query], &[Path, Page]),
            Op::SearchRepositories => (&[Query], &[Page]),
            Op::Gist => (&[Gist], &[]),
        }
    }
}

/// The state of issues and pull requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// Open ones.
    Open,
    /// Closed ones.
    Closed,
    /// All.
    All,
}

impl Which {
    /// Its name, here and at GitHub.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Which::Open => "open",
            Which::Closed => "closed",
            Which::All => "all",
        }
    }

    /// The state of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Which> {
        [Which::Open, Which::Closed, Which::All]
            .into_iter()
            .find(|w| w.name() == name)
    }
}

/// An operation with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Github {
    /// What is wanted.
    pub op: Op,
    /// `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// A branch, a tag or a commit.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Where a comparison begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// A path in the repository, without a slash at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// First and last line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// Of an issue, a pull request, a run or a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Words to search for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Open, closed, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Which>,
    /// Page of a list, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Identifier of a gist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gist: Option<String>,
}

impl Github {
    /// An operation without arguments yet.
    #[must_use]
    pub fn new(op: Op) -> Self {
        Self {
            op,
            repository: None,
            reference: None,
            base: None,
            path: None,
            lines: None,
            number: None,
            query: None,
            state: None,
            page: None,
            gist: None,
        }
    }

    /// Reads lines as they are written: `10-20`, or `10`.
    #[must_use]
    pub fn lines_of(text: &str) -> Option<(u32, u32)> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    }

    /// Owner and name of the repository.
    #[must_use]
    pub fn repository(&self) -> Option<(&str, &str)> {
        self.repository.as_deref()?.split_once('/')
    }

    fn has(&self, argument: Argument) -> bool {
        match argument {
            Argument::Repository => self.repository.is_some(),
            Argument::Reference => self.reference.is_some(),
            Argument::Base => self.base.is_some(),
            Argument::Path => self.path.is_some(),
            Argument::Lines => self.lines.is_some(),
            Argument::Number => self.number.is_some(),
            Argument::Query => self.query.is_some(),
            Argument::State => self.state.is_some(),
            Argument::Page => self.page.is_some(),
            Argument::Gist => self.gist.is_some(),
        }
    }

    /// Checks that the arguments are those of the operation, and each is one.
    ///
    /// # Errors
    /// What is wrong, as a clause.
    pub fn check(&self) -> Result<(), String> {
        const ALL: [Argument; 10] = [
            Argument::Repository,
            Reference,
            Base,
            Path,
            Lines,
            Number,
            Query,
            State,
            Page,
            Gist,
        ];
        let (needs, may) = self.op.arguments();
        let name = self.op.name();
        for argument in ALL {
            let (has, known) = (self.has(argument), needs.contains(&argument) || may.contains(&argument));
            if has && !known {
                let known: Vec<&str> = needs.iter().chain(may).map(|a| a.name()).collect();
                return Err(format!(
                    "{name} takes no {}; it takes {}",
                    argument.name(),
                    known.join(", ")
                ));
            }
            if !has && needs.contains(&argument) {
                return Err(format!("{name} needs {}", argument.name()));
            }
        }
        if let Some(repository) = &self.repository {
            repository_name(repository)?;
        }
        for (what, reference) in [("ref", &self.reference), ("base", &self.base)] {
            if let Some(reference) = reference {
                reference_name(reference).map_err(|why| format!("{what} {why}"))?;
            }
        }
        if let Some(path) = &self.path {
            path_name(path)?;
        }
        if let Some((first, last)) = self.lines
            && !(1 <= first && first <= last && last <= MAX_LINE)
        {
            return Err("lines are a first and a last number, counted from 1".to_owned());
        }
        if self.number == Some(0) {
            return Err("number counts from 1".to_owned());
        }
        if let Some(query) = &self.query
            && (query.trim().is_empty() || query.len() > crate::apis::MAX_QUERY || query.chars().any(char::is_control))
        {
            return Err(format!("query is one line of at most {} bytes", crate::apis::MAX_QUERY));
        }
        if self.page.is_some_and(|p| !(1..=MAX_PAGE).contains(&p)) {
            return Err(format!("page is a number from 1 to {MAX_PAGE}"));
        }
        if let Some(gist) = &self.gist
            && !((1..=40).contains(&gist.len()) && gist.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err("gist is the hexadecimal identifier at the end of its address".to_owned());
        }
        Ok(())
    }

    /// Everything of it that somebody chose, as text: what leaves.
    #[must_use]
    pub fn words(&self) -> String {
        let texts = [
            &self.repository,
            &self.reference,
            &self.base,
            &self.path,
            &self.query,
            &self.gist,
        ];
        let mut words: Vec<String> = texts.into_iter().flatten().cloned().collect();
        words.extend(self.lines.map(|(first, last)| format!("{first}-{last}")));
        words.extend(self.number.map(|n| n.to_string()));
        words.extend(self.page.map(|n| n.to_string()));
        words.join(" ")
    }
}

impl std::fmt::Display for Github {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.op.name(), self.words())
    }
}

fn repository_name(text: &str) -> Result<(), String> {
    let bad = || Err("repository is owner/name".to_owned());
    let Some((owner, name)) = text.split_once('/') else {
        return bad();
    };
    let owner_fits = (1..=39).contains(&owner.len())
        && owner.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        && !owner.starts_with('-');
    let name_fits = (1..=100).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && !matches!(name, "." | "..");
    if owner_fits && name_fits { Ok(()) } else { bad() }
}

/// The rules of git-check-ref-format, as far as they concern an address.
fn reference_name(text: &str) -> Result<(), &'static str> {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    if text.is_empty() || text.len() > MAX_REF {
        return Err("has 1 to 255 bytes");
    }
    if text.chars().any(forbidden)
        || text.contains("..")
        || text.contains("@{")
        || text.starts_with(['/', '-', '.'])
        || text.ends_with(['/', '.'])
        || text.split('/').any(|part| part.is_empty() || part.starts_with('.'))
    {
        return Err("is no name of a branch, a tag or a commit");
    }
    Ok(())
}

fn path_name(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > MAX_PATH {
        return Err(format!("path has 1 to {MAX_PATH} bytes"));
    }
    if text.chars().any(|c| c.is_control() || c == '\\') || text.split('/').any(|part| matches!(part, "" | "." | ".."))
    {
        return Err("path is relative to the repository, without `.`, `..` and empty parts".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
