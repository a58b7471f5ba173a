//! Whether the monitor's checks of each server succeed: a failing check decides nothing, but it has to be reported.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use narrows_proxy::clock;

use super::check::CheckKind;
use super::log::Record;
use super::plan::{Address, Target};

/// The latest outcome of all checks.
#[derive(Debug, Default)]
pub struct Health(BTreeMap<(Address, CheckKind), State>);

/// The state of one check of one server.
#[derive(Debug, Default)]
struct State {
    failing: Option<Failing>,
    /// When its failure was last logged.
    told: Option<Instant>,
    /// Whether the failure is the last thing logged about it.
    is_open: bool,
}

/// A failing check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// When it began to fail, in seconds since 1970.
    pub since: u64,
    /// How many times in a row it has failed.
    pub times: u64,
    /// The reason for the last failure.
    pub reason: String,
    is_told: bool,
}

impl Health {
    /// Records a result, and logs what changed.
    pub fn note(&mut self, record: &Record) {
        let (server, check) = (&record.address, record.kind.name);
        let others = self.same_failure_is_told(record);
        let state = self.0.entry((record.address.clone(), record.kind)).or_default();
        let Err(reason) = &record.outcome else {
            state.failing = None;
            if std::mem::take(&mut state.is_open) {
                tracing::info!(%server, check, "a check of the monitor succeeds again");
            }
            return;
        };
        let is_news = state.failing.as_ref().is_none_or(|failing| is_other(&failing.reason, reason));
        let failing = state.failing.get_or_insert_with(|| Failing {
            since: clock::now().as_secs(),
            times: 0,
            reason: String::new(),
            is_told: false,
        });
        failing.times += 1;
        failing.reason.clone_from(reason);
        failing.is_told &= !is_news;
        // A server's refusal will be repeated; other failures may be over by the next check, and pings have their own
        // log line.
        let is_lasting =
            record.is_refused || (failing.times >= PATIENCE && record.kind.decides_without_pings);
        let is_recent = state.told.is_some_and(|told| told.elapsed() < QUIET);
        if failing.is_told || !is_lasting || is_recent {
            return;
        }
        failing.is_told = true;
        state.told = Some(Instant::now());
        // A wrong password affects all checks: one line is enough.
        if !others {
            let consequence = record.kind.consequence;
            tracing::warn!(%server, check, reason, "a check of the monitor fails: {consequence}");
            state.is_open = true;
        }
    }

    /// Whether the failure of another check of the same server was logged with the same reason.
    fn same_failure_is_told(&self, record: &Record) -> bool {
        let Err(reason) = &record.outcome else { return false };
        self.0.iter().any(|((address, kind), state)| {
            let is_same = |failing: &Failing| failing.is_told && !is_other(&failing.reason, reason);
            *address == record.address && *kind != record.kind && state.failing.as_ref().is_some_and(is_same)
        })
    }

    /// Forgets servers that are no longer checked.
    pub fn keep(&mut self, targets: &[Target]) {
        self.0.retain(|(address, _), _| targets.iter().any(|target| target.address == *address));
    }

    /// Forgets everything, because there are no more checks.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Every check, with its failure, if any.
    pub fn checks(&self) -> impl Iterator<Item = (&Address, CheckKind, Option<&Failing>)> {
        self.0.iter().map(|((address, kind), state)| (address, *kind, state.failing.as_ref()))
    }

    /// The failing checks of one server.
    pub fn failing(&self, hostname: &str, port: u16) -> impl Iterator<Item = (CheckKind, &Failing)> {
        self.checks().filter_map(move |(address, kind, failing)| {
            let is_it = address.hostname == hostname && address.port == port;
            failing.filter(|_| is_it).map(|failing| (kind, failing))
        })
    }
}

/// Whether two reasons differ: the length of a timeout is ignored.
fn is_other(one: &str, other: &str) -> bool {
    let timeout = "timeout after ";
    one != other && !(one.starts_with(timeout) && other.starts_with(timeout))
}

/// How many checks in a row must fail before it is logged, unless the server refused them.
const PATIENCE: u64 = 3;

/// A check that alternates between failure and success is logged once within this time.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::check::Subject;
    use super::super::{connect, ping, read_only, replication_lag};
    use super::*;

    fn record(kind: CheckKind, outcome: Result<u64, &str>, is_refused: bool) -> Record {
        let address = Address { hostname: "a".to_owned(), port: 1 };
        Record {
            kind,
            subject: Subject::Server,
            address,
            start_us: 0,
            outcome: outcome.map_err(str::to_owned),
            is_refused,
            values: Vec::new(),
            lag_ms: None,
            position: None,
        }
    }

    fn is_told(health: &Health, kind: CheckKind) -> bool {
        health.failing("a", 1).any(|(of, failing)| of == kind && failing.is_told)
    }

    #[test]
    fn a_refusal_is_told_at_once_and_a_timeout_when_it_lasts() {
        let mut health = Health::default();
        health.note(&record(&replication_lag::CHECK, Err("ERROR 1227"), true));
        assert!(is_told(&health, &replication_lag::CHECK));
        for round in 1..=3 {
            health.note(&record(&read_only::CHECK, Err(&format!("timeout after {round} ms")), false));
            assert_eq!(is_told(&health, &read_only::CHECK), round == 3);
        }
        health.note(&record(&replication_lag::CHECK, Ok(1), false));
        assert_eq!(health.failing("a", 1).map(|(kind, _)| kind).collect::<Vec<_>>(), [&read_only::CHECK]);
        health.keep(&[]);
        assert_eq!(health.checks().count(), 0);
    }

    #[test]
    fn one_reason_of_several_checks_is_told_once() {
        let mut health = Health::default();
        let denied = Err("ERROR 1045");
        health.note(&record(&connect::CHECK, denied, true));
        assert!(health.same_failure_is_told(&record(&ping::CHECK, denied, true)));
        assert!(!health.same_failure_is_told(&record(&ping::CHECK, Err("ERROR 1129"), true)));
    }
}
