//! Administrators who change and load everything, all the time, and check that what they loaded and saved is there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, ErrorPacket, Login, RawClient};

use super::cluster::MARKER;
use super::load::{Shared, What};

/// Changes of all kinds, one burst after another.
pub struct Bursts {
    endpoint: Endpoint,
    /// How many callers have suspended changes.
    guards: AtomicU64,
    /// Whether a burst is in progress.
    is_busy: AtomicBool,
}

/// While it exists, administrators change nothing.
pub struct Pause<'a>(&'a Bursts);

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// The number that was loaded last.
    loaded: u64,
    /// The number that was saved last.
    saved: u64,
}

impl Bursts {
    pub fn new(endpoint: Endpoint) -> Bursts {
        Bursts { endpoint, guards: AtomicU64::new(0), is_busy: AtomicBool::new(false) }
    }

    /// Suspends all changes: this is wise while a primary changes, and necessary while processes are counted, because
    /// each load replaces a waiting process.
    pub fn pause(&self) -> Pause<'_> {
        self.guards.fetch_add(1, Ordering::SeqCst);
        while self.is_busy.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Pause(self)
    }

    /// Continues until all clients are to end.
    pub fn go_on(&self, shared: &Shared) {
        let mut acknowledged = Acknowledged::default();
        let mut visit: Option<(RawClient, u64)> = None;
        for number in 1.. {
            if shared.is_over() {
                return;
            }
            self.is_busy.store(true, Ordering::SeqCst);
            if self.guards.load(Ordering::SeqCst) == 0 {
                visit = self.visit(visit, number, &mut acknowledged, shared);
            } else {
                visit = None;
            }
            self.is_busy.store(false, Ordering::SeqCst);
            std::thread::sleep(if number.is_multiple_of(BURST) { REST } else { PACE });
        }
    }

    /// One burst; returns the connection if it is still usable.
    fn visit(
        &self,
        visit: Option<(RawClient, u64)>,
        number: u64,
        acknowledged: &mut Acknowledged,
        shared: &Shared,
    ) -> Option<(RawClient, u64)> {
        let from = Instant::now();
        let generation = shared.generation();
        let admin = match visit.filter(|(_, since)| *since == generation) {
            Some((admin, _)) => Ok(admin),
            None => self.come(),
        };
        let burst = |mut admin: RawClient| {
            burst(&mut admin, number, acknowledged, shared).map(|()| (admin, generation))
        };
        admin.and_then(burst).map_err(|error| shared.fail(What::Admin, from, &error)).ok()
    }

    fn come(&self) -> Result<RawClient, ErrorPacket> {
        let mut admin = RawClient::try_connect(&self.endpoint).map_err(|error| ErrorPacket {
            code: 2002,
            state: "HY000".to_owned(),
            message: format!("no administrator can log in: {error}"),
        })?;
        admin.login(&Login::new("admin", "admin"))?;
        Ok(admin)
    }
}

fn burst(
    admin: &mut RawClient,
    number: u64,
    acknowledged: &mut Acknowledged,
    shared: &Shared,
) -> Result<(), ErrorPacket> {
    acknowledged.check(admin, shared)?;
    match number % 5 {
        0 => load_rules(admin),
        1 => {
            let long = 1_000 + number % 1_000;
            all_done(
                admin,
                &[&format!("SET mysql-long_query_time={long}"), "LOAD MYSQL VARIABLES TO RUNTIME"],
            )
        }
        2 => {
            let change = format!("UPDATE mysql_servers SET status = 'ONLINE', comment = '{number}'");
            all_done(admin, &["SAVE MYSQL SERVERS TO MEMORY", &change, "LOAD MYSQL SERVERS TO RUNTIME"])
        }
        _ => acknowledged.load_users(admin, number),
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Acknowledged {
    /// Whether what was loaded runs, and what was saved is stored.
    fn check(&self, admin: &mut RawClient, shared: &Shared) -> Result<(), ErrorPacket> {
        for (table, wanted) in [("runtime_mysql_users", self.loaded), ("disk.mysql_users", self.saved)] {
            let query = format!("SELECT MAX(CAST(comment AS INT)) FROM {table} WHERE username = '{MARKER}'");
            let answer = admin.query(&query);
            if let Some(error) = answer.error() {
                return Err(about(&query, error));
            }
            let found = answer.cell().and_then(|cell| cell.parse::<u64>().ok());
            if found.is_none_or(|found| found < wanted) {
                shared.wrong(format!("{table} has {found:?}, but {wanted} was acknowledged"));
            }
        }
        Ok(())
    }

    fn load_users(&mut self, admin: &mut RawClient, number: u64) -> Result<(), ErrorPacket> {
        let change = format!("UPDATE mysql_users SET comment = '{number}' WHERE username = '{MARKER}'");
        all_done(admin, &[&change, "LOAD MYSQL USERS TO RUNTIME"])?;
        self.loaded = number;
        all_done(admin, &["SAVE MYSQL USERS TO DISK"])?;
        self.saved = number;
        Ok(())
    }
}

/// Adds and removes rules that match nothing.
fn load_rules(admin: &mut RawClient) -> Result<(), ErrorPacket> {
    let row = |id: u32| format!("({id}, 1, '^BURST {id} .*$', 1)");
    let rows: Vec<String> = (1_000..1_050).map(row).collect();
    let insert = format!(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) VALUES {}",
        rows.join(", ")
    );
    let (delete, load) =
        ("DELETE FROM mysql_query_rules WHERE rule_id >= 1000", "LOAD MYSQL QUERY RULES TO RUNTIME");
    all_done(admin, &[delete, &insert, load, delete, load])
}

fn all_done(admin: &mut RawClient, statements: &[&str]) -> Result<(), ErrorPacket> {
    let fails = |statement: &&str| admin.query(statement).error().map(|error| about(statement, error));
    statements.iter().find_map(fails).map_or(Ok(()), Err)
}

fn about(statement: &str, error: ErrorPacket) -> ErrorPacket {
    let beginning: String = statement.chars().take(40).collect();
    ErrorPacket { message: format!("{}, at {beginning}", error.message), ..error }
}

/// Between two loads.
const PACE: Duration = Duration::from_millis(100);

/// How many are a burst.
const BURST: u64 = 10;

/// After a burst: long enough for a standby to be started.
const REST: Duration = Duration::from_secs(1);
