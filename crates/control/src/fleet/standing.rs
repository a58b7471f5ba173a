//! How a version on trial does on one member that tries it: a pure decision of that member, which is part of its report.
//!
//! The member counts the time itself. So what happens there between two reports counts, and the time in which nobody reads them.

use std::time::Duration;

use narrows_proxy::rt::Instant;
use serde_json::{Value as Json, json};

use super::LocalStatus;
use super::duty::TrialDuty;

/// How far a member is with a version on trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It runs the version, and its time is not over, or has not begun: then this says what is missing.
    Runs(String),
    /// It has run exactly this version for the time of the trial, and was well.
    Passed,
    /// It has not, and why.
    Failed(String),
}

/// A version that this member tries.
#[derive(Debug)]
pub struct MemberTrial {
    /// Its number.
    pub version: i64,
    /// For how long it must run.
    length: Duration,
    /// The version of the own history that it is here: what is known of an older one says nothing.
    local_version: i64,
    needs_servers: bool,
    /// What it does not have, and needs.
    lacks: Option<String>,
    applied: Instant,
    /// Since when all is well.
    well_since: Option<Instant>,
    standing: Standing,
}

impl MemberTrial {
    /// A version that was just applied.
    pub fn new(version: i64, length: Duration, duty: &TrialDuty) -> MemberTrial {
        MemberTrial {
            version,
            length,
            local_version: duty.local_version,
            needs_servers: duty.needs_servers,
            lacks: duty.lacks.clone(),
            applied: Instant::now(),
            well_since: None,
            standing: Standing::Runs("it has just begun".to_owned()),
        }
    }

    /// How far it is.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Takes notice of how it is here, and of the hostgroup of which no server was reached yet. What has failed stays so.
    pub fn go_on(&mut self, now: Instant, status: &LocalStatus, unreached: Option<String>) {
        if !matches!(self.standing, Standing::Failed(_)) {
            self.standing = self.decide(now, status, unreached);
        }
    }

    fn decide(&mut self, now: Instant, status: &LocalStatus, unreached: Option<String>) -> Standing {
        if let Some(lacks) = &self.lacks {
            return Standing::Failed(format!("cannot serve clients with it: {lacks}"));
        }
        // 0 is one that could not be recorded.
        if (1..self.local_version).contains(&status.local_version) {
            return Standing::Runs("it has just begun".to_owned());
        }
        if !status.loaded.is_empty() {
            let loaded = &status.loaded;
            return Standing::Failed(format!(
                "does not run it any more: something else was loaded there ({loaded})"
            ));
        }
        let not_ready = Some(&status.not_ready).filter(|reason| self.needs_servers && !reason.is_empty());
        let unwell = not_ready.map(|reason| format!("is not ready: {reason}"));
        match (unwell.or(unreached), self.well_since) {
            (None, None) => {
                self.well_since = Some(now);
                Standing::Runs(String::new())
            }
            (None, Some(since)) if now.saturating_duration_since(since) >= self.length => Standing::Passed,
            (None, Some(_)) => Standing::Runs(String::new()),
            (Some(reason), None)
                if now.saturating_duration_since(self.applied) < longest_start(self.length) =>
            {
                Standing::Runs(reason)
            }
            (Some(reason), _) => Standing::Failed(reason),
        }
    }
}

/// How long a member may take until all is well: as long as the trial, or 20 seconds, in which the monitor checks twice.
pub fn longest_start(length: Duration) -> Duration {
    length.max(Duration::from_secs(20))
}

impl Standing {
    /// As the report has it.
    pub fn encode(&self, version: i64) -> Json {
        let (state, reason) = match self {
            Standing::Runs(reason) => ("runs", reason.as_str()),
            Standing::Passed => ("passed", ""),
            Standing::Failed(reason) => ("failed", reason.as_str()),
        };
        json!({ "version": version, "state": state, "reason": reason })
    }

    /// What a report says; `None`: nothing.
    pub fn decode(json: &Json) -> Option<(i64, Standing)> {
        let reason = json["reason"].as_str().unwrap_or_default().to_owned();
        let standing = match json["state"].as_str()? {
            "runs" => Standing::Runs(reason),
            "passed" => Standing::Passed,
            _ => Standing::Failed(reason),
        };
        Some((json["version"].as_i64()?, standing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(duty: &TrialDuty) -> (MemberTrial, impl Fn(u64) -> Instant + use<>) {
        let trial = MemberTrial::new(5, Duration::from_secs(3), duty);
        let applied = trial.applied;
        (trial, move |seconds| applied + Duration::from_secs(seconds))
    }

    fn status(not_ready: &str, loaded: &str) -> LocalStatus {
        LocalStatus {
            local_version: 7,
            not_ready: not_ready.to_owned(),
            loaded: loaded.to_owned(),
            ..LocalStatus::default()
        }
    }

    fn duty() -> TrialDuty {
        TrialDuty { local_version: 7, needs_servers: true, ..TrialDuty::default() }
    }

    #[test]
    fn the_time_of_a_trial_runs_from_when_all_is_well() {
        let (mut it, at) = trial(&duty());
        let old = LocalStatus { local_version: 6, ..LocalStatus::default() };
        it.go_on(at(0), &old, None);
        assert_eq!(it.well_since, None, "what is known of the version before says nothing");
        it.go_on(at(1), &status("", ""), Some("no server".to_owned()));
        assert_eq!(it.standing(), &Standing::Runs("no server".to_owned()));
        it.go_on(at(10), &status("", ""), None);
        it.go_on(at(12), &status("", ""), None);
        assert_eq!(it.standing(), &Standing::Runs(String::new()));
        it.go_on(at(13), &status("", ""), None);
        assert_eq!(it.standing(), &Standing::Passed);
        it.go_on(at(14), &status("no server is ONLINE", ""), None);
        assert_eq!(it.standing(), &Standing::Failed("is not ready: no server is ONLINE".to_owned()));
        it.go_on(at(15), &status("", ""), None);
        assert!(matches!(it.standing(), Standing::Failed(_)), "it stays so");
    }

    #[test]
    fn what_is_not_proven_within_its_bound_or_changes_has_failed() {
        let (mut it, at) = trial(&duty());
        it.go_on(at(19), &status("", ""), Some("no server".to_owned()));
        assert!(matches!(it.standing(), Standing::Runs(_)));
        it.go_on(at(20), &status("", ""), Some("no server".to_owned()));
        assert_eq!(it.standing(), &Standing::Failed("no server".to_owned()));
        let (mut it, at) = trial(&duty());
        it.go_on(at(0), &status("", ""), None);
        it.go_on(at(1), &status("", "mysql_servers 1 altered"), None);
        let Standing::Failed(reason) = it.standing() else { panic!("{it:?}") };
        assert!(reason.contains("something else was loaded there (mysql_servers 1 altered)"), "{reason}");
        let lacks = Some("no account is active".to_owned());
        let (mut it, at) = trial(&TrialDuty { lacks, ..duty() });
        it.go_on(at(0), &status("", ""), None);
        assert!(matches!(it.standing(), Standing::Failed(_)));
        // A fleet that never had a server is as ready as before.
        let (mut it, at) = trial(&TrialDuty { needs_servers: false, ..duty() });
        (0..=3).for_each(|second| it.go_on(at(second), &status("there is no server", ""), None));
        assert_eq!(it.standing(), &Standing::Passed);
    }

    #[test]
    fn a_report_says_what_the_member_has_decided() {
        for standing in [Standing::Runs("x".to_owned()), Standing::Passed, Standing::Failed("y".to_owned())] {
            assert_eq!(Standing::decode(&standing.encode(5)), Some((5, standing)));
        }
        assert_eq!(Standing::decode(&Json::Null), None);
    }
}
