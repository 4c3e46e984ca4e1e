//! `picktwo github` and `picktwo fetch` of GitHub's pages, against servers that answer in the shapes of GitHub's documentation: what is
//! asked of whom, where the token goes, and what each refusal says.

use picktwo_tests::{
    http::{Request, Responder, Server},
    processes::{self, Needle, Search},
    run::{self, Finished, wait_until},
    scene::Scene,
};
use serde_json::{Value, json};
use std::{
    io,
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(90);
const TOKEN: &str = "picktwo-test-github-token-7Hd2Kq9xVb71Lm";
const JSON: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];

/// Status, headers, body, cause, and a word of the reason.
type Case = (
    u16,
    &'static [(&'static str, &'static str)],
    Vec<u8>,
    &'static str,
    &'static str,
);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// A server and what it was asked.
struct Api {
    server: Server,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Api {
    fn start<H>(answer: H) -> Self
    where
        H: Fn(&Request, &mut Responder<'_>) -> io::Result<()> + Send + Sync + 'static,
    {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let server = Server::start(move |request, responder| {
            seen.lock().unwrap().push(request.clone());
            answer(request, responder)
        })
        .unwrap();
        Self { server, asked }
    }

    fn fixed(status: u16, headers: &'static [(&'static str, &'static str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self::start(move |_, responder| responder.full(status, headers, &body))
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    fn targets(&self) -> Vec<String> {
        self.asked().into_iter().map(|r| r.target).collect()
    }
}

fn policy(api: &Api, more: &str) -> String {
    format!(
        "version = 1\n[limits]\nfetch_seconds = 6\nwire_bytes = 400000\n[github]\nupstream = \"{}\"\n{more}",
        api.server.url()
    )
}

const WITH_TOKEN: &str = "key = \"env:GITHUB_TOKEN\"\n";

fn github(scene: &Scene, args: &[&str]) -> Finished {
    let mut command = scene.picktwo(["github", "--json"].iter().chain(args));
    command.env("GITHUB_TOKEN", TOKEN);
    run::run(command, LIMIT).unwrap()
}

fn reply(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()))
}

/// What GitHub answers for octo/widgets; `storage` is where it keeps logs and archives.
fn octo(request: &Request, responder: &mut Responder<'_>, storage: &str) -> io::Result<()> {
    let path = request.path();
    let rest = path.strip_prefix("/repos/octo/widgets").unwrap_or(path);
    let issue =
        json!({"number": 12, "title": "Spindle stops", "state": "open", "user": {"login": "ann"}, "body": "At 42."});
    let commit = json!({"sha": "0a1b2c3d", "commit": {"message": "Spin", "author": {"name": "Ann", "date": "2026-01-01T00:00:00Z"}},
        "files": [{"filename": "a.rs", "status": "added", "additions": 1, "deletions": 0, "patch": "+spin()"}]});
    let run = json!({"id": 99, "name": "ci", "status": "completed", "conclusion": "failure", "head_branch": "main"});
    let body = match rest {
        "" => json!({"full_name": "octo/widgets", "private": false, "description": "Spins widgets."}),
        "/readme" => json!({"path": "README.md", "encoding": "base64", "content": "IyBXaWRnZXRzCgpBdCBtb3N0IDQyLgo="}),
        "/git/trees/HEAD" => json!({"truncated": false, "tree": [{"path": "src/lib.rs", "type": "blob", "size": 9}]}),
        "/contents/src/lib.rs" => {
            let raw = &[("content-type", "application/vnd.github.raw+json; charset=utf-8")];
            return responder.full(200, raw, b"// one\nfn spin() {}\n// three\n");
        }
        "/commits/0a1b2c3d" => commit,
        "/commits" => json!([commit]),
        "/compare/v1...v2" => {
            json!({"status": "ahead", "ahead_by": 1, "behind_by": 0, "commits": [commit], "files": []})
        }
        "/issues/12" | "/pulls/12" if request.header("accept") == Some("application/vnd.github.diff") => {
            return responder.full(200, &[("content-type", "text/plain")], b"diff --git a/a b/a\n+spin()\n");
        }
        "/issues/12" | "/pulls/12" => issue,
        "/issues" | "/pulls" => json!([issue]),
        "/issues/12/comments" | "/pulls/12/comments" => {
            json!([{"user": {"login": "bob"}, "body": "Seen at 43, too.", "path": "a.rs"}])
        }
        "/pulls/12/reviews" => json!([{"user": {"login": "eve"}, "state": "APPROVED", "body": "Fine."}]),
        "/pulls/12/files" => commit["files"].clone(),
        "/commits/main/check-runs" => {
            json!({"total_count": 1, "check_runs": [{"name": "build", "conclusion": "failure"}]})
        }
        "/commits/main/status" => json!({"statuses": []}),
        "/releases" => json!([{"tag_name": "v2", "name": "Two", "body": "Spins faster."}]),
        "/tags" => json!([{"name": "v2", "commit": {"sha": "0a1b2c3d"}}]),
        "/actions/runs" => json!({"total_count": 1, "workflow_runs": [run]}),
        "/actions/runs/99" => run,
        "/actions/runs/99/jobs" => json!({"jobs": [{"id": 5, "name": "test", "conclusion": "failure", "steps": []}]}),
        "/actions/jobs/5/logs" | "/tarball" => {
            let kept = if rest == "/tarball" { "archive" } else { "log" };
            let location = format!("{storage}/{kept}?sig=permission");
            return responder.full(302, &[("location", &location)], b"");
        }
        "/gists/ab12" => {
            json!({"description": "d", "owner": {"login": "ann"}, "files": {"a.py": {"filename": "a.py", "content": "spin()"}}})
        }
        "/search/code" => {
            json!({"total_count": 1, "items": [{"path": "src/lib.rs", "html_url": "https://github.com/octo/widgets/blob/x/src/lib.rs"}]})
        }
        "/search/issues" => json!({"total_count": 1, "items": [issue]}),
        "/search/repositories" => {
            json!({"total_count": 1, "items": [{"full_name": "octo/widgets", "html_url": "https://github.com/octo/widgets"}]})
        }
        _ => return responder.full(404, JSON, b"{\"message\": \"Not Found\"}"),
    };
    responder.full(200, JSON, body.to_string().as_bytes())
}

fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let content = b"fn spin() { limit(42) }\n";
    let mut header = tar::Header::new_gnu();
    header.set_path("octo-widgets-0a1b/src/lib.rs").unwrap();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &content[..]).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn every_operation_is_asked_with_the_token_and_read() {
    let scene = scene();
    let kept = archive();
    let storage = Api::start(move |request, responder| match request.path() {
        "/archive" => responder.full(200, &[("content-type", "application/x-gzip")], &kept),
        _ => responder.full(200, &[("content-type", "text/plain")], b"2026-01-01 spin() failed\n"),
    });
    let place = storage.server.url();
    let api = Api::start(move |request, responder| octo(request, responder, &place));
    let more = format!("{WITH_TOKEN}storage = [\"{}\"]\n", storage.server.url());
    scene.policy(&policy(&api, &more)).unwrap();
    let o = "octo/widgets";
    for (args, word) in [
        (vec!["repo", o], "Spins widgets."),
        (vec!["readme", o], "At most 42."),
        (vec!["tree", o], "src/lib.rs (9 bytes)"),
        (vec!["file", o, "src/lib.rs", "--lines", "2-2"], "fn spin() {}"),
        (vec!["commit", o, "0a1b2c3d"], "+spin()"),
        (vec!["commits", o], "0a1b2c3d"),
        (vec!["compare", o, "v1...v2"], "Compared: ahead"),
        (vec!["issue", o, "12"], "Seen at 43, too."),
        (vec!["issues", o, "--state", "all"], "#12 Spindle stops"),
        (vec!["pr", o, "12"], "Seen at 43, too."),
        (vec!["prs", o], "#12 Spindle stops"),
        (vec!["pr-files", o, "12"], "+spin()"),
        (vec!["pr-diff", o, "12"], "diff --git a/a b/a"),
        (vec!["pr-comments", o, "12"], "Review (approved) by eve"),
        (vec!["checks", o, "main"], "build: failure"),
        (vec!["releases", o], "Spins faster."),
        (vec!["tags", o], "v2 (0a1b2c3d)"),
        (vec!["runs", o], "run 99 ci"),
        (vec!["run", o, "99"], "Job 5 test: failure"),
        (vec!["log", o, "5"], "spin() failed"),
        (vec!["snapshot", o, "--question", "what is the limit?"], "limit(42)"),
        (vec!["gist", "ab12"], "spin()"),
        (vec!["search-code", o, "spin"], "src/lib.rs"),
        (vec!["search-issues", "spin"], "#12 Spindle stops"),
        (vec!["search-repositories", "widgets"], "octo/widgets"),
    ] {
        let before = api.asked().len();
        let finished = github(&scene, &args);
        assert_eq!(finished.code(), 0, "{args:?}: {}", finished.all());
        assert!(finished.stdout.contains(word), "{args:?}: {}", finished.all());
        assert!(!finished.all().contains("permission"), "{args:?}: {}", finished.all());
        let asked = api.asked().split_off(before);
        let open = matches!(args[0], "gist" | "search-issues" | "search-repositories");
        for request in &asked {
            assert_eq!(request.method, "GET", "{args:?}");
            let sent = request.header("authorization");
            let expected = format!("Bearer {TOKEN}");
            assert_eq!(
                sent,
                (!open).then_some(expected.as_str()),
                "{args:?} {}",
                request.target
            );
        }
        // Before the token reads a repository, it is seen to be public.
        assert_eq!(
            !open,
            asked[0].path() == "/repos/octo/widgets",
            "{args:?}: {}",
            asked[0].target
        );
    }
    // Where logs and archives lie, nobody learns the token.
    assert_eq!(storage.targets(), ["/log?sig=permission", "/archive?sig=permission"]);
    for request in storage.asked() {
        assert!(
            !Needle::new("token", TOKEN).is_in(&request.bytes()),
            "{}",
            request.target
        );
    }
}

#[test]
fn a_private_repository_is_read_only_where_the_policy_names_it() {
    let scene = scene();
    let api = Api::start(|request, responder| {
        let body = match request.path() {
            "/repos/me/notes" => json!({"full_name": "me/notes", "private": true}),
            _ => json!([{"name": "v1", "commit": {"sha": "0a"}}]),
        };
        responder.full(200, JSON, body.to_string().as_bytes())
    });
    scene.policy(&policy(&api, WITH_TOKEN)).unwrap();
    for args in [["tags", "me/notes"], ["repo", "me/notes"]] {
        let finished = github(&scene, &args);
        assert_eq!(finished.code(), 1, "{}", finished.all());
        assert_eq!(reply(&finished)["cause"], "private-repository", "{}", finished.all());
    }
    assert_eq!(api.targets(), ["/repos/me/notes", "/repos/me/notes"]);
    scene
        .policy(&policy(&api, &format!("{WITH_TOKEN}private = [\"me/*\"]\n")))
        .unwrap();
    let finished = github(&scene, &["tags", "me/notes"]);
    assert_eq!(finished.code(), 0, "{}", finished.all());
}

#[test]
fn redirects_lead_to_a_renamed_repository_or_to_named_places_only() {
    let scene = scene();
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let away = format!("http://{}/x", trap.local_addr().unwrap());
    let api = Api::start(move |request, responder| match request.path() {
        "/repos/old/widgets/tags" => responder.full(301, &[("location", "/repositories/7/tags")], b""),
        "/repositories/7/tags" => responder.full(200, JSON, b"[{\"name\": \"v1\", \"commit\": {\"sha\": \"0a\"}}]"),
        "/repos/a/loop/tags" => responder.full(301, &[("location", "/repos/a/loop/tags")], b""),
        "/repos/a/user/tags" => responder.full(302, &[("location", "/user")], b""),
        "/repos/a/metadata/tags" => responder.full(302, &[("location", "http://169.254.169.254/latest")], b""),
        "/repos/a/other/tags" => responder.full(302, &[("location", "https://evil.example/x")], b""),
        _ => responder.full(302, &[("location", &away)], b""),
    });
    scene.policy(&policy(&api, "")).unwrap();
    let finished = github(&scene, &["tags", "old/widgets"]);
    assert_eq!(finished.code(), 0, "{}", finished.all());
    for (repository, word) in [
        ("a/loop", "more than"),
        ("a/user", "none of `storage`"),
        ("a/metadata", "169.254.169.254"),
        ("a/other", "evil.example"),
        ("a/private", "127.0.0.1"),
    ] {
        let finished = github(&scene, &["tags", repository]);
        let reply = reply(&finished);
        assert_eq!(reply["cause"], "redirect", "{repository}: {reply}");
        assert!(
            reply["reason"].as_str().unwrap().contains(word),
            "{repository}: {reply}"
        );
    }
    assert!(trap.accept().is_err(), "a redirect was followed");
}

#[test]
fn each_way_in_which_github_refuses_has_its_own_sentence() {
    let scene = scene();
    const SPENT: &[(&str, &str)] = &[
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "9999999999"),
    ];
    const SOON: &[(&str, &str)] = &[
        ("retry-after", "21"),
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "1"),
    ];
    const NEEDS: &[(&str, &str)] = &[("x-accepted-github-permissions", "contents=read")];
    let echo = format!("[{{\"name\": \"{TOKEN}\"}}]");
    let cases: Vec<Case> = vec![
        (401, JSON, b"{}".to_vec(), "github-key", "does not know the token (401)"),
        (
            403,
            SPENT,
            b"{}".to_vec(),
            "rate-limit",
            "limit of 60 requests is used up (403)",
        ),
        (403, SOON, b"{}".to_vec(), "rate-limit", "try again in 21 s"),
        (429, SOON, b"{}".to_vec(), "rate-limit", "(429): try again in 21 s"),
        (403, NEEDS, b"{}".to_vec(), "forbidden", "a token with contents=read"),
        (404, JSON, b"{}".to_vec(), "not-found", "the token may not read it"),
        (502, JSON, b"{}".to_vec(), "github", "does not work right now (502)"),
        (200, JSON, b"<html>".to_vec(), "answer", "not of the form"),
        (200, JSON, "[".repeat(100_000).into_bytes(), "answer", "not of the form"),
        (200, JSON, vec![b' '; 500_000], "too-large", "more than 400000 bytes"),
        (200, JSON, echo.into_bytes(), "key-echo", "holds the key"),
    ];
    for (status, headers, body, cause, word) in cases {
        let api = Api::fixed(status, headers, body);
        scene
            .policy(&policy(&api, &format!("{WITH_TOKEN}private = [\"octo/widgets\"]\n")))
            .unwrap();
        let finished = github(&scene, &["tags", "octo/widgets"]);
        assert_eq!(finished.code(), 1, "{status} {cause}: {}", finished.all());
        let reply = reply(&finished);
        assert_eq!(reply["cause"], cause, "{reply}");
        assert!(reply["reason"].as_str().unwrap().contains(word), "{reply}");
        assert!(!finished.all().contains(TOKEN), "{}", finished.all());
    }
    let api = Api::start(|_, _| {
        std::thread::sleep(LIMIT);
        Ok(())
    });
    scene.policy(&policy(&api, "")).unwrap();
    let finished = github(&scene, &["tags", "octo/widgets"]);
    assert_eq!(reply(&finished)["cause"], "timeout", "{}", finished.all());

    scene.policy(&policy(&api, WITH_TOKEN)).unwrap();
    let finished = scene.run(["github", "tags", "octo/widgets"], LIMIT).unwrap();
    assert!(finished.all().contains("GITHUB_TOKEN is not set"), "{}", finished.all());
}

#[test]
fn arguments_that_are_none_and_words_that_must_not_leave_are_not_sent() {
    let scene = scene();
    let api = Api::fixed(200, JSON, b"[]".to_vec());
    scene.policy(&policy(&api, WITH_TOKEN)).unwrap();
    for args in [
        vec!["tags", "octo"],
        vec!["tags", "octo/../user"],
        vec!["tags", "octo/widgets?x=1"],
        vec!["file", "octo/widgets", "../../user"],
        vec!["file", "octo/widgets", "a", "--ref", "x..y"],
        vec!["issue", "octo/widgets", "-1"],
        vec!["tags", "octo/widgets", "--lines", "1-2"],
        vec!["delete", "octo/widgets"],
    ] {
        let finished = github(&scene, &args);
        assert_eq!(finished.code(), 125, "{args:?}: {}", finished.all());
    }
    for args in [
        vec!["search-issues", TOKEN],
        vec!["file", "octo/widgets", TOKEN],
        vec!["readme", "octo/widgets", "--question", TOKEN],
    ] {
        let finished = github(&scene, &args);
        assert_eq!(finished.code(), 3, "{args:?}: {}", finished.all());
        assert_eq!(reply(&finished)["rule"], "secret", "{args:?}");
    }
    assert!(api.asked().is_empty());
}

#[test]
fn pages_of_github_are_read_by_the_operation_that_says_the_same() {
    let scene = scene();
    let api = Api::start(|request, responder| octo(request, responder, ""));
    scene.policy(&policy(&api, "")).unwrap();
    for (url, path, word) in [
        (
            "https://github.com/octo/widgets/issues/12",
            "/repos/octo/widgets/issues/12",
            "Seen at 43",
        ),
        (
            "https://github.com/octo/widgets/blob/main/src/lib.rs#L2",
            "/repos/octo/widgets/contents/src/lib.rs",
            "fn spin()",
        ),
        (
            "https://github.com/octo/widgets",
            "/repos/octo/widgets/readme",
            "At most 42.",
        ),
    ] {
        let before = api.asked().len();
        let finished = scene.run(["fetch", "--json", url], LIMIT).unwrap();
        assert_eq!(finished.code(), 0, "{url}: {}", finished.all());
        assert!(finished.stdout.contains(word), "{url}: {}", finished.all());
        assert_eq!(api.asked()[before].path(), path, "{url}");
        assert_eq!(api.asked()[before].header("authorization"), None, "{url}");
    }
    // Other pages are fetched like any other, or not.
    for (url, rule) in [
        ("https://github.com/octo/widgets/wiki", "unknown-host"),
        ("https://github.com/octo/widgets/issues?q=is%3Aclosed", "unknown-host"),
    ] {
        let before = api.asked().len();
        let finished = scene.run(["fetch", "--json", url], LIMIT).unwrap();
        assert_eq!(finished.code(), 3, "{url}: {}", finished.all());
        assert_eq!(reply(&finished)["rule"], rule, "{url}");
        assert_eq!(api.asked().len(), before, "{url}");
    }
}

/// While an operation is under way, the token is in the retrievers' gateway and nowhere else.
#[test]
fn the_token_is_in_the_gateway_only() {
    let scene = scene();
    let (asked, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (seen, wait) = (Arc::clone(&asked), Arc::clone(&go));
    let api = Api::start(move |request, responder| {
        seen.store(true, Ordering::Release);
        wait_until(LIMIT, || wait.load(Ordering::Acquire));
        octo(request, responder, "")
    });
    let file = scene.home().join(".config/picktwo/token");
    scene.write(&file, format!("{TOKEN}\n")).unwrap();
    scene
        .policy(&policy(&api, &format!("key = \"file:{}\"\n", file.display())).replace("seconds = 6", "seconds = 60"))
        .unwrap();
    let script = format!(
        "cat {} 2>&1; picktwo github readme octo/widgets; echo read=$?",
        file.display()
    );
    let running = run::start(scene.picktwo(["run", "--", "sh", "-c", &script]), b"").unwrap();
    assert!(
        wait_until(LIMIT, || asked.load(Ordering::Acquire)),
        "GitHub was never asked"
    );
    let needles = [Needle::new("token", TOKEN)];
    let (mut gateway, mut others) = (Search::default(), Search::default());
    for process in processes::family(running.pid()) {
        match process.title.as_str() {
            "picktwo: retriever-gateway" => gateway.process(&process, &needles),
            _ if process.pid == running.pid() => {}
            _ => others.process(&process, &needles),
        }
    }
    assert!(!others.has("token") && others.memory > 0, "{:?}", others.found);
    if nix::unistd::geteuid().is_root() {
        assert!(gateway.has("token"), "the control: {:?}", gateway.unreadable);
    }
    go.store(true, Ordering::Release);
    let finished = running.finish(LIMIT).unwrap();
    assert!(
        finished.all().contains("read=0") && finished.all().contains("At most 42."),
        "{}",
        finished.all()
    );
    assert!(!finished.all().contains(TOKEN), "{}", finished.all());
}
