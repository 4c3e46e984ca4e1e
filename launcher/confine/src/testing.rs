//! For tests: children whose findings come back as text.

use crate::channel;
use crate::process::{self, Exit};

/// Runs `work` in a forked child and answers how that ended and what it said.
pub(crate) fn in_child(work: impl FnOnce() -> String) -> (Exit, String) {
    let (ours, theirs) = channel::pair().expect("a channel");
    let child = process::fork(|| {
        let text = work();
        match theirs.send(format!("={text}").as_bytes(), &[]) {
            Ok(()) => 0,
            Err(_) => 99,
        }
    })
    .expect("a child");
    drop(theirs);
    let mut message = Vec::new();
    let said = match ours.recv(&mut message).expect("a message") {
        Some(_) => String::from_utf8(message[1..].to_vec()).expect("text"),
        None => String::new(),
    };
    (child.wait().expect("its end"), said)
}

/// Like [`in_child`], for work that must come to its end.
pub(crate) fn child_says(work: impl FnOnce() -> String) -> String {
    let (exit, said) = in_child(work);
    assert_eq!(exit, Exit::Code(0), "{said}");
    said
}

/// In a user namespace of its own, with all capabilities there and every other namespace new, too.
pub(crate) fn in_namespaces(work: impl FnOnce() -> String) -> String {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    child_says(|| {
        let (ours, theirs) = channel::pair().expect("a channel");
        let child = process::clone_namespaces(crate::namespace::SESSION, "a namespaced child", || {
            crate::namespace::write_own_maps(uid, gid).expect("id maps");
            match theirs.send(format!("={}", work()).as_bytes(), &[]) {
                Ok(()) => 0,
                Err(_) => 99,
            }
        })
        .expect("namespaces");
        drop(theirs);
        let mut message = Vec::new();
        let some = ours.recv(&mut message).expect("a message").is_some();
        assert_eq!((child.wait().expect("its end"), some), (Exit::Code(0), true));
        String::from_utf8(message[1..].to_vec()).expect("text")
    })
}

/// A new directory for one test, removed with this value.
pub(crate) struct Scratch(std::path::PathBuf);

pub(crate) fn scratch(name: &str) -> Scratch {
    let dir = std::env::temp_dir().join(format!("picktwo-confine-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    Scratch(dir)
}

impl std::ops::Deref for Scratch {
    type Target = std::path::Path;

    fn deref(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
