//! Plain allow lists as `seccompiler` compiles them: an independent answer to compare ours with.

use super::super::bpf::Instruction;
use super::super::{Action, Filter, Test};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// The error of a filter that `seccompiler` can express: an allow list, everything else fails with it, foreign ABIs are killed.
pub(super) fn errno_of_plain(filter: &Filter) -> Option<u16> {
    let Action::Errno(errno) = filter.otherwise else {
        return None;
    };
    let same = |action| action == filter.otherwise;
    let plain = filter.foreign == Action::KillProcess
        && same(filter.x32)
        && filter.newer.is_none_or(|(_, action)| same(action))
        && filter
            .rules
            .iter()
            .all(|rule| rule.then == Action::Allow && rule.when.iter().all(|cond| known(cond.test)));
    plain.then_some(errno as i32 as u16)
}

/// Whether `seccompiler` knows such a condition.
fn known(test: Test) -> bool {
    !matches!(test, Test::Any(_) | Test::NotMasked { .. } | Test::NotNull64)
}

/// An allow list, by `seccompiler`.
pub(super) fn compile(filter: &Filter, errno: u16) -> Result<Vec<Instruction>, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut always = std::collections::BTreeSet::new();
    for rule in &filter.rules {
        let mut conditions = Vec::new();
        for cond in &rule.when {
            let (length, operator, value) = match cond.test {
                Test::Is(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.into()),
                Test::IsNot(value) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value.into()),
                Test::None(mask) => (SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask.into()), 0),
                Test::Masked { mask, value } => (
                    SeccompCmpArgLen::Dword,
                    SeccompCmpOp::MaskedEq(mask.into()),
                    value.into(),
                ),
                Test::Null64 => (SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
                Test::Any(_) | Test::NotMasked { .. } | Test::NotNull64 => {
                    return Err(format!("{} has another condition", rule.name));
                }
            };
            conditions.push(SeccompCondition::new(cond.argument, length, operator, value).map_err(|e| e.to_string())?);
        }
        let entry = rules.entry(rule.nr).or_default();
        if conditions.is_empty() {
            always.insert(rule.nr);
        } else {
            entry.push(SeccompRule::new(conditions).map_err(|e| e.to_string())?);
        }
    }
    // An empty list of rules allows the call whatever its arguments.
    for nr in always {
        rules.insert(nr, Vec::new());
    }
    let otherwise = SeccompAction::Errno(errno.into());
    let compiled: seccompiler::BpfProgram =
        SeccompFilter::new(rules, otherwise, SeccompAction::Allow, TargetArch::x86_64)
            .and_then(TryInto::try_into)
            .map_err(|e| e.to_string())?;
    Ok(compiled
        .into_iter()
        .map(|i| Instruction {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        })
        .collect())
}
