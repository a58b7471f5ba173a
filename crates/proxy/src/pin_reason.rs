//! Why a client keeps its backend connection.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $word:literal, $until:literal;)*) => {
        impl PinReason {
            $($(#[$doc])* pub const $name: PinReason = PinReason(1 << $bit);)*

            /// Every reason with its name.
            pub const ALL: &[(PinReason, &str)] = &[$((PinReason::$name, $word),)*];

            /// How long a single reason holds, as `EXPLAIN ROUTE` shows it.
            pub fn until(self) -> &'static str {
                match self {
                    $(PinReason::$name => $until,)*
                    _ => "",
                }
            }
        }
    };
}

/// A reason for which a client keeps its backend connection; also a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PinReason(u32);

reasons! {
    /// A transaction is open; until it ends.
    TRANSACTION = 0, "transaction", "until the transaction ends";
    /// `LOCK TABLES`, `FLUSH TABLES WITH READ LOCK`, `LOCK INSTANCE`; until unlocked. MariaDB's `BACKUP` locks; for the rest
    /// of the session.
    LOCK_TABLES = 1, "lock_tables", "until the tables or the instance are unlocked";
    /// Temporary tables; until it is certain that the last is dropped.
    TEMPORARY_TABLE = 2, "temporary_table", "until the last temporary table is dropped, by a statement that is sure to";
    /// `GET_LOCK()`; until it is certain that all are released.
    USER_LOCK = 3, "user_lock", "until the lock is released, by a statement that is sure to";
    /// A user variable whose value is not known; for the rest of the session.
    USER_VARIABLE = 4, "user_variable", "until the session ends or is reset";
    /// Prepared statements that ask about the statement before them, or are too long to be read; until the last is
    /// closed.
    PREPARED_STATEMENT = 5, "prepared_statement", "until the last prepared statement is closed";
    /// `PREPARE`; for the rest of the session.
    TEXT_STATEMENT = 6, "text_prepared_statement", "until the session ends or is reset";
    /// `HANDLER`; for the rest of the session.
    HANDLER = 7, "handler", "until the session ends or is reset";
    /// An XA transaction; until it ends.
    XA = 8, "xa", "until the XA transaction ends";
    /// `SET TRANSACTION` for the next transaction; until that ends.
    NEXT_TRANSACTION = 9, "next_transaction", "until the next transaction has ended";
    /// `SET ROLE`, a resource group; for the rest of the session.
    ROLE = 10, "role", "until the session ends or is reset";
    /// A `SET` whose effect is not known; for the rest of the session.
    UNKNOWN_SET = 11, "unknown_set", "until the session ends or is reset";
    /// A stored routine or function may have run, and may have set anything; for the rest of the session.
    ROUTINE = 12, "routine", "until the session ends or is reset";
    /// A statement too long to be read; for the rest of the session.
    UNREAD = 13, "unread_statement", "until the session ends or is reset";
    /// `mysql-multiplexing` is off, or a rule has turned it off for the session.
    MULTIPLEXING_OFF = 14, "multiplexing_off", "while multiplexing is off, by mysql-multiplexing or a rule";
    /// A cursor is open; until its last row was fetched, or the statement is executed again, reset or closed.
    CURSOR = 15, "cursor", "until the session ends or is reset";
    /// Parameters were sent in parts; until the statement is executed, reset or closed.
    LONG_DATA = 16, "long_data", "until the session ends or is reset";
    /// What no reset of the connection removes: profiles of `SET profiling`, the transaction of a query in a `SET` that
    /// also switches autocommit off; for the rest of the session.
    BEYOND_RESET = 17, "beyond_reset", "until the session ends or is reset";
}

impl PinReason {
    /// What a connection keeps for a statement of one client.
    pub const HELD_STATEMENT: PinReason =
        PinReason(PinReason::PREPARED_STATEMENT.0 | PinReason::CURSOR.0 | PinReason::LONG_DATA.0);

    /// Those for which nothing is on the connection: the client's state is a value, and any other connection can have it.
    pub(crate) const NOTHING_THERE: PinReason = PinReason::MULTIPLEXING_OFF;

    /// What a session has begun and must end itself: new work of it is let through while its hostgroup is held.
    pub(crate) const OPEN_WORK: PinReason =
        PinReason(PinReason::TRANSACTION.0 | PinReason::LOCK_TABLES.0 | PinReason::XA.0);

    /// What only its owner's statements remove: the next client of the connection would find anything overlooked, so it
    /// is reset first.
    pub(crate) const CARRIED: PinReason = PinReason(
        PinReason::LOCK_TABLES.0
            | PinReason::TEMPORARY_TABLE.0
            | PinReason::USER_LOCK.0
            | PinReason::TEXT_STATEMENT.0
            | PinReason::XA.0,
    );

    /// What neither `COM_RESET_CONNECTION` nor `COM_CHANGE_USER` removes on every server: roles, resource groups, and
    /// on MariaDB a prepared XA transaction, which makes later statements of the connection fail.
    pub(crate) const OUTLASTS_LOGIN: PinReason =
        PinReason(PinReason::ROLE.0 | PinReason::XA.0 | PinReason::BEYOND_RESET.0);

    /// What may have set roles, which `COM_RESET_CONNECTION` does not reset.
    pub(crate) const MAY_SET_ROLES: PinReason = PinReason(
        PinReason::UNKNOWN_SET.0 | PinReason::ROUTINE.0 | PinReason::TEXT_STATEMENT.0 | PinReason::UNREAD.0,
    );

    /// Whether any reason of `other` is among these.
    pub const fn intersects(self, other: PinReason) -> bool {
        self.0 & other.0 != 0
    }

    /// The name of a single reason.
    pub fn name(self) -> &'static str {
        PinReason::ALL.iter().find(|(reason, _)| *reason == self).map_or("", |(_, name)| name)
    }

    /// The reasons as bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The names of all these reasons.
    pub fn names(self) -> Vec<&'static str> {
        let among = PinReason::ALL.iter().filter(|(reason, _)| self.intersects(*reason));
        among.map(|(_, name)| *name).collect()
    }

    pub(crate) const fn without(self, other: PinReason) -> PinReason {
        PinReason(self.0 & !other.0)
    }

    /// Those that are among `other` too.
    pub(crate) const fn among(self, other: PinReason) -> PinReason {
        PinReason(self.0 & other.0)
    }

    pub(crate) const fn with(self, other: PinReason) -> PinReason {
        PinReason(self.0 | other.0)
    }

    pub(crate) fn add(&mut self, other: PinReason) {
        self.0 |= other.0;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
