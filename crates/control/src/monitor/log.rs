//! The results of checks in the tables of `monitor`.

use std::collections::BTreeMap;

use rusqlite::types::Value;

use super::plan::Address;

/// A kind of check, named after the table of its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A trial connection.
    Connect,
    /// A ping.
    Ping,
    /// A check of `read_only`.
    ReadOnly,
    /// A check of the lag.
    ReplicationLag,
}

/// Every kind.
pub const KINDS: [Kind; 4] = [Kind::Connect, Kind::Ping, Kind::ReadOnly, Kind::ReplicationLag];

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Of what.
    pub kind: Kind,
    /// The server.
    pub address: Address,
    /// When it started, in us since 1970.
    pub start_us: i64,
    /// How long it took if it succeeded, or why it failed.
    pub outcome: Result<u64, String>,
    /// Whether the server was reached, and refused.
    pub is_refused: bool,
    /// Its value: `read_only`, or the lag in seconds.
    pub value: Option<i64>,
}

/// How many checks have succeeded and failed since the start, by kind.
#[derive(Debug, Default)]
pub struct CheckCounts(BTreeMap<Kind, (u64, u64)>);

impl CheckCounts {
    /// Counts a result.
    pub fn add(&mut self, record: &Record) {
        let (good, bad) = self.0.entry(record.kind).or_default();
        match record.outcome {
            Ok(_) => *good += 1,
            Err(_) => *bad += 1,
        }
    }

    /// How many of one kind have succeeded, and how many have failed.
    pub fn of(&self, kind: Kind) -> (u64, u64) {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

impl Kind {
    /// The table, in `monitor`.
    pub fn table(self) -> &'static str {
        match self {
            Kind::Connect => "mysql_server_connect_log",
            Kind::Ping => "mysql_server_ping_log",
            Kind::ReadOnly => "mysql_server_read_only_log",
            Kind::ReplicationLag => "mysql_server_replication_lag_log",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Connect => "connect",
            Kind::Ping => "ping",
            Kind::ReadOnly => "read_only",
            Kind::ReplicationLag => "replication_lag",
        }
    }

    /// Whether it decides something that pings do not.
    pub fn decides_without_pings(self) -> bool {
        matches!(self, Kind::ReadOnly | Kind::ReplicationLag)
    }

    /// The consequence of its failure.
    pub fn consequence(self) -> &'static str {
        match self {
            Kind::Connect | Kind::Ping => {
                "until it succeeds, it is unknown whether the server answers, its role and its lag"
            }
            Kind::ReadOnly => {
                "until it succeeds, it is unknown whether the server is writable: failovers are not followed"
            }
            Kind::ReplicationLag => {
                "until it succeeds, the lag of the server is unknown: it continues to get reads"
            }
        }
    }

    /// Whether its results have a value.
    fn has_value(self) -> bool {
        matches!(self, Kind::ReadOnly | Kind::ReplicationLag)
    }
}

impl Record {
    /// Its row.
    pub fn row(&self) -> Vec<Value> {
        let (took, error) = match &self.outcome {
            Ok(took_us) => (i64::try_from(*took_us).unwrap_or(i64::MAX), Value::Null),
            Err(text) => (0, Value::Text(text.clone())),
        };
        let mut row = vec![
            Value::Text(self.address.hostname.clone()),
            Value::Integer(self.address.port.into()),
            Value::Integer(self.start_us),
            Value::Integer(took),
        ];
        if self.kind.has_value() {
            row.push(self.value.map_or(Value::Null, Value::Integer));
        }
        row.push(error);
        row
    }
}
