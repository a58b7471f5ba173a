//! The clock of the machine, which people set: for times that are shown, stored, or compared with those of other machines.
//! What must not jump is measured with an `Instant`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long after the beginning of 1970 a time is; zero if it is before.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The present, since 1970.
pub fn now() -> Duration {
    since_1970(SystemTime::now())
}

/// The present in seconds since 1970, as tables have it.
pub fn now_s() -> i64 {
    i64::try_from(now().as_secs()).unwrap_or(i64::MAX)
}

/// The present in microseconds since 1970, as tables have it.
pub fn now_us() -> i64 {
    i64::try_from(now().as_micros()).unwrap_or(i64::MAX)
}
