//! Checksums of tables: equal if the rows are equal, whatever the order of insertion.
//!
//! The algorithm is ProxySQL's, so that a table can be compared with the same table there.

use std::fmt;

use narrows_sql::seeded_hash;
use rusqlite::types::{Value, ValueRef};

use super::Store;
use super::answer::{Refusal, cell};
use super::reading::cells_where;
use crate::schema::{self, Database};
use crate::schema::{Layer, Module};

/// A checksum; 0 if there are no rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// The checksum with that value.
    pub(super) fn of_number(number: u64) -> Checksum {
        Checksum(number)
    }

    /// The checksum as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Checksum {
    /// Writes both halves, the lower one first, as in ProxySQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}{:X}", self.0 & 0xFFFF_FFFF, self.0 >> 32)
    }
}

const SEEDS: [u64; 2] = [19, 3];

/// The checksum of rows in their order: the hash of the texts of all cells, one after another.
pub(super) fn checksum<'a>(rows: impl IntoIterator<Item = &'a Vec<Value>>) -> Checksum {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return Checksum(0);
    }
    let mut texts = Vec::new();
    for text in rows.flatten().filter_map(|value| cell(ValueRef::from(value))) {
        texts.extend_from_slice(&text);
    }
    Checksum(seeded_hash(&texts, SEEDS))
}

impl Store {
    /// The checksum of one table in memory or on disk: of all rows, or of the variables of `module`.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn checksum(&mut self, module: Module, table: &str, layer: Layer) -> Result<Checksum, Refusal> {
        let database = layer.database().ok_or_else(|| Refusal::admin("a layer without tables"))?;
        let condition = module.condition();
        self.checksum_in(database, table, &condition)
    }

    pub(super) fn checksum_in(
        &mut self,
        database: Database,
        table: &str,
        condition: &str,
    ) -> Result<Checksum, Refusal> {
        let order = schema::key(table).join(", ");
        let condition = format!("{condition} ORDER BY {order}");
        Ok(checksum(&cells_where(self.all.open()?, database, table, &condition)?))
    }
}
