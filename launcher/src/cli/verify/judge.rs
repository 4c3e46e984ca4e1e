//! What an attempt's outcome means.

use picktwo_confine::Errno;
use picktwo_confine::probes::{Expected, Outcome, Place, Probe};

/// What became of a probe's control, the same attempt outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// It got through, or was seen to have an effect.
    Succeeded,
    /// It did not: on this machine the attempt proves nothing.
    Failed(Outcome),
}

/// What a confined process got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// The attempt came to this.
    Outcome(Outcome),
    /// There was no answer to it: the process before it ended, or the session did.
    Nothing,
}

/// The judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Refused exactly as it must be, and its control succeeded.
    Held,
    /// Not counted: nothing got through, but neither did the control.
    Inapplicable,
    /// Not got through, but not answered as it must be.
    Unexpected,
    /// Got through, or had an effect outside.
    Escaped,
}

impl Verdict {
    /// Stable word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Inapplicable => "inapplicable",
            Verdict::Unexpected => "unexpected",
            Verdict::Escaped => "escaped",
        }
    }
}

/// Which answers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Exactly the expected one: picktwo's own roles.
    Exact,
    /// Any refusal: other sandboxes answer as they like. `seen`: the control was seen from outside, so that an attempt which is
    /// not took place in a copy of the sandbox's own.
    AnyRefusal {
        /// Whether the control was seen from outside.
        seen: bool,
    },
}

/// Everything that was found.
pub(super) struct Judgement {
    /// The other sandbox that was judged; none: picktwo.
    pub(super) command: Option<Vec<String>>,
    /// The tier of picktwo's sessions.
    pub(super) tier: Option<&'static str>,
    /// In a fixed order.
    pub(super) findings: Vec<Finding>,
}

/// What a tier does not do.
#[derive(Clone, Copy)]
pub(super) struct Weaker {
    /// As a sentence without its end.
    pub(super) what: &'static str,
    /// Whether that shows outside.
    pub(super) changes: bool,
}

/// One probe at one place.
pub(super) struct Finding {
    /// What was tried.
    pub(super) probe: &'static Probe,
    /// By whom.
    pub(super) place: Place,
    /// What must come of it.
    pub(super) expected: Expected,
    /// Which answers hold.
    pub(super) rule: Rule,
    /// What came of it.
    pub(super) got: Got,
    /// What was seen of it from outside.
    pub(super) effect: Option<String>,
    /// What became of it bare.
    pub(super) control: Control,
    /// What it learns that the tier does not hide, or changes that it does not guard: then it is not counted.
    pub(super) weaker: Option<Weaker>,
}

impl Finding {
    /// The judgement.
    pub(super) fn verdict(&self) -> Verdict {
        let effect = self.effect.is_some();
        if self.weaker.is_some_and(|weaker| weaker.changes || !effect) {
            return Verdict::Inapplicable;
        }
        match self.rule {
            Rule::Exact => judge(self.expected, &self.got, effect, &self.control),
            Rule::AnyRefusal { seen } => judge_other(&self.got, effect, seen, &self.control),
        }
    }

    /// Why it is not counted.
    pub(super) fn reason(&self) -> Option<String> {
        if let Some(weaker) = self.weaker {
            return Some(format!("not enforced in this tier: {}", weaker.what));
        }
        match (&self.control, self.verdict()) {
            (Control::Failed(bare), Verdict::Inapplicable) => Some(inapplicable(bare)),
            _ => None,
        }
    }
}

/// What the outcome of a control says about a machine.
fn inapplicable(bare: &Outcome) -> String {
    let shown = shown(bare);
    let why = match bare {
        Outcome::Refused(Errno::ENOSYS) => "this kernel has no such call",
        Outcome::Refused(Errno::EAFNOSUPPORT | Errno::EPROTONOSUPPORT | Errno::ESOCKTNOSUPPORT) => {
            "this kernel has no such family or protocol"
        }
        Outcome::Refused(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::ENOTTY | Errno::EOPNOTSUPP) => {
            "this machine has no such thing"
        }
        Outcome::Refused(Errno::EPERM | Errno::EACCES | Errno::EROFS) => "this user may not do so anywhere",
        Outcome::Unprepared(..) => "a step before it fails on this machine",
        _ => "it fails on this machine without a sandbox, too",
    };
    format!("{why} ({shown})")
}

/// Judges one attempt in a sandbox of others. What the host sees weighs more than what the attempt says, both ways.
fn judge_other(got: &Got, effect: bool, seen: bool, control: &Control) -> Verdict {
    match (got, control) {
        _ if effect => Verdict::Escaped,
        (Got::Nothing | Got::Outcome(Outcome::Hung), _) => Verdict::Unexpected,
        (Got::Outcome(Outcome::Escaped), Control::Succeeded) if !seen => Verdict::Escaped,
        (_, Control::Succeeded) => Verdict::Held,
        // Nobody else can, and this one could.
        (Got::Outcome(Outcome::Escaped), Control::Failed(bare)) if *bare != Outcome::Escaped => Verdict::Escaped,
        (_, Control::Failed(_)) => Verdict::Inapplicable,
    }
}

/// Judges one attempt. An effect that was seen from outside weighs more than what the attempt says of itself.
pub(super) fn judge(expected: Expected, got: &Got, effect: bool, control: &Control) -> Verdict {
    if effect {
        return Verdict::Escaped;
    }
    let Got::Outcome(outcome) = got else {
        return Verdict::Unexpected;
    };
    let as_expected = match (outcome, expected) {
        (Outcome::Escaped, Expected::Unseen) => true,
        (Outcome::Escaped, _) => return Verdict::Escaped,
        (Outcome::Refused(errno), Expected::Errno(errnos)) => errnos.contains(errno),
        (Outcome::Unprepared(_, errno), Expected::Step(errnos)) => errnos.contains(errno),
        (Outcome::Killed(signal), Expected::Killed(by)) => *signal == by,
        (Outcome::Killed(_), Expected::Ended) => true,
        _ => false,
    };
    match control {
        Control::Succeeded if as_expected => Verdict::Held,
        Control::Succeeded => Verdict::Unexpected,
        // What fails everywhere in the same way was not refused by anybody.
        Control::Failed(bare) if as_expected || bare == outcome || unprepared(outcome) => Verdict::Inapplicable,
        Control::Failed(_) => Verdict::Unexpected,
    }
}

fn unprepared(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unprepared(..))
}

/// Whether the wall held: something was tried, and nothing escaped or was answered in an unexpected way.
pub(super) fn held(findings: &[Finding]) -> bool {
    let verdicts = || findings.iter().map(Finding::verdict);
    verdicts().any(|v| v == Verdict::Held) && verdicts().all(|v| matches!(v, Verdict::Held | Verdict::Inapplicable))
}

/// An outcome, for people and records.
pub(super) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Escaped => "got through".to_owned(),
        Outcome::Refused(errno) => format!("{errno:?}"),
        Outcome::Unprepared(step, errno) => format!("no {step}: {errno:?}"),
        Outcome::Killed(signal) => signal_name(*signal),
        Outcome::Hung => "no end".to_owned(),
    }
}

/// What is expected where a call may succeed, and nothing of it may be seen outside.
pub(super) const UNSEEN: &str = "unseen";

/// What is expected, for people and records.
pub(super) fn wanted(expected: Expected) -> Vec<String> {
    match expected {
        Expected::Errno(errnos) | Expected::Step(errnos) => {
            errnos.iter().map(|errno: &Errno| format!("{errno:?}")).collect()
        }
        Expected::Killed(signal) => vec![signal_name(signal)],
        Expected::Ended => vec!["ended".to_owned()],
        Expected::Unseen => vec![UNSEEN.to_owned()],
    }
}

/// 0 stands for a signal that nobody told.
fn signal_name(signal: i32) -> String {
    if signal == 0 {
        return "ended".to_owned();
    }
    nix::sys::signal::Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |s| s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use picktwo_confine::probes;

    const EROFS: Expected = Expected::Errno(&[Errno::EROFS]);

    fn got(outcome: Outcome) -> Got {
        Got::Outcome(outcome)
    }

    fn failed(errno: Errno) -> Control {
        Control::Failed(Outcome::Refused(errno))
    }

    #[test]
    fn only_the_exact_answer_with_a_control_is_held() {
        let refused = got(Outcome::Refused(Errno::EROFS));
        assert_eq!(judge(EROFS, &refused, false, &Control::Succeeded), Verdict::Held);
        assert_eq!(
            judge(EROFS, &refused, false, &failed(Errno::ENODEV)),
            Verdict::Inapplicable
        );
        for other in [
            Outcome::Refused(Errno::EPERM),
            Outcome::Refused(Errno::ENOSYS),
            Outcome::Killed(libc_sigsys()),
            Outcome::Hung,
            Outcome::Unprepared("x".to_owned(), Errno::EIO),
        ] {
            assert_eq!(
                judge(EROFS, &got(other.clone()), false, &Control::Succeeded),
                Verdict::Unexpected,
                "{other:?}"
            );
        }
        assert_eq!(
            judge(EROFS, &Got::Nothing, false, &Control::Succeeded),
            Verdict::Unexpected
        );
        assert_eq!(
            judge(EROFS, &Got::Nothing, false, &failed(Errno::EPERM)),
            Verdict::Unexpected
        );
    }

    #[test]
    fn what_got_through_is_an_escape_even_without_a_control() {
        for control in [Control::Succeeded, failed(Errno::EPERM)] {
            assert_eq!(judge(EROFS, &got(Outcome::Escaped), false, &control), Verdict::Escaped);
            // The attempt says that it was refused, and its effect was seen.
            assert_eq!(
                judge(EROFS, &got(Outcome::Refused(Errno::EROFS)), true, &control),
                Verdict::Escaped
            );
            assert_eq!(
                judge(Expected::Unseen, &got(Outcome::Escaped), true, &control),
                Verdict::Escaped
            );
            assert_eq!(judge(EROFS, &Got::Nothing, true, &control), Verdict::Escaped);
        }
    }

    #[test]
    fn a_wrong_answer_without_control_is_not_excused() {
        assert_eq!(
            judge(
                EROFS,
                &got(Outcome::Refused(Errno::EPERM)),
                false,
                &failed(Errno::ENODEV)
            ),
            Verdict::Unexpected
        );
        // The kernel has no such thing: the same answer inside and outside.
        assert_eq!(
            judge(
                EROFS,
                &got(Outcome::Refused(Errno::ENODEV)),
                false,
                &failed(Errno::ENODEV)
            ),
            Verdict::Inapplicable
        );
    }

    #[test]
    fn ends_by_signal_and_unseen_calls() {
        let killed = Expected::Killed(31);
        assert_eq!(
            judge(killed, &got(Outcome::Killed(31)), false, &Control::Succeeded),
            Verdict::Held
        );
        assert_eq!(
            judge(killed, &got(Outcome::Killed(11)), false, &Control::Succeeded),
            Verdict::Unexpected
        );
        assert_eq!(
            judge(
                killed,
                &got(Outcome::Refused(Errno::ENOSYS)),
                false,
                &Control::Succeeded
            ),
            Verdict::Unexpected
        );
        assert_eq!(
            judge(Expected::Unseen, &got(Outcome::Escaped), false, &Control::Succeeded),
            Verdict::Held
        );
        assert_eq!(
            judge(Expected::Unseen, &got(Outcome::Escaped), false, &failed(Errno::EPERM)),
            Verdict::Inapplicable
        );
        assert_eq!(
            judge(
                Expected::Unseen,
                &got(Outcome::Refused(Errno::EPERM)),
                false,
                &Control::Succeeded
            ),
            Verdict::Unexpected
        );
    }

    #[test]
    fn others_hold_by_any_refusal_and_by_what_the_host_sees() {
        let refused = got(Outcome::Refused(Errno::EXDEV));
        let through = got(Outcome::Escaped);
        let yes = Control::Succeeded;
        assert_eq!(judge_other(&refused, false, false, &yes), Verdict::Held);
        assert_eq!(
            judge_other(&got(Outcome::Killed(31)), false, false, &yes),
            Verdict::Held
        );
        assert_eq!(judge_other(&through, false, false, &yes), Verdict::Escaped);
        assert_eq!(judge_other(&refused, true, true, &yes), Verdict::Escaped);
        // In a copy of its own: the host would have seen it.
        assert_eq!(judge_other(&through, false, true, &yes), Verdict::Held);
        assert_eq!(judge_other(&Got::Nothing, false, false, &yes), Verdict::Unexpected);
        assert_eq!(
            judge_other(&got(Outcome::Hung), false, false, &yes),
            Verdict::Unexpected
        );
        let no = failed(Errno::EPERM);
        assert_eq!(judge_other(&refused, false, false, &no), Verdict::Inapplicable);
        assert_eq!(judge_other(&through, false, false, &no), Verdict::Escaped);
        // The call always succeeds, and outside nothing of it is seen either.
        let unseen = Control::Failed(Outcome::Escaped);
        assert_eq!(judge_other(&through, false, false, &unseen), Verdict::Inapplicable);
    }

    #[test]
    fn one_bad_finding_spoils_everything_and_nothing_tried_is_nothing_held() {
        let finding = |outcome: Outcome| Finding {
            probe: probes::all().next().expect("there are probes"),
            place: Place::ReadOnly,
            expected: EROFS,
            rule: Rule::Exact,
            got: got(outcome),
            effect: None,
            control: Control::Succeeded,
            weaker: None,
        };
        let good = || finding(Outcome::Refused(Errno::EROFS));
        assert!(held(&[good(), good()]));
        assert!(!held(&[good(), finding(Outcome::Escaped)]));
        assert!(!held(&[good(), finding(Outcome::Refused(Errno::EPERM))]));
        assert!(!held(&[]));
        let mut without = good();
        without.control = failed(Errno::ENODEV);
        assert!(!held(&[without]), "without a single control nothing was shown");
    }

    fn libc_sigsys() -> i32 {
        nix::sys::signal::Signal::SIGSYS as i32
    }
}
