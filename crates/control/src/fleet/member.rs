//! What one member does about what etcd says: a pure decision, without any connection.
//!
//! A member follows the head, and the version on trial if it is one of those that try it. It applies whole versions only, and
//! never one that is older than its own, unless it takes a trial back.

use crate::versions::FleetMark;

/// What etcd says of the versions of the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The version that all members run, or will; 0: there is none yet.
    pub head: i64,
    /// The greatest number that was given to a version; one that was taken back has a number, too.
    pub last: i64,
    /// What etcd calls the revision of the head; 0: there is none.
    pub revision: i64,
    /// The version that some members try.
    pub trial: Option<FleetTrial>,
}

/// A version that some members try before the others get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTrial {
    /// Its number.
    pub version: i64,
    /// Who tries it.
    pub nodes: Vec<String>,
    /// Who has begun it, and ends it.
    pub by: String,
    /// For how many seconds it must run.
    pub seconds: u64,
    /// What etcd calls its revision.
    pub revision: i64,
}

/// A version that a member cannot apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedVersion {
    /// Its number.
    pub version: i64,
    /// Why.
    pub reason: String,
}

/// What a member knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberState {
    /// Its name.
    pub node: String,
    /// The version that it runs; `None`: none of the fleet.
    pub running: Option<FleetMark>,
    /// The last version that it could not apply, unless it has applied one since.
    pub refused: Option<RefusedVersion>,
}

/// What a member is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it runs what it should, or has refused it.
    Stay,
    /// Apply this version.
    Apply(FleetMark),
    /// Nothing: etcd has only versions that are older than its own.
    Older(i64),
}

impl MemberState {
    /// What to do about what was seen. A version that was refused is tried again if `may_retry`.
    pub fn next(&self, seen: &Seen, may_retry: bool) -> Next {
        let wanted = self.wanted(seen);
        if wanted.version == 0 || self.running == Some(wanted) {
            return Next::Stay;
        }
        if !may_retry && self.refused.as_ref().is_some_and(|refused| refused.version == wanted.version) {
            return Next::Stay;
        }
        match self.running {
            // Etcd was put back to a moment in which that was on trial.
            Some(mark) if mark.version == wanted.version && wanted.is_on_trial => Next::Stay,
            Some(mark) if mark.version > wanted.version && !mark.is_on_trial => Next::Older(wanted.version),
            _ => Next::Apply(wanted),
        }
    }

    /// The version that this member should run.
    fn wanted(&self, seen: &Seen) -> FleetMark {
        let is_mine = |trial: &&FleetTrial| trial.version > seen.head && trial.nodes.contains(&self.node);
        match seen.trial.as_ref().filter(is_mine) {
            Some(trial) => FleetMark { version: trial.version, is_on_trial: true },
            None => FleetMark { version: seen.head, is_on_trial: false },
        }
    }

    /// Why a change of the configuration cannot begin here; `None`: it can.
    pub fn obstacle(&self, seen: &Seen) -> Option<String> {
        if let Some(trial) = &seen.trial {
            let (version, nodes) = (trial.version, trial.nodes.join(", "));
            return Some(format!("version {version} of the fleet is on trial on {nodes}: wait for its end"));
        }
        let runs = self.running.map_or(0, |mark| mark.version);
        if runs >= seen.head {
            return None;
        }
        Some(match &self.refused {
            Some(refused) if refused.version == seen.head => format!(
                "version {} of the fleet was refused here ({}): make the change on another member",
                seen.head, refused.reason
            ),
            _ => format!("version {} of the fleet is the newest, and version {runs} runs here", seen.head),
        })
    }

    /// A version was applied.
    pub fn has_applied(&mut self, mark: FleetMark) {
        self.running = Some(mark);
        self.refused = None;
    }

    /// A version could not be applied: what ran still runs.
    pub fn has_refused(&mut self, version: i64, reason: String) {
        self.refused = Some(RefusedVersion { version, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(runs: i64, on_trial: bool, refused: i64) -> MemberState {
        let mark = FleetMark { version: runs, is_on_trial: on_trial };
        let reason = "why".to_owned();
        MemberState {
            node: "a".to_owned(),
            running: (runs > 0).then_some(mark),
            refused: (refused > 0).then_some(RefusedVersion { version: refused, reason }),
        }
    }

    fn seen(head: i64, trial: Option<(i64, &str)>) -> Seen {
        let trial = trial.map(|(version, nodes)| FleetTrial {
            version,
            nodes: nodes.split(',').map(str::to_owned).collect(),
            by: "a".to_owned(),
            seconds: 1,
            revision: 1,
        });
        Seen { head, last: head, revision: head, trial }
    }

    #[test]
    fn a_member_follows_the_head_and_tries_what_names_it() {
        let apply = |version, is_on_trial| Next::Apply(FleetMark { version, is_on_trial });
        for (what, member, seen, expected) in [
            ("an empty etcd changes nothing", member(0, false, 0), seen(0, None), Next::Stay),
            ("an empty etcd takes nothing away", member(3, false, 0), seen(0, None), Next::Stay),
            ("a new member takes the head", member(0, false, 0), seen(4, None), apply(4, false)),
            ("what runs is the head", member(4, false, 0), seen(4, None), Next::Stay),
            ("versions between are left out", member(1, false, 0), seen(4, None), apply(4, false)),
            ("a refused one is not tried again", member(3, false, 4), seen(4, None), Next::Stay),
            ("the one after it is", member(3, false, 4), seen(5, None), apply(5, false)),
            ("etcd has gone back", member(4, false, 0), seen(3, None), Next::Older(3)),
            ("it tries", member(3, false, 0), seen(3, Some((4, "b,a"))), apply(4, true)),
            ("others try", member(3, false, 0), seen(3, Some((4, "b"))), Next::Stay),
            ("it refuses to try", member(3, false, 4), seen(3, Some((4, "a"))), Next::Stay),
            ("it continues to try", member(4, true, 0), seen(3, Some((4, "a"))), Next::Stay),
            ("etcd has gone back to a trial", member(4, false, 0), seen(3, Some((4, "a"))), Next::Stay),
            (
                "etcd has gone back to an older trial",
                member(5, false, 0),
                seen(3, Some((4, "a"))),
                Next::Older(4),
            ),
            ("it takes back", member(4, true, 0), seen(3, None), apply(3, false)),
            ("the trial has become the head", member(4, true, 0), seen(4, None), apply(4, false)),
            ("a newer head ends the trial", member(4, true, 0), seen(5, Some((4, "a"))), apply(5, false)),
            ("a trial for another member", member(4, true, 0), seen(3, Some((5, "b"))), apply(3, false)),
        ] {
            assert_eq!(member.next(&seen, false), expected, "{what}");
        }
        assert_eq!(member(3, false, 4).next(&seen(4, None), true), apply(4, false));
    }

    #[test]
    fn a_change_begins_only_where_the_newest_version_runs() {
        for (member, seen, obstacle) in [
            (member(0, false, 0), seen(0, None), None),
            (member(4, false, 0), seen(4, None), None),
            (member(4, false, 0), seen(0, None), None),
            (member(3, false, 0), seen(4, None), Some("version 4 of the fleet is the newest")),
            (member(3, false, 4), seen(4, None), Some("was refused here (why)")),
            (member(3, false, 0), seen(3, Some((4, "b"))), Some("on trial on b")),
        ] {
            let found = member.obstacle(&seen);
            match obstacle {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}"),
            }
        }
    }

    #[test]
    fn what_is_applied_ends_a_refusal() {
        let mut it = member(3, false, 0);
        it.has_refused(4, "why".to_owned());
        assert_eq!(it.refused.as_ref().map(|refused| refused.version), Some(4));
        it.has_applied(FleetMark { version: 5, is_on_trial: false });
        assert_eq!((it.refused, it.running.map(|mark| mark.version)), (None, Some(5)));
    }
}
