//! What the text of a statement tells about the information functions after it.

use narrows_sql::{Flags, Kind, Statement, has_select, shows_by_select};
use narrows_wire::charset::Family;

use super::relay::Outcome;

/// Whether a statement may set what `LAST_INSERT_ID()` answers, and its answer tell nothing of it, or another id: one that
/// was given explicitly.
pub(super) fn may_set_an_id(statement: &Statement) -> bool {
    let inserts = matches!(
        statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Call
            | Kind::Execute
            | Kind::Other
    );
    (inserts || statement.flags.intersects(Flags::MULTI))
        && !statement.flags.intersects(Flags::LAST_INSERT_ID)
}

/// Whether the rows of an answer are what `FOUND_ROWS()` is from then on: servers count those of a `SELECT`, and of a
/// `SHOW` that they make one of. What other statements do to it is not defined.
pub(super) fn sets_found_rows(statement: &Statement, text: &[u8]) -> bool {
    match statement.kind {
        Kind::Select | Kind::Execute => true,
        _ => shows_by_select(text, statement),
    }
}

/// What statements without rows make of `FOUND_ROWS()`. The manual calls it undefined; this is what servers do, seen on
/// MySQL 9.7 and MariaDB 10.11.
pub(super) fn found_besides(
    statement: &Statement,
    text: &[u8],
    family: Family,
    outcome: &Outcome,
) -> Option<u64> {
    match (statement.kind, family) {
        (Kind::Do, Family::MySql) => Some(1),
        (Kind::Update, Family::MySql) => outcome.counted,
        (Kind::Insert | Kind::Replace, _) if has_select(text) => outcome.counted,
        (Kind::Create | Kind::CreateTemporaryTable, Family::MariaDb) if has_select(text) => outcome.counted,
        _ => None,
    }
}
