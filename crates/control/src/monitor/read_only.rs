//! Whether a server may be written to.

use std::time::Duration;

use narrows_proxy::backend::{Backend, BackendError, Table};
use narrows_proxy::rt::Instant;
use narrows_proxy::snapshot::CheckType;

use super::check::{Asking, Check, LogCell, Outcome, Subject, Task};
use super::connections::MonitorConnections;
use super::finding::Finding;
use super::plan::Target;
use super::position::{CheckedPosition, PositionQuestions};
use super::rds_topology::{self, BlueGreen, Topology};
use super::role::{RoleReport, ServerRole};
use super::settings::MonitorSettings;

/// Checks of `read_only`.
pub static CHECK: Check = Check {
    name: "read_only",
    table: "mysql_server_read_only_log",
    values: &[LogCell::Null],
    has_error_first: false,
    counters: Some(("MySQL_Monitor_read_only_check_OK", "MySQL_Monitor_read_only_check_ERR")),
    decides_without_pings: true,
    consequence: "until it succeeds, it is unknown whether the server is writable: failovers are not followed",
    subjects: |target| target.check_types.iter().copied().map(Subject::Role).collect(),
    begin: |subject| {
        let check_type = match subject {
            Subject::Role(check_type) => check_type,
            Subject::Server | Subject::Node(_) => CheckType::ReadOnly,
        };
        Box::new(ReadOnly { check_type, ..ReadOnly::default() })
    },
};

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleAnswer {
    /// The server has reported its role.
    Said(ServerRole),
    /// The server did not answer in time.
    TimedOut,
    /// The query failed.
    Failed,
}

/// The checks of one server so far.
#[derive(Debug, Default)]
pub struct RoleChecks {
    timeouts: u32,
    report: RoleReport,
}

impl RoleChecks {
    /// Counts one more check, which began at `asked`; returns what all of them have found.
    pub fn after(&mut self, seen: RoleAnswer, asked: Instant, max_timeouts: u32) -> RoleReport {
        let before = self.report;
        self.report.asked = Some(asked);
        self.timeouts = if seen == RoleAnswer::TimedOut { self.timeouts.saturating_add(1) } else { 0 };
        if let RoleAnswer::Said(role) = seen {
            self.report.role = Some((role, asked));
            self.report.answered = Some(asked);
            self.report.unanswered = 0;
        } else {
            self.report.unanswered = self.report.unanswered.saturating_add(1);
            if self.timeouts >= max_timeouts {
                self.report.role = Some((ServerRole::Silent, asked));
            }
        }
        self.report.is_away = self.report.unanswered >= max_timeouts;
        let said = |it: &RoleReport| (it.role.map(|(role, _)| role), it.unanswered > 0, it.is_away);
        self.report.is_news = said(&before) != said(&self.report);
        self.report
    }
}

impl RoleAnswer {
    /// The outcome of a check from its result.
    pub fn of(outcome: &Outcome) -> RoleAnswer {
        match outcome {
            Ok(values) if values[..] == [LogCell::Integer(0)] => RoleAnswer::Said(ServerRole::Writer),
            Ok(_) => RoleAnswer::Said(ServerRole::Reader),
            Err(BackendError::Timeout) => RoleAnswer::TimedOut,
            Err(BackendError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                RoleAnswer::TimedOut
            }
            Err(_) => RoleAnswer::Failed,
        }
    }
}

/// The checks of one server by one query.
struct ReadOnly {
    check_type: CheckType,
    roles: RoleChecks,
    /// When the last one began.
    asked: Option<Instant>,
    /// How many checks ago the topology was asked for.
    since_topology: u32,
    topology: Topology,
    /// The topology as it was last reported.
    told: Topology,
    is_refused: bool,
    /// How many more checks look the name up again.
    lookups: u32,
    positions: PositionQuestions,
}

/// For how many checks after a switchover the server's name is looked up each time: a minute by default.
const LOOKUPS_AFTER: u32 = 60;

impl Default for ReadOnly {
    fn default() -> ReadOnly {
        ReadOnly {
            check_type: CheckType::ReadOnly,
            roles: RoleChecks::default(),
            asked: None,
            // The first check asks for it.
            since_topology: u32::MAX,
            topology: Topology::default(),
            told: Topology::default(),
            is_refused: false,
            lookups: 0,
            positions: PositionQuestions::default(),
        }
    }
}

impl ReadOnly {
    /// Asks for the topology of RDS, if it is time. A server without it has none.
    async fn ask_topology(
        &mut self,
        backend: &Backend,
        every: u32,
        limit: Duration,
    ) -> Result<(), BackendError> {
        self.since_topology = self.since_topology.saturating_add(1);
        if every == 0 {
            self.topology = Topology::default();
            return Ok(());
        }
        // While a switchover runs, it is asked for each time.
        if self.since_topology < every && self.topology.switchover != BlueGreen::Runs {
            return Ok(());
        }
        self.since_topology = 0;
        self.topology = match backend.ask_briefly(rds_topology::QUESTION, limit).await {
            Ok(answer) => Topology::of(&answer),
            Err(BackendError::Server(error)) => {
                if error.code != rds_topology::NO_TABLE && !std::mem::replace(&mut self.is_refused, true) {
                    let server = &backend.login.server.row;
                    let (hostname, port) = (&server.hostname, server.port);
                    let reason = &error.message;
                    tracing::warn!(hostname, port, reason, "a server does not tell the topology of RDS");
                }
                Topology::default()
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

impl Task for ReadOnly {
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        settings: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        let began = Instant::now();
        self.asked = Some(began);
        Box::pin(async move {
            let backend = connections.lease(limit).await?;
            let answer = backend.ask_briefly(self.check_type.question(), limit).await?;
            self.ask_topology(&backend, settings.rds_topology_every, limit).await?;
            // The role is known: this must not make the check late.
            let left = limit.saturating_sub(began.elapsed()) / 2;
            if !settings.asks_positions || self.positions.ask(&backend, left).await {
                connections.give_back(backend);
            }
            Ok(vec![LogCell::Integer((role(&answer) == ServerRole::Reader).into())])
        })
    }

    fn decide(&mut self, outcome: &Outcome, settings: &MonitorSettings, target: &Target) -> Vec<Finding> {
        let most = settings.read_only_max_timeout_count;
        let asked = self.asked.unwrap_or_else(Instant::now);
        let report = self.roles.after(RoleAnswer::of(outcome), asked, most);
        let mut findings = vec![Finding::Role(target.address.clone(), self.check_type, report)];
        if self.topology != self.told {
            self.told.clone_from(&self.topology);
            findings.push(Finding::Topology(target.address.clone(), self.topology.clone()));
        }
        findings
    }

    fn position(&mut self) -> Option<CheckedPosition> {
        self.positions.take()
    }

    fn may_have_moved(&mut self) -> bool {
        match self.topology.switchover {
            BlueGreen::None => return false,
            BlueGreen::Runs => self.lookups = LOOKUPS_AFTER,
            BlueGreen::Over => {}
        }
        let may_have = self.lookups > 0;
        self.lookups = self.lookups.saturating_sub(1);
        may_have
    }
}

fn role(answer: &Table) -> ServerRole {
    if answer.says_no() { ServerRole::Writer } else { ServerRole::Reader }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: Option<&str>) -> Table {
        Table { columns: vec!["read_only".to_owned()], rows: vec![vec![value.map(str::to_owned)]] }
    }

    #[test]
    fn only_a_clear_no_makes_a_writer() {
        for value in ["0", "OFF"] {
            assert_eq!(role(&answer(Some(value))), ServerRole::Writer);
        }
        for value in [Some("1"), Some("ON"), Some("NO_LOCK"), Some(""), Some("2"), None] {
            assert_eq!(role(&answer(value)), ServerRole::Reader, "{value:?}");
        }
        assert_eq!(role(&Table::default()), ServerRole::Reader);
    }

    fn roles(checks: &mut RoleChecks, seen: &[RoleAnswer]) -> Vec<Option<ServerRole>> {
        let role = |seen: &RoleAnswer| checks.after(*seen, Instant::now(), 3).role.map(|(role, _)| role);
        seen.iter().map(role).collect()
    }

    #[test]
    fn three_timeouts_in_a_row_are_silence() {
        use RoleAnswer::{Failed, Said, TimedOut};
        use ServerRole::{Silent, Writer};
        let seen = [Said(Writer), TimedOut, TimedOut, TimedOut, Failed, Said(Writer)];
        let expected = [Writer, Writer, Writer, Silent, Silent, Writer].map(Some);
        assert_eq!(roles(&mut RoleChecks::default(), &seen), expected);
    }

    #[test]
    fn an_error_changes_no_role_and_is_no_timeout() {
        use RoleAnswer::{Failed, Said, TimedOut};
        use ServerRole::Writer;
        let seen = [Said(Writer), TimedOut, TimedOut, Failed, TimedOut, TimedOut, Failed, Failed, Failed];
        let mut checks = RoleChecks::default();
        assert_eq!(roles(&mut checks, &seen), [Some(Writer); 9]);
        assert_eq!(checks.report.unanswered, 8);
        assert_eq!(roles(&mut RoleChecks::default(), &[Failed, TimedOut]), [None; 2]);
    }
}
