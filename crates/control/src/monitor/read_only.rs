//! Whether a server may be written to.

use std::time::Duration;

use narrows_proxy::backend::{BackendError, Table};

use super::line::Line;

/// Which variables of a server decide: `mysql_replication_hostgroups.check_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckType {
    /// `read_only`
    ReadOnly,
    /// `innodb_read_only`
    InnodbReadOnly,
    /// `super_read_only`
    SuperReadOnly,
    /// Any of `read_only` and `innodb_read_only`.
    Either,
    /// Both of them.
    Both,
}

/// What a server is by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It may be written to.
    Writer,
    /// It is read-only.
    Reader,
}

/// What came of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The server has said what it is.
    Said(Role),
    /// It has not answered in time.
    TimedOut,
    /// It could not be asked.
    Failed,
}

/// The checks of one server.
#[derive(Debug, Default)]
pub struct Roles {
    timeouts: u32,
    told: Option<Role>,
}

impl Roles {
    /// Counts one more; tells what has changed by it.
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

impl CheckType {
    /// The one of that name, which a table has checked.
    pub fn named(name: &str) -> CheckType {
        match name.to_ascii_lowercase().as_str() {
            "innodb_read_only" => CheckType::InnodbReadOnly,
            "super_read_only" => CheckType::SuperReadOnly,
            "read_only|innodb_read_only" => CheckType::Either,
            "read_only&innodb_read_only" => CheckType::Both,
            _ => CheckType::ReadOnly,
        }
    }

    fn question(self) -> &'static str {
        match self {
            CheckType::ReadOnly => "SELECT @@global.read_only read_only",
            CheckType::InnodbReadOnly => "SELECT @@global.innodb_read_only read_only",
            CheckType::SuperReadOnly => "SELECT @@global.super_read_only read_only",
            CheckType::Either => "SELECT @@global.read_only|@@global.innodb_read_only read_only",
            CheckType::Both => "SELECT @@global.read_only&@@global.innodb_read_only read_only",
        }
    }
}

impl Seen {
    /// What the outcome of a check says.
    pub fn of(outcome: &Result<Role, BackendError>) -> Seen {
        match outcome {
            Ok(role) => Seen::Said(*role),
            Err(BackendError::Timeout) => Seen::TimedOut,
            Err(BackendError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => Seen::TimedOut,
            Err(_) => Seen::Failed,
        }
    }
}

/// Asks a server.
pub async fn check(line: &Line, kind: CheckType, limit: Duration) -> Result<Role, BackendError> {
    let backend = line.lease(limit).await?;
    let answer = backend.ask(kind.question(), limit).await?;
    line.give_back(backend);
    Ok(role(&answer))
}

/// What a server is that answers so. Whatever is not clearly 0 is no permission to write.
fn role(answer: &Table) -> Role {
    let value = answer.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
    match value {
        Some("0" | "OFF") => Role::Writer,
        _ => Role::Reader,
    }
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

    #[test]
    fn every_check_type_asks_its_variables() {
        let asked = |name: &str| CheckType::named(name).question();
        assert_eq!(asked("READ_ONLY"), "SELECT @@global.read_only read_only");
        assert_eq!(asked("super_read_only"), "SELECT @@global.super_read_only read_only");
        assert!(asked("read_only|innodb_read_only").contains("read_only|@@global.innodb_read_only"));
        assert!(asked("read_only&innodb_read_only").contains("read_only&@@global.innodb_read_only"));
    }
}
