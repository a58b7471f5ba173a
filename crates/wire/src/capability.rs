//! Capability flags of the connection phase.
//!
//! The lower 32 bits are MySQL's (manual: "Capabilities Flags"), the upper 32 MariaDB's extended ones
//! (MariaDB knowledge base: "Connection", "Extended capabilities").

/// A set of capability flags; MariaDB's extended flags are bits 32 and up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u64);

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Capabilities {
            $($(#[$doc])* pub const $name: Capabilities = Capabilities(1 << $bit);)*
        }

        /// Name of each flag, lowest bit first.
        const NAMES: &[(u32, &str)] = &[$(($bit, stringify!($name)),)*];
    };
}

capabilities! {
    /// `CLIENT_LONG_PASSWORD`; a MariaDB server leaves it unset to announce its extended flags.
    LONG_PASSWORD = 0;
    /// Affected rows are the rows found, not the rows changed.
    FOUND_ROWS = 1;
    /// All column flags are sent.
    LONG_FLAG = 2;
    /// A schema may be named at login.
    CONNECT_WITH_DB = 3;
    /// The schema in the name of a table or column is ignored.
    NO_SCHEMA = 4;
    /// zlib compression.
    COMPRESS = 5;
    /// The client is an ODBC driver; has no effect.
    ODBC = 6;
    /// `LOAD DATA LOCAL` may ask the client for a file.
    LOCAL_FILES = 7;
    /// Blanks are allowed before `(`.
    IGNORE_SPACE = 8;
    /// The 4.1 protocol; older clients are refused.
    PROTOCOL_41 = 9;
    /// `interactive_timeout` instead of `wait_timeout`.
    INTERACTIVE = 10;
    /// TLS after the greeting.
    SSL = 11;
    /// The client ignores SIGPIPE; has no effect.
    IGNORE_SIGPIPE = 12;
    /// Status flags are sent in EOF packets.
    TRANSACTIONS = 13;
    /// Formerly 4.1; has no effect.
    RESERVED = 14;
    /// The 4.1 authentication.
    SECURE_CONNECTION = 15;
    /// Several statements in one `COM_QUERY`.
    MULTI_STATEMENTS = 16;
    /// Several results for one `COM_QUERY`.
    MULTI_RESULTS = 17;
    /// Several results for one `COM_STMT_EXECUTE`.
    PS_MULTI_RESULTS = 18;
    /// Authentication plugins are given by name.
    PLUGIN_AUTH = 19;
    /// Connection attributes at login.
    CONNECT_ATTRS = 20;
    /// The authentication answer has a length-encoded length.
    PLUGIN_AUTH_LENENC_DATA = 21;
    /// Logging in with an expired password is possible.
    CAN_HANDLE_EXPIRED_PASSWORDS = 22;
    /// OK packets report session state changes.
    SESSION_TRACK = 23;
    /// No EOF after columns; an OK packet ends the rows.
    DEPRECATE_EOF = 24;
    /// Result set metadata may be left out.
    OPTIONAL_RESULTSET_METADATA = 25;
    /// zstd compression.
    ZSTD_COMPRESSION = 26;
    /// Query attributes precede the text of `COM_QUERY`.
    QUERY_ATTRIBUTES = 27;
    /// Multi-factor authentication.
    MULTI_FACTOR_AUTHENTICATION = 28;
    /// Reserved for extensions; has no effect.
    CAPABILITY_EXTENSION = 29;
    /// Client-side only: verify the server's certificate.
    SSL_VERIFY_SERVER_CERT = 30;
    /// Client-side only: remember options after a failed connect.
    REMEMBER_OPTIONS = 31;
    /// MariaDB: progress reports.
    MARIADB_PROGRESS = 32;
    /// MariaDB: `COM_MULTI`; reserved.
    MARIADB_COM_MULTI = 33;
    /// MariaDB: `COM_STMT_BULK_EXECUTE`.
    MARIADB_STMT_BULK_OPERATIONS = 34;
    /// MariaDB: extended type information in column definitions.
    MARIADB_EXTENDED_METADATA = 35;
    /// MariaDB: metadata of prepared statements may be left out.
    MARIADB_CACHE_METADATA = 36;
    /// MariaDB: a result per row of a bulk execution.
    MARIADB_BULK_UNIT_RESULTS = 37;
}

impl Capabilities {
    /// Every flag, lowest first.
    pub fn all() -> Vec<Capabilities> {
        NAMES.iter().map(|(bit, _)| Capabilities(1 << bit)).collect()
    }

    /// No flag.
    pub const NONE: Capabilities = Capabilities(0);

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of either.
    pub const fn union(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }

    /// The flags of both.
    pub const fn intersection(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & !other.0)
    }

    /// MySQL's 32 flags.
    pub const fn lower(self) -> u32 {
        self.0 as u32
    }

    /// MariaDB's extended 32 flags.
    pub const fn extended(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::ops::BitOr for Capabilities {
    type Output = Capabilities;

    fn bitor(self, other: Capabilities) -> Capabilities {
        self.union(other)
    }
}

impl std::fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = NAMES.iter().filter(|(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}
