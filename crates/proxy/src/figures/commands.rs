//! Statements by class and by execution time.

use std::cell::Cell;

use narrows_sql::{Flags, Kind, Statement};

use super::CommandLine;

macro_rules! classes {
    ($($class:ident = $name:literal,)*) => {
        /// A class of statements in `stats_mysql_commands_counters`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum CommandClass {
            $($class,)*
        }

        /// The names of the classes, in order.
        const NAMES: &[&str] = &[$($name,)*];
    };
}

/// How often each class was run, and how long that took.
#[derive(Debug)]
pub struct Commands {
    classes: Box<[Class]>,
}

#[derive(Debug, Default)]
struct Class {
    time_us: Cell<u64>,
    buckets: [Cell<u64>; LIMITS_US.len() + 1],
}

impl Default for Commands {
    fn default() -> Commands {
        Commands { classes: NAMES.iter().map(|_| Class::default()).collect() }
    }
}

impl Commands {
    /// Counts one statement.
    pub fn add(&self, class: CommandClass, time_us: u64) {
        let Some(class) = self.classes.get(class as usize) else { return };
        class.time_us.set(class.time_us.get() + time_us);
        let bucket = LIMITS_US.iter().position(|limit| time_us <= *limit).unwrap_or(LIMITS_US.len());
        if let Some(count) = class.buckets.get(bucket) {
            count.set(count.get() + 1);
        }
    }

    /// One line for each class.
    pub fn lines(&self) -> Vec<CommandLine> {
        let line = |(command, class): (&&'static str, &Class)| {
            let buckets = class.buckets.each_ref().map(Cell::get);
            let total_time_us = class.time_us.get();
            CommandLine { command, total_time_us, total: buckets.iter().sum(), buckets }
        };
        NAMES.iter().zip(&self.classes).map(line).collect()
    }
}

impl CommandLine {
    /// Adds another worker's figures of the same class.
    pub(crate) fn add(&mut self, other: &CommandLine) {
        self.total_time_us += other.total_time_us;
        self.total += other.total;
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
    }
}

impl CommandClass {
    /// The class of a statement, from its kind or otherwise from its first words.
    pub fn of(statement: &Statement, text: &[u8]) -> CommandClass {
        match statement.kind {
            Kind::Select if statement.flags.intersects(Flags::FOR_UPDATE) => CommandClass::SelectForUpdate,
            Kind::Select => CommandClass::Select,
            Kind::Insert => CommandClass::Insert,
            Kind::Replace => CommandClass::Replace,
            Kind::Update => CommandClass::Update,
            Kind::Delete => CommandClass::Delete,
            Kind::Call => CommandClass::Call,
            Kind::Set | Kind::SetTransaction | Kind::SetStatement => CommandClass::Set,
            Kind::Use => CommandClass::Use,
            Kind::ShowWarnings => CommandClass::Show,
            Kind::Commit => CommandClass::Commit,
            Kind::Rollback => CommandClass::Rollback,
            Kind::Savepoint => CommandClass::Savepoint,
            Kind::ReleaseSavepoint => CommandClass::ReleaseSavepoint,
            Kind::RollbackToSavepoint => CommandClass::RollbackSavepoint,
            Kind::LockTables => CommandClass::LockTable,
            Kind::UnlockTables => CommandClass::UnlockTables,
            Kind::FlushTablesWithReadLock | Kind::Flush => CommandClass::Flush,
            Kind::CreateTemporaryTable => CommandClass::CreateTemporary,
            Kind::DropTemporaryTable | Kind::DropTable => CommandClass::DropTable,
            Kind::Truncate => CommandClass::TruncateTable,
            Kind::Prepare => CommandClass::Prepare,
            Kind::Execute => CommandClass::Execute,
            Kind::Deallocate => CommandClass::Deallocate,
            Kind::Kill => CommandClass::Kill,
            Kind::LoadData | Kind::LoadDataLocal => CommandClass::Load,
            Kind::Show
            | Kind::Begin
            | Kind::Explain
            | Kind::ExplainAnalyze
            | Kind::Create
            | Kind::Alter
            | Kind::Drop
            | Kind::Rename
            | Kind::Grant
            | Kind::Admin => by_words(text),
            _ => CommandClass::Unknown,
        }
    }

    /// The name of the class in the table.
    pub fn name(self) -> &'static str {
        NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

/// The class of a statement by its first words.
fn by_words(text: &[u8]) -> CommandClass {
    let mut words = narrows_sql::bare_words(text).map(<[u8]>::to_ascii_uppercase);
    let first = words.next().unwrap_or_default();
    let rest: Vec<Vec<u8>> = words.take(WORDS).collect();
    let second = rest.first().map(Vec::as_slice).unwrap_or_default();
    // The kind of object follows words like OR REPLACE, UNIQUE, or DEFINER.
    let object = |known: &[(&str, CommandClass)]| {
        let named = rest.iter().find_map(|word| known.iter().find(|(name, _)| name.as_bytes() == *word));
        named.map_or(CommandClass::Unknown, |(_, class)| *class)
    };
    match (first.as_slice(), second) {
        (b"SHOW", b"TABLE") if rest.get(1).is_some_and(|word| word == b"STATUS") => {
            CommandClass::ShowTableStatus
        }
        (b"SHOW", _) => CommandClass::Show,
        (b"BEGIN", _) => CommandClass::Begin,
        (b"START", b"TRANSACTION") => CommandClass::StartTransaction,
        (b"EXPLAIN", _) => CommandClass::Explain,
        (b"DESCRIBE" | b"DESC", _) => CommandClass::Describe,
        (b"ANALYZE", b"TABLE" | b"LOCAL" | b"NO_WRITE_TO_BINLOG") => CommandClass::AnalyzeTable,
        (b"ANALYZE", _) => CommandClass::Explain,
        (b"CREATE", _) => object(&[
            ("DATABASE", CommandClass::CreateDatabase),
            ("SCHEMA", CommandClass::CreateDatabase),
            ("INDEX", CommandClass::CreateIndex),
            ("TABLE", CommandClass::CreateTable),
            ("TRIGGER", CommandClass::CreateTrigger),
            ("USER", CommandClass::CreateUser),
            ("VIEW", CommandClass::CreateView),
        ]),
        (b"ALTER", _) => object(&[("TABLE", CommandClass::AlterTable), ("VIEW", CommandClass::AlterView)]),
        (b"DROP", _) => object(&[
            ("DATABASE", CommandClass::DropDatabase),
            ("SCHEMA", CommandClass::DropDatabase),
            ("INDEX", CommandClass::DropIndex),
            ("TABLE", CommandClass::DropTable),
            ("TRIGGER", CommandClass::DropTrigger),
            ("USER", CommandClass::DropUser),
            ("VIEW", CommandClass::DropView),
        ]),
        (b"RENAME", b"TABLE" | b"TABLES") => CommandClass::RenameTable,
        (b"GRANT", _) => CommandClass::Grant,
        (b"REVOKE", _) => CommandClass::Revoke,
        (b"CHANGE", _) => CommandClass::ChangeMaster,
        (b"OPTIMIZE", _) => CommandClass::Optimize,
        (b"PURGE", _) => CommandClass::Purge,
        (b"RESET", b"MASTER") => CommandClass::ResetMaster,
        (b"RESET", b"SLAVE" | b"REPLICA") => CommandClass::ResetSlave,
        _ => CommandClass::Unknown,
    }
}

/// Words that may precede the kind of object: `CREATE OR REPLACE ALGORITHM = MERGE DEFINER = a @ b SQL SECURITY DEFINER
/// VIEW`.
const WORDS: usize = 12;

/// Upper limits of all buckets except the last.
const LIMITS_US: [u64; 11] =
    [100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

classes! {
    AlterTable = "ALTER_TABLE",
    AlterView = "ALTER_VIEW",
    AnalyzeTable = "ANALYZE_TABLE",
    Begin = "BEGIN",
    Call = "CALL",
    ChangeMaster = "CHANGE_MASTER",
    Commit = "COMMIT",
    CreateDatabase = "CREATE_DATABASE",
    CreateIndex = "CREATE_INDEX",
    CreateTable = "CREATE_TABLE",
    CreateTemporary = "CREATE_TEMPORARY",
    CreateTrigger = "CREATE_TRIGGER",
    CreateUser = "CREATE_USER",
    CreateView = "CREATE_VIEW",
    Deallocate = "DEALLOCATE",
    Delete = "DELETE",
    Describe = "DESCRIBE",
    DropDatabase = "DROP_DATABASE",
    DropIndex = "DROP_INDEX",
    DropTable = "DROP_TABLE",
    DropTrigger = "DROP_TRIGGER",
    DropUser = "DROP_USER",
    DropView = "DROP_VIEW",
    Execute = "EXECUTE",
    Explain = "EXPLAIN",
    Flush = "FLUSH",
    Grant = "GRANT",
    Insert = "INSERT",
    Kill = "KILL",
    Load = "LOAD",
    LockTable = "LOCK_TABLE",
    Optimize = "OPTIMIZE",
    Prepare = "PREPARE",
    Purge = "PURGE",
    ReleaseSavepoint = "RELEASE_SAVEPOINT",
    RenameTable = "RENAME_TABLE",
    Replace = "REPLACE",
    ResetMaster = "RESET_MASTER",
    ResetSlave = "RESET_SLAVE",
    Revoke = "REVOKE",
    Rollback = "ROLLBACK",
    RollbackSavepoint = "ROLLBACK_SAVEPOINT",
    Savepoint = "SAVEPOINT",
    Select = "SELECT",
    SelectForUpdate = "SELECT_FOR_UPDATE",
    Set = "SET",
    Show = "SHOW",
    ShowTableStatus = "SHOW_TABLE_STATUS",
    StartTransaction = "START_TRANSACTION",
    TruncateTable = "TRUNCATE_TABLE",
    UnlockTables = "UNLOCK_TABLES",
    Update = "UPDATE",
    Use = "USE",
    Unknown = "UNKNOWN",
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> &'static str {
        CommandClass::of(&narrows_sql::classify(text.as_bytes()), text.as_bytes()).name()
    }

    #[test]
    fn statements_have_the_classes_of_the_table() {
        for (text, expected) in [
            ("SELECT 1", "SELECT"),
            ("SELECT * FROM t FOR UPDATE", "SELECT_FOR_UPDATE"),
            ("insert into t values (1)", "INSERT"),
            ("BEGIN", "BEGIN"),
            ("START TRANSACTION READ ONLY", "START_TRANSACTION"),
            ("ROLLBACK TO SAVEPOINT a", "ROLLBACK_SAVEPOINT"),
            ("SHOW TABLE STATUS LIKE 't'", "SHOW_TABLE_STATUS"),
            ("SHOW WARNINGS", "SHOW"),
            ("CREATE OR REPLACE ALGORITHM=MERGE SQL SECURITY INVOKER VIEW v AS SELECT 1", "CREATE_VIEW"),
            ("CREATE UNIQUE INDEX i ON t (a)", "CREATE_INDEX"),
            ("CREATE TEMPORARY TABLE t (a INT)", "CREATE_TEMPORARY"),
            ("CREATE TABLE index_of_users (a INT)", "CREATE_TABLE"),
            ("DROP SCHEMA shop", "DROP_DATABASE"),
            ("ALTER TABLE t ADD COLUMN b INT", "ALTER_TABLE"),
            ("REVOKE ALL ON *.* FROM app", "REVOKE"),
            ("desc t", "DESCRIBE"),
            ("ANALYZE TABLE t", "ANALYZE_TABLE"),
            ("RESET MASTER", "RESET_MASTER"),
            ("XA BEGIN 'a'", "UNKNOWN"),
        ] {
            assert_eq!(class(text), expected, "{text}");
        }
    }

    #[test]
    fn a_time_counts_in_the_bucket_up_to_its_limit() {
        let commands = Commands::default();
        for time in [0, 100, 101, 10_000_000, 10_000_001] {
            commands.add(CommandClass::Select, time);
        }
        let lines = commands.lines();
        let select = lines.iter().find(|line| line.command == "SELECT").unwrap();
        assert_eq!(select.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((select.total, select.total_time_us), (5, 20_000_202));
        assert_eq!(lines.iter().map(|line| line.total).sum::<u64>(), 5);
    }
}
