//! Pings: whether a server answers, and how fast.

use std::time::Duration;

use narrows_proxy::backend::BackendError;

use super::line::Line;

/// The outcome of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// An answer.
    Answer,
    /// The server is up, but refuses the monitor's login, which says nothing about other accounts.
    Refusal,
    /// No useful answer.
    Silence,
}

/// Whether a server gets statements, according to pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It answers.
    Reachable,
    /// It has missed too many pings.
    Unreachable,
}

/// The pings of one server.
#[derive(Debug, Default)]
pub struct Pings {
    missed: u32,
    told: Option<Reach>,
}

impl Pings {
    /// Counts one more; returns what changed.
    pub fn after(&mut self, heard: Heard, max_failures: u32) -> Option<Reach> {
        let reach = match heard {
            Heard::Answer => {
                self.missed = 0;
                Reach::Reachable
            }
            Heard::Refusal => return None,
            Heard::Silence => {
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

impl Heard {
    /// The outcome of a ping from its result.
    pub fn of<T>(outcome: &Result<T, BackendError>) -> Heard {
        match outcome {
            Ok(_) => Heard::Answer,
            Err(BackendError::Server(error))
                if error.is_about_login() || error.code == TOO_MANY_CONNECTIONS =>
            {
                Heard::Refusal
            }
            Err(BackendError::Login(_) | BackendError::NoTls | BackendError::TlsSettings(_)) => {
                Heard::Refusal
            }
            Err(_) => Heard::Silence,
        }
    }
}

/// Pings a server, over an existing connection if there is one.
pub async fn check(line: &Line, limit: Duration) -> Result<(), BackendError> {
    let backend = line.lease(limit).await?;
    backend.ping(limit).await?;
    line.give_back(backend);
    Ok(())
}

/// `ER_CON_COUNT_ERROR`: the server is healthy, but full.
const TOO_MANY_CONNECTIONS: u16 = 1040;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_failures_as_are_allowed_shun_and_one_answer_brings_back() {
        let mut pings = Pings::default();
        assert_eq!(pings.after(Heard::Answer, 3), Some(Reach::Reachable));
        let told: Vec<_> = (0..4).map(|_| pings.after(Heard::Silence, 3)).collect();
        assert_eq!(told, [None, None, Some(Reach::Unreachable), None]);
        assert_eq!(pings.after(Heard::Answer, 3), Some(Reach::Reachable));
        assert_eq!(pings.after(Heard::Answer, 3), None);
    }

    #[test]
    fn an_answer_in_between_begins_the_count_again() {
        let mut pings = Pings::default();
        for _ in 0..10 {
            pings.after(Heard::Answer, 2);
            assert_eq!(pings.after(Heard::Silence, 2), None);
        }
    }

    #[test]
    fn a_server_that_refuses_the_monitor_is_neither_taken_out_nor_brought_back() {
        let mut pings = Pings::default();
        assert_eq!(pings.after(Heard::Silence, 1), Some(Reach::Unreachable));
        assert!((0..10).all(|_| pings.after(Heard::Refusal, 1).is_none()));
    }
}
