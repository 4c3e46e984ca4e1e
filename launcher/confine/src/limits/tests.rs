use super::*;
use crate::testing::{child_says, in_namespaces};
use std::os::fd::AsRawFd;

fn status(keys: &[&str]) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    keys.iter()
        .map(|key| {
            status
                .lines()
                .find_map(|l| l.strip_prefix(&format!("{key}:")))
                .unwrap()
                .trim()
                .to_owned()
        })
        .collect::<Vec<_>>()
        .join(" ")
}

const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

#[test]
fn all_five_capability_sets_are_empty_in_a_namespace() {
    let said = in_namespaces(|| {
        // As full as they can be: inheritable and ambient, too.
        caps::set(None, CapSet::Inheritable, &caps::read(None, CapSet::Permitted).unwrap()).unwrap();
        caps::raise(None, CapSet::Ambient, caps::Capability::CAP_NET_ADMIN).unwrap();
        let before = status(&SETS);
        assert!(!before.split(' ').any(|set| set == "0000000000000000"), "{before}");
        let bounding = drop_all_capabilities().unwrap();
        format!("{bounding} {}", status(&SETS))
    });
    assert_eq!(
        said,
        "true 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000"
    );
}

#[test]
fn dropping_twice_and_without_any_is_fine() {
    let said = child_says(|| {
        drop_all_capabilities().unwrap();
        let second = drop_all_capabilities().unwrap();
        format!("{second} {}", status(&["CapInh", "CapPrm", "CapEff", "CapAmb"]))
    });
    assert_eq!(
        said,
        "false 0000000000000000 0000000000000000 0000000000000000 0000000000000000"
    );
}

#[test]
fn no_privileges_come_back() {
    assert_eq!(child_says(|| status(&["NoNewPrivs"])), "0");
    let said = child_says(|| {
        no_new_privs().unwrap();
        status(&["NoNewPrivs"])
    });
    assert_eq!(said, "1");
}

#[test]
fn the_session_keyring_is_a_new_one() {
    const KEY_SPEC_SESSION_KEYRING: i64 = -3;
    let ring = || {
        crate::attempt::numbers(
            libc::SYS_keyctl,
            &[0 /* KEYCTL_GET_KEYRING_ID */, KEY_SPEC_SESSION_KEYRING, 0],
        )
    };
    let said = child_says(|| {
        let before = ring();
        new_session_keyring().unwrap();
        let first = ring();
        new_session_keyring().unwrap();
        format!(
            "{}",
            before != first && first != ring() && first.is_ok() || before == Err(Errno::ENOSYS)
        )
    });
    assert_eq!(said, "true");
}

#[test]
fn the_core_limit_is_1_and_cannot_be_raised() {
    let said = child_says(|| {
        core_limit().unwrap();
        drop_all_capabilities().unwrap();
        let raised = setrlimit(Resource::RLIMIT_CORE, 2, 2);
        format!("{:?} {raised:?}", getrlimit(Resource::RLIMIT_CORE).unwrap())
    });
    assert_eq!(said, "(1, 1) Err(EPERM)");
}

#[test]
fn the_sweep_leaves_what_is_kept_and_nothing_else() {
    let said = child_says(|| {
        let (a, b) = (
            std::fs::File::open("/dev/null").unwrap(),
            std::fs::File::open("/dev/null").unwrap(),
        );
        // SAFETY: clears close-on-exec, as for an inherited descriptor.
        unsafe { libc::fcntl(a.as_raw_fd(), libc::F_SETFD, 0) };
        let high = nix::fcntl::fcntl(&b, nix::fcntl::FcntlArg::F_DUPFD(200)).unwrap();
        let open = || {
            (0..300)
                .filter(|&fd| crate::attempt::numbers(libc::SYS_fcntl, &[fd, libc::F_GETFD.into()]).is_ok())
                .collect::<Vec<_>>()
        };
        let channel: Vec<_> = open().into_iter().filter(|fd| ![0, 1, 2].contains(fd)).collect();
        assert!(channel.contains(&i64::from(high)));
        // The channel of the test itself is among the lowest; it is kept so that the answer can be sent.
        let answer = channel
            .iter()
            .copied()
            .filter(|&fd| fd != i64::from(a.as_raw_fd()) && fd != i64::from(b.as_raw_fd()) && fd != i64::from(high))
            .collect::<Vec<_>>();
        let mut keep: Vec<RawFd> = answer.iter().map(|&fd| fd as RawFd).collect();
        keep.extend([b.as_raw_fd(), 0, 0, -1]);
        sweep(&keep).unwrap();
        let mut expected: Vec<i64> = answer;
        expected.extend([0, i64::from(b.as_raw_fd())]);
        expected.sort_unstable();
        let same = open() == expected;
        std::mem::forget((a, b));
        format!("{same}")
    });
    assert_eq!(said, "true");
}

#[test]
fn descriptors_up_to_the_hard_limit() {
    let said = child_says(|| {
        nofile(10, 20).unwrap();
        let raised = nofile_raise().unwrap();
        format!("{raised} {:?}", nofile_limits().unwrap())
    });
    assert_eq!(said, "20 (20, 20)");
}
