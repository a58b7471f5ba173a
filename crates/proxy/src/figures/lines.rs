//! What the control plane receives: one plain value for each row of a statistics table, merged over the workers.

use crate::pin_reason::PinReason;
use crate::rows::{HostgroupId, ServerStatus};
use crate::rules::OwnedClient;

/// Whether figures are reset after they have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The figures are kept.
    Copy,
    /// The figures are reset.
    Reset,
}

/// A row of `stats_mysql_connection_pool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLine {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server's name or address, or the path of its socket.
    pub hostname: String,
    /// The server's port; 0 for a socket.
    pub port: u16,
    /// The status as the workers see it: [`ServerStatus::Shunned`] also while the server cannot be reached.
    pub status: ServerStatus,
    /// Connections in use, now.
    pub used: u64,
    /// Idle connections, now.
    pub free: u64,
    /// The maximum number of connections in use at once. With several workers, the sum of their maxima, but never more
    /// than were open.
    pub most_used: u64,
    /// The counters of all workers.
    pub tally: Tally,
    /// The latency of the monitor's last ping; 0 if not known. Not reset.
    pub latency_us: u64,
    /// The last reason why the server could not be reached, unless it has been reached since.
    pub failure: Option<ServerFailure>,
    /// How long it takes. Not reset.
    pub timing: ServerTiming,
    /// What it is in the order of its hostgroup, such as `own zone east, backup`; empty if that has none.
    pub place: String,
}

/// How long a server takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerTiming {
    /// To open a connection and log in.
    pub connects: Durations,
    /// From sending a command, or what must precede it, to the first bytes of its answer.
    pub first_bytes: Durations,
    /// The same, to the end of the answer, which depends on its reader too.
    pub answers: Durations,
}

impl ServerTiming {
    /// Adds those of another worker.
    pub fn add(&mut self, other: &ServerTiming) {
        self.connects.add(&other.connects);
        self.first_bytes.add(&other.first_bytes);
        self.answers.add(&other.answers);
    }
}

/// Durations by size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many there were up to each of [`Durations::LIMITS_US`] and above the one before, and how many longer ones.
    pub buckets: [u64; Durations::LIMITS_US.len() + 1],
    /// All of them together in us.
    pub sum_us: u64,
}

impl Durations {
    /// The limits of the buckets in us.
    pub const LIMITS_US: [u64; 16] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        2_500_000, 5_000_000, 10_000_000,
    ];

    /// Adds others.
    pub fn add(&mut self, other: &Durations) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_us += other.sum_us;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The statements of one hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostgroupLine {
    /// The hostgroup; -1 for what Narrows answered.
    pub hostgroup: HostgroupId,
    /// From the arrival of a statement to the end of its answer.
    pub statements: Durations,
    /// Waits for a connection, of statements that could not have one at once.
    pub waits: Durations,
}

/// Clients that have these in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientLine {
    /// The user.
    pub username: String,
    /// The current schema.
    pub schema: Option<String>,
    /// The client's address.
    pub client_host: String,
    /// The hostgroup of the current or last statement.
    pub hostgroup: Option<HostgroupId>,
    /// Why they keep a connection.
    pub pins: PinReason,
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
    /// The size of those commands in bytes.
    pub bytes_sent: u64,
    /// The size of their answers in bytes.
    pub bytes_received: u64,
    /// `COM_CHANGE_USER` sent.
    pub change_users: u64,
    /// `COM_INIT_DB` sent to bring a connection into a client's schema.
    pub init_dbs: u64,
    /// `SET` sent to bring a connection into a client's state.
    pub sets: u64,
    /// Commands that ran there because it has applied what they had to see.
    pub gtid_syncs: u64,
}

impl Tally {
    /// Adds other counters.
    pub fn add(&mut self, other: Tally) {
        // Listed one by one, so that none is forgotten.
        let Tally {
            connected,
            failed,
            queries,
            bytes_sent,
            bytes_received,
            change_users,
            init_dbs,
            sets,
            gtid_syncs,
        } = other;
        self.connected += connected;
        self.failed += failed;
        self.queries += queries;
        self.bytes_sent += bytes_sent;
        self.bytes_received += bytes_received;
        self.change_users += change_users;
        self.init_dbs += init_dbs;
        self.sets += sets;
        self.gtid_syncs += gtid_syncs;
    }
}

/// What a server is known to have applied, for reads that must see writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGtids {
    /// Its host name.
    pub hostname: String,
    /// Its port.
    pub port: u16,
    /// The transactions.
    pub executed: String,
    /// How often it has said so.
    pub reports: u64,
}

/// Why a server could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// The error.
    pub text: String,
    /// How long ago it occurred.
    pub age_ms: u64,
    /// The time until the server is tried again; 0: with the next statement.
    pub pause_ms: u64,
}

/// A row of `stats_mysql_commands_counters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The name of the class in the table.
    pub command: &'static str,
    /// The total execution time in us.
    pub total_time_us: u64,
    /// The number of statements.
    pub total: u64,
    /// The number of statements by execution time, each in one bucket: up to 100 us, 500 us, 1 ms, 5 ms, 10 ms, 50 ms,
    /// 100 ms, 500 ms, 1 s, 5 s, 10 s, and longer.
    pub buckets: [u64; 12],
}

/// A row of `stats_mysql_query_digest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestLine {
    /// The hostgroup that ran the statements; -1 if Narrows answered.
    pub hostgroup: HostgroupId,
    /// The current schema; empty if none.
    pub schemaname: String,
    /// The user.
    pub username: String,
    /// The client's address with `query_digests_track_hostname`; otherwise empty.
    pub client_address: String,
    /// The hash of the digest text.
    pub digest: u64,
    /// The digest text: statements with their values replaced.
    pub digest_text: String,
    /// The number of executions.
    pub count: u64,
    /// When the statement first ran, in Unix time.
    pub first_seen: u64,
    /// When the statement last ran, in Unix time.
    pub last_seen: u64,
    /// The total execution time in us.
    pub sum_time_us: u64,
    /// The shortest execution time in us.
    pub min_time_us: u64,
    /// The longest execution time in us.
    pub max_time_us: u64,
    /// The number of rows changed.
    pub rows_affected: u64,
    /// The number of rows sent.
    pub rows_sent: u64,
}

/// A row of `stats_mysql_query_rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLine {
    /// The id of the rule.
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
    /// Its maximum number of client connections.
    pub max_connections: u32,
}

/// A row of `stats_mysql_errors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLine {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server that returned the error.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// The user who sent the statement.
    pub username: String,
    /// The client's address with `query_digests_track_hostname`; otherwise empty.
    pub client_address: String,
    /// The current schema.
    pub schemaname: String,
    /// The error number.
    pub errno: u16,
    /// How often the error occurred.
    pub count: u64,
    /// When it first occurred, in Unix time.
    pub first_seen: u64,
    /// When it last occurred, in Unix time.
    pub last_seen: u64,
    /// The text of the last one.
    pub last_error: String,
}

/// A row of `stats_mysql_free_connections`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeConnection {
    /// The descriptor of its socket.
    pub fd: i32,
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// The account it is logged in as.
    pub username: String,
    /// Its current schema.
    pub schema: Option<String>,
    /// The session variables that clients have set: name and value, as SQL literals.
    pub variables: Vec<(String, String)>,
    /// The time since its last use.
    pub idle_ms: u64,
    /// The time since it was opened.
    pub age_ms: u64,
    /// How many times it was leased.
    pub leases: u64,
    /// The connection id on the server.
    pub thread_id: u32,
    /// Whether the server is MariaDB.
    pub is_mariadb: bool,
    /// The negotiated capabilities.
    pub capabilities: u64,
}

/// A row of `stats_mysql_prepared_statements_info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedLine {
    /// Narrows' id of the statement.
    pub id: u64,
    /// The schema in which it was prepared.
    pub schemaname: String,
    /// The user who prepared it.
    pub username: String,
    /// The hash of the digest text.
    pub digest: u64,
    /// The number of client statements that refer to it.
    pub clients: u64,
    /// The number of backend connections that have prepared it.
    pub backends: u64,
    /// The number of columns in its result.
    pub columns: u16,
    /// The number of its parameters.
    pub parameters: u16,
    /// The text of the statement.
    pub query: String,
}

/// Memory usage by purpose, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Resident memory of the process (`VmRSS`).
    pub resident: u64,
    /// Virtual memory of the process (`VmSize`).
    pub virtual_size: u64,
    /// Allocated memory.
    pub allocated: u64,
    /// Address space that the allocator has obtained from the system.
    pub mapped: u64,
    /// Anonymous memory of the process (`RssAnon`): heap and stacks that are in memory.
    pub anonymous: u64,
    /// Accounts of the configuration in force.
    pub accounts: u64,
    /// Tables of digests, including their texts.
    pub digests: u64,
    /// Query rules of the configuration in force.
    pub rules: u64,
    /// Prepared statements, including their texts, as shared by clients and backend connections.
    pub statements: u64,
    /// Backend connections' records of the statements prepared on them.
    pub statements_of_backends: u64,
    /// Stacks of the worker threads, as reserved.
    pub worker_stacks: u64,
    /// Buffers with what clients sent.
    pub client_buffers: u64,
    /// Buffers with answers of servers.
    pub backend_buffers: u64,
    /// Buffers that are not in use.
    pub buffers_spare: u64,
    /// Sessions, without the memory of their tasks.
    pub sessions: u64,
    /// Idle backend connections.
    pub idle_backends: u64,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// It waits for a command.
    #[default]
    Sleep,
    /// It is running the command with this name in the process list (`Query`, `Execute`, `Init DB`, ...).
    Command(&'static str),
    /// It waits for a backend connection that will run the command.
    Connect,
}

impl Doing {
    /// The command as shown in a process list.
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
    /// The worker's index.
    pub worker: usize,
    /// The session's id, which `KILL` takes.
    pub id: u32,
    /// The session's user.
    pub username: String,
    /// The current schema.
    pub schema: Option<String>,
    /// The client's address.
    pub client_host: String,
    /// The client's port.
    pub client_port: u16,
    /// The hostgroup of the current backend connection, or of the last statement; `None` if there was none yet.
    pub hostgroup: Option<HostgroupId>,
    /// The current backend connection: leased for the running statement, or pinned.
    pub backend: Option<ProcessBackend>,
    /// What the session is doing.
    pub doing: Doing,
    /// For how many milliseconds.
    pub time_ms: u64,
    /// The running statement, up to [`SHOWN_TEXT`] bytes.
    pub info: Option<String>,
    /// Why the session is pinned to its backend connection.
    pub pins: PinReason,
    /// Milliseconds since the login.
    pub age_ms: u64,
    /// The number of commands received.
    pub commands: u64,
}

/// The maximum length of a running statement in the process list, in bytes.
pub const SHOWN_TEXT: usize = 1024;

/// A session's backend connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessBackend {
    /// The server.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// Narrows' address on that connection; empty for a socket.
    pub local_host: String,
    /// Narrows' port on that connection.
    pub local_port: u16,
    /// The connection id on the server.
    pub thread_id: u32,
}

/// One reason why a session is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinLine {
    /// The worker's index.
    pub worker: usize,
    /// The session's id.
    pub id: u32,
    /// The session's user.
    pub username: String,
    /// The current schema.
    pub schema: Option<String>,
    /// The client's address.
    pub client_host: String,
    /// The hostgroup of the session's backend connection.
    pub hostgroup: Option<HostgroupId>,
    /// The session's backend connection.
    pub backend: Option<ProcessBackend>,
    /// The reason; see [`PinReason::ALL`].
    pub reason: &'static str,
    /// For how many milliseconds it has held.
    pub age_ms: u64,
    /// The hash of the digest text of the statement that caused it.
    pub digest: u64,
    /// The digest text of that statement.
    pub digest_text: String,
}

/// A statement whose route is requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteQuestion {
    /// The statement.
    pub statement: Vec<u8>,
    /// The user who would send it; the schema is in `schema`.
    pub client: OwnedClient,
    /// The current schema; `None` for the account's default.
    pub schema: Option<String>,
}

/// Where a statement would go, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedRoute {
    /// The hash of the digest text; `None` while `query_digests` is off.
    pub digest: Option<u64>,
    /// The digest text.
    pub digest_text: String,
    /// The kind of the statement, as the lexer names it.
    pub kind: String,
    /// The class of the statement in `stats_mysql_commands_counters`.
    pub command: &'static str,
    /// The rules that match, in order.
    pub rules: Vec<RouteRule>,
    /// The hints in its first comment, in order.
    pub hints: Vec<RouteHint>,
    /// The statement as rewritten by rules, if they rewrite it.
    pub rewritten: Option<String>,
    /// The outcome.
    pub outcome: RouteOutcome,
    /// Every server of the hostgroup.
    pub servers: Vec<RouteServer>,
    /// How the query cache handles the statement.
    pub cache: String,
    /// Whether a transaction that it begins is run again after its server was lost, and what says so; `None`: nobody has asked
    /// for it.
    pub replay: Option<(&'static str, String)>,
    /// What would pin the session to its connection: the reason, and the word or rule that causes it.
    pub pins: Vec<(&'static str, String)>,
    /// What the rules of a dry run would change; `None`: nothing.
    pub dry_run: Option<RouteDryRun>,
}

/// What a dry run of rules would change about a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteDryRun {
    /// The rules that would match, in order.
    pub rules: Vec<i64>,
    /// The present decision, and that of the dry run: where they differ.
    pub decisions: [String; 2],
}

/// A rule that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// The id of the rule.
    pub rule_id: i64,
    /// The outputs that it sets: column and value.
    pub sets: Vec<(&'static str, String)>,
    /// How its effect differs from its row.
    pub remark: Option<&'static str>,
}

/// A hint of a statement's first comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteHint {
    /// The name of the hint, as written.
    pub key: String,
    /// The value of the hint.
    pub value: String,
    /// Why the hint is ignored; `None` if it is applied.
    pub ignored: Option<&'static str>,
}

/// The outcome for a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// It runs in this hostgroup, for this reason.
    Hostgroup(HostgroupId, String),
    /// Narrows answers, with this text.
    Answered(String),
}

/// A server of the hostgroup that a statement goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteServer {
    /// The server's name or address.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// The server's weight.
    pub weight: u32,
    /// Whether it may be chosen at the moment.
    pub eligible: bool,
    /// The reason why it may or may not be chosen.
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
