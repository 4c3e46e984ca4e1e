//! The judge: it holds here, it counts only what a control has shown, its attempts succeed bare, and it leaves nothing behind.

use picktwo_tests::{
    report::not_run,
    run::{self, Finished},
    scene::Scene,
    tier::{self, Tier},
};
use serde_json::Value;
use std::{fs, time::Duration};

const LIMIT: Duration = Duration::from_secs(180);

fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap()
}

/// Findings as JSON, with the exit code; none: this machine has no tier, and that was said.
fn verify(scene: &Scene, args: &[&str]) -> Option<(i32, Value)> {
    let finished = scene.run(["verify", "--json"].iter().chain(args), LIMIT).unwrap();
    if no_tier(&finished) {
        return None;
    }
    let findings = serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()));
    Some((finished.code(), findings))
}

/// Whether this machine has no tier, which is said; any other failure is one.
fn no_tier(finished: &Finished) -> bool {
    if finished.code() != 125 {
        return false;
    }
    let said = &finished.stderr;
    assert!(
        ["full tier", "supervisor of system calls", "seccomp user notification"]
            .iter()
            .any(|why| said.contains(why)),
        "{said}"
    );
    not_run("picktwo verify", said);
    true
}

fn of<'a>(findings: &'a Value, verdict: &str) -> Vec<&'a Value> {
    findings["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|probe| probe["verdict"] == verdict)
        .collect()
}

#[test]
fn the_wall_holds_in_every_role() {
    let scene = scene();
    let tmp = scene.root().join("t");
    scene.directories(&tmp).unwrap();
    let mut command = scene.picktwo(["verify", "--json"]);
    command.env("TMPDIR", &tmp);
    let finished = run::run(command, LIMIT).unwrap();
    if no_tier(&finished) {
        return;
    }
    let findings: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.all()));
    for verdict in ["escaped", "unexpected"] {
        assert_eq!(of(&findings, verdict), Vec::<&Value>::new(), "{verdict}");
    }
    assert_eq!((finished.code(), &findings["held"]), (0, &Value::Bool(true)));
    // What a container's filter refuses already is nobody else's merit.
    let without_control = if tier::tier() == Tier::Filtered { 25 } else { 0 };
    let held = |role: &str| findings["summary"][role]["held"].as_u64().unwrap();
    for (role, least) in [
        ("agent", 340),
        ("retriever", 95),
        ("gateway", 95),
        ("retriever-gateway", 90),
        ("outside-web", 85),
        ("outside-model", 95),
        ("resolver", 95),
    ] {
        assert!(held(role) + without_control >= least, "{role}: {}", held(role));
    }
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "something is left behind");
    // No kernel gives this number a meaning, so nobody can be said to have refused it.
    let unassigned: Vec<_> = findings["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["id"] == "kernel.unassigned")
        .collect();
    assert!(!unassigned.is_empty());
    for probe in unassigned {
        assert_eq!(
            (&probe["verdict"], &probe["control"]),
            (&"inapplicable".into(), &"ENOSYS".into())
        );
    }
    // In edit mode what is protected is tried, in read-only mode what is granted then.
    for (id, mode) in [("git.hook", "edit"), ("change.open-write", "read-only")] {
        let found = of(&findings, "held")
            .into_iter()
            .any(|p| p["id"] == id && p["mode"] == mode);
        assert!(found, "{id}");
    }
}

#[test]
fn a_role_is_tried_by_itself() {
    let scene = scene();
    for (asked, roles) in [
        ("gateway", &["gateway"][..]),
        ("retriever-gateway", &["retriever-gateway"]),
        ("outside", &["outside-web", "outside-model"]),
        ("resolver", &["resolver"]),
    ] {
        let Some((code, findings)) = verify(&scene, &["--role", asked]) else {
            return;
        };
        assert_eq!(code, 0, "{}", findings["summary"]);
        let probes = findings["probes"].as_array().unwrap();
        assert!(probes.len() >= 25 * roles.len());
        assert!(
            probes
                .iter()
                .all(|probe| roles.iter().any(|role| probe["role"] == *role))
        );
    }
}

#[test]
fn attempts_succeed_where_nothing_confines_them() {
    let scene = scene();
    let hidden = scene.root().join("hidden");
    scene.directories(&hidden).unwrap();
    scene.write(hidden.join("secret"), "secret").unwrap();
    let input = format!(
        "@hidden={};work={}\nread.open\nchange.hidden-unlink\nread.open\nno.such\nread.open\n",
        hidden.display(),
        hidden.display()
    );
    let finished = run::start(scene.picktwo(["verify", "--inside", "bare"]), input.as_bytes())
        .unwrap()
        .finish(LIMIT)
        .unwrap();
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "picktwo-verify ready",
            "read.open escaped 0 -",
            "change.hidden-unlink escaped 0 -",
            "read.open refused 2 -"
        ]
    );
    assert_eq!(finished.code(), 1, "an unknown name ends it");
    assert!(!hidden.join("secret").exists());
}
