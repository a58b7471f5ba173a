//! What a statement is, as far as routing and pinning need to know.

/// The kind of a statement. Anything not recognised is [`Kind::Other`], for which nothing may be assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `SELECT`, `TABLE t`, `VALUES ROW(..)`, also in parentheses or after `WITH`.
    Select,
    /// `INSERT`.
    Insert,
    /// `REPLACE`.
    Replace,
    /// `UPDATE`, also after `WITH`.
    Update,
    /// `DELETE`, also after `WITH`.
    Delete,
    /// `CALL`: a stored procedure may do anything.
    Call,
    /// `DO expr`.
    Do,
    /// `SET ..` other than those below; see [`crate::set::parse`].
    Set,
    /// `SET [GLOBAL | SESSION | LOCAL] TRANSACTION ..`; see [`crate::set::parse`].
    SetTransaction,
    /// `SET STATEMENT .. FOR ..` (MariaDB): runs the statement after `FOR`, which may be of any kind.
    SetStatement,
    /// `USE db`; see [`crate::use_schema`].
    Use,
    /// `SHOW ..` other than warnings.
    Show,
    /// `SHOW WARNINGS`, `SHOW ERRORS`, `SHOW COUNT(*) WARNINGS`, `SHOW COUNT(*) ERRORS`.
    ShowWarnings,
    /// `EXPLAIN`, `DESCRIBE`, `DESC` that only plans or lists columns.
    Explain,
    /// `EXPLAIN ANALYZE ..`, and MariaDB's `ANALYZE SELECT ..`: the statement is executed.
    ExplainAnalyze,
    /// `BEGIN [WORK]`, `START TRANSACTION`.
    Begin,
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK` of the whole transaction.
    Rollback,
    /// `SAVEPOINT name`.
    Savepoint,
    /// `RELEASE SAVEPOINT name`.
    ReleaseSavepoint,
    /// `ROLLBACK TO [SAVEPOINT] name`.
    RollbackToSavepoint,
    /// `XA ..`.
    Xa,
    /// `LOCK TABLE[S]`.
    LockTables,
    /// `UNLOCK TABLE[S]`.
    UnlockTables,
    /// `LOCK INSTANCE FOR BACKUP` (MySQL), `BACKUP LOCK`, `BACKUP STAGE` (MariaDB).
    LockInstance,
    /// `UNLOCK INSTANCE`, `BACKUP UNLOCK`.
    UnlockInstance,
    /// `FLUSH TABLES [..] WITH READ LOCK`, `FLUSH TABLES .. FOR EXPORT`: held until `UNLOCK TABLES`.
    FlushTablesWithReadLock,
    /// `FLUSH ..` otherwise.
    Flush,
    /// `CREATE [OR REPLACE] TEMPORARY ..`.
    CreateTemporaryTable,
    /// `DROP TEMPORARY ..`.
    DropTemporaryTable,
    /// `DROP TABLE[S]`: may drop temporary tables too.
    DropTable,
    /// `CREATE ..` otherwise.
    Create,
    /// `ALTER ..`.
    Alter,
    /// `DROP ..` otherwise.
    Drop,
    /// `TRUNCATE`.
    Truncate,
    /// `RENAME ..`.
    Rename,
    /// `PREPARE name FROM ..`: the statement lives on one connection.
    Prepare,
    /// `EXECUTE name`, `EXECUTE IMMEDIATE`.
    Execute,
    /// `DEALLOCATE PREPARE`, `DROP PREPARE`.
    Deallocate,
    /// `KILL ..`; see [`crate::kill_target`].
    Kill,
    /// `LOAD DATA` and `LOAD XML` of a file on the server.
    LoadData,
    /// `LOAD DATA LOCAL`, `LOAD XML LOCAL`: the server asks the client for the file.
    LoadDataLocal,
    /// `HANDLER ..`: cursors that live on one connection.
    Handler,
    /// `GET [CURRENT | STACKED] DIAGNOSTICS`: reads what the previous statement left.
    GetDiagnostics,
    /// `SIGNAL`, `RESIGNAL`.
    Signal,
    /// `GRANT`, `REVOKE`.
    Grant,
    /// Maintenance of tables and servers: `ANALYZE TABLE`, `OPTIMIZE`, `CHECK`, `REPAIR`, `CHECKSUM`, `CACHE INDEX`,
    /// `CHANGE`, `START`/`STOP` of replication, `RESET`, `PURGE`, `INSTALL`, `SHUTDOWN` and similar.
    Admin,
    /// `PROXYSQL ..`: for the proxy itself.
    Proxy,
    /// Only blanks, comments or `;`.
    Empty,
    /// Anything else: nothing may be assumed.
    Other,
}
