//! Random scripts: several clients on Narrows with few connections, and for each a twin on a separate server. Both must
//! get the same answers. Clients share schemas, so that they share statements; tables are changed between preparing and
//! executing, and backend connections are killed.
//!
//! `NARROWS_MODEL_SEED` repeats a failed run, `NARROWS_MODEL_STEPS` sets the length of a run.

use narrows_testkit::{
    Answer, Endpoint, ErrorPacket, Flavour, Login, OkPacket, RawClient, ServerOptions, command,
};

use super::{Scene, Statement, Value};

const CLIENTS: usize = 4;

/// What is prepared, and how many parameters it has. `ROW_COUNT()` and `FOUND_ROWS()` are left out: right after a
/// statement is prepared or reset, they return the value of a connection on which that happened, which may not be the
/// case here. Some results depend on the schema, on `sql_mode`, on earlier statements, or on the types of the
/// parameters.
const TEXTS: &[(&str, usize)] = &[
    ("SELECT ?", 1),
    ("SELECT CONCAT('<', ?, '>'), ?", 2),
    ("SELECT * FROM d ORDER BY id", 0),
    ("SELECT id, v FROM d WHERE id >= ? ORDER BY id", 1),
    ("INSERT INTO d (id, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)", 2),
    ("UPDATE d SET v = ? WHERE id = ?", 2),
    ("INSERT INTO made (v) VALUES (?)", 1),
    ("SELECT DATABASE(), @@sql_mode", 0),
    ("SELECT 'a' || 'b', \"x\"", 0),
    ("SELECT v FROM nosuch", 0),
    ("SELEC ?", 0),
];

/// What is sent as text in between.
const QUERIES: &[&str] = &[
    "SELECT 1",
    "USE one",
    "USE two",
    "SET SESSION sql_mode = 'PIPES_AS_CONCAT'",
    "SET SESSION sql_mode = ''",
    "SELECT id FROM d LIMIT 2",
];

/// One client and its twin.
struct Pair {
    direct: RawClient,
    through: RawClient,
    statements: Vec<Open>,
}

/// A statement that both have open.
struct Open {
    /// The server's id and Narrows': servers use up ids when they prepare again by themselves.
    statement: [Statement; 2],
    text: &'static str,
    params: usize,
    /// It is either always or never executed with a cursor: MySQL 9 does not answer properly if both happen.
    with_cursor: bool,
    cursor: bool,
    parts: bool,
    /// A parameter was sent in parts once: servers treat its first parameter as long data.
    was_sent: bool,
    /// Its first parameter was a number once.
    number: bool,
    /// The types that its parameters were bound with.
    bound: Option<Vec<bool>>,
    /// On MySQL: which of its parameters are always numbers. Earlier bindings of a client show in the lengths of
    /// columns there, and a server that prepares a statement again for Narrows has not seen them.
    always: Option<Vec<bool>>,
}

struct Run {
    random: u64,
    twin: narrows_testkit::RealServer,
    scene: Scene,
    pairs: Vec<Pair>,
    wide: bool,
    log: Vec<String>,
}

#[test]
fn scripts_by_chance_see_what_mariadb_shows() {
    Flavour::MariaDb.if_tested(scripts_by_chance);
}

#[test]
fn scripts_by_chance_see_what_mysql_9_shows() {
    Flavour::MySql9.if_tested(scripts_by_chance);
}

fn scripts_by_chance(flavour: Flavour) {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let steps = setting("NARROWS_MODEL_STEPS").unwrap_or(6_000);
    let seed = setting("NARROWS_MODEL_SEED").unwrap_or(7);
    let mut run = Run::start(flavour, seed);
    for step in 0..steps {
        run.log.push(format!("-- step {step}"));
        run.step();
    }
}

impl Run {
    fn start(flavour: Flavour, seed: u64) -> Run {
        let schemas = ["one", "two"].map(|schema| {
            [
                format!("CREATE DATABASE IF NOT EXISTS {schema}"),
                format!("CREATE TABLE {schema}.d (id INT PRIMARY KEY, v VARCHAR(100))"),
                format!("INSERT INTO {schema}.d VALUES (1, '{schema}'), (2, 'b'), (3, NULL), (4, 'd')"),
            ]
        });
        let made = ["one", "two"].map(|schema| {
            format!("CREATE TABLE IF NOT EXISTS {schema}.made (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
        });
        let scene = Scene::start(flavour, 6, &[("max_stmts_per_connection", "4")]);
        let twin = ServerOptions::new(flavour).start();
        for server in [&scene.server, &twin] {
            let statements: Vec<&str> =
                schemas.as_flattened().iter().chain(&made).map(String::as_str).collect();
            server.execute(&statements);
        }
        let mut run = Run { random: seed | 1, twin, scene, pairs: Vec::new(), wide: false, log: Vec::new() };
        for number in 0..CLIENTS {
            let login = Login::new("sbtest", "sbtest").schema(["one", "two"][number % 2]);
            // Over its socket, where any authentication plugin works.
            let direct = RawClient::open(&Endpoint::Unix(run.twin.socket()), &login);
            let through = RawClient::open(&run.scene.narrows.endpoint(), &login);
            let mut pair = Pair { direct, through, statements: Vec::new() };
            // Servers are configured alike, except for what Narrows sends them about itself.
            for client in [&mut pair.direct, &mut pair.through] {
                client.query("SET SESSION sql_mode = ''");
            }
            run.pairs.push(pair);
        }
        run
    }

    fn below(&mut self, bound: usize) -> usize {
        // The constants of Knuth's MMIX; the high bits are the random ones.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % bound
    }

    fn step(&mut self) {
        let client = self.below(CLIENTS);
        let open = self.pairs[client].statements.len();
        match self.below(100) {
            0..15 => self.prepare(client),
            15..24 => {
                let query = QUERIES[self.below(QUERIES.len())];
                self.both(client, query, |it, _| it.query(query));
            }
            24..27 => self.change_table(),
            27..30 => self.cut(),
            30 => {
                self.both(client, "COM_RESET_CONNECTION", |it, _| it.command(command::RESET_CONNECTION, b""));
                self.both(client, "SET", |it, _| it.query("SET SESSION sql_mode = ''"));
                self.pairs[client].statements.clear();
            }
            _ if open == 0 => self.prepare(client),
            31..36 => {
                let index = self.below(open);
                let closed = self.pairs[client].statements.swap_remove(index);
                self.log.push(format!("{client}: close {}", closed.statement[1].id));
                closed.statement[0].close(&mut self.pairs[client].direct);
                closed.statement[1].close(&mut self.pairs[client].through);
            }
            36..40 => self.reset(client),
            40..46 => self.send_part(client),
            46..60 => self.fetch(client),
            _ => self.execute(client),
        }
    }

    /// Makes both do the same, and compares the answers.
    fn both(
        &mut self,
        client: usize,
        what: &str,
        act: impl Fn(&mut RawClient, usize) -> Answer,
    ) -> [Answer; 2] {
        self.log.push(format!("{client}: {what}"));
        let pair = &mut self.pairs[client];
        let (wanted, got) = (act(&mut pair.direct, 0), act(&mut pair.through, 1));
        let (left, right) = (seen(&wanted), seen(&got));
        if left != right {
            let last = self.log.len().saturating_sub(60);
            panic!(
                "{:?}, seed {}:\n{}\ndirect  {left:?}\nnarrows {right:?}",
                self.scene.flavour,
                std::env::var("NARROWS_MODEL_SEED").unwrap_or_else(|_| "7".to_owned()),
                self.log[last..].join("\n"),
            );
        }
        [wanted, got]
    }

    fn prepare(&mut self, client: usize) {
        let (text, params) = TEXTS[self.below(TEXTS.len())];
        let answer = self.both(client, text, |it, _| it.command(command::STMT_PREPARE, text.as_bytes()));
        if let [Ok(direct), Ok(through)] = answer.map(Statement::read) {
            let statement = [direct, through];
            let with_cursor = text.starts_with("SELECT") && self.below(3) == 0;
            let kinds = vec![self.below(2) == 0, self.below(2) == 0];
            let always = (self.scene.flavour == Flavour::MySql9).then_some(kinds);
            self.pairs[client].statements.push(Open {
                statement,
                text,
                params,
                with_cursor,
                cursor: false,
                parts: false,
                was_sent: false,
                number: false,
                bound: None,
                always,
            });
        }
    }

    fn execute(&mut self, client: usize) {
        let index = self.below(self.pairs[client].statements.len());
        let binds = self.below(3) == 0;
        let numbers = [self.below(6) as i64, self.below(6) as i64];
        let kinds: Vec<bool> = [self.below(2) == 0, self.below(2) == 0].to_vec();
        let open = &mut self.pairs[client].statements[index];
        let binds = binds || open.bound.is_none() || open.parts;
        if binds {
            // Binding a number after sending parts is the reverse case, which MariaDB also gets wrong.
            open.bound = Some(if open.was_sent { vec![false; 2] } else { kinds });
            open.number |= open.bound.as_ref().is_some_and(|kinds| kinds[0]);
        }
        let kinds = open.always.clone().or_else(|| open.bound.clone()).expect("bound by now");
        let texts = numbers.map(|number| number.to_string());
        let string = if open.always.is_some() { Value::Bytes } else { Value::Text };
        let mut values: Vec<Value> = (0..open.params)
            .map(|at| if kinds[at] { Value::Integer(numbers[at]) } else { string(&texts[at]) })
            .collect();
        if open.parts {
            values[0] = Value::Sent;
            open.bound = None;
            open.was_sent = true;
        }
        let flags = u8::from(open.with_cursor);
        let statement = open.statement;
        let bodies = statement.map(|it| it.execution(flags, &values, binds));
        let what =
            format!("execute {} {} cursor {flags} {values:?} binds {binds}", statement[1].id, open.text);
        let [_, answer] =
            self.both(client, &what, |it, side| it.command(command::STMT_EXECUTE, &bodies[side]));
        let open = &mut self.pairs[client].statements[index];
        open.parts = false;
        open.cursor = open.with_cursor && answer.error().is_none() && has_cursor(&answer);
    }

    fn fetch(&mut self, client: usize) {
        let rows = 1 + self.below(3) as u32;
        let Some(index) = self.pairs[client].statements.iter().position(|open| open.cursor) else {
            return self.execute(client);
        };
        let ids = self.pairs[client].statements[index].statement.map(|it| it.id);
        let bodies = ids.map(|id| [id.to_le_bytes(), rows.to_le_bytes()].concat());
        let id = ids[1];
        let [_, answer] = self.both(client, &format!("fetch {id} {rows}"), |it, side| {
            it.command(command::STMT_FETCH, &bodies[side])
        });
        let end = answer.packets.last().map(|packet| packet.payload.clone()).unwrap_or_default();
        // LAST_ROW_SENT
        self.pairs[client].statements[index].cursor = end.len() == 5 && end[3] & 0x80 == 0;
    }

    fn reset(&mut self, client: usize) {
        let index = self.below(self.pairs[client].statements.len());
        let open = &mut self.pairs[client].statements[index];
        (open.cursor, open.parts) = (false, false);
        let statement = open.statement;
        self.both(client, &format!("reset {}", statement[1].id), |it, side| statement[side].reset(it));
    }

    fn send_part(&mut self, client: usize) {
        let pair = &mut self.pairs[client];
        // MariaDB reads the parts as a number if the parameter was one before.
        let takes = |open: &&mut Open| {
            let text = open.always.as_ref().or(open.bound.as_ref()).is_none_or(|kinds| !kinds[0]);
            open.params > 0 && !open.cursor && !open.number && text
        };
        let Some(open) = pair.statements.iter_mut().find(takes) else { return };
        open.parts = true;
        open.statement[0].send(&mut pair.direct, 0, b"1");
        open.statement[1].send(&mut pair.through, 0, b"1");
        self.log.push(format!("{client}: a part for {}", open.statement[1].id));
    }

    fn is_tied(&self) -> bool {
        let tied = |open: &Open| open.cursor || open.parts;
        self.pairs.iter().any(|pair| pair.statements.iter().any(tied))
    }

    /// One column more, or one less.
    fn change_table(&mut self) {
        if self.pairs.iter().any(|pair| pair.statements.iter().any(|open| open.cursor)) {
            return;
        }
        let change = if self.wide { "DROP e" } else { "ADD e INT DEFAULT 7 AFTER id" };
        self.wide = !self.wide;
        self.log.push(format!("ALTER TABLE {change}"));
        for schema in ["one", "two"] {
            let statement = format!("ALTER TABLE {schema}.d {change}");
            self.twin.execute(&[&statement]);
            self.scene.server.execute(&[&statement]);
        }
    }

    /// Replaces all backend connections, while none has any state of a client.
    fn cut(&mut self) {
        if self.is_tied() {
            return;
        }
        for client in 0..CLIENTS {
            self.both(client, "COM_RESET_CONNECTION", |it, _| it.command(command::RESET_CONNECTION, b""));
            self.both(client, "SET", |it, _| it.query("SET SESSION sql_mode = ''"));
        }
        let prepared: Vec<Vec<Open>> =
            self.pairs.iter_mut().map(|pair| std::mem::take(&mut pair.statements)).collect();
        for (client, statements) in prepared.into_iter().enumerate() {
            for open in statements {
                let text = open.text;
                let answer =
                    self.both(client, text, |it, _| it.command(command::STMT_PREPARE, text.as_bytes()));
                let [Ok(direct), Ok(through)] = answer.map(Statement::read) else { continue };
                let statement = [direct, through];
                let fresh = Open {
                    statement,
                    cursor: false,
                    parts: false,
                    was_sent: false,
                    number: false,
                    bound: None,
                    ..open
                };
                self.pairs[client].statements.push(fresh);
            }
        }
        self.log.push("connections are cut".to_owned());
        self.scene.cut();
    }
}

/// Whether an execution has opened a cursor.
fn has_cursor(answer: &Answer) -> bool {
    answer.packets.last().is_some_and(|packet| packet.payload.len() == 5 && packet.payload[3] & 0x40 != 0)
}

/// The part of an answer that must be equal. Status flags about the server's plan, about changes that only Narrows
/// tracks, and about a statement that was prepared again are left out, and so are warnings before rows.
fn seen(answer: &Answer) -> Vec<String> {
    const CURSOR_AND_TRANSACTION: u8 = 0xC1;
    let mut lines = vec![format!("{:?}", answer.lost)];
    for (index, packet) in answer.packets.iter().enumerate() {
        let payload = &packet.payload;
        lines.push(match payload.first() {
            Some(0xFE) if payload.len() == 5 => format!("EOF {:#x}", payload[3] & CURSOR_AND_TRANSACTION),
            Some(0) if index == 0 && payload.len() == 12 => {
                format!("PREPARED {:?}", payload[5..9].escape_ascii().to_string())
            }
            Some(0) if index == 0 => match OkPacket::decode(payload) {
                Some(ok) => format!("OK {} {}", ok.affected_rows, ok.last_insert_id),
                None => payload.escape_ascii().to_string(),
            },
            _ => match ErrorPacket::decode(payload) {
                Some(error) => format!("{error:?}"),
                None => payload.escape_ascii().to_string(),
            },
        });
    }
    lines
}
