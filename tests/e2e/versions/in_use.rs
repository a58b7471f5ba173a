//! What a plan says of those who use Narrows now: clients of accounts, and statements of the last hour.

use narrows_testkit::{Conversation, FakeMysql, Login, Move, Narrows, NarrowsConfig, RawClient};

use super::{apply, plan};
use crate::support::start;

fn behind(server: &FakeMysql) -> Narrows {
    server.say(Conversation::new().on("SELECT 1", &[Move::rows("1", &["1"])]));
    start(&NarrowsConfig::in_front_of(server.port()).server(2, server.port(), ""))
}

/// The rows of one part: subject, what, number.
fn of_part(rows: &[Vec<Option<String>>], part: &str) -> Vec<(String, String, String)> {
    let cell = |row: &[Option<String>], place: usize| row[place].clone().unwrap_or_default();
    let of = rows.iter().filter(|row| row[0].as_deref() == Some(part));
    of.map(|row| (cell(row, 1), cell(row, 3), cell(row, 7))).collect()
}

#[test]
fn clients_that_could_not_log_in_again_are_counted_and_stay() {
    let server = FakeMysql::start(Conversation::new().deciding(|_| None));
    let narrows = behind(&server);
    let mut admin = narrows.admin();
    let mut clients: Vec<RawClient> = (0..2).map(|_| narrows.client()).collect();
    admin.query("UPDATE mysql_users SET comment = 'x'").ok().expect("memory");
    assert_eq!(of_part(&plan(&mut admin, "NARROWS PLAN").1, "client"), []);
    admin.query("UPDATE mysql_users SET password = 'x', max_connections = 1").ok().expect("memory");
    let told = of_part(&plan(&mut admin, "NARROWS PLAN").1, "client");
    let whats: Vec<&str> = told.iter().map(|(_, what, _)| what.split(':').next().unwrap()).collect();
    assert_eq!(whats, ["the account would have another password", "max_connections would be 1"]);
    assert!(told.iter().all(|(name, _, number)| name == "sbtest" && number == "2"), "{told:?}");
    // The password of before is still valid.
    let kept = "UPDATE mysql_users SET max_connections = 2, attributes = '{\"additional_password\":\"' || \
                (SELECT password FROM disk.mysql_users) || '\"}'";
    admin.query(kept).ok().expect("memory");
    assert_eq!(of_part(&plan(&mut admin, "NARROWS PLAN").1, "client"), []);
    for statement in ["UPDATE mysql_users SET active = 0", "DELETE FROM mysql_users"] {
        admin.query(statement).ok().expect("memory");
        let told = of_part(&plan(&mut admin, "NARROWS PLAN").1, "client");
        assert!(told.len() == 1 && told[0].1.starts_with("the account would be gone"), "{told:?}");
    }
    let token = plan(&mut admin, "NARROWS PLAN").0;
    apply(&mut admin, &token);
    // As the plan says.
    for client in &mut clients {
        assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
    }
    let mut late = RawClient::connect(&narrows.endpoint());
    assert!(late.login(&Login::new("sbtest", "sbtest")).is_err());
}

#[test]
fn statements_are_those_of_the_last_hour_also_after_their_digests_were_reset() {
    let server = FakeMysql::start(Conversation::new().deciding(|_| None));
    let narrows = behind(&server);
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    let rule = "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, apply) \
                VALUES (1, 1, '^SELECT', 2, 1)";
    admin.query(rule).ok().expect("memory");
    let mut number = |ran: usize| {
        for _ in 0..ran {
            client.query("SELECT 1");
        }
        let told = of_part(&plan(&mut narrows.admin(), "NARROWS PLAN").1, "statement");
        told.first().map(|(_, _, number)| number.clone())
    };
    assert_eq!(number(3).as_deref(), Some("3"));
    assert_eq!(number(0).as_deref(), Some("3"));
    // Digests that are reset are not known to a plan before they run again; then all of them count.
    admin.query("SELECT * FROM stats_mysql_query_digest_reset").text_rows();
    assert_eq!(number(0), None);
    assert_eq!(number(2).as_deref(), Some("5"));
    narrows.stats().query("SELECT count(*) FROM stats_mysql_query_digest_reset").text_rows();
    admin.query("TRUNCATE stats_mysql_query_digest").ok().expect("truncated");
    assert_eq!(number(1).as_deref(), Some("6"));
    let since = admin.query("NARROWS PLAN").text_rows();
    assert!(since.iter().any(|row| row[3].as_deref() == Some("statements are counted since")), "{since:?}");
}

#[test]
fn a_hostgroup_that_would_be_without_a_server_is_named() {
    let server = FakeMysql::start(Conversation::new().deciding(|_| None));
    let narrows = behind(&server);
    let mut admin = narrows.admin();
    for change in [
        "UPDATE mysql_servers SET status = 'OFFLINE_SOFT' WHERE hostgroup_id = 2",
        "UPDATE mysql_servers SET status = 'OFFLINE_HARD' WHERE hostgroup_id = 2",
        "DELETE FROM mysql_servers WHERE hostgroup_id = 2",
    ] {
        admin.query(change).ok().expect("memory");
        let told = of_part(&plan(&mut admin, "NARROWS PLAN").1, "server");
        let [(what, effect, _)] = &told[..] else { panic!("{change}: {told:?}") };
        assert_eq!(
            (what.as_str(), effect.as_str()),
            ("hostgroup 2", "it would have no server that takes statements")
        );
    }
}
