//! A firewall in PROTECTING mode decides by the digest of a text. A text that the digest does not represent, or that
//! the server may read differently, must not get through.

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, capability, command};

use super::random_cases;
use crate::model::random::Random;
use crate::support::start;

/// The account may only send `SELECT ?` and `SELECT ? FROM t WHERE n=?` in the schema.
fn protected(flavour: Flavour) -> Narrows {
    let server = RealServer::shared(flavour);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS walled",
        "CREATE TABLE IF NOT EXISTS walled.t (n INT)",
        "CREATE TABLE IF NOT EXISTS walled.hits (n INT)",
        "TRUNCATE TABLE walled.hits",
    ]);
    let mut config = NarrowsConfig::in_front_of(server.port())
        .variable("firewall_whitelist_enabled", "true")
        .row("mysql_firewall_whitelist_users", "username=\"sbtest\" client_address=\"\" mode=\"PROTECTING\"");
    for digest in [SELECT, SELECT_FROM] {
        config = config.row(
            "mysql_firewall_whitelist_rules",
            &format!("username=\"sbtest\" client_address=\"\" schemaname=\"walled\" digest=\"{digest}\""),
        );
    }
    start(&config)
}

/// `SELECT ?`.
const SELECT: &str = "0x1C46AE529DD5A40E";
/// `SELECT ? FROM t WHERE n=?`.
const SELECT_FROM: &str = "0x22E6C56F61191C14";

/// `ER_NOT_ALLOWED_COMMAND`.
const REFUSED: u16 = 1148;

fn client(narrows: &Narrows) -> RawClient {
    let login = Login::new("sbtest", "sbtest").schema("walled").with(capability::MULTI_STATEMENTS);
    RawClient::open(&narrows.endpoint(), &login)
}

fn code(client: &mut RawClient, text: impl AsRef<[u8]>) -> Option<u16> {
    client.query(text).error().map(|error| error.code)
}

#[test]
fn what_may_be_read_in_two_ways_is_refused() {
    for flavour in Flavour::both() {
        let narrows = protected(flavour);
        let mut client = client(&narrows);
        for text in [
            // Comments that some servers execute and others skip.
            &b"SELECT 1 /*!99999 */"[..],
            b"SELECT /*!99999 ' */ 1; INSERT INTO hits VALUES (1) -- '",
            b"SELECT /*M! 1 */",
            b"SELECT 1 /*!50700*/",
            // Unterminated text, and text that ends for some readers.
            b"SELECT 1 'abc",
            b"SELECT 1 /* abc",
            b"SELECT 1\0; INSERT INTO hits VALUES (1)",
            // A line ends with a line feed; for a digest with a carriage return, too.
            b"SELECT 1 FROM t -- \r WHERE n=1",
            b"SELECT 1 FROM t # \r WHERE n=1",
            b"SELECT 1 /* /*/ ; INSERT INTO hits VALUES (1) -- */",
            b"SELECT 1 -- \x01\nFROM t",
            b"SELECT 1 --\x0b ",
            b"SELECT \"\"--\na; INSERT INTO hits VALUES (1)",
            b"SELECT 1--\n; INSERT INTO hits VALUES (1)",
            b"SELECT 1 #\rFROM t",
            b"SELECT 1 /*! 1*/",
            b"SELECT `'`; INSERT INTO hits VALUES (1) -- '",
        ] {
            assert_eq!(code(&mut client, text), Some(REFUSED), "{}", text.escape_ascii());
        }
        for text in [
            "SELECT 1",
            "SELECT 'a\\'b'",
            "SELECT /* a comment */ 2 -- a line\r\n",
            "SELECT 'ä/*!99999'",
            "SELECT 1 FROM t WHERE n=1",
        ] {
            assert_eq!(code(&mut client, text), None, "{text}");
        }
        assert_eq!(
            RealServer::shared(flavour).rows("SELECT COUNT(*) FROM walled.hits")[0][0].as_deref(),
            Some("0")
        );
    }
}

#[test]
fn no_byte_after_the_mark_of_a_comment_hides_a_statement() {
    const INSERT: &[u8] = b"; INSERT INTO hits VALUES (1)";
    for flavour in Flavour::both() {
        let narrows = protected(flavour);
        let server = RealServer::shared(flavour);
        for charset in ["utf8mb4", "latin1", "gbk"] {
            let mut client = client(&narrows);
            assert_eq!(code(&mut client, format!("SET NAMES {charset}")), None);
            for byte in 0..=255 {
                for mark in [&b"--"[..], b"#", b"-- ", b"---", b"/*"] {
                    let begins = [b"SELECT ''", mark, &[byte]].concat();
                    for text in [
                        [&begins[..], INSERT].concat(),
                        [&begins[..], b"a", INSERT].concat(),
                        [&begins[..], b"\na", INSERT].concat(),
                        [&begins[..], b"\r", INSERT, b"\n"].concat(),
                        [&begins[..], b"*/", INSERT].concat(),
                    ] {
                        code(&mut client, text);
                    }
                }
                let hits = server.rows("SELECT COUNT(*) FROM walled.hits").remove(0).remove(0);
                assert_eq!(hits.as_deref(), Some("0"), "{flavour:?}, {charset}: the byte {byte:#x}");
            }
        }
    }
}

#[test]
fn text_in_a_character_set_with_ascii_in_its_letters_is_refused() {
    for flavour in Flavour::both() {
        let narrows = protected(flavour);
        for charset in ["gbk", "sjis", "big5"] {
            let mut client = client(&narrows);
            assert_eq!(code(&mut client, "SELECT 'a'"), None);
            assert_eq!(code(&mut client, format!("SET NAMES {charset}")), None);
            assert_eq!(code(&mut client, "SELECT 'a'"), None, "{charset}");
            let hidden = b"SELECT '\x95\\'; INSERT INTO hits VALUES (1) -- '";
            assert_eq!(code(&mut client, hidden), Some(REFUSED), "{charset}");
        }
        let mut client = client(&narrows);
        assert_eq!(code(&mut client, "SET NAMES latin1"), None);
        assert_eq!(code(&mut client, b"SELECT '\xE4'"), None);
        // A blank in this character set.
        assert_eq!(code(&mut client, b"SELECT 1 --\xA0"), Some(REFUSED));
    }
}

#[test]
fn what_is_not_all_in_the_digest_is_refused() {
    let narrows = protected(Flavour::MariaDb);
    let mut client = client(&narrows);
    // Longer than the part that a digest covers, and longer than what is held at all.
    for length in [70_000, 2_000_000] {
        let text = format!("SELECT '{}'", "x".repeat(length));
        let listed = length < 100_000;
        assert_eq!(code(&mut client, &text).is_none(), listed, "a literal of {length} bytes");
        let text = format!("SELECT 1 {}; INSERT INTO hits VALUES (1)", " ".repeat(length));
        assert_eq!(code(&mut client, &text), Some(REFUSED));
    }
    let server = RealServer::shared(Flavour::MariaDb);
    assert_eq!(server.rows("SELECT COUNT(*) FROM walled.hits")[0][0].as_deref(), Some("0"));
}

#[test]
fn commands_that_no_list_names_are_refused() {
    for flavour in Flavour::both() {
        let narrows = protected(flavour);
        let mut client = client(&narrows);
        let error = client.command(command::FIELD_LIST, b"t\0").error().expect("refused");
        assert_eq!(
            (error.code, error.message.as_str()),
            (REFUSED, "Firewall blocked this query"),
            "{flavour:?}"
        );
        // COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID would take over the connection for good.
        for code in [0x15, 0x12, 0x1E] {
            client.send_command(code, &[0; 32]).expect("the client is connected");
            let packet = client.read().expect("an answer");
            let error = narrows_testkit::ErrorPacket::decode(&packet.payload).expect("an error");
            assert_eq!(error.code, REFUSED, "{code:#x}: {error:?}");
        }
        assert!(client.command(command::PING, b"").ok().is_some());
    }
}

#[test]
fn nothing_that_writes_gets_past_in_random_texts() {
    let (cases, mut random) = random_cases(3000);
    for flavour in Flavour::both() {
        let narrows = protected(flavour);
        let server = RealServer::shared(flavour);
        let mut passed = 0;
        for charset in CHARSETS {
            let mut client = client(&narrows);
            assert_eq!(code(&mut client, format!("SET NAMES {charset}")), None, "{charset}");
            for _ in 0..cases / CHARSETS.len() {
                let text = script(&mut random);
                passed += u32::from(code(&mut client, &text) != Some(REFUSED));
                if random.percent(2) {
                    let hits = server.rows("SELECT COUNT(*) FROM walled.hits").remove(0).remove(0);
                    assert_eq!(hits.as_deref(), Some("0"), "{flavour:?}, {charset}: {}", text.escape_ascii());
                }
            }
            let hits = server.rows("SELECT COUNT(*) FROM walled.hits").remove(0).remove(0);
            assert_eq!(hits.as_deref(), Some("0"), "{flavour:?}, {charset}");
        }
        assert!(passed > 50, "{passed} of {cases} got through: the texts prove nothing");
    }
}

const CHARSETS: [&str; 8] = ["utf8mb4", "latin1", "latin2", "gbk", "sjis", "big5", "ujis", "swe7"];

/// `SELECT` of a literal that contains pieces which begin or end something for some reader.
fn script(random: &mut Random) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"'",
        b"'",
        b"'",
        b"\"",
        b"`",
        b"\\",
        b"\\'",
        b"''",
        b"/*",
        b"*/",
        b"/*!",
        b"/*!99999 ",
        b"/*!50600 ",
        b"/*M!",
        b"/*/",
        b"-- ",
        b"--",
        b"--\n",
        b"--\r",
        b"--\x0C",
        b"--\x01",
        b"--\xA0",
        b"#",
        b"\r",
        b"\n",
        b"\r\n",
        b"\0",
        b" ",
        b"\xA0",
        b"\x95",
        b"\xBF",
        b"\xE3\x81",
        b"a",
        b"1",
        b";",
        WRITE,
        WRITE,
        WRITE,
        b"\x95\\",
        b"\x95'",
        b"\x95`",
        b"\x8E\xA1",
        b"N'",
        b"x'61'",
        b"_gbk'",
    ];
    let count = random.below(9);
    let mut text = b"SELECT ".to_vec();
    let mut add = |pieces: &[&[u8]]| text.extend_from_slice(pieces[random.below(pieces.len())]);
    add(&[b"'", b"'", b"1", b"\"", b"1 /*", b"1 -- "]);
    for _ in 0..count {
        add(PIECES);
    }
    add(&[b"'", b"' ", b"\"", b"", b"*/", b"\n", b"-- '", b"/*'*/"]);
    text
}

/// A separate statement.
const WRITE: &[u8] = b"; INSERT INTO hits VALUES (1) ";
