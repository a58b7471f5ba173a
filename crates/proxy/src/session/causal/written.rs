//! What a session has written, as GTIDs, and what of it a token carries to other sessions.

use narrows_wire::gtid::GtidSet;

use super::doubts::Doubts;
use crate::rows::HostgroupId;

/// The transactions that a session has written, by writer hostgroup.
#[derive(Debug, Default)]
pub(in super::super) struct Written {
    sets: Vec<ToHostgroup>,
    /// To any other hostgroup something was written of which no GTID is known.
    is_unknown: bool,
    /// Something was written in the open transaction, or by a statement whose server has reported no GTID yet.
    is_pending: bool,
    /// Tokens of others that the writer has lacked.
    pub(super) doubts: Doubts,
}

/// What a session has written to the servers of one hostgroup.
#[derive(Debug)]
struct ToHostgroup {
    hostgroup: HostgroupId,
    gtids: GtidSet,
    /// There is more of which no GTID is known.
    is_unknown: bool,
}

/// What a statement has done to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// It has only read.
    Read,
    /// It may have written.
    Wrote,
    /// It has undone what the transaction wrote.
    RolledBack,
}

impl Written {
    /// Of a session whose writes before now nobody has recorded.
    pub(in super::super) fn unknown() -> Written {
        Written { is_unknown: true, ..Written::default() }
    }

    /// Notes a statement in `hostgroup`. `reported`: what it wrote, as the server has reported it; `is_open`: its transaction is not
    /// at its end. Returns whether track is lost: it has written something of which no GTID is known.
    pub(super) fn note(
        &mut self,
        deed: Deed,
        (hostgroup, reported): (HostgroupId, Option<GtidSet>),
        is_open: bool,
    ) -> bool {
        let is_lost = self.would_lose(deed, reported.is_some(), is_open);
        self.is_pending = is_open && reported.is_none() && self.is_pending_after(deed);
        if let Some(set) = reported {
            self.add(hostgroup, &set);
        }
        if is_lost {
            self.lose_track(hostgroup);
        }
        is_lost
    }

    /// Whether track would be lost by such a statement; `is_told`: its server has reported what it wrote.
    pub(super) fn would_lose(&self, deed: Deed, is_told: bool, is_open: bool) -> bool {
        !is_told && !is_open && self.is_pending_after(deed)
    }

    fn is_pending_after(&self, deed: Deed) -> bool {
        match deed {
            Deed::Read => self.is_pending,
            Deed::Wrote => true,
            Deed::RolledBack => false,
        }
    }

    /// Something was written to a hostgroup of which no GTID is known.
    pub(super) fn lose_track(&mut self, hostgroup: HostgroupId) {
        match self.entry_of(hostgroup) {
            Some(known) => known.is_unknown = true,
            None => self.is_unknown = true,
        }
    }

    /// Whether something was written whose GTID is still to come.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Whether something was written to a hostgroup of which no GTID is known.
    pub(super) fn is_unknown(&self, hostgroup: HostgroupId) -> bool {
        self.find(hostgroup).map_or(self.is_unknown, |known| known.is_unknown)
    }

    /// The writer has applied `applied`, and so all that the session has written there.
    pub(super) fn begin_with(&mut self, hostgroup: HostgroupId, applied: &GtidSet) {
        if let Some(known) = self.entry_of(hostgroup) {
            known.gtids.clone_from(applied);
            known.gtids.widen(MOST_INTERVALS);
            known.is_unknown = false;
        }
    }

    /// Only what the writer has applied as well remains of what the session has written there.
    pub(super) fn keep_common(&mut self, hostgroup: HostgroupId, applied: &GtidSet) {
        for known in self.sets.iter_mut().filter(|known| known.hostgroup == hostgroup) {
            known.gtids.keep_common(applied);
        }
    }

    /// What the session has written to the servers of a hostgroup.
    pub(super) fn to(&self, hostgroup: HostgroupId) -> GtidSet {
        self.find(hostgroup).map(|known| known.gtids.clone()).unwrap_or_default()
    }

    fn add(&mut self, hostgroup: HostgroupId, written: &GtidSet) {
        match self.entry_of(hostgroup) {
            Some(known) => {
                known.gtids.add(written);
                known.gtids.widen(MOST_INTERVALS);
            }
            None => self.is_unknown = true,
        }
    }

    fn find(&self, hostgroup: HostgroupId) -> Option<&ToHostgroup> {
        self.sets.iter().find(|known| known.hostgroup == hostgroup)
    }

    /// The entry of a hostgroup, which is made if there is none; `None`: there are too many.
    fn entry_of(&mut self, hostgroup: HostgroupId) -> Option<&mut ToHostgroup> {
        if self.find(hostgroup).is_none() && self.sets.len() < MOST_HOSTGROUPS {
            let (gtids, is_unknown) = (GtidSet::default(), self.is_unknown);
            self.sets.push(ToHostgroup { hostgroup, gtids, is_unknown });
        }
        self.sets.iter_mut().find(|known| known.hostgroup == hostgroup)
    }

    /// What another session needs to see the writes of this one: `0/uuid:1-5+10/0-1-7`, each set after its writer hostgroup. With
    /// `unknown`, there are others, to hostgroups that it does not name.
    pub(in super::super) fn token(&self) -> String {
        if self.is_pending {
            return UNKNOWN.to_owned();
        }
        let is_unknown = self.is_unknown || self.sets.iter().any(|known| known.is_unknown);
        // What is not named is unknown as soon as anything is.
        let is_named = |known: &&ToHostgroup| !known.is_unknown && (is_unknown || !known.gtids.is_empty());
        let named = self.sets.iter().filter(is_named);
        let named = named.map(|ToHostgroup { hostgroup, gtids, .. }| format!("{hostgroup}/{gtids}"));
        named.chain(is_unknown.then(|| UNKNOWN.to_owned())).collect::<Vec<_>>().join("+")
    }
}

/// What a token names for the servers of one hostgroup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Gtids(GtidSet),
    /// The session that made it had written something of which no GTID is known.
    Unknown,
}

impl Token {
    /// Parses a token; sets without a hostgroup are of any. `None` if it is none.
    pub(super) fn parse(text: &str, hostgroup: HostgroupId) -> Option<Token> {
        // The session did not know all that it had written.
        let known = text.strip_suffix(UNKNOWN).map(|before| before.trim_end_matches('+'));
        let sets = GtidSet::parse_numbered(known.unwrap_or(text)).ok()?;
        let is_here = |number: Option<i32>| number.is_none_or(|number| number == hostgroup.0);
        let is_named = sets.iter().any(|(number, _)| *number == Some(hostgroup.0));
        if known.is_some() && !is_named {
            return Some(Token::Unknown);
        }
        let mut wanted = GtidSet::default();
        sets.iter().filter(|(number, _)| is_here(*number)).for_each(|(_, set)| wanted.add(set));
        Some(Token::Gtids(wanted))
    }
}

/// In a token: the session does not know all that it has written to hostgroups that the token does not name.
const UNKNOWN: &str = "unknown";

/// Of one source. A session writes between others, so that its transactions have gaps; with more of them its reads wait for those
/// in between too.
const MOST_INTERVALS: usize = 32;

/// As many shards as one session may write to before its writes are not followed any more.
const MOST_HOSTGROUPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: HostgroupId = HostgroupId(0);
    const OTHER: HostgroupId = HostgroupId(10);

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    #[test]
    fn what_servers_report_is_known_by_hostgroup() {
        let mut written = Written::default();
        assert!(!written.note(Deed::Wrote, (MAIN, Some(set("0-1-5"))), false));
        written.note(Deed::Wrote, (OTHER, Some(set("0-1-7"))), false);
        written.note(Deed::Wrote, (MAIN, Some(set("0-1-6"))), false);
        assert_eq!((written.to(MAIN), written.to(HostgroupId(10))), (set("0-1-6"), set("0-1-7")));
        assert_eq!(written.token(), "0/0-1-6+10/0-1-7");
    }

    #[test]
    fn a_write_without_a_gtid_loses_track_at_the_end_of_its_transaction() {
        let mut written = Written::default();
        assert!(!written.note(Deed::Wrote, (MAIN, None), true));
        assert!(!written.note(Deed::Read, (MAIN, None), true));
        assert!(!written.note(Deed::Read, (MAIN, Some(set("0-1-5"))), false), "COMMIT has reported it");
        assert!(!written.note(Deed::Wrote, (MAIN, None), true));
        assert!(!written.note(Deed::RolledBack, (MAIN, None), false));
        assert!(!written.is_unknown(MAIN));
        assert!(!written.note(Deed::Wrote, (MAIN, None), true));
        assert_eq!(written.token(), "unknown");
        assert!(written.note(Deed::Read, (MAIN, None), false), "a COMMIT that has reported none");
        assert!(written.is_unknown(MAIN));
        written.begin_with(MAIN, &set("0-1-9"));
        assert!(!written.is_unknown(MAIN));
        assert_eq!(written.token(), "0/0-1-9");
        assert!(Written::unknown().is_unknown(MAIN));
    }

    #[test]
    fn what_a_new_writer_lacks_is_not_waited_for_any_more() {
        let mut written = Written::default();
        written.note(Deed::Wrote, (MAIN, Some(set("0-1-9"))), false);
        written.keep_common(MAIN, &set("0-2-7"));
        assert_eq!(written.to(MAIN).to_string(), "0-1-7");
    }

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let gtids = |text: &str| Some(Token::Gtids(set(text)));
        assert_eq!(Token::parse("0/0-1-6+10/0-1-7", MAIN), gtids("0-1-6"));
        assert_eq!(Token::parse("0/0-1-6+10/0-1-7", HostgroupId(10)), gtids("0-1-7"));
        assert_eq!(Token::parse("0-1-6", HostgroupId(10)), gtids("0-1-6"));
        assert_eq!(Token::parse("3/0-1-6", MAIN), gtids(""));
        assert_eq!(Token::parse("", MAIN), gtids(""));
        assert_eq!(Token::parse("unknown", MAIN), Some(Token::Unknown));
        assert_eq!(Token::parse("0/x", MAIN), None);
    }

    #[test]
    fn more_hostgroups_than_are_followed_lose_track() {
        let mut written = Written::default();
        for hostgroup in 0..=64 {
            written.note(Deed::Wrote, (HostgroupId(hostgroup), Some(set("0-1-1"))), false);
        }
        assert!(written.is_unknown(HostgroupId(64)) && written.token().ends_with("+unknown"));
    }

    #[test]
    fn what_is_not_known_of_one_hostgroup_stays_unknown_when_another_one_is_asked() {
        let mut written = Written::default();
        assert!(written.note(Deed::Wrote, (MAIN, None), false));
        assert!(written.is_unknown(MAIN) && !written.is_unknown(OTHER));
        written.begin_with(OTHER, &set("0-1-9"));
        assert!(written.is_unknown(MAIN));
        assert_eq!(written.token(), "10/0-1-9+unknown");
        let mut restored = Written::unknown();
        restored.begin_with(MAIN, &set("0-1-9"));
        assert!(!restored.is_unknown(MAIN) && restored.is_unknown(OTHER));
        let token = restored.token();
        assert_eq!(token, "0/0-1-9+unknown");
        assert_eq!(Token::parse(&token, MAIN), Some(Token::Gtids(set("0-1-9"))));
        assert_eq!(Token::parse(&token, OTHER), Some(Token::Unknown));
    }
}
