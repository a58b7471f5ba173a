//! How far a server is behind another one, as the monitor last found, and the limit that a statement sets.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// How far a server may lag and still get a statement: the hints `max_lag_ms` and `min_epoch_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LagLimit {
    /// By the last check, its lag is at most this many milliseconds.
    MaxLagMs(u32),
    /// By the last check, it has what was committed at this time, in milliseconds since 1970.
    MinEpochMs(u64),
}

/// What a check has found about the lag of a server that follows another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLag {
    /// The lag in milliseconds; greater ones than 35 minutes are not told apart.
    pub lag_ms: u32,
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: u64,
    /// Whether the server is a replica of an Aurora cluster.
    pub is_aurora: bool,
}

/// The lag of a server, as all workers see it: unknown at first, and if the server follows nobody.
#[derive(Debug, Default)]
pub struct KnownLag(AtomicU64);

impl KnownLag {
    /// Stores what a check has found; `None`: nothing is known, or the server follows nobody.
    pub fn set(&self, lag: Option<ReplicaLag>) {
        self.0.store(lag.map_or(0, ReplicaLag::packed), Ordering::Relaxed);
    }

    /// What the last check has found.
    pub fn get(&self) -> Option<ReplicaLag> {
        ReplicaLag::unpacked(self.0.load(Ordering::Relaxed))
    }
}

impl ReplicaLag {
    /// All of it in one word, so that nobody sees one part without the others. It is never 0.
    fn packed(self) -> u64 {
        let at_ms = self.at_ms.clamp(1, MOST_AT_MS);
        at_ms << (LAG_BITS + 1) | u64::from(self.lag_ms.min(MOST_LAG_MS)) << 1 | u64::from(self.is_aurora)
    }

    fn unpacked(word: u64) -> Option<ReplicaLag> {
        let lag_ms = u32::try_from(word >> 1 & u64::from(MOST_LAG_MS)).unwrap_or(MOST_LAG_MS);
        (word != 0).then_some(ReplicaLag { lag_ms, at_ms: word >> (LAG_BITS + 1), is_aurora: word & 1 == 1 })
    }

    /// Up to which time the server has what was committed, in milliseconds since 1970. The lag of replication is in whole
    /// seconds: it may be one second more.
    fn has_until_ms(self) -> u64 {
        let more_ms = if self.is_aurora { 0 } else { 1_000 };
        self.at_ms.saturating_sub(u64::from(self.lag_ms) + more_ms)
    }
}

impl LagLimit {
    /// The limit of a hint `max_lag_ms`.
    ///
    /// # Errors
    /// The number is larger than ProxySQL allows.
    pub fn max_lag(ms: u64) -> Result<LagLimit, &'static str> {
        let ms = u32::try_from(ms).ok().filter(|ms| *ms <= MOST_LIMIT_MS);
        ms.map(LagLimit::MaxLagMs).ok_or("its value is more than 600000 ms")
    }

    /// The limit of a hint `min_epoch_ms`, with this number of milliseconds since 1970.
    ///
    /// # Errors
    /// The time is too far away from now.
    pub fn min_epoch(ms: u64) -> Result<LagLimit, &'static str> {
        let is_near = ms.abs_diff(now_ms()) <= MOST_LIMIT_MS.into();
        let why = "its value is not a time in milliseconds since 1970, at most 600000 ms from now";
        is_near.then_some(LagLimit::MinEpochMs(ms)).ok_or(why)
    }

    /// Whether a server with this lag may get the statement. One whose lag is not known may, as in ProxySQL.
    pub fn admits(self, lag: Option<ReplicaLag>) -> bool {
        lag.is_none_or(|lag| match self {
            LagLimit::MaxLagMs(most) => lag.lag_ms <= most,
            LagLimit::MinEpochMs(epoch) => lag.has_until_ms() >= epoch,
        })
    }

    /// Why a server with this lag does not get the statement.
    pub fn why_not(self, lag: ReplicaLag) -> String {
        let (lag_ms, age_ms) = (lag.lag_ms, now_ms().saturating_sub(lag.at_ms));
        let measured = format!("its lag was {lag_ms} ms when it was checked {age_ms} ms ago");
        match self {
            LagLimit::MaxLagMs(most) => format!("{measured}: the statement has max_lag_ms={most}"),
            LagLimit::MinEpochMs(epoch) => {
                let lacks = epoch.saturating_sub(lag.has_until_ms());
                format!("{measured}: that lacks {lacks} ms until min_epoch_ms={epoch}")
            }
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX)
}

/// The most that a hint may ask for, as in ProxySQL.
const MOST_LIMIT_MS: u32 = 600_000;

/// Bits of a lag: 35 minutes, more than any limit.
const LAG_BITS: u32 = 21;

const MOST_LAG_MS: u32 = (1 << LAG_BITS) - 1;

/// The last time that the other bits have, in the year 2109.
const MOST_AT_MS: u64 = (1 << (63 - LAG_BITS)) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(lag_ms: u32, at_ms: u64) -> ReplicaLag {
        ReplicaLag { lag_ms, at_ms, is_aurora: false }
    }

    fn aurora(lag_ms: u32, at_ms: u64) -> ReplicaLag {
        ReplicaLag { is_aurora: true, ..lag(lag_ms, at_ms) }
    }

    #[test]
    fn what_was_measured_is_read_as_it_was_stored() {
        let known = KnownLag::default();
        assert_eq!(known.get(), None);
        for (lag_ms, at_ms, is_aurora) in [
            (0, 1, false),
            (0, 1_800_000_000_000, true),
            (600_001, MOST_AT_MS, false),
            (MOST_LAG_MS, 7, true),
        ] {
            let measured = ReplicaLag { lag_ms, at_ms, is_aurora };
            known.set(Some(measured));
            assert_eq!(known.get(), Some(measured));
        }
        known.set(Some(lag(u32::MAX, 5)));
        assert_eq!(known.get(), Some(lag(MOST_LAG_MS, 5)));
        known.set(Some(lag(0, 0)));
        assert!(known.get().is_some(), "a clock that stands at 1970 makes no lag unknown");
        known.set(None);
        assert_eq!(known.get(), None);
    }

    #[test]
    fn a_limit_admits_servers_by_what_the_last_check_has_found() {
        let at = 1_800_000_000_000;
        let (max, epoch) = (LagLimit::MaxLagMs, LagLimit::MinEpochMs);
        let cases = [
            (max(0), None, true),
            (max(0), Some(lag(0, at)), true),
            (max(0), Some(lag(1, at)), false),
            (max(500), Some(lag(500, at)), true),
            (max(500), Some(lag(501, at)), false),
            (max(600_000), Some(lag(MOST_LAG_MS, at)), false),
            // The age of the check does not matter for a lag, but it does for a point in time.
            (max(500), Some(lag(500, 1)), true),
            (epoch(at), None, true),
            (epoch(at), Some(aurora(0, at)), true),
            (epoch(at), Some(aurora(0, at - 1)), false),
            (epoch(at), Some(aurora(30, at + 29)), false),
            (epoch(at), Some(aurora(30, at + 30)), true),
            (epoch(at), Some(lag(0, at)), false),
            (epoch(at), Some(lag(0, at + 999)), false),
            (epoch(at), Some(lag(2_000, at + 3_000)), true),
            (epoch(at), Some(lag(u32::MAX, at)), false),
        ];
        for (limit, lag, admitted) in cases {
            assert_eq!(limit.admits(lag), admitted, "{limit:?} {lag:?}");
        }
    }

    #[test]
    fn limits_that_proxysql_ignores_are_refused() {
        assert_eq!(LagLimit::max_lag(0), Ok(LagLimit::MaxLagMs(0)));
        assert!(LagLimit::max_lag(600_000).is_ok());
        assert!(LagLimit::max_lag(600_001).is_err() && LagLimit::max_lag(u64::MAX).is_err());
        let now = now_ms();
        assert_eq!(LagLimit::min_epoch(now - 1_000), Ok(LagLimit::MinEpochMs(now - 1_000)));
        // The clock of who writes the hint may be ahead: then a later check has to find it.
        assert!(LagLimit::min_epoch(now + 1_000).is_ok());
        for odd in [0, now / 1_000, now - 700_000, now + 700_000, u64::MAX] {
            assert!(LagLimit::min_epoch(odd).is_err(), "{odd}");
        }
    }
}
