//! The results of checks in the tables of `monitor`.

use rusqlite::types::Value;

use super::Store;
use super::answer::Refusal;
use crate::monitor::CHECKS;
use crate::monitor::log::Record;

impl Store {
    /// Adds results.
    ///
    /// # Errors
    /// SQLite's error; then none of them is stored.
    pub fn record(&mut self, records: &[Record]) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        for kind in CHECKS {
            let mut rows = records.iter().filter(|record| record.kind == kind).map(Record::row).peekable();
            let Some(first) = rows.peek() else { continue };
            let places = vec!["?"; first.len()].join(", ");
            let insert = format!("INSERT OR REPLACE INTO monitor.{} VALUES ({places})", kind.table);
            let mut insert = transaction.prepare(&insert)?;
            for row in rows {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Deletes the results of checks that began before `oldest_us`, in us since 1970.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn forget_records_before(&mut self, oldest_us: i64) -> Result<(), Refusal> {
        let connection = self.all.open()?;
        for table in CHECKS.map(|check| check.table) {
            // Results are inserted in the order in which checks end, so the old ones come first and no others are read.
            let delete = format!(
                "DELETE FROM monitor.{table} WHERE rowid < coalesce((SELECT rowid FROM monitor.{table} \
                 WHERE time_start_us >= ?1 ORDER BY rowid LIMIT 1), \
                 (SELECT max(rowid) + 1 FROM monitor.{table}))"
            );
            connection.execute(&delete, [Value::Integer(oldest_us)])?;
        }
        Ok(())
    }
}
