//! What was written is lost with its primary, or a replica comes back with less: reads return to the replicas by themselves.

use narrows_testkit::{Flavour, RawClient, wait_until};

use super::{Servers, on_each, read, run, token, write};
use crate::support::start;

/// Makes the third server the replica of the second one, which takes over from the first.
fn promote(servers: &Servers) {
    servers.forget_source(1);
    servers.nodes[2].execute(&[&servers.replication("STOP")]);
    servers.follow(2, 1);
}

/// Reads of a session, until one runs on a replica.
fn return_to_replicas(session: &mut RawClient, what: &str) {
    wait_until(&format!("reads return to the replicas: {what}"), || {
        let answer =
            session.query("SELECT CONCAT(COALESCE(MAX(n), -1), ' ', @@server_id) FROM shop.t WHERE id = 1");
        answer.error().is_none() && answer.cell().is_some_and(|cell| cell.ends_with(" 3"))
    });
}

#[test]
fn reads_return_to_replicas_after_what_they_must_see_was_lost() {
    for flavour in Flavour::both() {
        for level in ["session", "user", "global"] {
            let mut servers = Servers::start(flavour);
            let narrows = start(&servers.config().variable("causal_reads", level));
            let mut session = narrows.client();
            servers.apply(false);
            for n in 1..=3 {
                write(&mut session, 1, n);
            }
            let lost = token(&mut session);
            assert_eq!(read(&mut session, "", 1), (3, 1));
            servers.nodes[0].kill();
            promote(&servers);
            let mut admin = narrows.admin();
            let (first, second) = (servers.nodes[0].port(), servers.nodes[1].port());
            for statement in [
                format!("DELETE FROM mysql_servers WHERE port = {first}"),
                format!("UPDATE mysql_servers SET hostgroup_id = 0 WHERE port = {second}"),
                "LOAD MYSQL SERVERS TO RUNTIME".to_owned(),
            ] {
                run(&mut admin, &statement);
            }
            return_to_replicas(&mut session, &format!("{flavour:?}, {level}"));
            write(&mut session, 1, 8);
            assert_eq!(read(&mut session, "", 1).0, 8);
            return_to_replicas(&mut session, &format!("{flavour:?}, {level}, after a write"));
            // What a token names that nobody has is asked for in vain, and keeps nobody else from the replicas.
            let mut other = narrows.client();
            run(&mut other, &format!("SET @narrows_causal_token = '{lost}'"));
            assert_eq!(read(&mut other, "", 1).0, 8, "{flavour:?}: {lost}");
            return_to_replicas(&mut session, &format!("{flavour:?}, {level}, beside a token of lost writes"));
            if level == "session" {
                return_to_replicas(
                    &mut other,
                    &format!("{flavour:?}: what is lost is not waited for forever"),
                );
            }
        }
    }
}

#[test]
fn a_token_that_nobody_can_have_harms_no_other_session() {
    on_each(|servers| {
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let invented = match servers.flavour {
            Flavour::MySql9 => "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-999",
            Flavour::MariaDb => "77-1-999",
        };
        let mut bad = narrows.client();
        run(&mut bad, &format!("SET @narrows_causal_token = '{invented}'"));
        let mut good = narrows.client();
        let mut on_primary = 0;
        for n in 0..200 {
            write(&mut good, 1, n);
            servers.wait_for_replicas();
            read(&mut bad, "", 1);
            let (found, server) = read(&mut good, "", 1);
            assert_eq!(found, n);
            on_primary += u32::from(server == 1);
        }
        println!(
            "{:?}: {on_primary} of 200 reads left the replicas; {}",
            servers.flavour,
            super::figures(&narrows)
        );
        assert!(
            on_primary < 20,
            "{on_primary} of 200 reads left the replicas because of another session's token"
        );
    });
}

#[test]
fn a_replica_that_was_killed_is_asked_anew() {
    for flavour in Flavour::both() {
        let mut servers = Servers::start(flavour);
        // It may lose what it has applied.
        let narrows = start(&servers.config().variable("causal_reads", "session"));
        let mut admin = narrows.admin();
        run(&mut admin, &format!("DELETE FROM mysql_servers WHERE port = {}", servers.nodes[2].port()));
        run(&mut admin, "LOAD MYSQL SERVERS TO RUNTIME");
        let mut session = narrows.client();
        write(&mut session, 1, 1);
        wait_until("the replica is known to have it", || read(&mut session, "", 1) == (1, 2));
        servers.nodes[1].kill();
        let query = "SELECT CONCAT(n, ' ', @@server_id) FROM shop.t WHERE id = 1";
        session.query(query);
        servers.nodes[1].restart();
        // Its threads stay stopped.
        write(&mut session, 1, 2);
        for _ in 0..20 {
            let answer = session.query(query);
            if answer.error().is_none() {
                assert_eq!(answer.cell().as_deref(), Some("2 1"), "{flavour:?}");
            }
        }
        let name = if flavour == Flavour::MySql9 { "REPLICA" } else { "SLAVE" };
        servers.nodes[1].execute(&[&format!("START {name}")]);
        wait_until("reads return to it", || {
            let answer = session.query(query);
            answer.error().is_none() && answer.cell().as_deref() == Some("2 2")
        });
    }
}

#[test]
fn a_primary_that_is_also_read_from_is_not_waited_for() {
    on_each(|servers| {
        let config = servers.config().server(1, servers.nodes[0].port(), "weight=1000");
        let narrows =
            start(&config.variable("causal_reads", "session").variable("causal_reads_timeout_ms", "2000"));
        let mut session = narrows.client();
        servers.apply(false);
        for n in 0..20 {
            write(&mut session, 1, n);
            assert_eq!(read(&mut session, "", 1), (n, 1));
        }
        let waited = super::figure(&narrows, "Narrows_causal_reads_on_writer");
        println!("{:?}: {}", servers.flavour, super::figures(&narrows));
        assert!(waited <= 10, "{:?}: {waited} of 20 reads waited for the primary in vain", servers.flavour);
    });
}
