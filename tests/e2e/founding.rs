//! The comparison that started this project: what a connection-sharing proxy got wrong, each case shown with a common
//! client and a single backend connection, so that sharing is certain.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RealServer, ServerOptions, wait_until};

use crate::support::start;

#[test]
fn each_client_keeps_the_schema_given_at_connect() {
    on_one_connection(|_, narrows| {
        let mut first = Cli::start(narrows, &["--database=one"]);
        let mut second = Cli::start(narrows, &["--database=two"]);
        let mut third = Cli::start(narrows, &[]);
        for _ in 0..5 {
            assert_eq!(first.ask("SELECT DATABASE(), name FROM place"), "one\tfirst");
            assert_eq!(second.ask("SELECT DATABASE(), name FROM place"), "two\tsecond");
            assert_eq!(third.ask("SELECT DATABASE()"), "NULL");
        }
        second.tell("USE one");
        assert_eq!(second.ask("SELECT DATABASE(), name FROM place"), "one\tfirst");
        assert_eq!(first.ask("SELECT DATABASE(), name FROM place"), "one\tfirst");
    });
}

#[test]
fn each_client_keeps_its_character_set() {
    on_one_connection(|_, narrows| {
        let mut latin = Cli::start(narrows, &["--default-character-set=latin1"]);
        let mut unicode = Cli::start(narrows, &["--default-character-set=utf8mb4"]);
        let mut named = Cli::start(narrows, &["--default-character-set=utf8mb4"]);
        named.tell("SET NAMES koi8r");
        let question = "SELECT @@character_set_client, @@character_set_results, @@character_set_connection";
        for _ in 0..5 {
            assert_eq!(latin.ask(question), "latin1\tlatin1\tlatin1");
            assert_eq!(unicode.ask(question), "utf8mb4\tutf8mb4\tutf8mb4");
            assert_eq!(named.ask(question), "koi8r\tkoi8r\tkoi8r");
            // The same letter: one byte in one character set, two in the other.
            assert_eq!(latin.ask(b"SELECT HEX(CONVERT('\xE9' USING utf8mb4))".as_slice()), "C3A9");
            assert_eq!(unicode.ask("SELECT HEX(CONVERT('\u{e9}' USING utf8mb4))"), "C3A9");
        }
        unicode.tell("SET NAMES utf8mb4 COLLATE utf8mb4_bin");
        assert_eq!(named.ask("SELECT @@collation_connection"), "koi8r_general_ci");
        assert_eq!(unicode.ask("SELECT @@collation_connection"), "utf8mb4_bin");
    });
}

#[test]
fn autocommit_of_another_client_changes_nothing() {
    on_one_connection(|server, narrows| {
        let mut other = Cli::start(narrows, &["--database=one"]);
        let mut client = Cli::start(narrows, &["--database=one"]);
        other.tell("SET autocommit=0");
        assert_eq!(other.ask("SELECT @@autocommit"), "0");
        assert_eq!(client.ask("SELECT @@autocommit"), "1");
        client.tell("INSERT INTO place VALUES ('committed at once')");
        let there = server.rows("SELECT COUNT(*) FROM one.place WHERE name = 'committed at once'");
        assert_eq!(there[0][0].as_deref(), Some("1"));
        other.tell("INSERT INTO place VALUES ('not committed')");
        other.tell("ROLLBACK");
        let not_there = server.rows("SELECT COUNT(*) FROM one.place WHERE name = 'not committed'");
        assert_eq!(not_there[0][0].as_deref(), Some("0"));
        assert_eq!(client.ask("SELECT @@autocommit"), "1");
        assert_eq!(other.ask("SELECT @@autocommit"), "0");
    });
}

#[test]
fn no_transaction_outlives_a_client_that_quits() {
    leave_a_transaction(Cli::quit);
}

#[test]
fn no_transaction_outlives_a_client_that_is_killed() {
    leave_a_transaction(Cli::kill);
}

fn leave_a_transaction(leave: impl Fn(Cli)) {
    on_one_connection(|server, narrows| {
        let mut leaving = Cli::start(narrows, &["--database=one"]);
        leaving.tell("START TRANSACTION");
        leaving.tell("INSERT INTO place VALUES ('left open')");
        wait_until("the transaction is seen", || server.open_transactions() > 0);
        leave(leaving);
        wait_until("no transaction is active", || server.open_transactions() == 0);
        let mut next = Cli::start(narrows, &["--database=one"]);
        assert_eq!(next.ask("SELECT COUNT(*) FROM place WHERE name = 'left open'"), "0");
        next.tell("INSERT INTO place VALUES ('next')");
        let there = server.rows("SELECT COUNT(*) FROM one.place WHERE name = 'next'");
        assert_eq!(there[0][0].as_deref(), Some("1"), "a transaction of somebody else would hide it");
    });
}

fn on_one_connection(check: impl Fn(&RealServer, &Narrows)) {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        server.execute(&[
            "CREATE DATABASE one",
            "CREATE DATABASE two",
            "CREATE TABLE one.place (name VARCHAR(20)) ENGINE=InnoDB",
            "CREATE TABLE two.place (name VARCHAR(20)) ENGINE=InnoDB",
            "INSERT INTO one.place VALUES ('first')",
            "INSERT INTO two.place VALUES ('second')",
        ]);
        let config =
            NarrowsConfig::new().server(0, server.port(), "max_connections=1").user("sbtest", "sbtest", "");
        let narrows = start(&config);
        check(&server, &narrows);
        let ours = server.rows("SELECT id FROM information_schema.processlist WHERE user = 'sbtest'");
        assert!(ours.len() <= 1, "more than one backend connection: {ours:?}");
    }
}

/// A running `mariadb` that receives one statement after another.
struct Cli {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Cli {
    fn start(narrows: &Narrows, options: &[&str]) -> Cli {
        let mut child = Command::new("mariadb")
            .args(["--no-defaults", "--host=127.0.0.1", "--user=sbtest", "--password=sbtest"])
            .arg(format!("--port={}", narrows.port()))
            .args(["--skip-ssl", "--batch", "--skip-column-names", "--unbuffered", "--skip-reconnect"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mariadb client is installed");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut cli = Cli { input: child.stdin.take(), child, output };
        assert_eq!(cli.ask("SELECT 'ready'"), "ready");
        cli
    }

    /// Runs a query that returns one row; returns its cells, separated by tabs.
    fn ask(&mut self, query: impl AsRef<[u8]>) -> String {
        let input = self.input.as_mut().expect("open while it runs");
        input.write_all(&[query.as_ref(), b";\n"].concat()).expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line of text");
        line.trim_end_matches('\n').to_owned()
    }

    /// Runs a statement that returns no rows.
    fn tell(&mut self, statement: &str) {
        let input = self.input.as_mut().expect("open while it runs");
        writeln!(input, "{statement};").expect("it reads");
        assert_eq!(self.ask("SELECT 'told'"), "told", "after {statement}");
    }

    /// The end of its input is the end of its session, with COM_QUIT.
    fn quit(mut self) {
        self.input = None;
        assert!(self.child.wait().expect("it is ours").success());
    }

    fn kill(mut self) {
        self.child.kill().expect("it is ours");
    }
}

impl Drop for Cli {
    fn drop(&mut self) {
        self.input = None;
        // A process that has already ended needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
