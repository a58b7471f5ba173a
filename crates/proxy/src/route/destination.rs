//! The hostgroup of a statement that Narrows does not answer: where the rules send it, or, if they say nothing, the user's own
//! or that of its replicas.

use narrows_sql::{Escapes, Flags, Kind, Scratch, Statement, digest_text, is_read};
use narrows_wire::Status;

use super::{Asking, digest_options};
use crate::hostgroup::{LagFilter, Server};
use crate::lag::LagLimit;
use crate::rules::{Memory, digest_of};
use crate::snapshot::HostgroupId;
use crate::state::SessionState;

/// Where a statement that the rules send to `ruled` goes, and why.
///
/// A `SELECT` that leaves something on its connection goes to the user's own hostgroup whatever the rules say: what it
/// leaves would pin the whole session to a server meant for reads. So do all functions of user locks, which belong to one
/// server. A text that begins with a read and continues with
/// something else goes where the rules send the latter.
pub(super) fn destination(
    asking: &Asking<'_>,
    memory: &mut Memory,
    (statement, text): (&Statement, &[u8]),
    ruled: HostgroupId,
    own: HostgroupId,
) -> (HostgroupId, &'static str) {
    if statement.kind != Kind::Select {
        return (ruled, "the rules say so");
    }
    if statement.flags.contains(Flags::MULTI)
        && let Some(part) = first_write(text)
    {
        let hostgroup = ask_again(asking, memory, part).unwrap_or(own);
        return (hostgroup, "the rules say so of its first statement that is no read");
    }
    if is_of_own(statement) {
        return (
            own,
            "the user's own: a SELECT that calls a lock function or sets a variable does not follow the rules",
        );
    }
    (ruled, "the rules say so")
}

/// Whether a `SELECT` leaves a lock or a variable on its connection, or is about locks, which only the server knows that has
/// them.
fn is_of_own(statement: &Statement) -> bool {
    let leaves = Flags::GET_LOCK | Flags::ASSIGNS_USER_VARIABLE | Flags::INTO_VARIABLE;
    let about_locks = Flags::RELEASE_LOCK | Flags::RELEASE_ALL_LOCKS | Flags::ASKS_ABOUT_LOCK;
    statement.flags.intersects(leaves | about_locks)
}

/// The first statement of a text that does more than read. `None` if all of it reads.
fn first_write(text: &[u8]) -> Option<&[u8]> {
    let writes = |statement: &Statement| match statement.kind {
        Kind::Select => is_of_own(statement) || statement.flags.contains(Flags::WRITING_CTE),
        Kind::Show | Kind::ShowWarnings | Kind::GetDiagnostics | Kind::Explain | Kind::Use => false,
        _ => true,
    };
    let mut parts = narrows_sql::parts(text, Escapes::Backslash);
    parts.find(|(_, statement)| writes(statement)).map(|(part, _)| part)
}

/// Where the rules send a part of a text. A `SELECT` that leaves something goes to the user's own hostgroup, as it does alone.
fn ask_again(asking: &Asking<'_>, memory: &mut Memory, part: &[u8]) -> Option<HostgroupId> {
    if narrows_sql::classify(part).kind == Kind::Select {
        return None;
    }
    let variables = &asking.snapshot.variables;
    let mut scratch = Scratch::new();
    let digest = variables
        .query_digests
        .then(|| digest_of(digest_text(part, &digest_options(variables), &mut scratch)));
    asking.rules.apply(&asking.question(part, digest, 0), memory).0.destination_hostgroup
}

/// The hostgroup of replicas that may answer a statement: outside of transactions, with nothing pinned. `lag`: how far behind
/// they may be; if all are further, the statement goes to the user's own hostgroup.
pub(super) fn reader(
    asking: &Asking<'_>,
    statement: &Statement,
    (text, lag): (&[u8], Option<LagLimit>),
) -> Option<HostgroupId> {
    let Asking { snapshot, account, state, status, .. } = *asking;
    let variables = &snapshot.variables;
    let is_alone =
        !asking.is_pinned && status.contains(Status::AUTOCOMMIT) && !status.contains(Status::IN_TRANS);
    let is_on = || account.split.on.unwrap_or(variables.auto_read_write_split);
    if !is_alone || statement.kind != Kind::Select || !is_on() {
        return None;
    }
    let own = account.row.default_hostgroup;
    let reader = account.split.reader.or_else(|| snapshot.readers.get(&own).copied())?;
    let hostgroup = snapshot.hostgroups.get(&reader)?;
    let safe = &variables.auto_read_write_split_functions;
    let limit = lag.map(|limit| LagFilter::from(limit).in_hostgroup(hostgroup));
    let is_near = |server: &Server| limit.is_none_or(|limit| limit.admits(server));
    let may = hostgroup.servers.iter().any(|server| hostgroup.may_use(server) && is_near(server))
        && reads_as_written(state, status, statement, text)
        && is_read(text, *statement, |name| safe.iter().any(|safe| safe == name));
    may.then_some(reader)
}

/// Whether the server ends strings where we do, and the default schema does not make names refer to one server's own
/// state.
fn reads_as_written(state: &SessionState, status: Status, statement: &Statement, text: &[u8]) -> bool {
    let own_schemas: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];
    let schema = state.schema.as_deref().unwrap_or_default();
    !own_schemas.iter().any(|own| own.eq_ignore_ascii_case(schema))
        && ends_as_read(state, status, statement, text)
}

/// Whether the server ends strings where we do.
pub(super) fn ends_as_read(state: &SessionState, status: Status, statement: &Statement, text: &[u8]) -> bool {
    // With ANSI_QUOTES a backslash in double quotes is an ordinary character, with NO_BACKSLASH_ESCAPES everywhere.
    if statement.flags.contains(Flags::ESCAPED_QUOTE)
        && (status.contains(Status::NO_BACKSLASH_ESCAPES)
            || statement.flags.contains(Flags::ESCAPED_DOUBLE_QUOTE))
    {
        return false;
    }
    // In these character sets a backslash or a quote may be the second byte of a character.
    let charset = state.literal("character_set_client").map(|literal| literal.trim_matches('\''));
    text.is_ascii() || !charset.is_some_and(|charset| TRICKY_CHARSETS.contains(&charset))
}

/// Character sets whose characters may contain an ASCII byte.
const TRICKY_CHARSETS: [&str; 5] = ["big5", "gbk", "gb18030", "sjis", "cp932"];
