//! Scripts of locks, temporary tables, variables and functions, written so that the end of a string or comment decides
//! what runs. What the server holds for the client at the end of a script must still belong to the client after another
//! client has requested the only connection, and the other client must have none of it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Answer, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability,
};

use super::random_cases;
use crate::model::random::Random;
use crate::support::start;

/// A server, Narrows with one connection to it, and sessions of both that run the same scripts.
struct Stand {
    flavour: Flavour,
    server: RealServer,
    narrows: Narrows,
    admin: RawClient,
    number: usize,
    /// How many scripts left something, and in how many Narrows kept nothing.
    held: usize,
    free: usize,
}

/// A script: the session's settings, and its statements.
struct Script {
    charset: &'static str,
    sql_mode: &'static str,
    texts: Vec<Vec<u8>>,
}

impl Stand {
    fn start(flavour: Flavour) -> Stand {
        let server = ServerOptions::new(flavour)
            .option("--log-bin-trust-function-creators=1")
            .option("--lock-wait-timeout=20")
            .start();
        server.execute(&[
            "CREATE DATABASE rt",
            "CREATE TABLE rt.t (n BIGINT) ENGINE=InnoDB",
            "CREATE TABLE rt.u (n INT)",
            "INSERT INTO rt.u VALUES (1)",
            "CREATE FUNCTION rt.locks(name VARCHAR(99)) RETURNS INT NO SQL RETURN GET_LOCK(name, 0)",
            "CREATE FUNCTION rt.sets() RETURNS INT NO SQL BEGIN SET @a = 'by a function'; RETURN 5; END",
            "CREATE PROCEDURE rt.makes() CREATE TEMPORARY TABLE rt.tmp (n INT)",
        ]);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            // Most scripts end with the connection kept, and this is how long the other client waits for it in vain.
            .variable("connect_timeout_server_max", "10")
            .user("sbtest", "sbtest", "");
        let narrows = start(&config);
        let admin = narrows.admin();
        Stand { flavour, server, narrows, admin, number: 0, held: 0, free: 0 }
    }

    /// Runs the statements with unique lock names; `one` is the session they run in.
    fn run(script: &Script, number: usize, one: &mut RawClient) {
        let set = [
            format!("SET NAMES {}", script.charset),
            format!("SET SESSION sql_mode = '{}'", script.sql_mode),
        ];
        for text in set {
            let error = one.query(&text).error();
            // MariaDB has no gb18030.
            assert!(error.is_none_or(|error| error.code == 1115), "{text}");
        }
        for text in &script.texts {
            let text = with_number(text, number);
            let deadline = Instant::now() + Duration::from_secs(30);
            // What was left before is cleaned up, which may take longer than a statement waits for a connection here.
            while one.query(&text).error().is_some_and(|error| error.code == NO_CONNECTION) {
                assert!(Instant::now() < deadline, "the connection does not come back to its client");
            }
        }
    }

    /// The answer to the client that has nothing; an error only if the other one keeps the connection.
    fn ask(&mut self, other: &mut RawClient, text: &str) -> Answer {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = other.query(text);
            let is_free = answer.error().is_none_or(|error| error.code != NO_CONNECTION);
            if is_free || !self.admin.query("SHOW PINS").text_rows().is_empty() {
                return answer;
            }
            assert!(Instant::now() < deadline, "nobody keeps the connection, and nobody gets it");
        }
    }

    /// Whether what the script leaves also belongs to the client through Narrows.
    fn check(&mut self, script: &Script) {
        let login = || Login::new("sbtest", "sbtest").schema("rt").with(capability::MULTI_STATEMENTS);
        self.number += 1;
        let root = Login::new("root", "").schema("rt").with(capability::MULTI_STATEMENTS);
        let mut direct = RawClient::open(&self.server.endpoint(), &root);
        Stand::run(script, self.number, &mut direct);
        let holds = probe(&mut direct, self.number);
        drop(direct);
        self.number += 1;
        let mut one = RawClient::open(&self.narrows.endpoint(), &login());
        // The previous client may still have the connection: it has just disconnected.
        let is_free = |_| one.query("DO 1").error().is_none_or(|error| error.code != NO_CONNECTION);
        assert!((0..10_000).any(is_free), "the connection of a disconnected client does not come back");
        Stand::run(script, self.number, &mut one);
        let mut other = RawClient::open(&self.narrows.endpoint(), &login());
        let seen = self.ask(&mut other, "SELECT RELEASE_ALL_LOCKS() + (@a IS NOT NULL) + (@b IS NOT NULL)");
        let is_free = seen.error().is_none();
        let texts: Vec<String> = script.texts.iter().map(|text| text.escape_ascii().to_string()).collect();
        let told =
            format!("{:?}, {}, sql_mode '{}': {texts:#?}", self.flavour, script.charset, script.sql_mode);
        if is_free {
            assert_eq!(seen.cell().as_deref(), Some("0"), "another client has it: {told}");
            let table = self.ask(&mut other, "SELECT COUNT(*) FROM rt.tmp").error().map(|error| error.code);
            assert_eq!(table, Some(1146), "another client has it: {told}");
        } else {
            assert_eq!(seen.error().map(|error| error.code), Some(NO_CONNECTION), "{told}");
        }
        assert_eq!(probe(&mut one, self.number), holds, "{told}");
        self.held += usize::from(holds != NOTHING);
        self.free += usize::from(is_free);
    }
}

/// Narrows' error if no connection is available.
const NO_CONNECTION: u16 = 9001;

/// What a session holds: locks, variables, temporary tables, locked tables.
fn probe(client: &mut RawClient, number: usize) -> Vec<String> {
    let mut told = |text: &str| {
        let answer = client.query(with_number(text.as_bytes(), number));
        answer
            .error()
            .map_or_else(|| answer.cell().unwrap_or_default(), |error| format!("error {}", error.code))
    };
    vec![
        told("SELECT IS_FREE_LOCK('aN')"),
        told("SELECT IS_FREE_LOCK('bN')"),
        told("SELECT HEX(@a)"),
        told("SELECT HEX(@b)"),
        told("SELECT COUNT(*) < 99 FROM rt.tmp"),
        told("SELECT COUNT(*) FROM rt.u"),
    ]
}

/// What [`probe`] returns for a session that holds nothing.
const NOTHING: [&str; 6] = ["1", "1", "", "", "error 1146", "1"];

/// A text with the number of its script in the lock names, which are written `aN` and `bN`.
fn with_number(text: &[u8], number: usize) -> Vec<u8> {
    let mut numbered = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if let [name @ (b'a' | b'b'), b'N', tail @ ..] = rest {
            numbered.push(*name);
            numbered.extend_from_slice(number.to_string().as_bytes());
            rest = tail;
        } else {
            numbered.push(*first);
            rest = tail;
        }
    }
    numbered
}

#[test]
fn what_random_scripts_hold_stays_with_their_client() {
    let (cases, mut random) = random_cases(300);
    for flavour in Flavour::both() {
        let left = Mutex::new((cases, &mut random));
        let next = || {
            let mut left = left.lock().expect("nobody panics with it");
            left.0 = left.0.checked_sub(1)?;
            Some(script(left.1))
        };
        let run = || {
            let mut stand = Stand::start(flavour);
            while let Some(script) = next() {
                stand.check(&script);
            }
            (stand.held, stand.free)
        };
        // Most of the time of a script is a wait.
        let stands = (cases / 5_000).clamp(1, 4);
        let (held, free) = std::thread::scope(|scope| {
            let stands: Vec<_> = (0..stands).map(|_| scope.spawn(run)).collect();
            let figures = stands.into_iter().map(|stand| stand.join().expect("its scripts"));
            figures.fold((0, 0), |(held, free), figures| (held + figures.0, free + figures.1))
        });
        println!("{flavour:?}: {cases} scripts, {held} held something, {free} kept nothing");
        assert!(held > cases / 10 && free > cases / 50, "{held} {free}");
    }
}

#[test]
fn no_byte_after_a_mark_hides_a_lock() {
    for flavour in Flavour::both() {
        let mut stand = Stand::start(flavour);
        for byte in (0..=0x20).chain([b'\'', b'a', 0x7F, 0x80, 0x85, 0xA0, 0xFF]) {
            for mark in [&b"--"[..], b"#", b"-- ", b"/*"] {
                let mut texts = Vec::new();
                for rest in
                    [&b", GET_LOCK('aN', 0)"[..], b"\n, GET_LOCK('aN', 0)", b"\n; DO GET_LOCK('bN', 0)"]
                {
                    texts.push([b"SELECT 1 ", mark, &[byte], rest].concat());
                }
                let charset = CHARSETS[usize::from(byte) % CHARSETS.len()];
                stand.check(&Script { charset, sql_mode: "", texts });
            }
        }
    }
}

const CHARSETS: [&str; 7] = ["utf8mb4", "latin1", "gbk", "sjis", "big5", "cp932", "gb18030"];

const SQL_MODES: [&str; 4] = ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"];

fn script(random: &mut Random) -> Script {
    let charset = *random.pick(&CHARSETS);
    let sql_mode = *random.pick(&SQL_MODES);
    let texts = (0..=random.below(4)).map(|_| text(random)).collect();
    Script { charset, sql_mode, texts }
}

/// Statements that leave something, or remove it, or look as if they did.
const STATEMENTS: &[&str] = &[
    "SELECT GET_LOCK('aN', 0)",
    "DO GET_LOCK('bN', 0)",
    "SELECT rt.locks('aN')",
    "INSERT INTO rt.t VALUES (rt.locks('bN'))",
    "SELECT RELEASE_LOCK('aN')",
    "SELECT RELEASE_LOCK('aN') FROM rt.t WHERE 1 = 0",
    "DO RELEASE_ALL_LOCKS()",
    "SET @a = 'it''s'",
    "SET @a = NULL",
    "SELECT @b := 6",
    "SELECT 7 INTO @b",
    "SELECT rt.sets()",
    "SET @b = rt.sets()",
    "CREATE TEMPORARY TABLE rt.tmp (n INT)",
    "CREATE TEMPORARY TABLE IF NOT EXISTS tmp SELECT 1",
    "CALL rt.makes()",
    "DROP TEMPORARY TABLE rt.tmp",
    "DROP TABLE IF EXISTS tmp",
    "ALTER TABLE rt.tmp RENAME rt.tmp2",
    "LOCK TABLES rt.t WRITE",
    "UNLOCK TABLES",
    "PREPARE s FROM 'SELECT GET_LOCK(''aN'', 0)'",
    "EXECUTE s",
    "EXECUTE IMMEDIATE 'SET @a = 8'",
    "SELECT 1",
    "SELECT 'x'",
];

/// A statement, perhaps inside or after something that readers interpret differently.
fn text(random: &mut Random) -> Vec<u8> {
    const LEADS: &[&[u8]] = &[b"", b"", b"\x81", b"\x95", b"\xBF", b"\xE3\x81", b"\xE9", b"\x81\x30"];
    const AFTER_DASHES: &[&[u8]] =
        &[b" ", b"", b"\n", b"\r", b"\t", b"\0", b"\x01", b"\x0B", b"\x0C", b"\x7F", b"\xA0", b"x"];
    let statement = random.pick(STATEMENTS).as_bytes();
    let more = random.pick(STATEMENTS).as_bytes();
    let lead = *random.pick(LEADS);
    let after = *random.pick(AFTER_DASHES);
    match random.below(16) {
        0..=3 => statement.to_vec(),
        4 => [b"SELECT '", lead, b"\\'; ", statement, b" -- '"].concat(),
        5 => [b"SELECT '", lead, b"\\'' ; ", statement, b" # '"].concat(),
        6 => [b"SELECT \"", lead, b"\\\"; ", statement, b" -- \""].concat(),
        7 => [b"SELECT 1 AS `", lead, b"\\`; ", statement, b" -- `"].concat(),
        8 => [
            *random.pick(&[&b"/*!99999 "[..], b"/*!80000 ", b"/*!50000 ", b"/*M! ", b"/*M!100100 ", b"/* "]),
            statement,
            b" */",
        ]
        .concat(),
        9 => [b"SELECT 1 /*!99999 */; ", statement].concat(),
        10 => [b"SELECT 1 --", after, b"; ", statement, b"\n; ", more].concat(),
        11 => [b"SELECT 1 --", after, b"\n; ", statement].concat(),
        12 => [statement, b" --", after, b"' \n"].concat(),
        13 => [statement, b"; ", more].concat(),
        14 => [b"SELECT 1 /* ", lead, b"*/; ", statement, b" /*/ */; ", more].concat(),
        _ => {
            // A different blank, or something that is not a blank, in place of one.
            let place = random.below(statement.iter().filter(|byte| **byte == b' ').count().max(1));
            let mut seen = 0;
            let replaced = statement.iter().flat_map(|byte| {
                seen += usize::from(*byte == b' ');
                if *byte == b' ' && seen == place + 1 { after.to_vec() } else { vec![*byte] }
            });
            replaced.collect()
        }
    }
}
