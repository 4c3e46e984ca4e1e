use super::*;

const LOCKED: &str = "\
Name:\tpicktwo
Threads:\t1
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t000001ffffffffff
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t3
";

#[test]
fn each_open_lock_is_named() {
    assert_eq!(check_status(LOCKED, false), Ok(()));
    for (line, open, name) in [
        ("Threads:\t1", "Threads:\t2", "Threads must be 1"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs must be 1"),
        ("Seccomp:\t2", "Seccomp:\t0", "Seccomp must be 2"),
        ("Seccomp:\t2\n", "", "Seccomp must be 2"),
        (
            "CapInh:\t0000000000000000",
            "CapInh:\t0000000000000001",
            "CapInh must be 0000000000000000",
        ),
        (
            "CapPrm:\t0000000000000000",
            "CapPrm:\t8000000000000000",
            "CapPrm must be 0000000000000000",
        ),
        (
            "CapEff:\t0000000000000000",
            "CapEff:\t0000000000200000",
            "CapEff must be 0000000000000000",
        ),
        (
            "CapAmb:\t0000000000000000",
            "CapAmb:\t0000000000000400",
            "CapAmb must be 0000000000000000",
        ),
    ] {
        match check_status(&LOCKED.replace(line, open), false) {
            Err(Error::NotLocked { check, .. }) => assert_eq!(check, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let error = check_status(LOCKED, true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "confinement check failed: CapBnd must be 0000000000000000, found 000001ffffffffff"
    );
}

#[test]
fn a_call_that_is_not_refused_is_named() {
    let said = crate::testing::child_says(|| {
        let check = SelfCheck::prepare().unwrap();
        let bounding = crate::limits::drop_all_capabilities().unwrap();
        crate::seccomp::install(&crate::filters::agent_plain()).unwrap();
        let open = Denied {
            name: "getpid",
            nr: libc::SYS_getpid,
            args: [0; 6],
            errno: Errno::EPERM,
        };
        let other = Denied {
            name: "close",
            nr: libc::SYS_close,
            args: [-1, 0, 0, 0, 0, 0],
            errno: Errno::EPERM,
        };
        let pid = std::process::id().to_string();
        [open, other]
            .map(|d| {
                check
                    .locked(bounding, &[d])
                    .unwrap_err()
                    .to_string()
                    .replace(&pid, "PID")
            })
            .join("; ")
    });
    assert_eq!(
        said,
        "confinement check failed: getpid must fail with EPERM, found PID; \
         confinement check failed: close must fail with EPERM, found EBADF"
    );
}
