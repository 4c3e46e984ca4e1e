//! Tests that cannot run here say so by name. A test that silently passes because something is missing proves nothing.

use std::{
    fs::OpenOptions,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Reports that the test `name` was not run, past the test harness's capture, and appends the line to the file that
/// `PICKTWO_NOT_RUN` names, so that a caller can count over several test programs.
///
/// # Panics
/// If `PICKTWO_REQUIRE=all`: then everything has to run. Also if the file cannot be written.
pub fn not_run(name: &str, reason: &str) {
    unavailable(name, reason);
    let required = std::env::var_os("PICKTWO_REQUIRE").is_some_and(|v| v == "all");
    assert!(!required, "{name} has to run (PICKTWO_REQUIRE=all), but: {reason}");
}

/// Like [`not_run`], for what only root can try: where the caller says that the same tests run as root as well
/// (`PICKTWO_ROOT_TOO`), that is required there and not here.
///
/// # Panics
/// As [`not_run`].
pub fn needs_root(name: &str) {
    let reason = "the tests do not run as root";
    if std::env::var_os("PICKTWO_ROOT_TOO").is_some() {
        unavailable(name, reason);
    } else {
        not_run(name, reason);
    }
}

/// Reports and counts like [`not_run`] what a machine lacks by its kind, and nobody can install: it is never required.
///
/// # Panics
/// If the file that `PICKTWO_NOT_RUN` names cannot be written.
pub fn unavailable(name: &str, reason: &str) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let line = format!("NOT RUN {name}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("PICKTWO_NOT_RUN") {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(line.as_bytes()))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// How many tests of this process were not run.
#[must_use]
pub fn not_run_count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Output};

    #[test]
    #[ignore = "run by the test below, in processes of its own"]
    fn reports() {
        not_run("scenario::name", "there is no such thing here");
        assert_eq!(not_run_count(), 1);
    }

    fn report(list: &std::path::Path, required: &str) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "report::tests::reports"])
            .env("PICKTWO_NOT_RUN", list)
            .env("PICKTWO_REQUIRE", required)
            .output()
            .unwrap()
    }

    #[test]
    fn what_cannot_run_is_named_and_fails_where_everything_is_required() {
        let list = std::env::temp_dir().join(format!("picktwo-not-run-{}", std::process::id()));
        let tolerated = report(&list, "");
        assert!(tolerated.status.success(), "{tolerated:?}");
        let line = "NOT RUN scenario::name: there is no such thing here\n";
        assert!(
            String::from_utf8_lossy(&tolerated.stderr).contains(line),
            "not even past the capture: {tolerated:?}"
        );
        let required = report(&list, "all");
        let lines = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        assert!(!required.status.success(), "{required:?}");
        assert_eq!(lines, line.repeat(2));
    }
}
