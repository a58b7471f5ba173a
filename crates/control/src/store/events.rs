//! Logged statements in `stats_history`.

use std::collections::HashSet;

use narrows_proxy::clock;
use rusqlite::types::Value;

use super::Store;
use super::answer::Refusal;
use crate::schema::{self, Database};

impl Store {
    /// The ids of the rows of `stats_mysql_query_events`.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn event_ids(&mut self) -> Result<HashSet<i64>, Refusal> {
        let connection = self.all.open()?;
        let mut select = connection.prepare("SELECT id FROM stats.stats_mysql_query_events")?;
        let ids = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(ids)
    }

    /// Adds rows, whose ids are NULL, to `history_mysql_query_events`, and deletes those that are too old or too many.
    ///
    /// # Errors
    /// If there is no space for them, or if somebody reads the file all the time; then none is added.
    pub fn keep_events(&mut self, rows: impl Iterator<Item = Vec<Value>>) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        let table =
            schema::find(Database::StatsHistory, "history_mysql_query_events").expect("a table of ours");
        let columns: Vec<&str> = table.columns().collect();
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!(
            "INSERT INTO stats_history.history_mysql_query_events ({}) VALUES ({places})",
            schema::listed(&columns)
        );
        {
            let mut insert = transaction.prepare(&insert)?;
            for row in rows {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
        }
        let oldest = clock::now_us().saturating_sub(KEPT_US);
        // Ids are in the order of insertion: the old ones come first, and no others are read.
        transaction.execute(
            "DELETE FROM stats_history.history_mysql_query_events WHERE id < coalesce((SELECT id FROM \
             stats_history.history_mysql_query_events WHERE start_time >= ?1 ORDER BY id LIMIT 1), 0) OR id <= \
             (SELECT max(id) FROM stats_history.history_mysql_query_events) - ?2",
            [oldest, MOST_ROWS],
        )?;
        Ok(transaction.commit()?)
    }
}

/// How long rows are kept, in microseconds: seven days, as the other figures over time.
const KEPT_US: i64 = 7 * 86_400 * 1_000_000;

/// The maximum number of rows.
const MOST_ROWS: i64 = 1_000_000;
