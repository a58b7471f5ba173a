//! Clusters: Narrows in front of real Galera and Group Replication trios that `narrows sandbox` starts.
//!
//! Clients write all the time, each row with the node that wrote it. Afterwards the table says which node was written to
//! when, and whether anything acknowledged is missing.

mod aurora;
mod chaos;
mod found;
mod galera;
mod group_replication;
mod ledger;
mod rds;
pub mod scripted;
mod trio;

use std::time::{Duration, Instant};

use ledger::{Ledger, Written};
use trio::Trio;

/// Between two checks of a node.
const INTERVAL: Duration = Duration::from_millis(500);

/// A fault, from its beginning until clients write to another node.
struct Scene<'a> {
    name: &'a str,
    trio: &'a mut Trio,
    ledger: Ledger,
    begun: Instant,
    /// The writer at the beginning.
    writer: usize,
    /// How many nodes may be written to, one after the other.
    most_nodes: usize,
}

impl<'a> Scene<'a> {
    /// Waits for a healthy trio, and lets clients write for a moment.
    fn begin(name: &'a str, trio: &'a mut Trio) -> Scene<'a> {
        trio.wait_until_healthy();
        let ledger = Ledger::begin(trio);
        std::thread::sleep(Duration::from_millis(500));
        let writer = trio.writer().expect("a healthy trio has a writer");
        Scene { name, trio, ledger, begun: Instant::now(), writer, most_nodes: 2 }
    }

    /// Marks the beginning of the fault: now.
    fn faults_now(&mut self) {
        self.begun = Instant::now();
    }

    /// Waits until another node is the writer; returns which one, and how long that took.
    fn wait_for_another(&mut self) -> (usize, Duration) {
        let (begun, old) = (self.begun, self.writer);
        let mut new = old;
        narrows_testkit::wait_until(&format!("{}: another writer", self.name), || {
            let writers = self.trio.writers();
            assert!(writers.len() <= 1, "{}: two writers: {writers:?}", self.name);
            new = writers.first().copied().unwrap_or(old);
            new != old
        });
        (new, begun.elapsed())
    }

    /// Lets clients write for a moment longer; returns what they saw.
    fn end(self, moment: Duration) -> Written {
        std::thread::sleep(moment);
        let written = self.ledger.end(self.trio);
        println!("{}: {written}", self.name);
        written
    }
}
