//! What becomes of each capability of a client: one row each, from which every set of capabilities is made.
//!
//! A capability that changes what a server sends or does belongs to the class of a connection, so that clients with and
//! without it never share one, or the difference is translated. All others are shown to change nothing.

use narrows_wire::Capabilities;

/// How a client with a capability, and one without it, are served by the same servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Servers behave differently, and it cannot be changed after the login: connections are for clients with the same ones.
    Class,
    /// Narrows makes up for the difference, in the answers or in the state of the session.
    Translated,
    /// It concerns the login, or the form of packets, of one side alone.
    Side,
    /// Nothing depends on it in the 4.1 protocol.
    Nothing,
    /// Clients are not offered it, so it is off whatever they ask for.
    Refused,
}

/// When clients are offered a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Always,
    /// If every known server has it.
    Common,
    /// The greeting decides: TLS and compression by variables, `LONG_PASSWORD` as a mark of MySQL's form.
    Greeting,
    Never,
}

/// When servers that have a capability are asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Always,
    /// For a client that has it; that is what makes a class.
    AsClient,
    /// The login decides: the schema, TLS, compression, several statements.
    Login,
    Never,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    capability: Capabilities,
    treatment: Treatment,
    offer: Offer,
    request: Request,
}

const fn row(capability: Capabilities, treatment: Treatment, offer: Offer, request: Request) -> Row {
    Row { capability, treatment, offer, request }
}

/// One row per flag, lowest first.
const TABLE: &[Row] = {
    use Capabilities as C;
    use Offer::{Always, Common, Greeting, Never};
    use Request::{AsClient, Login};
    use Treatment::{Class, Nothing, Refused, Side, Translated};
    &[
        row(C::LONG_PASSWORD, Side, Greeting, Request::Always),
        // Affected rows.
        row(C::FOUND_ROWS, Class, Always, AsClient),
        row(C::LONG_FLAG, Nothing, Always, Request::Always),
        row(C::CONNECT_WITH_DB, Side, Always, Login),
        // Names of schemas in statements are ignored.
        row(C::NO_SCHEMA, Class, Always, AsClient),
        row(C::COMPRESS, Translated, Greeting, Login),
        row(C::ODBC, Nothing, Never, Request::Never),
        // Without it LOAD DATA LOCAL is an error, before its table is opened.
        row(C::LOCAL_FILES, Class, Always, AsClient),
        // A value of `sql_mode`, which is part of the session's state.
        row(C::IGNORE_SPACE, Translated, Always, Request::Never),
        row(C::PROTOCOL_41, Side, Always, Request::Always),
        // `wait_timeout` begins with the value of `interactive_timeout`.
        row(C::INTERACTIVE, Class, Always, AsClient),
        row(C::SSL, Side, Greeting, Login),
        row(C::IGNORE_SIGPIPE, Nothing, Always, Request::Never),
        row(C::TRANSACTIONS, Nothing, Always, Request::Always),
        row(C::RESERVED, Nothing, Always, Request::Never),
        row(C::SECURE_CONNECTION, Side, Always, Request::Always),
        // COM_SET_OPTION, as part of the session's state.
        row(C::MULTI_STATEMENTS, Translated, Always, Login),
        // A procedure that returns rows is an error without it.
        row(C::MULTI_RESULTS, Class, Always, AsClient),
        // OUT parameters of a prepared CALL are a result of their own.
        row(C::PS_MULTI_RESULTS, Class, Always, AsClient),
        row(C::PLUGIN_AUTH, Side, Always, Request::Always),
        row(C::CONNECT_ATTRS, Side, Always, Request::Always),
        row(C::PLUGIN_AUTH_LENENC_DATA, Side, Always, Request::Always),
        // A session in which only a new password may be set is of no use to anybody else.
        row(C::CAN_HANDLE_EXPIRED_PASSWORDS, Refused, Never, Request::Never),
        row(C::SESSION_TRACK, Translated, Always, Request::Always),
        // An OK packet after rows says what has changed in the session, and an EOF packet does not.
        row(C::DEPRECATE_EOF, Translated, Always, Request::Always),
        row(C::OPTIONAL_RESULTSET_METADATA, Refused, Never, Request::Never),
        row(C::ZSTD_COMPRESSION, Translated, Greeting, Request::Never),
        row(C::QUERY_ATTRIBUTES, Class, Common, AsClient),
        row(C::MULTI_FACTOR_AUTHENTICATION, Refused, Never, Request::Never),
        row(C::CAPABILITY_EXTENSION, Nothing, Never, Request::Never),
        row(C::SSL_VERIFY_SERVER_CERT, Nothing, Never, Request::Never),
        row(C::REMEMBER_OPTIONS, Nothing, Never, Request::Never),
        row(C::MARIADB_PROGRESS, Refused, Never, Request::Never),
        row(C::MARIADB_COM_MULTI, Refused, Never, Request::Never),
        // COM_STMT_BULK_EXECUTE is an error without it.
        row(C::MARIADB_STMT_BULK_OPERATIONS, Class, Common, AsClient),
        row(C::MARIADB_EXTENDED_METADATA, Class, Common, AsClient),
        row(C::MARIADB_CACHE_METADATA, Refused, Never, Request::Never),
        row(C::MARIADB_BULK_UNIT_RESULTS, Refused, Never, Request::Never),
    ]
};

/// The capabilities whose row has this treatment, offer or request; each `None` stands for any.
const fn those(treatment: Option<Treatment>, offer: Option<Offer>, request: Option<Request>) -> Capabilities {
    let mut found = Capabilities::NONE;
    let mut at = 0;
    while at < TABLE.len() {
        let row = TABLE[at];
        let fits = match treatment {
            Some(wanted) => row.treatment as u8 == wanted as u8,
            None => true,
        } && match offer {
            Some(wanted) => row.offer as u8 == wanted as u8,
            None => true,
        } && match request {
            Some(wanted) => row.request as u8 == wanted as u8,
            None => true,
        };
        if fits {
            found = found.union(row.capability);
        }
        at += 1;
    }
    found
}

/// What makes the class of a connection.
pub const CLASS: Capabilities = those(Some(Treatment::Class), None, None);

/// What clients are offered regardless of the servers.
pub const ALWAYS_OFFERED: Capabilities = those(None, Some(Offer::Always), None);

/// What clients are offered if every known server has it.
pub const OFFERED_IF_COMMON: Capabilities = those(None, Some(Offer::Common), None);

/// What every server is asked for that has it, whatever the client has: answers are reduced for clients that have less.
pub const ALWAYS_REQUESTED: Capabilities = those(None, None, Some(Request::Always));

/// What a client and a server must have alike if bytes are forwarded as they are. The rest of the table is that of the login
/// of one side.
pub const VISIBLE: Capabilities = CLASS
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::MULTI_STATEMENTS);

/// With any of these, packets are in frames of the compressed protocol. Then only the frames' sequence numbers count:
/// libmariadb and servers use arbitrary ones for packets inside them.
pub const COMPRESSION: Capabilities = Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION);

/// The class of connections on which Narrows runs statements of its own.
pub const OWN_CLASS: Capabilities = Capabilities::MULTI_RESULTS.union(Capabilities::PS_MULTI_RESULTS);

/// What a row of the query cache depends on: of the class, what changes the rows of a `SELECT` or their form.
pub const SEEN_IN_ROWS: Capabilities = Capabilities::NO_SCHEMA
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::MARIADB_EXTENDED_METADATA);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_has_one_row() {
        let flags: Vec<u64> = TABLE.iter().map(|row| row.capability.0).collect();
        let all: Vec<u64> = Capabilities::all().iter().map(|flag| flag.0).collect();
        assert_eq!(flags, all);
    }

    #[test]
    fn what_changes_a_server_is_asked_for_exactly_when_the_client_has_it() {
        for row in TABLE {
            let name = row.capability;
            match row.treatment {
                Treatment::Class => assert_eq!(row.request, Request::AsClient, "{name:?}"),
                Treatment::Refused => {
                    assert_eq!((row.offer, row.request), (Offer::Never, Request::Never), "{name:?}");
                }
                Treatment::Nothing | Treatment::Side | Treatment::Translated => {
                    assert_ne!(row.request, Request::AsClient, "{name:?}");
                }
            }
        }
        assert!(CLASS.contains(SEEN_IN_ROWS) && CLASS.contains(OWN_CLASS));
    }
}
