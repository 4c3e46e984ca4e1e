//! Other sandboxes are judged by what they refuse: nothing holds without one, and what does not run the attempts is an error.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use picktwo_tests::{
    report::not_run,
    run::{self, Finished},
    scene::Scene,
};
use serde_json::Value;
use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(400);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

fn judge(scene: &Scene, args: &[&str], sandbox: &[&str]) -> Finished {
    let all = ["verify"].iter().chain(args).chain(&["--"]).chain(sandbox);
    scene.run(all, LIMIT).unwrap()
}

fn findings(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()))
}

fn count(findings: &Value, verdict: &str) -> u64 {
    findings["summary"]["agent"][verdict].as_u64().unwrap()
}

fn verdict<'a>(findings: &'a Value, id: &str) -> &'a str {
    let probes = findings["probes"].as_array().unwrap();
    let probe = probes.iter().find(|p| p["id"] == id);
    probe.map_or("not tried", |p| p["verdict"].as_str().unwrap())
}

fn nothing_held(found: &Value) {
    let all = found["probes"].as_array().unwrap();
    let held: Vec<_> = all.iter().filter(|p| p["verdict"] == "held").collect();
    assert!(held.is_empty(), "{held:?}");
}

/// The positive control of it all.
#[test]
fn nothing_holds_without_a_sandbox() {
    let scene = scene();
    let finished = judge(&scene, &["--json"], &["env"]);
    let found = findings(&finished);
    assert_eq!(finished.code(), 1, "{}", finished.all());
    assert!(count(&found, "escaped") > 200, "{}", found["summary"]);
    assert_eq!(count(&found, "unexpected"), 0, "{}", found["summary"]);
    nothing_held(&found);
    let escaped = found["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["verdict"] == "escaped");
    assert!(escaped.filter(|p| p["surface"] == false).count() > 200);
    for id in [
        "read.key-in-home",
        "daemon.docker",
        "net.udp-send",
        "process.signal-group",
        "git.hook",
        "partner.descriptor",
        "partner.connects",
        "read.any-environment",
        "ipc.key-read",
    ] {
        assert_eq!(verdict(&found, id), "escaped", "{id}");
    }
    let left = scene.home().join(".cache/picktwo");
    assert_eq!(fs::read_dir(left).unwrap().count(), 0, "something is left behind");
}

#[test]
fn a_shell_is_no_sandbox_in_read_only_mode_either() {
    let scene = scene();
    let finished = judge(
        &scene,
        &["--json", "--mode", "read-only"],
        &["sh", "-c", "exec \"$@\"", "sh"],
    );
    let found = findings(&finished);
    assert!(count(&found, "escaped") > 200, "{}", found["summary"]);
    nothing_held(&found);
    assert_eq!(verdict(&found, "change.chmod"), "escaped");
    assert_eq!(verdict(&found, "git.hook"), "not tried");
}

#[test]
fn what_does_not_run_the_attempts_is_an_error_and_no_denial() {
    let scene = scene();
    for (sandbox, said) in [
        (&["true"][..], "ended with exit code 0 before the first attempt"),
        (&["sh", "-c", "echo picktwo-verify hello; exit 3"], "exit code 3"),
        (&["sh", "-c", "echo no such thing >&2; exit 127"], "no such thing"),
        (&["sh", "-c", "exit 127"], "does not find"),
        (&["sh", "-c", "exit 126"], "may not execute"),
        (&["/nonexistent/sandbox"], "cannot be started"),
    ] {
        let finished = judge(&scene, &["--json"], sandbox);
        assert_eq!(finished.code(), 125, "{sandbox:?}: {}", finished.all());
        assert!(finished.stderr.contains(said), "{sandbox:?}: {}", finished.all());
        assert_eq!(finished.stdout, "", "{sandbox:?}");
    }
}

/// One that ends in the middle is started again, and what nobody answered is told apart from what was refused.
#[test]
fn an_end_in_the_middle_is_no_refusal() {
    let scene = scene();
    let script = "sed -u '/^read.open$/Q' | \"$@\"";
    let finished = judge(
        &scene,
        &["--json", "--only", "read,shared"],
        &["sh", "-c", script, "sh"],
    );
    let found = findings(&finished);
    assert_eq!(finished.code(), 1, "{}", finished.all());
    assert_eq!(verdict(&found, "read.open"), "unexpected");
    assert_eq!(
        (count(&found, "unexpected"), count(&found, "held")),
        (1, 0),
        "{}",
        found["summary"]
    );
    assert!(count(&found, "escaped") > 50, "{}", found["summary"]);
}

#[test]
fn a_real_sandbox_is_told_apart() {
    let scene = scene();
    let bare = ["bwrap", "--unshare-all", "--ro-bind", "/", "/"];
    let works = scene.command("bwrap").args(&bare[1..]).arg("true").output();
    if !works.is_ok_and(|o| o.status.success()) {
        return not_run("judging bubblewrap", "bwrap does not work for the tests' user");
    }
    let read_only = findings(&judge(
        &scene,
        &["--json"],
        &[&bare[..], &["--dev", "/dev", "--proc", "/proc"]].concat(),
    ));
    assert_eq!(read_only["probes"][0]["mode"], "read-only");
    assert!(count(&read_only, "held") > 100, "{}", read_only["summary"]);
    assert!(count(&read_only, "escaped") > 50, "{}", read_only["summary"]);
    assert_eq!(count(&read_only, "unexpected"), 0, "{}", read_only["summary"]);
    for (id, wanted) in [
        ("change.create", "held"),
        ("change.chmod", "held"),
        ("net.tcp-loopback", "held"),
        ("process.signal-host", "held"),
        ("daemon.docker", "escaped"),
        ("read.key-in-home", "escaped"),
        ("read.variable-secret", "escaped"),
        ("ipc.key-read", "escaped"),
        ("namespace.mount-tmpfs", "escaped"),
    ] {
        assert_eq!(verdict(&read_only, id), wanted, "{id}");
    }
    let writable = [
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
        "{workspace}",
        "{workspace}",
    ];
    let edit = findings(&judge(
        &scene,
        &["--json", "--only", "git,shared"],
        &[&bare[..], &writable].concat(),
    ));
    assert_eq!(edit["probes"][0]["mode"], "edit");
    assert_eq!(verdict(&edit, "git.hook"), "escaped");
    assert_eq!(verdict(&edit, "shared.chmod"), "held");
    // A copy of its own: the attempts succeed, and nothing of it reaches the host.
    let copy = [
        "--tmpfs",
        "{home}",
        "--ro-bind",
        "{workspace}",
        "{workspace}",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ];
    let copied = findings(&judge(
        &scene,
        &["--json", "--only", "change.home-startup,read.key-in-home"],
        &[&bare[..], &copy].concat(),
    ));
    assert_eq!(verdict(&copied, "change.home-startup"), "held");
    assert_eq!(verdict(&copied, "read.key-in-home"), "held");
}

#[test]
fn reports_for_other_programs_say_the_same() {
    let scene = scene();
    let (junit, sarif) = (
        scene.root().join("home/junit.xml"),
        scene.root().join("home/report.sarif"),
    );
    let files = [
        "--json",
        "--only",
        "read,net,kernel",
        "--junit",
        junit.to_str().unwrap(),
        "--sarif",
        sarif.to_str().unwrap(),
    ];
    let found = findings(&judge(&scene, &files, &["env"]));
    let escaped = count(&found, "escaped");
    let report: Value = serde_json::from_slice(&fs::read(&sarif).unwrap()).unwrap();
    assert_eq!(report["version"], "2.1.0");
    let run_of = &report["runs"][0];
    let results = run_of["results"].as_array().unwrap();
    assert_eq!(results.len() as u64, escaped);
    let rules = run_of["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), found["probes"].as_array().unwrap().len());
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].is_string());
    }
    // A parser of somebody else's.
    let script = "import sys, xml.etree.ElementTree as x\n\
        t = x.parse(sys.argv[1]).getroot()\n\
        assert t.tag == 'testsuites'\n\
        for s in t:\n\
        \x20 assert s.tag == 'testsuite' and int(s.get('tests')) == len(s), s.attrib\n\
        \x20 for k, n in (('failures', 'failure'), ('errors', 'error'), ('skipped', 'skipped')):\n\
        \x20   assert int(s.get(k)) == len(s.findall('testcase/' + n)), k\n\
        print(sum(int(s.get('failures')) for s in t), sum(int(s.get('skipped')) for s in t))\n";
    match Command::new("python3").args(["-c", script]).arg(&junit).output() {
        Ok(parsed) => assert_eq!(
            String::from_utf8_lossy(&parsed.stdout).trim(),
            format!("{escaped} {}", count(&found, "inapplicable")),
            "{}",
            String::from_utf8_lossy(&parsed.stderr)
        ),
        Err(e) => not_run("reading JUnit by another parser", &e.to_string()),
    }
}

#[test]
fn what_is_ended_before_its_time_leaves_nothing() {
    let scene = scene();
    let place = scene.home().join(".cache/picktwo");
    let entries = || fs::read_dir(&place).map_or(0, Iterator::count);
    let running = run::start(scene.picktwo(["verify", "--", "env"]), b"").unwrap();
    let since = Instant::now();
    while entries() == 0 && since.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(running.pid()), Signal::SIGINT).unwrap();
    let finished = running.finish(LIMIT).unwrap();
    assert_eq!(finished.code(), 125, "{}", finished.all());
    assert!(finished.stderr.contains("ended before its time"), "{}", finished.all());
    assert_eq!(entries(), 0, "something is left behind");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let scene = scene();
    for (args, said) in [
        (&["verify", "--role", "agent", "--", "env"][..], "cannot be used with"),
        (&["verify", "--tier", "container", "--", "env"], "cannot be used with"),
        (
            &["verify", "--role", "gateway", "--mode", "edit"],
            "--mode is the agent's",
        ),
        (&["verify", "--list", "--", "env"], "cannot be used with"),
        (&["verify", "--only", "read,none"], "no class `none`"),
        (
            &["verify", "--role", "gateway", "--only", "git"],
            "none of these attempts",
        ),
    ] {
        let finished = scene.run(args, LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{args:?}: {}", finished.all());
        assert!(finished.stderr.contains(said), "{args:?}: {}", finished.all());
    }
}
