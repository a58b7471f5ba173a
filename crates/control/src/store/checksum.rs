//! Checksums of tables: equal when their rows are, whatever the order they were put in.

use std::fmt;

use narrows_sql::digest_hash;
use rusqlite::types::{Value, ValueRef};

use super::Store;
use super::answer::{Refusal, cell};
use super::modules::{Layer, Module};
use super::reading::cells_where;
use super::schema::{self, Database};

/// A checksum; of no rows it is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum(u64);

impl Checksum {
    /// As a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Checksum {
    /// In two halves, as ProxySQL writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// The checksum of rows in their order.
pub(super) fn checksum<'a>(rows: impl IntoIterator<Item = &'a Vec<Value>>) -> Checksum {
    let mut bytes = Vec::new();
    for value in rows.into_iter().flatten() {
        // The length goes before the text, so that two neighbours cannot pass for two others.
        let text = cell(ValueRef::from(value));
        let length = text.as_ref().map_or(u64::MAX, |text| text.len() as u64);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&text.unwrap_or_default());
    }
    Checksum(if bytes.is_empty() { 0 } else { digest_hash(&bytes) })
}

impl Store {
    /// The checksum of one table in memory or on disk: of all rows, or of the variables of `module`.
    ///
    /// # Errors
    /// No such table there.
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
