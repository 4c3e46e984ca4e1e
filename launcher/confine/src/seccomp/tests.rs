//! Compiled programs against the definition, by an interpreter and in the kernel.

mod reference;

use super::bpf::{self, Instruction};
use super::*;
use crate::attempt;
use crate::filters::{self, Grants};
use crate::process::Exit;
use crate::role::Role;
use crate::testing::{child_says, in_child};

/// Runs a program as the kernel does, for the operations that filters here use. The data is `struct seccomp_data`.
fn interpret(program: &[Instruction], arch: u32, nr: u32, args: &[u64; 6]) -> std::result::Result<u32, String> {
    let mut words = vec![nr, arch, 0, 0];
    for arg in args {
        words.extend([*arg as u32, (*arg >> 32) as u32]);
    }
    let (mut at, mut a) = (0usize, 0u32);
    loop {
        let i = program.get(at).ok_or(format!("ran off the end at {at}"))?;
        let branch = |yes: bool| if yes { i.jt as usize } else { i.jf as usize };
        at += 1;
        match i.code {
            bpf::LOAD => {
                a = *words
                    .get(i.k as usize / 4)
                    .filter(|_| i.k % 4 == 0)
                    .ok_or(format!("load of {}", i.k))?
            }
            bpf::AND => a &= i.k,
            bpf::JUMP => at += i.k as usize,
            bpf::JUMP_EQ => at += branch(a == i.k),
            bpf::JUMP_GT => at += branch(a > i.k),
            bpf::JUMP_GE => at += branch(a >= i.k),
            bpf::JUMP_SET => at += branch(a & i.k != 0),
            bpf::RETURN => return Ok(i.k),
            other => return Err(format!("operation {other:#x}")),
        }
    }
}

fn returned(action: Action) -> u32 {
    match action {
        Action::Allow => 0x7fff_0000,
        Action::Errno(errno) => 0x0005_0000 | errno as i32 as u32,
        Action::Pretend => 0x0005_0000,
        Action::Notify => 0x7fc0_0000,
        Action::KillProcess => 0x8000_0000,
    }
}

fn all_filters() -> Vec<Filter> {
    let mut all: Vec<Filter> = Role::ALL.into_iter().map(filters::for_role).collect();
    all.push(filters::agent_notify(Grants::ALL));
    all.push(filters::agent_notify(Grants {
        sockets: false,
        descriptor_times: true,
        ..Grants::ALL
    }));
    all.push(filters::agent_notify(Grants::CONTAINER));
    all.push(filters::agent_container());
    all.push(filters::agent_nested());
    all.push(filters::retriever_notify());
    all
}

/// Values that the rules of a call distinguish, their neighbours, and the same with high bits set.
fn interesting(filter: &Filter, nr: i64, argument: u8) -> Vec<u64> {
    let mut low = vec![0, 1, u32::MAX];
    for rule in filter.rules.iter().filter(|r| r.nr == nr) {
        for cond in rule.when.iter().filter(|c| c.argument == argument) {
            match cond.test {
                Test::Is(v) | Test::IsNot(v) => low.extend([v, v.wrapping_add(1), v ^ 0x8000_0000]),
                Test::Any(m) | Test::None(m) => low.extend([
                    m,
                    !m,
                    1 << m.trailing_zeros(),
                    1 << (31 - m.leading_zeros()),
                    !m | (1 << m.trailing_zeros()),
                ]),
                Test::Masked { mask, value } | Test::NotMasked { mask, value } => {
                    low.extend([value, value | !mask, value ^ (1 << mask.trailing_zeros()), !value])
                }
                Test::Null64 | Test::NotNull64 => low.push(8),
            }
        }
    }
    low.sort_unstable();
    low.dedup();
    low.iter()
        .flat_map(|&v| {
            [
                u64::from(v),
                u64::from(v) | 1 << 32,
                u64::from(v) | 0xffff_ffff_0000_0000,
            ]
        })
        .collect()
}

/// Every tuple of interesting values for the arguments that a call's rules look at.
fn argument_sets(filter: &Filter, nr: i64) -> Vec<[u64; 6]> {
    let mut sets = vec![[0u64; 6]];
    for argument in 0..6u8 {
        if !filter
            .rules
            .iter()
            .any(|r| r.nr == nr && r.when.iter().any(|c| c.argument == argument))
        {
            continue;
        }
        let values = interesting(filter, nr, argument);
        sets = sets
            .iter()
            .flat_map(|set| {
                values.iter().map(|&v| {
                    let mut s = *set;
                    s[argument as usize] = v;
                    s
                })
            })
            .collect();
    }
    sets
}

#[test]
fn compiled_programs_decide_as_defined() {
    for filter in all_filters() {
        let program = filter.compile().unwrap();
        let mut checked = 0;
        for nr in (0..600).chain([0x3fff_ffff]) {
            for args in argument_sets(&filter, nr) {
                let expected = returned(filter.decide(ARCH, nr as u32, &args));
                assert_eq!(
                    interpret(&program, ARCH, nr as u32, &args),
                    Ok(expected),
                    "{} {nr} {args:x?}",
                    filter.name
                );
                checked += 1;
            }
        }
        assert!(checked > 600);
        for nr in [
            X32_BIT,
            X32_BIT | 2,
            X32_BIT | 257,
            X32_BIT | 512,
            0x8000_0000,
            u32::MAX,
        ] {
            assert_eq!(
                interpret(&program, ARCH, nr, &[0; 6]),
                Ok(returned(filter.x32)),
                "{} {nr:#x}",
                filter.name
            );
        }
        for arch in [ARCH_I386, 0, 0xC000_00B7] {
            for nr in [0, 5, 257, X32_BIT | 1] {
                assert_eq!(
                    interpret(&program, arch, nr, &[0; 6]),
                    Ok(returned(filter.foreign)),
                    "{} {arch:#x}",
                    filter.name
                );
            }
        }
    }
}

/// Two compilers, one answer: where `seccompiler` can express a filter, ours must agree with it.
#[test]
fn both_compilers_agree_on_plain_lists() {
    let mut plain = 0;
    for filter in all_filters() {
        let Some(errno) = reference::errno_of_plain(&filter) else {
            continue;
        };
        plain += 1;
        let (theirs, ours) = (
            reference::compile(&filter, errno).unwrap(),
            bpf::compile(&filter).unwrap(),
        );
        for nr in 0..600 {
            for args in argument_sets(&filter, nr) {
                assert_eq!(
                    interpret(&theirs, ARCH, nr as u32, &args),
                    interpret(&ours, ARCH, nr as u32, &args),
                    "{} {nr} {args:x?}",
                    filter.name
                );
            }
        }
    }
    assert!(plain >= 4, "only {plain} lists are plain");
}

fn filter(rules: Vec<Rule>) -> Filter {
    let enosys = Action::Errno(Errno::ENOSYS);
    Filter {
        name: "test",
        foreign: enosys,
        x32: enosys,
        newer: Some((469, enosys)),
        rules,
        otherwise: Action::Allow,
    }
}

fn one(nr: i64, test: Option<Test>, then: Action) -> Rule {
    Rule {
        nr,
        name: "test",
        when: test.into_iter().map(|test| Cond { argument: 0, test }).collect(),
        then,
        reason: "test",
    }
}

#[test]
fn every_kind_of_test_decides_in_the_kernel_as_defined() {
    // umask returns what was set before and takes 32 bits of any value; a refused one answers EXDEV.
    for test in [
        Test::Is(0o22),
        Test::IsNot(0o22),
        Test::Any(0o30),
        Test::None(0o30),
        Test::Masked {
            mask: 0o70,
            value: 0o20,
        },
        Test::NotMasked {
            mask: 0o70,
            value: 0o20,
        },
        Test::Null64,
        Test::NotNull64,
    ] {
        let filter = filter(vec![one(libc::SYS_umask, Some(test), Action::Errno(Errno::EXDEV))]);
        let values = [0i64, 0o22, 0o23, 0o10, 0o7, 1 << 32, 0o22 | 1 << 32, -1];
        let said = child_says(|| {
            install(&filter).unwrap();
            values
                .map(|v| {
                    if attempt::numbers(libc::SYS_umask, &[v]) == Err(Errno::EXDEV) {
                        '1'
                    } else {
                        '0'
                    }
                })
                .iter()
                .collect()
        });
        let expected: String = values
            .map(|v| if test.passes(v as u64) { '1' } else { '0' })
            .iter()
            .collect();
        assert_eq!(said, expected, "{test:?}");
    }
}

#[test]
fn the_first_rule_that_applies_decides() {
    let rules = vec![
        one(libc::SYS_umask, Some(Test::Is(1)), Action::Allow),
        one(libc::SYS_umask, Some(Test::Any(3)), Action::Errno(Errno::EXDEV)),
        one(libc::SYS_umask, None, Action::Pretend),
        one(libc::SYS_umask, None, Action::KillProcess),
    ];
    let said = child_says(|| {
        install(&filter(rules)).unwrap();
        [4, 1, 2, 3, 4]
            .map(|v| attempt::describe(&attempt::numbers(libc::SYS_umask, &[v])))
            .join(" ")
    });
    let before = child_says(|| attempt::describe(&attempt::numbers(libc::SYS_umask, &[0])));
    assert_eq!(said, format!("0 {before} EXDEV EXDEV 0"));
}

#[test]
fn other_abis_and_newer_calls_are_answered() {
    let unfiltered = child_says(|| {
        attempt::describe(&attempt::int80(20, [0; 3]).map(|pid| i64::from(pid == std::process::id() as i32)))
    });
    let said = child_says(|| {
        install(&filter(vec![])).unwrap();
        let results = [
            attempt::int80(20, [0; 3]).map(i64::from),
            attempt::numbers(i64::from(X32_BIT) | libc::SYS_getpid, &[]),
            attempt::numbers(470, &[]),
            attempt::numbers(libc::SYS_close, &[-1]),
        ];
        results.map(|r| attempt::describe(&r)).join(" ")
    });
    assert_eq!(said, "ENOSYS ENOSYS ENOSYS EBADF");
    // The control: without a filter the 32-bit call works.
    assert_eq!(unfiltered, "1");
}

#[test]
fn a_killing_filter_kills() {
    let kill = Filter {
        foreign: Action::KillProcess,
        ..filter(vec![one(libc::SYS_umask, None, Action::KillProcess)])
    };
    let (exit, _) = in_child(|| {
        install(&kill).unwrap();
        attempt::describe(&attempt::numbers(libc::SYS_umask, &[0]))
    });
    assert_eq!(exit, Exit::Signal(libc::SIGSYS));
    let (exit, _) = in_child(|| {
        install(&kill).unwrap();
        attempt::describe(&attempt::int80(20, [0; 3]).map(i64::from))
    });
    assert_eq!(exit, Exit::Signal(libc::SIGSYS));
}

#[test]
fn threads_are_an_error() {
    let said = child_says(|| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        let results = [
            install(&filter(vec![])).unwrap_err(),
            install_listener(&filter(vec![])).unwrap_err(),
        ];
        drop(go);
        let _ = thread.join();
        format!("{results:?} {:?}", install(&filter(vec![])))
    });
    assert_eq!(said, "[Threads { count: 2 }, Threads { count: 2 }] Ok(())");
}

#[test]
fn a_second_listener_is_its_own_error() {
    let said = child_says(|| {
        let notify = filter(vec![one(libc::SYS_umask, None, Action::Notify)]);
        let _listener = install_listener(&notify).unwrap();
        format!(
            "{:?} {:?}",
            install_listener(&notify).unwrap_err(),
            install(&filter(vec![]))
        )
    });
    assert_eq!(said, "SecondListener { filter: \"test\" } Ok(())");
}

#[test]
fn impossible_tables_do_not_compile() {
    let bad = [
        filter(vec![one(-1, None, Action::Allow)]),
        filter(vec![one(470, None, Action::Allow)]),
        filter(vec![Rule {
            when: vec![Cond {
                argument: 6,
                test: Test::Is(1),
            }],
            ..one(1, None, Action::Allow)
        }]),
        filter(
            (0..400)
                .flat_map(|nr| (0..5).map(move |v| one(nr, Some(Test::Is(v)), Action::Pretend)))
                .collect(),
        ),
    ];
    for filter in bad {
        assert!(
            matches!(filter.compile(), Err(Error::Compile { .. })),
            "{:?}",
            filter.rules[0]
        );
    }
}
