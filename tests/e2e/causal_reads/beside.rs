//! Beside reads that must see writes: the query cache, mirrors, reads beside a transaction, and what is asked about the statement
//! before.

use narrows_testkit::{FakeMysql, Flavour, RawClient, wait_until};

use super::{figure, on_each, read, run, value, write};
use crate::prepared::statement::{Statement, Value, cell};
use crate::support::start;

#[test]
fn a_read_that_must_see_a_write_does_not_come_from_the_cache() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let mut admin = narrows.admin();
        run(&mut admin, "UPDATE mysql_query_rules SET cache_ttl = 600000 WHERE rule_id = 5");
        run(&mut admin, "LOAD MYSQL QUERY RULES TO RUNTIME");
        let (mut idle, mut session) = (narrows.client(), narrows.client());
        let cached = "SELECT n FROM shop.t WHERE id = 1";
        write(&mut session, 1, 1);
        servers.wait_for_replicas();
        let hits = || figure(&narrows, "Query_Cache_count_GET_OK");
        for expected in [0, 1] {
            assert_eq!(value(&mut idle, cached), "1");
            assert_eq!(hits(), expected, "it is cached");
        }
        servers.apply(false);
        for n in 2..20 {
            write(&mut session, 1, n);
            assert_eq!(value(&mut session, cached), n.to_string());
            assert_eq!(value(&mut idle, cached), "1", "it has no write to see");
        }
        assert_eq!(hits(), 19);
    });
}

#[test]
fn what_was_said_about_a_statement_that_had_to_wait_is_right() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let mut session = narrows.client();
        write(&mut session, 1, 1);
        let mut n = 1;
        let mut next = |session: &mut RawClient| {
            n += 1;
            write(session, 1, n);
        };
        for turn in 0..40 {
            // The replicas have it soon, or never.
            servers.apply(turn % 20 < 10);
            let what = format!("{:?}, turn {turn}", servers.flavour);
            next(&mut session);
            let found = session.query("SELECT SQL_CALC_FOUND_ROWS n FROM shop.t WHERE id IN (0, 1) LIMIT 1");
            assert!(found.error().is_none(), "{:?}", found.error());
            assert_eq!(value(&mut session, "SELECT FOUND_ROWS()"), "2", "{what}");
            next(&mut session);
            assert_eq!(session.query("SELECT CAST('x' AS SIGNED)").text_rows().len(), 1);
            let warnings = session.query("SHOW WARNINGS").text_rows();
            assert_eq!(warnings.len(), 1, "{what}: {warnings:?}");
            // A question about a write is not disturbed by what is asked before a read.
            write(&mut session, 1, -turn);
            assert_eq!(value(&mut session, "SELECT ROW_COUNT()"), "2", "{what}");
            run(&mut session, "SET @kept = 5");
            next(&mut session);
            assert_eq!(value(&mut session, "SELECT @kept"), "5");
        }
        servers.apply(true);
    });
}

#[test]
fn reads_beside_a_transaction_see_what_the_session_has_committed() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let mut session = narrows.client();
        run(&mut session, "SET autocommit = 0");
        let select = Statement::prepare(&mut session, "SELECT CAST(n AS CHAR) FROM shop.t WHERE id = ?");
        servers.apply(false);
        for n in 1..20 {
            write(&mut session, 1, n);
            run(&mut session, "COMMIT");
            assert_eq!(read(&mut session, "", 1).0, n, "{:?}", servers.flavour);
            assert_eq!(cell(&select.execute(&mut session, &[Value::Integer(1)])), n.to_string());
            if n % 2 == 0 {
                run(&mut session, "COMMIT");
            }
        }
        run(&mut session, "ROLLBACK");
        // A transaction that is begun on a replica must see them, too.
        run(&mut session, "SET autocommit = 1");
        write(&mut session, 1, 30);
        run(&mut session, "START TRANSACTION READ ONLY");
        assert_eq!(read(&mut session, "", 1).0, 30);
        run(&mut session, "COMMIT");
        servers.apply(true);
    });
}

#[test]
fn mirrors_are_sent_what_they_were_sent_before() {
    Flavour::MySql9.if_tested(|flavour| {
        let servers = super::Servers::start(flavour);
        let mirror = FakeMysql::start(narrows_testkit::Conversation::new());
        let config = servers.config().server(5, mirror.port(), "").variable("causal_reads", "session");
        let narrows = start(&config);
        let mut admin = narrows.admin();
        run(&mut admin, "UPDATE mysql_query_rules SET mirror_hostgroup = 5 WHERE rule_id = 5");
        run(&mut admin, "LOAD MYSQL QUERY RULES TO RUNTIME");
        servers.apply(false);
        let mut session = narrows.client();
        for n in 0..10 {
            write(&mut session, 1, n);
            assert_eq!(read(&mut session, "", 1), (n, 1));
        }
        wait_until("the mirror has its copies", || {
            let received = mirror.received();
            received.iter().filter(|it| it.body.contains("FROM shop.t")).count() == 10
        });
        assert!(mirror.received().iter().all(|it| !it.body.contains("WAIT_FOR")), "mirrors wait for nothing");
    });
}
