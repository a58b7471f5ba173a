//! The outcome: a line for each fault, and everything that must not have happened.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::admin::Bursts;
use super::cluster::Cluster;
use super::is_long;
use super::load::{Failure, Load, Tally, What};
use super::memory::Meter;
use super::table::{Row, Table};

/// How long it took until everything was as before, from the end of a fault.
#[derive(Debug, Default)]
pub struct Times {
    /// Until the affected server received reads again.
    pub reads: Duration,
    /// From the fault until writes continued.
    pub writes: Option<Duration>,
    /// Another server has become the primary.
    pub change: Option<Change>,
    /// The errors that clients are allowed to see.
    pub excuses: Vec<Excuse>,
    /// What was wrong.
    pub defects: Vec<String>,
}

/// From one primary to the next.
#[derive(Debug)]
pub struct Change {
    /// Writes below this number were answered before the old primary's end.
    pub ends: u64,
    /// Writes from this number on began after the new primary was promoted.
    pub begins: u64,
    /// Its `server_id`.
    pub server: u32,
}

/// Errors that the documents allow clients to receive during it.
#[derive(Debug, Clone)]
pub struct Excuse {
    pub during: (Instant, Instant),
    pub covers: fn(&Failure) -> bool,
}

impl Excuse {
    fn holds_for(&self, failure: &Failure) -> bool {
        failure.from < self.during.1 && self.during.0 < failure.to && (self.covers)(failure)
    }
}

/// The load, and the report on it.
pub struct Report {
    /// The servers, printed before each line.
    whose: String,
    begun: Instant,
    load: Load,
    bursts: Arc<Bursts>,
    meter: Meter,
    table: Table,
    /// What is wrong so far, besides what the load has seen.
    defects: Vec<String>,
    /// Whether the last fault left something to repair.
    is_undone: bool,
    /// The first primary, and those after it.
    first: u32,
    changes: Vec<Change>,
    excuses: Vec<Excuse>,
}

impl Report {
    pub fn new(whose: String, load: Load, bursts: Arc<Bursts>, meter: Meter, first: u32) -> Report {
        Report {
            whose,
            begun: Instant::now(),
            load,
            bursts,
            meter,
            table: Table::default(),
            defects: Vec::new(),
            is_undone: false,
            first,
            changes: Vec::new(),
            excuses: Vec::new(),
        }
    }

    /// A fault that could not be caused.
    pub fn skip(&mut self, name: &'static str) {
        self.table.skip(name);
    }

    /// Records an error.
    pub fn defect(&mut self, what: String) {
        println!("{} DEFECT {what}", self.place());
        self.defects.push(what);
    }

    /// The servers and the second of a line.
    fn place(&self) -> String {
        format!("{:<8} {:4} s", self.whose, self.begun.elapsed().as_secs())
    }

    /// Whether the last fault left something to repair; resets the flag.
    pub fn was_left_undone(&mut self) -> bool {
        std::mem::take(&mut self.is_undone)
    }

    /// Runs a fault, and records what clients saw during it.
    pub fn scenario(&mut self, name: &'static str, run: impl FnOnce(&mut Load) -> Times) {
        self.run(name, false, run);
    }

    /// Runs a fault that uses memory, all of which must be released.
    pub fn peak(&mut self, name: &'static str, run: impl FnOnce(&mut Load) -> Times) {
        self.run(name, true, run);
    }

    fn run(&mut self, name: &'static str, is_peak: bool, run: impl FnOnce(&mut Load) -> Times) {
        let bursts = Arc::clone(&self.bursts);
        let pause = is_peak.then(|| bursts.pause());
        if is_peak && let Err(what) = self.meter.wait_for_processes() {
            self.defect(format!("before {name}: {what}"));
        }
        let before = self.load.look(|tally| {
            (tally.slowest_read, tally.slowest_write) = (Duration::ZERO, Duration::ZERO);
            (tally.reads, tally.acknowledged.len(), tally.failures.len())
        });
        let number = self.load.next_number();
        let mut memory = self.meter.begin();
        drop(pause);
        let begun = Instant::now();
        let times = match catch_unwind(AssertUnwindSafe(|| run(&mut self.load))) {
            Ok(times) => times,
            // In an hour of faults a single failure must not end the run.
            Err(panic) if is_long() => {
                self.defect(format!("{name}: {}", text_of(&*panic)));
                self.is_undone = true;
                Times::default()
            }
            Err(panic) => resume_unwind(panic),
        };
        let took = begun.elapsed();
        self.changes.extend(times.change);
        self.excuses.extend(times.excuses);
        times.defects.into_iter().for_each(|what| self.defect(format!("{name}: {what}")));
        let _pause = is_peak.then(|| bursts.pause());
        match is_peak && !self.is_undone {
            true => {
                self.meter.settle(&mut memory).unwrap_or_else(|what| self.defect(format!("{name}: {what}")))
            }
            false => self.meter.end(&mut memory),
        }
        let place = self.place();
        let excuses = &self.excuses;
        let row = self.load.look(|tally| {
            let failures = &tally.failures[before.2..];
            for failure in failures.iter().filter(|failure| !is_explained(excuses, failure)) {
                println!("{place} UNEXPLAINED {}", told(failure));
            }
            Row {
                name,
                times: 1,
                took,
                reads: tally.reads - before.0,
                writes: (tally.acknowledged.len() - before.1) as u64,
                failed_reads: failures.iter().filter(|failure| failure.what.is_read()).count(),
                errors: failures.len(),
                slowest_read: tally.slowest_read,
                slowest_write: tally.slowest_write,
                memory,
            }
        });
        let writes = times.writes.map_or(String::new(), |took| format!("writes after {took:.1?}, "));
        println!("{place} {row}  {writes}full service after {:.1?}  from number {number}", times.reads);
        self.table.add(row);
    }

    /// Ends the load and judges; returns what is wrong.
    pub fn finish(self, cluster: &Cluster) -> Vec<String> {
        let Report { whose, load, table, first, changes, excuses, defects, .. } = self;
        let (tally, outcomes) = load.stop();
        println!("\n{whose}\n{table}");
        let (primary, replicas) = ledgers(cluster);
        let acknowledged = tally.acknowledged.iter().map(|write| &write.ids);
        let lost = count(acknowledged, |id| !primary.contains_key(id));
        let denied = count(tally.refused.iter().map(|write| &write.ids), |id| primary.contains_key(id));
        let strays = replicas.iter().flat_map(|replica| {
            let missing = primary.keys().filter(|id| !replica.contains_key(id));
            missing.chain(replica.keys().filter(|id| !primary.contains_key(id)))
        });
        let astray = primary.iter().filter(|(id, server)| {
            let primaries = primaries_at(**id, first, &changes);
            !primaries.contains(server)
        });
        let astray = astray.map(|(id, server)| format!("number {id} on server {server}")).collect();
        let halves = tally.uncertain.iter().filter(|ids| {
            let there = ids.iter().filter(|id| primary.contains_key(id)).count();
            there != 0 && there != ids.len()
        });
        let (of_reads, others): (Vec<&Failure>, Vec<&Failure>) = tally
            .failures
            .iter()
            .filter(|failure| !is_explained(&excuses, failure))
            .partition(|it| it.what.is_read());
        let uncertain = tally.uncertain.len();
        let found = [
            ("wrong answers", tally.wrong.clone()),
            ("acknowledged writes lost", lost),
            ("writes reported as not run that did run", denied),
            ("writes that reached a server that was not the primary", astray),
            ("writes that not all servers have", strays.map(u64::to_string).collect()),
            ("transactions that were half executed", halves.map(|ids| format!("{ids:?}")).collect()),
            ("reads outside of transactions that failed", of_reads.into_iter().map(told).collect()),
            ("other errors that no document explains", others.into_iter().map(told).collect()),
            ("other broken promises", defects),
        ];
        println!(
            "{} reads, {} writes and transactions acknowledged, {uncertain} uncertain, {} refused, {} errors in all",
            tally.reads,
            tally.acknowledged.len(),
            tally.refused.len(),
            tally.failures.len(),
        );
        outcomes.iter().for_each(|outcome| println!("{}", outcome.line));
        for text in distinct(&tally) {
            println!("  {text}");
        }
        found.iter().for_each(|(what, found)| println!("{:6} {what}", found.len()));
        let wrong = found.into_iter().filter(|(_, found)| !found.is_empty());
        wrong
            .map(|(what, found)| {
                format!("{} {what}, such as {}", found.len(), found[..found.len().min(5)].join("; "))
            })
            .collect()
    }
}

fn is_explained(excuses: &[Excuse], failure: &Failure) -> bool {
    excuses.iter().any(|excuse| excuse.holds_for(failure))
}

fn told(failure: &Failure) -> String {
    format!("{:?} after {:?}: {}", failure.what, failure.to - failure.from, failure.text)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Whether the error only means that there is no primary, which is allowed while there is none.
pub fn needs_primary(failure: &Failure) -> bool {
    !failure.what.is_read() && failure.what != What::Admin
}

/// The servers that may have executed the write with this number: the primary of its time, or two if it began between
/// them.
fn primaries_at(id: u64, first: u32, changes: &[Change]) -> Vec<u32> {
    let mut primaries = vec![first];
    for change in changes {
        if id >= change.begins {
            primaries = vec![change.server];
        } else if id >= change.ends {
            primaries.push(change.server);
        }
    }
    primaries
}

/// The writes that the primary has in the end, and those of each other server: by number, with the server that executed
/// them.
fn ledgers(cluster: &Cluster) -> (Ledger, Vec<Ledger>) {
    cluster.wait_for_replicas();
    let of = |index: usize| -> Ledger {
        let rows = cluster.nodes[index].server.rows("SELECT id, server FROM chaos.ledger");
        let number = |cell: &Option<String>| cell.as_ref()?.parse::<u64>().ok();
        let entry = |row: Vec<Option<String>>| Some((number(&row[0])?, number(&row[1])? as u32));
        rows.into_iter().filter_map(entry).collect()
    };
    (of(cluster.primary), cluster.replicas().into_iter().map(of).collect())
}

type Ledger = HashMap<u64, u32>;

fn count<'a>(writes: impl Iterator<Item = &'a Vec<u64>>, is_wrong: impl Fn(&u64) -> bool) -> Vec<String> {
    writes.filter(|ids| ids.iter().any(&is_wrong)).map(|ids| format!("{ids:?}")).collect()
}

/// The texts of errors with their numbers left out, each once, with how often it came.
fn distinct(tally: &Tally) -> Vec<String> {
    let mut texts: Vec<(String, usize)> = Vec::new();
    for failure in &tally.failures {
        let text: String = failure.text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        match texts.iter_mut().find(|(known, _)| known.starts_with(&text)) {
            Some((_, count)) => *count += 1,
            None => texts.push((format!("{text}  [{:?}] {}", failure.what, failure.text), 1)),
        }
    }
    let line = |(text, count): (String, usize)| {
        format!("{count:5} x {}", text.split_once("  [").map_or("", |(_, text)| text))
    };
    texts.into_iter().map(line).collect()
}
