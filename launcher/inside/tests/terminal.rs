//! A session at a terminal: its name, its size, its control, and its descriptors opened again by name.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test");
    exe.parent()
        .and_then(Path::parent)
        .expect("a target directory")
        .join("examples")
        .join(name)
}

/// Runs a shell script in a session on a pseudoterminal of its own; the answer is what the terminal showed.
fn on_a_terminal(script: &str) -> String {
    let place = std::env::temp_dir().join(format!("picktwo-terminal-{}-{}", std::process::id(), script.len()));
    std::fs::create_dir_all(place.join("home")).unwrap();
    let session = format!(
        "stty rows 33 cols 77; exec {} --workspace {w} --home {w}/home -- bash --norc -c '{script}'",
        example("session").display(),
        w = place.display(),
    );
    let mut child = Command::new("script")
        .args(["-qec", &session, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux");
    // Its end would be typed into the terminal.
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input);
    std::fs::remove_dir_all(&place).unwrap();
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

#[test]
fn a_terminal_has_a_name_a_size_and_can_be_opened() {
    let shown = on_a_terminal(
        "tty; stty size; echo one > /dev/stdout; echo two > /dev/stderr; echo three > /dev/tty; test -t 0 && echo four",
    );
    assert_eq!(shown, "/dev/console\n33 77\none\ntwo\nthree\nfour\n");
}

#[test]
fn new_pseudoterminals_are_the_sessions_own() {
    let shown = on_a_terminal("script -qec tty /dev/null; ls /dev/pts");
    assert_eq!(shown, "/dev/pts/0\nptmx\n");
}

#[test]
fn a_shell_controls_its_jobs() {
    let shown = on_a_terminal(
        "set -m; sleep 60 & kill -STOP %1; sleep 0.2; jobs; kill -CONT %1; kill -TERM %1; wait %1; echo $?",
    );
    assert!(shown.contains("Stopped"), "{shown}");
    assert!(shown.trim_end().ends_with("143"), "{shown}");
}
