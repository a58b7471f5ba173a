//! A read that runs again because its server was lost, and transactions on replicas: what they must see does not change.

use narrows_testkit::wait_until;

use super::{Servers, on_each, read, run, write};
use crate::support::start;

/// Ends the connections to the second server whose statement is like this; returns whether there were any.
fn end_on_the_second(servers: &Servers, like: &str) -> bool {
    let found = servers.nodes[1].rows(&format!(
        "SELECT id FROM information_schema.processlist WHERE user = 'sbtest' AND COALESCE(info, '') LIKE '{like}'"
    ));
    let ids: Vec<String> = found.into_iter().filter_map(|row| row[0].clone()).collect();
    ids.iter().for_each(|id| servers.nodes[1].execute(&[&format!("KILL {id}")]));
    !ids.is_empty()
}

#[test]
fn a_read_whose_server_is_lost_sees_the_same_writes_on_the_next_one() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let mut session = narrows.client();
        servers.delay(2, 5);
        for n in 1..=3 {
            write(&mut session, 1, n);
            // It runs on the replica that is not delayed, or on the primary.
            std::thread::scope(|scope| {
                let answer = scope.spawn(|| {
                    let text = "SELECT CONCAT(n, ' ', SLEEP(2)) FROM shop.t WHERE id = 1";
                    session.query(text).cell().expect("an answer")
                });
                wait_until("it runs there", || end_on_the_second(servers, "%SLEEP%") || answer.is_finished());
                assert!(answer.join().unwrap().starts_with(&format!("{n} ")), "{:?}", servers.flavour);
            });
        }
        servers.delay(2, 0);
    });
}

#[test]
fn a_read_only_transaction_is_not_run_again_on_a_replica_without_what_it_must_see() {
    on_each(|servers| {
        let config =
            servers.config().variable("causal_reads", "session").variable("transaction_replay", "true");
        let narrows =
            start(&config.rule("rule_id=1 match_digest=\"^START\" destination_hostgroup=1 apply=1"));
        let mut session = narrows.client();
        servers.delay(2, 5);
        for n in 1..=3 {
            write(&mut session, 1, n);
            run(&mut session, "START TRANSACTION READ ONLY");
            let own = session.query("SELECT CONNECTION_ID() > 0").cell();
            assert_eq!(own.as_deref(), Some("1"));
            end_on_the_second(servers, "");
            let answer = session.query("SELECT n FROM shop.t WHERE id = 1");
            if answer.error().is_none() {
                assert_eq!(answer.cell(), Some(n.to_string()), "{:?}", servers.flavour);
                run(&mut session, "COMMIT");
            } else {
                session = narrows.client();
                write(&mut session, 1, n);
            }
            assert_eq!(read(&mut session, "", 1).0, n);
        }
        servers.delay(2, 0);
    });
}
