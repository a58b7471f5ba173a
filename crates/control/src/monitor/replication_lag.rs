//! The lag of a replica: as reported by itself, or from a heartbeat table.

use std::time::Duration;

use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::snapshot::HostgroupId;

use super::check::{Asking, Check, LogCell, Outcome, Subject, Task};
use super::connections::{MonitorConnections, Spelling};
use super::finding::{Behind, Finding, Lag, MeasuredLag};
use super::plan::{LagLimit, Target};
use super::settings::MonitorSettings;

/// Checks of the lag.
pub static CHECK: Check = Check {
    name: "replication_lag",
    table: "mysql_server_replication_lag_log",
    values: &[LogCell::Null],
    has_error_first: false,
    counters: Some(("MySQL_Monitor_replication_lag_check_OK", "MySQL_Monitor_replication_lag_check_ERR")),
    decides_without_pings: true,
    consequence: "until it succeeds, the lag of the server is unknown: it continues to get reads",
    subjects: |target| (!target.lag_limits.is_empty()).then_some(Subject::Server).into_iter().collect(),
    begin: |_| Box::new(ReplicationLag::default()),
};

/// The limits of one row of `mysql_servers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagTolerance {
    /// The allowed lag in seconds.
    pub seconds: u32,
    /// The lag in seconds that is assumed for [`Behind::Unknown`].
    pub when_null: u32,
    /// How many checks in a row must be above the limit.
    pub count: u32,
}

/// The checks of one server for one of its rows.
#[derive(Debug, Default)]
pub struct Lags {
    over: u32,
    /// What was reported, and whether the lag was unknown.
    told: Option<(Lag, bool)>,
}

impl Lags {
    /// Counts one more check; returns what changed. `None` is a failed check, which changes nothing.
    pub fn after(&mut self, behind: Option<Behind>, limits: LagTolerance) -> Option<Lag> {
        let behind = behind?;
        let seconds = match behind {
            Behind::Seconds(seconds) => seconds,
            Behind::Unknown => limits.when_null.into(),
            Behind::NotAReplica => 0,
        };
        let lag = if seconds <= limits.seconds.into() {
            self.over = 0;
            Lag::Fine
        } else {
            self.over = self.over.saturating_add(1);
            if self.over < limits.count {
                return None;
            }
            Lag::TooMuch
        };
        let told = (lag, lag == Lag::TooMuch && behind == Behind::Unknown);
        (self.told.replace(told) != Some(told)).then_some(lag)
    }
}

/// The checks of one server.
#[derive(Default)]
struct ReplicationLag {
    /// The last lag; `None`: that check failed.
    behind: Option<Behind>,
    /// The lag in seconds that is assumed for [`Behind::Unknown`]: the greatest of its hostgroups.
    when_null: u32,
    lags: Vec<(HostgroupId, Lags)>,
}

impl Task for ReplicationLag {
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        settings: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        self.behind = None;
        Box::pin(async move {
            let behind = check(connections, &settings.heartbeat, limit).await?;
            self.behind = Some(behind);
            let seconds = match behind {
                Behind::Seconds(seconds) => i64::try_from(seconds).ok(),
                Behind::Unknown | Behind::NotAReplica => None,
            };
            Ok(vec![seconds.map_or(LogCell::Null, LogCell::Integer)])
        })
    }

    fn decide(&mut self, _: &Outcome, settings: &MonitorSettings, target: &Target) -> Vec<Finding> {
        let (mut findings, limits) = (Vec::new(), &target.lag_limits);
        let when_null = limits.iter().map(|limit| limit.when_null.unwrap_or(settings.lag_when_null));
        self.when_null = when_null.max().unwrap_or(settings.lag_when_null);
        self.lags.retain(|(hostgroup, _)| limits.iter().any(|limit| limit.hostgroup == *hostgroup));
        for LagLimit { hostgroup, seconds, when_null } in limits.iter().copied() {
            if !self.lags.iter().any(|(of, _)| *of == hostgroup) {
                self.lags.push((hostgroup, Lags::default()));
            }
            let limits = LagTolerance {
                seconds,
                when_null: when_null.unwrap_or(settings.lag_when_null),
                count: settings.replication_lag_count,
            };
            let of_hostgroup = self.lags.iter_mut().find(|(of, _)| *of == hostgroup);
            let lag = of_hostgroup.and_then(|(_, lags)| lags.after(self.behind, limits));
            if let (Some(lag), Some(behind)) = (lag, self.behind) {
                let seen = MeasuredLag { behind, limit_s: limits.seconds };
                findings.push(Finding::Lag(target.address.clone(), hostgroup, lag, seen));
            }
        }
        findings
    }

    fn lag_ms(&self) -> Option<u32> {
        let seconds = match self.behind? {
            Behind::Seconds(seconds) => u32::try_from(seconds).unwrap_or(u32::MAX),
            Behind::Unknown => self.when_null,
            Behind::NotAReplica => return None,
        };
        Some(seconds.saturating_mul(1_000))
    }
}

/// Queries a server's status, or `heartbeat`, a table given as `schema.table`.
async fn check(
    connections: &MonitorConnections,
    heartbeat: &str,
    limit: Duration,
) -> Result<Behind, BackendError> {
    let backend = connections.lease(limit).await?;
    let answer = if heartbeat.is_empty() {
        let mut spelling = connections.spelling.get();
        let mut answer = backend.ask_briefly(spelling.question(), limit).await;
        if matches!(&answer, Err(BackendError::Server(error)) if error.code == PARSE_ERROR) {
            spelling = spelling.other();
            answer = backend.ask_briefly(spelling.question(), limit).await;
        }
        let answer = answer?;
        connections.spelling.set(spelling);
        answer
    } else {
        backend.ask_briefly(&heartbeat_question(heartbeat), limit).await?
    };
    connections.give_back(backend);
    Ok(behind(&answer))
}

impl Spelling {
    fn question(self) -> &'static str {
        match self {
            Spelling::Replica => "SHOW REPLICA STATUS",
            Spelling::Slave => "SHOW SLAVE STATUS",
        }
    }

    fn other(self) -> Spelling {
        match self {
            Spelling::Replica => Spelling::Slave,
            Spelling::Slave => Spelling::Replica,
        }
    }
}

/// Of several channels, the one with the greatest lag counts.
fn behind(answer: &Table) -> Behind {
    let names = ["Seconds_Behind_Source", "Seconds_Behind_Master"];
    let Some(name) = names.into_iter().find(|name| answer.column(name).is_some()) else {
        return if answer.rows.is_empty() { Behind::NotAReplica } else { Behind::Unknown };
    };
    let seconds: Vec<Option<u64>> = answer.column(name).into_iter().flatten().map(read).collect();
    match seconds.iter().copied().collect::<Option<Vec<u64>>>() {
        Some(seconds) => seconds.into_iter().max().map_or(Behind::NotAReplica, Behind::Seconds),
        None => Behind::Unknown,
    }
}

/// If clocks differ, a heartbeat may be in the future.
fn read(cell: Option<&str>) -> Option<u64> {
    let seconds: i64 = cell?.parse().ok()?;
    Some(u64::try_from(seconds).unwrap_or(0))
}

fn heartbeat_question(table: &str) -> String {
    let quoted = table.split('.').map(|part| format!("`{}`", part.trim_matches('`').replace('`', "``")));
    let table = quoted.collect::<Vec<_>>().join(".");
    format!(
        "SELECT MAX(ROUND(TIMESTAMPDIFF(MICROSECOND, ts, SYSDATE(6))/1000000)) AS Seconds_Behind_Master FROM {table}"
    )
}

/// `ER_PARSE_ERROR`: the server supports the other spelling.
const PARSE_ERROR: u16 = 1064;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LagTolerance = LagTolerance { seconds: 10, when_null: 60, count: 2 };

    fn status(column: &str, cells: &[Option<&str>]) -> Table {
        let rows = cells.iter().map(|cell| vec![Some("x".to_owned()), cell.map(str::to_owned)]).collect();
        Table { columns: vec!["Source_Host".to_owned(), column.to_owned()], rows }
    }

    #[test]
    fn both_spellings_are_read_and_the_slowest_channel_counts() {
        for column in ["Seconds_Behind_Source", "Seconds_Behind_Master", "seconds_behind_master"] {
            assert_eq!(behind(&status(column, &[Some("7")])), Behind::Seconds(7));
            assert_eq!(behind(&status(column, &[Some("7"), Some("9"), Some("0")])), Behind::Seconds(9));
            assert_eq!(behind(&status(column, &[Some("7"), None])), Behind::Unknown);
            assert_eq!(behind(&status(column, &[Some("-1")])), Behind::Seconds(0));
            assert_eq!(behind(&status(column, &[])), Behind::NotAReplica);
        }
        assert_eq!(behind(&Table::default()), Behind::NotAReplica);
    }

    #[test]
    fn a_lag_above_the_limit_counts_when_it_lasts_and_ends_at_once() {
        let mut lags = Lags::default();
        let seconds = [10, 11, 10, 11, 11, 12, 10];
        let told: Vec<_> =
            seconds.into_iter().map(|s| lags.after(Some(Behind::Seconds(s)), LIMITS)).collect();
        let expected = [Some(Lag::Fine), None, None, None, Some(Lag::TooMuch), None, Some(Lag::Fine)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_replica_that_does_not_know_is_taken_for_late_and_a_server_that_replicates_nothing_is_not() {
        let mut lags = Lags::default();
        let once = LagTolerance { count: 1, ..LIMITS };
        assert_eq!(lags.after(Some(Behind::Unknown), once), Some(Lag::TooMuch));
        assert_eq!(lags.after(None, once), None);
        assert_eq!(lags.after(Some(Behind::NotAReplica), once), Some(Lag::Fine));
        assert_eq!(lags.after(Some(Behind::Unknown), LagTolerance { when_null: 10, ..once }), None);
    }

    #[test]
    fn the_name_of_a_heartbeat_table_is_a_name_whatever_it_holds() {
        let question = heartbeat_question("percona.heart`beat");
        assert!(question.ends_with("FROM `percona`.`heart``beat`"), "{question}");
    }
}
