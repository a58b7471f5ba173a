//! One worker's table of what a dry run of rules would change: by digest and by the two decisions, how often, with a sample.
//!
//! It has a fixed budget of memory. What has no room is only counted, so that what came first stays.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::rows::HostgroupId;

/// A row of `stats_narrows_rules_dry_run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRunLine {
    /// The current schema; empty if none.
    pub schemaname: Vec<u8>,
    /// The user.
    pub username: String,
    /// The hash of the digest text.
    pub digest: u64,
    /// A number for the two decisions, with the rules of this table.
    pub decisions: u64,
    /// What does not depend on how often it happens.
    pub change: DryRunChange,
    /// How often the dry run would have changed this.
    pub count: u64,
    /// When it first would have, in Unix time.
    pub first_seen: u64,
    /// When it last would have, in Unix time.
    pub last_seen: u64,
}

/// What a dry run would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRunChange {
    /// The digest text.
    pub digest_text: Vec<u8>,
    /// The hostgroup that the rules in force choose, and that of the dry run; -1 if Narrows answers.
    pub hostgroups: [HostgroupId; 2],
    /// The decisions: where they differ.
    pub decisions: [String; 2],
    /// The first such statement, up to [`super::SHOWN_TEXT`] bytes.
    pub sample: Vec<u8>,
    /// What the dry run would make of it, if that is not what the rules in force make of it.
    pub rewritten: Option<Vec<u8>>,
}

/// The key of a row.
#[derive(Debug, Clone, Copy)]
pub struct DryRunKey<'a> {
    /// The current schema.
    pub schemaname: &'a [u8],
    /// The user.
    pub username: &'a str,
    /// The hash of the digest text.
    pub digest: u64,
    /// A number for the two decisions.
    pub decisions: u64,
}

/// The ids of two rule sets that are compared: that in force, and that of the dry run.
pub type RuleSets = [u64; 2];

/// What one worker has seen of a dry run.
#[derive(Debug)]
pub struct DryRunTable {
    /// The rules that it is about.
    sets: RuleSets,
    rows: Vec<DryRunLine>,
    /// Indexes into `rows`, by the hash of the key.
    index: HashTable<usize>,
    hasher: DefaultHashBuilder,
    bytes: usize,
    budget: usize,
}

impl Default for DryRunTable {
    fn default() -> DryRunTable {
        DryRunTable::new(BUDGET)
    }
}

impl DryRunTable {
    /// An empty table that takes no more than `budget` bytes.
    pub fn new(budget: usize) -> DryRunTable {
        DryRunTable {
            sets: RuleSets::default(),
            rows: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            bytes: 0,
            budget,
        }
    }

    /// Forgets what it knows, unless it is about these rules.
    pub fn renew(&mut self, sets: RuleSets) {
        if self.sets != sets {
            *self = DryRunTable { sets, ..DryRunTable::new(self.budget) };
        }
    }

    /// Counts a change in its row; returns whether there is one. If not, [`DryRunTable::insert`] creates it.
    pub fn add(&mut self, key: &DryRunKey<'_>, now: u64) -> bool {
        let Some(line) = self.line(key) else { return false };
        line.count += 1;
        line.last_seen = line.last_seen.max(now);
        true
    }

    /// Creates a row; false if there is no room for it.
    pub fn insert(&mut self, line: DryRunLine) -> bool {
        let bytes = line.bytes();
        if self.bytes + bytes > self.budget {
            return false;
        }
        self.bytes += bytes;
        let (hash, place) = (line.key().hash(&self.hasher), self.rows.len());
        self.rows.push(line);
        let (rows, hasher) = (&self.rows, &self.hasher);
        let hash_of = |index: &usize| rows.get(*index).map_or(0, |line| line.key().hash(hasher));
        self.index.insert_unique(hash, place, hash_of);
        true
    }

    /// Returns a row that was taken, unless the rules have changed; false if there is no room for it.
    pub fn give_back(&mut self, sets: RuleSets, line: DryRunLine) -> bool {
        if self.sets != sets {
            return true;
        }
        match self.line(&line.key()) {
            Some(known) => known.add(&line),
            None => return self.insert(line),
        }
        true
    }

    /// A copy of some rows, starting at index `from`, and the total number of rows; none if they are about other rules.
    pub fn copy(&self, sets: RuleSets, from: usize, most: usize) -> (Vec<DryRunLine>, usize) {
        if self.sets != sets {
            return (Vec::new(), 0);
        }
        let end = from.saturating_add(most).min(self.rows.len());
        (self.rows.get(from..end).unwrap_or_default().to_vec(), self.rows.len())
    }

    /// Takes all rows; none if they are about other rules.
    pub fn take(&mut self, sets: RuleSets) -> Vec<DryRunLine> {
        let taken = std::mem::replace(self, DryRunTable { sets, ..DryRunTable::new(self.budget) });
        if taken.sets == sets { taken.rows } else { Vec::new() }
    }

    fn line(&mut self, key: &DryRunKey<'_>) -> Option<&mut DryRunLine> {
        let rows = &mut self.rows;
        let same = |index: &usize| rows.get(*index).is_some_and(|line| line.is(key));
        let index = *self.index.find(key.hash(&self.hasher), same)?;
        rows.get_mut(index)
    }
}

impl DryRunKey<'_> {
    fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        hasher.hash_one((self.digest, self.decisions, self.username, self.schemaname))
    }
}

impl DryRunLine {
    /// Its key.
    pub fn key(&self) -> DryRunKey<'_> {
        DryRunKey {
            schemaname: &self.schemaname,
            username: &self.username,
            digest: self.digest,
            decisions: self.decisions,
        }
    }

    /// Adds the counts of another row with the same key.
    pub fn add(&mut self, other: &DryRunLine) {
        self.count += other.count;
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
    }

    fn is(&self, key: &DryRunKey<'_>) -> bool {
        (self.digest, self.decisions) == (key.digest, key.decisions)
            && self.username == key.username
            && self.schemaname == key.schemaname
    }

    /// The size of the row with its texts and its entry in the index.
    fn bytes(&self) -> usize {
        let change = &self.change;
        let texts = self.schemaname.len()
            + self.username.len()
            + change.digest_text.len()
            + change.decisions.iter().map(String::len).sum::<usize>()
            + change.sample.len()
            + change.rewritten.as_ref().map_or(0, Vec::len);
        size_of::<DryRunLine>() + 3 * size_of::<usize>() + texts
    }
}

/// Bytes of each worker: some 4,000 rows with texts of 300 bytes, more than anybody reads.
const BUDGET: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: RuleSets = [1, 2];

    fn line(digest: u64, decisions: u64) -> DryRunLine {
        DryRunLine {
            schemaname: b"shop".to_vec(),
            username: "app".to_owned(),
            digest,
            decisions,
            change: DryRunChange {
                digest_text: b"SELECT ?".to_vec(),
                hostgroups: [HostgroupId(0), HostgroupId(1)],
                decisions: ["hostgroup=0".to_owned(), "hostgroup=1".to_owned()],
                sample: b"SELECT 1".to_vec(),
                rewritten: None,
            },
            count: 1,
            first_seen: 100,
            last_seen: 100,
        }
    }

    fn note(table: &mut DryRunTable, line: DryRunLine) -> bool {
        table.renew(SETS);
        table.add(&line.key(), 107) || table.insert(line)
    }

    #[test]
    fn changes_are_counted_by_digest_and_by_decision() {
        let mut table = DryRunTable::default();
        for (digest, decisions) in [(1, 1), (1, 2), (1, 1), (2, 1)] {
            assert!(note(&mut table, line(digest, decisions)));
        }
        let (rows, all) = table.copy(SETS, 0, 10);
        let counts: Vec<_> = rows.iter().map(|row| (row.digest, row.decisions, row.count)).collect();
        assert_eq!((all, counts), (3, vec![(1, 1, 2), (1, 2, 1), (2, 1, 1)]));
        assert_eq!((rows[0].first_seen, rows[0].last_seen), (100, 107));
        assert_eq!(table.copy(SETS, 2, 10).0.len(), 1);
    }

    #[test]
    fn what_has_no_room_is_refused_and_what_came_first_stays() {
        let mut table = DryRunTable::new(64 * 1024);
        let kept = (0..10_000).filter(|digest| note(&mut table, line(*digest, 1))).count();
        assert!((100..2_000).contains(&kept), "{kept}");
        assert!(table.bytes <= table.budget);
        assert!(table.add(&line(0, 1).key(), 200) && !table.add(&line(9_999, 1).key(), 200));
        assert_eq!(table.copy(SETS, 0, usize::MAX).1, kept);
    }

    #[test]
    fn other_rules_begin_an_empty_table() {
        let mut table = DryRunTable::default();
        note(&mut table, line(1, 1));
        assert_eq!(table.copy([1, 3], 0, 10).1, 0);
        table.renew([1, 3]);
        assert_eq!((table.copy(SETS, 0, 10).1, table.bytes), (0, 0));
    }

    #[test]
    fn rows_that_were_taken_and_given_back_are_counted_together() {
        let mut table = DryRunTable::default();
        note(&mut table, line(1, 1));
        let taken = table.take(SETS);
        assert_eq!((taken.len(), table.copy(SETS, 0, 10).1), (1, 0));
        note(&mut table, DryRunLine { first_seen: 300, last_seen: 300, ..line(1, 1) });
        note(&mut table, line(2, 1));
        taken.into_iter().for_each(|line| assert!(table.give_back(SETS, line)));
        let rows = table.copy(SETS, 0, 10).0;
        assert_eq!((rows[0].count, rows[0].first_seen, rows[0].last_seen), (2, 100, 300));
        assert!(table.give_back([7, 7], line(3, 1)));
        assert_eq!(table.copy(SETS, 0, 10).1, 2);
    }
}
