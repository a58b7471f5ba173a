//! Clients that keep their own record of each write: what its answer says has become of it. Writes have a key each, and the table
//! has no unique index, so that one that was done twice is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{Login, Narrows, RawClient, RealServer};

/// A write: its client, the number of its turn, and which one of the turn.
pub type Key = (usize, u64, u8);

/// What the answer to a write says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// It is done.
    Done,
    /// It has not run, or its transaction was not committed.
    NotDone,
    /// It may have run.
    Unknown,
}

/// What all clients know.
#[derive(Debug, Default)]
pub struct Ledger {
    pub writes: BTreeMap<Key, Said>,
    /// Every error, with the time.
    pub errors: Vec<(Instant, String)>,
    /// Errors that say nothing about the write, or what no document promises.
    pub unexplained: Vec<String>,
}

/// What is wrong between what clients know and what a server has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub lost: Vec<Key>,
    pub twice: Vec<Key>,
    pub done_though_told_not: Vec<Key>,
    pub half: Vec<Key>,
}

impl Ledger {
    /// Compares with a server that is to have everything.
    pub fn compare(&self, server: &RealServer) -> Faults {
        let mut found: BTreeMap<Key, u64> = BTreeMap::new();
        for row in server.rows("SELECT client, turn, part, COUNT(*) FROM shop.writes GROUP BY 1, 2, 3") {
            let cell = |index: usize| row[index].as_deref().and_then(|cell| cell.parse().ok()).unwrap_or(0);
            found.insert((cell(0) as usize, cell(1), cell(2) as u8), cell(3));
        }
        let of = |wanted: Said| self.writes.iter().filter(move |(_, said)| **said == wanted).map(|it| *it.0);
        let halves = self.writes.keys().filter(|(client, turn, _)| {
            let part = |part| found.contains_key(&(*client, *turn, part));
            self.writes.contains_key(&(*client, *turn, 1)) && part(0) != part(1)
        });
        Faults {
            lost: of(Said::Done).filter(|key| !found.contains_key(key)).collect(),
            twice: found.iter().filter(|(_, times)| **times > 1).map(|it| *it.0).collect(),
            done_though_told_not: of(Said::NotDone).filter(|key| found.contains_key(key)).collect(),
            half: halves.copied().collect(),
        }
    }

    /// How many writes there are of each kind: done, not done, unknown.
    pub fn counts(&self) -> [usize; 3] {
        [Said::Done, Said::NotDone, Said::Unknown]
            .map(|wanted| self.writes.values().filter(|said| **said == wanted).count())
    }

    /// What is not done by its answer, and is found on this server, which may have more than the others.
    pub fn told_wrongly(&self, server: &RealServer) -> BTreeSet<Key> {
        self.compare(server).done_though_told_not.into_iter().collect()
    }
}

/// Creates the table of the writes.
pub const TABLE: &str = "CREATE TABLE shop.writes (client INT, turn INT, part INT, KEY (client, turn, part))";

/// Writes until it is stopped: in every other turn alone, and else two in a transaction.
pub fn write(narrows: &Narrows, client: usize, pause: Duration, stop: &AtomicBool, ledger: &Mutex<Ledger>) {
    let mut session = open(narrows);
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        thread::sleep(pause);
        let insert = |part| format!("INSERT INTO shop.writes VALUES ({client}, {turn}, {part})");
        let (statements, keys) = match turn % 2 {
            0 => (vec![insert(0)], vec![(client, turn, 0)]),
            _ => (
                vec!["BEGIN".to_owned(), insert(0), insert(1), "COMMIT".to_owned()],
                vec![(client, turn, 0), (client, turn, 1)],
            ),
        };
        let failed =
            statements.iter().find_map(|statement| Some((statement, session.query(statement).error()?)));
        let mut ledger = ledger.lock().unwrap();
        let said = match failed {
            None => Said::Done,
            Some((statement, error)) => {
                ledger
                    .errors
                    .push((Instant::now(), format!("{statement}: {} {}", error.code, error.message)));
                let said = said(statement, (error.code, &error.message));
                if said.is_none() {
                    ledger.unexplained.push(format!("{statement}: {error:?}"));
                }
                said.unwrap_or(Said::Unknown)
            }
        };
        ledger.writes.extend(keys.into_iter().map(|key| (key, said)));
        drop(ledger);
        if said != Said::Done {
            session = open(narrows);
        }
    }
}

/// What an error says about its statement and the transaction that it belongs to.
pub fn said(statement: &str, (code, message): (u16, &str)) -> Option<Said> {
    let says = |text: &str| message.contains(text);
    match code {
        9001 => Some(Said::NotDone),
        2013 if says("It has not run.") || says("its transaction was not committed") => Some(Said::NotDone),
        // A transaction that may have begun has not ended.
        2013 if says("It may have run.") && statement == "BEGIN" => Some(Said::NotDone),
        2013 if says("It may have run.") => Some(Said::Unknown),
        // Refused by a server that does not take writes any more.
        1290 | 1836 | 1053 => Some(Said::NotDone),
        // A deadlock, or a transaction that could not be run again.
        1213 => Some(Said::NotDone),
        _ => None,
    }
}

fn open(narrows: &Narrows) -> RawClient {
    RawClient::open(&narrows.endpoint(), &Login::new("shop", "shop"))
}
