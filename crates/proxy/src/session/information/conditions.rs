//! Warnings and errors of earlier statements: `SHOW WARNINGS`, `@@warning_count`, `GET DIAGNOSTICS`.
//!
//! They are on the connection that ran the statement, or were collected from it by the next session, or are an error of
//! Narrows' own. The protocol reports how many there are; their contents are fetched only if a client asks, or if another
//! session leases the connection.

use std::cell::Cell;

use narrows_sql::{
    Earlier, Escapes, Flags, Kind, Statement, earlier_conditions_on_mariadb, earlier_conditions_on_mysql,
};
use narrows_wire::charset::Family;
use narrows_wire::codec::put_lenenc_bytes;
use narrows_wire::{Command, Errno, Reader};

use super::super::outcome::Outcome;
use super::Left;

/// How many conditions the last statement has, and where they are.
#[derive(Debug, Default)]
pub(in super::super) struct Conditions {
    /// `@@warning_count`, as far as the protocol reports it.
    pub(in super::super) warnings: u16,
    /// `@@error_count`, as far as the protocol reports it: an ERR packet reports one.
    pub(in super::super) errors: u16,
    /// The SQLSTATE of the error that ended the statement.
    sqlstate: Option<[u8; 5]>,
    place: Where,
    /// One like them was raised on the leased connection, for the next statement. It may have another level: a note is raised
    /// as a warning.
    copied: bool,
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
    /// Takes over what an answer reports about conditions. `on_connection`: whether its connection may have any, and any that our
    /// own assignments have left.
    pub(in super::super) fn note(
        &mut self,
        (command, statement, text): (Command, &Statement, &[u8]),
        family: Family,
        outcome: &Outcome,
        (on_connection, own_on_connection): (&mut bool, &Cell<bool>),
    ) {
        let copied = std::mem::take(&mut self.copied);
        // None before and none of its own: whatever the statement does to earlier ones, there are none.
        let is_quiet =
            outcome.warnings == 0 && outcome.error.is_none() && !*on_connection && !own_on_connection.get();
        if is_quiet && self.are_none() && !statement.flags.intersects(Flags::MULTI) {
            return;
        }
        match left_by((command, statement), text, family, outcome) {
            After::These(counts) => {
                *on_connection = counts.warnings > 0;
                own_on_connection.set(false);
                let place = if counts.warnings > 0 { Where::Here } else { Where::Nowhere };
                let sqlstate = outcome.sqlstate.filter(|_| counts.errors > 0);
                let Counts { warnings, errors } = counts;
                *self = Conditions { warnings, errors, sqlstate, place, copied: false };
            }
            After::Earlier => {}
            After::More(errors) => {
                *on_connection = true;
                self.warnings = self.warnings.saturating_add(errors);
                self.errors = self.errors.saturating_add(errors);
                self.place = Where::Here;
            }
            After::Unknown if copied || self.are_here() || statement.flags.intersects(Flags::MULTI) => {
                // Only the connection knows, also how many there are.
                *on_connection = true;
                *self = Conditions { sqlstate: self.sqlstate, place: Where::Here, ..Conditions::default() };
            }
            After::Unknown => *self = Conditions::default(),
        }
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
        let sqlstate = Some(errno.sqlstate);
        *self = Conditions { warnings: 1, errors: 1, sqlstate, place: Where::Own(row.into()), copied: false };
    }

    /// After an error that the session does not keep: `errors` is the server's count.
    pub(in super::super) fn note_uncounted_error(&mut self, errors: u64) {
        let errors = u16::try_from(errors).unwrap_or(u16::MAX);
        *self = Conditions { warnings: errors, errors, ..Conditions::default() };
    }

    /// Whether there are none anywhere.
    fn are_none(&self) -> bool {
        self.warnings == 0 && self.errors == 0 && matches!(self.place, Where::Nowhere)
    }

    /// Whether the leased connection has them.
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

    /// The SQLSTATE of a condition.
    pub(super) fn sqlstate(&self, is_error: bool) -> &[u8] {
        match &self.sqlstate {
            _ if !is_error => b"01000",
            Some(told) => told,
            None => b"HY000",
        }
    }

    /// One like them was raised on the leased connection, for the next statement.
    pub(super) fn are_copied_here(&mut self) {
        self.copied = true;
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

/// The conditions after a statement.
enum After {
    /// Its own.
    These(Counts),
    /// Those of the statement before.
    Earlier,
    /// Those, and errors of its own, although it has succeeded.
    More(u16),
    /// They depend on what its text does not show.
    Unknown,
}

impl After {
    /// These, and more errors.
    fn and(self, more: u16) -> After {
        match self {
            After::These(Counts { warnings, errors }) => After::These(Counts {
                warnings: warnings.saturating_add(more),
                errors: errors.saturating_add(more),
            }),
            After::Earlier => After::More(more),
            After::More(errors) => After::More(errors.saturating_add(more)),
            After::Unknown => After::Unknown,
        }
    }
}

/// The conditions after a command.
fn left_by(
    (command, statement): (Command, &Statement),
    text: &[u8],
    family: Family,
    outcome: &Outcome,
) -> After {
    if !statement.flags.intersects(Flags::MULTI) {
        return left_by_one(command, statement, text, family, (outcome.warnings, outcome.error));
    }
    let mut left = After::Earlier;
    let mut before = outcome.warnings_before.iter();
    for (one, statement) in narrows_sql::parts(text, Escapes::Backslash) {
        // It may have answered with several results, so that it is not known which of them ended which statement.
        if !statement.is_certain(one) {
            return After::Unknown;
        }
        let warnings = before.next();
        let told = warnings.map_or((outcome.warnings, outcome.error), |warnings| (*warnings, None));
        left = match left_by_one(command, &statement, one, family, told) {
            After::Earlier => left,
            After::More(errors) => left.and(errors),
            After::Unknown if matches!(left, After::These(Counts { warnings: 0, .. })) => left,
            after => after,
        };
        if warnings.is_none() {
            break;
        }
    }
    left
}

/// The same for one statement. A statement that asks for conditions keeps them; on MariaDB so does any statement that
/// uses no table and has no condition of its own.
fn left_by_one(
    command: Command,
    statement: &Statement,
    text: &[u8],
    family: Family,
    (warnings, error): (u16, Option<u16>),
) -> After {
    let counts = match error {
        Some(_) => Counts { warnings: 1, errors: 1 },
        None => Counts { warnings, errors: 0 },
    };
    // A condition that does not exist.
    if error.is_none() && statement.kind == Kind::GetDiagnostics && warnings > 0 {
        return After::More(warnings);
    }
    let asks = matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics);
    if error.is_none() && (asks || command == Command::InitDb) {
        return After::Earlier;
    }
    if counts.warnings > 0 {
        return After::These(counts);
    }
    let earlier = match family {
        Family::MySql => earlier_conditions_on_mysql(text, statement),
        Family::MariaDb => earlier_conditions_on_mariadb(text, statement),
    };
    match earlier {
        Earlier::Cleared => After::These(counts),
        Earlier::Kept => After::Earlier,
        // Its text has not run.
        Earlier::Unknown if command == Command::StmtPrepare => After::Earlier,
        Earlier::Unknown => After::Unknown,
    }
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
