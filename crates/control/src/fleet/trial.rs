//! What becomes of a version that some members try: a pure decision.

use std::time::Duration;

use super::member::FleetTrial;
use super::report::NodeReport;

/// What becomes of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialState {
    /// Not all of them run it yet.
    Waits,
    /// It runs on all of them, and they are well.
    Healthy,
    /// It is taken back, and why.
    TakenBack(String),
}

/// What the reports say of a trial that has lasted for `elapsed`, and has been healthy before or not.
pub fn judge(trial: &FleetTrial, reports: &[NodeReport], elapsed: Duration, was_healthy: bool) -> TrialState {
    let mut waits_for = None;
    for node in &trial.nodes {
        let report = reports.iter().find(|report| report.node == *node);
        if let Some(refused) =
            report.and_then(|it| it.refused.as_ref()).filter(|it| it.version == trial.version)
        {
            return TrialState::TakenBack(format!("{node} has refused it: {}", refused.reason));
        }
        if let Some(unwell) = unwell(trial, report) {
            if was_healthy {
                return TrialState::TakenBack(format!("{node} {unwell}"));
            }
            waits_for = Some(format!("{node} {unwell}"));
        }
    }
    match waits_for {
        None => TrialState::Healthy,
        Some(reason) if elapsed >= LONGEST_START => TrialState::TakenBack(reason),
        Some(_) => TrialState::Waits,
    }
}

/// Why a member is not a healthy one that runs the version.
fn unwell(trial: &FleetTrial, report: Option<&NodeReport>) -> Option<String> {
    let Some(report) = report else { return Some("does not report".to_owned()) };
    if report.running.is_none_or(|mark| mark.version != trial.version) {
        return Some("does not run it".to_owned());
    }
    (!report.not_ready.is_empty()).then(|| format!("is not ready: {}", report.not_ready))
}

/// The time in which all of them must run it, and be ready.
const LONGEST_START: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::RefusedVersion;
    use crate::versions::FleetMark;

    fn report(node: &str, runs: i64, not_ready: &str) -> NodeReport {
        let running = Some(FleetMark { version: runs, is_on_trial: true });
        NodeReport {
            node: node.to_owned(),
            running,
            not_ready: not_ready.to_owned(),
            ..NodeReport::default()
        }
    }

    #[test]
    fn a_trial_is_healthy_only_while_all_who_try_it_are() {
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        let trial = FleetTrial { version: 5, nodes, by: "c".to_owned(), seconds: 1, revision: 1 };
        let judge = |reports: &[NodeReport], seconds, was_healthy| {
            super::judge(&trial, reports, Duration::from_secs(seconds), was_healthy)
        };
        let well = [report("a", 5, ""), report("b", 5, ""), report("c", 4, "not asked")];
        assert_eq!(judge(&well, 0, false), TrialState::Healthy);
        let back = |reason: &str| TrialState::TakenBack(reason.to_owned());
        for (reports, reason) in [
            (vec![report("a", 5, "")], "b does not report"),
            (vec![report("a", 5, ""), report("b", 4, "")], "b does not run it"),
            (vec![report("a", 5, ""), report("b", 5, "no server")], "b is not ready: no server"),
        ] {
            assert_eq!(judge(&reports, 0, false), TrialState::Waits, "{reason}");
            assert_eq!(judge(&reports, 10, false), back(reason));
            assert_eq!(judge(&reports, 0, true), back(reason));
        }
        let mut refuses = report("b", 4, "");
        refuses.refused = Some(RefusedVersion { version: 5, reason: "why".to_owned() });
        assert_eq!(judge(&[report("a", 5, ""), refuses], 0, false), back("b has refused it: why"));
    }
}
