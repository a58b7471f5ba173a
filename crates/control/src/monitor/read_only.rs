//! Whether a server may be written to.

use std::time::Duration;

use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::snapshot::CheckType;

use super::line::Line;

/// The resulting role of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It may be written to.
    Writer,
    /// It is read-only.
    Reader,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The server has reported its role.
    Said(Role),
    /// It did not answer in time.
    TimedOut,
    /// The query failed.
    Failed,
}

/// The checks of one server.
#[derive(Debug, Default)]
pub struct Roles {
    timeouts: u32,
    told: Option<Role>,
}

impl Roles {
    /// Counts one more; returns what changed.
    pub fn after(&mut self, seen: Seen, max_timeouts: u32) -> Option<Role> {
        let role = match seen {
            Seen::Said(role) => {
                self.timeouts = 0;
                role
            }
            Seen::Failed => {
                self.timeouts = 0;
                return None;
            }
            Seen::TimedOut => {
                self.timeouts = self.timeouts.saturating_add(1);
                if self.timeouts < max_timeouts {
                    return None;
                }
                Role::Reader
            }
        };
        (self.told.replace(role) != Some(role)).then_some(role)
    }
}

impl Seen {
    /// The outcome of a check from its result.
    pub fn of(outcome: &Result<Role, BackendError>) -> Seen {
        match outcome {
            Ok(role) => Seen::Said(*role),
            Err(BackendError::Timeout) => Seen::TimedOut,
            Err(BackendError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => Seen::TimedOut,
            Err(_) => Seen::Failed,
        }
    }
}

/// Queries a server.
pub async fn check(line: &Line, kind: CheckType, limit: Duration) -> Result<Role, BackendError> {
    let backend = line.lease(limit).await?;
    let answer = backend.ask(kind.question(), limit).await?;
    line.give_back(backend);
    Ok(role(&answer))
}

fn role(answer: &Table) -> Role {
    if answer.says_no() { Role::Writer } else { Role::Reader }
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
            assert_eq!(role(&answer(Some(value))), Role::Writer);
        }
        for value in [Some("1"), Some("ON"), Some("NO_LOCK"), Some(""), Some("2"), None] {
            assert_eq!(role(&answer(value)), Role::Reader, "{value:?}");
        }
        assert_eq!(role(&Table::default()), Role::Reader);
    }

    #[test]
    fn a_change_is_told_once() {
        let mut roles = Roles::default();
        let said = [Role::Writer, Role::Writer, Role::Reader, Role::Reader, Role::Writer];
        let told: Vec<_> = said.into_iter().map(|role| roles.after(Seen::Said(role), 3)).collect();
        assert_eq!(told, [Some(Role::Writer), None, Some(Role::Reader), None, Some(Role::Writer)]);
    }

    #[test]
    fn three_timeouts_in_a_row_count_as_read_only() {
        let mut roles = Roles::default();
        roles.after(Seen::Said(Role::Writer), 3);
        let told: Vec<_> = (0..4).map(|_| roles.after(Seen::TimedOut, 3)).collect();
        assert_eq!(told, [None, None, Some(Role::Reader), None]);
        assert_eq!(roles.after(Seen::Said(Role::Writer), 3), Some(Role::Writer));
    }

    #[test]
    fn an_error_moves_nothing_and_is_no_timeout() {
        let mut roles = Roles::default();
        roles.after(Seen::Said(Role::Writer), 3);
        for seen in [Seen::TimedOut, Seen::TimedOut, Seen::Failed, Seen::TimedOut, Seen::TimedOut] {
            assert_eq!(roles.after(seen, 3), None);
        }
        assert!((0..10).all(|_| roles.after(Seen::Failed, 3).is_none()));
    }
}
