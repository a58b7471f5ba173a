//! Pings: whether a server answers, and how fast.

use std::time::Duration;

use narrows_proxy::backend::BackendError;

use super::check::{Asking, Check, Outcome, Subject, Task};
use super::connections::MonitorConnections;
use super::finding::{Finding, Reach};
use super::plan::Target;
use super::settings::MonitorSettings;

/// Pings.
pub static CHECK: Check = Check {
    name: "ping",
    table: "mysql_server_ping_log",
    values: &[],
    has_error_first: false,
    counters: Some(("MySQL_Monitor_ping_check_OK", "MySQL_Monitor_ping_check_ERR")),
    decides_without_pings: false,
    consequence: "until it succeeds, it is unknown whether the server answers, its role and its lag",
    subjects: |_| vec![Subject::Server],
    begin: |_| Box::new(Pings::default()),
};

/// The outcome of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingOutcome {
    /// The server answers.
    Answer,
    /// The server is up, but refuses the monitor's login, which says nothing about other accounts.
    Refusal,
    /// There is no useful answer.
    Silence,
}

/// The pings of one server.
#[derive(Debug, Default)]
pub struct Pings {
    missed: u32,
    told: Option<Reach>,
}

impl Pings {
    /// Counts one more ping; returns what changed.
    pub fn after(&mut self, outcome: PingOutcome, max_failures: u32) -> Option<Reach> {
        let reach = match outcome {
            PingOutcome::Answer => {
                self.missed = 0;
                Reach::Reachable
            }
            PingOutcome::Refusal => return None,
            PingOutcome::Silence => {
                self.missed = self.missed.saturating_add(1);
                if self.missed < max_failures {
                    return None;
                }
                Reach::Unreachable
            }
        };
        (self.told.replace(reach) != Some(reach)).then_some(reach)
    }
}

impl PingOutcome {
    /// The outcome of a ping from its result.
    pub fn of<T>(outcome: &Result<T, BackendError>) -> PingOutcome {
        match outcome {
            Ok(_) => PingOutcome::Answer,
            Err(BackendError::Server(error))
                if error.is_about_login() || error.code == TOO_MANY_CONNECTIONS =>
            {
                PingOutcome::Refusal
            }
            Err(
                BackendError::Login(_)
                | BackendError::NoTls
                | BackendError::TlsSettings(_)
                | BackendError::NoToken(_)
                | BackendError::NoCredentials(_),
            ) => PingOutcome::Refusal,
            Err(_) => PingOutcome::Silence,
        }
    }
}

impl Task for Pings {
    /// Pings the server, over an existing connection if there is one.
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        _: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a> {
        Box::pin(async move {
            let backend = connections.lease(limit).await?;
            backend.ping(limit).await?;
            connections.give_back(backend);
            Ok(Vec::new())
        })
    }

    fn decide(&mut self, outcome: &Outcome, settings: &MonitorSettings, target: &Target) -> Vec<Finding> {
        let reach = self.after(PingOutcome::of(outcome), settings.ping_max_failures);
        reach.map(|reach| Finding::Reach(target.address.clone(), reach)).into_iter().collect()
    }
}

/// `ER_CON_COUNT_ERROR`: the server is healthy, but full.
const TOO_MANY_CONNECTIONS: u16 = 1040;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_failures_as_are_allowed_shun_and_one_answer_brings_back() {
        let mut pings = Pings::default();
        assert_eq!(pings.after(PingOutcome::Answer, 3), Some(Reach::Reachable));
        let told: Vec<_> = (0..4).map(|_| pings.after(PingOutcome::Silence, 3)).collect();
        assert_eq!(told, [None, None, Some(Reach::Unreachable), None]);
        assert_eq!(pings.after(PingOutcome::Answer, 3), Some(Reach::Reachable));
        assert_eq!(pings.after(PingOutcome::Answer, 3), None);
    }

    #[test]
    fn an_answer_in_between_begins_the_count_again() {
        let mut pings = Pings::default();
        for _ in 0..10 {
            pings.after(PingOutcome::Answer, 2);
            assert_eq!(pings.after(PingOutcome::Silence, 2), None);
        }
    }

    #[test]
    fn a_server_that_refuses_the_monitor_is_neither_taken_out_nor_brought_back() {
        let mut pings = Pings::default();
        assert_eq!(pings.after(PingOutcome::Silence, 1), Some(Reach::Unreachable));
        assert!((0..10).all(|_| pings.after(PingOutcome::Refusal, 1).is_none()));
    }
}
