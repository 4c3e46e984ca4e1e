//! The classes of escapes: the table of docs/THREATS.md, which is part of this program.

use picktwo_confine::probes::Probe;

const THREATS: &str = include_str!("../../../../docs/THREATS.md");

/// One row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// A letter and two digits.
    pub(super) id: &'static str,
    /// What an attack of the class does.
    pub(super) what: &'static str,
    /// Why sandboxes miss it.
    pub(super) missed: &'static str,
    /// What stops it, and which error a good sandbox gives.
    pub(super) answer: &'static str,
    /// Where it is known from.
    pub(super) source: &'static str,
}

/// All classes, in the order of the table.
pub(super) fn classes() -> impl Iterator<Item = Class> {
    THREATS.lines().filter_map(row)
}

/// The classes that a probe belongs to.
pub(super) fn of(probe: &Probe) -> Vec<Class> {
    classes()
        .filter(|class| probe.threats.split(' ').any(|id| id == class.id))
        .collect()
}

/// What a probe does and why that matters, in one paragraph.
pub(super) fn told(probe: &Probe) -> String {
    let classes = of(probe);
    let why: Vec<String> = classes.iter().map(|c| format!("{}: {}", c.id, c.what)).collect();
    format!("A process {}. {}", probe.what, why.join(". "))
}

fn row(line: &'static str) -> Option<Class> {
    let cells: Vec<&str> = line
        .strip_prefix("| ")?
        .strip_suffix(" |")?
        .split(" | ")
        .map(str::trim)
        .collect();
    let [id, what, missed, answer, source, _tests] = cells.as_slice() else {
        return None;
    };
    is_class(id).then_some(Class {
        id,
        what,
        missed,
        answer,
        source,
    })
}

fn is_class(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, tens, ones]
        if letter.is_ascii_uppercase() && tens.is_ascii_digit() && ones.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use picktwo_confine::probes;
    use std::collections::BTreeSet;

    #[test]
    fn every_class_of_a_probe_is_in_the_table_once() {
        let mut known = BTreeSet::new();
        for class in classes() {
            assert!(known.insert(class.id), "{} twice", class.id);
            assert!(!class.what.is_empty() && !class.answer.is_empty(), "{}", class.id);
        }
        for probe in probes::all() {
            for id in probe.threats.split(' ') {
                assert!(known.contains(id), "{}: {id} is no class of docs/THREATS.md", probe.id);
            }
        }
    }
}
