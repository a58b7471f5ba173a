//! The results of checks in the tables of `monitor`.

use narrows_proxy::snapshot::HostgroupId;
use rusqlite::types::Value;

use super::Store;
use super::answer::Refusal;
use crate::monitor::CHECKS;
use crate::monitor::check::Subject;
use crate::monitor::cluster::aurora;
use crate::monitor::log::Record;

impl Store {
    /// Adds results.
    ///
    /// # Errors
    /// SQLite's error; then none of them is stored.
    pub fn record(&mut self, records: &[Record]) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        for kind in CHECKS {
            let of_kind = records.iter().filter(|record| record.kind == kind);
            let mut rows = of_kind.flat_map(Record::rows).peekable();
            let Some(first) = rows.peek() else { continue };
            let places = vec!["?"; first.len()].join(", ");
            let insert = format!("INSERT OR REPLACE INTO monitor.{} VALUES ({places})", kind.table);
            let mut insert = transaction.prepare(&insert)?;
            for row in rows {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
        }
        let mut count = transaction.prepare(COUNT_CHECK)?;
        for record in records.iter().filter(|record| record.kind == &aurora::CHECK) {
            let Subject::Node(cluster) = record.subject else { continue };
            let address = &record.address;
            let error = record.outcome.as_ref().err();
            count.execute(rusqlite::params![
                cluster.writers.0,
                address.hostname,
                address.port,
                record.start_us / 1_000_000,
                i32::from(error.is_none()),
                error,
            ])?;
        }
        drop(count);
        Ok(transaction.commit()?)
    }

    /// Records that nodes of Aurora clusters have become writers: the writer hostgroup, and the node's `SERVER_ID`.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn record_writers(&mut self, writers: &[(HostgroupId, String)]) -> Result<(), Refusal> {
        let connection = self.all.open()?;
        for (hostgroup, server_id) in writers {
            connection.execute(
                "INSERT INTO monitor.mysql_server_aws_aurora_failovers VALUES (?1, ?2, datetime('now', 'localtime'))",
                rusqlite::params![hostgroup.0, server_id],
            )?;
            connection.execute(
                "DELETE FROM monitor.mysql_server_aws_aurora_failovers WHERE rowid <= \
                 (SELECT max(rowid) FROM monitor.mysql_server_aws_aurora_failovers) - ?1",
                [MOST_FAILOVERS],
            )?;
        }
        Ok(())
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
        connection.execute(
            "DELETE FROM monitor.mysql_server_aws_aurora_check_status WHERE last_checked_at < \
             datetime(?1, 'unixepoch', 'localtime')",
            [oldest_us / 1_000_000],
        )?;
        Ok(())
    }
}

/// Counts a check of an Aurora node.
const COUNT_CHECK: &str = "INSERT INTO monitor.mysql_server_aws_aurora_check_status \
    VALUES (?1, ?2, ?3, datetime(?4, 'unixepoch', 'localtime'), 1, ?5, ?6) \
    ON CONFLICT (writer_hostgroup, hostname, port) DO UPDATE SET last_checked_at = excluded.last_checked_at, \
    checks_tot = checks_tot + 1, checks_ok = checks_ok + excluded.checks_ok, \
    last_error = coalesce(excluded.last_error, last_error)";

/// How many failovers are kept.
const MOST_FAILOVERS: i64 = 1_000;
