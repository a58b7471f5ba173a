//! Warnings and errors of earlier statements: `SHOW WARNINGS`, `@@warning_count`, `GET DIAGNOSTICS`.
//!
//! They are on the connection that ran the statement, or were collected from it by the next session, or are an error of
//! Narrows' own. The protocol reports how many there are; their contents are fetched only if a client asks, or if another
//! session leases the connection.

use narrows_sql::{Escapes, Flags, Kind, Statement, keeps_conditions_on_mariadb};
use narrows_wire::charset::Family;
use narrows_wire::codec::put_lenenc_bytes;
use narrows_wire::{Command, Errno, Reader};

use super::super::outcome::Outcome;
use super::{Left, asks_conditions};

/// How many conditions the last statement has, and where they are.
#[derive(Debug, Default)]
pub(in super::super) struct Conditions {
    /// `@@warning_count`, as far as the protocol reports it.
    pub(in super::super) warnings: u16,
    /// `@@error_count`, as far as the protocol reports it: an ERR packet reports one.
    pub(in super::super) errors: u16,
    place: Where,
}

/// Where the conditions are that `SHOW WARNINGS` shows.
#[derive(Debug, Default)]
enum Where {
    /// There are none, or they are lost.
    #[default]
    Nowhere,
    /// On the leased connection.
    Here,
    /// On a connection that was given back.
    Left(Left),
    /// An error of Narrows' own: its row in `SHOW WARNINGS`; empty if the session keeps no errors.
    Own(Box<[u8]>),
}

/// How many conditions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    warnings: u16,
    errors: u16,
}

/// One condition, as in a row of `SHOW WARNINGS`.
pub(super) struct Condition {
    pub(super) code: u16,
    pub(super) message: Vec<u8>,
}

impl Conditions {
    /// Takes over what an answer reports about conditions.
    pub(in super::super) fn note(
        &mut self,
        command: Command,
        statement: &Statement,
        text: &[u8],
        family: Family,
        outcome: &Outcome,
    ) {
        let Some(counts) = left_by((command, statement), text, family, outcome) else { return };
        let runs_others = matches!(statement.kind, Kind::Call | Kind::Execute);
        if runs_others && family == Family::MariaDb && self.are_here() && counts.warnings == 0 {
            // Only the connection knows whether the text reads a table, and such statements tie the session to it.
            return;
        }
        let place = if counts.warnings > 0 { Where::Here } else { Where::Nowhere };
        *self = Conditions { warnings: counts.warnings, errors: counts.errors, place };
    }

    /// A statement was answered with an error of Narrows' own. If it is not `kept`, it is counted and not shown.
    pub(super) fn note_own_error(&mut self, errno: Errno, text: &str, kept: bool) {
        let mut row = Vec::with_capacity(16 + text.len());
        for cell in [b"Error", errno.number.to_string().as_bytes(), text.as_bytes()] {
            put_lenenc_bytes(&mut row, cell);
        }
        if !kept {
            row.clear();
        }
        *self = Conditions { warnings: 1, errors: 1, place: Where::Own(row.into()) };
    }

    /// After an error that the session does not keep: `errors` is the server's count.
    pub(in super::super) fn note_uncounted_error(&mut self, errors: u64) {
        let errors = u16::try_from(errors).unwrap_or(u16::MAX);
        *self = Conditions { warnings: errors, errors, place: Where::Nowhere };
    }

    /// Whether the leased connection has them. If not, its conditions must be cleared before it is asked for warnings: they
    /// are those of another session, or of our own assignments.
    pub(in super::super) fn are_here(&self) -> bool {
        matches!(self.place, Where::Here)
    }

    /// The connection that was given back with them.
    pub(super) fn left(&self) -> Option<&Left> {
        if let Where::Left(left) = &self.place { Some(left) } else { None }
    }

    /// The row of an error of Narrows' own; empty if the session does not keep it.
    pub(super) fn own(&self) -> Option<&[u8]> {
        if let Where::Own(row) = &self.place { Some(row) } else { None }
    }

    pub(super) fn leave(&mut self, left: &Left) {
        if self.are_here() {
            self.place = Where::Left(left.clone());
        }
    }

    pub(super) fn meet(&mut self, is_there: impl Fn(&Left) -> bool) {
        match &self.place {
            Where::Left(left) if is_there(left) => self.place = Where::Here,
            Where::Here => self.place = Where::Nowhere,
            _ => {}
        }
    }

    pub(super) fn forget_here(&mut self) {
        if self.are_here() {
            self.place = Where::Nowhere;
        }
    }
}

/// The conditions after a command; `None`: those of the previous statement.
fn left_by(
    (command, statement): (Command, &Statement),
    text: &[u8],
    family: Family,
    outcome: &Outcome,
) -> Option<Counts> {
    if !statement.flags.intersects(Flags::MULTI) {
        return left_by_one(command, statement, text, family, (outcome.warnings, outcome.error));
    }
    let mut left = None;
    let mut before = outcome.warnings_before.iter();
    for (one, statement) in narrows_sql::parts(text, Escapes::Backslash) {
        let warnings = before.next();
        let told = warnings.map_or((outcome.warnings, outcome.error), |warnings| (*warnings, None));
        left = left_by_one(command, &statement, one, family, told).or(left);
        if warnings.is_none() {
            break;
        }
    }
    left
}

/// The same for one statement. A statement that asks for conditions keeps them; on MariaDB so does any statement that
/// reads no table and has no condition of its own.
fn left_by_one(
    command: Command,
    statement: &Statement,
    text: &[u8],
    family: Family,
    (warnings, error): (u16, Option<u16>),
) -> Option<Counts> {
    let counts = match error {
        Some(_) => Counts { warnings: 1, errors: 1 },
        None => Counts { warnings, errors: 0 },
    };
    let asks = asks_conditions(statement) && statement.kind != Kind::Select;
    if error.is_none() && (asks || command == Command::InitDb) {
        return None;
    }
    if family == Family::MySql || counts.warnings > 0 {
        return Some(counts);
    }
    (!keeps_conditions_on_mariadb(text, statement)).then_some(counts)
}

/// Whether a row of `SHOW WARNINGS` is about an error.
pub(super) fn is_error(row: &[u8]) -> bool {
    Reader::new(row).lenenc_bytes().is_ok_and(|level| level == b"Error")
}

pub(super) fn condition(row: &[u8]) -> Option<Condition> {
    let mut reader = Reader::new(row);
    let _level = reader.lenenc_bytes().ok()?;
    let code = std::str::from_utf8(reader.lenenc_bytes().ok()?).ok()?.parse().ok()?;
    Some(Condition { code, message: reader.lenenc_bytes().ok()?.to_vec() })
}
