//! Clients that write all the time, and what they and the table say afterwards.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_testkit::RawClient;

use super::Trio;

/// Clients that write.
const CLIENTS: usize = 3;

/// The number of the next ledger.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Running clients.
pub struct Ledger {
    table: String,
    stops: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Entry>>>,
}

/// What one statement of a client saw.
struct Entry {
    name: (usize, u32),
    begun: Instant,
    ended: Instant,
    error: Option<(u16, String)>,
}

/// What clients saw, and what the table has.
pub struct Written {
    pub statements: usize,
    /// The errors, by number and text.
    pub errors: Vec<(u16, String)>,
    /// Acknowledged rows that the table does not have.
    pub lost: usize,
    /// Statements that began on an earlier writer after a later one was written to.
    pub late: Vec<String>,
    pub slowest: Duration,
    /// The ports of the nodes that were written to, in order.
    pub order: Vec<u16>,
}

impl Ledger {
    /// Creates a table whose rows say which node has written them, and begins to write.
    pub fn begin(trio: &mut Trio) -> Ledger {
        let table = format!("app.ledger{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut client = trio.client();
        for statement in [
            format!("CREATE TABLE {table} (client INT, number INT, node INT, PRIMARY KEY (client, number))"),
            format!(
                "CREATE TRIGGER {table}_node BEFORE INSERT ON {table} FOR EACH ROW SET NEW.node = @@port"
            ),
        ] {
            let answer = client.query(&statement);
            assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        }
        let stops = Arc::new(AtomicBool::new(false));
        let begin = |index: usize| {
            let (client, table, stops) = (trio.client(), table.clone(), Arc::clone(&stops));
            std::thread::spawn(move || write(client, index, &table, &stops))
        };
        Ledger { clients: (0..CLIENTS).map(begin).collect(), table, stops }
    }

    /// Ends the clients, and compares what they saw with the table.
    pub fn end(self, trio: &mut Trio) -> Written {
        self.stops.store(true, Ordering::Relaxed);
        let entries = self.clients.into_iter().flat_map(|client| client.join().expect("a client"));
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_by_key(|entry| entry.begun);
        let rows = rows(&mut trio.client(), &self.table);
        let is_lost = |entry: &&Entry| entry.error.is_none() && !rows.contains_key(&entry.name);
        let (late, order) = order(&entries, &rows);
        Written {
            statements: entries.len(),
            lost: entries.iter().filter(is_lost).count(),
            late,
            slowest: entries.iter().map(|it| it.ended - it.begun).max().unwrap_or_default(),
            order,
            errors: entries.into_iter().filter_map(|entry| entry.error).collect(),
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { statements, errors, lost, late, slowest, order } = self;
        write!(
            f,
            "{statements} writes, the slowest {slowest:?}, {} errors {:?}, {lost} lost, {} late, nodes {order:?}",
            errors.len(),
            errors.iter().take(3).collect::<Vec<_>>(),
            late.len()
        )
    }
}

fn write(mut client: RawClient, index: usize, table: &str, stops: &AtomicBool) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 0.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let answer = client.query(format!("INSERT INTO {table} (client, number) VALUES ({index}, {number})"));
        let error = answer.error().map(|error| (error.code, error.message));
        entries.push(Entry { name: (index, number), begun, ended: Instant::now(), error });
        std::thread::sleep(Duration::from_millis(2));
    }
    entries
}

/// The node of each row.
fn rows(client: &mut RawClient, table: &str) -> HashMap<(usize, u32), u16> {
    // What is written is read on the same node.
    let answer = client.query(format!("SELECT client, number, node FROM {table} FOR UPDATE"));
    assert!(answer.error().is_none(), "{:?}", answer.error());
    let number =
        |cell: &Option<String>| cell.as_ref().and_then(|cell| cell.parse::<u32>().ok()).expect("a number");
    let row = |row: Vec<Option<String>>| {
        ((number(&row[0]) as usize, number(&row[1])), u16::try_from(number(&row[2])).expect("a port"))
    };
    answer.text_rows().into_iter().map(row).collect()
}

/// Statements that went to a node after another one had taken its place, and the nodes in order.
fn order(entries: &[Entry], rows: &HashMap<(usize, u32), u16>) -> (Vec<String>, Vec<u16>) {
    // Workers learn of a change one after the other.
    const TOLERANCE: Duration = Duration::from_millis(100);
    let mut firsts: Vec<(u16, Instant)> = Vec::new();
    let mut late = Vec::new();
    for entry in entries {
        let Some(node) = rows.get(&entry.name) else { continue };
        match firsts.iter().position(|(known, _)| known == node) {
            None => firsts.push((*node, entry.begun)),
            Some(place) => {
                let next = firsts.get(place + 1).map(|(_, begun)| *begun + TOLERANCE);
                if next.is_some_and(|next| entry.begun > next) {
                    late.push(format!("{:?} on {node}", entry.name));
                }
            }
        }
    }
    (late, firsts.into_iter().map(|(node, _)| node).collect())
}
