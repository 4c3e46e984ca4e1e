//! Requests to GitHub, written from typed operations: `GET` only, paths of this side's making. The token goes along where the operation
//! is on one repository; where redirects lead, it never does.

use super::exchange::{Answer, Ask, Called, Failure, Line, Upstream};
use super::serve::Apis;
use hyper::Method;
use picktwo_wire::apis::Service;
use picktwo_wire::github::{Github, Op};
use serde::Deserialize;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use url::Url;

const JSON: &str = "application/vnd.github+json";
const RAW: &str = "application/vnd.github.raw+json";
const DIFF: &str = "application/vnd.github.diff";
/// Entries of one page of a list.
const PAGE: &str = "50";
/// Redirects of one request: a renamed repository, then a place of storage.
const REDIRECTS: usize = 3;

/// How long a repository that was seen to be public counts as that.
const PUBLIC: Duration = Duration::from_secs(600);

/// One request of an operation.
struct Step {
    url: Url,
    accept: &'static str,
}

/// What a repository says about who may read it.
#[derive(Deserialize)]
struct Visibility {
    private: bool,
}

impl Apis {
    /// Does an operation: its requests one after the other, until one is not answered as it should.
    pub(super) async fn github(
        &self,
        github: &Github,
        private: bool,
        room: u64,
        called: &mut Called,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Failure> {
        github.check().map_err(|why| Failure::new("internal", why))?;
        let (line, upstream) = self.upstream(Service::Github)?;
        let credentials = upstream.has_key() && uses_token(github);
        if credentials && !private && github.op != Op::Repo && !self.is_known_public(github) {
            let (owner, name) = github.repository().unwrap_or_default();
            let step = Step {
                url: upstream.at(["repos", owner, name]),
                accept: JSON,
            };
            let answer = self.step(line, upstream, &step, true, room, called).await?;
            if answer.head.status != 200 {
                answers.push(answer);
                return Ok(());
            }
            public(&answer, github)?;
            self.remember_public(github);
        }
        let mut left = room;
        for step in steps(upstream, github) {
            let answer = self.step(line, upstream, &step, credentials, left, called).await?;
            if github.op == Op::Repo && credentials && !private && answer.head.status == 200 {
                public(&answer, github)?;
            }
            left = left.saturating_sub(answer.body.len() as u64);
            let done = answer.head.status != 200;
            answers.push(answer);
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Whether a repository was seen to be public a short time ago.
    fn is_known_public(&self, github: &Github) -> bool {
        let known = self.public.lock().unwrap_or_else(PoisonError::into_inner);
        let name = github.repository.as_deref().unwrap_or("").to_ascii_lowercase();
        known.get(&name).is_some_and(|seen| seen.elapsed() < PUBLIC)
    }

    fn remember_public(&self, github: &Github) {
        let mut known = self.public.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, seen| seen.elapsed() < PUBLIC);
        known.insert(
            github.repository.as_deref().unwrap_or("").to_ascii_lowercase(),
            Instant::now(),
        );
    }

    /// One request, and where it is redirected to.
    async fn step(
        &self,
        line: Line<'_>,
        upstream: &Upstream,
        step: &Step,
        credentials: bool,
        room: u64,
        called: &mut Called,
    ) -> Result<Answer, Failure> {
        let mut ask = Ask {
            method: Method::GET,
            url: step.url.clone(),
            accept: step.accept,
            body: None,
            credentials,
        };
        for _ in 0..REDIRECTS {
            let answer = upstream.exchange(&self.pool, line, &ask, room, called).await?;
            let Some(location) = &answer.location else {
                return Ok(answer);
            };
            let to = ask
                .url
                .join(location)
                .map_err(|_| Failure::new("redirect", "GitHub redirects to something that is no address"))?;
            if upstream.covers(&to) {
                ask.url = to;
                continue;
            }
            return self.stored(&to, room, called).await;
        }
        Err(Failure::new(
            "redirect",
            format!("GitHub redirects more than {REDIRECTS} times"),
        ))
    }

    /// What lies at a place of storage: asked for without the token, and only where the policy expects it.
    async fn stored(&self, to: &Url, room: u64, called: &mut Called) -> Result<Answer, Failure> {
        let host = to.host_str().unwrap_or("").to_owned();
        let Some((index, storage)) = self.storage.iter().enumerate().find(|(_, s)| s.covers(to)) else {
            return Err(Failure::new(
                "redirect",
                format!("GitHub redirects to {host}, which is none of `storage` in [github]; it was not followed"),
            ));
        };
        let ask = Ask {
            method: Method::GET,
            url: to.clone(),
            accept: "*/*",
            body: None,
            credentials: false,
        };
        let line = Line {
            index: self.upstreams.len() + index,
            host: storage.is_pattern().then_some(host.as_str()),
        };
        let place =
            Upstream::bare(to).ok_or_else(|| Failure::new("redirect", "GitHub redirects to no usable address"))?;
        let answer = place.exchange(&self.pool, line, &ask, room, called).await?;
        if answer.location.is_some() {
            return Err(Failure::new(
                "redirect",
                format!("{host} redirects once more; it was not followed"),
            ));
        }
        Ok(answer)
    }
}

/// Whether an operation is one on a repository, where the token may go. Searches of all of GitHub are made as anybody would make them:
/// with the token they would show what only its owner may read.
fn uses_token(github: &Github) -> bool {
    github.repository.is_some()
}

/// Refuses a repository that not everybody may read.
fn public(answer: &Answer, github: &Github) -> Result<(), Failure> {
    let visibility: Visibility = serde_json::from_slice(&answer.body)
        .map_err(|_| Failure::new("answer", "GitHub does not say whether the repository is public"))?;
    if visibility.private {
        let name = github.repository.as_deref().unwrap_or("the repository");
        return Err(Failure::new(
            "private-repository",
            format!("{name} is private: the person's policy has to name it (`private` in [github])"),
        ));
    }
    Ok(())
}

/// The requests of an operation whose arguments were checked.
fn steps(upstream: &Upstream, github: &Github) -> Vec<Step> {
    let (owner, name) = github.repository().unwrap_or_default();
    let number = github.number.unwrap_or(0).to_string();
    let reference = github.reference.as_deref();
    let page = github.page.map(|p| p.to_string());
    let with = |segments: &[&str], pairs: &[(&str, Option<&str>)], accept| {
        let mut url = upstream.at(segments.iter().copied());
        let present: Vec<(&str, &str)> = pairs.iter().filter_map(|(k, v)| Some((*k, (*v)?))).collect();
        if !present.is_empty() {
            url.query_pairs_mut().extend_pairs(present);
        }
        Step { url, accept }
    };
    let repo = |rest: &[&str], pairs: &[(&str, Option<&str>)]| {
        let segments: Vec<&str> = ["repos", owner, name].iter().chain(rest).copied().collect();
        with(&segments, pairs, JSON)
    };
    let list = [("per_page", Some(PAGE)), ("page", page.as_deref())];
    let state = ("state", github.state.map(|s| s.name()));
    let path: Vec<&str> = github.path.iter().flat_map(|p| p.split('/')).collect();
    let head = reference.unwrap_or("HEAD");
    match github.op {
        Op::Repo => vec![repo(&[], &[])],
        Op::Readme => vec![repo(&["readme"], &[("ref", reference)])],
        Op::Tree => vec![repo(&["git", "trees", head], &[("recursive", Some("1"))])],
        Op::File => {
            let segments: Vec<&str> = ["repos", owner, name, "contents"].into_iter().chain(path).collect();
            vec![with(&segments, &[("ref", reference)], RAW)]
        }
        Op::Commit => vec![repo(&["commits", head], &[])],
        Op::Commits => vec![repo(
            &["commits"],
            &[("sha", reference), ("path", github.path.as_deref()), list[0], list[1]],
        )],
        Op::Compare => {
            let range = format!("{}...{head}", github.base.as_deref().unwrap_or("HEAD"));
            vec![repo(&["compare", &range], &[])]
        }
        Op::Issue => vec![
            repo(&["issues", &number], &[]),
            repo(&["issues", &number, "comments"], &list),
        ],
        Op::Issues => vec![repo(&["issues"], &[state, list[0], list[1]])],
        Op::Pr => vec![
            repo(&["pulls", &number], &[]),
            repo(&["issues", &number, "comments"], &list),
        ],
        Op::Prs => vec![repo(&["pulls"], &[state, list[0], list[1]])],
        Op::PrFiles => vec![repo(&["pulls", &number, "files"], &list)],
        Op::PrDiff => vec![with(&["repos", owner, name, "pulls", &number], &[], DIFF)],
        Op::PrComments => vec![
            repo(&["pulls", &number, "reviews"], &list),
            repo(&["pulls", &number, "comments"], &list),
        ],
        Op::Checks => vec![
            repo(&["commits", head, "check-runs"], &[("per_page", Some(PAGE))]),
            repo(&["commits", head, "status"], &[("per_page", Some(PAGE))]),
        ],
        Op::Releases => match reference {
            Some(tag) => vec![repo(&["releases", "tags", tag], &[])],
            None => vec![repo(&["releases"], &[("per_page", Some("10")), list[1]])],
        },
        Op::Tags => vec![repo(&["tags"], &list)],
        Op::Runs => vec![repo(&["actions", "runs"], &[("branch", reference), list[0], list[1]])],
        Op::Run => vec![
            repo(&["actions", "runs", &number], &[]),
            repo(&["actions", "runs", &number, "jobs"], &[("per_page", Some(PAGE))]),
        ],
        Op::Log => vec![repo(&["actions", "jobs", &number, "logs"], &[])],
        Op::Snapshot => match reference {
            Some(reference) => vec![repo(&["tarball", reference], &[])],
            None => vec![repo(&["tarball"], &[])],
        },
        Op::Gist => vec![with(&["gists", github.gist.as_deref().unwrap_or("")], &[], JSON)],
        Op::SearchIssues | Op::SearchCode | Op::SearchRepositories => {
            let what = match github.op {
                Op::SearchIssues => "issues",
                Op::SearchCode => "code",
                _ => "repositories",
            };
            let words = words(github);
            vec![with(&["search", what], &[("q", Some(&words)), list[0], list[1]], JSON)]
        }
    }
}

/// The words of a search. Where the token goes along, a qualifier could name another repository that it may read: there are none then but
/// those that are written here.
fn words(github: &Github) -> String {
    let query = github.query.as_deref().unwrap_or("");
    let Some(repository) = &github.repository else {
        return match github.state {
            Some(state) if state.name() != "all" => format!("{query} state:{}", state.name()),
            _ => query.to_owned(),
        };
    };
    let mut words = format!("{} repo:{repository}", query.replace([':', '"', '(', ')'], " "));
    if let Some(state) = github.state.filter(|s| s.name() != "all") {
        words.push_str(&format!(" state:{}", state.name()));
    }
    // A path with a blank would be read as two words.
    if let Some(path) = github.path.as_deref().filter(|p| !p.contains([' ', '"', ':'])) {
        words.push_str(&format!(" path:{path}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use picktwo_wire::apis::Api;

    fn upstream() -> Upstream {
        let api = Api {
            service: Service::Github,
            base: "https://api.github.com".to_owned(),
            key: "ghp_x".to_owned(),
        };
        Upstream::new(&api).unwrap_or_else(|e| panic!("{e}"))
    }

    fn full(op: Op) -> Github {
        let (needs, _) = op.arguments();
        let mut github = Github::new(op);
        for argument in needs {
            match argument.name() {
                "repository" => github.repository = Some("octo/widgets".to_owned()),
                "ref" => github.reference = Some("feature/x".to_owned()),
                "base" => github.base = Some("v1.0".to_owned()),
                "path" => github.path = Some("src/a b/lib.rs".to_owned()),
                "number" => github.number = Some(7),
                "query" => github.query = Some("widget limit".to_owned()),
                "gist" => github.gist = Some("ab12cd".to_owned()),
                other => panic!("{other}"),
            }
        }
        github.check().unwrap_or_else(|e| panic!("{op:?}: {e}"));
        github
    }

    #[test]
    fn every_operation_asks_below_its_repository_or_for_what_anybody_may_see() {
        let upstream = upstream();
        for op in Op::ALL {
            let github = full(op);
            let steps = steps(&upstream, &github);
            assert!((1..=2).contains(&steps.len()), "{op:?}");
            for step in steps {
                let url = step.url.as_str();
                let rest = url
                    .strip_prefix("https://api.github.com/")
                    .unwrap_or_else(|| panic!("{url}"));
                let below = rest.strip_prefix("repos/octo/widgets");
                let own = below.is_some_and(|r| r.is_empty() || r.starts_with(['/', '?']));
                let open = rest.starts_with("search/") || rest.starts_with("gists/ab12cd");
                assert!(own || open, "{op:?}: {url}");
                if open && uses_token(&github) {
                    assert!(url.contains("repo%3Aocto%2Fwidgets"), "{op:?}: {url}");
                }
            }
        }
    }

    #[test]
    fn arguments_stay_in_their_place() {
        let upstream = upstream();
        let url = |github: &Github| steps(&upstream, github)[0].url.to_string();
        assert_eq!(
            url(&full(Op::File)),
            "https://api.github.com/repos/octo/widgets/contents/src/a%20b/lib.rs"
        );
        assert_eq!(
            url(&full(Op::Commit)),
            "https://api.github.com/repos/octo/widgets/commits/feature%2Fx"
        );
        let odd = Github {
            path: Some("a?b#c%2f/d&e".to_owned()),
            reference: Some("x&y#z".to_owned()),
            ..full(Op::File)
        };
        assert_eq!(
            url(&odd),
            "https://api.github.com/repos/octo/widgets/contents/a%3Fb%23c%252f/d&e?ref=x%26y%23z"
        );
    }

    #[test]
    fn a_search_with_the_token_names_one_repository_only() {
        let github = Github {
            query: Some("x repo:me/secret (user:me OR org:us) \"is:private\"".to_owned()),
            ..full(Op::SearchCode)
        };
        assert_eq!(
            words(&github),
            "x repo me/secret  user me OR org us   is private  repo:octo/widgets"
        );
    }
}
