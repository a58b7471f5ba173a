//! How certain it is that a server reads a text as Narrows does.

use narrows_sql::set::{Assignment, Scope, Value};
use narrows_sql::{Doubt, Flags, Kind, Statement, Writing, reads_surely};
use narrows_wire::Status;

use crate::state::SessionState;

/// Why servers may run something other than what a statement's digest shows; `cut`: part of it is not in the digest.
pub(super) fn doubt_of(
    state: &SessionState,
    status: Status,
    statement: &Statement,
    (text, cut): (&[u8], bool),
) -> Option<Doubt> {
    if cut || statement.flags.intersects(Flags::UNTERMINATED | Flags::UNSURE) {
        // Unless there is a more precise reason.
        return Some(reads_surely(text, writing(state, status)).err().unwrap_or(Doubt::Cut));
    }
    reads_surely(text, writing(state, status)).err()
}

/// The settings that affect how a session's texts are read.
fn writing(state: &SessionState, status: Status) -> Writing<'_> {
    Writing {
        charset: state.literal("character_set_client").map(|literal| literal.trim_matches('\'')),
        plain_backslash: status.contains(Status::NO_BACKSLASH_ESCAPES),
    }
}

/// Statements that only affect the session, or end what was allowed to begin: `USE`, `SET NAMES`, `SET autocommit`,
/// `COMMIT`, `ROLLBACK`.
pub(super) fn is_housekeeping(statement: &Statement, text: &[u8]) -> bool {
    if statement.flags.contains(Flags::MULTI) {
        return false;
    }
    match statement.kind {
        Kind::Use | Kind::Commit | Kind::Rollback => true,
        Kind::Set => narrows_sql::set::parse(text).is_ok_and(|assignments| {
            assignments.iter().all(|assignment| match assignment {
                Assignment::Names { .. } => true,
                Assignment::System { scope: Scope::Session, name, value } => {
                    name == "autocommit" && !matches!(value, Value::Expression(_))
                }
                _ => false,
            })
        }),
        _ => false,
    }
}

/// How a text with escaped quotes or non-ASCII bytes is classified with these settings: as read, or as anything.
pub(crate) fn read_otherwise(
    state: &SessionState,
    status: Status,
    text: &[u8],
    statement: Statement,
) -> Statement {
    let literal = |name| state.literal(name).map(|literal: &str| literal.trim_matches('\''));
    let escaped = statement.flags.contains(Flags::ESCAPED_QUOTE);
    let ansi_quotes = || {
        // `ANSI`, and those that stand for several modes, of which it is one.
        let modes = literal("sql_mode").unwrap_or_default().split(',');
        let quotes = ["ANSI", "ANSI_QUOTES", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];
        modes.into_iter().any(|mode| quotes.iter().any(|one| mode.trim().eq_ignore_ascii_case(one)))
    };
    let ends_elsewhere = escaped
        && (status.contains(Status::NO_BACKSLASH_ESCAPES)
            || statement.flags.contains(Flags::ESCAPED_DOUBLE_QUOTE) && ansi_quotes());
    let by_charset =
        literal("character_set_client").is_some_and(|charset| narrows_sql::charset_matters(text, charset));
    if !ends_elsewhere && !by_charset {
        return statement;
    }
    // Where its parts begin is also in doubt: it is treated as one statement that may do anything.
    let mut flags = statement.flags.without(Flags::MULTI) | Flags::UNSURE;
    if narrows_sql::names_kill(text) {
        flags |= Flags::KILL;
    }
    Statement { kind: Kind::Call, flags }
}
