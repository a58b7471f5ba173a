//! The records that `DUMP EVENTSLOG` takes: the last ones, within limits of number and bytes.

use std::collections::VecDeque;

use narrows_proxy::query_log::Record;

/// The last records.
#[derive(Debug, Default)]
pub struct Kept {
    records: VecDeque<Box<Record>>,
    bytes: usize,
    most: usize,
    longest_text: usize,
}

impl Kept {
    /// From now on it keeps so many, with so many bytes of text each.
    pub fn limit(&mut self, most: usize, longest_text: usize) {
        (self.most, self.longest_text) = (most, longest_text);
        self.shrink();
    }

    /// Keeps one more, in place of the oldest if necessary.
    pub fn add(&mut self, mut record: Box<Record>) {
        if self.most == 0 {
            return;
        }
        record.query.truncate(self.longest_text);
        record.query.shrink_to_fit();
        record.values.take_if(|values| values.argument.len() > self.longest_text);
        self.bytes += record.bytes();
        self.records.push_back(record);
        self.shrink();
    }

    /// Takes all of them, the oldest first.
    pub fn take(&mut self) -> VecDeque<Box<Record>> {
        self.bytes = 0;
        std::mem::take(&mut self.records)
    }

    /// Keeps again what was taken.
    pub fn put_back(&mut self, records: VecDeque<Box<Record>>) {
        records.into_iter().for_each(|record| self.add(record));
    }

    fn shrink(&mut self) {
        while self.records.len() > self.most || self.bytes > MOST_BYTES {
            let Some(oldest) = self.records.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

/// The most that all of them may take.
const MOST_BYTES: usize = 256 << 20;
