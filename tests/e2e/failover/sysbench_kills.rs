//! The primary is killed under sysbench with `transaction_replay`, and a tool promotes a replica three seconds later. Transactions
//! are run again on the new primary; each writes into a ledger, which is compared with the servers.
//!
//! Two things cannot be hidden. Whether a `COMMIT` has run that was in flight is not known, and the answer says so. And a transaction
//! that has read what another one has changed since cannot be the same on the new primary: it is rolled back as after a deadlock.
//!
//! `NARROWS_SWITCHOVER=long` kills 20 primaries of each kind of server, under 32 threads.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Narrows, wait_until};

use super::is_long;
use super::ledger::{Faults, Ledger, Said, TABLE, said};
use super::load::{Load, Run};
use super::servers::Servers;
use crate::support::start;

fn kills(flavour: Flavour) {
    let mut servers = Servers::start_semi_synchronous(flavour);
    servers.nodes[0].execute(&[TABLE]);
    LOAD.prepare(&servers.nodes[0]);
    servers.have_all(0);
    let config = servers.config().variable("transaction_replay", "true");
    let narrows = start(&config.variable("connect_timeout_server_max", "60000"));
    servers.wait_for_roles(&mut narrows.admin());
    let (count, threads) = if is_long() { (20, 32) } else { (1, 16) };
    let mut before = servers.commits_without_a_replica(0);
    let mut run = Run::start(LOAD, narrows.port(), threads);
    let (mut primary, mut times, mut rebuilt) = (0, Vec::new(), 0);
    for _ in 0..count {
        wait_for_transactions(&mut run, threads * 10);
        // What a replica has not confirmed may be lost with the primary, whatever Narrows does.
        let unconfirmed = servers.commits_without_a_replica(primary);
        assert_eq!(unconfirmed, before, "commits that no replica has confirmed");
        servers.nodes[primary].kill();
        // What the tool needs to notice and to decide.
        thread::sleep(Duration::from_secs(3));
        let old = primary;
        primary = servers.promote(old);
        before = servers.commits_without_a_replica(primary);
        let promoted = Instant::now();
        wait_for_transactions(&mut run, threads);
        times.push(promoted.elapsed());
        rebuilt += usize::from(servers.return_as_replica(old, primary, &mut |node| {
            let wrong = Told::of(&run.report()).ledger.told_wrongly(node);
            assert!(wrong.is_empty(), "not run by their answers, and done on the old primary: {wrong:?}");
        }));
    }
    let told = Told::of(&run.stop());
    servers.have_all(primary);
    for (index, node) in servers.nodes.iter().enumerate() {
        let faults = told.ledger.compare(node);
        let context =
            || format!("server {index}; {primary} is the primary: {:#?}\n{}", told.errors, narrows.log());
        assert_eq!(faults, Faults::default(), "{}\n{}", context(), node.log());
    }
    told.check(flavour, (count, threads), &narrows);
    println!(
        "clients wrote again at most {:?} after the promotion; {rebuilt} old primaries had more than the new one, and were filled \
         again",
        times.iter().max().unwrap()
    );
}

/// What sysbench has told.
#[derive(Default)]
struct Told {
    ledger: Ledger,
    /// How often each error has come: the statement that has failed, and the beginning of the text.
    errors: BTreeMap<String, usize>,
}

impl Told {
    fn of(report: &str) -> Told {
        let mut told = Told::default();
        for line in report.lines() {
            if let Some(rest) = line.strip_prefix("DID ") {
                told.add(rest, Said::Done);
            } else if let Some(rest) = line.strip_prefix("NOT ") {
                let words: Vec<&str> = rest.splitn(5, ' ').collect();
                // The last line may be incomplete.
                let [_, _, statement, code, text] = words[..] else { continue };
                told.add(rest, told.of_error(statement, code.parse().unwrap_or(0), text));
                *told.errors.entry(kind(statement, code, text)).or_default() += 1;
            }
        }
        assert!(!report.contains("FAILED"), "{report}");
        told
    }

    fn add(&mut self, line: &str, said: Said) {
        let mut words = line.split(' ').map(|word| word.parse::<u64>());
        if let (Some(Ok(client)), Some(Ok(turn))) = (words.next(), words.next()) {
            let both = [0, 1].map(|part| ((client as usize, turn, part), said));
            self.ledger.writes.extend(both);
        }
    }

    /// The library of MariaDB replaces error 2013 of a server by its own error 2027, without the text.
    fn of_error(&self, statement: &str, code: u16, text: &str) -> Said {
        match (code, statement) {
            (2006 | 2013 | 2027, "COMMIT") => Said::Unknown,
            // A transaction whose COMMIT was not sent is not committed.
            (2006 | 2013 | 2027, _) => Said::NotDone,
            _ => said(statement, (code, text)).unwrap_or(Said::Unknown),
        }
    }

    /// Only what the documents name may have failed.
    fn check(&self, flavour: Flavour, (kills, threads): (usize, usize), narrows: &Narrows) {
        let of = |name: &str| self.errors.get(name).copied().unwrap_or_default();
        let in_flight = of(COMMIT_IN_FLIGHT);
        let (rolled_back, deadlocks, cut) = (of(ROLLED_BACK), of(DEADLOCK), of(CUT_OFF));
        let known = in_flight + rolled_back + deadlocks + cut;
        assert_eq!(known, self.errors.values().sum::<usize>(), "{:#?}\n{}", self.errors, narrows.log());
        assert!(in_flight + rolled_back + cut <= threads * kills, "{:#?}", self.errors);
        let replays = replays(narrows);
        assert!(replays.get("replayed").is_some_and(|count| *count > 0), "{replays:?}");
        let [done, not_done, unknown] = self.ledger.counts().map(|rows| rows / 2);
        println!(
            "{flavour:?}: {kills} primaries killed under sysbench with {threads} threads and transaction_replay: {done} transactions \
             acknowledged, {not_done} rolled back, {unknown} that may have run; 0 lost, 0 twice, 0 told wrongly. A COMMIT was in \
             flight: {in_flight}; what they have read had changed: {rolled_back}; cut off in an answer: {cut}; deadlocks: {deadlocks}; \
             {replays:?}"
        );
    }
}

/// What an error is, if it is one that the documents name.
fn kind(statement: &str, code: &str, text: &str) -> String {
    match (code, statement) {
        ("2013" | "2027", "COMMIT") => COMMIT_IN_FLIGHT.to_owned(),
        ("1213", _) if text.starts_with("The transaction was rolled back: its server was lost") => {
            ROLLED_BACK.to_owned()
        }
        ("1213", _) if text.starts_with("Deadlock found") => DEADLOCK.to_owned(),
        ("2013", "INSERT") if text.starts_with("Lost connection to server during query") => {
            CUT_OFF.to_owned()
        }
        _ => format!("{statement}: {code} {text}"),
    }
}

/// How many transactions were run again, by what has become of them.
fn replays(narrows: &Narrows) -> BTreeMap<String, u64> {
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let of = |row: Vec<Option<String>>| {
        let name = row[0].as_deref()?.strip_prefix("Narrows_transaction_replays_")?.to_owned();
        Some((name, row[1].as_deref()?.parse().ok()?))
    };
    rows.into_iter().filter_map(of).collect()
}

/// Waits until so many more transactions were acknowledged.
fn wait_for_transactions(run: &mut Run, more: usize) {
    let done = |run: &Run| run.report().matches("DID ").count();
    let before = done(run);
    wait_until("sysbench writes", || {
        assert!(run.goes_on(), "{}", run.report());
        done(run) >= before + more
    });
}

#[test]
fn transactions_of_sysbench_go_on_when_primaries_of_mariadb_are_killed() {
    Flavour::MariaDb.if_tested(kills);
}

#[test]
fn transactions_of_sysbench_go_on_when_primaries_of_mysql9_are_killed() {
    Flavour::MySql9.if_tested(kills);
}

/// Many rows, so that few transactions read what another one is about to change.
const LOAD: Load = Load { rows: 50_000, keeps_ledger: true };

const COMMIT_IN_FLIGHT: &str = "COMMIT in flight";
const ROLLED_BACK: &str = "rolled back";
const DEADLOCK: &str = "deadlock";
const CUT_OFF: &str = "cut off";
