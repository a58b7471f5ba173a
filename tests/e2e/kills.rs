//! `KILL` in any form: it ends sessions of Narrows, by Narrows' ids, and never a server's connection.

use std::time::Duration;

use narrows_testkit::{Endpoint, Flavour, Login, NarrowsConfig, RawClient, RealServer, capability, command};

use crate::support::start;

/// A session that may send several statements in one text.
fn open(endpoint: &Endpoint) -> RawClient {
    RawClient::open(endpoint, &Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS))
}

fn id_of(client: &mut RawClient) -> u32 {
    client.query("SELECT CONNECTION_ID()").cell().and_then(|id| id.parse().ok()).expect("an id")
}

#[test]
fn no_form_of_a_kill_reaches_a_connection_of_the_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        // Of the same account, so that the server would allow the kill.
        let mut bystander = open(&server.endpoint());
        let id = id_of(&mut bystander);
        for (form, error) in [
            ("KILL {}", 1094),
            ("/*!50000 KILL {} */", 1094),
            ("KILL QUERY {}", 1094),
            ("KILL {}; SELECT 1", 1094),
            ("EXECUTE IMMEDIATE 'KILL {}'", 1094),
            ("SET @n = {}|KILL @n", 1094),
            ("SELECT 1; KILL {}", 1235),
            ("KILL @x := {}", 1235),
            ("KILL {} + 0", 1235),
            ("KILL 'x'", 1235),
            ("KILL USER sbtest", 1235),
            ("KILL QUERY ID {}", 1235),
            ("BEGIN NOT ATOMIC KILL {}; END", 1235),
            ("SET STATEMENT max_statement_time = 9 FOR KILL {}", 1235),
            ("EXECUTE IMMEDIATE CONCAT('KILL ', {})", 1235),
            ("PREPARE s FROM 'KILL {}'", 1295),
            ("SET @k = 'KILL {}'|PREPARE s FROM @k", 1295),
        ] {
            let mut client = open(&narrows.endpoint());
            let form = form.replace("{}", &id.to_string());
            let (before, kill) = form.split_once('|').unwrap_or(("DO 0", &form));
            client.query(before).ok().expect("no kill");
            let code = client.query(kill).error().map(|error| error.code);
            assert_eq!(code, Some(error), "{flavour:?}: {form}");
            // None of it has run.
            assert_eq!(client.query("SELECT 2").cell().as_deref(), Some("2"), "{form}");
        }
        let mut client = open(&narrows.endpoint());
        for text in [format!("KILL {id}"), "KILL ?".to_owned()] {
            let prepared = client.command(command::STMT_PREPARE, text.as_bytes());
            assert_eq!(prepared.error().map(|error| error.code), Some(1295), "{prepared:?}");
        }
        let killed = client.command(command::PROCESS_KILL, &id.to_le_bytes());
        assert_eq!(killed.error().map(|error| error.code), Some(1094), "{killed:?}");
        assert_eq!(id_of(&mut bystander), id, "{flavour:?}: it was killed");
    }
}

fn goes_on(client: &mut RawClient) -> bool {
    client.query("SELECT 7").error().is_none()
}

#[test]
fn a_session_that_kills_itself_is_answered_as_by_the_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let version = server.rows("SELECT VERSION()").remove(0).remove(0).expect("a version");
        let narrows = start(&NarrowsConfig::in_front_of(server.port()).variable("server_version", &version));
        for kill in [
            "KILL {}",
            "KILL CONNECTION {}",
            "KILL QUERY {}",
            "KILL CONNECTION_ID()",
            "KILL CONNECTION CONNECTION_ID()",
            "KILL QUERY CONNECTION_ID()",
            "KILL QUERY CONNECTION_ID(); SELECT 1",
            "KILL CONNECTION_ID(); SELECT 1",
        ] {
            let said = |endpoint: &Endpoint| {
                let mut client = open(endpoint);
                let kill = kill.replace("{}", &id_of(&mut client).to_string());
                client.query("DO 0").ok().expect("no kill");
                let error = client.query(kill).error().map(|error| (error.code, error.state, error.message));
                (error, goes_on(&mut client))
            };
            assert_eq!(said(&narrows.endpoint()), said(&server.endpoint()), "{flavour:?}: {kill}");
        }
        let process_kill = |endpoint: &Endpoint| {
            let mut client = open(endpoint);
            let id = id_of(&mut client);
            let error = client.command(command::PROCESS_KILL, &id.to_le_bytes()).error();
            (error.map(|error| error.code), goes_on(&mut client))
        };
        if flavour == Flavour::MariaDb {
            assert_eq!(
                process_kill(&narrows.endpoint()),
                process_kill(&server.endpoint()),
                "COM_PROCESS_KILL"
            );
        }
    }
}

#[test]
fn words_that_only_look_like_a_kill_are_sent_as_they_are() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        let mut client = open(&narrows.endpoint());
        for query in [
            "SELECT 'KILL 5; KILL 6'",
            "SELECT 1 AS `kill`",
            "SELECT k.kill FROM (SELECT 2 AS `kill`) k",
            "/* KILL 5 */ SELECT 3",
        ] {
            assert!(client.query(query).cell().is_some(), "{query}");
        }
        client.query("PREPARE s FROM 'SELECT \"KILL 5\" AS k'").ok().expect("no kill");
        assert_eq!(client.query("EXECUTE s").cell().as_deref(), Some("KILL 5"));
    }
}

#[test]
fn kills_before_other_statements_are_done_and_answered_first() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        let (mut client, mut one, mut other) =
            (open(&narrows.endpoint()), open(&narrows.endpoint()), open(&narrows.endpoint()));
        let (first, second) = (id_of(&mut one), id_of(&mut other));

        let answer = client.query(format!("KILL {first}; KILL CONNECTION {second}; SELECT 'here'"));

        assert!(answer.error().is_none(), "{answer:?}");
        // Two OKs, then a column, its end, a row and its end.
        let heads: Vec<u8> = answer.packets.iter().map(|packet| packet.payload[0]).collect();
        assert_eq!((heads[0], heads[1], heads[2]), (0, 0, 1), "{answer:?}");
        assert!(one.is_closed_within(Duration::from_secs(30)));
        assert!(other.is_closed_within(Duration::from_secs(30)));

        let nobody = client.query("KILL 7; SELECT 'not here'");
        assert_eq!(nobody.packets.len(), 1, "{nobody:?}");
        assert_eq!(nobody.error().map(|error| error.code), Some(1094), "{nobody:?}");
        let own = id_of(&mut client);
        let error = client.query(format!("KILL QUERY {own}; SELECT 1")).error();
        assert_eq!(error.map(|error| error.code), Some(1317));
        assert_eq!(client.query("SELECT 3").cell().as_deref(), Some("3"));
    }
}

#[test]
fn several_statements_that_the_client_may_not_send_kill_nobody() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let (mut client, mut other) = (narrows.client(), narrows.client());
    let id = id_of(&mut other);

    let error = client.query(format!("KILL {id}; SELECT 1")).error();

    assert_eq!(error.map(|error| error.code), Some(1064));
    assert_eq!(id_of(&mut other), id);
}

#[test]
fn a_routine_that_kills_finds_nobody_by_a_number_of_narrows() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&["CREATE DATABASE IF NOT EXISTS kills", "DROP PROCEDURE IF EXISTS kills.p"]);
        let narrows = start(&NarrowsConfig::in_front_of(server.port()));
        let (mut client, mut other) = (open(&narrows.endpoint()), open(&narrows.endpoint()));
        let id = id_of(&mut other);
        let body = "CREATE PROCEDURE kills.p(IN id BIGINT) BEGIN KILL id; END";
        client.query(body).ok().expect("a KILL inside a text kills nobody");

        let error = client.query(format!("CALL kills.p({id})")).error();

        assert_eq!(error.map(|error| error.code), Some(1094), "{flavour:?}");
        assert_eq!(id_of(&mut other), id);
        // No server has had this many connections, and drivers store ids in 31 bits.
        assert!((1 << 30..1 << 31).contains(&id), "{id}");
    }
}
