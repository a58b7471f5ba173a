//! One of the two targets of a script: the server itself, or Narrows in front of its twin.

use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, ErrorPacket, Login, RawClient, RealServer, capability, command, wait_until};

use super::observe;

/// How a client logs in.
#[derive(Debug, Clone)]
pub struct LogIn {
    pub user: &'static str,
    pub schema: Option<String>,
    pub capabilities: u32,
    /// Those of the usual ones that this client does not have.
    pub without: u32,
    pub collation: u8,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Quit,
    Vanish,
    /// While one of its statements runs on the server.
    VanishInStatement,
}

/// What to kill in a second session of the same user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// A session idle in a transaction.
    IdleInTransaction,
    /// A statement.
    Statement,
    /// A session during its statement.
    Running,
}

/// One thing a client does.
#[derive(Debug, Clone)]
pub enum Step {
    Query(Vec<u8>),
    /// Prepared in the binary protocol, executed without parameters and closed.
    Prepared(Vec<u8>),
    /// The same with an integer and a NULL as parameters.
    PreparedCall(Vec<u8>),
    InitDb(String),
    ResetConnection,
    MultiStatements(bool),
    ChangeUser {
        login: LogIn,
        password: &'static str,
    },
    Reconnect {
        leave: Leave,
        login: LogIn,
    },
    Kill {
        victim: Victim,
        table: String,
        number: usize,
    },
}

impl Step {
    /// For the report.
    pub fn text(&self) -> String {
        match self {
            Step::Query(text) => text.escape_ascii().to_string(),
            Step::Prepared(text) => format!("[prepared] {}", text.escape_ascii()),
            Step::PreparedCall(text) => format!("[prepared, with 7 and NULL] {}", text.escape_ascii()),
            other => format!("{other:?}"),
        }
    }

    /// The text of a statement, whichever protocol it uses.
    pub fn statement(&self) -> Option<&[u8]> {
        match self {
            Step::Query(text) | Step::Prepared(text) | Step::PreparedCall(text) => Some(text),
            _ => None,
        }
    }
}

/// One client on one of the two targets.
pub struct Side<'s> {
    endpoint: Endpoint,
    server: &'s RealServer,
    /// Whether statements on this target's server outlive their clients.
    kills_left_statements: bool,
    login: LogIn,
    client: Option<RawClient>,
    /// Run after each login, reset and change of user: what servers and Narrows do for clients when this side does not.
    init_connect: Option<&'s InitConnect>,
}

/// What `init_connect` does in a run that has it.
#[derive(Debug)]
pub struct InitConnect {
    /// For all accounts.
    pub of_narrows: &'static str,
    /// For accounts without SUPER.
    pub of_server: &'static str,
}

impl<'s> Side<'s> {
    /// The server itself, over its socket, where any authentication plugin works.
    pub fn direct(server: &'s RealServer, login: &LogIn) -> Side<'s> {
        let endpoint = Endpoint::Unix(server.socket());
        Side {
            endpoint,
            server,
            kills_left_statements: false,
            login: login.clone(),
            client: None,
            init_connect: None,
        }
    }

    /// Narrows in front of `server`.
    pub fn through(endpoint: Endpoint, server: &'s RealServer, login: &LogIn) -> Side<'s> {
        Side {
            endpoint,
            server,
            kills_left_statements: true,
            login: login.clone(),
            client: None,
            init_connect: None,
        }
    }

    /// Does what `init_connect` would do.
    #[must_use]
    pub fn with_init_connect(mut self, init_connect: Option<&'s InitConnect>) -> Side<'s> {
        self.init_connect = init_connect;
        self
    }

    /// Disconnects, if connected, and logs in again.
    pub fn start(&mut self, login: &LogIn) -> Vec<String> {
        self.client = None;
        self.login = login.clone();
        match self.open() {
            Ok(client) => {
                self.client = Some(client);
                self.init();
                vec!["LOGGED IN".to_owned()]
            }
            Err(error) => vec![observe::error(&error)],
        }
    }

    /// The target's id of this session.
    pub fn id(&mut self) -> Option<u32> {
        self.client.as_mut()?.greeting().ok().map(|greeting| greeting.connection_id)
    }

    /// Disconnects for now.
    pub fn leave(&mut self) {
        self.client = None;
    }

    fn init(&mut self) {
        let (Some(init), Some(client)) = (self.init_connect, &mut self.client) else { return };
        let of_server = (self.login.user == super::script::PLAIN_USER).then_some(init.of_server);
        for statement in of_server.into_iter().chain([init.of_narrows]) {
            let answer = client.query(statement);
            assert!(answer.ok().is_some(), "{statement}: {answer:?}");
        }
    }

    fn open(&self) -> Result<RawClient, ErrorPacket> {
        let mut client = RawClient::connect(&self.endpoint);
        client.set_patience(Duration::from_secs(150));
        client.login(&login_of(&self.login, self.login.user))?;
        Ok(client)
    }

    /// Does one step; returns what the client sees, with a word in place of the session's id.
    pub fn run(&mut self, step: &Step) -> Vec<String> {
        let lines = self.lines(step);
        let shows_id =
            step.statement().is_some_and(|text| text.windows(13).any(|part| part == b"CONNECTION_ID"));
        match self.id().filter(|_| shows_id) {
            Some(id) => lines.into_iter().map(|line| without_id(&line, id)).collect(),
            None => lines,
        }
    }

    fn lines(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Query(text) => {
                let capabilities = self.capabilities();
                self.with_client(|client| observe::results(&client.query(text), capabilities))
            }
            Step::Prepared(text) => self.prepared(text, &[]),
            Step::PreparedCall(text) => {
                // The bitmap of NULLs, new types: LONG and NULL, and the value of the first.
                self.prepared(text, &[0b10, 1, 3, 0, 6, 0, 7, 0, 0, 0])
            }
            Step::InitDb(schema) => self
                .with_client(|client| observe::reply(&client.command(command::INIT_DB, schema.as_bytes()))),
            Step::ResetConnection => {
                let lines = self
                    .with_client(|client| observe::reply(&client.command(command::RESET_CONNECTION, b"")));
                self.init();
                lines
            }
            // Narrows and MariaDB answer with the packet that the capabilities require; only its success matters.
            Step::MultiStatements(on) => self.with_client(|client| {
                let answer = client.command(command::SET_OPTION, &[u8::from(!on), 0]);
                vec![format!("{:?}", answer.error())]
            }),
            Step::ChangeUser { login, password } => {
                let told = login_of(login, password);
                let lines = self.with_client(|client| match client.change_user(&told) {
                    Ok(_) => vec!["CHANGED".to_owned()],
                    Err(error) => vec![observe::error(&error)],
                });
                self.login.user = login.user;
                if lines == ["CHANGED"] {
                    self.init();
                }
                lines
            }
            Step::Reconnect { leave, login } => {
                match (leave, self.client.take()) {
                    (_, None) | (Leave::Quit, Some(_)) => {}
                    (Leave::Vanish, Some(client)) => client.vanish(),
                    (Leave::VanishInStatement, Some(client)) => self.vanish_in_statement(client),
                }
                self.start(login)
            }
            Step::Kill { victim, table, number } => self.kill(*victim, table, *number),
        }
    }

    fn prepared(&mut self, text: &[u8], parameters: &[u8]) -> Vec<String> {
        let capabilities = self.capabilities();
        self.with_client(|client| {
            let prepared = client.command(command::STMT_PREPARE, text);
            let mut lines = observe::prepared(&prepared, capabilities);
            let Some(id) = observe::statement_id(&prepared) else { return lines };
            let execute = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0], parameters].concat();
            lines.extend(observe::binary_results(
                &client.command(command::STMT_EXECUTE, &execute),
                capabilities,
            ));
            client.command(command::STMT_CLOSE, &id.to_le_bytes());
            lines
        })
    }

    fn capabilities(&self) -> u32 {
        self.client.as_ref().map_or(0, RawClient::capabilities)
    }

    fn with_client(&mut self, act: impl FnOnce(&mut RawClient) -> Vec<String>) -> Vec<String> {
        match &mut self.client {
            Some(client) => act(client),
            None => vec!["LOST".to_owned()],
        }
    }

    /// A server only notices a disconnected client when its statement has ended; Narrows notices at once, and kills the
    /// statement.
    fn vanish_in_statement(&self, mut client: RawClient) {
        let is_over = client.query("SELECT 'leaving'").lost.is_some();
        if is_over || !self.kills_left_statements {
            return client.vanish();
        }
        let tag = format!("left by {:p}", self);
        let sent =
            client.send_command(command::QUERY, &query(&client, &format!("SELECT SLEEP(60) /* {tag} */")));
        sent.expect("Narrows reads commands");
        self.wait_until_it_runs(client.greeting().map_or(0, |greeting| greeting.connection_id), &tag);
        client.vanish();
        wait_until("the statement of a vanished client is killed", || !self.is_running(&tag));
    }

    /// Whether the statement is already sleeping: killed before that, it ends with an error, afterwards with a row.
    fn is_running(&self, tag: &str) -> bool {
        let found = self.server.rows(&format!(
            "SELECT id FROM information_schema.processlist \
             WHERE info LIKE '%SLEEP%{tag}%' AND info NOT LIKE '%processlist%' AND state = 'User sleep'"
        ));
        !found.is_empty()
    }

    fn wait_until_it_runs(&self, id: u32, tag: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_running(tag) {
            let sessions = || self.server.rows("SHOW FULL PROCESSLIST");
            assert!(
                Instant::now() < deadline,
                "timed out waiting for the statement of {id}: {:#?}",
                sessions()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Opens a second session, makes it do something, and kills it or its statement from the first one.
    fn kill(&mut self, victim: Victim, table: &str, number: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut other = match self.open() {
            Ok(other) => other,
            Err(error) => return vec![observe::error(&error)],
        };
        let capabilities = other.capabilities();
        let id = other.query("SELECT CONNECTION_ID()").text_rows();
        let Some(Some(id)) = id.first().and_then(|row| row.first().cloned()) else {
            return vec![format!("no id: {id:?}")];
        };
        let greeted = other.greeting().map(|greeting| greeting.connection_id.to_string());
        lines.push(format!("the id is that of the greeting: {}", greeted.as_ref() == Ok(&id)));
        let kill = |side: &mut Self, statement: String| {
            side.with_client(|client| observe::reply(&client.query(statement)))
        };
        match victim {
            Victim::IdleInTransaction => {
                for statement in ["BEGIN".to_owned(), format!("INSERT INTO {table} (id) VALUES ({number})")] {
                    lines.extend(observe::results(&other.query(statement), capabilities));
                }
                lines.extend(kill(self, format!("KILL {id}")));
                // An error packet or the end of the stream: it is gone.
                lines.push(format!("gone: {}", other.query("SELECT 1").error().is_some()));
            }
            Victim::Statement | Victim::Running => {
                let tag = format!("killed by {:p}", self);
                let text = format!("SELECT SLEEP(60) /* {tag} */");
                other.send_command(command::QUERY, &query(&other, &text)).expect("commands are read");
                let id_of_other = other.greeting().map(|greeting| greeting.connection_id).unwrap_or(0);
                self.wait_until_it_runs(id_of_other, &tag);
                let whole = victim == Victim::Running;
                lines.extend(kill(self, format!("KILL {} {id}", if whole { "CONNECTION" } else { "QUERY" })));
                let answer = other.answer(command::QUERY);
                if whole {
                    lines.push(format!("gone: {}", answer.error().is_some()));
                } else {
                    lines.extend(observe::results(&answer, capabilities));
                    lines.extend(observe::results(&other.query("SELECT 'alive'"), capabilities));
                }
            }
        }
        // Its transaction is rolled back, possibly only after its row lock is released.
        for statement in [
            format!("INSERT INTO {table} (id) VALUES ({number})"),
            format!("DELETE FROM {table} WHERE id = {number}"),
        ] {
            let capabilities = self.capabilities();
            lines
                .extend(self.with_client(|client| observe::results(&client.query(&statement), capabilities)));
        }
        lines
    }
}

/// A row in which this id is the whole value of cells.
fn without_id(line: &str, id: u32) -> String {
    let Some(cells) = line.strip_prefix("ROW | ") else { return line.to_owned() };
    let id = id.to_string();
    let cells: Vec<&str> =
        cells.split(" | ").map(|cell| if cell == id { "<own id>" } else { cell }).collect();
    format!("ROW | {}", cells.join(" | "))
}

fn login_of(login: &LogIn, password: &str) -> Login {
    let mut told = Login::new(login.user, password);
    told.capabilities |= login.capabilities;
    told.capabilities &= !login.without;
    told.collation = login.collation.into();
    told.schema = login.schema.clone();
    told
}

/// The body of `COM_QUERY`.
fn query(client: &RawClient, statement: &str) -> Vec<u8> {
    let attributes: &[u8] =
        if client.capabilities() & capability::QUERY_ATTRIBUTES != 0 { &[0, 1] } else { &[] };
    [attributes, statement.as_bytes()].concat()
}

/// How long something that must happen soon may take.
const PATIENCE: Duration = Duration::from_secs(90);
