//! The generic answer packets: OK, ERR and EOF.

mod eof;
mod err;
mod ok;

pub use eof::Eof;
pub use err::Err;
pub use ok::{Change, Changes, Ok};

/// Status flags of OK and EOF packets (manual: "SERVER_STATUS_flags_enum").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u16);

impl Status {
    /// A transaction is open.
    pub const IN_TRANS: Status = Status(0x0001);
    /// `autocommit` is on.
    pub const AUTOCOMMIT: Status = Status(0x0002);
    /// Another result follows.
    pub const MORE_RESULTS_EXISTS: Status = Status(0x0008);
    /// A server-side cursor was opened.
    pub const CURSOR_EXISTS: Status = Status(0x0040);
    /// The cursor's last row was sent.
    pub const LAST_ROW_SENT: Status = Status(0x0080);
    /// Backslash is an ordinary character in strings.
    pub const NO_BACKSLASH_ESCAPES: Status = Status(0x0200);
    /// A prepared statement has another number of columns than the client knows.
    pub const METADATA_CHANGED: Status = Status(0x0400);
    /// The result is the values of OUT parameters (manual: "SERVER_PS_OUT_PARAMS"), and another result follows.
    pub const OUT_PARAMETERS_AND_MORE: Status = Status(0x1000 | 0x0008);
    /// The open transaction is read only.
    pub const IN_TRANS_READONLY: Status = Status(0x2000);
    /// The OK packet carries session state changes.
    pub const SESSION_STATE_CHANGED: Status = Status(0x4000);

    /// The flags that describe the session and not only the last statement.
    pub const fn of_session(self) -> Status {
        // The last flag is MariaDB's: double quotes enclose names.
        Status(self.0 & (0x0001 | 0x0002 | 0x0200 | 0x2000 | 0x8000))
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: Status) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Status) -> Status {
        Status(self.0 & !other.0)
    }

    /// The flags of either.
    pub const fn union(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }
}
