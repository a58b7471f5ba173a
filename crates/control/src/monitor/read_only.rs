//! Whether a server may be written to.

use std::time::Duration;

use narrows_proxy::backend::{Backend, BackendError, Table};
use narrows_proxy::rt::Instant;
use narrows_proxy::snapshot::CheckType;

use super::check::{Asking, Check, LogCell, Outcome, Subject, Task};
use super::connections::MonitorConnections;
use super::finding::{Finding, ServerRole};
use super::plan::Target;
use super::position::{CheckedPosition, PositionQuestions};
use super::rds_topology::{self, BlueGreen, Topology};
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

/// The checks of one server.
#[derive(Debug, Default)]
pub struct Roles {
    timeouts: u32,
    told: Option<ServerRole>,
}

impl Roles {
    /// Counts one more check; returns what changed.
    pub fn after(&mut self, seen: RoleAnswer, max_timeouts: u32) -> Option<ServerRole> {
        let role = match seen {
            RoleAnswer::Said(role) => {
                self.timeouts = 0;
                role
            }
            RoleAnswer::Failed => {
                self.timeouts = 0;
                return None;
            }
            RoleAnswer::TimedOut => {
                self.timeouts = self.timeouts.saturating_add(1);
                if self.timeouts < max_timeouts {
                    return None;
                }
                ServerRole::Reader
            }
        };
        (self.told.replace(role) != Some(role)).then_some(role)
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
    roles: Roles,
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
            roles: Roles::default(),
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
        let role = self.roles.after(RoleAnswer::of(outcome), settings.read_only_max_timeout_count);
        let mut findings: Vec<Finding> = role
            .map(|role| Finding::Role(target.address.clone(), self.check_type, role))
            .into_iter()
            .collect();
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

    #[test]
    fn a_change_is_told_once() {
        let mut roles = Roles::default();
        let said = [
            ServerRole::Writer,
            ServerRole::Writer,
            ServerRole::Reader,
            ServerRole::Reader,
            ServerRole::Writer,
        ];
        let told: Vec<_> = said.into_iter().map(|role| roles.after(RoleAnswer::Said(role), 3)).collect();
        assert_eq!(
            told,
            [Some(ServerRole::Writer), None, Some(ServerRole::Reader), None, Some(ServerRole::Writer)]
        );
    }

    #[test]
    fn three_timeouts_in_a_row_count_as_read_only() {
        let mut roles = Roles::default();
        roles.after(RoleAnswer::Said(ServerRole::Writer), 3);
        let told: Vec<_> = (0..4).map(|_| roles.after(RoleAnswer::TimedOut, 3)).collect();
        assert_eq!(told, [None, None, Some(ServerRole::Reader), None]);
        assert_eq!(roles.after(RoleAnswer::Said(ServerRole::Writer), 3), Some(ServerRole::Writer));
    }

    #[test]
    fn an_error_moves_nothing_and_is_no_timeout() {
        let mut roles = Roles::default();
        roles.after(RoleAnswer::Said(ServerRole::Writer), 3);
        for seen in [
            RoleAnswer::TimedOut,
            RoleAnswer::TimedOut,
            RoleAnswer::Failed,
            RoleAnswer::TimedOut,
            RoleAnswer::TimedOut,
        ] {
            assert_eq!(roles.after(seen, 3), None);
        }
        assert!((0..10).all(|_| roles.after(RoleAnswer::Failed, 3).is_none()));
    }
}
