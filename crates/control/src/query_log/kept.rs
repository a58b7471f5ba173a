//! Records in memory: the last ones, within limits of number and bytes. The writer keeps those that `DUMP EVENTSLOG` takes, and
//! the control thread those that have become rows of `stats_mysql_query_events`.

use std::collections::{HashSet, VecDeque};

use narrows_proxy::query_log::Record;

/// The last records, each with its number.
#[derive(Debug, Default)]
pub struct Kept {
    records: VecDeque<(i64, Box<Record>)>,
    bytes: usize,
    last_id: i64,
}

impl Kept {
    /// Keeps one more, and the last `most` of all.
    pub fn add(&mut self, record: Box<Record>, most: usize) {
        self.last_id += 1;
        self.bytes += record.bytes();
        self.records.push_back((self.last_id, record));
        self.shrink(most);
    }

    /// Keeps the last `most`.
    pub fn shrink(&mut self, most: usize) {
        while self.records.len() > most || self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.records.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// All of them with their numbers, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Record)> {
        self.records.iter().map(|(id, record)| (*id, &**record))
    }

    /// Takes all of them, the oldest first.
    pub fn take(&mut self) -> VecDeque<Box<Record>> {
        self.bytes = 0;
        std::mem::take(&mut self.records).into_iter().map(|(_, record)| record).collect()
    }

    /// Drops those whose number is not among `ids`.
    pub fn retain(&mut self, ids: &HashSet<i64>) {
        self.records.retain(|(id, _)| ids.contains(id));
        self.bytes = self.records.iter().map(|(_, record)| record.bytes()).sum();
    }
}

/// The most that all of them may take.
const MOST_BYTES: usize = 256 << 20;
