//! Merges the rows of several workers.

use std::collections::HashMap;
use std::time::Duration;

use super::{
    DigestKey, DigestLine, DigestTable, ErrorFigures, ErrorKey, ErrorLine, ErrorTable, Row, RowFigures,
};
use crate::clock;
use crate::rows::HostgroupId;
use crate::rt::Instant;

/// The key of a row of digests: hostgroup, digest, and the concatenated names.
pub(super) type DigestName = (HostgroupId, u64, [Vec<u8>; 3]);

/// Converts seconds since the start into Unix time, with the current clock.
pub(super) struct Epoch(u64);

impl Epoch {
    pub(super) fn new(started: Instant) -> Epoch {
        Epoch(clock::now().saturating_sub(started.elapsed()).as_secs())
    }

    pub(super) fn unix(&self, since_start_s: u64) -> u64 {
        self.0 + since_start_s
    }

    pub(super) fn since_start_s(&self, unix: u64) -> u64 {
        unix.saturating_sub(self.0)
    }
}

/// Adds a worker's row to the sum.
pub(super) fn merge_digest(sum: &mut HashMap<DigestName, DigestLine>, row: Row, epoch: &Epoch) {
    let (username, schemaname, client_address) = row.names();
    let name = [username, schemaname, client_address].map(<[u8]>::to_vec);
    let figures = row.figures();
    let (first_seen, last_seen) = (epoch.unix(figures.first_s), epoch.unix(figures.last_s));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = sum.entry((row.hostgroup(), row.digest(), name)).or_insert_with(|| DigestLine {
        hostgroup: row.hostgroup(),
        schemaname: text(schemaname),
        username: text(username),
        client_address: text(client_address),
        digest: row.digest(),
        digest_text: text(row.text()),
        count: 0,
        first_seen,
        last_seen,
        sum_time_us: 0,
        min_time_us: u64::MAX,
        max_time_us: 0,
        rows_affected: 0,
        rows_sent: 0,
    });
    line.count += figures.count;
    line.first_seen = line.first_seen.min(first_seen);
    line.last_seen = line.last_seen.max(last_seen);
    line.sum_time_us += figures.sum_time_us;
    line.min_time_us = line.min_time_us.min(figures.min_time_us);
    line.max_time_us = line.max_time_us.max(figures.max_time_us);
    line.rows_affected += figures.rows_affected;
    line.rows_sent += figures.rows_sent;
}

/// Returns a line that was taken from the workers' tables to one of them.
pub(super) fn give_back_digest(table: &mut DigestTable, line: &DigestLine, epoch: &Epoch) {
    let key = DigestKey {
        hostgroup: line.hostgroup,
        schemaname: line.schemaname.as_bytes(),
        username: &line.username,
        client_address: &line.client_address,
        digest: line.digest,
    };
    let figures = RowFigures {
        count: line.count,
        first_s: epoch.since_start_s(line.first_seen),
        last_s: epoch.since_start_s(line.last_seen),
        sum_time_us: line.sum_time_us,
        min_time_us: line.min_time_us,
        max_time_us: line.max_time_us,
        rows_affected: line.rows_affected,
        rows_sent: line.rows_sent,
    };
    table.give_back(&key, line.digest_text.as_bytes(), figures);
}

/// The same for a line of errors.
pub(super) fn give_back_error(table: &mut ErrorTable, line: ErrorLine, epoch: &Epoch) {
    let key = ErrorKey {
        hostgroup: line.hostgroup,
        hostname: line.hostname,
        port: line.port,
        username: line.username,
        client_address: line.client_address,
        schemaname: line.schemaname.into_bytes(),
        errno: line.errno,
    };
    let figures = ErrorFigures {
        count: line.count,
        first_s: epoch.since_start_s(line.first_seen),
        last_s: epoch.since_start_s(line.last_seen),
        text: line.last_error.into_bytes().into(),
    };
    table.give_back(key, figures);
}

pub(super) fn error_line(key: ErrorKey, figures: ErrorFigures, epoch: &Epoch) -> ErrorLine {
    ErrorLine {
        hostgroup: key.hostgroup,
        hostname: key.hostname,
        port: key.port,
        username: key.username,
        client_address: key.client_address,
        schemaname: String::from_utf8_lossy(&key.schemaname).into_owned(),
        errno: key.errno,
        count: figures.count,
        first_seen: epoch.unix(figures.first_s),
        last_seen: epoch.unix(figures.last_s),
        last_error: String::from_utf8_lossy(&figures.text).into_owned(),
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
