//! Tokens that name transactions which the writer lacks. They were lost with the writer that had them, or they are still on their
//! way to this one.

use std::time::Duration;

use narrows_wire::gtid::GtidSet;

use crate::rows::HostgroupId;
use crate::rt::Instant;

/// The last token of a session that named something that the writer lacked, if there was one.
#[derive(Debug, Default)]
pub(super) struct Doubts(Option<Box<Doubt>>);

/// A token that has named something that the writer lacked.
#[derive(Debug)]
pub(super) struct Doubt {
    hostgroup: HostgroupId,
    gtids: GtidSet,
    since: Instant,
    /// What the writer had of it when the rest counted as lost.
    pub(super) left: Option<GtidSet>,
}

impl Doubts {
    /// What is known of a token for the servers of a hostgroup.
    pub(super) fn about(&self, hostgroup: HostgroupId, gtids: &GtidSet) -> Option<&Doubt> {
        self.0.as_deref().filter(|doubt| doubt.hostgroup == hostgroup && doubt.gtids == *gtids)
    }

    /// The writer has all that this token names.
    pub(super) fn end(&mut self, hostgroup: HostgroupId, gtids: Option<&GtidSet>) {
        if gtids.is_some_and(|gtids| self.about(hostgroup, gtids).is_some()) {
            self.0 = None;
        }
    }

    /// The writer has said at `now` that it has executed these.
    pub(super) fn compare(
        &mut self,
        hostgroup: HostgroupId,
        gtids: &GtidSet,
        executed: &GtidSet,
        now: Instant,
    ) {
        if executed.contains(gtids) {
            return self.end(hostgroup, Some(gtids));
        }
        let since = self.about(hostgroup, gtids).map_or(now, |doubt| doubt.since);
        let mut left = None;
        if now.saturating_duration_since(since) >= LOST_AFTER {
            left = Some(gtids.clone());
            left.iter_mut().for_each(|left| left.keep_common(executed));
        }
        self.0 = Some(Box::new(Doubt { hostgroup, gtids: gtids.clone(), since, left }));
    }
}

/// How long a writer may lack what a token names before that counts as lost. In a group of several writers another one has sent it by
/// then, or has lost it; it is the default of `mysql-connect_timeout_server_max`, for which statements wait for a writer.
const LOST_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_writer_still_lacks_after_ten_seconds_is_lost() {
        let set = |text: &str| GtidSet::parse(text).unwrap();
        let (mut doubts, main, began) = (Doubts::default(), HostgroupId(0), Instant::now());
        let token = set("0-1-9");
        let mut after = |seconds: u64, executed: &str| {
            doubts.compare(main, &token, &set(executed), began + Duration::from_secs(seconds));
            assert!(
                doubts.about(HostgroupId(1), &token).is_none() && doubts.about(main, &set("0-1-8")).is_none()
            );
            doubts.about(main, &token).map(|doubt| doubt.left.as_ref().map(ToString::to_string))
        };
        assert_eq!(after(0, "0-1-9"), None);
        assert_eq!(after(1, "0-2-5"), Some(None));
        assert_eq!(after(10, "0-2-5"), Some(None));
        assert_eq!(after(10, "0-1-9"), None, "it has arrived");
        assert_eq!(after(11, "0-2-5"), Some(None));
        assert_eq!(after(21, "0-2-6"), Some(Some("0-1-6".to_owned())));
    }
}
