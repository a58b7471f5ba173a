//! What the control plane receives: one plain value for each row of a statistics table, merged over the workers.

use crate::pin_reason::PinReason;
use crate::rows::{HostgroupId, ServerStatus};
use crate::rules::SomeClient;

/// Whether figures are reset after they have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// They continue.
    Copy,
    /// They are reset.
    Reset,
}

/// A row of `stats_mysql_connection_pool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLine {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server's name or address, or the path of its socket.
    pub hostname: String,
    /// Its port; 0 for a socket.
    pub port: u16,
    /// Its status for the workers: [`ServerStatus::Shunned`] also while it cannot be reached.
    pub status: ServerStatus,
    /// Connections in use, now.
    pub used: u64,
    /// Idle connections, now.
    pub free: u64,
    /// The most connections in use at once. With several workers, the sum of their maxima, but never more than were
    /// open.
    pub most_used: u64,
    /// What its workers have counted.
    pub tally: Tally,
    /// Commands sent to it because it has executed a GTID.
    pub queries_gtid_sync: u64,
    /// Latency of the monitor's last ping; 0: not known. Not reset.
    pub latency_us: u64,
    /// The last reason why it could not be reached, unless it has been reached since.
    pub failure: Option<ServerFailure>,
}

/// Counters of one server, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections opened.
    pub connected: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// Commands sent for clients.
    pub queries: u64,
    /// Bytes of those commands.
    pub bytes_sent: u64,
    /// Bytes of their answers.
    pub bytes_received: u64,
    /// `COM_CHANGE_USER` sent.
    pub change_users: u64,
    /// `COM_INIT_DB` sent to bring a connection into a client's schema.
    pub init_dbs: u64,
    /// `SET` sent to bring a connection into a client's state.
    pub sets: u64,
}

impl Tally {
    /// Adds others.
    pub fn add(&mut self, other: Tally) {
        // Named one by one, so that none is forgotten.
        let Tally { connected, failed, queries, bytes_sent, bytes_received, change_users, init_dbs, sets } =
            other;
        self.connected += connected;
        self.failed += failed;
        self.queries += queries;
        self.bytes_sent += bytes_sent;
        self.bytes_received += bytes_received;
        self.change_users += change_users;
        self.init_dbs += init_dbs;
        self.sets += sets;
    }
}

/// Why a server could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// What went wrong.
    pub text: String,
    /// How long ago.
    pub age_ms: u64,
    /// How long until it is tried again; 0: with the next statement.
    pub pause_ms: u64,
}

/// A row of `stats_mysql_commands_counters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The class of statements, as the table names it.
    pub command: &'static str,
    /// Time of all, in us.
    pub total_time_us: u64,
    /// Statements.
    pub total: u64,
    /// Statements by the time they took, each in one bucket: up to 100 us, 500 us, 1 ms, 5 ms, 10 ms, 50 ms, 100 ms,
    /// 500 ms, 1 s, 5 s, 10 s, and longer.
    pub buckets: [u64; 12],
}

/// A row of `stats_mysql_query_digest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestLine {
    /// Where the statements ran; -1: Narrows answered.
    pub hostgroup: HostgroupId,
    /// In which schema; empty: none.
    pub schemaname: String,
    /// Whose they were.
    pub username: String,
    /// From where, with `query_digests_track_hostname`; else empty.
    pub client_address: String,
    /// Hash of the digest text.
    pub digest: u64,
    /// The statements with their values replaced.
    pub digest_text: String,
    /// How many.
    pub count: u64,
    /// When first, Unix time.
    pub first_seen: u64,
    /// When last, Unix time.
    pub last_seen: u64,
    /// Time of all, in us.
    pub sum_time_us: u64,
    /// Time of the fastest.
    pub min_time_us: u64,
    /// Time of the slowest.
    pub max_time_us: u64,
    /// Rows changed by all.
    pub rows_affected: u64,
    /// Rows sent for all.
    pub rows_sent: u64,
}

/// A row of `stats_mysql_query_rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLine {
    /// The rule.
    pub rule_id: i64,
    /// How often it matched since it was loaded.
    pub hits: u64,
}

/// A row of `stats_mysql_users`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLine {
    /// The account.
    pub username: String,
    /// Its client connections, now.
    pub connections: u32,
    /// Its maximum number.
    pub max_connections: u32,
}

/// A row of `stats_mysql_errors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLine {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server that answered with the error.
    pub hostname: String,
    /// Its port.
    pub port: u16,
    /// Whose statement it was.
    pub username: String,
    /// From where, with `query_digests_track_hostname`; else empty.
    pub client_address: String,
    /// In which schema.
    pub schemaname: String,
    /// The error's number.
    pub errno: u16,
    /// How often.
    pub count: u64,
    /// When first, Unix time.
    pub first_seen: u64,
    /// When last, Unix time.
    pub last_seen: u64,
    /// The text it had last.
    pub last_error: String,
}

/// A row of `stats_mysql_free_connections`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeConnection {
    /// Its socket.
    pub fd: i32,
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server.
    pub hostname: String,
    /// Its port.
    pub port: u16,
    /// The account it is logged in as.
    pub username: String,
    /// The schema it is in.
    pub schema: Option<String>,
    /// Variables as they were set by clients, as literals of SQL: name and value.
    pub variables: Vec<(String, String)>,
    /// Time since its last use.
    pub idle_ms: u64,
    /// Time since it was opened.
    pub age_ms: u64,
    /// How many times it was leased.
    pub leases: u64,
    /// Its number on the server.
    pub thread_id: u32,
    /// Whether the server is a MariaDB.
    pub is_mariadb: bool,
    /// Capabilities that were negotiated.
    pub capabilities: u64,
}

/// A row of `stats_mysql_prepared_statements_info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedLine {
    /// Narrows' id of the statement.
    pub id: u64,
    /// In which schema it was prepared.
    pub schemaname: String,
    /// By whom.
    pub username: String,
    /// Hash of its digest text.
    pub digest: u64,
    /// Client statements that refer to it.
    pub clients: u64,
    /// Backend connections that have it.
    pub backends: u64,
    /// Columns of its result.
    pub columns: u16,
    /// Its parameters.
    pub parameters: u16,
    /// Its text.
    pub query: String,
}

/// What the memory is used for, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Resident memory of the process (`VmRSS`).
    pub resident: u64,
    /// Virtual memory of the process (`VmSize`).
    pub virtual_size: u64,
    /// Allocated memory.
    pub allocated: u64,
    /// Address space that the allocator has from the system.
    pub mapped: u64,
    /// Anonymous memory of the process (`RssAnon`): heap and stacks that are in memory.
    pub anonymous: u64,
    /// Accounts of the configuration in force.
    pub accounts: u64,
    /// Tables of digests, their texts included.
    pub digests: u64,
    /// Query rules of the configuration in force.
    pub rules: u64,
    /// Prepared statements, their texts included, as clients and backend connections share them.
    pub statements: u64,
    /// Backend connections' records of the statements prepared on them.
    pub statements_of_backends: u64,
    /// Stacks of the worker threads, as reserved.
    pub worker_stacks: u64,
    /// Buffers with what clients sent.
    pub client_buffers: u64,
    /// Buffers with answers of servers.
    pub backend_buffers: u64,
    /// Spare buffers.
    pub buffers_spare: u64,
    /// Sessions, without what their tasks take.
    pub sessions: u64,
    /// Idle backend connections.
    pub idle_backends: u64,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// It waits for a command.
    #[default]
    Sleep,
    /// It runs the command with this name in the process list (`Query`, `Execute`, `Init DB`, ...).
    Command(&'static str),
    /// It waits for a backend connection to run it on.
    Connect,
}

impl Doing {
    /// The word for it in a process list.
    pub fn word(self) -> &'static str {
        match self {
            Doing::Sleep => "Sleep",
            Doing::Command(word) => word,
            Doing::Connect => "Connect",
        }
    }
}

/// A row of `stats_mysql_processlist`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessLine {
    /// The worker.
    pub worker: usize,
    /// What `KILL` takes.
    pub id: u32,
    /// Whose session it is.
    pub username: String,
    /// Its schema.
    pub schema: Option<String>,
    /// From where.
    pub client_host: String,
    /// From which port.
    pub client_port: u16,
    /// The hostgroup of the current backend connection, or of the last statement; `None`: there was none yet.
    pub hostgroup: Option<HostgroupId>,
    /// The current backend connection: leased for the running statement, or pinned.
    pub backend: Option<ProcessBackend>,
    /// What it does.
    pub doing: Doing,
    /// For how long.
    pub time_ms: u64,
    /// The statement that runs, up to [`SHOWN_TEXT`] bytes.
    pub info: Option<String>,
    /// Why it is pinned to its backend connection.
    pub pins: PinReason,
    /// Milliseconds since its login.
    pub age_ms: u64,
    /// Commands it has sent.
    pub commands: u64,
}

/// Bytes of a running statement that a process list can show.
pub const SHOWN_TEXT: usize = 1024;

/// A session's backend connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessBackend {
    /// The server.
    pub hostname: String,
    /// Its port.
    pub port: u16,
    /// Our address on that connection; empty for a socket.
    pub local_host: String,
    /// Our port on it.
    pub local_port: u16,
    /// Its number on the server.
    pub thread_id: u32,
}

/// One reason for which one session is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinLine {
    /// The worker.
    pub worker: usize,
    /// The session.
    pub id: u32,
    /// Whose it is.
    pub username: String,
    /// Its schema.
    pub schema: Option<String>,
    /// From where.
    pub client_host: String,
    /// The hostgroup of its connection.
    pub hostgroup: Option<HostgroupId>,
    /// Its connection.
    pub backend: Option<ProcessBackend>,
    /// The reason; see [`PinReason::ALL`].
    pub reason: &'static str,
    /// How long it holds.
    pub age_ms: u64,
    /// Hash of the digest text of the statement that caused it.
    pub digest: u64,
    /// That text.
    pub digest_text: String,
}

/// A statement whose route is requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteQuestion {
    /// The statement.
    pub statement: Vec<u8>,
    /// The user who would send it; the schema is in `schema`.
    pub client: SomeClient,
    /// In which schema; `None`: the account's default.
    pub schema: Option<String>,
}

/// Where a statement would go, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedRoute {
    /// Hash of the digest text; `None` while `query_digests` is off.
    pub digest: Option<u64>,
    /// The digest text.
    pub digest_text: String,
    /// Its kind, as the lexer names it.
    pub kind: String,
    /// Its class in `stats_mysql_commands_counters`.
    pub command: &'static str,
    /// The rules that match, in order.
    pub rules: Vec<RouteRule>,
    /// What its first comment says, in order.
    pub hints: Vec<RouteHint>,
    /// The statement as rewritten by rules, if it was.
    pub rewritten: Option<String>,
    /// The outcome.
    pub outcome: RouteOutcome,
    /// Every server of the hostgroup.
    pub servers: Vec<RouteServer>,
    /// What the cache would do.
    pub cache: String,
    /// What would pin the session to its connection: the reason, and the word or rule that causes it.
    pub pins: Vec<(&'static str, String)>,
}

/// A rule that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// The rule.
    pub rule_id: i64,
    /// What it sets: column and value.
    pub sets: Vec<(&'static str, String)>,
    /// What differs from its row.
    pub remark: Option<&'static str>,
}

/// A hint of a statement's first comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteHint {
    /// Its name, as it is written.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Why it is ignored; `None`: it is applied.
    pub ignored: Option<&'static str>,
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// It runs in this hostgroup, for this reason.
    Hostgroup(HostgroupId, String),
    /// Narrows answers; the text says what.
    Answered(String),
}

/// A server of the hostgroup that a statement goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteServer {
    /// Its name or address.
    pub hostname: String,
    /// Its port.
    pub port: u16,
    /// Its weight.
    pub weight: u32,
    /// Whether it may be chosen now.
    pub eligible: bool,
    /// Why, or why not.
    pub reason: String,
}

/// Why a route cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No active account has that name.
    #[error("no active user {0:?}")]
    UnknownUser(String),
    /// The workers have stopped.
    #[error("no worker answers")]
    Stopped,
}
