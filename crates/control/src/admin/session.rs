//! The life of an admin session: commands in, answers out. The control thread interprets statements.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use narrows_proxy::audit::{AuditEvent, AuditPeer};
use narrows_proxy::buffer::Buffer;
use narrows_proxy::client::LoginError;
use narrows_proxy::packets::{ReadError, payload, read_packet};
use narrows_proxy::reply::put_error;
use narrows_proxy::rt::{oneshot, select, sleep, timeout};
use narrows_proxy::stream::Stream;
use narrows_wire::frame::{MAX_PAYLOAD, put_packet};
use narrows_wire::handshake::ChangeUser;
use narrows_wire::{Command, Errno};

use super::answer::{put_eof, put_ok, put_refusal, send_rows};
use super::budget::Share;
use super::door::Door;
use super::login::{Claim, Login, authenticate, log_in, send_ok};
use super::logins;
use super::reply::Reply;
use super::request::{Caller, Request};
use super::visitors::Place;
use crate::store::{Abandoned, Answer, Role};

/// A session.
pub struct Session {
    door: Rc<Door>,
    stream: Stream,
    input: Buffer,
    login: Login,
    caller: Caller,
    place: Place,
    /// Its connection, for the audit log.
    who: AuditPeer,
}

/// Whether a session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Command,
    End,
}

/// A complete command.
enum Received {
    Command(Vec<u8>),
    /// The command is longer than the limit.
    TooLong,
}

impl Session {
    /// Logs a client in.
    pub async fn begin(door: Rc<Door>, id: u32, stream: Stream) -> Option<Session> {
        stream.set_keepalive(Some(KEEPALIVE));
        let peer = stream.peer();
        let mut who =
            AuditPeer { thread_id: id, client: peer.clone(), local: stream.local(), ..AuditPeer::default() };
        let mut input = Buffer::default();
        match timeout(LOGIN_TIME, log_in(&door, &mut who, stream, &mut input)).await {
            Ok(Ok((stream, login, place))) => {
                logins::tell(&login.user, login.role, &peer.0, peer.1);
                door.audit_log.tell(|| AuditEvent::now("Admin_Connect_OK", who.clone()));
                let caller = Caller {
                    role: login.role,
                    user: login.user.clone(),
                    host: peer.0,
                    port: peer.1,
                    connection: Box::new(who.clone()),
                    warnings: Vec::new(),
                    is_checked: false,
                    is_first: true,
                };
                Some(Session { door, stream, input, login, caller, place, who })
            }
            Ok(Err(LoginError::NothingSent)) => {
                tracing::debug!(client = peer.0, port = peer.1, "disconnected without a login");
                None
            }
            failed => {
                let error = failed.map_or_else(
                    |_| "no login in time".to_owned(),
                    |failed| failed.err().map(|error| error.to_string()).unwrap_or_default(),
                );
                door.failed_logins.tell(|| {
                    tracing::info!(client = peer.0, port = peer.1, error, "admin login failed");
                });
                let failed = || AuditEvent::now("Admin_Connect_ERR", who);
                door.audit_log.tell(|| failed().with("extra_info", error.as_str()));
                None
            }
        }
    }

    /// Serves the client until the session ends.
    pub async fn run(mut self) {
        self.serve().await;
        self.door.audit_log.tell(|| AuditEvent::now("Admin_Quit", self.who.clone()));
    }

    async fn serve(&mut self) {
        loop {
            let limit = self.longest_statement();
            let command = match timeout(IDLE_TIME, self.receive(limit)).await {
                Ok(Ok(Received::Command(command))) => command,
                Ok(Ok(Received::TooLong)) => {
                    let text = format!("Got a packet bigger than 'max_allowed_packet' bytes ({limit})");
                    self.error(Errno::NET_PACKET_TOO_LARGE, &text).await;
                    return;
                }
                Ok(Err(_)) | Err(_) => return,
            };
            match timeout(ANSWER_TIME, self.dispatch(command)).await {
                Ok(Ok(Next::Command)) => {}
                Ok(Ok(Next::End) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// The maximum length of a statement in bytes. Statistics users send short queries, and the memory for what they
    /// send is per session.
    fn longest_statement(&self) -> usize {
        let longest = self.door.settings().longest_statement;
        match self.caller.role {
            Role::Admin => longest,
            Role::Stats => longest.min(LONGEST_OF_STATISTICS),
        }
    }

    /// Reads a command of one or more packets.
    async fn receive(&mut self, limit: usize) -> Result<Received, ReadError> {
        let mut command = Vec::new();
        loop {
            let header = read_packet(&self.stream, &mut self.input, MAX_PAYLOAD).await?;
            if command.len() + header.length > limit {
                return Ok(Received::TooLong);
            }
            command.extend_from_slice(payload(&self.input, header));
            self.input.consume(header.packet_length());
            if header.length < MAX_PAYLOAD {
                if self.input.is_empty() {
                    // An idle session holds no memory.
                    self.input = Buffer::default();
                }
                return Ok(Received::Command(command));
            }
        }
    }

    async fn dispatch(&mut self, command: Vec<u8>) -> Result<Next, ReadError> {
        let code = command.first().copied();
        let capabilities = self.login.capabilities;
        let mut out = Vec::new();
        match code.and_then(Command::from_code) {
            Some(Command::Quit) => return Ok(Next::End),
            Some(Command::Query) => return self.query(command).await,
            Some(Command::ChangeUser) => return self.change_user(&command).await,
            Some(Command::Ping | Command::InitDb | Command::StmtReset | Command::ResetConnection) => {
                put_ok(&mut out, 1, 0, "", 0, capabilities);
            }
            Some(Command::SetOption) => put_eof(&mut out, &mut 1, 0),
            // Neither gets an answer.
            Some(Command::StmtClose | Command::StmtSendLongData) => {}
            Some(Command::Statistics) => {
                let text = self.ask_for_statistics().await;
                put_packet(&mut out, &mut 1, text.as_bytes());
            }
            Some(Command::StmtPrepare | Command::StmtExecute | Command::FieldList) => {
                put_error(&mut out, &mut 1, Errno::ACCESS_DENIED_ERROR, "Command not supported");
            }
            Some(Command::ProcessKill) => {
                put_error(&mut out, &mut 1, Errno::COMMAND_NOT_SUPPORTED, "Command not supported");
            }
            _ => put_error(&mut out, &mut 1, Errno::UNKNOWN_COM_ERROR, "Unknown command"),
        }
        self.stream.write_all(&out).await?;
        Ok(Next::Command)
    }

    async fn query(&mut self, command: Vec<u8>) -> Result<Next, ReadError> {
        let capabilities = self.login.capabilities;
        let (reply, share) = self.ask(command.get(1..).unwrap_or_default()).await;
        // The statement uses no memory while the answer is sent.
        drop(command);
        let mut out = Vec::new();
        match reply {
            Reply::Answer(Answer::Rows(set)) => {
                send_rows(&self.stream, set).await?;
                drop(share);
                return Ok(Next::Command);
            }
            Reply::Answer(Answer::Done { affected, info, warnings }) => {
                put_ok(&mut out, 1, affected, &info, warnings.len(), capabilities);
            }
            Reply::Refused(refusal) => put_refusal(&mut out, 1, &refusal),
            Reply::NotYet | Reply::HangUp | Reply::OnFigures(_) => return Ok(Next::End),
        }
        self.stream.write_all(&out).await?;
        Ok(Next::Command)
    }

    /// Waits for its turn, then passes a statement to the control thread. Rows come with the permit for their memory.
    async fn ask(&mut self, text: &[u8]) -> (Reply, Option<Share>) {
        let since = Instant::now();
        self.caller.is_first = true;
        loop {
            let role = self.caller.role;
            let turn = self.door.turns(role).take(&self.caller.user).await;
            let (reply, answer) = oneshot::channel();
            let caller = std::mem::take(&mut self.caller);
            let waits = Waits::default();
            let abandoned = waits.0.clone();
            let request = Request { caller, text: text.to_vec(), since, abandoned, reply };
            if !(self.door.statements)(request) {
                return (Reply::HangUp, None);
            }
            let answer = match role {
                Role::Admin => answer.await.ok(),
                // Statistics users only read, so a statement is interrupted when its client disconnects.
                Role::Stats => select! {
                    answer = answer => answer.ok(),
                    () = client_gone(&self.stream, &mut self.input) => None,
                },
            };
            drop(waits);
            let Some((caller, reply)) = answer else { return (Reply::HangUp, None) };
            self.caller = caller;
            match reply {
                Reply::NotYet => {
                    self.caller.is_first = false;
                    drop(turn);
                    sleep(ASK_AGAIN).await;
                }
                Reply::Answer(Answer::Rows(set)) => {
                    return match self.door.budget.take(role, set.rows.bytes()) {
                        Ok(share) => (Reply::Answer(Answer::Rows(set)), Some(share)),
                        Err(refusal) => (Reply::Refused(refusal), None),
                    };
                }
                reply => return (reply, None),
            }
        }
    }

    /// The line shown by `mysqladmin status`.
    async fn ask_for_statistics(&mut self) -> String {
        let question = b"SELECT Variable_Name, Variable_Value FROM stats_mysql_global";
        let mut figures = std::collections::HashMap::new();
        if let (Reply::Answer(Answer::Rows(set)), _) = self.ask(question).await {
            for row in set.rows {
                let mut cells = row.into_iter().map(|cell| {
                    cell.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
                });
                figures.insert(cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            }
        }
        let figure = |name: &str| figures.get(name).cloned().unwrap_or_else(|| "0".to_owned());
        format!(
            "Uptime: {}  Threads: {}  Questions: {}  Slow queries: {}",
            figure("ProxySQL_Uptime"),
            figure("Client_Connections_connected"),
            figure("Questions"),
            figure("Slow_queries")
        )
    }

    async fn change_user(&mut self, command: &[u8]) -> Result<Next, ReadError> {
        let Ok(change) = ChangeUser::decode(command, self.login.capabilities) else {
            self.error(Errno::MALFORMED_PACKET, "Malformed communication packet").await;
            return Ok(Next::End);
        };
        let settings = self.door.settings();
        let claim = Claim {
            user: &change.user,
            plugin: change.plugin.as_deref(),
            answer: &change.auth_response,
            is_change: true,
            capabilities: self.login.capabilities,
            host: &self.caller.host,
        };
        let (mut sequence, nonce) = (1, self.login.nonce);
        let authenticated =
            authenticate(&settings, &self.door, &self.stream, &mut self.input, &nonce, &mut sequence, &claim);
        let user = String::from_utf8_lossy(&change.user).into_owned();
        let who = AuditPeer { username: user.clone(), ..self.who.clone() };
        let Ok(Ok(role)) = timeout(LOGIN_TIME, authenticated).await else {
            self.door.audit_log.tell(|| AuditEvent::now("Admin_Change_User_ERR", who));
            return Ok(Next::End);
        };
        let Some(place) = self.door.visitors.admit(role, &user) else {
            let mut out = Vec::new();
            put_error(&mut out, &mut sequence, Errno::CON_COUNT_ERROR, "Too many connections");
            let _ = timeout(LOGIN_TIME, self.stream.write_all(&out)).await;
            return Ok(Next::End);
        };
        self.door.audit_log.tell(|| AuditEvent::now("Admin_Change_User_OK", who.clone()));
        *self.caller.connection = who.clone();
        (self.place, self.who) = (place, who);
        self.caller.role = role;
        self.caller.user = user;
        self.caller.warnings.clear();
        logins::tell(&self.caller.user, role, &self.caller.host, self.caller.port);
        send_ok(&self.stream, sequence, self.login.capabilities).await?;
        Ok(Next::Command)
    }

    async fn error(&self, errno: Errno, text: &str) {
        let mut out = Vec::new();
        put_error(&mut out, &mut 1, errno, text);
        // The session ends in any case.
        let _ = timeout(LOGIN_TIME, self.stream.write_all(&out)).await;
    }
}

/// As long as this exists, somebody waits for an answer.
#[derive(Default)]
struct Waits(Abandoned);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Waits until the client disconnects. What it sends in the meantime is kept, up to a limit; beyond that, a disconnect
/// is only noticed when the answer is sent.
async fn client_gone(stream: &Stream, input: &mut Buffer) {
    while input.filled().len() < AHEAD && stream.readable().await.is_ok() {
        input.make_room(1);
        match input.try_fill(stream) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    if input.filled().len() >= AHEAD {
        std::future::pending().await
    }
}

/// Time limit of a login; only programs log in here, so it is half the default of `mysql-connect_timeout_client`.
const LOGIN_TIME: Duration = Duration::from_secs(5);

/// The maximum length of a statistics user's statement.
const LONGEST_OF_STATISTICS: usize = 1 << 20;

/// How long a session may be idle: the default of `mysql-wait_timeout`. The variable itself only applies to clients.
const IDLE_TIME: Duration = Duration::from_secs(8 * 3_600);

/// Time limit of an answer, and for the client to read it. A `PULL VERSION` may wait for any time below that.
const ANSWER_TIME: Duration = Duration::from_secs(3_600);

const KEEPALIVE: Duration = Duration::from_secs(120);

/// How many bytes are read from a client that waits for an answer: pipelined commands are short.
const AHEAD: usize = 16 * 1024;

/// The pause before a statement that cannot be answered yet is tried again.
const ASK_AGAIN: Duration = Duration::from_millis(50);
