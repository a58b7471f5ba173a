//! What the query log and traces say about one statement.

use std::time::{Duration, SystemTime};

use narrows_sql::TraceParent;
use narrows_wire::charset::Family;
use narrows_wire::execute::Parameters;

use crate::rows::HostgroupId;
use crate::rt::Instant;

/// One statement and its outcome.
#[derive(Debug, Clone)]
pub struct Record {
    /// The name of the command, such as `COM_QUERY`.
    pub event: &'static str,
    /// The id of the session, as used by `KILL`.
    pub thread_id: u32,
    /// The user.
    pub username: String,
    /// The current schema; empty if none.
    pub schemaname: Vec<u8>,
    /// The client's address and port.
    pub client: String,
    /// The hash of the digest text, if digests are computed.
    pub digest: Option<u64>,
    /// The text of the statement.
    pub query: Vec<u8>,
    /// The values with which it was executed, if they are logged.
    pub values: Option<BoundValues>,
    /// The client's id of the prepared statement; 0 if it is none.
    pub statement_id: u32,
    /// The hostgroup that ran the statement.
    pub hostgroup: HostgroupId,
    /// The server that ran the statement; `None` if it reached none.
    pub server: Option<String>,
    /// What kind of server that is.
    pub family: Option<Family>,
    /// When the statement arrived.
    pub began: SystemTime,
    /// The same time on the clock of the worker.
    pub arrived: Instant,
    /// How long it took, including waits.
    pub duration: Duration,
    /// When its parts ended.
    pub phases: Phases,
    /// How long before the arrival of a session's first command its login began and ended.
    pub login: Option<(Duration, Duration)>,
    /// How often it was tried again.
    pub retries: u32,
    /// The number of rows changed, if the server reported it.
    pub rows_affected: Option<u64>,
    /// The insert id that the server returned; 0 if none.
    pub last_insert_id: u64,
    /// The number of rows sent, if there was a result.
    pub rows_sent: Option<u64>,
    /// The number of bytes sent to the client.
    pub bytes_sent: u64,
    /// The error sent to the client.
    pub error: Option<u16>,
    /// Its message.
    pub error_text: Vec<u8>,
    /// Whether it is for the query log.
    pub is_logged: bool,
    /// Whether it is for the query log if it is slow.
    pub if_slow: bool,
    /// Its place in a trace, if it is traced.
    pub trace: Option<Trace>,
}

impl Record {
    /// A statement that has arrived, of nobody yet and without an outcome.
    pub fn new(event: &'static str, query: Vec<u8>, arrived: Instant) -> Record {
        Record {
            event,
            thread_id: 0,
            username: String::new(),
            schemaname: Vec::new(),
            client: String::new(),
            digest: None,
            query,
            values: None,
            statement_id: 0,
            hostgroup: HostgroupId(-1),
            server: None,
            family: None,
            began: SystemTime::now() - arrived.elapsed(),
            arrived,
            duration: Duration::ZERO,
            phases: Phases::default(),
            login: None,
            retries: 0,
            rows_affected: None,
            last_insert_id: 0,
            rows_sent: None,
            bytes_sent: 0,
            error: None,
            error_text: Vec::new(),
            is_logged: false,
            if_slow: false,
            trace: None,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let values = self.values.as_ref().map_or(0, |values| values.argument.len() + values.types.len());
        size_of::<Record>() + self.query.len() + self.error_text.len() + values
    }
}

/// How long after the arrival of a statement its parts ended; `None`: it had no such part. Of several attempts, those of the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// A connection was found that had to be waited for.
    pub waited: Option<Duration>,
    /// A connection was opened for it, which took this long, as part of the wait.
    pub connected: Option<Duration>,
    /// The connection began to receive the session's state.
    pub align_began: Option<Duration>,
    /// The connection had the session's state.
    pub aligned: Option<Duration>,
    /// The statement was sent.
    pub sent: Option<Duration>,
    /// The answer began.
    pub first_byte: Option<Duration>,
}

/// The values of an execution, as the client sent them. They are read only if they are logged.
#[derive(Debug, Clone)]
pub struct BoundValues {
    /// The command without its first byte.
    pub argument: Vec<u8>,
    /// The types that were bound.
    pub types: Vec<u8>,
    /// The number of parameters of the statement.
    pub params: u16,
    /// Whether each type has a name.
    pub named: bool,
    /// Where everything is in the command.
    pub parameters: Parameters,
}

impl BoundValues {
    /// The name of each value's type, and its text; `None` for NULL.
    pub fn shown(&self) -> Vec<Option<(&'static str, String)>> {
        self.parameters.shown(&self.argument, &self.types, self.params, self.named)
    }
}

/// A statement's place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// The trace and the statement's own span.
    pub own: TraceParent,
    /// The span above, which is the application's; `None`: the trace begins here.
    pub parent: Option<[u8; 8]>,
    /// The span of the statement on the server, which the server knows as its parent.
    pub on_server: [u8; 8],
}
