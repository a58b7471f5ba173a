//! The results of checks in the tables of `monitor`.

use std::collections::BTreeMap;

use rusqlite::types::Value;

use super::check::{CheckKind, LogCell, Subject};
use super::plan::Address;
use super::position::CheckedPosition;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The kind of check.
    pub kind: CheckKind,
    /// What was checked.
    pub subject: Subject,
    /// The server.
    pub address: Address,
    /// When it started, in us since 1970.
    pub start_us: i64,
    /// How long it took if it succeeded, or why it failed.
    pub outcome: Result<u64, String>,
    /// Whether the server was reached but refused the check.
    pub is_refused: bool,
    /// Its values: `read_only`, the lag in seconds, or the state of a node; of several nodes one after the other.
    pub values: Vec<LogCell>,
    /// The lag in milliseconds; `None`: the server follows nobody, or the check finds none.
    pub lag_ms: Option<u32>,
    /// What the server has applied, if the check asked for that.
    pub position: Option<CheckedPosition>,
}

/// How many checks have succeeded and failed since the start, by kind.
#[derive(Debug, Default)]
pub struct CheckCounts(BTreeMap<CheckKind, (u64, u64)>);

impl CheckCounts {
    /// Counts a result.
    pub fn add(&mut self, record: &Record) {
        let (good, bad) = self.0.entry(record.kind).or_default();
        match record.outcome {
            Ok(_) => *good += 1,
            Err(_) => *bad += 1,
        }
    }

    /// How many checks of one kind have succeeded, and how many have failed.
    pub fn of(&self, kind: CheckKind) -> (u64, u64) {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

impl Record {
    /// The rows of the result.
    pub fn rows(&self) -> Vec<Vec<Value>> {
        let values = if self.values.is_empty() { self.kind.values } else { &self.values };
        match self.kind.values.len() {
            0 => vec![self.row(&[])],
            width => values.chunks(width).map(|values| self.row(values)).collect(),
        }
    }

    fn row(&self, values: &[LogCell]) -> Vec<Value> {
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
        row.extend(values.iter().map(|cell| match cell {
            LogCell::Null => Value::Null,
            LogCell::Integer(integer) => Value::Integer(*integer),
            LogCell::Text(text) => Value::Text((*text).to_owned()),
            LogCell::Said(text) => Value::Text(text.clone()),
        }));
        row.insert(if self.kind.has_error_first { ERROR_FIRST } else { row.len() }, error);
        row
    }
}

/// The place of the error before the values: after server, time and duration.
const ERROR_FIRST: usize = 4;
