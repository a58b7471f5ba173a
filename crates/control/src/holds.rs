//! Hostgroups that are held: who holds each, and until when. The workers end a hold by themselves; this is what
//! administrators are shown, and what goes to the next process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_proxy::clock::since_1970;
use narrows_proxy::snapshot::HostgroupId;
use narrows_proxy::stats::{Observer, wait};
use serde_json::{Value as Json, json};

/// A hold of one hostgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who holds it: an administrator, or a switchover.
    pub by: String,
    /// When it ends by itself. In wall clock time, because another process may have begun it.
    end: SystemTime,
    /// When the command that began it arrived; `None`: in another process.
    pub began: Option<Instant>,
    /// Whether it belongs to a switchover, which ends with its process.
    pub is_of_switchover: bool,
}

/// A switchover that the end of its process has cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// Its hostgroup.
    pub hostgroup: HostgroupId,
    /// What it was, and whose.
    pub by: String,
    /// What has become of it, and what is to be done.
    pub reason: &'static str,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    held: BTreeMap<HostgroupId, Hold>,
    /// The switchover that was cut off when another process ended, until it is shown.
    cut_off: Option<CutOff>,
}

impl Hold {
    /// A hold from now on.
    pub fn new(by: String, length: Duration, began: Instant) -> Hold {
        Hold { by, end: SystemTime::now() + length, began: Some(began), is_of_switchover: false }
    }

    /// Whether it is what is left of a switchover whose clients continue.
    fn is_released(&self) -> bool {
        self.is_of_switchover && self.end == UNIX_EPOCH
    }

    /// How long it still lasts; zero if it is over. Never longer than a hold may be, should the clock be set back.
    pub fn left(&self) -> Duration {
        self.end.duration_since(SystemTime::now()).unwrap_or_default().min(LONGEST_HOLD)
    }
}

impl Holds {
    /// The hold of a hostgroup, if it is not over.
    pub fn of(&self, hostgroup: HostgroupId) -> Option<&Hold> {
        self.held.get(&hostgroup).filter(|hold| !hold.left().is_zero())
    }

    /// All that are not over, by hostgroup.
    pub fn all(&self) -> impl Iterator<Item = (HostgroupId, &Hold)> {
        self.held
            .iter()
            .map(|(hostgroup, hold)| (*hostgroup, hold))
            .filter(|(_, hold)| !hold.left().is_zero())
    }

    /// Holds a hostgroup, instead of any hold before.
    pub fn begin(&mut self, hostgroup: HostgroupId, hold: Hold) {
        self.held.insert(hostgroup, hold);
    }

    /// Ends a hold; returns it, if there was one.
    pub fn end(&mut self, hostgroup: HostgroupId) -> Option<Hold> {
        self.held.remove(&hostgroup)
    }

    /// The clients of a switchover continue; what is left of it is kept until [`Holds::end_switchover`].
    pub fn release_switchover(&mut self, hostgroup: HostgroupId) {
        if let Some(hold) = self.held.get_mut(&hostgroup).filter(|hold| hold.is_of_switchover) {
            hold.end = UNIX_EPOCH;
        }
    }

    /// A switchover has ended, which holds its hostgroup no more.
    pub fn end_switchover(&mut self, hostgroup: HostgroupId) {
        self.held.retain(|of, hold| *of != hostgroup || !hold.is_released());
    }

    /// Removes those that are over.
    pub fn take_ended(&mut self) -> Vec<(HostgroupId, Hold)> {
        let ended: Vec<_> = self
            .held
            .iter()
            .filter(|(_, hold)| hold.left().is_zero() && !hold.is_released())
            .map(|(hostgroup, _)| *hostgroup)
            .collect();
        ended.into_iter().filter_map(|hostgroup| Some((hostgroup, self.held.remove(&hostgroup)?))).collect()
    }

    /// Makes workers that have just started hold what is held. A switchover of another process is over: nobody would release
    /// its clients.
    pub fn put_into_force(&mut self, observer: &Observer) {
        let is_cut_off = |hold: &Hold| hold.is_of_switchover && hold.began.is_none();
        let (cut_off, going_on): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.held).into_iter().partition(|(_, hold)| is_cut_off(hold));
        self.held = going_on;
        // There is never more than one.
        let cut_off = cut_off.into_iter().next().map(|(hostgroup, hold)| CutOff {
            hostgroup,
            reason: if hold.is_released() { AFTER_RELEASE } else { WHILE_HELD },
            by: hold.by,
        });
        if let Some(CutOff { hostgroup, by, reason }) = &cut_off {
            tracing::error!(%hostgroup, by, "a switchover was {reason}");
        }
        for (hostgroup, hold) in self.all() {
            let (left_ms, by) = (hold.left().as_millis() as u64, &hold.by);
            tracing::warn!(%hostgroup, left_ms, by, "a hostgroup is still held");
            wait(observer.hold(hostgroup, hold.left()));
        }
        self.cut_off = cut_off.or(self.cut_off.take());
    }

    /// The switchover that another process has not finished, if there is one.
    pub fn take_cut_off(&mut self) -> Option<CutOff> {
        self.cut_off.take()
    }

    /// The holds as JSON, for [`Holds::from_json`].
    pub fn to_json(&self) -> Json {
        let ms = |time: SystemTime| since_1970(time).as_millis() as u64;
        self.held
            .iter()
            .map(|(hostgroup, hold)| json!([hostgroup.0, ms(hold.end), hold.by, hold.is_of_switchover]))
            .collect()
    }

    /// Reads what [`Holds::to_json`] wrote; a hold that cannot be read has ended.
    pub fn from_json(written: &Json) -> Holds {
        let hold = |row: &Json| {
            let hostgroup = HostgroupId(i32::try_from(row[0].as_i64()?).ok()?);
            let end = UNIX_EPOCH + Duration::from_millis(row[1].as_u64()?);
            let is_of_switchover = row[3].as_bool().unwrap_or(false);
            Some((hostgroup, Hold { by: row[2].as_str()?.to_owned(), end, began: None, is_of_switchover }))
        };
        let held = written.as_array().into_iter().flatten().filter_map(hold).collect();
        Holds { held, cut_off: None }
    }
}

/// What has become of a switchover whose process has died while clients were held;
const WHILE_HELD: &str = "cut off by the end of its process, and nothing was undone: if no server takes writes, run \
                          SET GLOBAL read_only = 0 on the old primary";

/// and of one whose process has died later.
const AFTER_RELEASE: &str = "cut off by the end of its process after clients had continued: see on the old primary and on \
                             the replicas whether they replicate from the new primary";

/// The longest hold, in seconds. An operator who needs more time holds again; a hold that is forgotten has ended after this.
pub const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// The length of a hold for which none is given.
pub const USUAL_HOLD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_by_itself_and_outlives_its_process() {
        let mut holds = Holds::default();
        holds.begin(HostgroupId(7), Hold::new("root".to_owned(), Duration::from_secs(60), Instant::now()));
        holds.begin(HostgroupId(8), Hold::new("root".to_owned(), Duration::ZERO, Instant::now()));
        let read = Holds::from_json(&holds.to_json());
        let left = read.of(HostgroupId(7)).map(Hold::left).unwrap();
        assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60), "{left:?}");
        assert_eq!(read.of(HostgroupId(8)), None);
        let ended = holds.take_ended();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].0, HostgroupId(8));
        assert!(holds.end(HostgroupId(7)).is_some() && holds.end(HostgroupId(7)).is_none());
        assert_eq!(Holds::from_json(&json!(null)), Holds::default());
        assert_eq!(Holds::from_json(&json!([["x", 1, "y"]])), Holds::default());
    }

    #[test]
    fn what_is_left_of_a_switchover_is_no_hold_and_outlives_its_process_until_it_ends() {
        let mut holds = Holds::default();
        let hold = Hold::new("a switchover".to_owned(), Duration::from_secs(60), Instant::now());
        holds.begin(HostgroupId(7), Hold { is_of_switchover: true, ..hold.clone() });
        holds.begin(HostgroupId(8), hold);
        for hostgroup in [7, 8] {
            holds.release_switchover(HostgroupId(hostgroup));
        }
        assert_eq!(holds.all().map(|(hostgroup, _)| hostgroup.0).collect::<Vec<_>>(), [8]);
        assert!(holds.take_ended().is_empty());
        let mut read = Holds::from_json(&holds.to_json());
        assert!(read.held[&HostgroupId(7)].is_released());
        for hostgroup in [7, 8] {
            read.end_switchover(HostgroupId(hostgroup));
        }
        assert_eq!(read.held.keys().map(|hostgroup| hostgroup.0).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn no_hold_is_longer_than_one_may_be() {
        let far = json!([[1, u64::MAX / 2_000, "root"]]);
        assert_eq!(Holds::from_json(&far).of(HostgroupId(1)).map(Hold::left), Some(LONGEST_HOLD));
    }
}
