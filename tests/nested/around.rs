//! What others, and the kernel's age, take away around picktwo: another tier where there is one, else a refusal with the reason.

use super::{LIMIT, below, refused, scene};
use picktwo_tests::{
    agents::Install,
    report::not_run,
    run::{self, Finished},
    scene::Scene,
};

#[test]
fn neither_supervisor_nor_namespaces_is_no_tier() {
    let scene = scene();
    let run = |words: &[&str]| run::run(below(&scene, &["no_namespaces", "supervised"], words), LIMIT).unwrap();
    refused(
        &run(&["run", "--", "true"]),
        "and the nested tier, which goes without one, needs user namespaces",
    );
    refused(
        &run(&["run", "--tier", "container", "--", "true"]),
        "is listening already",
    );
    refused(&run(&["run", "--tier", "nested", "--", "true"]), "user namespaces");
    assert_eq!(run(&["doctor"]).code(), 125);
}

#[test]
fn in_itself_it_refuses() {
    let scene = scene();
    let binary = scene.root().join("bin/picktwo");
    for tier in ["full", "container", "nested"] {
        let script = format!("exec {} run -- true", binary.display());
        let words = [
            "run",
            "--tier",
            tier,
            "--ro",
            binary.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            &script,
        ];
        let finished = run::run(scene.picktwo(words), LIMIT).unwrap();
        assert_eq!(finished.code(), 125, "{tier}: {}", finished.all());
        assert!(
            finished.stderr.contains("this is inside a session"),
            "{tier}: {}",
            finished.all()
        );
    }
}

#[test]
fn in_bubblewrap_it_takes_the_best_tier_that_is_there() {
    let scene = scene();
    let root = scene.root().to_str().unwrap().to_owned();
    let picktwo = format!("{root}/bin/picktwo");
    let common = [
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
        "--bind",
        &root,
        &root,
    ];
    let script = "echo x > made; echo in; exit 3";
    let cases: [(&[&str], &[&str]); 3] = [
        (&[], &["full", "container"]),
        (&["--unshare-all"], &["full", "container"]),
        (&["--unshare-user", "--disable-userns"], &["container"]),
    ];
    for (options, tiers) in cases {
        let mut trial = scene.command("bwrap");
        trial.args(options).args(common).arg("true");
        if !run::run(trial, LIMIT).is_ok_and(|f| f.code() == 0) {
            not_run("nested::in_bubblewrap", "bubblewrap does not work here");
            return;
        }
        let mut command = scene.command("sh");
        command.args(["-c", "exec \"$@\" 3>&1", "sh", "bwrap"]);
        command.args(options).args(common);
        command.args([&picktwo, "run", "--json-status", "3", "--", "sh", "-c", script]);
        let finished = run::run(command, LIMIT).unwrap();
        assert_eq!(finished.code(), 3, "{options:?}: {}", finished.all());
        assert!(finished.stdout.contains("in\n"), "{}", finished.all());
        assert!(!scene.work().join("made").exists());
        let started: serde_json::Value = serde_json::from_str(finished.stdout.lines().next().unwrap()).unwrap();
        let tier = started["tier"].as_str().unwrap();
        assert!(tiers.contains(&tier), "{options:?}: {}", finished.all());
        assert_eq!(
            tier == "full",
            !finished.stderr.contains("container tier, since"),
            "{}",
            finished.all()
        );
    }
}

#[test]
fn in_codex_sandbox_it_refuses_with_the_reason() {
    let name = "nested::in_codex_sandbox";
    let install = match Install::find() {
        Ok(install) => install,
        Err(why) => return not_run(name, &why),
    };
    let scene = scene();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", install.bin().display());
    let sandboxed = |words: &[&str]| {
        let mut command = scene.command("codex");
        command
            .env("PATH", &path)
            .args(["sandbox", "-c", "sandbox_mode=\"workspace-write\"", "--"])
            .args(words);
        run::run(command, LIMIT).unwrap()
    };
    if sandboxed(&["true"]).code() != 0 {
        return not_run(name, "Codex's sandbox does not start here");
    }
    let picktwo = scene.root().join("bin/picktwo");
    let finished = sandboxed(&[picktwo.to_str().unwrap(), "run", "--", "true"]);
    assert_eq!(finished.code(), 125, "{}", finished.all());
    assert!(
        finished
            .stderr
            .contains("picktwo needs local sockets, which are refused here"),
        "{}",
        finished.all()
    );
}

/// picktwo where the kernel says that it has at most this Landlock ABI.
fn capped(scene: &Scene, abi: u32, words: &[&str]) -> Finished {
    let program = scene.root().join("hostile/landlock_abi.py");
    scene
        .write(&program, include_str!("../hostile/landlock_abi.py"))
        .unwrap();
    let mut command = scene.command("python3");
    command.arg(&program).arg(abi.to_string());
    command.arg(scene.root().join("bin/picktwo")).args(words);
    run::run(command, LIMIT).unwrap()
}

#[test]
fn an_older_landlock_is_below_every_tier() {
    let scene = scene();
    for abi in [1, 4, 5] {
        for tier in ["full", "container", "nested"] {
            let finished = capped(&scene, abi, &["run", "--tier", tier, "--", "true"]);
            refused(&finished, "picktwo needs Landlock ABI 6 (Linux 6.12 or newer)");
            assert!(
                finished.stderr.contains(&format!("this kernel has ABI {abi}")),
                "{}",
                finished.all()
            );
        }
        let doctor = capped(&scene, abi, &["doctor", "--json"]);
        assert_eq!(doctor.code(), 125, "{}", doctor.all());
        assert!(doctor.stdout.contains("\"landlock_floor\": 6"), "{}", doctor.all());
        refused(&capped(&scene, abi, &["fetch", "https://docs.rs"]), "Landlock ABI");
    }
    assert!(!scene.state().join("sessions").exists());
}

#[test]
fn at_the_floor_every_tier_holds() {
    let scene = scene();
    let script = "echo x > made; cat /proc/1/environ; kill -0 $PPID; echo in";
    for tier in ["full", "container", "nested"] {
        let finished = capped(&scene, 6, &["run", "--tier", tier, "--", "sh", "-c", script]);
        assert_eq!(
            (finished.code(), finished.stdout.as_str()),
            (0, "in\n"),
            "{tier}: {}",
            finished.all()
        );
        assert!(!scene.work().join("made").exists());
    }
    let doctor = capped(&scene, 6, &["doctor", "--json"]);
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    assert_eq!(
        (&doctor["landlock"], &doctor["tier"]),
        (&6.into(), &"full".into()),
        "{doctor}"
    );
}
