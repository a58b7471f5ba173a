//! One worker's table of digests: how often each statement was run, how long it took, and how many rows it returned.
//!
//! A row is found by hash and by comparing its key; nothing is allocated for a row that exists. The table has a fixed
//! budget of memory. When a new row would exceed it, the least used rows are dropped: each row has a small counter of
//! recent uses that a clock hand decrements, and a row at zero is dropped.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::rows::HostgroupId;

/// The key of a row.
#[derive(Debug, Clone, Copy)]
pub struct DigestKey<'a> {
    /// The hostgroup that ran the statement.
    pub hostgroup: HostgroupId,
    /// The current schema.
    pub schemaname: &'a [u8],
    /// The user.
    pub username: &'a str,
    /// The client's address; empty if that is not kept.
    pub client_address: &'a str,
    /// The hash of the digest text.
    pub digest: u64,
}

/// What one run of a statement adds to its row.
#[derive(Debug, Clone, Copy)]
pub struct Execution {
    /// When it ended, in seconds since the process started.
    pub at_s: u64,
    /// The execution time.
    pub time_us: u64,
    /// The number of rows changed.
    pub rows_affected: u64,
    /// The number of rows sent.
    pub rows_sent: u64,
}

/// The digests that one worker has seen.
#[derive(Debug)]
pub struct DigestTable {
    rows: Vec<Row>,
    /// Indexes into `rows`, by the hash of the key.
    index: HashTable<usize>,
    /// Each text once, and the number of rows that have it.
    texts: HashMap<u64, (Arc<[u8]>, usize)>,
    hasher: DefaultHashBuilder,
    bytes: usize,
    budget: usize,
    /// The next row to examine when memory is needed.
    hand: usize,
    dropped: u64,
}

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    hash: u64,
    digest: u64,
    hostgroup: HostgroupId,
    /// Recent uses, up to [`MOST_RECENT`].
    recent: u8,
    /// User name, schema and client address, concatenated.
    names: Box<[u8]>,
    username_end: u32,
    schemaname_end: u32,
    text: Arc<[u8]>,
    figures: RowFigures,
}

/// The counters of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFigures {
    /// The number of executions.
    pub count: u64,
    /// When the first execution ended, in seconds since the process started.
    pub first_s: u64,
    /// When the last execution ended.
    pub last_s: u64,
    /// The total execution time.
    pub sum_time_us: u64,
    /// The shortest execution time.
    pub min_time_us: u64,
    /// The longest execution time.
    pub max_time_us: u64,
    /// The number of rows changed.
    pub rows_affected: u64,
    /// The number of rows sent.
    pub rows_sent: u64,
}

impl DigestTable {
    /// An empty table that takes no more than `budget` bytes.
    pub fn new(budget: usize) -> DigestTable {
        DigestTable {
            rows: Vec::new(),
            index: HashTable::new(),
            texts: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
            bytes: 0,
            budget,
            hand: 0,
            dropped: 0,
        }
    }

    /// Adds an execution to its row; returns whether there is one. If not, [`DigestTable::insert`] creates it.
    pub fn add(&mut self, key: &DigestKey<'_>, run: &Execution) -> bool {
        let hash = key.hash(&self.hasher);
        let rows = &mut self.rows;
        let same = |index: &usize| rows.get(*index).is_some_and(|row| row.hash == hash && row.is(key));
        let Some(row) = self.index.find(hash, same).and_then(|index| rows.get_mut(*index)) else {
            return false;
        };
        row.recent = (row.recent + 1).min(MOST_RECENT);
        row.figures.add(run);
        true
    }

    /// Creates a row for a new key, with its first execution. A row too large for the whole budget is not kept.
    pub fn insert(&mut self, key: &DigestKey<'_>, text: &[u8], run: &Execution) {
        self.put(key, text, RowFigures::new(run));
    }

    /// Returns figures that were taken: they are added to those counted since.
    pub fn give_back(&mut self, key: &DigestKey<'_>, text: &[u8], figures: RowFigures) {
        let hash = key.hash(&self.hasher);
        let rows = &mut self.rows;
        let same = |index: &usize| rows.get(*index).is_some_and(|row| row.hash == hash && row.is(key));
        match self.index.find(hash, same).and_then(|index| rows.get_mut(*index)) {
            Some(row) => row.figures.merge(&figures),
            None => self.put(key, text, figures),
        }
    }

    fn put(&mut self, key: &DigestKey<'_>, text: &[u8], figures: RowFigures) {
        let names = [key.username.as_bytes(), key.schemaname, key.client_address.as_bytes()].concat();
        let need = row_bytes(names.len()) + text_bytes(text.len());
        if need > self.budget {
            self.dropped += 1;
            return;
        }
        while self.bytes + need > self.budget {
            self.drop_one();
        }
        let text = match self.texts.get_mut(&key.digest) {
            Some((known, users)) => {
                *users += 1;
                Arc::clone(known)
            }
            None => {
                let text: Arc<[u8]> = text.into();
                self.bytes += text_bytes(text.len());
                self.texts.insert(key.digest, (Arc::clone(&text), 1));
                text
            }
        };
        self.bytes += row_bytes(names.len());
        let hash = key.hash(&self.hasher);
        let rows = &mut self.rows;
        let hash_of = |index: &usize| rows.get(*index).map_or(0, |row| row.hash);
        self.index.insert_unique(hash, rows.len(), hash_of);
        rows.push(Row {
            hash,
            digest: key.digest,
            hostgroup: key.hostgroup,
            recent: 1,
            names: names.into(),
            username_end: length(key.username.len()),
            schemaname_end: length(key.username.len() + key.schemaname.len()),
            text,
            figures,
        });
    }

    /// The text of a digest, if a row has it.
    pub fn text(&self, digest: u64) -> Option<&Arc<[u8]>> {
        self.texts.get(&digest).map(|(text, _)| text)
    }

    /// A copy of some rows, starting at index `from`, and the total number of rows.
    pub fn copy(&self, from: usize, most: usize) -> (Vec<Row>, usize) {
        let end = from.saturating_add(most).min(self.rows.len());
        (self.rows.get(from..end).unwrap_or_default().to_vec(), self.rows.len())
    }

    /// Takes all rows.
    pub fn take(&mut self) -> Vec<Row> {
        let fresh = DigestTable { dropped: self.dropped, ..DigestTable::new(self.budget) };
        std::mem::replace(self, fresh).rows
    }

    /// The size of rows and texts in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of rows that were dropped to stay within the budget.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drops the least used row that a short search finds.
    fn drop_one(&mut self) {
        let mut least = (u8::MAX, 0);
        for _ in 0..LOOKS {
            if self.hand >= self.rows.len() {
                self.hand = 0;
            }
            let Some(row) = self.rows.get_mut(self.hand) else { return };
            if row.recent < least.0 {
                least = (row.recent, self.hand);
            }
            if row.recent == 0 {
                break;
            }
            row.recent -= 1;
            self.hand += 1;
        }
        self.remove(least.1);
        self.dropped += 1;
    }

    /// Removes a row; the last row takes its place.
    fn remove(&mut self, place: usize) {
        let last = self.rows.len() - 1;
        let row = self.rows.swap_remove(place);
        if let Ok(entry) = self.index.find_entry(row.hash, |index| *index == place) {
            entry.remove();
        }
        if let Some(moved) = self.rows.get(place)
            && let Some(index) = self.index.find_mut(moved.hash, |index| *index == last)
        {
            *index = place;
        }
        self.bytes -= row_bytes(row.names.len());
        if let Some((text, users)) = self.texts.get_mut(&row.digest) {
            *users -= 1;
            if *users == 0 {
                self.bytes -= text_bytes(text.len());
                self.texts.remove(&row.digest);
            }
        }
    }
}

impl DigestKey<'_> {
    fn hash(&self, builder: &DefaultHashBuilder) -> u64 {
        let mut hasher = builder.build_hasher();
        hasher.write_u64(self.digest);
        hasher.write_i32(self.hostgroup.0);
        // The lengths separate the names.
        hasher.write_usize(self.username.len() << 32 | self.schemaname.len());
        hasher.write(self.username.as_bytes());
        hasher.write(self.schemaname);
        hasher.write(self.client_address.as_bytes());
        hasher.finish()
    }
}

impl Row {
    fn is(&self, key: &DigestKey<'_>) -> bool {
        let (username, schemaname, client_address) = self.names();
        self.digest == key.digest
            && self.hostgroup == key.hostgroup
            && username == key.username.as_bytes()
            && schemaname == key.schemaname
            && client_address == key.client_address.as_bytes()
    }

    /// User name, schema and client address.
    pub fn names(&self) -> (&[u8], &[u8], &[u8]) {
        let (front, client_address) = self.names.split_at(self.schemaname_end as usize);
        let (username, schemaname) = front.split_at(self.username_end as usize);
        (username, schemaname, client_address)
    }

    /// The hostgroup that ran the statements.
    pub fn hostgroup(&self) -> HostgroupId {
        self.hostgroup
    }

    /// The hash of the digest text.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The digest text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The counters of the row.
    pub fn figures(&self) -> RowFigures {
        self.figures
    }
}

impl RowFigures {
    fn new(run: &Execution) -> RowFigures {
        RowFigures {
            count: 1,
            first_s: run.at_s,
            last_s: run.at_s,
            sum_time_us: run.time_us,
            min_time_us: run.time_us,
            max_time_us: run.time_us,
            rows_affected: run.rows_affected,
            rows_sent: run.rows_sent,
        }
    }

    fn add(&mut self, run: &Execution) {
        self.count += 1;
        self.last_s = run.at_s;
        self.sum_time_us += run.time_us;
        self.min_time_us = self.min_time_us.min(run.time_us);
        self.max_time_us = self.max_time_us.max(run.time_us);
        self.rows_affected += run.rows_affected;
        self.rows_sent += run.rows_sent;
    }

    fn merge(&mut self, other: &RowFigures) {
        self.count += other.count;
        self.first_s = self.first_s.min(other.first_s);
        self.last_s = self.last_s.max(other.last_s);
        self.sum_time_us += other.sum_time_us;
        self.min_time_us = self.min_time_us.min(other.min_time_us);
        self.max_time_us = self.max_time_us.max(other.max_time_us);
        self.rows_affected += other.rows_affected;
        self.rows_sent += other.rows_sent;
    }
}

/// The length of a name; a command cannot have more than 4 GiB of names.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The size of a row: the row itself, its entry in the index including spare entries, and its names.
fn row_bytes(names: usize) -> usize {
    size_of::<Row>() + 3 * size_of::<usize>() + names + ALLOCATION
}

/// The size of a text, including its entry.
fn text_bytes(text: usize) -> usize {
    2 * size_of::<(u64, (Arc<[u8]>, usize))>() + text + ALLOCATION
}

/// The approximate overhead of an allocation.
const ALLOCATION: usize = 16;

/// How many rounds of the hand a frequently used row survives.
const MOST_RECENT: u8 = 15;

/// How many rows are examined for each row that is dropped: this limits the cost of a new digest.
const LOOKS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digest: u64) -> DigestKey<'static> {
        DigestKey {
            hostgroup: HostgroupId(1),
            schemaname: b"shop",
            username: "app",
            client_address: "",
            digest,
        }
    }

    fn run(time_us: u64) -> Execution {
        Execution { at_s: 7, time_us, rows_affected: 1, rows_sent: 2 }
    }

    fn note(table: &mut DigestTable, key: DigestKey<'_>, time_us: u64) {
        if !table.add(&key, &run(time_us)) {
            table.insert(&key, format!("SELECT {}", key.digest).as_bytes(), &run(time_us));
        }
    }

    #[test]
    fn adds_up_the_runs_of_one_key() {
        let mut table = DigestTable::new(1 << 20);
        for time in [30, 10, 20] {
            note(&mut table, key(5), time);
        }
        let (rows, count) = table.copy(0, 10);
        assert_eq!(count, 1);
        let figures = rows[0].figures();
        assert_eq!((figures.count, figures.sum_time_us), (3, 60));
        assert_eq!((figures.min_time_us, figures.max_time_us), (10, 30));
        assert_eq!((figures.rows_affected, figures.rows_sent), (3, 6));
        assert_eq!(rows[0].text(), b"SELECT 5");
        assert_eq!(rows[0].names(), (b"app".as_slice(), b"shop".as_slice(), b"".as_slice()));
    }

    #[test]
    fn keys_that_differ_in_one_part_are_rows_of_their_own_and_share_a_text() {
        let mut table = DigestTable::new(1 << 20);
        let other_schema = DigestKey { schemaname: b"", ..key(5) };
        let other_user = DigestKey { username: "apps", schemaname: b"hop", ..key(5) };
        let other_place = DigestKey { hostgroup: HostgroupId(-1), ..key(5) };
        let other_client = DigestKey { client_address: "10.0.0.1", ..key(5) };
        let keys = [key(5), other_schema, other_user, other_place, other_client];
        for key in keys {
            note(&mut table, key, 1);
            note(&mut table, key, 1);
        }
        assert_eq!(table.copy(0, 10).1, 5);
        assert!(table.copy(0, 10).0.iter().all(|row| row.figures().count == 2));
        assert_eq!(Arc::strong_count(table.text(5).unwrap()), 6);
    }

    #[test]
    fn stays_within_its_budget_and_keeps_what_is_used_most() {
        let budget = 200 * 1024;
        let mut table = DigestTable::new(budget);
        for digest in 0..100_000 {
            note(&mut table, key(1_000_000 + digest), 1);
            note(&mut table, key(digest % 10), 1);
            assert!(table.bytes() <= budget);
        }
        let (rows, count) = table.copy(0, usize::MAX);
        assert!(count > 300, "{count} rows");
        for digest in 0..10 {
            let row = rows.iter().find(|row| row.digest() == digest).expect("in use all the time");
            assert_eq!(row.figures().count, 10_000);
        }
        assert_eq!(table.dropped() + count as u64, 100_010);
        assert_eq!(table.index.len(), count);
        assert_eq!(table.texts.len(), count);
    }

    #[test]
    fn is_empty_once_taken() {
        let mut table = DigestTable::new(1 << 20);
        note(&mut table, key(1), 1);
        assert_eq!(table.take().len(), 1);
        assert_eq!((table.copy(0, 10).1, table.bytes()), (0, 0));
        note(&mut table, key(1), 1);
        assert_eq!(table.copy(0, 10).0[0].figures().count, 1);
    }

    #[test]
    fn a_text_larger_than_the_budget_is_not_kept() {
        let mut table = DigestTable::new(1024);
        table.insert(&key(1), &[b'x'; 2048], &run(1));
        assert_eq!((table.copy(0, 10).1, table.dropped()), (0, 1));
    }
}
