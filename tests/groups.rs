//! Nobody outside is signalled by the kernel for a session. Oracle: a script outside, which is in the process group of picktwo. Control:
//! the same without picktwo.

use picktwo_tests::{
    run::{self, Finished},
    scene::Scene,
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const TIERS: [&str; 3] = ["full", "nested", "container"];

fn scene() -> Scene {
    let scene = Scene::new(env!("CARGO_BIN_EXE_picktwo")).unwrap();
    for (name, text) in [
        ("orphan.py", include_str!("work/orphan.py")),
        ("other_job.py", include_str!("work/other_job.py")),
        ("sets_keys.py", include_str!("work/sets_keys.py")),
    ] {
        scene.write(name, text).unwrap();
    }
    scene
}

/// What is written before a command to run it in a tier, or bare.
fn prefix(scene: &Scene, tier: Option<&str>) -> String {
    tier.map_or_else(String::new, |tier| {
        format!("{} run --tier {tier} --", scene.root().join("bin/picktwo").display())
    })
}

/// Runs a script of a person's, in a session of its own without a terminal.
fn without_terminal(scene: &Scene, script: &str) -> Finished {
    let mut command = scene.command("setsid");
    command.args(["-w", "bash", "-c", script]);
    run::run(command, LIMIT).unwrap()
}

/// The same at a terminal whose session the script leads, as `ssh -t` and `docker run -t` start one.
fn at_terminal(scene: &Scene, script: &str) -> Finished {
    scene.write("script", script).unwrap();
    let mut command = scene.command("script");
    command.args(["-qec", "exec bash script", "/dev/null"]);
    run::run(command, LIMIT).unwrap()
}

/// A script that is told which signals it and its other job got.
fn observer(run: &str) -> String {
    format!(
        "trap 'echo script was hung up' HUP\nsleep 50 & job=$!\n{run} python3 -I orphan.py $$ </dev/null\n\
         kill $job; wait $job; echo job $?\n"
    )
}

#[test]
fn no_script_is_hung_up_for_a_session() {
    let scene = scene();
    type Way = fn(&Scene, &str) -> Finished;
    for (way, start) in [("no terminal", without_terminal as Way), ("a terminal", at_terminal)] {
        let bare = start(&scene, &observer(""));
        assert!(bare.stdout.contains("kill works"), "{way}: {}", bare.all());
        assert!(bare.stdout.contains("script was hung up"), "{way}: {}", bare.all());
        assert!(bare.stdout.contains("job 129"), "{way}: {}", bare.all());
        for tier in TIERS {
            let told = start(&scene, &observer(&prefix(&scene, Some(tier))));
            assert!(told.stdout.contains("tried"), "{way}, {tier}: {}", told.all());
            assert!(!told.stdout.contains("works"), "{way}, {tier}: {}", told.all());
            assert!(!told.stdout.contains("hung up"), "{way}, {tier}: {}", told.all());
            assert!(told.stdout.contains("job 143"), "{way}, {tier}: {}", told.all());
        }
    }
}

#[test]
fn a_script_that_leads_its_terminal_is_served_as_before() {
    let scene = scene();
    let mut command = scene.command("python3");
    command
        .args(["-c", include_str!("work/no_job_control.py")])
        .arg(scene.root().join("bin/picktwo"));
    let finished = run::run(command, LIMIT).unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.all());
    assert_eq!(finished.stdout, "done\n", "{}", finished.all());
}

#[test]
fn no_other_job_of_the_terminal_is_signalled_for_a_session() {
    let scene = scene();
    for (how, bare) in [("interrupt", "became=ended"), ("stop", "became=stopped")] {
        let at_a_prompt = |tier: Option<&str>| {
            let line = format!("{} python3 -I other_job.py {{}} {how}", prefix(&scene, tier));
            let mut command = scene.command("python3");
            command.args(["-c", include_str!("work/other_jobs.py"), line.trim_start()]);
            run::run(command, LIMIT).unwrap()
        };
        let told = at_a_prompt(None);
        assert!(told.stdout.contains(bare), "{how}, bare: {}", told.all());
        for tier in TIERS {
            let told = at_a_prompt(Some(tier));
            assert!(told.stdout.contains("became=lives"), "{how}, {tier}: {}", told.all());
            for own in ["own tcsetpgrp", "own foreground", "own setpgid"] {
                assert!(
                    told.stdout.contains(&format!("{own} works")),
                    "{how}, {tier}: {}",
                    told.all()
                );
            }
        }
    }
}

/// A terminal whose keys nobody may choose where a supervisor looks at the calls.
#[test]
fn no_session_chooses_the_key_that_interrupts() {
    let scene = scene();
    let in_a_pipeline = |tier: Option<&str>| {
        let run = prefix(&scene, tier);
        let line =
            format!("{run} python3 -I sets_keys.py | (trap 'echo vic\"\"tim interrupted' INT; sleep 3; cat) # {{}}");
        let mut command = scene.command("python3");
        command.args(["-c", include_str!("work/other_jobs.py"), line.trim_start()]);
        run::run(command, LIMIT).unwrap()
    };
    let told = in_a_pipeline(None);
    assert!(told.stdout.contains("victim interrupted"), "bare: {}", told.all());
    for tier in ["full", "container"] {
        let told = in_a_pipeline(Some(tier));
        assert!(!told.stdout.contains("victim interrupted"), "{tier}: {}", told.all());
        // All else is as without picktwo, and on its own terminals any key.
        for said in [
            "echo False key b'\\x00'",
            "same True",
            "by name True",
            "end b'['",
            "master b']'",
            "own name b'!'",
            "null Inappropriate ioctl for device",
        ] {
            assert!(told.stdout.contains(said), "{said}, {tier}: {}", told.all());
        }
    }
}

#[test]
fn a_background_job_that_sets_the_terminal_stops() {
    let scene = scene();
    for tier in TIERS.map(Some).into_iter().chain([None]) {
        let mut command = scene.command("python3");
        command
            .args(["-c", include_str!("work/sets_behind.py")])
            .arg(prefix(&scene, tier));
        let finished = run::run(command, LIMIT).unwrap();
        assert_eq!(finished.code(), 0, "{tier:?}: {}", finished.all());
        assert_eq!(finished.stdout, "done\n", "{tier:?}: {}", finished.all());
    }
}
