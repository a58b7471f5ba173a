//! Clients that never stop, and record every answer.
//!
//! Readers query facts whose answers are known, some of them with session state that must be their own. Writers insert
//! numbers into the ledger, one in a statement or two in a transaction, and record whether the write was acknowledged,
//! may have happened, or cannot have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, ErrorPacket, Login, RawClient};

use super::cluster::FACTS;
use super::sysbench::{Outcome, Sysbench};

/// What a client was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A read outside of transactions, whose answer is one row.
    Read,
    /// The same, right after a statement that set a session variable.
    AfterSetting,
    /// The same in sysbench, whose answers are long.
    LongRead,
    /// The same with a prepared statement.
    Prepared,
    /// A single write.
    Write,
    /// A statement of a transaction.
    Transaction,
    /// A statement that sets a session variable.
    Setting,
    /// An administrator's statement.
    Admin,
}

impl What {
    /// Whether it is a read outside of transactions.
    pub fn is_read(self) -> bool {
        matches!(self, What::Read | What::AfterSetting | What::LongRead | What::Prepared)
    }
}

/// An error that a client received.
#[derive(Debug, Clone)]
pub struct Failure {
    pub what: What,
    /// When the client last received an answer before it, or began to connect: the fault happened after that.
    pub from: Instant,
    pub to: Instant,
    pub text: String,
}

/// Everything that clients have seen.
#[derive(Debug, Default)]
pub struct Tally {
    pub reads: u64,
    pub slowest_read: Duration,
    pub slowest_write: Duration,
    /// Wrong answers.
    pub wrong: Vec<String>,
    pub failures: Vec<Failure>,
    /// The acknowledged writes and transactions.
    pub acknowledged: Vec<Acknowledged>,
    /// When the last of them began.
    pub written: Option<Instant>,
    /// The writes whose outcome is unknown.
    pub uncertain: Vec<Vec<u64>>,
    /// The writes that cannot have happened, according to the error.
    pub refused: Vec<Refused>,
}

/// A write or a transaction that was acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// The numbers of its rows.
    pub ids: Vec<u64>,
    /// When its first statement began.
    pub from: Instant,
    /// When it was acknowledged.
    pub to: Instant,
}

/// A write or a transaction that cannot have happened, according to its error.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The numbers of its rows.
    pub ids: Vec<u64>,
    /// The error.
    pub text: String,
}

/// The clients; they run until they are stopped.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The sysbench runs.
    sysbench: Option<Sysbench>,
}

/// What all clients share.
pub struct Shared {
    endpoint: Endpoint,
    stop: AtomicBool,
    /// Whether the additional readers are to stay.
    crowded: AtomicBool,
    /// How often all clients were told to connect again.
    generation: AtomicU64,
    begun: Instant,
    next: AtomicU64,
    /// The numbers of the writes that have begun and have no answer yet.
    unanswered: Mutex<BTreeSet<u64>>,
    tally: Mutex<Tally>,
    /// When each server last answered a read, by `server_id`, in us since the beginning.
    answered: Mutex<BTreeMap<u32, u64>>,
}

impl Load {
    /// Starts them and sysbench.
    pub fn start(endpoint: Endpoint, port: u16) -> Load {
        let mut load = Load::of_readers(endpoint);
        load.sysbench = Some(Sysbench::start(port));
        for _ in 0..WRITERS {
            load.spawn(|shared| shared.write());
            load.spawn(|shared| shared.transact());
        }
        load
    }

    /// Starts the readers.
    pub fn of_readers(endpoint: Endpoint) -> Load {
        let shared = Arc::new(Shared {
            endpoint,
            stop: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            begun: Instant::now(),
            next: AtomicU64::new(1),
            unanswered: Mutex::default(),
            tally: Mutex::default(),
            answered: Mutex::default(),
        });
        let mut load = Load { shared, threads: Vec::new(), sysbench: None };
        for _ in 0..READERS {
            load.spawn(|shared| shared.read(|| true));
        }
        for number in 0..READERS_WITH_STATE {
            load.spawn(move |shared| shared.read_with_state(number));
        }
        load
    }

    /// Adds a reader for each connection that a server is to have.
    pub fn add_readers(&mut self, count: usize) {
        self.shared.crowded.store(true, Ordering::SeqCst);
        let read = |shared: &Shared| shared.read(|| shared.crowded.load(Ordering::SeqCst));
        (0..count).for_each(|_| self.spawn(read));
    }

    /// Ends those readers.
    pub fn remove_readers(&mut self) {
        self.shared.crowded.store(false, Ordering::SeqCst);
    }

    /// Makes all clients reconnect, each between two statements or transactions.
    pub fn renew(&mut self) {
        self.shared.generation.fetch_add(1, Ordering::SeqCst);
        self.sysbench.iter_mut().for_each(Sysbench::renew);
    }

    /// Starts one more client.
    pub fn spawn(&mut self, run: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        self.threads.push(std::thread::spawn(move || run(&shared)));
    }

    /// What has been seen so far, as selected by `look`.
    pub fn look<T>(&self, look: impl FnOnce(&mut Tally) -> T) -> T {
        look(&mut self.shared.tally.lock().expect("no panic while held"))
    }

    /// Whether the given server has answered a read that began after `since`.
    pub fn is_answered_by(&self, server: u32, since: Instant) -> bool {
        let last = self.shared.answered.lock().expect("no panic while held").get(&server).copied();
        last.is_some_and(|last| self.shared.begun + Duration::from_micros(last) > since)
    }

    /// The number of the next write: all that begin from now on have it or a higher one.
    pub fn next_number(&self) -> u64 {
        self.shared.next.load(Ordering::SeqCst)
    }

    /// The number from which on writes may run later than now: Narrows may hold those without an answer until there is a
    /// primary.
    pub fn first_unanswered(&self) -> u64 {
        let unanswered = self.shared.unanswered.lock().expect("no panic while held");
        unanswered.first().copied().unwrap_or_else(|| self.next_number())
    }

    /// Whether a write that began after `since` was acknowledged.
    pub fn has_written_since(&self, since: Instant) -> bool {
        self.look(|tally| tally.written.is_some_and(|written| written > since))
    }

    /// Ends the clients; returns what they have seen, and the outcome of sysbench.
    pub fn stop(mut self) -> (Tally, Vec<Outcome>) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("clients do not panic");
        }
        let outcomes = self.sysbench.take().map(Sysbench::stop).unwrap_or_default();
        let mut tally = std::mem::take(&mut *self.shared.tally.lock().expect("no panic while held"));
        tally.failures.extend(outcomes.iter().flat_map(|outcome| outcome.failures.iter().cloned()));
        (tally, outcomes)
    }
}

impl Drop for Load {
    /// If the test has failed, nothing waits for the clients.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }
}

/// A client, when it connected, and when it was last answered.
struct Visit {
    client: RawClient,
    generation: u64,
    answered: Instant,
}

impl Shared {
    /// Whether all clients are to end.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// How often all clients were told to connect again.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Records a wrong answer.
    pub fn wrong(&self, text: String) {
        println!("WRONG {text}");
        self.tally(|tally| tally.wrong.push(text));
    }

    fn tally<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.tally.lock().expect("no panic while held"))
    }

    /// A client of Narrows; a refused connection counts as a failure of its next action.
    fn client(&self, what: What) -> Option<Visit> {
        let from = Instant::now();
        while !self.is_over() {
            let generation = self.generation();
            let client = RawClient::try_connect(&self.endpoint).map_err(|error| ErrorPacket {
                code: 2002,
                state: "HY000".to_owned(),
                message: format!("cannot log in: {error}"),
            });
            let at_login = |error: ErrorPacket| ErrorPacket {
                message: format!("{} (at the login)", error.message),
                ..error
            };
            let login = |mut client: RawClient| {
                client.login(&Login::new("app", "app")).map(|_| client).map_err(at_login)
            };
            match client.and_then(login) {
                Ok(client) => return Some(Visit { client, generation, answered: Instant::now() }),
                Err(error) => self.fail(what, from, &error),
            }
            std::thread::sleep(PACE);
        }
        None
    }

    /// Continues, or reconnects if all clients are to; `None` at the end.
    fn stay(&self, visit: Visit, what: What) -> Option<Visit> {
        if self.is_over() {
            return None;
        }
        if visit.generation == self.generation() {
            return Some(visit);
        }
        drop(visit);
        self.client(what)
    }

    /// Records an error that a client received.
    pub fn fail(&self, what: What, from: Instant, error: &ErrorPacket) {
        let text = format!("{} {}", error.code, error.message);
        let failure = Failure { what, from, to: Instant::now(), text };
        self.tally(|tally| tally.failures.push(failure));
    }

    fn read(&self, goes_on: impl Fn() -> bool) {
        let mut place = self.client(What::Read);
        while let Some(mut visit) = place.filter(|_| goes_on()) {
            let id = self.next.fetch_add(1, Ordering::Relaxed) % FACTS + 1;
            let query = format!("SELECT @@server_id, value FROM chaos.facts WHERE id = {id}");
            let expected = [(id * 7).to_string()];
            place = match self.check_read(&mut visit, What::Read, &query, &expected) {
                true => self.stay(visit, What::Read),
                false => self.client(What::Read),
            };
            std::thread::sleep(PACE);
        }
    }

    /// As [`Shared::read`], in a session with its own state.
    fn read_with_state(&self, number: u64) {
        let mut place = self.client(What::Setting);
        while let Some(mut visit) = place {
            let mine = self.next.fetch_add(1, Ordering::Relaxed);
            let zone = format!("+{:02}:00", number + 1);
            let set = visit.client.query(format!("SET @mine = {mine}, time_zone = '{zone}'"));
            if let Some(error) = set.error() {
                self.fail(What::Setting, visit.answered, &error);
                place = self.client(What::Setting);
                continue;
            }
            visit.answered = Instant::now();
            let is_right = |id: u64| {
                let what = if id == 1 { What::AfterSetting } else { What::Read };
                let query = format!(
                    "SELECT @@server_id, value, @mine, @@session.time_zone FROM chaos.facts WHERE id = {id}"
                );
                let expected = [(id * 7).to_string(), mine.to_string(), zone.clone()];
                let goes_on = self.check_read(&mut visit, what, &query, &expected);
                std::thread::sleep(PACE);
                goes_on
            };
            place = match (1..=READS_PER_SETTING).all(is_right) {
                true => self.stay(visit, What::Setting),
                false => self.client(What::Setting),
            };
        }
    }

    /// Reads one row, whose cells after the first must be these; returns whether the client continues.
    fn check_read(&self, visit: &mut Visit, what: What, query: &str, expected: &[String]) -> bool {
        let from = Instant::now();
        let answer = visit.client.query(query);
        let took = from.elapsed();
        if let Some(error) = answer.error() {
            let message = format!("{} (asked {took:.1?} ago)", error.message);
            self.fail(what, visit.answered, &ErrorPacket { message, ..error });
            return false;
        }
        visit.answered = Instant::now();
        let rows = answer.text_rows();
        let (server, cells) = match &rows[..] {
            [row] => (row.first().cloned().flatten(), row.get(1..).unwrap_or_default()),
            _ => (None, &[][..]),
        };
        let right = cells.iter().map(|cell| cell.as_deref()).eq(expected.iter().map(|it| Some(it.as_str())));
        self.tally(|tally| {
            tally.reads += 1;
            tally.slowest_read = tally.slowest_read.max(took);
        });
        if !right {
            self.wrong(format!("{query}: {rows:?}"));
        }
        if let Some(server) = server.and_then(|server| server.parse().ok()) {
            let at = u64::try_from((from - self.begun).as_micros()).unwrap_or(u64::MAX);
            self.answered.lock().expect("no panic while held").insert(server, at);
        }
        true
    }

    fn write(&self) {
        let mut place = self.client(What::Write);
        while let Some(mut visit) = place {
            let ids = self.begin_write(1);
            let from = Instant::now();
            let error = visit.client.query(insert(ids[0])).error();
            self.note_write(from, ids, error.as_ref().is_some_and(may_have_run), error.as_ref());
            place = self.after(visit, What::Write, error);
            std::thread::sleep(PACE);
        }
    }

    fn transact(&self) {
        let mut place = self.client(What::Transaction);
        while let Some(mut visit) = place {
            let ids = self.begin_write(2);
            let from = Instant::now();
            let statements = [vec!["BEGIN".to_owned()], ids.iter().copied().map(insert).collect()].concat();
            let mut run = |(number, statement): (usize, &String)| {
                let error = visit.client.query(statement).error()?;
                let message = format!("{} (statement {number} of its transaction)", error.message);
                Some(ErrorPacket { message, ..error })
            };
            let mut error = statements.iter().enumerate().find_map(&mut run);
            let mut uncertain = false;
            if error.is_none() {
                error = run((statements.len(), &"COMMIT".to_owned()));
                uncertain = error.as_ref().is_some_and(may_have_run);
            }
            self.note_write(from, ids, uncertain, error.as_ref());
            place = self.after(visit, What::Transaction, error);
            std::thread::sleep(PACE);
        }
    }

    /// Continues; after an error, with a new connection.
    fn after(&self, mut visit: Visit, what: What, error: Option<ErrorPacket>) -> Option<Visit> {
        if let Some(error) = error {
            self.fail(what, visit.answered, &error);
            return self.client(what);
        }
        visit.answered = Instant::now();
        self.stay(visit, what)
    }

    /// The numbers of the rows of a write that begins now.
    fn begin_write(&self, rows: u64) -> Vec<u64> {
        let mut unanswered = self.unanswered.lock().expect("no panic while held");
        let first = self.next.fetch_add(rows, Ordering::SeqCst);
        let ids: Vec<u64> = (first..first + rows).collect();
        unanswered.extend(&ids);
        ids
    }

    fn note_write(&self, from: Instant, ids: Vec<u64>, uncertain: bool, error: Option<&ErrorPacket>) {
        let mut unanswered = self.unanswered.lock().expect("no panic while held");
        unanswered.retain(|id| !ids.contains(id));
        drop(unanswered);
        self.tally(|tally| {
            tally.slowest_write = tally.slowest_write.max(from.elapsed());
            match (error, uncertain) {
                (None, _) => {
                    tally.acknowledged.push(Acknowledged { ids, from, to: Instant::now() });
                    tally.written = tally.written.max(Some(from));
                }
                (Some(_), true) => tally.uncertain.push(ids),
                (Some(error), false) => {
                    tally.refused.push(Refused { ids, text: format!("{} {}", error.code, error.message) });
                }
            }
        });
    }
}

/// Whether an error leaves the outcome of its statement open. An error that says nothing about it means that the
/// statement has not run, except the server's own about a commit (1180).
fn may_have_run(error: &ErrorPacket) -> bool {
    error.code == 1180
        || error.message.contains("It may have run")
        || error.message.starts_with("connection lost")
}

fn insert(id: u64) -> String {
    format!("INSERT INTO chaos.ledger VALUES ({id}, @@server_id)")
}

const READERS: usize = 4;
const READERS_WITH_STATE: u64 = 3;
/// Half of the writers write single statements, the other half transactions.
const WRITERS: usize = 2;

/// Number of reads between two changes of the session's state.
const READS_PER_SETTING: u64 = 20;

/// Pause between two statements of a client: this is a load, not a test of speed.
const PACE: Duration = Duration::from_millis(3);
