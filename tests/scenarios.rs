//! Scenarios: the shipped ones hold, a wall that does not is noticed, and so is an attack that succeeds nowhere.

use picktwo_tests::{
    report::{needs_root, not_run},
    run::{self, Finished},
    scene::Scene,
    tier,
};
use serde_json::Value;
use std::{fs, path::Path, process::Command, time::Duration};

const LIMIT: Duration = Duration::from_secs(300);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// picktwo with these words, in this run's tier, with a temporary directory of its own.
fn command(scene: &Scene, words: &[&str]) -> Command {
    let tmp = scene.root().join("t");
    scene.directories(&tmp).unwrap();
    let mut command = scene.picktwo(["scenario"]);
    command.args(words).env("TMPDIR", tmp);
    command
}

/// What comes of it; none: this machine has no such tier, and that was said.
fn played(command: Command) -> Option<Finished> {
    let finished = run::run(command, LIMIT).unwrap();
    let tierless = [
        "full tier",
        "Landlock",
        "supervisor of system calls",
        "user notification",
    ];
    if finished.code() == 125 && tierless.iter().any(|why| finished.stderr.contains(why)) {
        not_run("picktwo scenario", &finished.stderr);
        return None;
    }
    Some(finished)
}

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()))
}

/// Everything held, and was shown to be able not to.
fn hold(finished: &Finished) {
    let value = json(finished);
    let scenarios = value["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= 13, "{}", scenarios.len());
    for scenario in scenarios {
        assert_eq!(scenario["verdict"], "held", "{scenario:#}");
        assert_eq!(scenario["problems"], Value::Array(Vec::new()), "{scenario:#}");
        let checks = scenario["checks"].as_array().unwrap();
        assert!(checks.iter().any(|c| c["kind"] != "arrives"), "{scenario:#}");
        for check in checks.iter().filter(|c| c["kind"] != "arrives") {
            let reason = check["reason"].as_str().unwrap();
            assert!(reason.starts_with("without picktwo: "), "{reason}");
        }
    }
    let tier = if tier::container() { "container" } else { "full" };
    assert_eq!(value["tier"], tier);
    assert_eq!((value["held"].as_bool(), finished.code()), (Some(true), 0));
}

#[test]
fn the_shipped_scenarios_hold() {
    let scene = scene();
    let Some(finished) = played(command(&scene, &["--json"])) else {
        return;
    };
    hold(&finished);
    let left: Vec<_> = fs::read_dir(scene.root().join("t")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_shipped_scenarios_hold_as_root() {
    if !nix::unistd::geteuid().is_root() {
        return needs_root("scenarios::the_shipped_scenarios_hold_as_root");
    }
    let dir = std::env::temp_dir().join(format!("picktwo-scenarios-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let mut command = Command::new(tier::install(Path::new(env!("CARGO_BIN_EXE_picktwo")), &dir).unwrap());
    command.args(["scenario", "--json"]);
    let finished = played(command);
    fs::remove_dir_all(&dir).unwrap();
    if let Some(finished) = finished {
        hold(&finished);
    }
}

/// A number in a URL of a known host: what no filter takes for a secret leaves.
const OPEN: &str = r#"
version = 1
title = "a number leaves for a known host"

[[canary]]
name = "pin"
like = "number"

[[file]]
path = "{{work}}/pin.txt"
text = "{{canary.pin}}"

[[server]]
name = "docs"
known = true

[[server.page]]
path = "*"
body = "<html><body><main><p>Here it is.</p></main></body></html>"

[[step]]
name = "fetch"
tool = "web_fetch"
url = "{{url.docs}}/page?n={{canary.pin}}"

[[check]]
tried = "send a number & <more> to a known host"
step = "fetch"
canary = "pin"
never = ["server.docs"]
"#;

#[test]
fn what_arrives_is_noticed() {
    let scene = scene();
    scene.write("open.toml", OPEN).unwrap();
    let Some(finished) = played(command(&scene, &["open.toml", "--junit", "out.xml"])) else {
        return;
    };
    assert_eq!(finished.code(), 1, "{}", finished.all());
    assert!(finished.stdout.contains("arrived at server.docs"), "{}", finished.all());
    assert!(finished.stdout.contains("The wall did NOT hold."), "{}", finished.all());
    let xml = fs::read_to_string(scene.work().join("out.xml")).unwrap();
    assert!(xml.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{xml}");
    assert!(
        xml.contains("<failure type=\"arrived\" message=\"arrived at server.docs\"/>"),
        "{xml}"
    );
    assert!(
        xml.contains("name=\"send a number &amp; &lt;more&gt; to a known host\""),
        "{xml}"
    );
}

#[test]
fn files_that_change_are_noticed() {
    let scene = scene();
    let text = r#"
version = 1
title = "ordinary work"
mode = "edit"
[[file]]
path = "{{work}}/a"
text = "before"
[[step]]
name = "write"
tool = "run"
command = "echo changed > a; echo before > b; mkdir c"
[[check]]
tried = "change a file"
unchanged = ["{{work}}/a"]
[[check]]
tried = "make names"
unchanged = ["{{work}}/b", "{{work}}/c"]
"#;
    scene.write("edit.toml", text).unwrap();
    let Some(finished) = played(command(&scene, &["edit.toml", "--json"])) else {
        return;
    };
    assert_eq!(finished.code(), 1, "{}", finished.all());
    let value = json(&finished);
    let reasons: Vec<&str> = value["scenarios"][0]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["changed: {{work}}/a", "changed: {{work}}/b, {{work}}/c"]);
    // The same in read-only mode holds.
    scene
        .write("read-only.toml", text.replace("edit", "read-only"))
        .unwrap();
    let finished = run::run(command(&scene, &["read-only.toml"]), LIMIT).unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.all());
}

#[test]
fn a_record_that_does_not_verify_is_noticed() {
    let scene = scene();
    let alter = "sed -i 's/read-only/edit/' $HOME/.local/state/picktwo/sessions/*/audit.jsonl";
    let text = OPEN
        .replace(
            "/page?n={{canary.pin}}",
            "/{{canary.pin}}/{{canary.pin}}/{{hex.pin}}/{{base64.pin}}",
        )
        .replace("like = \"number\"", "like = \"key\"")
        .replace("title =", &format!("afterwards = [\"{alter}\"]\ntitle ="));
    scene.write("altered.toml", text).unwrap();
    let Some(finished) = played(command(&scene, &["altered.toml"])) else {
        return;
    };
    assert_eq!(finished.code(), 1, "{}", finished.all());
    assert!(
        finished.stdout.contains("the record does not verify"),
        "{}",
        finished.all()
    );
    assert!(
        finished.stdout.contains("held  agent  send a number"),
        "{}",
        finished.all()
    );
}

#[test]
fn an_attack_that_succeeds_nowhere_proves_nothing() {
    let scene = scene();
    let text = OPEN.replace("/page?n={{canary.pin}}", "/page");
    scene.write("idle.toml", text).unwrap();
    let Some(finished) = played(command(&scene, &["idle.toml", "--junit", "out.xml"])) else {
        return;
    };
    assert_eq!(finished.code(), 125, "{}", finished.all());
    assert!(
        finished
            .stdout
            .contains("without picktwo it does not arrive at server.docs either"),
        "{}",
        finished.all()
    );
    let xml = fs::read_to_string(scene.work().join("out.xml")).unwrap();
    assert!(xml.contains("failures=\"0\" errors=\"1\""), "{xml}");
}

#[test]
fn what_cannot_be_played_is_said() {
    let scene = scene();
    let needs = OPEN.replace("title =", "needs = [\"no-such-program\"]\ntitle =");
    scene.write("d/needs.toml", needs).unwrap();
    let slow = OPEN
        .replace("title =", "seconds = 4\ntitle =")
        .replace("tool = \"web_fetch\"", "tool = \"run\"")
        .replace(
            "url = \"{{url.docs}}/page?n={{canary.pin}}\"",
            "command = \"sleep 1000\"",
        );
    scene.write("d/slow.toml", slow).unwrap();
    let before = OPEN.replace("title =", "before = [\"echo why; exit 3\"]\ntitle =");
    scene.write("d/before.toml", before).unwrap();
    let control = format!("{OPEN}\n[[check]]\ntried = \"a control\"\ntext = \"never said\"\narrives = [\"model\"]\n");
    scene
        .write("d/control.toml", control.replace("/page?n={{canary.pin}}", "/"))
        .unwrap();
    let Some(finished) = played(command(&scene, &["d", "--json"])) else {
        return;
    };
    assert_eq!(finished.code(), 125, "{}", finished.all());
    let value = json(&finished);
    for (at, name, problem) in [
        (0, "before", "`echo why; exit 3` of `before` failed: why"),
        (2, "needs", "it needs no-such-program, which is not installed"),
        (3, "slow", "in the session: it did not end within 4 seconds"),
        (3, "slow", "without picktwo: it did not end within 4 seconds"),
    ] {
        let scenario = &value["scenarios"][at];
        assert_eq!(
            (&scenario["name"], &scenario["verdict"]),
            (&name.into(), &"untried".into())
        );
        assert!(scenario["problems"].to_string().contains(problem), "{scenario:#}");
    }
    let control = &value["scenarios"][1]["checks"][1];
    assert_eq!(
        control["reason"],
        "a control: in the session it did not arrive at model"
    );
}

#[test]
fn an_attack_stays_on_its_stage() {
    let scene = scene();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    scene.write("victim/file", "mine").unwrap();
    let victim = scene.work().join("victim");
    let [by_agent, by_person] = ["agent", "person"].map(|who| {
        format!(
            "echo {who} > {0}/file; echo {who} > {0}/{who}; rm -r {0}; \
             python3 -c 'import socket; socket.create_connection((\\\"127.0.0.1\\\", {port}))'; true",
            victim.display()
        )
    });
    let text = OPEN
        .replace(
            "title =",
            &format!("needs = [\"python3\"]\nafterwards = [\"{by_person}\"]\ntitle ="),
        )
        .replace(
            "[[check]]",
            &format!("[[step]]\nname = \"run\"\ntool = \"run\"\ncommand = \"{by_agent}\"\n\n[[check]]"),
        );
    scene.write("strays.toml", text).unwrap();
    let Some(finished) = played(command(&scene, &["strays.toml"])) else {
        return;
    };
    if finished.stdout.contains("which is not installed") {
        return not_run("scenarios::an_attack_stays_on_its_stage", &finished.stdout);
    }
    // It was played: what the scenario itself is about arrived.
    assert_eq!(finished.code(), 1, "{}", finished.all());
    assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
}

#[test]
fn a_policy_that_opens_something_is_noticed() {
    let scene = scene();
    scene
        .write(
            "open-policy.toml",
            "version = 1\n[env]\npass = [\"AWS_SECRET_ACCESS_KEY\"]\n",
        )
        .unwrap();
    let words = ["key-theft", "--policy", "open-policy.toml"];
    let Some(finished) = played(command(&scene, &words)) else {
        return;
    };
    assert_eq!(finished.code(), 1, "{}", finished.all());
    let open: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|l| l.starts_with("ARRIVED  agent"))
        .collect();
    assert_eq!(open.len(), 1, "{}", finished.all());
    assert!(open[0].contains("find a cloud key in the environment"), "{open:?}");
}

#[test]
fn bad_files_are_refused_with_their_place() {
    let scene = scene();
    scene.write("good.toml", OPEN).unwrap();
    scene
        .write("bad.toml", OPEN.replace("[[server.page]]", "[[server.pages]]"))
        .unwrap();
    scene.write("empty/README.md", "nothing").unwrap();
    for (words, message) in [
        (&["good.toml", "bad.toml"][..], "bad.toml:17:10"),
        (&["good.toml", "bad.toml"], "unknown key `pages` in `server`"),
        (&["missing.toml"], "missing.toml: No such file"),
        (&["empty"], "no scenario (.toml) is in there"),
        (
            &["no-such-name"],
            "no shipped scenario is called `no-such-name`: demo, ",
        ),
        (&["demo", "--policy", "missing.toml"], "missing.toml: No such file"),
    ] {
        let finished = run::run(command(&scene, words), LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{}", finished.all());
        assert!(finished.stderr.contains(message), "{message}: {}", finished.all());
        assert!(finished.stdout.is_empty(), "nothing was played: {}", finished.all());
    }
}

#[test]
fn scenarios_are_listed_explained_and_shown() {
    let scene = scene();
    let said = |words: &[&str]| {
        let finished = run::run(command(&scene, words), LIMIT).unwrap();
        assert_eq!(finished.code(), 0, "{}", finished.all());
        finished.stdout
    };
    assert!(said(&["--list"]).lines().count() >= 13);
    let explained = said(&["--explain", "exfiltration-redirect"]);
    assert!(
        explained.contains("canary `pin` must not arrive at server.attacker"),
        "{explained}"
    );
    // What a terminal obeys is shown, not sent.
    let escapes = said(&["--explain", "terminal-escape"]);
    assert!(
        !escapes.contains('\u{1b}') && escapes.contains("\\u{1b}]52"),
        "{escapes}"
    );
    // What is shown is a scenario of one's own.
    scene.write("own.toml", said(&["--show", "exfiltration-url"])).unwrap();
    assert!(said(&["--list", "own.toml"]).starts_with("own  "));
}

#[test]
fn the_documented_pipeline_names_what_exists() {
    let scene = scene();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut tried = 0;
    for file in ["docs/ci/picktwo.yml", "docs/ci/Containerfile", "docs/SCENARIOS.md"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let lines = text.lines().flat_map(|line| line.split("&&"));
        for line in lines.filter_map(|line| line.split_once("picktwo ").map(|(_, rest)| rest)) {
            let mut words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap()
                .split_whitespace()
                .map(|w| w.trim_matches(['"', ']']))
                .map(|w| if w == "$TIER" { "container" } else { w })
                .collect();
            if !words
                .first()
                .is_some_and(|w| ["doctor", "verify", "scenario"].contains(w))
            {
                continue;
            }
            // What comes before it is read first: an unknown option is an error all the same.
            words.push("--help");
            let finished = run::run(scene.picktwo(&words), LIMIT).unwrap();
            assert_eq!(finished.code(), 0, "{file}: {line}: {}", finished.all());
            tried += 1;
        }
    }
    assert!(tried >= 12, "{tried}");
}
