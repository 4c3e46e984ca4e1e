use super::*;
use crate::diagnostics::{Diagnostics, Kind, Origin};

fn layer(kind: Kind, text: &str) -> Layer {
    parse(text, Origin::new(kind, "policy.toml")).unwrap_or_else(|d| panic!("{d}"))
}

fn policy(selected: Option<&str>, layers: &[(Kind, &str)]) -> Result<Policy, Diagnostics> {
    effective(&stack(selected, layers.iter().map(|(k, t)| layer(*k, t)).collect())?)
}

fn bad(text: &str) -> String {
    parse(text, Origin::new(Kind::User, "policy.toml"))
        .expect_err(text)
        .to_string()
}

#[test]
fn the_design_s_example_is_read() {
    let text = r#"
version = 1
extends = ["claude"]
[files]
read = ["~/.cargo/registry"]
write = []
hide = [".env"]
protect = [".github/workflows/"]
[env]
pass = ["LANG", "TERM"]
set = { CI = "1" }
[model.anthropic]
upstream = "https://api.anthropic.com"
key = "env:ANTHROPIC_API_KEY"
allow = ["POST /v1/messages", "POST /v1/messages/count_tokens"]
[retrieval]
private = ["127.0.0.1:8080"]
urls = "known"
hosts = ["docs.example.org"]
distiller = "extractive"
[[command]]
name = "sort"
flags = ["-b"]
match = ["sort -rnk2 a.txt"]
[[test]]
command = "git push"
expect = "refused"
"#;
    let p = policy(None, &[(Kind::User, text)]).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(p.profile.name.value, "claude");
    assert_eq!(p.mode.value, Mode::ReadOnly);
    assert_eq!(
        p.retrieval.private[0].value,
        HostPort {
            host: "127.0.0.1".into(),
            port: 8080
        }
    );
    assert!(
        p.retrieval.hosts.iter().any(|h| h.value == "docs.rs")
            && p.retrieval.hosts.iter().any(|h| h.value == "docs.example.org")
    );
    let read = p.files.read.last().expect("read");
    assert_eq!(
        (read.value.as_str(), read.place.to_string()),
        ("~/.cargo/registry", "policy.toml:5".into())
    );
    assert_eq!(p.env.set["CI"].value, "1");
    assert_eq!(
        p.models["anthropic"].key.as_ref().map(|k| k.value.clone()),
        Some(KeySource::Env("ANTHROPIC_API_KEY".into()))
    );
    assert_eq!((p.commands.len(), p.tests.len()), (1, 1));
    assert!(
        p.env.passes("LC_ALL")
            && p.env.passes("TERM")
            && !p.env.passes("AWS_SECRET_ACCESS_KEY")
            && !p.env.passes("PATHX")
    );
}

#[test]
fn every_built_in_policy_is_valid_and_complete() {
    for (name, text) in BUILTIN {
        parse(text, Origin::new(Kind::Builtin, *name)).unwrap_or_else(|d| panic!("{d}"));
    }
    for (selected, want) in [
        (None, "generic"),
        (Some("generic"), "generic"),
        (Some("claude"), "claude"),
        (Some("codex"), "codex"),
    ] {
        let p = policy(selected, &[]).unwrap_or_else(|d| panic!("{d}"));
        assert_eq!(p.profile.name.value, want);
        for m in &p.profile.models {
            assert!(p.models.contains_key(&m.value), "{want} speaks to {}", m.value);
        }
    }
    assert_eq!(profile_for("/opt/x/claude"), Some("claude"));
    assert_eq!(profile_for("codex"), Some("codex"));
    assert_eq!(profile_for("bash"), None);
}

#[test]
fn the_selected_profile_is_stronger_than_an_extended_one() {
    let p = policy(Some("codex"), &[(Kind::User, "version = 1\nextends = [\"claude\"]\n")])
        .unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(p.profile.name.value, "codex");
    let p = policy(None, &[(Kind::User, "version = 1\nextends = [\"claude\"]\n")]).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(p.profile.name.value, "claude");
}

#[test]
fn the_last_word_wins_and_says_where_it_was_said() {
    let p = policy(
        None,
        &[
            (Kind::System, "version = 1\nmode = \"edit\"\n[limits]\nparallel = 2\n"),
            (Kind::User, "version = 1\nmode = \"read-only\"\n"),
        ],
    )
    .unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(
        (p.mode.value, p.mode.place.line(), p.mode.place.kind()),
        (Mode::ReadOnly, 2, Kind::User)
    );
    assert_eq!(
        (p.limits.parallel.value, p.limits.parallel.place.kind()),
        (2, Kind::System)
    );
    assert_eq!(p.limits.redirects.place.kind(), Kind::Builtin);
}

#[test]
fn a_project_may_only_tighten() {
    let tight = "version = 1\nmode = \"read-only\"\n[files]\nhide = [\".env\"]\nprotect = [\"ci/\"]\n[retrieval]\nurls = \"known\"\nraw = false\n\
                 [retrieval.budget]\nrequests = 5\n[limits]\nparallel = 1\nprocesses = 64\nmemory_bytes = 268435456\n[[test]]\ncommand = \"x\"\n";
    let p = policy(
        None,
        &[(Kind::User, "version = 1\nmode = \"edit\"\n"), (Kind::Project, tight)],
    )
    .unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(
        (p.mode.value, p.retrieval.budget.requests.value, p.limits.parallel.value),
        (Mode::ReadOnly, 5, 1)
    );
    for (text, line) in [
        ("mode = \"edit\"", 2),
        ("[files]\nread = [\"/home\"]", 3),
        ("[files]\nwrite = [\"/tmp/x\"]", 3),
        ("[env]\npass = [\"AWS_*\"]", 3),
        ("[env.set]\nANTHROPIC_BASE_URL = \"http://127.0.0.1\"", 3),
        ("[model.anthropic]\nmodels = [\"x\"]", 2),
        ("[retrieval]\nprivate = [\"127.0.0.1:1\"]", 3),
        ("[retrieval]\nhosts = [\"evil.example\"]", 3),
        ("[retrieval]\nports = [22]", 3),
        ("[retrieval]\nroots = [\"ca.pem\"]", 3),
        ("[retrieval]\nurls = \"any\"", 3),
        ("[retrieval]\nurls = \"seen\"", 3),
        ("[retrieval]\nraw = true", 3),
        ("[retrieval.budget]\nrequests = 100000", 3),
        ("[limits]\nredirects = 20", 3),
        ("[limits]\nmemory_percent = 76", 3),
        ("[limits]\nprocesses = 4097", 3),
        ("[limits]\ndisk_percent = 100", 3),
        ("[limits]\nopen_files = 65537", 3),
        ("[limits]\nshm_bytes = 1073741825", 3),
        ("extends = [\"codex\"]", 2),
        ("[profile]\nname = \"x\"", 3),
        ("[[command]]\nname = \"sh\"", 2),
    ] {
        let found = policy(None, &[(Kind::Project, &format!("version = 1\n{text}\n"))]).expect_err(text);
        assert_eq!(found.problems.len(), 1, "{found}");
        assert_eq!(found.problems[0].place.line(), line, "{found}");
        assert!(found.problems[0].message.contains("may only tighten"), "{found}");
    }
}

#[test]
fn problems_point_at_the_key() {
    let text = bad("version = 1\n[files]\nraed = [\"x\"]\n");
    for part in [
        "unknown key `raed` in `files`",
        "policy.toml:3:1",
        "raed = [\"x\"]",
        "^^^^",
        "did you mean `read`?",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let found = parse(
        "version = 1\nmdoe = \"edit\"\n[retrieval]\nurls = \"knwon\"\nports = [0, \"x\"]\nprivate = [\"nohost\"]\n[model.x]\nupstream = \"ftp://a\"\n",
        Origin::new(Kind::User, "policy.toml"),
    )
    .expect_err("problems");
    let lines: Vec<usize> = found.problems.iter().map(|p| p.place.line()).collect();
    assert_eq!(lines, [2, 4, 5, 5, 6, 7, 8], "{found}");
}

#[test]
fn bad_values_are_refused() {
    for (text, want) in [
        ("", "`version` is missing"),
        ("version = 2", "unknown version"),
        ("version = 1\nmode = true", "wrong kind"),
        ("version = 1\nmode = \"Edit\"", "did you mean \"edit\"?"),
        ("version = 1\n[files]\nread = \"x\"", "needed is an array"),
        ("version = 1\n[files]\nread = [\"~user/x\"]", "no usable path"),
        ("version = 1\n[files]\nprotect = [\"../x\"]", "component `.` or `..`"),
        (
            "version = 1\n[env]\npass = [\"*\"]",
            "no name of an environment variable",
        ),
        (
            "version = 1\n[env.set]\n\"A B\" = \"1\"",
            "no name of an environment variable",
        ),
        (
            "version = 1\n[model.anthropic]\nupstream = \"http://api.example.com\"",
            "loopback only",
        ),
        (
            "version = 1\n[model.anthropic]\nupstream = \"https://u:p@api.example.com\"",
            "user or password",
        ),
        (
            "version = 1\n[model.anthropic]\nkey = \"sk-ant-secret\"",
            "names no source",
        ),
        (
            "version = 1\n[model.anthropic]\nallow = [\"DELETE /v1\"]",
            "GET or POST",
        ),
        (
            "version = 1\n[model.antropic]\nupstream = \"https://x.example\"",
            "did you mean `model.anthropic`",
        ),
        ("version = 1\n[limits]\nredirects = 99", "from 0 to 20"),
        ("version = 1\n[limits]\nredirects = -1", "from 0 to 20"),
        ("version = 1\n[limits]\nmemory_bytes = 1", "from 67108864 to"),
        ("version = 1\n[limits]\nmemory_percent = 101", "from 1 to 100"),
        ("version = 1\n[limits]\nprocesses = 0", "from 16 to 4000000"),
        (
            "version = 1\n[limits]\nopen_files = \"many\"",
            "needed is a whole number",
        ),
        ("version = 1\n[limits]\ntmp_byte = 1048576", "did you mean `tmp_bytes`?"),
        ("version = 1\nversion = 1", "is not valid TOML"),
        ("version = 1\nx", "is not valid TOML"),
        (
            "version = 1\n[profile]\nname = \"x\"\nargs = [[\"{nope}\"]]",
            "unknown placeholder",
        ),
        (
            "version = 1\n[profile]\nname = \"x\"\nstate = [\"../x\"]",
            "private HOME",
        ),
        ("version = 1\n[retrieval]\ndistiller = { model = \"a\" }", "incomplete"),
    ] {
        let found = bad(text);
        assert!(found.contains(want), "{text:?} gave\n{found}");
    }
    let found = policy(None, &[(Kind::User, "version = 1\nextends = [\"cladue\"]\n")]).expect_err("unknown");
    assert!(found.to_string().contains("did you mean \"claude\"?"), "{found}");
    let found = policy(
        None,
        &[(
            Kind::User,
            "version = 1\n[model.mine]\nprotocol = \"openai\"\nkey = \"env:X\"\n",
        )],
    )
    .expect_err("no upstream");
    assert!(found.to_string().contains("no `upstream`"), "{found}");
    // A known name has its usual address: another source of the key is all that has to be written.
    let text = "version = 1\n[model.openai]\nkey = \"env:X\"\n";
    let found = policy(None, &[(Kind::User, text)]).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(found.models["openai"].upstream.url, "https://api.openai.com");
}

#[test]
fn a_key_does_not_follow_to_another_upstream() {
    let p = policy(
        Some("claude"),
        &[(
            Kind::User,
            "version = 1\n[model.anthropic]\nupstream = \"http://127.0.0.1:9\"\n",
        )],
    )
    .unwrap_or_else(|d| panic!("{d}"));
    let m = &p.models["anthropic"];
    assert_eq!(
        (m.upstream.host.as_str(), m.upstream.port, m.upstream.tls),
        ("127.0.0.1", 9, false)
    );
    assert_eq!(m.key, None);
    assert!(!m.allow.is_empty());
}

#[test]
fn placeholders_fill_arguments_and_files() {
    let p = policy(Some("claude"), &[]).unwrap_or_else(|d| panic!("{d}"));
    let mut values = Placeholders {
        workspace: Some("/w/\"x\"".into()),
        key: Some("k".repeat(30)),
        picktwo: Some("/p".into()),
        ..Placeholders::default()
    };
    assert_eq!(p.profile.arguments(&values), ["--disallowedTools=WebFetch,WebSearch"]);
    values.mcp = Some("/run/picktwo/mcp.json".into());
    values.session = Some("s1".into());
    assert_eq!(
        p.profile.arguments(&values)[..3],
        ["--mcp-config", "/run/picktwo/mcp.json", "--strict-mcp-config"]
    );
    let mcp = p.profile.files[0].fill(&values).expect("filled");
    assert_eq!(
        mcp,
        r#"{"mcpServers":{"picktwo":{"command":"/p","args":["mcp"],"env":{"PICKTWO_SESSION":"s1"}}}}"#
    );
    let seed = p.profile.seed[0].fill(&values).expect("filled");
    assert!(
        seed.contains(r#""/w/\"x\"":{"hasTrust"#) && seed.contains(&format!("[\"{}\"]", "k".repeat(20))),
        "{seed}"
    );
    assert_eq!(values.expand("{gateway}/v1"), None);
    assert_eq!(values.expand("{other} {"), Some("{other} {".into()));
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    let text = include_str!("../../../docs/POLICY.md");
    let examples: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|t| t.split("```").next())
        .collect();
    assert!(examples.len() >= 2);
    for example in examples {
        policy(None, &[(Kind::User, example)]).unwrap_or_else(|d| panic!("{d}"));
    }
    // The error it shows is the one that is made.
    let shown = text
        .split("```text\n")
        .nth(1)
        .and_then(|t| t.split("```").next())
        .expect("an error");
    let file = "/home/you/.config/picktwo/policy.toml";
    let made = parse(
        "version = 1\n[files]\nraed = [\"~/.cargo/registry\"]\n",
        Origin::new(Kind::User, file),
    )
    .expect_err("unknown key");
    assert_eq!(shown.trim(), made.to_string().trim());
}

#[test]
fn search_takes_a_provider_and_a_key() {
    let search = |text: &str| {
        let text = format!("version = 1\n[retrieval.search]\n{text}\n");
        policy(None, &[(Kind::User, &text)]).map(|p| p.retrieval.search)
    };
    let brave = search("provider = \"brave\"\nkey = \"env:BRAVE_KEY\"").unwrap_or_else(|d| panic!("{d}"));
    let brave = brave.expect("a search");
    assert_eq!(brave.upstream.url, "https://api.search.brave.com/res/v1");
    assert_eq!(brave.key.map(|k| k.value), Some(KeySource::Env("BRAVE_KEY".into())));
    let own = search("provider = \"searxng\"\nupstream = \"http://127.0.0.1:8888/\"").unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(own.expect("a search").key, None);
    for (text, why) in [
        ("key = \"env:X\"", "has no `provider`"),
        ("provider = \"kagi\"", "has no `key`"),
        ("provider = \"searxng\"", "has no `upstream`"),
    ] {
        let error = search(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    for (text, why) in [
        ("provider = \"bing\"", "brave"),
        (
            "provider = \"searxng\"\nupstream = \"http://searx.example/\"",
            "loopback only",
        ),
        ("provider = \"exa\"\nkey = \"12345\"", "names no source"),
        ("host = \"x\"", "unknown key `host`"),
    ] {
        let error = bad(&format!("version = 1\n[retrieval.search]\n{text}\n"));
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_search_key_stays_with_the_place_it_was_named_for() {
    let first = "version = 1\n[retrieval.search]\nprovider = \"brave\"\nkey = \"env:A\"\n";
    for (second, key) in [
        ("provider = \"brave\"", Some("A")),
        ("upstream = \"https://brave.example.org\"\nkey = \"env:B\"", Some("B")),
        ("provider = \"searxng\"\nupstream = \"https://searx.example.org\"", None),
    ] {
        let second = format!("version = 1\n[retrieval.search]\n{second}\n");
        let merged = policy(None, &[(Kind::System, first), (Kind::User, &second)]).unwrap_or_else(|d| panic!("{d}"));
        let found = merged.retrieval.search.expect("a search").key.map(|k| k.value);
        assert_eq!(found, key.map(|k| KeySource::Env(k.into())), "{second}");
    }
    let moved = "version = 1\n[retrieval.search]\nupstream = \"https://elsewhere.example.org\"\n";
    let error = policy(None, &[(Kind::System, first), (Kind::User, moved)]).expect_err("no key");
    assert!(error.to_string().contains("has no `key`"), "{error}");
    let project = policy(None, &[(Kind::User, first), (Kind::Project, moved)]).expect_err("a project");
    assert!(project.to_string().contains("only tighten"), "{project}");
}

#[test]
fn github_takes_a_token_and_names_private_repositories() {
    let github = |text: &str| {
        let text = format!("version = 1\n[github]\n{text}\n");
        policy(None, &[(Kind::User, &text)]).map(|p| p.github)
    };
    let plain = github("").unwrap_or_else(|d| panic!("{d}"));
    assert!(plain.key.is_none() && plain.upstream.is_none() && !plain.names("o", "n"));
    let own =
        github("key = \"env:GITHUB_TOKEN\"\nprivate = [\"Octo/*\", \"me/notes\"]").unwrap_or_else(|d| panic!("{d}"));
    assert!(own.names("octo", "widgets") && own.names("me", "Notes"));
    assert!(!own.names("octopus", "widgets") && !own.names("me", "other") && !own.names("me", "*x"));
    for (text, why) in [
        ("private = [\"widgets\"]", "owner/name"),
        ("private = [\"*/*\"]", "owner/name"),
        ("private = [\"o/n/x\"]", "owner/name"),
        ("key = \"ghp_0\"", "names no source"),
        ("upstream = \"http://github.example/\"", "loopback only"),
        ("storage = [\"https://*\"]", "whose host"),
        ("storage = [\"https://*.com\"]", "whose host"),
        ("storage = [\"https://*.a.example/x\"]", "without a path"),
        ("storage = [\"https://*.*.example.org\"]", "one *"),
        ("token = \"x\"", "unknown key `token`"),
    ] {
        let error = bad(&format!("version = 1\n[github]\n{text}\n"));
        assert!(error.contains(why), "{text}: {error}");
    }
    let first = "version = 1\n[github]\nkey = \"env:A\"\n";
    let moved = "version = 1\n[github]\nupstream = \"https://github.example.org/api/v3\"\n";
    let merged = policy(None, &[(Kind::System, first), (Kind::User, moved)]).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(
        merged.github.key, None,
        "a token goes to another place than it was named for"
    );
    for text in [
        "key = \"env:A\"",
        "private = [\"o/n\"]",
        "storage = [\"https://a.example.org\"]",
    ] {
        let text = format!("version = 1\n[github]\n{text}\n");
        let project = policy(None, &[(Kind::Project, &text)]).expect_err("a project");
        assert!(project.to_string().contains("only tighten"), "{project}");
    }
}
