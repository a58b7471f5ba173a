//! What becomes of a version that some members try: a pure decision.

use std::time::Duration;

use super::member::FleetTrial;
use super::report::NodeReport;
use super::standing::{Standing, longest_start};

/// What becomes of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialState {
    /// Not all of them run it yet.
    Begins,
    /// All of them run it, and the time of one is not over.
    Runs,
    /// All of them have passed.
    Passed,
    /// It is taken back, and why.
    TakenBack(String),
}

/// What the reports say of a trial that has lasted for `elapsed`, and that all members have begun or not.
pub fn judge(trial: &FleetTrial, reports: &[NodeReport], elapsed: Duration, has_begun: bool) -> TrialState {
    let (mut absent, mut unfinished) = (None, None);
    for node in &trial.nodes {
        let report = reports.iter().find(|report| report.node == *node);
        match standing(trial, report) {
            Err(reason) => absent = Some(format!("{node} {reason}")),
            Ok(Standing::Failed(reason)) => return TrialState::TakenBack(format!("{node} {reason}")),
            Ok(Standing::Runs(reason)) => {
                unfinished = Some(format!("{node} has not passed in time: {reason}"))
            }
            Ok(Standing::Passed) => {}
        }
    }
    let length = Duration::from_secs(trial.seconds);
    match (absent, unfinished) {
        (None, None) => TrialState::Passed,
        (Some(reason), _) if has_begun || elapsed >= LONGEST_WAY => TrialState::TakenBack(reason),
        (Some(_), _) => TrialState::Begins,
        (None, Some(reason)) if elapsed >= LONGEST_WAY * 2 + longest_start(length) + length => {
            TrialState::TakenBack(reason)
        }
        (None, Some(_)) => TrialState::Runs,
    }
}

/// How far a member is; fails with why it is not trying the version.
fn standing(trial: &FleetTrial, report: Option<&NodeReport>) -> Result<Standing, String> {
    let Some(report) = report else { return Err("does not report".to_owned()) };
    if let Some(refused) = report.refused.as_ref().filter(|it| it.id == trial.mark.id) {
        return Ok(Standing::Failed(format!("has refused it: {}", refused.reason)));
    }
    if report.running.is_none_or(|mark| mark.id != trial.mark.id) {
        if !report.mismatch.is_empty() {
            return Ok(Standing::Failed(format!("cannot apply it: {}", report.mismatch)));
        }
        return Err("does not run it".to_owned());
    }
    match &report.standing {
        Some((version, standing)) if *version == trial.mark.version => Ok(standing.clone()),
        _ => Err("was started again, or does not say how it is with it".to_owned()),
    }
}

/// In which time all of them must run it. Reports take as long, at most, if etcd is slow.
const LONGEST_WAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::RefusedVersion;
    use crate::versions::{FleetMark, VersionId};

    fn mark(version: i64) -> FleetMark {
        FleetMark { version, id: VersionId::of(&version.to_le_bytes()), is_on_trial: true }
    }

    fn report(node: &str, runs: i64, standing: Standing) -> NodeReport {
        let running = Some(mark(runs));
        let standing = Some((runs, standing));
        NodeReport { node: node.to_owned(), running, standing, ..NodeReport::default() }
    }

    #[test]
    fn a_trial_passes_only_if_all_who_try_it_have_passed() {
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        let trial = FleetTrial { mark: mark(5), nodes, by: "c".to_owned(), seconds: 1, revision: 1 };
        let judge = |reports: &[NodeReport], seconds, has_begun| {
            super::judge(&trial, reports, Duration::from_secs(seconds), has_begun)
        };
        let runs = |reason: &str| Standing::Runs(reason.to_owned());
        let of_b = |standing| vec![report("a", 5, Standing::Passed), report("b", 5, standing)];
        let back = |reason: &str| TrialState::TakenBack(reason.to_owned());
        assert_eq!(judge(&of_b(Standing::Passed), 0, true), TrialState::Passed);
        assert_eq!(judge(&of_b(runs("x")), 40, true), TrialState::Runs);
        assert_eq!(judge(&of_b(runs("x")), 41, true), back("b has not passed in time: x"));
        assert_eq!(judge(&of_b(Standing::Failed("is ill".to_owned())), 0, false), back("b is ill"));
        let mut silent = of_b(Standing::Passed);
        silent[1].standing = None;
        for (reports, reason) in [
            (vec![report("a", 5, Standing::Passed)], "b does not report"),
            (vec![report("a", 5, Standing::Passed), report("b", 4, Standing::Passed)], "b does not run it"),
            (silent, "b was started again, or does not say how it is with it"),
        ] {
            assert_eq!(judge(&reports, 0, false), TrialState::Begins, "{reason}");
            assert_eq!(judge(&reports, 10, false), back(reason));
            assert_eq!(judge(&reports, 0, true), back(reason));
        }
        let mut refuses = report("b", 4, Standing::Passed);
        refuses.refused = Some(RefusedVersion {
            version: 5,
            id: mark(5).id,
            reason: "why".to_owned(),
            may_be_retried: true,
        });
        let reports = [report("a", 5, Standing::Passed), refuses];
        assert_eq!(judge(&reports, 0, false), back("b has refused it: why"));
    }
}
