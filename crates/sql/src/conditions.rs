//! Warnings and errors of earlier statements: what `SHOW WARNINGS` requests, and which statements keep them in MariaDB.

use crate::flags::Flags;
use crate::found_rows::shows_by_select;
use crate::kind::Kind;
use crate::statement::Statement;
use crate::token::{Escapes, Lexer, Token, TokenKind};

/// What a `SHOW WARNINGS`, a `SHOW ERRORS` or a count of either requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownConditions {
    /// `COUNT(*)`: how many there are.
    pub counts: bool,
    /// Only errors.
    pub errors_only: bool,
    /// Rows that its `LIMIT` skips.
    pub offset: usize,
    /// The most rows that its `LIMIT` allows.
    pub limit: usize,
}

/// Parses a statement of [`Kind::ShowWarnings`].
#[must_use]
pub fn shown_conditions(query: &[u8]) -> ShownConditions {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let mut shown = ShownConditions { counts: false, errors_only: false, offset: 0, limit: usize::MAX };
    loop {
        let token = lexer.next();
        if token.ends_statement() {
            return shown;
        }
        shown.counts |= token.is_word("COUNT");
        shown.errors_only |= token.is_word("ERRORS");
        if token.is_word("LIMIT") {
            (shown.offset, shown.limit) = limit(&mut lexer);
            return shown;
        }
    }
}

/// After `LIMIT`: the rows to skip, and those to show.
fn limit(lexer: &mut Lexer<'_>) -> (usize, usize) {
    let number = |token: Token<'_>| std::str::from_utf8(token.text).ok()?.parse::<usize>().ok();
    let Some(first) = number(lexer.next()) else { return (0, usize::MAX) };
    let between = lexer.next();
    if between.is_symbol(b',') {
        (first, number(lexer.next()).unwrap_or(usize::MAX))
    } else if between.is_word("OFFSET") {
        (number(lexer.next()).unwrap_or_default(), first)
    } else {
        (0, first)
    }
}

/// Whether MariaDB keeps the conditions of the previous statement: only statements with a table clear them.
#[must_use]
pub fn keeps_conditions_on_mariadb(query: &[u8], statement: &Statement) -> bool {
    match statement.kind {
        Kind::Select | Kind::Do | Kind::Set | Kind::SetStatement | Kind::Explain => {
            !statement.flags.intersects(Flags::FROM)
        }
        Kind::Use | Kind::SetTransaction | Kind::UnlockTables | Kind::Flush | Kind::Kill | Kind::Grant => {
            true
        }
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Xa | Kind::Empty => true,
        Kind::Savepoint | Kind::ReleaseSavepoint | Kind::RollbackToSavepoint => true,
        Kind::Prepare | Kind::Deallocate => true,
        Kind::Create | Kind::Drop => {
            const WITHOUT_TABLES: &[&str] = &["DATABASE", "SCHEMA", "USER", "ROLE", "PROCEDURE", "FUNCTION"];
            words(query).take(4).any(|word| word.is_any(WITHOUT_TABLES))
        }
        Kind::Show => {
            !shows_by_select(query, statement) && !words(query).any(|word| word.is_any(&["TABLE", "VIEW"]))
        }
        _ => false,
    }
}

fn words(query: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    let tokens = std::iter::from_fn(move || Some(lexer.next()).filter(|token| token.kind != TokenKind::End));
    tokens.filter(|token| token.kind == TokenKind::Word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    #[test]
    fn reads_what_is_shown() {
        for (query, counts, errors_only, offset, limit) in [
            ("SHOW WARNINGS", false, false, 0, usize::MAX),
            ("show /* ERRORS LIMIT 1 */ warnings limit 3", false, false, 0, 3),
            ("SHOW ERRORS LIMIT 2,3;", false, true, 2, 3),
            ("SHOW ERRORS LIMIT 3 OFFSET 2 -- a", false, true, 2, 3),
            ("SHOW COUNT(*) ERRORS", true, true, 0, usize::MAX),
            ("SHOW count ( * ) WARNINGS", true, false, 0, usize::MAX),
            ("SHOW WARNINGS LIMIT ?", false, false, 0, usize::MAX),
            ("SHOW WARNINGS; SHOW ERRORS", false, false, 0, usize::MAX),
        ] {
            let expected = ShownConditions { counts, errors_only, offset, limit };
            assert_eq!(shown_conditions(query.as_bytes()), expected, "{query}");
        }
    }

    #[test]
    fn statements_without_tables_keep_conditions_on_mariadb() {
        let keeps = |query: &str| keeps_conditions_on_mariadb(query.as_bytes(), &classify(query.as_bytes()));
        for query in [
            "SELECT 1",
            "SELECT 'a FROM t' -- FROM t",
            "DO 1",
            "SET @a = 1",
            "USE shop",
            "COMMIT",
            "PREPARE p FROM 'SELECT 1'",
            "create or replace /* a */ procedure p() SELECT 1",
            "DROP DATABASE shop",
            "SHOW GRANTS",
            "SHOW CREATE DATABASE shop",
        ] {
            assert!(keeps(query), "{query}");
        }
        for query in [
            "SELECT 1 FROM t",
            "SET @a = (SELECT 1 FROM t)",
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE t (n INT)",
            "DROP TABLE t",
            "SHOW TABLES",
            "SHOW CREATE TABLE t",
            "SHOW CREATE/* a */VIEW v",
        ] {
            assert!(!keeps(query), "{query}");
        }
    }
}
