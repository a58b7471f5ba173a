//! Which aggregates of samples are due: each when its hour or day has ended, and after a start those that are missing.

use std::time::{Duration, Instant};

use crate::store::{AGGREGATES, Progress, Store};

/// How far the aggregates are.
#[derive(Debug, Default)]
pub struct Aggregates {
    /// The hour or day that ran when each was up to date.
    done: [Option<i64>; AGGREGATES.len()],
    /// When they could not be written.
    failed: Option<Instant>,
}

/// How long it takes until they are tried again.
const PAUSE: Duration = Duration::from_secs(60);

impl Aggregates {
    /// Makes some of what is due at `now`: a tick has at most one step, so that administrators do not wait.
    pub fn step(&mut self, store: &mut Store, now: i64) {
        if self.failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return;
        }
        let mut due = AGGREGATES.iter().zip(&mut self.done);
        // Days are made of hours, and come after them.
        let Some((aggregate, done)) = due.find(|(aggregate, done)| **done != Some(aggregate.current(now)))
        else {
            return;
        };
        match store.aggregate(aggregate, now) {
            Ok(Progress::Done) => *done = Some(aggregate.current(now)),
            Ok(Progress::More) => {}
            // Someone is reading the figures; the next tick tries again.
            Err(refusal) if refusal.is_locked() => return,
            Err(refusal) => {
                // What is missing is made later, and one line is enough.
                if self.failed.is_none() {
                    tracing::warn!(table = aggregate.target, %refusal, "aggregates of the figures cannot be stored yet");
                }
                self.failed = Some(Instant::now());
                return;
            }
        }
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Opening, Start};

    #[test]
    fn a_tick_has_one_step_and_a_restart_loses_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let opening = Opening { datadir: folder.path(), file: None, start: Start::Usual, uuid: None };
        let mut store = Store::open(opening).expect("it is new");
        let day = 1_709_164_800;
        for hour in 0..48 {
            let row = vec![(day + hour * 3_600).into(), 1.into(), 1.into()];
            store.append("stats_history.system_cpu", vec![row], 0).expect("there is space");
        }
        let now = day + 48 * 3_600;
        let mut aggregates = Aggregates::default();
        (0..5).for_each(|_| aggregates.step(&mut store, now));
        assert!(aggregates.done.contains(&None), "eight steps of hours are necessary");
        drop(store);

        let mut store = Store::open(opening).expect("it exists");
        let mut aggregates = Aggregates::default();
        (0..20).for_each(|_| aggregates.step(&mut store, now));
        assert!(aggregates.done.iter().all(Option::is_some));
        let check = "INSERT INTO stats_history.system_memory SELECT COUNT(*), SUM(h.tms_utime), \
                     (SELECT COUNT(*) FROM stats_history.system_cpu_day), 0, 0, 0, 0 FROM stats_history.system_cpu_hour h \
                     HAVING COUNT(*) = 48 AND SUM(h.tms_utime) = 48";
        assert_eq!(store.sql(check), Ok(crate::store::Answer::done(1)));
    }
}
