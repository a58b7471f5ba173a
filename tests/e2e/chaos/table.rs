//! The faults in a table: how often each occurred, what clients did and saw during it, and the memory.

use std::fmt;
use std::time::Duration;

use super::memory::Memory;

/// One fault, or all of one kind.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub times: u32,
    pub took: Duration,
    pub reads: u64,
    pub writes: u64,
    pub failed_reads: usize,
    /// Failed reads among them.
    pub errors: usize,
    pub slowest_read: Duration,
    pub slowest_write: Duration,
    pub memory: Memory,
}

impl Row {
    /// Adds another fault of the same kind; the memory is that of the higher peak.
    fn take_in(&mut self, other: &Row) {
        self.times += other.times;
        self.took += other.took;
        self.reads += other.reads;
        self.writes += other.writes;
        self.failed_reads += other.failed_reads;
        self.errors += other.errors;
        self.slowest_read = self.slowest_read.max(other.slowest_read);
        self.slowest_write = self.slowest_write.max(other.slowest_write);
        if other.memory.peak > self.memory.peak {
            self.memory = other.memory;
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, peak, after] =
            [self.memory.before, self.memory.peak, self.memory.after].map(|bytes| bytes >> 20);
        let settled =
            self.memory.settled.map_or(String::new(), |time| format!(" in {:.1} s", time.as_secs_f64()));
        write!(
            formatter,
            "{:<48} {:4} x {:7.1} s {:8} reads {:4} failed, slowest {:8.0?} {:7} writes, slowest {:8.0?} {:5} errors  {before:4} {peak:4} {after:4} MiB{settled}",
            self.name,
            self.times,
            self.took.as_secs_f64(),
            self.reads,
            self.failed_reads,
            self.slowest_read,
            self.writes,
            self.slowest_write,
            self.errors,
        )
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    skipped: Vec<&'static str>,
}

impl Table {
    pub fn add(&mut self, row: Row) {
        match self.rows.iter_mut().find(|known| known.name == row.name) {
            Some(known) => known.take_in(&row),
            None => self.rows.push(row),
        }
    }

    pub fn skip(&mut self, name: &'static str) {
        if !self.skipped.contains(&name) {
            self.skipped.push(name);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "(memory before, at most and after, all processes of Narrows, at the highest peak)"
        )?;
        self.rows.iter().try_for_each(|row| writeln!(formatter, "{row}"))?;
        self.skipped.iter().try_for_each(|name| writeln!(formatter, "{name:<48} SKIPPED"))
    }
}
