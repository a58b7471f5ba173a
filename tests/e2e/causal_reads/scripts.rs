//! Clients that do what a seed says, each on a table of its own, beside a model of that table: whatever they have written in
//! whatever way, the read after it shows the model, while replicas stop and continue. It is a read of the client itself, of another
//! session with its token, or, at the levels `user` and `global`, of another session without one.
//!
//! `NARROWS_SEED` generates other scripts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use narrows_testkit::{Flavour, Narrows, RawClient, command};

use super::{Servers, figures, run, token, value};
use crate::model::random::Random;
use crate::prepared::statement::{Statement, Value, cell};
use crate::support::start;

const CLIENTS: usize = 8;

/// Things that each client does.
const STEPS: usize = 120;

/// Whose read must show what a client has written.
#[derive(Debug, Clone)]
enum Reader {
    Itself,
    /// Another session, with this token.
    WithToken(String),
    Another,
}

/// A client, and what its table has.
struct Client<'n> {
    narrows: &'n Narrows,
    random: Random,
    level: &'static str,
    session: RawClient,
    table: String,
    model: BTreeMap<i64, i64>,
    done: Vec<String>,
    /// Reads on replicas.
    away: usize,
}

impl<'n> Client<'n> {
    fn new(narrows: &'n Narrows, level: &'static str, seed: u64, number: usize) -> Client<'n> {
        let (random, table) = (Random::new(seed, number), format!("shop.{level}{number}"));
        let mut session = narrows.client();
        run(&mut session, &format!("CREATE TABLE {table} (id INT PRIMARY KEY, n BIGINT)"));
        let (model, done) = (BTreeMap::new(), Vec::new());
        Client { narrows, random, level, session, table, model, done, away: 0 }
    }

    fn run(&mut self, statement: &str) {
        self.done.push(statement.to_owned());
        run(&mut self.session, statement);
    }

    /// Writes one row, and returns it.
    fn write(&mut self) -> (i64, i64) {
        let (id, n) = (self.random.below(9) as i64, self.random.below(1_000_000) as i64);
        let table = self.table.clone();
        match self.random.below(3) {
            0 => self.run(&format!("REPLACE INTO {table} VALUES ({id}, {n})")),
            1 => self.run(&format!("INSERT INTO {table} VALUES ({id}, {n}) ON DUPLICATE KEY UPDATE n = {n}")),
            _ => {
                self.done.push(format!("prepared REPLACE of {id}, {n}"));
                let text = format!("REPLACE INTO {table} VALUES (?, ?)");
                let statement = Statement::prepare(&mut self.session, &text);
                let answer = statement.execute(&mut self.session, &[Value::Integer(id), Value::Integer(n)]);
                assert!(answer.error().is_none(), "{:?}", answer.error());
                statement.close(&mut self.session);
            }
        }
        (id, n)
    }

    /// A transaction of some writes.
    fn transaction(&mut self) {
        let begin = *self.random.pick(&["BEGIN", "START TRANSACTION", "SET autocommit = 0"]);
        self.run(begin);
        let mut model = self.model.clone();
        for _ in 0..=self.random.below(3) {
            model.extend([self.write()]);
        }
        if self.random.below(3) == 0 {
            self.run("SAVEPOINT one");
            self.write();
            self.run("ROLLBACK TO SAVEPOINT one");
        }
        let (seen, _) = self.read(&Reader::Itself);
        assert_eq!(seen, shown(&model), "in a transaction: {:#?}", self.done);
        if self.random.below(4) == 0 {
            self.run("ROLLBACK");
        } else {
            self.run("COMMIT");
            self.model = model;
        }
        self.run("SET autocommit = 1");
    }

    /// Changes the table in a way of which some servers report no GTID.
    fn otherwise(&mut self) {
        let table = self.table.clone();
        match self.random.below(5) {
            0 => self.run(&format!("DELETE FROM {table} WHERE id > 4")),
            1 => self.run(&format!("UPDATE {table} SET n = n + 1 WHERE id > 4")),
            2 => return self.run(&format!("ALTER TABLE {table} COMMENT = '{}'", self.done.len())),
            3 => self.run(&format!("PREPARE p FROM 'DELETE FROM {table} WHERE id > 4'")),
            _ => self.run(&format!("TRUNCATE TABLE {table}")),
        }
        match self.done.last().expect("one").split(' ').next() {
            Some("UPDATE") => self.model.iter_mut().filter(|(id, _)| **id > 4).for_each(|(_, n)| *n += 1),
            Some("TRUNCATE") => self.model.clear(),
            Some("PREPARE") => {
                self.run("EXECUTE p");
                self.run("DEALLOCATE PREPARE p");
                self.model.retain(|id, _| *id <= 4);
            }
            _ => self.model.retain(|id, _| *id <= 4),
        }
    }

    /// What the table has, and where that was read.
    fn read(&mut self, by: &Reader) -> (String, String) {
        let query = format!(
            "SELECT CONCAT(@@server_id, ' ', COALESCE(GROUP_CONCAT(id, '=', n ORDER BY id), '')) FROM {}",
            self.table
        );
        let found = match by {
            Reader::WithToken(token) => {
                value(&mut self.narrows.client(), &format!("/* causal_token={token} */ {query}"))
            }
            Reader::Another => value(&mut self.narrows.client(), &query),
            Reader::Itself if self.random.below(3) == 0 => {
                let statement = Statement::prepare(&mut self.session, &query);
                let found = cell(&statement.execute(&mut self.session, &[]));
                statement.close(&mut self.session);
                found
            }
            Reader::Itself => value(&mut self.session, &query),
        };
        let (server, rows) = found.split_once(' ').expect("two values");
        (rows.to_owned(), server.to_owned())
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..4 => {
                let row = self.write();
                self.model.extend([row]);
            }
            4..7 => self.transaction(),
            7 => {
                self.done.push("COM_RESET_CONNECTION".to_owned());
                let answer = self.session.command(command::RESET_CONNECTION, b"");
                assert!(answer.error().is_none());
            }
            _ => self.otherwise(),
        }
        let by = match self.random.below(4) {
            0 => Reader::WithToken(token(&mut self.session)),
            1 if self.level != "session" => Reader::Another,
            _ => Reader::Itself,
        };
        let (seen, server) = self.read(&by);
        self.away += usize::from(server != "1");
        let last = &self.done[self.done.len().saturating_sub(12)..];
        assert_eq!(seen, shown(&self.model), "from server {server}, by {by:?}, after {last:#?}");
    }
}

fn shown(model: &BTreeMap<i64, i64>) -> String {
    model.iter().map(|(id, n)| format!("{id}={n}")).collect::<Vec<_>>().join(",")
}

fn every_read_shows_the_model(flavour: Flavour) {
    let seed = std::env::var("NARROWS_SEED").map_or(24, |seed| seed.parse().expect("a number"));
    let servers = Servers::start(flavour);
    for level in ["session", "user", "global"] {
        let narrows = start(&servers.config().variable("threads", "4").variable("causal_reads", level));
        let away = run_scripts(&servers, &narrows, level, seed);
        let reads = CLIENTS * STEPS;
        println!(
            "{flavour:?}, {level}, NARROWS_SEED={seed}: {reads} reads, {away} on replicas; {}",
            figures(&narrows)
        );
    }
}

/// Runs all clients, while replicas stop and continue; returns how many reads ran on replicas.
fn run_scripts(servers: &Servers, narrows: &Narrows, level: &'static str, seed: u64) -> usize {
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::new(narrows, level, seed, number);
                    (0..STEPS).for_each(|_| client.step());
                    client.away
                })
            })
            .collect();
        scope.spawn(|| {
            while goes_on.load(Ordering::Relaxed) {
                servers.apply(false);
                servers.apply(true);
            }
        });
        let away = clients.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        goes_on.store(false, Ordering::Relaxed);
        away.into_iter().map(|away| away.expect("no read is stale")).sum()
    })
}

#[test]
fn every_read_shows_what_its_client_has_written_on_mariadb() {
    Flavour::MariaDb.if_tested(every_read_shows_the_model);
}

#[test]
fn every_read_shows_what_its_client_has_written_on_mysql9() {
    Flavour::MySql9.if_tested(every_read_shows_the_model);
}
