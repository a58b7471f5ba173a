//! Writes, each followed by a read that must see it, from many clients, while one replica is delayed by 5 seconds, and then both.
//! As many reads depend on no write: those stay on the replicas.
//!
//! `NARROWS_CAUSAL_PAIRS=100000` makes that many pairs on each kind of server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use narrows_testkit::{Flavour, Narrows, RawClient};

use super::{Servers, figures, read, run, seen, token, value, write};
use crate::prepared::Statement;
use crate::prepared::statement::{Value, cell};
use crate::support::start;

/// How many clients write and read at the same time.
const CLIENTS: usize = 16;

/// What has been read, by who read it.
#[derive(Default)]
struct Tally {
    stale: Vec<String>,
    /// Reads that had to see a write, by server.
    dependent: [usize; 4],
    /// Other reads, by server.
    free: [usize; 4],
}

/// One client: a session that writes, and one that never does.
struct Client<'n> {
    narrows: &'n Narrows,
    session: RawClient,
    reader: RawClient,
    id: i32,
    turn: i64,
    replace: Statement,
    select: Statement,
    tally: Tally,
}

const SELECT: &str = "SELECT CONCAT(COALESCE(MAX(n), -1), ' ', @@server_id) FROM shop.t WHERE id = ?";

impl<'n> Client<'n> {
    fn new(narrows: &'n Narrows, id: i32) -> Client<'n> {
        let mut session = narrows.client();
        let replace = Statement::prepare(&mut session, "REPLACE INTO shop.t VALUES (?, ?)");
        let select = Statement::prepare(&mut session, SELECT);
        let reader = narrows.client();
        Client { narrows, session, reader, id, turn: 0, replace, select, tally: Tally::default() }
    }

    /// Writes, and reads in one of the ways in which the read has to see it.
    fn pair(&mut self, is_in_domain: bool) {
        self.turn += 1;
        if is_in_domain {
            run(&mut self.session, &format!("SET gtid_domain_id = {}", self.turn % 2 * 7));
        }
        let (id, turn) = (self.id, self.turn);
        let how = ["text", "prepared", "transaction", "variable", "comment"][turn as usize % 5];
        match how {
            "prepared" => {
                let values = [Value::Integer(id.into()), Value::Integer(turn)];
                let error = self.replace.execute(&mut self.session, &values).error();
                assert!(error.is_none(), "{error:?}");
            }
            "transaction" => {
                run(&mut self.session, "BEGIN");
                write(&mut self.session, id, -turn);
                write(&mut self.session, id, turn);
                run(&mut self.session, "COMMIT");
            }
            _ => write(&mut self.session, id, turn),
        }
        let (n, server) = match how {
            "prepared" => seen(&cell(&self.select.execute(&mut self.session, &[Value::Integer(id.into())]))),
            "variable" => {
                let token = token(&mut self.session);
                let mut other = self.narrows.client();
                run(&mut other, &format!("SET @narrows_causal_token = '{token}'"));
                read(&mut other, "", id)
            }
            "comment" => {
                let hint = format!("/* causal_token={} */", token(&mut self.session));
                read(&mut self.narrows.client(), &hint, id)
            }
            _ => read(&mut self.session, "", id),
        };
        if n != turn {
            self.tally.stale.push(format!("client {id}, {how}: {n} instead of {turn}, on server {server}"));
        }
        self.tally.dependent[server as usize] += 1;
        let (_, server) = read(&mut self.reader, "", id);
        self.tally.free[server as usize] += 1;
    }
}

fn pairs() -> usize {
    std::env::var("NARROWS_CAUSAL_PAIRS").map_or(2_000, |pairs| pairs.parse().expect("a number of pairs"))
}

/// Makes this many pairs; returns what was read.
fn make(narrows: &Narrows, first: i32, count: usize, with_domains: bool) -> Tally {
    let (made, all) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (made, all) = (&made, &all);
            scope.spawn(move || {
                let mut client = Client::new(narrows, first + number as i32);
                while made.fetch_add(1, Ordering::Relaxed) < count {
                    client.pair(with_domains && number % 2 == 0);
                }
                let mut all = all.lock().unwrap();
                all.stale.append(&mut client.tally.stale);
                for server in 0..4 {
                    all.dependent[server] += client.tally.dependent[server];
                    all.free[server] += client.tally.free[server];
                }
            });
        }
    });
    all.into_inner().unwrap()
}

fn no_read_is_stale(flavour: Flavour) {
    let servers = Servers::start(flavour);
    let config = servers.config().variable("threads", "4").variable("causal_reads", "session");
    // A replica that has the writes of 16 clients later than usual is waited for.
    let narrows = start(&config.variable("causal_reads_timeout_ms", "500"));
    let is_mariadb = flavour == Flavour::MariaDb;
    let mut first = 100;
    for delayed in 0..=2 {
        if delayed > 0 {
            servers.delay(delayed, 5);
        }
        let tally = make(&narrows, first, pairs() / 3, is_mariadb);
        first += 100;
        let [_, on_primary, on_one, on_two] = tally.dependent;
        let [_, free_on_primary, free_on_one, free_on_two] = tally.free;
        println!(
            "{flavour:?}, {delayed} replicas delayed: {} stale; after writes: primary {on_primary}, replicas {on_one} and {on_two}; \
             others: primary {free_on_primary}, replicas {free_on_one} and {free_on_two}",
            tally.stale.len()
        );
        println!("{}", figures(&narrows));
        assert_eq!(tally.stale, Vec::<String>::new());
        assert!(free_on_primary * 10 <= free_on_one + free_on_two, "reads that depend on no write stay");
    }
    let mut session = narrows.client();
    assert_eq!(value(&mut session, "SELECT COUNT(*) > 0 FROM shop.t"), "1");
}

#[test]
fn no_read_after_a_write_is_stale_on_mariadb_with_two_domains() {
    Flavour::MariaDb.if_tested(no_read_is_stale);
}

#[test]
fn no_read_after_a_write_is_stale_on_mysql9() {
    Flavour::MySql9.if_tested(no_read_is_stale);
}
