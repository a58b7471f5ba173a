//! Which statements may be part of a transaction that is run again, and which errors leave a transaction open.

use narrows_sql::set::{Assignment, TransactionScope};
use narrows_sql::{Flags, Kind, Statement};

use super::super::lost::sets_only_the_session;

/// Why a statement cannot be run again in a transaction. `None`: it changes nothing but tables and the session's own state, both
/// of which are lost with its connection, and it does not end the transaction.
pub(in super::super) fn refusal(statement: &Statement, text: &[u8]) -> Option<&'static str> {
    const SEVERAL: &str = "it has several statements in one text";
    let flags = statement.flags;
    if flags.intersects(Flags::MULTI) {
        return Some(SEVERAL);
    }
    if flags.intersects(Flags::UNSURE | Flags::UNTERMINATED) {
        return Some("servers may read one of its statements in different ways");
    }
    if flags.intersects(Flags::INTO_OUTFILE) {
        return Some("it writes a file on the server");
    }
    if flags.intersects(Flags::GET_LOCK | Flags::RELEASE_LOCK | Flags::RELEASE_ALL_LOCKS) {
        return Some("it uses user locks");
    }
    match statement.kind {
        Kind::Select
        | Kind::Insert
        | Kind::Replace
        | Kind::Update
        | Kind::Delete
        | Kind::Do
        | Kind::Show
        | Kind::ShowWarnings
        | Kind::Explain
        | Kind::Use
        | Kind::Begin
        | Kind::Savepoint
        | Kind::ReleaseSavepoint
        | Kind::RollbackToSavepoint
        | Kind::Empty => None,
        Kind::Set if sets_only_the_session(statement, text) && !names_autocommit(text) => None,
        Kind::Set => Some("it sets something that is not the session's own, or not to a value"),
        Kind::SetTransaction if is_global(text) => Some("it sets something that is not the session's own"),
        Kind::SetTransaction => None,
        Kind::LoadData | Kind::LoadDataLocal => Some("it loads a file"),
        Kind::Call | Kind::Execute | Kind::SetStatement => {
            Some("it runs a stored routine or a prepared text")
        }
        Kind::Commit | Kind::Rollback => Some("it is one of several in a chain"),
        _ => Some("it has a statement that may commit, or that leaves something on the server"),
    }
}

/// Whether an error may have ended the transaction: a deadlock has, a duplicate key has not. Only errors about a statement's own
/// text, rights or values are known to leave it open.
pub(in super::super) fn may_have_ended(error: u16) -> bool {
    !KEEPS.contains(&error)
}

fn names_autocommit(text: &[u8]) -> bool {
    narrows_sql::set::counted(text).autocommit
}

fn is_global(text: &[u8]) -> bool {
    let is_of_others = |assignment: &Assignment| {
        matches!(assignment, Assignment::Transaction { scope: TransactionScope::Global, .. })
    };
    narrows_sql::set::parse(text).map_or(true, |assignments| assignments.iter().any(is_of_others))
}

/// Errors that undo at most their statement (manual: "InnoDB Error Handling"): rights, names, syntax, keys, values, and locks that
/// are not waited for.
const KEEPS: &[u16] = &[
    1044, 1046, 1048, 1051, 1052, 1054, 1055, 1056, 1060, 1061, 1062, 1064, 1066, 1109, 1136, 1140, 1142,
    1143, 1146, 1149, 1169, 1216, 1217, 1222, 1241, 1242, 1264, 1265, 1292, 1305, 1318, 1364, 1365, 1366,
    1370, 1406, 1411, 1451, 1452, 1525, 1557, 1586, 1644, 1690, 1761, 1762, 3140, 3572, 3819, 4025,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<&'static str> {
        refusal(&narrows_sql::classify(text.as_bytes()), text.as_bytes())
    }

    #[test]
    fn statements_that_touch_tables_and_the_session_are_run_again() {
        for text in [
            "BEGIN",
            "START TRANSACTION READ ONLY",
            "SELECT * FROM t WHERE id = 1 FOR UPDATE",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "INSERT INTO t VALUES (NOW(), RAND(), UUID())",
            "REPLACE INTO t VALUES (1)",
            "UPDATE t SET a = a + 1",
            "DELETE FROM t",
            "SAVEPOINT a",
            "ROLLBACK TO SAVEPOINT a",
            "RELEASE SAVEPOINT a",
            "SET @x = 5, sql_mode = 'ANSI'",
            "SET NAMES utf8mb4",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "USE shop",
            "SHOW WARNINGS",
            "/* nothing */",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_commits_or_leaves_the_transaction_is_not() {
        for text in [
            "COMMIT",
            "COMMIT AND CHAIN",
            "ROLLBACK AND CHAIN",
            "SET autocommit = 1",
            "SET @@session.autocommit = 1",
            "SET GLOBAL sort_buffer_size = 1",
            "SET @x = (SELECT 1)",
            "SET GLOBAL TRANSACTION READ ONLY",
            "SET PASSWORD = 'x'",
            "CREATE TABLE t (a INT)",
            "CREATE TEMPORARY TABLE t (a INT)",
            "DROP TABLE t",
            "TRUNCATE t",
            "LOCK TABLES t READ",
            "UNLOCK TABLES",
            "CALL p()",
            "PREPARE s FROM 'COMMIT'",
            "EXECUTE s",
            "XA START 'x'",
            "HANDLER t OPEN",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "SELECT 1 INTO OUTFILE 'x'",
            "SELECT GET_LOCK('a', 1)",
            "INSERT INTO t VALUES (1); COMMIT",
            "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
            "ANALYZE TABLE t",
            "FLUSH TABLES",
            "GRANT SELECT ON t TO u",
            "SELECT 'a",
            "/*!80000 COMMIT */",
            "/*M! COMMIT */",
            "/*! COMMIT */",
            "SELECT 1 /*!80000 ; COMMIT */",
            "WHATEVER",
        ] {
            assert!(of(text).is_some(), "{text}");
        }
    }

    #[test]
    fn only_errors_about_the_statement_itself_leave_a_transaction_open() {
        for error in [1062, 1064, 1146, 1452, 3819] {
            assert!(!may_have_ended(error), "{error}");
        }
        for error in [1205, 1206, 1213, 1317, 1180, 1020, 3101, 1614, 2013] {
            assert!(may_have_ended(error), "{error}");
        }
    }
}
