//! The errors that Narrows itself sends, one per row: number, SQLSTATE, meaning. Some that are sent from a single place are
//! declared there. docs/errors.md says what to do about each.
//!
//! Numbers up to 1999 and from 3000 are the server's own (manual: "Server Error Message Reference"; the name there
//! begins with `ER_`), 2013 is a client library's (`CR_`) and tells a driver that its connection is lost, 9001 and up
//! are ProxySQL's.

/// An error's number and the SQLSTATE that goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno {
    /// The number.
    pub number: u16,
    /// Five letters and digits of the SQL standard.
    pub sqlstate: [u8; 5],
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal $sqlstate:literal;)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno { number: $number, sqlstate: *$sqlstate };)*

            /// Every error with its name.
            pub const ALL: &[(Errno, &str)] = &[$((Errno::$name, stringify!($name)),)*];
        }
    };
}

errors! {
    /// No more client connections are accepted.
    CON_COUNT_ERROR = 1040 b"08004";
    /// The client's login packet is malformed.
    HANDSHAKE_ERROR = 1043 b"08S01";
    /// Wrong user name or password.
    ACCESS_DENIED_ERROR = 1045 b"28000";
    /// The command is not known.
    UNKNOWN_COM_ERROR = 1047 b"08S01";
    /// Narrows is shutting down.
    SERVER_SHUTDOWN = 1053 b"08S01";
    /// The statement cannot be parsed.
    PARSE_ERROR = 1064 b"42000";
    /// The connection to kill does not exist.
    NO_SUCH_THREAD = 1094 b"HY000";
    /// The connection to kill is somebody else's.
    KILL_DENIED_ERROR = 1095 b"HY000";
    /// A rule forbids the statement.
    NOT_ALLOWED_COMMAND = 1148 b"42000";
    /// The packet is longer than `max_allowed_packet`.
    NET_PACKET_TOO_LARGE = 1153 b"08S01";
    /// The sequence number is not the expected one.
    NET_PACKETS_OUT_OF_ORDER = 1156 b"08S01";
    /// A part of a parameter was sent for one that the statement does not have.
    WRONG_ARGUMENTS = 1210 b"HY000";
    /// The transaction was rolled back, and can be tried again.
    LOCK_DEADLOCK = 1213 b"40001";
    /// The user has used up a resource.
    USER_LIMIT_REACHED = 1226 b"42000";
    /// The variable cannot have that value.
    WRONG_VALUE_FOR_VAR = 1231 b"42000";
    /// The prepared statement does not exist.
    UNKNOWN_STMT_HANDLER = 1243 b"HY000";
    /// The client cannot answer for the plugin its account needs.
    NOT_SUPPORTED_AUTH_MODE = 1251 b"08004";
    /// The statement was killed.
    QUERY_INTERRUPTED = 1317 b"70100";
    /// The payload of a command cannot be read.
    MALFORMED_PACKET = 1835 b"HY000";
    /// The backend connection was lost during the answer.
    SERVER_LOST = 2013 b"HY000";
    /// The account is locked for a time, because of wrong passwords.
    ACCOUNT_BLOCKED_BY_PASSWORD_LOCK = 3955 b"HY000";
    /// No server of the hostgroup became available in time.
    NO_SERVER_IN_TIME = 9001 b"HY000";
    /// The admin interface does not have the command.
    COMMAND_NOT_SUPPORTED = 9003 b"28000";
}

impl Errno {
    /// The name of the number in this table.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(errno, _)| *errno == self).map_or("UNKNOWN", |(_, name)| name)
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, String::from_utf8_lossy(&self.sqlstate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_in_order() {
        assert!(Errno::ALL.is_sorted_by(|(one, _), (next, _)| one.number < next.number));
    }

    #[test]
    fn states_are_five_letters_and_digits() {
        for (errno, name) in Errno::ALL {
            assert!(errno.sqlstate.iter().all(u8::is_ascii_alphanumeric), "{name}");
        }
        assert_eq!(Errno::ACCESS_DENIED_ERROR.to_string(), "1045/28000");
        assert_eq!(Errno::ACCESS_DENIED_ERROR.name(), "ACCESS_DENIED_ERROR");
    }
}
