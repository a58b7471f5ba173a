//! What a statement means for the transaction of a session that has autocommit off.
//!
//! A server's status flags do not show everything: a read of a non-transactional table, a failing statement and a first
//! `SAVEPOINT` do not set `SERVER_STATUS_IN_TRANS`, and yet metadata locks or a name stay until the transaction ends.

use crate::flags::Flags;
use crate::kind::Kind;
use crate::set::for_one_statement;
use crate::statement::{Statement, parts};
use crate::token::{Escapes, Lexer, TokenKind};
use crate::words::says;

/// What a statement that ran with autocommit off does to the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It may have locked metadata, taken a snapshot, written, or set a savepoint: a transaction is open after it.
    Opens,
    /// It ends the transaction.
    Ends,
    /// Neither, as far as is known.
    Keeps,
}

/// What `query`, classified as `statement`, does to the transaction if autocommit is off. Statements that commit
/// implicitly (`ALTER TABLE`) are [`Effect::Keeps`]: the text does not show whether one has.
#[must_use]
pub fn effect_on_transaction(query: &[u8], statement: Statement) -> Effect {
    if statement.flags.contains(Flags::MULTI) {
        let effects =
            parts(query, Escapes::Backslash).map(|(part, statement)| effect_of_one(part, statement));
        return effects.filter(|effect| *effect != Effect::Keeps).last().unwrap_or(Effect::Keeps);
    }
    effect_of_one(query, statement)
}

fn effect_of_one(query: &[u8], statement: Statement) -> Effect {
    let opens = |opens: bool| if opens { Effect::Opens } else { Effect::Keeps };
    match statement.kind {
        Kind::Commit | Kind::Rollback => Effect::Ends,
        Kind::Select | Kind::Do | Kind::Set | Kind::SetTransaction => opens(names_tables(query, statement)),
        Kind::Show => opens(shows_a_table(query)),
        Kind::SetStatement => match for_one_statement(query, Escapes::Backslash) {
            // The values may be expressions.
            Some(it) if !names_tables(it.settings, statement) => effect_of_one(it.text, it.statement),
            _ => Effect::Opens,
        },
        Kind::Insert
        | Kind::Replace
        | Kind::Update
        | Kind::Delete
        | Kind::Call
        | Kind::Explain
        | Kind::ExplainAnalyze
        | Kind::Begin
        | Kind::Savepoint
        | Kind::Xa
        | Kind::CreateTemporaryTable
        | Kind::DropTemporaryTable
        | Kind::Execute
        | Kind::LoadData
        | Kind::LoadDataLocal
        | Kind::Handler
        | Kind::Admin
        | Kind::Other => Effect::Opens,
        Kind::Use
        | Kind::ShowWarnings
        | Kind::ReleaseSavepoint
        | Kind::RollbackToSavepoint
        | Kind::LockTables
        | Kind::UnlockTables
        | Kind::LockInstance
        | Kind::UnlockInstance
        | Kind::FlushTablesWithReadLock
        | Kind::Flush
        | Kind::DropTable
        | Kind::Create
        | Kind::Alter
        | Kind::Drop
        | Kind::Truncate
        | Kind::Rename
        | Kind::Prepare
        | Kind::Deallocate
        | Kind::Kill
        | Kind::GetDiagnostics
        | Kind::Signal
        | Kind::Grant
        | Kind::Proxy
        | Kind::Empty => Effect::Keeps,
    }
}

/// Whether `query` only reads, and may do so outside of the transaction that it would begin with autocommit off: it
/// takes no locks, leaves nothing on its connection that a built-in function would leave, and does not read whether
/// autocommit is on. A stored function may do anything; if a read calls one, the caller asserts that it only reads.
///
/// The ends of strings are read as with [`Escapes::Backslash`]; see [`Flags::ESCAPED_QUOTE`].
#[must_use]
pub fn reads_apart(query: &[u8], statement: Statement) -> bool {
    if statement.flags.contains(Flags::MULTI) {
        return parts(query, Escapes::Backslash).all(|(part, statement)| one_reads_apart(part, statement));
    }
    one_reads_apart(query, statement)
}

fn one_reads_apart(query: &[u8], statement: Statement) -> bool {
    const CALLS: Flags = Flags::FUNCTION_CALL_UNKNOWN.union(Flags::SERVER_FUNCTION);
    const LEAVES: Flags = Flags::EFFECTS.without(CALLS).union(Flags::FOR_UPDATE);
    if statement.flags.intersects(LEAVES) {
        return false;
    }
    match statement.kind {
        Kind::Select if statement.flags.contains(Flags::SYSTEM_VARIABLE) => !says(query, b"autocommit"),
        Kind::Select => !says(query, b"session_variables"),
        Kind::Show => !says(query, b"variables"),
        Kind::Explain => true,
        _ => false,
    }
}

/// Whether a statement that is an expression, or consists of expressions, reads a table. When in doubt, it does.
fn names_tables(query: &[u8], statement: Statement) -> bool {
    const UNSURE: Flags = Flags::FUNCTION_CALL_UNKNOWN
        .union(Flags::SERVER_FUNCTION)
        .union(Flags::ESCAPED_QUOTE)
        .union(Flags::UNTERMINATED)
        .union(Flags::EXECUTABLE_COMMENT);
    if statement.flags.intersects(UNSURE) {
        return true;
    }
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return false;
        }
        if token.is_word("TABLE") {
            return true;
        }
        if token.is_word("FROM") {
            let mut ahead = lexer.clone();
            let no_table = match ahead.next() {
                name if name.is_word("DUAL") => !ahead.next().is_symbol(b','),
                // The server takes no metadata locks for these, and its flag shows what it reads in a transaction.
                name if name.is_word("INFORMATION_SCHEMA") => is_one_table_alone(&mut ahead),
                _ => false,
            };
            if !no_table {
                return true;
            }
        }
    }
}

/// Whether `.name` comes next, and no other table after that. When in doubt, another one does.
fn is_one_table_alone(lexer: &mut Lexer<'_>) -> bool {
    let dot = lexer.next();
    lexer.next();
    let after = lexer.next();
    let ends = matches!(after.kind, TokenKind::End) || after.is_any(&["WHERE", "GROUP", "ORDER", "LIMIT"]);
    dot.is_symbol(b'.') && (ends || after.is_symbol(b')') || after.is_symbol(b';'))
}

/// Whether a `SHOW` describes the columns or indexes of a table, which MySQL opens as for a `SELECT`.
fn shows_a_table(query: &[u8]) -> bool {
    let mut lexer = Lexer::new(query, Escapes::Backslash);
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return false;
        }
        if token.is_any(&["COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS"]) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::classify;

    fn effect(query: &str) -> Effect {
        effect_on_transaction(query.as_bytes(), classify(query.as_bytes()))
    }

    fn apart(query: &str) -> bool {
        reads_apart(query.as_bytes(), classify(query.as_bytes()))
    }

    #[test]
    fn what_touches_tables_opens_a_transaction() {
        for query in [
            "SELECT a FROM t",
            "(SELECT a FROM t)",
            "TABLE t",
            "SELECT 1 UNION TABLE t",
            "SELECT 1 FROM DUAL, t",
            "SELECT 1 FROM information_schema.tables, t",
            "SELECT 1 FROM information_schema.tables x JOIN t",
            "SELECT 1 FROM information_schema.tables JOIN t",
            "SELECT 1 FROM information_schema",
            "SELECT 1 FROM information_schema.tables WHERE 1 IN (SELECT a FROM t)",
            "SELECT (SELECT 1 FROM t)",
            "SELECT stored(1)",
            "SET @a = (SELECT MAX(a) FROM t)",
            "DO (SELECT 1 FROM t)",
            "INSERT INTO t VALUES (1)",
            "SAVEPOINT a",
            "EXPLAIN SELECT 1",
            "SHOW COLUMNS FROM t",
            "CALL p()",
            "CHECKSUM TABLE t",
            "SET STATEMENT max_statement_time=5 FOR SELECT a FROM t",
            "SET STATEMENT sort_buffer_size=(SELECT a FROM t) FOR SELECT 1",
            "SET STATEMENT max_statement_time=5 FOR SET STATEMENT sql_mode='' FOR INSERT INTO t VALUES (1)",
            "SET STATEMENT max_statement_time 5 FOR SELECT 1",
            "COMMIT; SELECT a FROM t",
            "BEGIN",
        ] {
            assert_eq!(effect(query), Effect::Opens, "{query}");
        }
    }

    #[test]
    fn what_touches_none_does_not() {
        for query in [
            "SELECT 1",
            "SELECT 1 FROM DUAL",
            "SELECT WORD FROM INFORMATION_SCHEMA.KEYWORDS WHERE RESERVED = 1 ORDER BY WORD",
            "SELECT 'FROM t'",
            "SELECT @@version, DATABASE()",
            "SET NAMES utf8mb4",
            "SET autocommit = 0",
            "SHOW VARIABLES LIKE 'a%'",
            "SHOW WARNINGS",
            "USE shop",
            "ROLLBACK TO a",
            "ALTER TABLE t ADD b INT",
            "SELECT 1; SELECT 2",
            "SET STATEMENT max_statement_time=5 FOR SELECT 1",
            "SET STATEMENT max_statement_time=5, sql_mode='' FOR SHOW TABLES",
        ] {
            assert_eq!(effect(query), Effect::Keeps, "{query}");
        }
        for query in [
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK WORK",
            "SELECT a FROM t; COMMIT",
            "SET STATEMENT max_statement_time=5 FOR COMMIT",
        ] {
            assert_eq!(effect(query), Effect::Ends, "{query}");
        }
    }

    #[test]
    fn reads_that_need_no_transaction_are_told_from_others() {
        for query in [
            "SELECT a FROM t",
            "select 'for update'",
            "SELECT @@version",
            "SELECT autocommit FROM settings",
            "SHOW TABLES",
            "EXPLAIN SELECT a FROM t",
            "SELECT FOUND_ROWS()",
            "SELECT a FROM t; SELECT b FROM t",
            "SELECT stored(a) FROM t",
            "WITH x AS (SELECT 1) SELECT * FROM x",
        ] {
            assert!(apart(query), "{query}");
        }
        for query in [
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t FOR SHARE",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a FROM t FOR UPDATE SKIP LOCKED",
            "SELECT a INTO @a FROM t",
            "SELECT a INTO OUTFILE '/tmp/a' FROM t",
            "SELECT GET_LOCK('a', 1)",
            "SELECT @a := 1",
            "SELECT @@autocommit",
            "SELECT @@SESSION.AutoCommit",
            "SHOW VARIABLES",
            "SELECT * FROM performance_schema.session_variables",
            "SELECT a FROM t; DELETE FROM t",
            "INSERT INTO t SELECT a FROM t",
            "EXPLAIN ANALYZE SELECT a FROM t",
            "SAVEPOINT a",
            "COMMIT",
        ] {
            assert!(!apart(query), "{query}");
        }
    }
}
