//! The effects of statements, row by row: see `table.txt`.

use super::*;
use narrows_wire::response::Expect;

/// One session of the table.
struct Session {
    state: SessionState,
    status: Status,
    pins: Pins,
}

impl Session {
    fn new() -> Session {
        let mut state = SessionState::after_login("utf8mb4", None);
        state.schema = Some(b"shop".as_slice().into());
        Session { state, status: Status::AUTOCOMMIT, pins: Pins::default() }
    }

    /// Runs a row; returns its effects, in the format of the table.
    fn run(&mut self, row: &Row<'_>) -> String {
        let has = |option: &str| row.options.contains(&option);
        let command = match () {
            () if has("execute") => Command::StmtExecute,
            () if has("bulk") => Command::StmtBulkExecute,
            () if has("prepare") => Command::StmtPrepare,
            () if has("fetch") => Command::StmtFetch,
            () if has("reset") => Command::StmtReset,
            () if has("init_db") => Command::InitDb,
            () if has("ping") => Command::Ping,
            () => Command::Query,
        };
        let of_statement = !matches!(command, Command::Query | Command::InitDb | Command::Ping);
        let expect = if has("cursor") { Expect::Cursor } else { Expect::Result };
        let prepared = HeldStatement { id: 1, tied: has("tied"), expect, schema: Some(b"shop") };
        let done = Done {
            command,
            statement: match command {
                Command::InitDb | Command::Ping => Statement { kind: Kind::Other, flags: Flags::NONE },
                _ => narrows_sql::classify(row.statement.as_bytes()),
            },
            text: row.statement.as_bytes(),
            whole: !has("unread"),
            prepared: of_statement.then_some(prepared),
            apart: has("apart"),
            keeps_multiplexing: has("keeps_multiplexing"),
        };
        let answer = Answer::read(row.answer);
        let before = Before {
            late: false,
            pins: std::mem::take(&mut self.pins),
            state: &self.state,
            own: None,
            status: self.status,
            family: if has("mariadb") { Family::MariaDb } else { Family::MySql },
            coverage: match () {
                () if has("no_reports") => Coverage::Nothing,
                () if has("as_the_client_likes") => Coverage::AsTheClientLikes,
                () => Coverage::All,
            },
            multiplexes: !has("multiplexing_off"),
        };
        let report = answer.report();
        let effects = effects(&done, &report, before);
        let written = write(&effects);
        let mut state = self.state.clone();
        let shared = effects.changes.iter().filter(|change| !change.is_of_the_connection());
        shared.for_each(|change| change.make(&mut state));
        self.status = effects.status.unwrap_or(self.status);
        if effects.exit.is_none() {
            self.pins = effects.pins;
        }
        drop(effects.changes);
        self.state = state;
        written
    }
}

/// A server's answer.
struct Answer {
    status: Option<Status>,
    error: Option<u16>,
    rows: Option<u64>,
    warnings: u16,
    variables: Vec<(String, Vec<u8>)>,
    schema: Option<Vec<u8>>,
    state_changed: bool,
    characteristics: Option<Vec<u8>>,
    prepared: bool,
}

impl Answer {
    /// `ok`, `error=NUMBER`, `rows=COUNT`, flags of the status, `schema=NAME`, and reported variables: `@@NAME=VALUE`.
    fn read(text: &str) -> Answer {
        let mut status = Status::AUTOCOMMIT;
        let mut answer = Answer {
            status: None,
            error: None,
            rows: None,
            warnings: 0,
            variables: Vec::new(),
            schema: None,
            state_changed: false,
            characteristics: None,
            prepared: false,
        };
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("ok", _) => {}
                ("prepared", _) => answer.prepared = true,
                ("state", _) => answer.state_changed = true,
                ("trans", _) => status = status.union(Status::IN_TRANS),
                ("read_only", _) => status = status.union(Status::IN_TRANS_READONLY),
                ("manual", _) => status = status.without(Status::AUTOCOMMIT),
                ("no_backslash", _) => status = status.union(Status::NO_BACKSLASH_ESCAPES),
                ("cursor", _) => status = status.union(Status::CURSOR_EXISTS),
                ("last_row", _) => status = status.union(Status::LAST_ROW_SENT),
                ("error", number) => answer.error = Some(number.parse().unwrap()),
                ("rows", rows) => answer.rows = Some(rows.parse().unwrap()),
                ("warnings", count) => answer.warnings = count.parse().unwrap(),
                ("next", text) => answer.characteristics = Some(text.as_bytes().to_vec()),
                ("schema", name) => answer.schema = Some(name.as_bytes().to_vec()),
                (variable, value) => {
                    let name = variable.strip_prefix("@@").expect(word).to_owned();
                    answer.variables.push((name, value.as_bytes().to_vec()));
                }
            }
        }
        answer.status = answer.error.is_none().then_some(status);
        answer
    }

    fn report(&self) -> ServerReport<'_> {
        ServerReport {
            status: self.status,
            error: self.error,
            rows: self.rows,
            warnings: self.warnings,
            reported: Reported::These(&self.variables),
            schema: self.schema.as_deref(),
            state_changed: self.state_changed,
            characteristics: self.characteristics.as_deref(),
            nulls: &[],
            prepared: self.prepared,
        }
    }
}

/// `{options} statement -> answer => effects`.
struct Row<'t> {
    /// It continues the session of the previous row.
    goes_on: bool,
    options: Vec<&'t str>,
    statement: &'t str,
    answer: &'t str,
    effects: &'t str,
}

impl<'t> Row<'t> {
    fn read(line: &'t str) -> Row<'t> {
        let (line, effects) = line.rsplit_once(" => ").expect(line);
        let (line, answer) = line.rsplit_once(" -> ").expect(line);
        let (goes_on, line) = line.strip_prefix("then ").map_or((false, line), |line| (true, line));
        let (options, statement) = match line.strip_prefix('{') {
            Some(line) => line.split_once("} ").expect(line),
            None => ("", line),
        };
        let options = options.split_ascii_whitespace().collect();
        Row { goes_on, options, statement, answer, effects: effects.trim() }
    }
}

/// Reasons by name, and what the end of the session does to the connection if it is not a reset; or what is done to a
/// connection that is not pinned. Then the changes.
fn write(effects: &Effects<'_>) -> String {
    let mut parts = vec![match (effects.exit, effects.pins.exit_of_session()) {
        (Some(exit), _) => format!("{exit:?}"),
        (None, Exit::Reset) => effects.pins.reasons().names().join(" "),
        (None, exit) => format!("{} (in the end {exit:?})", effects.pins.reasons().names().join(" ")),
    }];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    parts.extend(effects.changes.iter().map(|change| match change {
        Change::Reported { name, value } => format!("@@{name} is {}", text(value)),
        Change::Literal { name, literal } => format!("@@{name} = {literal}"),
        Change::Default(name) => format!("@@{name} = DEFAULT"),
        Change::UserVariable { name, literal } => format!("@{name} = {literal}"),
        Change::Names(charset) => format!("NAMES {charset}"),
        Change::Collation(collation) => format!("COLLATE {collation}"),
        Change::SchemaReported(b"") => "schema is none".to_owned(),
        Change::SchemaReported(schema) => format!("schema is {}", text(schema)),
        Change::Schema(schema) => format!("schema = {}", text(schema)),
        Change::UnknownSchemaCollation => "connection: collation_database unknown".to_owned(),
    }));
    parts.extend(effects.insert_id.map(|id| format!("insert_id = {id}")));
    if effects.prepared != ServerStatement::AsItWas {
        parts.push(format!("statement: {:?}", effects.prepared));
    }
    if effects.warnings > 0 {
        parts.push(format!("warnings {}", effects.warnings));
    }
    parts.join("; ")
}

fn rows() -> impl Iterator<Item = (usize, Row<'static>)> {
    let lines = include_str!("table.txt").lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| (number + 1, Row::read(line)))
}

#[test]
fn statements_have_the_effects_of_the_table() {
    let mut session = Session::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (number, row) in rows() {
        if !row.goes_on {
            session = Session::new();
        }
        let effects = session.run(&row);
        if effects != row.effects {
            let Row { statement, answer, effects: told, .. } = row;
            wrong.push(format!("{number}: {statement} -> {answer} => {effects}, and not {told}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= 150, "{count} rows");
}

#[test]
fn the_table_has_every_reason_every_exit_and_every_change() {
    let written: Vec<&str> = rows().map(|(_, row)| row.effects).collect();
    let has =
        |word: &str| written.iter().any(|effects| effects.split([' ', ';', ')']).any(|other| other == word));
    // `COM_STMT_SEND_LONG_DATA` has no answer.
    let reasons = PinReason::ALL.iter().filter(|(reason, _)| *reason != PinReason::LONG_DATA);
    for name in reasons.map(|(_, name)| *name).chain(["Return", "Reset", "ChangeUser", "Close"]) {
        assert!(has(name), "{name}");
    }
    for word in ["is", "DEFAULT", "NAMES", "COLLATE", "schema", "connection:", "insert_id", "warnings"] {
        assert!(has(word), "{word}");
    }
}

#[test]
fn what_was_left_of_a_parameter_goes_with_its_execution() {
    let mut session = Session::new();
    session.pins.hold(1, PinReason::LONG_DATA);
    let row = Row::read(
        "{execute} INSERT INTO t VALUES (?) -> ok => Return; statement: Shared { had_cursor: false }",
    );
    assert_eq!(session.run(&row), row.effects);
}

#[test]
fn what_is_expected_is_what_comes_of_a_statement_on_a_server_that_reports() {
    for (text, reasons) in [
        ("SELECT 1", &[][..]),
        ("START TRANSACTION", &["transaction"]),
        ("COMMIT AND CHAIN", &["transaction"]),
        ("XA COMMIT 'x'", &["xa"]),
        ("SELECT RELEASE_LOCK('a')", &[]),
        ("SET last_insert_id = 5", &[]),
        ("SET last_insert_id = 5 + 1", &["unknown_set"]),
        ("SET NAMES utf8mb4", &[]),
        ("SET NAMES latin1, @a = 'x'", &["user_variable"]),
        ("SET ROLE r", &["role"]),
        ("SET profiling = 1", &["beyond_reset"]),
        ("SET @@x = 1; SELECT 1", &["unknown_set"]),
        ("SET TRANSACTION READ ONLY; SELECT 1", &["next_transaction", "unknown_set"]),
    ] {
        let statement = narrows_sql::classify(text.as_bytes());
        assert_eq!(expected(&statement, text.as_bytes(), Family::MySql).names(), reasons, "{text}");
    }
}
