//! `mariadb-dump` through Narrows writes the same as without, and the dump can be restored through Narrows.

use std::io::Write;
use std::process::{Command, Stdio};

use narrows_testkit::{Flavour, Login, NarrowsConfig, RawClient, RealServer};

use crate::support::start;

#[test]
fn dump_through_narrows_is_identical_and_restores() {
    let server = RealServer::shared(Flavour::MariaDb);
    let mut client = RawClient::open(&server.endpoint(), &Login::new("sbtest", "sbtest"));
    for statement in SCHEMA.split("\n\n") {
        let error = client.query(statement.trim()).error();
        assert!(error.is_none(), "{statement}: {error:?}");
    }
    let config = NarrowsConfig::in_front_of(server.port()).variable("max_allowed_packet", "268435456");
    let narrows = start(&config);
    let direct = dump(server.port(), "dump_source");
    assert!(direct.len() > 1 << 20, "the dump has all the rows: {} bytes", direct.len());
    assert_same(&direct, &dump(narrows.port(), "dump_source"));
    restore(narrows.port(), "dump_copy", &direct);
    assert_same(&direct, &dump(server.port(), "dump_copy"));
    for schema in ["dump_source", "dump_copy"] {
        drop(client.query(format!("DROP DATABASE {schema}")));
    }
}

fn dump(port: u16, schema: &str) -> Vec<u8> {
    let output = Command::new("mariadb-dump")
        .args(login(port))
        .args([
            "--routines",
            "--triggers",
            "--events",
            "--single-transaction",
            "--max-allowed-packet=64M",
            schema,
        ])
        .output()
        .expect("mariadb-dump is installed; scripts/setup.sh servers does that");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn restore(port: u16, schema: &str, dump: &[u8]) {
    let mut mariadb = Command::new("mariadb")
        .args(login(port))
        .args(["--comments", "--max-allowed-packet=64M", schema])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mariadb is installed; scripts/setup.sh servers does that");
    // A client that gives up closes its end; its error message says why.
    let _ = mariadb.stdin.take().expect("piped").write_all(dump);
    let output = mariadb.wait_with_output().expect("a child of ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn login(port: u16) -> [String; 5] {
    let port = format!("--port={port}");
    ["--no-defaults", "--host=127.0.0.1", &port, "--user=sbtest", "--password=sbtest"].map(str::to_owned)
}

/// Compares dumps line by line, apart from comments at the beginning and end: host, schema, server version and date.
fn assert_same(wanted: &[u8], actual: &[u8]) {
    let lines = |dump: &[u8]| -> Vec<Vec<u8>> {
        dump.split(|&byte| byte == b'\n')
            .filter(|line| !line.starts_with(b"-- "))
            .map(<[u8]>::to_vec)
            .collect()
    };
    let (wanted, actual) = (lines(wanted), lines(actual));
    assert_eq!(wanted.len(), actual.len(), "number of lines");
    for (number, (wanted, actual)) in wanted.iter().zip(&actual).enumerate() {
        let short = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        assert!(wanted == actual, "line {number}: wanted {}, got {}", short(wanted), short(actual));
    }
}

/// Statements, separated by empty lines.
const SCHEMA: &str = "
CREATE OR REPLACE DATABASE dump_source CHARACTER SET utf8mb4

CREATE OR REPLACE DATABASE dump_copy CHARACTER SET utf8mb4

USE dump_source

CREATE TABLE everything (
    id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT,
    price DECIMAL(20,4), ratio DOUBLE, flags BIT(12), kind ENUM('a','b') DEFAULT 'a', tags SET('x','y'),
    at DATETIME(6), stamp TIMESTAMP NULL, name VARCHAR(100), doc JSON, data LONGBLOB, place POINT,
    doubled BIGINT UNSIGNED AS (price * 2) VIRTUAL, KEY (name), FULLTEXT KEY (name)
) COMMENT = 'it''s all; here'

INSERT INTO everything (price, ratio, flags, tags, at, stamp, name, doc, data, place)
SELECT seq / 7, seq * 1e10, seq, 'x,y', '2024-02-29 23:59:59.123456', '2024-03-31 12:00:00',
    CONCAT('grüße 🦀 \\\\ '' \" ', seq), JSON_OBJECT('n', seq), UNHEX(REPEAT(HEX(CHAR(seq % 256, 0, 39, 92)), 500)),
    POINT(seq, -seq)
FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1 AS seq FROM
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7
     UNION SELECT 8 UNION SELECT 9) a,
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7
     UNION SELECT 8 UNION SELECT 9) b,
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) c) numbers ORDER BY seq

INSERT INTO everything (name, data) VALUES (NULL, NULL), ('', ''), ('large', REPEAT(UNHEX('00FF27225C0A0D1A'), 200000))

CREATE TABLE child (id INT PRIMARY KEY, parent BIGINT UNSIGNED, FOREIGN KEY (parent) REFERENCES everything (id))

INSERT INTO child VALUES (1, 1), (2, NULL)

CREATE TABLE log (what TEXT, at INT)

CREATE VIEW named AS SELECT id, UPPER(name) AS shout FROM everything WHERE name IS NOT NULL

CREATE VIEW of_view AS SELECT COUNT(*) AS how_many FROM named

CREATE TRIGGER child_log AFTER INSERT ON child FOR EACH ROW BEGIN
    INSERT INTO log VALUES (CONCAT('child ', NEW.id, '; ''quoted'''), 1); END

CREATE PROCEDURE twice (IN given INT, OUT doubled INT) COMMENT 'doubles' BEGIN
    -- a comment; with a semicolon
    SET doubled = given * 2; END

CREATE FUNCTION thrice (given INT) RETURNS INT DETERMINISTIC RETURN given * 3

CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM log
";
