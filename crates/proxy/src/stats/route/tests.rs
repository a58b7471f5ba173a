//! Routes of statements in a configuration of two hostgroups.

use super::*;
use crate::rows::{server, user};
use crate::rules::{Activity, OwnedClient};
use crate::snapshot::{Rows, ServerStatus, UserRow};
use crate::stats::{ServerFailure, ServerTiming, Tally};

fn snapshot(change: impl FnOnce(&mut Rows)) -> Snapshot {
    let rule = |rule_id, pattern: &str, hostgroup| RuleRow {
        rule_id,
        active: Activity::InForce,
        apply: true,
        re_modifiers: "CASELESS".to_owned(),
        match_digest: Some(pattern.to_owned()),
        destination_hostgroup: Some(HostgroupId(hostgroup)),
        ..RuleRow::default()
    };
    let user = UserRow { default_schema: "shop".to_owned(), max_connections: 10, ..user("app", "") };
    let mut rows = Rows {
        servers: vec![server(0, "writer", 3306), server(1, "one", 3306), server(1, "two", 3306)],
        users: vec![user],
        rules: vec![rule(1, "^SELECT.*FOR UPDATE", 0), rule(2, "^SELECT", 1)],
        ..Rows::default()
    };
    change(&mut rows);
    Snapshot::compile(rows, 1, None).unwrap()
}

fn route(snapshot: &Snapshot, statement: &str) -> ExplainedRoute {
    route_with(snapshot, statement, &[])
}

fn route_with(snapshot: &Snapshot, statement: &str, lines: &[ServerLine]) -> ExplainedRoute {
    let question = RouteQuestion {
        statement: statement.as_bytes().to_vec(),
        client: OwnedClient {
            username: "app".to_owned(),
            client_addr: "10.0.0.1".to_owned(),
            ..OwnedClient::default()
        },
        schema: None,
    };
    explain(snapshot, &question, lines).unwrap()
}

fn line(hostname: &str, failure: Option<ServerFailure>) -> ServerLine {
    ServerLine {
        timing: ServerTiming::default(),
        place: String::new(),
        hostgroup: HostgroupId(1),
        hostname: hostname.to_owned(),
        port: 3306,
        status: ServerStatus::Online,
        used: 3,
        free: 2,
        most_used: 3,
        tally: Tally { connected: 5, ..Tally::default() },
        latency_us: 0,
        failure,
    }
}

#[test]
fn the_cache_is_asked_where_a_rule_or_a_comment_says_so_and_the_statement_only_reads() {
    let plain = snapshot(|_| {});
    assert!(route(&plain, "SELECT 1").cache.contains("no rule"));
    assert_eq!(route(&plain, "/* cache_ttl=7 */ SELECT 1").cache, "cached for 7 ms");
    let cached = snapshot(|rows| rows.rules.iter_mut().for_each(|rule| rule.cache_ttl = Some(500)));
    assert_eq!(route(&cached, "SELECT n FROM t").cache, "cached for 500 ms");
    for statement in
        ["SELECT n FROM t FOR UPDATE", "SELECT LAST_INSERT_ID()", "SELECT own_function(n) FROM t"]
    {
        assert!(route(&cached, statement).cache.contains("more than read"), "{statement}");
    }
    let without_room = snapshot(|rows| {
        rows.variables.query_cache_size = 0;
        rows.rules.iter_mut().for_each(|rule| rule.cache_ttl = Some(500));
    });
    assert!(route(&without_room, "SELECT n FROM t").cache.contains("query_cache_size_MB"));
}

#[test]
fn tells_digest_rules_hostgroup_and_each_server() {
    let snapshot = snapshot(|rows| rows.servers[2].weight = 0);
    let route = route_with(&snapshot, "select c from t where id = 5", &[line("one", None)]);
    assert_eq!(route.digest_text, "select c from t where id = ?");
    assert_eq!(route.digest, Some(digest_hash(b"select c from t where id = ?")));
    assert_eq!((&*route.kind, route.command), ("Select", "SELECT"));
    let rules: Vec<i64> = route.rules.iter().map(|rule| rule.rule_id).collect();
    assert_eq!(rules, [2]);
    assert_eq!(route.rules[0].sets, [("destination_hostgroup", "1".to_owned()), ("apply", "1".to_owned())]);
    assert_eq!(route.outcome, RouteOutcome::Hostgroup(HostgroupId(1), "the rules say so".to_owned()));
    let servers: Vec<(&str, bool, &str)> =
        route.servers.iter().map(|server| (&*server.hostname, server.eligible, &*server.reason)).collect();
    assert_eq!(
        servers,
        [
            ("one", true, "ONLINE, 3 of 1000 connections in use, 2 idle"),
            ("two", false, "weight 0: it is never chosen"),
        ]
    );
    assert_eq!(route.pins, []);
}

#[test]
fn a_server_that_failed_is_told_with_what_it_failed_of() {
    let snapshot = snapshot(|_| {});
    let failure = |pause_ms| ServerFailure { text: "refused".to_owned(), age_ms: 9, pause_ms };
    let lines = [line("one", Some(failure(11))), line("two", Some(failure(0)))];
    let servers = route_with(&snapshot, "SELECT 1", &lines).servers;
    assert_eq!((servers[0].eligible, servers[1].eligible), (false, true));
    assert_eq!(servers[0].reason, "not reached 9 ms ago: refused; tried again in 11 ms");
}

#[test]
fn a_select_that_leaves_something_behind_stays_at_home_and_pins() {
    let snapshot = snapshot(|_| {});
    let route = route(&snapshot, "SELECT GET_LOCK('a', 1)");
    assert!(matches!(route.outcome, RouteOutcome::Hostgroup(HostgroupId(0), _)), "{:?}", route.outcome);
    assert_eq!(
        route.pins,
        [("user_lock", "until the lock is released, by a statement that is sure to".to_owned())]
    );
}

#[test]
fn what_would_pin_is_told_by_reason() {
    let snapshot = snapshot(|_| {});
    for (statement, reasons) in [
        ("SELECT 1", &[][..]),
        ("BEGIN", &["transaction"]),
        ("SET @a = 1", &[]),
        ("SET @a = (SELECT 1)", &["user_variable"]),
        ("SET SESSION sql_mode = ''", &[]),
        ("SET TRANSACTION READ ONLY", &["next_transaction"]),
        ("CREATE TEMPORARY TABLE t (a INT)", &["temporary_table"]),
        ("LOCK TABLES t READ", &["lock_tables"]),
        ("CALL p()", &["routine"]),
        ("BEGIN; LOCK TABLES t READ", &["transaction", "lock_tables"]),
        ("SET last_insert_id = 5", &[]),
        ("SET NAMES latin1, @a = 'x'", &["user_variable"]),
        ("SET autocommit = (SELECT 0)", &["beyond_reset"]),
    ] {
        let told: Vec<&str> = route(&snapshot, statement).pins.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(told, reasons, "{statement}");
    }
}

#[test]
fn a_rule_that_answers_leaves_no_server_to_choose() {
    let snapshot = snapshot(|rows| rows.rules[1].error_msg = Some("closed".to_owned()));
    let route = route(&snapshot, "SELECT 1");
    assert_eq!(route.outcome, RouteOutcome::Answered("a rule answers with error 1148: closed".to_owned()));
    assert_eq!(route.servers, []);
}

#[test]
fn what_narrows_does_itself_is_explained_as_it_is_done() {
    let snapshot = snapshot(|_| {});
    for (statement, answer) in [
        ("KILL 5", "Narrows kills its own sessions"),
        ("KILL USER app", "Narrows answers with error 1235"),
        ("PREPARE s FROM 'KILL 5'", "Narrows answers with error 1295"),
        ("PROXYSQL INTERNAL SESSION", "Narrows describes the session"),
    ] {
        let outcome = route(&snapshot, statement).outcome;
        let is_answer = matches!(&outcome, RouteOutcome::Answered(text) if text.starts_with(answer));
        assert!(is_answer, "{statement}: {outcome:?}");
    }
    let outcome = route(&snapshot, "KILL 5; SELECT 1").outcome;
    let runs =
        matches!(&outcome, RouteOutcome::Hostgroup(_, why) if why.starts_with("after Narrows has killed"));
    assert!(runs, "{outcome:?}");
}

#[test]
fn nobody_is_asked_for_by_name() {
    let client = OwnedClient { username: "ghost".to_owned(), ..OwnedClient::default() };
    let question = RouteQuestion { client, ..RouteQuestion::default() };
    let error = explain(&snapshot(|_| {}), &question, &[]).unwrap_err();
    assert_eq!(error.to_string(), "no active user \"ghost\"");
}

#[test]
fn a_rule_whose_digest_is_not_asked_says_so() {
    let remarks = |asks: bool| {
        let snapshot = snapshot(|rows| rows.variables.query_digests = asks);
        let rules = route(&snapshot, "SELECT 1").rules;
        rules.into_iter().map(|rule| rule.remark).collect::<Vec<_>>()
    };
    assert_eq!(remarks(true), [None]);
    let remark = "digest and match_digest are not evaluated: mysql-query_digests is false";
    assert_eq!(remarks(false), [Some(remark)]);
}
