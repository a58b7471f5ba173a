//! The differential test: the corpus sent to a real server directly and through Narrows; every packet of the answers
//! must be equal. What Narrows changes on purpose is [`EXCEPTIONS`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;

use narrows_testkit::{
    Answer, Endpoint, ErrorPacket, Flavour, Login, Narrows, NarrowsConfig, OkPacket, Packet, RawClient,
    RealServer, capability, command, reader,
};

use crate::support::start;

/// What is not compared, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("the greeting", "version, connection id, capabilities and challenge are Narrows' own"),
    ("COM_STATISTICS", "the figures are those of Narrows; the format is compared"),
    (
        "warnings, IN_TRANS, MORE_RESULTS and the flags about indexes in the EOF before the rows",
        "with a server that deprecates EOF and a client that does not, Narrows makes this EOF before the server's \
         flags are known",
    ),
    (
        "the flags about indexes and slowness",
        "which plan a server takes depends on statistics that it samples, and on time; two direct runs differ too",
    ),
    (
        "the order of the changes in one OK packet",
        "MariaDB reports variables in the order of a hash table, which differs between its connections",
    ),
    (
        "SESSION_STATE_CHANGED in EOF packets",
        "it cannot say what has changed, and Narrows makes servers report more than its clients asked for",
    ),
    ("the statement id in the answer to COM_STMT_PREPARE", "ids are Narrows' own, counted per client"),
];

#[test]
fn answers_of_mariadb_are_unchanged() {
    Flavour::MariaDb.if_tested(compare_through_narrows);
}

#[test]
fn answers_of_mysql9_are_unchanged() {
    Flavour::MySql9.if_tested(compare_through_narrows);
}

/// Statements whose answers differ between two direct runs do not belong in the corpus.
#[test]
fn the_corpus_is_deterministic() {
    let mut found = Vec::new();
    for flavour in Flavour::both() {
        // Separate servers, because the schemas have the same names as in other tests.
        let server = differential_server(flavour);
        let side = Side::new(server.endpoint(), &server);
        let capabilities = CAPABILITIES.iter().fold(0, |all, (_, one)| all | one);
        found.extend(compare(&side, &side, flavour, capabilities, |name| name != "big"));
    }
    report(&found);
}

fn compare_through_narrows(flavour: Flavour) {
    assert!(EXCEPTIONS.iter().all(|(what, why)| !what.is_empty() && !why.is_empty()));
    let server = differential_server(flavour);
    let direct = Side::new(server.endpoint(), &server);
    let plain = with_one_connection(server.port(), 0, |config| config);
    let deprecating = with_one_connection(server.port(), capability::DEPRECATE_EOF, |config| config);
    let mut found = Vec::new();
    for set in 0..1 << CAPABILITIES.len() {
        let chosen = CAPABILITIES.iter().enumerate().filter(|(bit, _)| set & 1 << bit != 0);
        let capabilities = chosen.fold(0, |all, (_, (_, one))| all | one);
        // Each of the other two is combined with each form, and each form of the client with each of the server.
        let has = |capability| capabilities & capability != 0;
        let is_plain = has(capability::SESSION_TRACK) == has(capability::MULTI_STATEMENTS);
        let narrows = if is_plain { &plain } else { &deprecating };
        let through = Side::new(narrows.endpoint(), &server);
        // Large answers only where they are translated; elsewhere, other tests send more.
        let big = !has(capability::SESSION_TRACK) && has(capability::DEPRECATE_EOF) == is_plain;
        found.extend(compare(&direct, &through, flavour, capabilities, |name| big || name != "big"));
    }
    report(&found);
}

/// A Narrows with one connection to the server, in this form, which the first client determines.
fn with_one_connection(port: u16, form: u32, configure: impl Fn(NarrowsConfig) -> NarrowsConfig) -> Narrows {
    let config = NarrowsConfig::new()
        .server(0, port, "max_connections=1")
        .user("sbtest", "sbtest", "")
        .variable("threads", "1")
        .variable("max_allowed_packet", "268435456")
        .variable("enable_load_data_local_infile", "true");
    let narrows = start(&configure(config));
    let login = Login::new("sbtest", "sbtest").with(form);
    RawClient::open(&narrows.endpoint(), &login).query("DO 1").ok().expect("Narrows serves");
    narrows
}

/// Every read of the corpus is sent twice, so that the second answer comes from the cache wherever possible.
#[test]
fn answers_from_the_cache_are_those_of_the_server() {
    for flavour in Flavour::both() {
        let server = differential_server(flavour);
        let direct = Side { reads: Reads::Twice, ..Side::new(server.endpoint(), &server) };
        let mut found = Vec::new();
        let mut hits = 0;
        for form in [0, capability::DEPRECATE_EOF] {
            // The server's own form is the other one.
            let cache_all =
                |config: NarrowsConfig| config.rule("rule_id=1 match_digest=\".\" cache_ttl=3600000 apply=1");
            let narrows = with_one_connection(server.port(), form ^ capability::DEPRECATE_EOF, cache_all);
            let login = Login::new("admin", "admin");
            let admin = RefCell::new(RawClient::open(&narrows.admin_endpoint(), &login));
            let reads = Reads::TwiceBehindFlush(Box::new(admin));
            let through = Side { reads, ..Side::new(narrows.endpoint(), &server) };
            let capabilities = form | capability::SESSION_TRACK | capability::MULTI_STATEMENTS;
            found.extend(compare(&direct, &through, flavour, capabilities, |name| name != "big"));
            let figure = "SELECT Variable_Value FROM stats_mysql_global \
                          WHERE Variable_Name='Query_Cache_count_GET_OK'";
            let mut admin = RawClient::open(&narrows.admin_endpoint(), &login);
            hits += admin.query(figure).cell().expect("a value").parse::<u32>().expect("a number");
        }
        report(&found);
        println!("{flavour:?}: {hits} answers came from the cache");
        assert!(hits > 300, "{flavour:?}: {hits} answers came from the cache");
    }
}

/// The capabilities that change the form of answers; the corpus is run with every set of them.
const CAPABILITIES: [(&str, u32); 3] = [
    ("DEPRECATE_EOF", capability::DEPRECATE_EOF),
    ("SESSION_TRACK", capability::SESSION_TRACK),
    ("MULTI_STATEMENTS", capability::MULTI_STATEMENTS),
];

fn differential_server(flavour: Flavour) -> RealServer {
    let server = narrows_testkit::ServerOptions::new(flavour)
        .option("--max-allowed-packet=256M")
        .option("--local-infile=1")
        .option("--default-storage-engine=InnoDB")
        .start();
    // After one full authentication over a secure transport caching_sha2_password takes the fast path over TCP.
    RawClient::open(&Endpoint::Unix(server.socket()), &Login::new("sbtest", "sbtest"));
    server
}

/// The target of one of the two runs.
struct Side<'a> {
    endpoint: Endpoint,
    server: &'a RealServer,
    reads: Reads,
}

/// How often reads are sent.
enum Reads {
    Once,
    Twice,
    /// This administrator empties the cache before each, because its contents may be older than the last write.
    TwiceBehindFlush(Box<RefCell<RawClient>>),
}

impl Side<'_> {
    fn new(endpoint: Endpoint, server: &RealServer) -> Side<'_> {
        Side { endpoint, server, reads: Reads::Once }
    }

    /// How often a line is sent; prepares for it.
    fn times(&self, line: &str) -> usize {
        let begins =
            |word: &str| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let reads = begins("SELECT") || begins("SHOW") || begins("WITH") || begins("@execute");
        match &self.reads {
            Reads::Twice if reads => 2,
            Reads::TwiceBehindFlush(admin) if reads => {
                admin.borrow_mut().query("PROXYSQL FLUSH QUERY CACHE").ok().expect("flushed");
                2
            }
            _ => 1,
        }
    }
}

/// One line of the corpus and what came back.
#[derive(PartialEq, Eq)]
struct Exchange {
    line: usize,
    command: String,
    outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Answer(Answer),
    Login(Result<Vec<u8>, ErrorPacket>),
}

/// The differences between the two sides, as text.
fn compare(
    left: &Side,
    right: &Side,
    flavour: Flavour,
    capabilities: u32,
    wanted: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in corpus().iter().filter(|(name, _)| wanted(name)) {
        let expected = run(left, flavour, name, text, capabilities);
        let actual = run(right, flavour, name, text, capabilities);
        if let Some(lost) = expected.iter().find(|exchange| is_lost(&exchange.outcome)) {
            found.push(format!(
                "{name}:{}: the server itself hangs up at {}: {:?}",
                lost.line, lost.command, lost.outcome
            ));
        }
        for (expected, actual) in expected.iter().zip(&actual) {
            if expected != actual && !differ_by_an_empty_report(flavour, &expected.outcome, &actual.outcome) {
                let set: Vec<&str> =
                    CAPABILITIES.iter().filter(|(_, f)| capabilities & f != 0).map(|(n, _)| *n).collect();
                found.push(describe(flavour, name, &set.join("+"), expected, actual));
            }
        }
    }
    found
}

/// Whether the two differ only in that MySQL announces changes of the session and reports none, which depends on what it has
/// reported on that connection before.
fn differ_by_an_empty_report(flavour: Flavour, expected: &Outcome, actual: &Outcome) -> bool {
    let (Outcome::Answer(expected), Outcome::Answer(actual)) = (expected, actual) else { return false };
    let plain = |payload: &[u8]| match payload {
        [0, affected, id, low, high, warnings @ .., 0, 0] if warnings.len() == 2 && high & 0x40 != 0 => {
            [&[0, *affected, *id, *low, high & !0x40], warnings].concat()
        }
        payload => payload.to_vec(),
    };
    flavour == Flavour::MySql9
        && expected.packets.len() == actual.packets.len()
        && expected.packets.iter().zip(&actual.packets).all(|(one, other)| {
            one.sequence == other.sequence && plain(&one.payload) == plain(&other.payload)
        })
}

fn is_lost(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answer(answer) => answer.lost.is_some(),
        Outcome::Login(result) => result.as_ref().is_err_and(|error| error.code == 2013),
    }
}

fn describe(flavour: Flavour, name: &str, set: &str, expected: &Exchange, actual: &Exchange) -> String {
    let command: String = expected.command.chars().take(100).collect();
    let mut text = format!("{flavour:?} [{set}] {name}:{}: {command}", expected.line);
    match (&expected.outcome, &actual.outcome) {
        (Outcome::Answer(left), Outcome::Answer(right)) => {
            let at = left.packets.iter().zip(&right.packets).position(|(a, b)| a != b);
            let at = at.unwrap_or_else(|| left.packets.len().min(right.packets.len()));
            let show = |answer: &Answer| match answer.packets.get(at) {
                Some(packet) => format!("{packet:?}"),
                None => format!("no more, {:?}", answer.lost),
            };
            write!(text, "\n  packet {at}\n  direct  {}\n  narrows {}", show(left), show(right))
        }
        (left, right) => write!(text, "\n  direct  {left:?}\n  narrows {right:?}"),
    }
    .expect("writing to a String cannot fail");
    text
}

fn report(found: &[String]) {
    let shown: Vec<&str> = found.iter().take(40).map(String::as_str).collect();
    assert!(found.is_empty(), "{} differences; the first:\n{}", found.len(), shown.join("\n"));
}

/// The files of the corpus by name, in order.
fn corpus() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/corpus");
    let only = std::env::var("NARROWS_CORPUS").ok();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the corpus").flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_some_and(|extension| extension == "sql")
            && only.as_ref().is_none_or(|only| *only == name)
        {
            files.push((name, std::fs::read_to_string(path).expect("a corpus file is text")));
        }
    }
    files.sort();
    files
}

/// Sends one file on one connection, on fresh schemas.
fn run(side: &Side, flavour: Flavour, name: &str, text: &str, capabilities: u32) -> Vec<Exchange> {
    let schema = format!("corpus_{name}");
    let mut fresh = Vec::new();
    for schema in [schema.clone(), format!("{schema}_b")] {
        fresh.push(format!("DROP DATABASE IF EXISTS {schema}"));
        fresh.push(format!("CREATE DATABASE {schema}"));
    }
    side.server.execute(&fresh.iter().map(String::as_str).collect::<Vec<_>>());
    let login = Login::new("sbtest", "sbtest").schema(&schema).with(capabilities);
    let mut talk =
        Talk { client: RawClient::open(&side.endpoint, &login), login, statements: HashMap::new() };
    // Long enough for the largest answers, short enough for an answer that never ends.
    talk.client.set_patience(std::time::Duration::from_secs(10));
    let mut for_us = true;
    let mut exchanges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line {
            "" | "@all" => for_us = true,
            "@mariadb" => for_us = flavour == Flavour::MariaDb,
            "@mysql" => for_us = flavour == Flavour::MySql9,
            _ if line.starts_with('#') || !for_us => {}
            _ => {
                let command = expand(&line.replace("{schema}", &schema));
                assert_eq!(
                    talk.client.unread(),
                    0,
                    "{flavour:?} {name}: an answer before line {} is not all read",
                    number + 1
                );
                for _ in 0..side.times(line) {
                    let Some(outcome) = talk.send(&command) else { continue };
                    // What follows on a lost connection is meaningless.
                    let lost = is_lost(&outcome);
                    exchanges.push(Exchange { line: number + 1, command: line.to_owned(), outcome });
                    if lost {
                        return exchanges;
                    }
                }
            }
        }
    }
    exchanges
}

/// Replaces every `{x*100}` by a hundred `x`.
pub fn expand(line: &str) -> String {
    let mut expanded = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        expanded.push_str(before);
        let mut characters = from[1..].chars();
        let (what, star) = (characters.next(), characters.next());
        let number = from.find('}').and_then(|end| from.get(3..end)).and_then(|number| number.parse().ok());
        match (what, star, number) {
            (Some(what), Some('*'), Some(count)) => {
                expanded.extend(std::iter::repeat_n(what, count));
                rest = &from[from.find('}').expect("just found") + 1..];
            }
            _ => {
                expanded.push('{');
                rest = &from[1..];
            }
        }
    }
    expanded + rest
}

/// One conversation.
struct Talk {
    client: RawClient,
    login: Login,
    statements: HashMap<String, [u8; 4]>,
}

/// Clears, in the EOF packets before the rows, the flags that are only known after them.
fn without_late_flags(mut answer: Answer) -> Answer {
    let mut before_rows = true;
    for packet in &mut answer.packets {
        if packet.first() == 0xFE && packet.payload.len() == 5 {
            if before_rows {
                packet.payload[1..3].fill(0);
                packet.payload[3] &= !0x39;
            }
            packet.payload[4] &= !0x40;
            before_rows = !before_rows;
        }
    }
    answer
}

/// The part of an answer that is compared.
fn comparable(answer: Answer) -> Outcome {
    let mut answer = without_late_flags(answer);
    for packet in &mut answer.packets {
        with_sorted_changes(packet);
        without_plan(packet);
    }
    Outcome::Answer(answer)
}

/// Clears what an OK or EOF packet says about the plan: no good index, no index at all, slow.
fn without_plan(packet: &mut Packet) {
    let lenenc = |first: Option<&u8>| match first {
        Some(0..=0xFA) => 1,
        Some(0xFC) => 3,
        Some(0xFD) => 4,
        _ => 9,
    };
    let status = match packet.first() {
        0xFE if packet.payload.len() == 5 => 3,
        0x00 | 0xFE if OkPacket::decode(&packet.payload).is_some() => {
            let affected = lenenc(packet.payload.get(1));
            1 + affected + lenenc(packet.payload.get(1 + affected))
        }
        _ => return,
    };
    if let Some(flags) = packet.payload.get_mut(status..status + 2) {
        flags[0] &= !0x30;
        flags[1] &= !0x08;
    }
}

/// Sorts the changes of the session in an OK packet; other packets are unchanged.
fn with_sorted_changes(packet: &mut Packet) {
    const SESSION_STATE_CHANGED: u16 = 0x4000;
    let ok = OkPacket::decode(&packet.payload).filter(|ok| ok.status & SESSION_STATE_CHANGED != 0);
    let Some((info, mut changes)) = ok.and_then(|ok| changes(&ok.rest)) else { return };
    changes.sort();
    let changes = narrows_testkit::writer::lenenc_bytes(&changes.concat());
    let start = packet.payload.len() - info.len() - changes.len();
    packet.payload.splice(start.., [info, changes].concat());
}

/// The information text and the individual changes at the end of an OK packet, including lengths; `None` if the bytes
/// are something else.
fn changes(rest: &[u8]) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut rest = reader::Bytes::new(rest);
    let info = narrows_testkit::writer::lenenc_bytes(rest.lenenc_bytes()?);
    let mut block = reader::Bytes::new(rest.lenenc_bytes()?);
    let mut changes = Vec::new();
    while !block.rest().is_empty() {
        let kind = block.u8()?;
        let change = narrows_testkit::writer::lenenc_bytes(block.lenenc_bytes()?);
        changes.push([vec![kind], change].concat());
    }
    rest.rest().is_empty().then_some((info, changes))
}

impl Talk {
    /// Sends what a line means; `None` for lines that send nothing.
    fn send(&mut self, line: &str) -> Option<Outcome> {
        let Some(directive) = line.strip_prefix('@') else {
            let answer = self.client.query(line.strip_suffix(';').unwrap_or(line));
            return Some(comparable(answer));
        };
        let (verb, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let (name, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        let answer = match verb {
            "ping" => self.client.command(command::PING, b""),
            "debug" => self.client.command(command::DEBUG, b""),
            "reset" => self.client.command(command::RESET_CONNECTION, b""),
            "statistics" => shape_of_statistics(self.client.command(command::STATISTICS, b"")),
            "init_db" => self.client.command(command::INIT_DB, rest.as_bytes()),
            "set_option" => self.client.command(command::SET_OPTION, &[rest.parse().expect("a number"), 0]),
            "field_list" => {
                self.client.command(command::FIELD_LIST, &[name.as_bytes(), &[0], tail.as_bytes()].concat())
            }
            "change_user" => {
                self.login.schema = (!rest.is_empty()).then(|| rest.to_owned());
                return Some(Outcome::Login(self.client.change_user(&self.login)));
            }
            "prepare" => self.prepare(name, tail),
            "execute" => self.execute(name, tail),
            "fetch" => {
                let rows: u32 = tail.parse().expect("a number of rows");
                self.client.command(command::STMT_FETCH, &[self.statement(name), rows.to_le_bytes()].concat())
            }
            "reset_statement" => self.client.command(command::STMT_RESET, &self.statement(name)),
            "close" => self.client.command(command::STMT_CLOSE, &self.statement(name)),
            "long_data" => {
                let (parameter, text) = tail.split_once(' ').expect("a parameter and a text");
                let parameter: u16 = parameter.parse().expect("the number of a parameter");
                let body = [&self.statement(name)[..], &parameter.to_le_bytes(), text.as_bytes()].concat();
                self.client.command(command::STMT_SEND_LONG_DATA, &body)
            }
            "file" => {
                self.client.set_local_file(rest.replace("\\n", "\n").replace("\\t", "\t").into_bytes());
                return None;
            }
            _ => panic!("unknown directive: {line}"),
        };
        Some(comparable(answer))
    }

    fn statement(&self, name: &str) -> [u8; 4] {
        // A statement that could not be prepared has no id; this one is never used.
        self.statements.get(name).copied().unwrap_or([0xEE, 0xEE, 0, 0])
    }

    fn prepare(&mut self, name: &str, statement: &str) -> Answer {
        let mut answer = self.client.command(command::STMT_PREPARE, statement.as_bytes());
        self.statements.remove(name);
        if let Some(Packet { payload, .. }) = answer.packets.first_mut()
            && payload.first() == Some(&0)
        {
            self.statements.insert(name.to_owned(), payload[1..5].try_into().expect("four bytes"));
            payload[1..5].fill(0);
        }
        answer
    }

    fn execute(&mut self, name: &str, tail: &str) -> Answer {
        let (cursor, values) = tail.split_once(' ').unwrap_or((tail, ""));
        let mut body = self.statement(name).to_vec();
        body.push(cursor.parse().expect("the cursor flag"));
        body.extend(1u32.to_le_bytes());
        let values: Vec<Value> =
            values.split(' ').filter(|value| !value.is_empty()).map(Value::parse).collect();
        if !values.is_empty() {
            let mut nulls = vec![0u8; values.len().div_ceil(8)];
            for (index, _) in values.iter().enumerate().filter(|(_, value)| value.bytes.is_none()) {
                nulls[index / 8] |= 1 << (index % 8);
            }
            body.extend(nulls);
            body.push(1);
            body.extend(values.iter().flat_map(|value| [value.kind, 0]));
            body.extend(values.iter().filter_map(|value| value.bytes.as_deref()).flatten());
        }
        self.client.command(command::STMT_EXECUTE, &body)
    }
}

/// A value of a prepared statement: its type code and its bytes, none for NULL.
struct Value {
    kind: u8,
    bytes: Option<Vec<u8>>,
}

impl Value {
    fn parse(text: &str) -> Value {
        let (form, rest) = text.split_once(':').unwrap_or((text, ""));
        let (kind, bytes) = match form {
            "null" => (6, None),
            "i" => (8, Some(rest.parse::<i64>().expect("an integer").to_le_bytes().to_vec())),
            "d" => (5, Some(rest.parse::<f64>().expect("a number").to_le_bytes().to_vec())),
            "s" => (253, Some(narrows_testkit::writer::lenenc_bytes(rest.as_bytes()))),
            "r" => {
                let (kind, hex) = rest.split_once(':').expect("a type and bytes");
                let digits =
                    |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
                (kind.parse().expect("a type"), Some((0..hex.len()).step_by(2).map(digits).collect()))
            }
            _ => panic!("unknown value: {text}"),
        };
        Value { kind, bytes }
    }
}

/// The names of the figures without their values.
fn shape_of_statistics(mut answer: Answer) -> Answer {
    for packet in &mut answer.packets {
        let text = String::from_utf8_lossy(&packet.payload);
        assert!(text.starts_with("Uptime: ") && text.contains("Questions: "), "no statistics: {text}");
        packet.payload.clear();
    }
    answer
}
