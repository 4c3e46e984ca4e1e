//! From rules to BPF.

use super::{ARCH, Action, Cond, Filter, Rule, Test, X32_BIT};
use std::collections::BTreeMap;

/// One instruction, in the kernel's layout (`struct sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// How many instructions to skip if a comparison holds.
    pub jt: u8,
    /// How many instructions to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_EQ: u16 = 0x15;
pub(super) const JUMP_GT: u16 = 0x25;
pub(super) const JUMP_GE: u16 = 0x35;
pub(super) const JUMP_SET: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

const NR: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn test(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn answer(action: Action) -> Instruction {
    op(
        RETURN,
        match action {
            Action::Allow => libc::SECCOMP_RET_ALLOW,
            Action::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as i32 as u32,
            Action::Pretend => libc::SECCOMP_RET_ERRNO,
            Action::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Action::KillProcess => libc::SECCOMP_RET_KILL_PROCESS,
        },
    )
}

/// Instructions that fall through if the condition holds and skip `miss` more instructions behind themselves if not.
fn condition(cond: &Cond, miss: u8) -> Vec<Instruction> {
    let low = ARGUMENTS + 8 * u32::from(cond.argument);
    let high = low + 4;
    match cond.test {
        Test::Is(value) => vec![op(LOAD, low), test(JUMP_EQ, value, 0, miss)],
        Test::IsNot(value) => vec![op(LOAD, low), test(JUMP_EQ, value, miss, 0)],
        Test::Any(mask) => vec![op(LOAD, low), test(JUMP_SET, mask, 0, miss)],
        Test::None(mask) => vec![op(LOAD, low), test(JUMP_SET, mask, miss, 0)],
        Test::Masked { mask, value } => vec![op(LOAD, low), op(AND, mask), test(JUMP_EQ, value, 0, miss)],
        Test::NotMasked { mask, value } => vec![op(LOAD, low), op(AND, mask), test(JUMP_EQ, value, miss, 0)],
        Test::Null64 => {
            vec![
                op(LOAD, low),
                test(JUMP_EQ, 0, 0, miss + 2),
                op(LOAD, high),
                test(JUMP_EQ, 0, 0, miss),
            ]
        }
        Test::NotNull64 => vec![
            op(LOAD, low),
            test(JUMP_EQ, 0, 0, 2),
            op(LOAD, high),
            test(JUMP_EQ, 0, miss, 0),
        ],
    }
}

/// The rules of one call: each falls through to the next, the last to `otherwise`.
fn block(rules: &[&Rule], otherwise: Action) -> Result<Vec<Instruction>, String> {
    let mut code = Vec::new();
    for rule in rules {
        // From the back, so that every condition knows how far the next rule is.
        let mut body = vec![answer(rule.then)];
        for cond in rule.when.iter().rev() {
            if cond.argument > 5 {
                return Err(format!("{} tests argument {}", rule.name, cond.argument));
            }
            let miss = u8::try_from(body.len())
                .ok()
                .filter(|&n| n < 250)
                .ok_or_else(|| format!("{} has too many conditions", rule.name))?;
            let mut test = condition(cond, miss);
            test.append(&mut body);
            body = test;
        }
        code.append(&mut body);
        if rule.when.is_empty() {
            return Ok(code);
        }
    }
    code.push(answer(otherwise));
    Ok(code)
}

/// A run of call numbers, up to the next one's start, that one piece of code decides.
struct Segment {
    start: u32,
    code: Vec<Instruction>,
}

/// Runs of numbers, in order and without holes: neighbours that are decided alike share one.
fn segments(calls: Vec<(u32, Vec<Instruction>)>, otherwise: Action) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    let mut push = |start: u32, code: Vec<Instruction>| match all.last() {
        // Code with conditions is as long as its run, or longer.
        Some(last) if last.code == code && code.len() == 1 => {}
        _ => all.push(Segment { start, code }),
    };
    let mut next = 0;
    for (nr, code) in calls {
        if nr > next {
            push(next, vec![answer(otherwise)]);
        }
        push(nr, code);
        next = nr + 1;
    }
    push(next, vec![answer(otherwise)]);
    all
}

/// Numbers by binary search; every path ends in an answer. The kernel runs a filter for every call number when it is installed
/// (`seccomp_cache_prepare`), so that a chain of comparisons costs each session's start a millisecond.
fn search(segments: &[Segment]) -> Vec<Instruction> {
    match segments {
        [] => Vec::new(),
        [segment] => segment.code.clone(),
        _ => {
            let (lower, upper) = segments.split_at(segments.len() / 2);
            let lower_code = search(lower);
            let mut code = match u8::try_from(lower_code.len()) {
                Ok(far) => vec![test(JUMP_GE, upper[0].start, far, 0)],
                Err(_) => vec![test(JUMP_GE, upper[0].start, 0, 1), op(JUMP, lower_code.len() as u32)],
            };
            code.extend(lower_code);
            code.extend(search(upper));
            code
        }
    }
}

pub(super) fn compile(filter: &Filter) -> Result<Vec<Instruction>, String> {
    let mut by_number: BTreeMap<u32, Vec<&Rule>> = BTreeMap::new();
    for rule in &filter.rules {
        let nr = u32::try_from(rule.nr).map_err(|_| format!("{} has number {}", rule.name, rule.nr))?;
        if filter.newer.is_some_and(|(newest, _)| rule.nr > newest) {
            return Err(format!("{} is newer than the newest known call", rule.name));
        }
        by_number.entry(nr).or_default().push(rule);
    }
    let mut calls = Vec::new();
    for (nr, rules) in by_number {
        calls.push((nr, block(&rules, filter.otherwise)?));
    }
    let mut code = vec![
        op(LOAD, ARCHITECTURE),
        test(JUMP_EQ, ARCH, 1, 0),
        answer(filter.foreign),
        op(LOAD, NR),
        test(JUMP_GE, X32_BIT, 0, 1),
        answer(filter.x32),
    ];
    if let Some((newest, action)) = filter.newer {
        let newest = u32::try_from(newest).map_err(|_| "the newest known call is negative".to_owned())?;
        code.extend([test(JUMP_GT, newest, 0, 1), answer(action)]);
    }
    code.extend(search(&segments(calls, filter.otherwise)));
    if code.len() > MAX_INSTRUCTIONS {
        return Err(format!("{} instructions", code.len()));
    }
    Ok(code)
}
