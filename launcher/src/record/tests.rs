//! Whole records on disk: what is altered, cut off or removed is named, what a killed writer leaves is not taken for it.

use super::read::{Finding, verify_in};
use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A state directory of its own, removed at the end.
struct State(PathBuf);

impl State {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("picktwo-record-{}-{n}", std::process::id()));
        make_private_dir(&dir).expect("a directory");
        Self(dir)
    }

    /// A session with `n` records, the last one its end.
    fn session(&self, id: &str, n: usize) -> Record {
        let record = Record::create_in(&self.0, id).expect("a record");
        for code in 1..n {
            record
                .append(&Event::Lost {
                    part: "gateway".into(),
                    reason: format!("{code}"),
                })
                .expect("appended");
        }
        record.append(&Event::End { code: 0 }).expect("appended");
        record
    }

    fn audit(&self, id: &str) -> PathBuf {
        self.0.join(names::SESSIONS).join(id).join(names::AUDIT)
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path)
            .expect("readable")
            .split_inclusive('\n')
            .map(str::to_owned)
            .collect()
    }

    fn finding(&self, of: &str) -> Finding {
        let findings = verify_in(&self.0, None).expect("readable");
        findings
            .into_iter()
            .find(|f| f.of == of)
            .unwrap_or_else(|| panic!("nothing about {of}"))
    }

    fn wrong(&self, of: &str) -> String {
        self.finding(of).wrong.unwrap_or_else(|| panic!("{of} holds"))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn whole_records_hold() {
    let state = State::new();
    state.session("a", 5);
    state.session("b", 3);
    for (of, lines) in [("a", 5), ("b", 3), ("ledger", 8)] {
        let finding = state.finding(of);
        assert_eq!(
            (finding.lines, finding.wrong, finding.note),
            (lines, None, None),
            "{of}"
        );
    }
}

#[test]
fn every_altered_byte_of_an_audit_is_found() {
    let state = State::new();
    state.session("a", 3);
    let good = std::fs::read(state.audit("a")).expect("readable");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 4;
        std::fs::write(state.audit("a"), &bad).expect("written");
        assert!(state.finding("a").wrong.is_some(), "byte {at}");
    }
}

#[test]
fn a_cut_end_is_found_at_every_place() {
    let state = State::new();
    state.session("a", 3);
    let good = std::fs::read(state.audit("a")).expect("readable");
    for length in 0..good.len() {
        std::fs::write(state.audit("a"), &good[..length]).expect("written");
        assert!(state.finding("a").wrong.is_some(), "{length} bytes");
    }
}

#[test]
fn an_audit_that_was_written_anew_is_found() {
    let state = State::new();
    state.session("a", 3);
    let elsewhere = State::new();
    let record = Record::create_in(&elsewhere.0, "a").expect("a record");
    for code in 0..3 {
        record.append(&Event::End { code }).expect("appended");
    }
    std::fs::copy(elsewhere.audit("a"), state.audit("a")).expect("copied");
    assert!(state.wrong("a").contains("is not the one that the ledger has"));
}

#[test]
fn missing_sessions_and_audits_are_found() {
    let state = State::new();
    state.session("a", 2);
    state.session("b", 2);
    std::fs::remove_file(state.audit("a")).expect("removed");
    std::fs::remove_dir_all(state.0.join(names::SESSIONS).join("b")).expect("removed");
    assert_eq!(state.wrong("a"), "its audit is missing");
    assert!(state.wrong("b").contains("missing"));
}

#[test]
fn a_ledger_that_was_altered_cut_or_removed_is_found() {
    let state = State::new();
    state.session("a", 3);
    state.session("b", 3);
    let path = state.0.join(names::LEDGER);
    let lines = State::lines(&path);
    std::fs::write(&path, lines[..4].concat()).expect("written");
    assert!(state.wrong("b").contains("2 lines are not in the ledger"));
    std::fs::write(&path, [&lines[..2], &lines[3..]].concat().concat()).expect("written");
    assert!(state.wrong("ledger").contains("removed, inserted or moved"));
    std::fs::write(&path, lines.concat().replacen("\"lines\":2", "\"lines\":3", 1)).expect("written");
    assert!(state.wrong("ledger").contains("altered"));
    std::fs::remove_file(&path).expect("removed");
    assert!(state.wrong("a").contains("does not know it"));
}

#[test]
fn what_a_killed_writer_leaves_is_no_fault() {
    let state = State::new();
    let record = Record::create_in(&state.0, "a").expect("a record");
    record
        .append(&Event::Lost {
            part: "x".into(),
            reason: String::new(),
        })
        .expect("appended");
    drop(record);
    assert_eq!(
        state.finding("a").note.as_deref(),
        Some("no end: it runs, or was killed")
    );
    // Killed within its second line.
    let mut file = File::options().append(true).open(state.audit("a")).expect("open");
    file.write_all(b"{\"seq\":2,\"time\":\"2026-").expect("written");
    let finding = state.finding("a");
    assert_eq!((finding.lines, finding.wrong), (1, None));
    assert!(finding.note.is_some_and(|n| n.contains("incomplete")));
    // Killed within a line of the ledger: the next session goes on after it.
    let mut ledger = File::options()
        .append(true)
        .open(state.0.join(names::LEDGER))
        .expect("open");
    ledger.write_all(b"{\"seq\":2,\"ti").expect("written");
    state.session("b", 2);
    assert_eq!((state.finding("b").wrong, state.finding("ledger").wrong), (None, None));
}

#[test]
fn a_line_ahead_of_the_ledger_is_a_killed_writer_two_are_not() {
    let state = State::new();
    state.session("a", 4);
    let path = state.0.join(names::LEDGER);
    let lines = State::lines(&path);
    std::fs::write(&path, lines[..3].concat()).expect("written");
    assert_eq!(state.finding("a").wrong, None);
    std::fs::write(&path, lines[..2].concat()).expect("written");
    assert!(state.finding("a").wrong.is_some());
}

#[test]
fn what_cannot_be_anchored_is_not_recorded() {
    let state = State::new();
    let record = state.session("a", 2);
    let path = state.0.join(names::LEDGER);
    let good = std::fs::read(&path).expect("readable");
    std::fs::write(&path, b"no line of a ledger\n").expect("written");
    let before = std::fs::read(state.audit("a")).expect("readable");
    assert!(record.append(&Event::End { code: 1 }).is_err());
    assert_eq!(std::fs::read(state.audit("a")).expect("readable"), before);
    std::fs::write(&path, good).expect("written");
    record.append(&Event::End { code: 1 }).expect("appended");
    assert_eq!(state.finding("a").wrong, None);
}

#[test]
fn sessions_that_write_at_once_share_one_ledger_and_verify_meanwhile() {
    let state = Arc::new(State::new());
    let writers: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|id| {
            let state = Arc::clone(&state);
            std::thread::spawn(move || drop(state.session(id, 200)))
        })
        .collect();
    while !writers.iter().all(std::thread::JoinHandle::is_finished) {
        for finding in verify_in(&state.0, None).expect("readable") {
            assert_eq!(finding.wrong, None, "{finding:?}");
        }
    }
    for writer in writers {
        writer.join().expect("ended");
    }
    assert_eq!(state.finding("ledger").lines, 600);
}

#[test]
fn records_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let state = State::new();
    state.session("a", 1);
    for path in [
        state.audit("a"),
        state.0.join(names::LEDGER),
        state.0.join(names::SESSIONS).join("a"),
    ] {
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}
