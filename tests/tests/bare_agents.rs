//! The scripts of the real agents, played without a session but with the built-in profiles: what fails here is the
//! script, the profile or the agent, not the wall.

use picktwo_tests::{
    agents::{Agent, Install},
    model::{ModelServer, Script, Turn},
    report::not_run,
    run,
    scene::Scene,
};
use serde_json::json;
use std::time::Duration;

#[test]
fn claude_follows_the_script() {
    follow(Agent::Claude);
}

#[test]
fn codex_follows_the_script() {
    follow(Agent::Codex);
}

fn follow(agent: Agent) {
    let install = match Install::find() {
        Ok(install) => install,
        Err(reason) => return not_run(&format!("bare_agents::{}", agent.program()), &reason),
    };
    // The fake session has to be readable for the scene's user, so it takes the place of the binary under test.
    let scene = Scene::new(env!("CARGO_BIN_EXE_fake_session")).unwrap();
    scene.write("notes.txt", "the first note\n").unwrap();
    let out = scene.work().join("out.txt");
    let script = Script::new()
        .then(
            agent
                .read(&scene.work().join("notes.txt"))
                .expecting("no web tools but picktwo's", move |s| agent.offers_no_web_of_its_own(s)),
        )
        .then(
            agent
                .write(&out, "written")
                .expecting("the note", |s| s.last().contains("the first note")),
        )
        .then(agent.shell("wc -c < out.txt; touch /proc/version"))
        .then(
            agent
                .fetch(json!({"url": "http://127.0.0.1:1/limits", "question": "how many widgets?"}))
                .expecting("the shell's output", |s| {
                    s.last().contains('7') && s.last().contains("Permission denied")
                }),
        )
        .then(
            Turn::text("finished as told").expecting("the answer in its envelope and nothing else", |s| {
                s.last().contains("<picktwo-")
                    && s.last().contains("at most 4711 widgets")
                    && !s.last().contains("media_type")
            }),
        );
    let server = ModelServer::start(script).unwrap();
    let connection = agent
        .connect(&scene, &server.url(), &scene.root().join("bin/picktwo"))
        .unwrap();
    let mut command = scene.command(install.bin().join(agent.program()));
    command
        .args(connection.arguments)
        .args(agent.arguments("Do what the model says."))
        .envs(connection.env)
        .env("PATH", format!("{}:/usr/bin:/bin", install.bin().display()));
    let finished = run::run(command, Duration::from_secs(120)).unwrap();
    assert_eq!(server.problems(), Vec::<String>::new(), "{}", finished.all());
    assert_eq!(finished.code(), 0, "{}", finished.all());
    assert!(finished.stdout.contains("finished as told"), "{}", finished.all());
    assert_eq!(server.turns_said(), 5, "{}", finished.all());
    assert_eq!(std::fs::read_to_string(out).unwrap(), "written");
}
