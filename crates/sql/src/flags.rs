//! What a statement touches, as a set of bits. Set by `statement.rs`; every bit errs on the side of being set.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of facts about a statement. If the lexer is unsure, it sets the bit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(u64);

/// Declares the bits, one row each, and the table of their printed names.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*

            const NAMES: &'static [(&'static str, Flags)] = &[$((stringify!($name), Flags::$name)),*];
        }
    };
}

flags! {
    /// Names a user variable: `@x`.
    USER_VARIABLE = 0;
    /// Gives a user variable a value: `SET @x = ..`, `@x := ..`, `INTO @x`, `EXECUTE .. USING` not included.
    ASSIGNS_USER_VARIABLE = 1;
    /// Reads a system variable: `@@x`.
    SYSTEM_VARIABLE = 2;
    /// `LAST_INSERT_ID(`, `@@identity` or `@@last_insert_id`, or `SHOW VARIABLES`, which they are among.
    LAST_INSERT_ID = 3;
    /// `FOUND_ROWS(`.
    FOUND_ROWS = 4;
    /// `ROW_COUNT(`.
    ROW_COUNT = 5;
    /// `SQL_CALC_FOUND_ROWS`: a later `FOUND_ROWS()` must reach the same connection.
    SQL_CALC_FOUND_ROWS = 6;
    /// `GET_LOCK(`.
    GET_LOCK = 7;
    /// `RELEASE_LOCK(`.
    RELEASE_LOCK = 8;
    /// `RELEASE_ALL_LOCKS(`.
    RELEASE_ALL_LOCKS = 9;
    /// Takes row locks: `FOR UPDATE`, `FOR SHARE`, `LOCK IN SHARE MODE`.
    FOR_UPDATE = 10;
    /// Writes a file on the server: `INTO OUTFILE`, `INTO DUMPFILE`.
    INTO_OUTFILE = 11;
    /// `SELECT .. INTO @x`, or into the variable of a stored program.
    INTO_VARIABLE = 12;
    /// Something other than blanks and comments follows a `;`. The kind is that of the first statement, the flags are
    /// those of all statements.
    MULTI = 13;
    /// `@@warning_count` or `@@error_count`.
    WARNING_COUNT = 14;
    /// `CONNECTION_ID(`, or `IS_USED_LOCK(`, whose value is such an id.
    CONNECTION_ID = 15;
    /// Calls `name(` where name is not a built-in function known to have no effect: a stored function, a loadable
    /// one, or `NEXT VALUE FOR`.
    FUNCTION_CALL_UNKNOWN = 16;
    /// A `WITH` whose main statement or one of whose parts writes.
    WRITING_CTE = 17;
    /// `COMMIT AND CHAIN`, `ROLLBACK AND CHAIN`: a new transaction begins at once.
    AND_CHAIN = 18;
    /// `COMMIT RELEASE`, `ROLLBACK RELEASE`: the server closes the connection.
    RELEASE = 19;
    /// `CREATE` or `DROP` with `TEMPORARY`, in any statement of the text.
    TEMPORARY = 20;
    /// The text opens an executable comment (`/*! .. */`). It was read as code; one that some servers execute and
    /// others skip (`/*!80000 .. */`, `/*M! .. */`) was read in both ways, and the flags of both readings are set.
    EXECUTABLE_COMMENT = 21;
    /// A string, quoted name or comment is not terminated: how the server reads it is not known.
    UNTERMINATED = 22;
    /// A string has a backslash before a quote: with the other [`crate::Escapes`] it would end elsewhere.
    ESCAPED_QUOTE = 23;
    /// `START TRANSACTION READ ONLY`.
    READ_ONLY = 24;
    /// `START TRANSACTION WITH CONSISTENT SNAPSHOT`.
    CONSISTENT_SNAPSHOT = 25;
    /// `SELECT` with `SQL_NO_CACHE`.
    SQL_NO_CACHE = 26;
    /// The text has a `/* .. */` comment: [`crate::annotations`] may be in it.
    COMMENT = 27;
    /// `LIMIT` or `OFFSET`, as a bare word.
    LIMIT = 28;
    /// Calls a built-in function that leaves nothing on the connection and whose result depends on the server or the
    /// moment: `UUID_SHORT(`, `IS_FREE_LOCK(`.
    SERVER_FUNCTION = 29;
    /// Servers may read the text in more ways than were considered: it may do anything, and is a [`crate::Kind::Call`].
    UNSURE = 30;
    /// `KILL` as a statement, anywhere in the text or in a literal that is prepared; see [`crate::killing`].
    KILL = 31;
    /// Reads the last value of a sequence (MariaDB): `LASTVAL(`, `PREVIOUS VALUE FOR`, `s.CURRVAL`, even in a text that
    /// is prepared.
    LAST_VALUE = 32;
    /// Such a string is in double quotes, where `ANSI_QUOTES` makes it a name, in which a backslash is a letter.
    ESCAPED_DOUBLE_QUOTE = 33;
    /// `COMMIT NO RELEASE`, `ROLLBACK NO RELEASE`: whatever `completion_type` says.
    NO_RELEASE = 34;
    /// The word `FROM`.
    FROM = 35;
    /// `OFFSET`, or a `LIMIT` and a comma after it.
    OFFSET = 36;
    /// `LAST_INSERT_ID(`, which sets the value if it has an argument.
    LAST_INSERT_ID_CALL = 37;
    /// Names a variable that says what the server reports of a session (`session_track_schema`), or a table with the values
    /// that a session has of variables, or is `SHOW VARIABLES`.
    REPORT_VARIABLE = 38;
    /// `SET TRANSACTION` without a scope, or a variable of transactions as `@@transaction_isolation`, without one: a `SET` is
    /// for the next transaction only.
    NEXT_TRANSACTION = 39;
    /// An optimizer hint that is not known to end with its statement: `SET_VAR(timestamp=100)` (MySQL).
    UNKNOWN_HINT = 40;
    /// `IS_FREE_LOCK(`, `IS_USED_LOCK(`: asks the server that has the lock.
    ASKS_ABOUT_LOCK = 41;
    /// Calls `name(` where only MySQL has a built-in function, or a keyword, of that name: on MariaDB it is a stored one. See
    /// [`crate::Statement::on`].
    OF_MYSQL = 42;
    /// The same with MariaDB.
    OF_MARIADB = 43;
}

impl Flags {
    /// No bit.
    pub const NONE: Flags = Flags(0);

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What a statement may do besides reading or writing tables: it leaves something that outlives it, or may do so.
    pub const EFFECTS: Flags = Flags::INTO_OUTFILE
        .union(Flags::INTO_VARIABLE)
        .union(Flags::ASSIGNS_USER_VARIABLE)
        .union(Flags::GET_LOCK)
        .union(Flags::RELEASE_LOCK)
        .union(Flags::RELEASE_ALL_LOCKS)
        .union(Flags::FUNCTION_CALL_UNKNOWN)
        .union(Flags::SERVER_FUNCTION)
        .union(Flags::WRITING_CTE)
        .union(Flags::UNKNOWN_HINT)
        .union(Flags::MULTI);

    /// The bits of both.
    #[must_use]
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bit with that name, as printed by [`fmt::Debug`].
    #[must_use]
    pub fn named(name: &str) -> Option<Flags> {
        Flags::NAMES.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Flags::NAMES.iter().filter(|(_, flag)| self.contains(*flag)).map(|(name, _)| *name);
        formatter.debug_set().entries(set).finish()
    }
}
