//! Addresses of GitHub's pages, gists and raw files, as the operations that say the same.

use picktwo_policies::outgoing::Target;
use picktwo_wire::github::{Github, Op};

/// The operation for an address; none if it is another page, which is fetched like any other.
pub(super) fn operation(url: &str) -> Option<Github> {
    let target = Target::parse(url).ok()?;
    if target.port != if target.tls { 443 } else { 80 } {
        return None;
    }
    let path_and_query = target.path_and_query();
    let (path, query) = path_and_query.split_once('?').unwrap_or((&path_and_query, ""));
    let parts: Vec<String> = path
        .split('/')
        .filter(|p| !p.is_empty())
        .map(decoded)
        .collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let github = match target.host.as_str() {
        "github.com" | "www.github.com" => page(&parts, query)?,
        "gist.github.com" | "gist.githubusercontent.com" => gist(&parts)?,
        "raw.githubusercontent.com" => match parts.as_slice() {
            [owner, name, "refs", "heads" | "tags", reference, path @ ..] | [owner, name, reference, path @ ..]
                if !path.is_empty() =>
            {
                file(owner, name, reference, path)
            }
            _ => return None,
        },
        _ => return None,
    };
    github.check().is_ok().then_some(github)
}

fn of(op: Op, owner: &str, name: &str) -> Github {
    Github {
        repository: Some(format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(name))),
        ..Github::new(op)
    }
}

fn file(owner: &str, name: &str, reference: &str, path: &[&str]) -> Github {
    Github {
        reference: Some(reference.to_owned()),
        path: Some(path.join("/")),
        ..of(Op::File, owner, name)
    }
}

/// Names that are no owner's: what GitHub shows of itself.
const PAGES: &[&str] = &[
    "about",
    "account",
    "apps",
    "blog",
    "codespaces",
    "collections",
    "contact",
    "customer-stories",
    "enterprise",
    "events",
    "explore",
    "features",
    "issues",
    "join",
    "login",
    "marketplace",
    "new",
    "notifications",
    "orgs",
    "organizations",
    "pricing",
    "pulls",
    "readme",
    "search",
    "security",
    "sessions",
    "settings",
    "site",
    "sponsors",
    "stars",
    "topics",
    "trending",
    "users",
    "watching",
];

fn page(parts: &[&str], query: &str) -> Option<Github> {
    let [owner, name, rest @ ..] = parts else { return None };
    if PAGES.contains(owner) {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let with_number = |op, text: &str| {
        Some(Github {
            number: Some(number(text)?),
            ..of(op, owner, name)
        })
    };
    let with_ref = |op, reference: &str| Github {
        reference: Some(reference.to_owned()),
        ..of(op, owner, name)
    };
    // What is listed otherwise than by default is another question than the operation answers.
    let plain = |github: Github| query.is_empty().then_some(github);
    match rest {
        [] => plain(of(Op::Readme, owner, name)),
        ["blob" | "raw" | "blame", reference, path @ ..] if !path.is_empty() => {
            Some(file(owner, name, reference, path))
        }
        ["tree", reference] => Some(with_ref(Op::Tree, reference)),
        ["tree", reference, path @ ..] => Some(Github {
            path: Some(path.join("/")),
            ..with_ref(Op::Tree, reference)
        }),
        ["commit", commit] => Some(with_ref(
            Op::Commit,
            commit.trim_end_matches(".patch").trim_end_matches(".diff"),
        )),
        ["commits"] => plain(of(Op::Commits, owner, name)),
        ["commits", reference] => plain(with_ref(Op::Commits, reference)),
        ["commits", reference, path @ ..] => plain(Github {
            path: Some(path.join("/")),
            ..with_ref(Op::Commits, reference)
        }),
        ["compare", range] => {
            let (base, head) = range.split_once("...").or_else(|| range.split_once(".."))?;
            Some(Github {
                base: Some(base.to_owned()),
                ..with_ref(Op::Compare, head)
            })
        }
        ["issues"] => plain(of(Op::Issues, owner, name)),
        ["issues", n] => with_number(Op::Issue, n),
        ["pulls"] => plain(of(Op::Prs, owner, name)),
        ["pull", n] => match n.strip_suffix(".diff").or_else(|| n.strip_suffix(".patch")) {
            Some(n) => with_number(Op::PrDiff, n),
            None => with_number(Op::Pr, n),
        },
        ["pull", n, "files" | "changes"] => with_number(Op::PrFiles, n),
        ["pull", n, "commits"] => with_number(Op::Pr, n),
        ["releases"] => plain(of(Op::Releases, owner, name)),
        ["releases", "tag", tag @ ..] if !tag.is_empty() => Some(with_ref(Op::Releases, &tag.join("/"))),
        ["tags"] => plain(of(Op::Tags, owner, name)),
        ["actions"] => plain(of(Op::Runs, owner, name)),
        ["actions", "runs", n] => with_number(Op::Run, n),
        ["actions", "runs", _, "job", n] => with_number(Op::Log, n),
        _ => None,
    }
}

fn gist(parts: &[&str]) -> Option<Github> {
    let id = match parts {
        [id] => id,
        [_, id, ..] => id,
        [] => return None,
    };
    Some(Github {
        gist: Some((*id).to_owned()),
        ..Github::new(Op::Gist)
    })
}

/// A part of a path without percent encoding; none if it is not text.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |b: u8| char::from(b).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_gists_and_raw_files_become_operations() {
        for (url, words) in [
            ("https://github.com/octo/widgets", "readme octo/widgets"),
            ("https://www.github.com/octo/widgets.git", "readme octo/widgets"),
            (
                "https://github.com/octo/widgets/blob/main/src/a%20b/lib.rs#L3",
                "file octo/widgets main src/a b/lib.rs",
            ),
            (
                "https://github.com/octo/widgets/raw/v1.0/README.md",
                "file octo/widgets v1.0 README.md",
            ),
            (
                "https://github.com/octo/widgets/tree/main/docs",
                "tree octo/widgets main docs",
            ),
            (
                "https://github.com/octo/widgets/commit/0a1b2c3d",
                "commit octo/widgets 0a1b2c3d",
            ),
            (
                "https://github.com/octo/widgets/commits/main/src",
                "commits octo/widgets main src",
            ),
            (
                "https://github.com/octo/widgets/compare/v1...v2",
                "compare octo/widgets v2 v1",
            ),
            ("https://github.com/octo/widgets/issues", "issues octo/widgets"),
            (
                "https://github.com/octo/widgets/issues/12#issuecomment-1",
                "issue octo/widgets 12",
            ),
            ("https://github.com/octo/widgets/pull/7", "pr octo/widgets 7"),
            ("https://github.com/octo/widgets/pull/7.diff", "pr-diff octo/widgets 7"),
            (
                "https://github.com/octo/widgets/pull/7/files",
                "pr-files octo/widgets 7",
            ),
            (
                "https://github.com/octo/widgets/releases/tag/v1.0",
                "releases octo/widgets v1.0",
            ),
            ("https://github.com/octo/widgets/actions/runs/99", "run octo/widgets 99"),
            (
                "https://github.com/octo/widgets/actions/runs/99/job/123",
                "log octo/widgets 123",
            ),
            (
                "https://raw.githubusercontent.com/octo/widgets/main/src/lib.rs",
                "file octo/widgets main src/lib.rs",
            ),
            (
                "https://raw.githubusercontent.com/octo/widgets/refs/heads/main/a",
                "file octo/widgets main a",
            ),
            ("https://gist.github.com/octo/ab12cd34", "gist ab12cd34"),
            (
                "https://gist.githubusercontent.com/octo/ab12cd34/raw/0f/x.py",
                "gist ab12cd34",
            ),
        ] {
            assert_eq!(operation(url).map(|g| g.to_string()).as_deref(), Some(words), "{url}");
        }
    }

    #[test]
    fn other_pages_and_other_hosts_do_not() {
        for url in [
            "https://github.com/",
            "https://github.com/octo",
            "https://github.com/features/actions",
            "https://github.com/orgs/octo",
            "https://github.com/octo/widgets/wiki",
            "https://github.com/octo/widgets/issues?q=is%3Aclosed",
            "https://github.com/octo/widgets/issues/new",
            "https://github.com/octo/widgets/blob/main/%2e%2e/%2e%2e/user",
            "https://github.com/octo/widgets/blob/main/a%0ab",
            "https://github.com/octo/widgets/tree/a%2F..%2Fb",
            "https://github.com:8443/octo/widgets",
            "https://github.com.evil.example/octo/widgets",
            "https://evil.example/github.com/octo/widgets",
            "https://docs.github.com/en/rest",
            "https://gist.github.com/",
            "https://gist.github.com/octo",
        ] {
            assert_eq!(operation(url), None, "{url}");
        }
    }
}
