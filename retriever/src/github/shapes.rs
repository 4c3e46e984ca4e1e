//! The JSON of each operation as a page. What is not there is left out: GitHub adds fields, and answers without some.

use super::page::Builder;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use picktwo_wire::github::Op;
use serde_json::Value;

/// Entries of one list.
const MAX_ENTRIES: usize = 200;
/// What stands below a heading that would have nothing below it, and be lost.
const NOTHING: &str = "(no text)";
/// Files of a tree that are named.
const MAX_FILES: usize = 5000;

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |v, name| v.get(name))
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or("")
}

fn number(value: &Value, path: &str) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

fn entries<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], |a| &a[..a.len().min(MAX_ENTRIES)])
}

/// `name: value` of those that have one.
fn facts(page: &mut Builder, facts: &[(&str, String)]) {
    let known: Vec<String> = facts
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    page.text(&known.join("; "));
}

fn shown(number: Option<i64>) -> String {
    number.map_or(String::new(), |n| n.to_string())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

/// Writes the answer of an operation; none if it is not of its form. `more`: the answers after the first.
pub(super) fn write(op: Op, main: &Value, more: &[Value], page: &mut Builder) -> Option<()> {
    match op {
        Op::Repo => repository(main, page),
        Op::Readme => readme(main, page),
        Op::Tree => tree(main, page),
        Op::Commit => commit(main, page),
        Op::Commits => list(main, page, commit_line),
        Op::Compare => compare(main, page),
        Op::Issue | Op::Pr => issue(main, more, page),
        Op::Issues | Op::Prs => list(main, page, issue_line),
        Op::PrFiles => {
            main.as_array()?;
            files(main.as_array()?, page);
            Some(())
        }
        Op::PrComments => reviews(main, more, page),
        Op::Checks => checks(main, more, page),
        Op::Releases => releases(main, page),
        Op::Tags => list(main, page, |tag, page| {
            page.item(&format!("{} ({})", text(tag, "name"), text(tag, "commit.sha")), None);
        }),
        Op::SearchIssues => found(main, page, issue_line),
        Op::SearchRepositories => found(main, page, |repository, page| {
            let line = format!(
                "{}: {} ({} stars, {}, updated {})",
                text(repository, "full_name"),
                text(repository, "description"),
                shown(number(repository, "stargazers_count")),
                text(repository, "language"),
                text(repository, "updated_at")
            );
            page.item(&line, Some(text(repository, "html_url")));
        }),
        Op::SearchCode => found(main, page, |file, page| {
            page.item(text(file, "path"), Some(text(file, "html_url")));
        }),
        Op::Runs => {
            let runs = at(main, "workflow_runs")?;
            runs.as_array()?;
            list(runs, page, run_line)
        }
        Op::Run => run(main, more, page),
        Op::Gist => gist(main, page),
        Op::File | Op::PrDiff | Op::Log | Op::Snapshot => None,
    }
}

fn list(main: &Value, page: &mut Builder, entry: fn(&Value, &mut Builder)) -> Option<()> {
    let all = main.as_array()?;
    all.iter().take(MAX_ENTRIES).for_each(|e| entry(e, page));
    if all.is_empty() {
        page.text("There are none.");
    }
    Some(())
}

fn found(main: &Value, page: &mut Builder, entry: fn(&Value, &mut Builder)) -> Option<()> {
    let items = at(main, "items")?;
    items.as_array()?;
    page.text(&format!("Found: {}", shown(number(main, "total_count"))));
    if at(main, "incomplete_results").and_then(Value::as_bool) == Some(true) {
        page.flag("incomplete", 1, "GitHub gave up on the search before its end");
    }
    entries(main, "items").iter().for_each(|e| entry(e, page));
    Some(())
}

fn repository(main: &Value, page: &mut Builder) -> Option<()> {
    page.heading(1, main.get("full_name")?.as_str()?);
    page.text(text(main, "description"));
    let topics: Vec<&str> = entries(main, "topics").iter().filter_map(Value::as_str).collect();
    facts(
        page,
        &[
            ("language", text(main, "language").to_owned()),
            ("licence", text(main, "license.spdx_id").to_owned()),
            ("default branch", text(main, "default_branch").to_owned()),
            ("stars", shown(number(main, "stargazers_count"))),
            ("forks", shown(number(main, "forks_count"))),
            ("open issues", shown(number(main, "open_issues_count"))),
            ("size in KiB", shown(number(main, "size"))),
            ("pushed", text(main, "pushed_at").to_owned()),
            ("created", text(main, "created_at").to_owned()),
            ("topics", topics.join(", ")),
            ("forked from", text(main, "parent.full_name").to_owned()),
        ],
    );
    if at(main, "archived").and_then(Value::as_bool) == Some(true) {
        page.text("The repository is archived: it does not change any more.");
    }
    if !text(main, "homepage").is_empty() {
        page.item("home page", Some(text(main, "homepage")));
    }
    Some(())
}

fn readme(main: &Value, page: &mut Builder) -> Option<()> {
    let name = main.get("path")?.as_str()?;
    let content = decoded(main)?;
    page.heading(1, name);
    if name.to_ascii_lowercase().ends_with(".md") || !name.contains('.') {
        page.markdown(&content, 1);
    } else {
        page.lines(&content);
    }
    Some(())
}

/// The content of a file that is written in base64.
fn decoded(file: &Value) -> Option<String> {
    let content: String = file.get("content")?.as_str()?.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(content).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn tree(main: &Value, page: &mut Builder) -> Option<()> {
    let all = main.get("tree")?.as_array()?;
    page.heading(1, "Files");
    if at(main, "truncated").and_then(Value::as_bool) == Some(true) || all.len() > MAX_FILES {
        page.flag(
            "files-left-out",
            1,
            "there are more files than are listed: ask below a path",
        );
    }
    for entry in all.iter().take(MAX_FILES) {
        let path = text(entry, "path");
        match text(entry, "type") {
            "blob" => page.item(&format!("{path} ({} bytes)", shown(number(entry, "size"))), None),
            "commit" => page.item(&format!("{path} (a submodule)"), None),
            _ => {}
        }
    }
    Some(())
}

/// The entries of a directory.
pub(super) fn directory(path: &str, all: &[Value], page: &mut Builder) {
    page.heading(1, &format!("{path}/"));
    for entry in all.iter().take(MAX_FILES) {
        let size = match text(entry, "type") {
            "file" => format!("{} bytes", shown(number(entry, "size"))),
            other => other.to_owned(),
        };
        page.item(&format!("{} ({size})", text(entry, "path")), None);
    }
}

fn commit_line(commit: &Value, page: &mut Builder) {
    let line = format!(
        "{} {} {}: {}",
        text(commit, "sha"),
        text(commit, "commit.author.date"),
        text(commit, "commit.author.name"),
        first_line(text(commit, "commit.message"))
    );
    page.item(&line, Some(text(commit, "html_url")));
}

fn commit(main: &Value, page: &mut Builder) -> Option<()> {
    page.heading(1, &format!("Commit {}", main.get("sha")?.as_str()?));
    facts(
        page,
        &[
            ("author", text(main, "commit.author.name").to_owned()),
            ("date", text(main, "commit.author.date").to_owned()),
            ("added lines", shown(number(main, "stats.additions"))),
            ("removed lines", shown(number(main, "stats.deletions"))),
        ],
    );
    page.lines(text(main, "commit.message"));
    files(entries(main, "files"), page);
    Some(())
}

/// Changed files with their patches.
fn files(all: &[Value], page: &mut Builder) {
    for file in all.iter().take(MAX_ENTRIES) {
        let line = format!(
            "{} ({}, +{} -{})",
            text(file, "filename"),
            text(file, "status"),
            shown(number(file, "additions")),
            shown(number(file, "deletions"))
        );
        page.heading(2, &line);
        match text(file, "patch") {
            "" => page.text("No patch is shown: the file is binary, too large, or only renamed."),
            patch => page.lines(patch),
        }
    }
}

fn compare(main: &Value, page: &mut Builder) -> Option<()> {
    page.heading(1, &format!("Compared: {}", main.get("status")?.as_str()?));
    facts(
        page,
        &[
            ("commits ahead", shown(number(main, "ahead_by"))),
            ("commits behind", shown(number(main, "behind_by"))),
        ],
    );
    entries(main, "commits").iter().for_each(|c| commit_line(c, page));
    files(entries(main, "files"), page);
    Some(())
}

fn issue_line(issue: &Value, page: &mut Builder) {
    let labels: Vec<&str> = entries(issue, "labels").iter().map(|l| text(l, "name")).collect();
    let kind = if at(issue, "pull_request").is_some() {
        "pull request "
    } else {
        ""
    };
    let line = format!(
        "{kind}#{} {} [{}{}{}] by {}, {}",
        shown(number(issue, "number")),
        text(issue, "title"),
        text(issue, "state"),
        if labels.is_empty() { "" } else { ": " },
        labels.join(", "),
        text(issue, "user.login"),
        text(issue, "updated_at")
    );
    page.item(&line, Some(text(issue, "html_url")));
}

fn issue(main: &Value, more: &[Value], page: &mut Builder) -> Option<()> {
    let head = format!("#{} {}", main.get("number")?.as_i64()?, main.get("title")?.as_str()?);
    page.heading(1, &head);
    let labels: Vec<&str> = entries(main, "labels").iter().map(|l| text(l, "name")).collect();
    let merged = if text(main, "merged_at").is_empty() { "" } else { "yes" };
    facts(
        page,
        &[
            ("state", text(main, "state").to_owned()),
            ("merged", merged.to_owned()),
            ("by", text(main, "user.login").to_owned()),
            ("created", text(main, "created_at").to_owned()),
            ("closed", text(main, "closed_at").to_owned()),
            ("labels", labels.join(", ")),
            ("from", text(main, "head.label").to_owned()),
            ("into", text(main, "base.label").to_owned()),
            ("changed files", shown(number(main, "changed_files"))),
            ("comments", shown(number(main, "comments"))),
        ],
    );
    page.markdown(text(main, "body"), 1);
    for comment in more
        .iter()
        .flat_map(|m| m.as_array().into_iter().flatten())
        .take(MAX_ENTRIES)
    {
        said(comment, "Comment", page);
    }
    Some(())
}

/// What one person wrote, below a heading that says who it was.
fn said(comment: &Value, what: &str, page: &mut Builder) {
    let when = match text(comment, "created_at") {
        "" => text(comment, "submitted_at"),
        created => created,
    };
    let role = match text(comment, "author_association") {
        "" | "NONE" => String::new(),
        role => format!(" ({})", role.to_ascii_lowercase()),
    };
    page.heading(2, &format!("{what} by {}{role}, {when}", text(comment, "user.login")));
    page.code(text(comment, "diff_hunk"));
    match text(comment, "body") {
        "" => page.text(NOTHING),
        body => page.markdown(body, 2),
    }
}

fn reviews(main: &Value, more: &[Value], page: &mut Builder) -> Option<()> {
    for review in main.as_array()?.iter().take(MAX_ENTRIES) {
        let state = text(review, "state").to_ascii_lowercase().replace('_', " ");
        if !text(review, "body").is_empty() || state != "commented" {
            said(review, &format!("Review ({state})"), page);
        }
    }
    for comment in more
        .iter()
        .flat_map(|m| m.as_array().into_iter().flatten())
        .take(MAX_ENTRIES)
    {
        let line = number(comment, "line").map_or(String::new(), |l| format!(":{l}"));
        said(comment, &format!("On {}{line}", text(comment, "path")), page);
    }
    Some(())
}

fn checks(main: &Value, more: &[Value], page: &mut Builder) -> Option<()> {
    main.get("check_runs")?.as_array()?;
    page.heading(1, "Checks");
    for check in entries(main, "check_runs") {
        let outcome = match text(check, "conclusion") {
            "" => text(check, "status"),
            conclusion => conclusion,
        };
        let line = format!("{}: {outcome} {}", text(check, "name"), text(check, "output.title"));
        page.item(&line, Some(text(check, "html_url")));
    }
    for status in more.iter().flat_map(|m| entries(m, "statuses")) {
        let line = format!(
            "{}: {} {}",
            text(status, "context"),
            text(status, "state"),
            text(status, "description")
        );
        page.item(&line, Some(text(status, "target_url")));
    }
    Some(())
}

fn releases(main: &Value, page: &mut Builder) -> Option<()> {
    let all = match main {
        Value::Array(all) => all.as_slice(),
        Value::Object(_) => std::slice::from_ref(main),
        _ => return None,
    };
    if all.is_empty() {
        page.text("There are none.");
    }
    for release in all.iter().take(MAX_ENTRIES) {
        let kind = if at(release, "prerelease").and_then(Value::as_bool) == Some(true) {
            ", not final"
        } else {
            ""
        };
        let head = format!(
            "{} {} ({}{kind})",
            release.get("tag_name")?.as_str()?,
            text(release, "name"),
            text(release, "published_at")
        );
        page.heading(1, &head);
        match text(release, "body") {
            "" => page.text(NOTHING),
            body => page.markdown(body, 1),
        }
        for asset in entries(release, "assets") {
            let line = format!("{} ({} bytes)", text(asset, "name"), shown(number(asset, "size")));
            page.item(&line, None);
        }
    }
    Some(())
}

fn run_line(run: &Value, page: &mut Builder) {
    let outcome = match text(run, "conclusion") {
        "" => text(run, "status"),
        conclusion => conclusion,
    };
    let line = format!(
        "run {} {}: {} ({outcome}) on {} at {}, {}",
        shown(number(run, "id")),
        text(run, "name"),
        text(run, "display_title"),
        text(run, "head_branch"),
        text(run, "head_sha"),
        text(run, "created_at")
    );
    page.item(&line, Some(text(run, "html_url")));
}

fn run(main: &Value, more: &[Value], page: &mut Builder) -> Option<()> {
    main.get("id")?.as_i64()?;
    page.heading(1, &format!("Run {}", text(main, "name")));
    run_line(main, page);
    for job in more.iter().flat_map(|m| entries(m, "jobs")) {
        let outcome = match text(job, "conclusion") {
            "" => text(job, "status"),
            conclusion => conclusion,
        };
        page.heading(
            2,
            &format!("Job {} {}: {outcome}", shown(number(job, "id")), text(job, "name")),
        );
        if entries(job, "steps").is_empty() {
            page.text(NOTHING);
        }
        for step in entries(job, "steps") {
            let line = format!(
                "{} {}: {}",
                shown(number(step, "number")),
                text(step, "name"),
                text(step, "conclusion")
            );
            page.item(&line, None);
        }
    }
    Some(())
}

fn gist(main: &Value, page: &mut Builder) -> Option<()> {
    let files = main.get("files")?.as_object()?;
    page.heading(1, &format!("Gist of {}", text(main, "owner.login")));
    page.text(text(main, "description"));
    for file in files.values().take(MAX_ENTRIES) {
        page.heading(2, text(file, "filename"));
        let content = text(file, "content");
        if text(file, "language") == "Markdown" {
            page.markdown(content, 2);
        } else {
            page.lines(content);
        }
        if at(file, "truncated").and_then(Value::as_bool) == Some(true) {
            page.flag("files-left-out", 1, "a file of the gist is longer than GitHub shows");
        }
    }
    Some(())
}
