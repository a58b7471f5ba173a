//! Two scripted servers that remember who of them takes writes, and what each was asked: a primary and its replica, of which one
//! can do something wrong at one statement.

use std::sync::{Arc, Mutex, MutexGuard};

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig, Received, command, writer};

/// The primary.
pub const OLD: usize = 0;
/// Its replica.
pub const NEW: usize = 1;

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It dies, and has not done what the statement says.
    DiesBefore,
    /// It does it, and dies without an answer.
    DiesAfter,
    /// It neither does it nor answers.
    HangsBefore,
    /// It does it, and does not answer.
    HangsAfter,
    /// It refuses it.
    Refuses,
    /// It answers as if it had done it.
    Lies,
}

/// At which statement: whose, how it begins, and which of those that begin so.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub server: usize,
    pub statement: &'static str,
    pub occurrence: usize,
}

#[derive(Debug)]
struct State {
    takes_writes: [bool; 2],
    is_dead: [bool; 2],
    writes: [u32; 2],
    /// Whether both have taken writes at the same time.
    both: bool,
    fault: Option<(Place, Wrong)>,
    seen: usize,
}

/// Both.
pub struct Pair {
    state: Arc<Mutex<State>>,
    servers: Vec<FakeMysql>,
}

impl Pair {
    /// Starts them; nothing goes wrong yet.
    pub fn start() -> Pair {
        let state = Arc::new(Mutex::new(State {
            takes_writes: [true, false],
            is_dead: [false; 2],
            writes: [0; 2],
            both: false,
            fault: None,
            seen: 0,
        }));
        let servers = [OLD, NEW]
            .map(|server| {
                let state = Arc::clone(&state);
                let conversation =
                    Conversation::new().deciding(move |received| Some(decide(&state, server, received)));
                FakeMysql::start(conversation)
            })
            .into();
        Pair { state, servers }
    }

    pub fn config(&self) -> NarrowsConfig {
        NarrowsConfig::new()
            .monitor()
            .server(0, self.port(OLD), "")
            .server(1, self.port(NEW), "")
            .user("sbtest", "sbtest", "")
            .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
            .variable("monitor_read_only_interval", "300")
            .variable("monitor_writer_is_also_reader", "false")
            .variable("switchover_replication_username", "repl")
            .variable("switchover_replication_password", "of-repl")
    }

    pub fn port(&self, server: usize) -> u16 {
        self.servers[server].port()
    }

    /// Has a server do something wrong from now on.
    pub fn go_wrong(&self, place: Place, wrong: Wrong) {
        self.lock().fault = Some((place, wrong));
    }

    /// Whether it has been done.
    pub fn has_gone_wrong(&self) -> bool {
        self.lock().fault.is_none()
    }

    /// Somebody else makes the replica the primary.
    pub fn change_roles(&self) {
        self.lock().takes_writes = [false, true];
    }

    /// A server takes writes, whatever the other one does.
    pub fn becomes_writable(&self, server: usize) {
        self.lock().takes_writes[server] = true;
    }

    /// Somebody makes a server read-only.
    pub fn becomes_read_only(&self, server: usize) {
        self.lock().takes_writes[server] = false;
    }

    /// Closes all connections of a server.
    pub fn hang_up(&self, server: usize) {
        self.servers[server].hang_up();
    }

    pub fn takes_writes(&self, server: usize) -> bool {
        let state = self.lock();
        state.takes_writes[server] && !state.is_dead[server]
    }

    /// Whether both have taken writes at the same time.
    pub fn have_both_taken_writes(&self) -> bool {
        self.lock().both
    }

    pub fn writes(&self, server: usize) -> u32 {
        self.lock().writes[server]
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }
}

/// With the number of an error: a write that gets it.
pub const FAILS: &str = "INSERT INTO fails VALUES -- ";

/// The status of a session with an open transaction, and autocommit on.
const IN_TRANSACTION: u16 = 3;

/// What a server does with a command.
fn decide(state: &Mutex<State>, server: usize, received: &Received) -> Vec<Move> {
    let mut state = state.lock().expect("no panic while held");
    if state.is_dead[server] {
        return vec![Move::Close];
    }
    if received.code != command::QUERY {
        return vec![Move::ok()];
    }
    let text = received.body.as_str();
    let wrong = state.wrong_at(server, text);
    match wrong {
        Some(Wrong::DiesBefore) => {
            state.is_dead[server] = true;
            return vec![Move::Close];
        }
        Some(Wrong::HangsBefore) => return vec![Move::Hang],
        Some(Wrong::Refuses) => {
            return vec![Move::error(
                1227,
                "42000",
                "Access denied; you need (at least one of) the SUPER privilege(s)",
            )];
        }
        Some(Wrong::Lies) => return vec![lie(text)],
        _ => {}
    }
    let answer = state.run(server, text);
    match wrong {
        Some(Wrong::DiesAfter) => {
            state.is_dead[server] = true;
            vec![Move::Close]
        }
        Some(Wrong::HangsAfter) => vec![Move::Hang],
        _ => vec![answer],
    }
}

/// The answer of a server that has done nothing.
fn lie(text: &str) -> Move {
    match text.strip_prefix("SELECT ") {
        Some(_) if text.contains("WAIT_FOR") => Move::rows("waited", &["0"]),
        Some(_) => Move::rows("value", &[""]),
        None => Move::ok(),
    }
}

impl State {
    fn wrong_at(&mut self, server: usize, text: &str) -> Option<Wrong> {
        let (place, wrong) = self.fault?;
        if place.server != server || !text.starts_with(place.statement) {
            return None;
        }
        self.seen += 1;
        if self.seen != place.occurrence {
            return None;
        }
        self.fault = None;
        Some(wrong)
    }

    fn run(&mut self, server: usize, text: &str) -> Move {
        let flag = |is_on: bool| if is_on { "1" } else { "0" };
        let read_only = flag(!self.takes_writes[server]);
        if let Some(code) = text.strip_prefix(FAILS).and_then(|code| code.parse().ok()) {
            return Move::error(code, "HY000", "refused");
        }
        match text {
            "BEGIN" | "DO 1" => Move::Reply(vec![writer::ok(0, 0, IN_TRANSACTION, 0)]),
            "SELECT VERSION()" => Move::rows("VERSION()", &["8.0.40"]),
            "SHOW GRANTS" => Move::rows("Grants", &["GRANT ALL PRIVILEGES ON *.* TO `monitor`@`%`"]),
            "SHOW REPLICA STATUS" => self.replica_status(server),
            "SELECT @@GLOBAL.gtid_executed" => Move::rows("gtid_executed", &["u1:1-9"]),
            "SET GLOBAL super_read_only = 1" | "SET GLOBAL read_only = 1" => self.set(server, false),
            "SET GLOBAL read_only = 0" => self.set(server, true),
            _ if text.starts_with("SELECT @@GLOBAL.server_id") => Move::row(&[
                ("server_id", if server == OLD { "1" } else { "2" }),
                ("server_uuid", if server == OLD { "u1" } else { "u2" }),
                ("read_only", read_only),
                ("super_read_only", read_only),
                ("log_bin", "1"),
                ("log_updates", "1"),
                ("gtid_mode", "ON"),
                ("report_host", ""),
                ("report_port", "0"),
            ]),
            _ if text.starts_with("SELECT WAIT_FOR_EXECUTED_GTID_SET") => Move::rows("waited", &["0"]),
            _ if text.to_ascii_lowercase().starts_with("select @@global.read_only") => {
                Move::rows("read_only", &[read_only])
            }
            _ if text.starts_with("SELECT User_name") => Move::error(1142, "42000", "SELECT command denied"),
            _ if text.starts_with("INSERT") && !self.takes_writes[server] => {
                Move::error(1290, "HY000", "The MySQL server is running with the --super-read-only option")
            }
            _ if text.starts_with("INSERT") => {
                self.writes[server] += 1;
                Move::ok()
            }
            _ => Move::ok(),
        }
    }

    fn set(&mut self, server: usize, takes_writes: bool) -> Move {
        self.takes_writes[server] = takes_writes;
        self.both |= self.takes_writes == [true; 2];
        Move::ok()
    }

    fn replica_status(&self, server: usize) -> Move {
        if server == OLD && self.takes_writes[OLD] {
            return Move::Reply(vec![vec![0, 0, 0, 2, 0, 0, 0]]);
        }
        Move::row(&[
            ("Source_Host", "127.0.0.1"),
            ("Source_Port", "3306"),
            ("Source_User", "repl"),
            ("Source_Server_Id", "1"),
            ("Source_UUID", if server == OLD { "u2" } else { "u1" }),
            ("Replica_IO_Running", "Yes"),
            ("Replica_SQL_Running", "Yes"),
            ("Seconds_Behind_Source", "0"),
            ("Auto_Position", "1"),
        ])
    }
}
