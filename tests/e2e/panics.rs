//! A panic in one session: it ends only that session, and its backend connection is closed, whatever its state.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, NarrowsConfig, RawClient, ServerOptions};

use crate::support::start;

#[test]
fn a_panic_ends_one_session_and_closes_its_backend_connection() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        server.execute(&["CREATE DATABASE d", "CREATE TABLE d.t (v INT) ENGINE=InnoDB"]);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            .user("sbtest", "sbtest", "")
            .environment("NARROWS_INJECT_PANIC", "1");
        let narrows = start(&config);
        let login = Login::new("sbtest", "sbtest");
        let connections =
            || server.rows("SELECT id FROM information_schema.processlist WHERE user = 'sbtest'");
        let mut bystander = RawClient::open(&narrows.endpoint(), &login);
        bystander.query("SET @mine = 5");
        for panics in ["SELECT 1 /* panic before */", "SELECT 1 /* panic after */"] {
            for pinned in [true, false] {
                let mut victim = RawClient::open(&narrows.endpoint(), &login);
                if pinned {
                    victim.query("BEGIN");
                    victim.query("INSERT INTO d.t VALUES (1)");
                }
                victim.query("SELECT @mine");
                let before = connections();
                assert_eq!(before.len(), 1, "all share one connection");
                let answer = victim.query(panics);
                // After its answer the session is gone too.
                let lost = answer.lost.or_else(|| victim.query("SELECT 1").lost);
                assert!(lost.is_some(), "{panics}: {answer:?}");
                // Its place in the pool is free, and nothing of its state is left.
                assert_eq!(bystander.query("SELECT COUNT(*) FROM d.t").cell().as_deref(), Some("0"));
                assert_eq!(bystander.query("SELECT @mine").cell().as_deref(), Some("5"));
                let deadline = Instant::now() + Duration::from_secs(20);
                while connections().iter().any(|id| before.contains(id)) {
                    assert!(Instant::now() < deadline, "the connection of the session that panicked stays");
                }
                assert_eq!(connections().len(), 1);
            }
        }
        assert_eq!(narrows.log().matches("injected by a test").count(), 4);
    }
}
