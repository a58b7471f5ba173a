//! What came of it: a line for each fault, and what must not have been.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::load::{Failure, Load, Tally, What};
use super::sysbench::Sysbench;

/// How long it took until everything was as before, from the end of a fault.
#[derive(Debug, Default)]
pub struct Times {
    /// Until the server in question had reads again.
    pub reads: Duration,
    /// From the fault until writes went on.
    pub writes: Option<Duration>,
    /// Another server has become the primary.
    pub change: Option<Change>,
}

/// From one primary to the next.
#[derive(Debug)]
pub struct Change {
    /// Writes below this number have begun before the old one's end.
    pub ends: u64,
    /// Those from this number on have begun after the new one was made.
    pub begins: u64,
    /// Its `server_id`.
    pub server: u32,
    /// While there was nothing to write to.
    pub during: (Instant, Instant),
}

/// The load, and what is told of it.
pub struct Report {
    load: Load,
    sysbench: Sysbench,
    lines: Vec<String>,
    /// The first primary, and those after it.
    first: u32,
    changes: Vec<Change>,
}

impl Report {
    pub fn new((load, sysbench): (Load, Sysbench), first: u32) -> Report {
        Report { load, sysbench, lines: Vec::new(), first, changes: Vec::new() }
    }

    pub fn load(&self) -> &Load {
        &self.load
    }

    /// A fault that could not be made.
    pub fn skip(&mut self, name: &str) {
        self.lines.push(format!("{name:<52} SKIPPED"));
    }

    /// Runs a fault, and notes what clients have seen meanwhile.
    pub fn scenario(&mut self, name: &str, run: impl FnOnce(&mut Load) -> Times) {
        let before = self.load.look(|tally| {
            (tally.slowest_read, tally.slowest_write) = (Duration::ZERO, Duration::ZERO);
            (tally.reads, tally.acknowledged.len(), tally.failures.len())
        });
        let begun = Instant::now();
        let times = run(&mut self.load);
        let took = begun.elapsed().as_secs_f64();
        self.changes.extend(times.change);
        let line = self.load.look(|tally| {
            let failures = &tally.failures[before.2..];
            let of_reads = failures.iter().filter(|failure| failure.what == What::Read).count();
            let writes = times.writes.map_or(String::new(), |took| format!("writes after {took:.1?}, "));
            format!(
                "{name:<52} {took:5.1} s  {:6} reads, slowest {:6.0?}, {of_reads} failed  {:5} writes, slowest {:6.0?}  \
                 {} other errors  {writes}full service after {:.1?}",
                tally.reads - before.0,
                tally.slowest_read,
                tally.acknowledged.len() - before.1,
                tally.slowest_write,
                failures.len() - of_reads,
                times.reads,
            )
        });
        println!("{line}");
        self.lines.push(line);
    }

    /// Ends the load and judges; what is wrong.
    pub fn finish(self, cluster: &Cluster) -> Vec<String> {
        let Report { load, sysbench, lines, first, changes } = self;
        let mut tally = load.stop();
        let outcomes = sysbench.stop();
        for outcome in &outcomes {
            tally.failures.extend(outcome.failures.iter().cloned());
        }
        let (primary, replicas) = ledgers(cluster);
        let lost = count(&tally.acknowledged, |id| !primary.contains_key(id));
        let denied = count(&tally.refused, |id| primary.contains_key(id));
        let strays = replicas.iter().flat_map(|replica| {
            let missing = primary.keys().filter(|id| !replica.contains_key(id));
            missing.chain(replica.keys().filter(|id| !primary.contains_key(id)))
        });
        let astray = primary.iter().filter(|(id, server)| {
            let primaries = primaries_at(**id, first, &changes);
            !primaries.contains(server)
        });
        let astray = astray.map(|(id, server)| format!("number {id} on server {server}")).collect();
        // Whether there was no primary while that was running.
        let is_explained = |failure: &&Failure| {
            let overlaps = |(from, to)| failure.from < to && from < failure.to;
            changes.iter().any(|change| overlaps(change.during))
        };
        let halves = tally.uncertain.iter().filter(|ids| {
            let there = ids.iter().filter(|id| primary.contains_key(id)).count();
            there != 0 && there != ids.len()
        });
        let of_reads = tally.failures.iter().filter(|failure| failure.what == What::Read);
        let unexplained = tally.failures.iter().filter(|it| it.what != What::Read && !is_explained(it));
        let uncertain = tally.uncertain.len();
        let found = [
            ("wrong answers", tally.wrong.clone()),
            ("acknowledged writes lost", lost),
            ("writes that a client was told not to have run, and that have", denied),
            ("writes that reached a server that was not the primary", astray),
            ("writes that not all servers have", strays.map(u64::to_string).collect()),
            ("transactions of which a half is there", halves.map(|ids| format!("{ids:?}")).collect()),
            ("reads outside of transactions that failed", of_reads.map(told).collect()),
            ("other errors while there was a primary", unexplained.map(told).collect()),
        ];
        println!(
            "\n{} reads, {} writes and transactions acknowledged, {uncertain} uncertain, {} refused, {} errors in all",
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
        for line in lines.iter().filter(|line| line.ends_with("SKIPPED")) {
            println!("       {line}");
        }
        let wrong = found.into_iter().filter(|(_, found)| !found.is_empty());
        wrong.map(|(what, found)| format!("{} {what}, such as {}", found.len(), found[0])).collect()
    }
}

fn told(failure: &Failure) -> String {
    format!("{:?} after {:?}: {}", failure.what, failure.to - failure.from, failure.text)
}

/// Who may have taken the write of that number: the primary of its time, or of two where it began between them.
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

/// The writes that the primary has in the end, and those of each of the others: by number, which server took them.
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

fn count(writes: &[Vec<u64>], is_wrong: impl Fn(&u64) -> bool) -> Vec<String> {
    writes.iter().filter(|ids| ids.iter().any(&is_wrong)).map(|ids| format!("{ids:?}")).collect()
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
