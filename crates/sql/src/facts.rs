//! What follows from the kind and the flags of a statement: one question, one function. Each errs on the safe side of its
//! question, and has its rows in `tests/vectors/facts.txt`.

use crate::flags::Flags;
use crate::found_rows::has_select;
use crate::kind::Kind;
use crate::statement::Statement;
use crate::words::{bare_words, says};

impl Statement {
    /// Whether it does nothing but read or write rows, in words that need no closer look: what most statements are. A caller
    /// that asks this first is spared all other questions about them.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        const HARMLESS: Flags = Flags::FROM
            .union(Flags::LIMIT)
            .union(Flags::COMMENT)
            .union(Flags::FOR_UPDATE)
            .union(Flags::SQL_NO_CACHE);
        self.flags.without(HARMLESS).is_empty()
            && matches!(self.kind, Kind::Select | Kind::Insert | Kind::Replace | Kind::Update | Kind::Delete)
    }

    /// Whether the statement runs others that its text does not show: a routine, a prepared statement, the statement in
    /// `SET STATEMENT`, or what is not known.
    #[must_use]
    pub fn runs_others(&self) -> bool {
        match self.kind {
            Kind::Select
            | Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::Do
            | Kind::Set
            | Kind::SetTransaction
            | Kind::Use
            | Kind::Show
            | Kind::ShowWarnings
            | Kind::Explain
            | Kind::ExplainAnalyze
            | Kind::Begin
            | Kind::Commit
            | Kind::Rollback
            | Kind::Savepoint
            | Kind::ReleaseSavepoint
            | Kind::RollbackToSavepoint
            | Kind::Xa
            | Kind::LockTables
            | Kind::UnlockTables
            | Kind::LockInstance
            | Kind::UnlockInstance
            | Kind::FlushTablesWithReadLock
            | Kind::Flush
            | Kind::CreateTemporaryTable
            | Kind::DropTemporaryTable
            | Kind::DropTable
            | Kind::Create
            | Kind::Alter
            | Kind::Drop
            | Kind::Truncate
            | Kind::Rename
            | Kind::Prepare
            | Kind::Deallocate
            | Kind::Kill
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Handler
            | Kind::GetDiagnostics
            | Kind::Signal
            | Kind::Grant
            | Kind::Admin
            | Kind::Proxy
            | Kind::Empty => false,
            Kind::Call | Kind::SetStatement | Kind::Execute | Kind::Other => true,
        }
    }

    /// Whether a stored program may run in the statement, also one that its text does not name: a trigger, or a function that
    /// a view calls.
    #[must_use]
    pub fn may_run_programs(&self) -> bool {
        let uses_tables = matches!(
            self.kind,
            Kind::Select
                | Kind::Insert
                | Kind::Replace
                | Kind::Update
                | Kind::Delete
                | Kind::Create
                | Kind::CreateTemporaryTable
                | Kind::ExplainAnalyze
                | Kind::Handler
                | Kind::LoadData
                | Kind::LoadDataLocal
        );
        uses_tables || self.runs_others() || self.flags.intersects(MAY_CALL)
    }

    /// Whether a program that the text does not name, a trigger or a function that a view calls, may have changed the session if
    /// the server reports that something of it has changed. The report is the same for one change and for several, so it is not
    /// enough that the text explains one.
    #[must_use]
    pub fn may_be_changed_by_programs(&self, query: &[u8]) -> bool {
        match self.kind {
            // Their own change is reported in this way, and they run no program.
            Kind::Use
            | Kind::SetTransaction
            | Kind::Prepare
            | Kind::Deallocate
            | Kind::DropTable
            | Kind::DropTemporaryTable => false,
            Kind::CreateTemporaryTable => has_select(query),
            // The settings are reported in this way, too: a program in the statement is hidden by them.
            Kind::SetStatement => false,
            Kind::Select => self.flags.intersects(MAY_CALL) || self.may_name_view(query),
            _ => self.may_run_programs(),
        }
    }

    /// Whether a `SELECT` may read a view: without a table there is none.
    #[must_use]
    pub fn may_name_view(&self, query: &[u8]) -> bool {
        self.flags.intersects(Flags::FROM) || says(query, b"table")
    }

    /// Whether the current schema may be another one after the statement, or none.
    #[must_use]
    pub fn may_change_schema(&self) -> bool {
        const IN_DOUBT: Flags = Flags::MULTI.union(Flags::UNSURE).union(Flags::UNTERMINATED);
        self.runs_others()
            || self.flags.intersects(IN_DOUBT)
            || matches!(self.kind, Kind::Use | Kind::Create | Kind::Alter | Kind::Drop)
    }

    /// Whether it begins no transaction while autocommit is on, even if it fails, and is no plain statement
    /// ([`Statement::reads_or_writes`]).
    #[must_use]
    pub fn begins_no_transaction(&self, text: &[u8]) -> bool {
        // MySQL: CREATE TABLE .. START TRANSACTION AS SELECT .., and so ALTER TABLE.
        if says(text, b"TRANSACTION") {
            return false;
        }
        matches!(
            self.kind,
            Kind::Do
                | Kind::Create
                | Kind::CreateTemporaryTable
                | Kind::Alter
                | Kind::Drop
                | Kind::DropTable
                | Kind::DropTemporaryTable
                | Kind::Truncate
                | Kind::Rename
                | Kind::Grant
                | Kind::LockTables
                | Kind::Prepare
                | Kind::Deallocate
                | Kind::Signal
                | Kind::GetDiagnostics
                | Kind::ReleaseSavepoint
                | Kind::RollbackToSavepoint
                | Kind::Empty
        )
    }

    /// Whether MySQL may keep, with the prepared statement, values that user variables have when it is prepared: those of subqueries
    /// without tables, such as `IN ((SELECT @v), 0)`.
    #[must_use]
    pub fn may_keep_values(&self, text: &[u8]) -> bool {
        if !self.flags.intersects(Flags::USER_VARIABLE) {
            return false;
        }
        let inserts = matches!(self.kind, Kind::Insert | Kind::Replace);
        let begins_one = |word: &&[u8]| {
            word.eq_ignore_ascii_case(b"SELECT") || !inserts && word.eq_ignore_ascii_case(b"VALUES")
        };
        bare_words(text).filter(begins_one).count() > usize::from(self.kind == Kind::Select)
    }

    /// Whether it reads, writes rows or sets something, and has its own transaction while autocommit is on. With autocommit off
    /// its locks may stay although it has failed.
    #[must_use]
    pub fn reads_or_writes(&self) -> bool {
        matches!(
            self.kind,
            Kind::Select
                | Kind::Insert
                | Kind::Replace
                | Kind::Update
                | Kind::Delete
                | Kind::Show
                | Kind::Set
                | Kind::Use
                | Kind::Explain
        )
    }

    /// Whether it changes no transaction but by reading and writing rows: it leaves an open one open, whatever becomes of it.
    #[must_use]
    pub fn keeps_transaction(&self) -> bool {
        let keeps = matches!(
            self.kind,
            Kind::Select | Kind::Show | Kind::Do | Kind::Insert | Kind::Replace | Kind::Update | Kind::Delete
        );
        keeps && !self.flags.intersects(Flags::MULTI)
    }

    /// Whether it changes nothing, and takes no lock.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        matches!(self.kind, Kind::Select | Kind::Show | Kind::Do)
            && !self.flags.intersects(Flags::EFFECTS.union(Flags::FOR_UPDATE))
    }

    /// Whether its answer tells how many rows it has changed.
    #[must_use]
    pub fn tells_changed_rows(&self) -> bool {
        matches!(
            self.kind,
            Kind::Insert | Kind::Replace | Kind::Update | Kind::Delete | Kind::LoadData | Kind::LoadDataLocal
        )
    }

    /// Whether it writes nothing that servers replicate, but for what its transaction has written before.
    #[must_use]
    pub fn writes_nothing_itself(&self) -> bool {
        matches!(
            self.kind,
            Kind::Select
                | Kind::Do
                | Kind::Set
                | Kind::SetTransaction
                | Kind::Use
                | Kind::Show
                | Kind::ShowWarnings
                | Kind::Explain
                | Kind::Begin
                | Kind::Commit
                | Kind::Savepoint
                | Kind::ReleaseSavepoint
                | Kind::RollbackToSavepoint
                | Kind::LockTables
                | Kind::UnlockTables
                | Kind::Prepare
                | Kind::Deallocate
                | Kind::GetDiagnostics
                | Kind::Kill
                | Kind::Empty
        )
    }

    /// Whether it asks about the statement before it, which only its connection knows, and only until the next statement.
    #[must_use]
    pub fn asks_about_last(&self) -> bool {
        const ASKS: Flags = Flags::FOUND_ROWS.union(Flags::ROW_COUNT).union(Flags::WARNING_COUNT);
        matches!(self.kind, Kind::ShowWarnings | Kind::GetDiagnostics) || self.flags.intersects(ASKS)
    }
}

/// Whatever the kind of a statement is, it may call a function then, or read something that does.
const MAY_CALL: Flags = Flags::FUNCTION_CALL_UNKNOWN
    .union(Flags::FROM)
    .union(Flags::MULTI)
    .union(Flags::UNSURE)
    .union(Flags::UNTERMINATED);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    type Fact = (&'static str, fn(&Statement, &[u8]) -> bool);

    const FACTS: &[Fact] = &[
        ("is_plain", |it, _| it.is_plain()),
        ("runs_others", |it, _| it.runs_others()),
        ("may_run_programs", |it, _| it.may_run_programs()),
        ("may_change_schema", |it, _| it.may_change_schema()),
        ("begins_no_transaction", |it, text| it.begins_no_transaction(text)),
        ("reads_or_writes", |it, _| it.reads_or_writes()),
        ("keeps_transaction", |it, _| it.keeps_transaction()),
        ("changes_nothing", |it, _| it.changes_nothing()),
        ("tells_changed_rows", |it, _| it.tells_changed_rows()),
        ("writes_nothing_itself", |it, _| it.writes_nothing_itself()),
        ("asks_about_last", |it, _| it.asks_about_last()),
    ];

    #[test]
    fn subqueries_may_keep_values_of_user_variables() {
        for (query, may) in [
            ("SELECT a FROM t WHERE a = @v", false),
            ("SELECT a FROM t WHERE a IN ((SELECT @v), 0)", true),
            ("(SELECT @v)", false),
            ("SELECT a FROM t WHERE a IN ((SELECT 1), 0)", false),
            ("SELECT a FROM t WHERE a IN ((VALUES ROW(@v)), 0)", true),
            ("DELETE FROM t WHERE a IN ((select @v), 0)", true),
            ("UPDATE t SET a = @v WHERE b = 'SELECT'", false),
            ("INSERT INTO t VALUES (@v)", false),
            ("INSERT INTO t VALUES (ROUND(1.5, (SELECT @v)))", true),
            ("DO ROUND(1.5, (SELECT @v))", true),
        ] {
            assert_eq!(classify(query.as_bytes()).may_keep_values(query.as_bytes()), may, "{query}");
        }
    }

    /// The rows of `tests/vectors/facts.txt`.
    #[test]
    fn statements_have_the_facts_of_the_table() {
        let rows = include_str!("../tests/vectors/facts.txt").lines();
        let rows = rows.filter(|row| !row.starts_with('#') && !row.is_empty());
        let mut wrong = Vec::new();
        let mut count = 0;
        for row in rows {
            let (wanted, query) = row.split_once('|').expect("two parts");
            let text = query.trim().as_bytes();
            let statement = classify(text);
            let found: Vec<_> =
                FACTS.iter().filter(|(_, fact)| fact(&statement, text)).map(|(name, _)| *name).collect();
            if found.join(" ") != wanted.trim() {
                wrong.push(format!("{} | {}", found.join(" "), query.trim()));
            }
            count += 1;
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        assert!(count > 50, "{count}");
    }
}
