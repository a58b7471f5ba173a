//! Which clients share answers.

use narrows_testkit::{
    Answer, Conversation, Endpoint, FakeMysql, Flavour, Login, Move, NarrowsConfig, RawClient, RealServer,
    ServerOptions, capability,
};

use super::{caching, hits, start};

/// Statements whose answers depend on the session.
const QUESTIONS: &[&str] = &[
    "SELECT FROM_UNIXTIME(86400)",
    "SELECT 'é', HEX('é'), LENGTH('é')",
    "SELECT DATABASE()",
    "SELECT CURRENT_USER()",
    "SELECT * FROM t",
    "SELECT \"x\" FROM t",
    "SELECT 'a' || 'b'",
    "SELECT @mine",
    "SELECT @@session.sql_mode, @@session.time_zone",
    "SELECT DATE_FORMAT('2026-03-01', '%M')",
    "SELECT n FROM t ORDER BY n",
];

/// What a client does before its statement.
struct Kind {
    user: &'static str,
    schema: &'static str,
    statements: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind { user: "sbtest", schema: "cache_one", statements: &[] },
    Kind { user: "sbtest", schema: "cache_two", statements: &[] },
    Kind { user: "other", schema: "cache_one", statements: &[] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET time_zone='+05:00'"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET NAMES latin1"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET NAMES utf8mb4"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT'"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET lc_time_names='de_DE'"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET @mine=5"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET @mine=6"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["SET sql_select_limit=1"] },
    Kind { user: "sbtest", schema: "cache_one", statements: &["USE cache_two"] },
];

fn open(endpoint: &Endpoint, kind: &Kind) -> RawClient {
    let mut client = RawClient::open(endpoint, &Login::new(kind.user, kind.user).schema(kind.schema));
    for statement in kind.statements {
        client.query(statement).ok().unwrap_or_else(|| panic!("{statement}"));
    }
    client
}

#[test]
fn sessions_that_differ_never_share_an_answer_and_those_that_are_alike_do() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).account("other", "other").start();
        server.execute(&[
            "CREATE DATABASE cache_one",
            "CREATE DATABASE cache_two",
            "CREATE TABLE cache_one.t (n INT)",
            "CREATE TABLE cache_two.t (n INT)",
            "INSERT INTO cache_one.t VALUES (1), (2)",
            "INSERT INTO cache_two.t VALUES (3), (4)",
        ]);
        let narrows = start(&caching(server.port(), 3_600_000).user("other", "other", ""));
        // Twice: the second time the cache answers everybody.
        for round in 0..2 {
            for kind in KINDS {
                let mut direct = open(&Endpoint::Unix(server.socket()), kind);
                let mut client = open(&narrows.endpoint(), kind);
                for question in QUESTIONS {
                    let (expected, answer) = (direct.query(question), client.query(question));
                    let says = |answer: &Answer| (answer.text_rows(), answer.error().map(|e| e.code));
                    let who = (kind.user, kind.schema, kind.statements);
                    assert_eq!(says(&answer), says(&expected), "{flavour:?} {who:?} {question} {round}");
                    assert_eq!(
                        answer.columns(),
                        expected.columns(),
                        "{flavour:?} {who:?} {question} {round}"
                    );
                }
            }
            let least = (KINDS.len() * (QUESTIONS.len() - 2)) as u64;
            let told = hits(&narrows);
            assert!(round == 0 || told >= least, "{flavour:?}: {told} hits, not {least}");
        }
    }
}

#[test]
fn clients_of_both_forms_share_an_answer_and_get_it_in_their_own() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&caching(server.port(), 3_600_000));
        let question = "SELECT 1 AS a, 'two' AS b UNION SELECT 3, NULL UNION SELECT 4, 'five' ORDER BY 1";
        for form in [0, capability::DEPRECATE_EOF, 0] {
            let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
            let mut direct = RawClient::open(&Endpoint::Unix(server.socket()), &login);
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            assert_eq!(client.query(question).packets, direct.query(question).packets, "{flavour:?} {form}");
        }
        assert_eq!(hits(&narrows), 2, "{flavour:?}");
    }
}

#[test]
fn answers_belong_to_the_hostgroup_that_was_asked() {
    let [one, two] = ["one", "two"].map(|word| {
        let moves = [Move::rows("who", &[word])];
        FakeMysql::start(Conversation::new().on("SELECT who", &moves))
    });
    let config = NarrowsConfig::in_front_of(one.port())
        .server(1, two.port(), "")
        .user("other", "other", "default_hostgroup=1")
        .rule("rule_id=1 username=\"sbtest\" schemaname=\"there\" destination_hostgroup=1")
        .rule("rule_id=2 match_digest=\"^SELECT\" cache_ttl=60000 apply=1");
    let narrows = start(&config);
    for _ in 0..2 {
        let login = Login::new("sbtest", "sbtest");
        assert_eq!(narrows.client().query("SELECT who").cell().as_deref(), Some("one"));
        let mut there = RawClient::open(&narrows.endpoint(), &login.schema("there"));
        assert_eq!(there.query("SELECT who").cell().as_deref(), Some("two"));
    }
    assert_eq!(hits(&narrows), 2);
}
