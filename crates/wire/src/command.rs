//! The commands of the command phase (manual: "Command Phase").

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal;)*) => {
        /// A command of the command phase, identified by its first byte.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Command {
            $($(#[$doc])* $name,)*
        }

        impl Command {
            /// The command with this first byte; `None` for those that no server answers when a client sends them.
            pub fn from_code(code: u8) -> Option<Command> {
                match code {
                    $($code => Some(Command::$name),)*
                    _ => None,
                }
            }

            /// The first byte.
            pub fn code(self) -> u8 {
                match self {
                    $(Command::$name => $code,)*
                }
            }

            /// Its name in the manual.
            pub fn name(self) -> &'static str {
                match self {
                    $(Command::$name => $word,)*
                }
            }
        }
    };
}

commands! {
    /// The client leaves.
    Quit = 0x01, "COM_QUIT";
    /// Changes the schema.
    InitDb = 0x02, "COM_INIT_DB";
    /// A statement, or several, as text.
    Query = 0x03, "COM_QUERY";
    /// Columns of a table.
    FieldList = 0x04, "COM_FIELD_LIST";
    /// A line of server statistics.
    Statistics = 0x09, "COM_STATISTICS";
    /// `SHOW PROCESSLIST`.
    ProcessInfo = 0x0A, "COM_PROCESS_INFO";
    /// Ends another session.
    ProcessKill = 0x0C, "COM_PROCESS_KILL";
    /// Makes the server write debug information.
    Debug = 0x0D, "COM_DEBUG";
    /// Checks that the server is alive.
    Ping = 0x0E, "COM_PING";
    /// Logs in again on the same connection.
    ChangeUser = 0x11, "COM_CHANGE_USER";
    /// Streams the binary log by position.
    BinlogDump = 0x12, "COM_BINLOG_DUMP";
    /// Registers a replica.
    RegisterSlave = 0x15, "COM_REGISTER_SLAVE";
    /// Prepares a statement.
    StmtPrepare = 0x16, "COM_STMT_PREPARE";
    /// Executes a prepared statement.
    StmtExecute = 0x17, "COM_STMT_EXECUTE";
    /// Sends one parameter in parts.
    StmtSendLongData = 0x18, "COM_STMT_SEND_LONG_DATA";
    /// Frees a prepared statement.
    StmtClose = 0x19, "COM_STMT_CLOSE";
    /// Resets a prepared statement.
    StmtReset = 0x1A, "COM_STMT_RESET";
    /// Turns multi-statements on or off.
    SetOption = 0x1B, "COM_SET_OPTION";
    /// Fetches rows of a cursor.
    StmtFetch = 0x1C, "COM_STMT_FETCH";
    /// Streams the binary log by GTID.
    BinlogDumpGtid = 0x1E, "COM_BINLOG_DUMP_GTID";
    /// Resets the session.
    ResetConnection = 0x1F, "COM_RESET_CONNECTION";
    /// MariaDB: executes a prepared statement for many rows.
    StmtBulkExecute = 0xFA, "COM_STMT_BULK_EXECUTE";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for code in 0..=255 {
            if let Some(command) = Command::from_code(code) {
                assert_eq!(command.code(), code, "{}", command.name());
            }
        }
        assert_eq!(Command::from_code(0x1D), None, "COM_DAEMON is internal to the server");
    }
}
