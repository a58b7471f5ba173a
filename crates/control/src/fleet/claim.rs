//! Whose report it is: two Narrows with one name must not overwrite each other's. A pure decision.
//!
//! A process takes over the report of the process before it, which has had the same data folder, and keeps away from that of another
//! Narrows, as long as that is renewed. If a copy of its own data folder takes the report over, it keeps away, too.

use super::report::{NodeReport, ReportOrigin};
use super::transaction::KeyValue;

/// What to do with the report that is under the own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportClaim {
    /// Write over what was written at this revision; 0: there is nothing.
    Write(i64),
    /// Keep away: it is that of another Narrows.
    KeepAway(Box<NodeReport>),
}

/// Decides about what was `found` there. `began` is when this process has begun, in seconds since 1970, and `has_written` says whether it
/// has ever written a report.
pub fn claim(own: &ReportOrigin, began: i64, has_written: bool, found: Option<&KeyValue>) -> ReportClaim {
    let Some(pair) = found else { return ReportClaim::Write(0) };
    if pair.lease == 0 {
        // No member has written it: it would never go.
        return ReportClaim::Write(pair.revision);
    }
    let Some(report) = NodeReport::decode(&pair.value) else { return ReportClaim::Write(pair.revision) };
    let is_of_this_process = report.origin == *own;
    // An etcd that was put back has the report of an earlier process again.
    let is_of_one_before = report.origin.uuid == own.uuid && (!has_written || report.reported <= began);
    let is_unknown = report.origin.uuid.is_empty();
    match is_of_this_process || is_of_one_before || is_unknown {
        true => ReportClaim::Write(pair.revision),
        false => ReportClaim::KeepAway(Box::new(report)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_over_from_the_one_before_it_and_from_nobody_else() {
        let origin =
            |uuid: &str, process: &str| ReportOrigin { uuid: uuid.to_owned(), process: process.to_owned() };
        let own = origin("u", "2");
        let found = |origin: ReportOrigin| KeyValue {
            key: String::new(),
            value: NodeReport { origin, reported: 200, ..NodeReport::default() }.encode().into_bytes(),
            revision: 7,
            lease: 1,
        };
        for (what, origin, has_written, is_ours) in [
            ("its own", origin("u", "2"), true, true),
            ("its own, whose answer was lost", origin("u", "2"), false, true),
            ("that of the process before", origin("u", "1"), false, true),
            ("that of a copy of the data folder", origin("u", "3"), true, false),
            ("that of another Narrows", origin("v", "1"), false, false),
            ("that of another Narrows, later", origin("v", "1"), true, false),
            ("that of an older program", origin("", ""), false, true),
        ] {
            let claimed = claim(&own, 100, has_written, Some(&found(origin)));
            assert_eq!(claimed == ReportClaim::Write(7), is_ours, "{what}: {claimed:?}");
        }
        let before = found(origin("u", "1"));
        assert_eq!(
            claim(&own, 200, true, Some(&before)),
            ReportClaim::Write(7),
            "from before an etcd was put back"
        );
        assert_eq!(claim(&own, 100, true, None), ReportClaim::Write(0));
        let nonsense = KeyValue { key: String::new(), value: b"x".to_vec(), revision: 9, lease: 1 };
        assert_eq!(claim(&own, 100, false, Some(&nonsense)), ReportClaim::Write(9));
        let stray = KeyValue { lease: 0, ..found(origin("v", "1")) };
        assert_eq!(claim(&own, 100, false, Some(&stray)), ReportClaim::Write(7));
    }
}
