//! `KILL` in a text: Narrows carries it out, because connection ids are its own, and no server receives one.

use narrows_sql::{Escapes, Flags, KillId, KillTarget, Killing, Kind, Statement};
use narrows_wire::{Errno, Status};

use super::{Asking, PREPARED_KILL};

/// The kills in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kills {
    /// There are none.
    Nobody,
    /// It is a `KILL`.
    Alone(KillTarget),
    /// It begins with these, and this text follows.
    First(Vec<KillTarget>, Vec<u8>),
    /// Narrows cannot do it, and a server must not.
    Refused(Errno, &'static str),
}

impl Asking<'_> {
    /// Finds the kills in a text; `own_id` is what `CONNECTION_ID()` returns to the client.
    pub(crate) fn kills(&self, own_id: u32, (statement, text): (&Statement, &[u8]), whole: bool) -> Kills {
        let prepares = matches!(statement.kind, Kind::Prepare | Kind::Execute);
        let suspect = statement.flags.intersects(Flags::KILL)
            || prepares && statement.flags.intersects(Flags::USER_VARIABLE)
            || statement.flags.intersects(Flags::ESCAPED_QUOTE)
                && self.status.contains(Status::NO_BACKSLASH_ESCAPES);
        match suspect {
            true => self.read_suspect(own_id, (statement, text), whole),
            false => Kills::Nobody,
        }
    }

    fn read_suspect(&self, own_id: u32, (read, text): (&Statement, &[u8]), whole: bool) -> Kills {
        let escapes = match self.status.contains(Status::NO_BACKSLASH_ESCAPES) {
            true => Escapes::None,
            false => Escapes::Backslash,
        };
        let statement = narrows_sql::classify_with(text, escapes);
        let kills = |literal: &str| narrows_sql::literal_kills(literal.as_bytes());
        if let Some(name) = narrows_sql::prepared_variable(text, escapes)
            && self.state.user_variable(name).is_some_and(kills)
        {
            return Kills::Refused(PREPARED_KILL.0, PREPARED_KILL.1);
        }
        let by_escapes = self.status.contains(Status::NO_BACKSLASH_ESCAPES)
            && read.flags.contains(Flags::ESCAPED_QUOTE)
            && text.is_ascii();
        if read.flags.contains(Flags::UNSURE | Flags::KILL) && !by_escapes {
            return Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL);
        }
        if !statement.flags.intersects(Flags::KILL) {
            return Kills::Nobody;
        }
        let resolve = |id: KillId<'_>| match id {
            KillId::Own => Some(own_id.into()),
            KillId::UserVariable(name) => self.state.user_variable(name)?.parse().ok(),
        };
        match narrows_sql::killing(text, escapes, &resolve) {
            Killing::Defined => Kills::Nobody,
            _ if !whole => Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL),
            Killing::Alone(target) => Kills::Alone(target),
            Killing::First(..) if !self.state.multi_statements => {
                Kills::Refused(ONE_STATEMENT_ONLY.0, ONE_STATEMENT_ONLY.1)
            }
            Killing::First(targets, rest) => Kills::First(targets, rest),
            Killing::Unknown if statement.kind == Kind::Prepare => {
                Kills::Refused(PREPARED_KILL.0, PREPARED_KILL.1)
            }
            Killing::Unknown => Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL),
        }
    }
}

/// The error for a `KILL` that Narrows cannot interpret.
const UNREADABLE_KILL: &str = "Narrows has its own connection ids: send KILL [CONNECTION | QUERY] with an id, alone or before \
     all other statements; KILL USER, KILL QUERY ID and expressions are not supported";

const NOT_SUPPORTED_YET: Errno = Errno { number: 1235, sqlstate: *b"42000" };

/// The error for a `KILL` before other statements, if the client may send only one statement at a time.
const ONE_STATEMENT_ONLY: (Errno, &str) = (
    Errno { number: 1064, sqlstate: *b"42000" },
    "You have an error in your SQL syntax; this connection does not allow several statements in one text",
);
