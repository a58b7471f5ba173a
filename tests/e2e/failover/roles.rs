//! Servers change their roles, and somebody else has done it: what clients notice that keep their connection, and what makes Narrows
//! ask the servers at once.

use narrows_testkit::{Narrows, NarrowsConfig, RawClient, wait_until};

use super::pair::{FAILS, NEW, OLD, Pair};
use crate::model::random::Random;
use crate::support::start;

/// Roles are not asked for within the time of a test, unless there is a reason.
fn seldom(pair: &Pair) -> NarrowsConfig {
    pair.config().variable("monitor_read_only_interval", "600000")
}

fn is_writer(admin: &mut RawClient, pair: &Pair, server: usize) -> bool {
    let writers = admin.query("SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0").text_rows();
    writers == [[Some(pair.port(server).to_string())]]
}

fn started(pair: &Pair, config: &NarrowsConfig) -> (Narrows, RawClient) {
    let narrows = start(config);
    let mut admin = narrows.admin();
    wait_until("roles are known", || {
        let checked = "SELECT count(*) >= 2 FROM monitor.mysql_server_read_only_log WHERE error IS NULL";
        is_writer(&mut admin, pair, OLD) && admin.query(checked).cell().as_deref() == Some("1")
    });
    (narrows, admin)
}

/// A client is in a transaction, and somebody changes the roles.
fn changed_under_a_transaction(pair: &Pair) -> (Narrows, RawClient, RawClient) {
    let (narrows, admin) = started(pair, &seldom(pair));
    let mut client = narrows.client();
    for statement in ["BEGIN", "DO 1"] {
        assert_eq!(client.query(statement).error(), None, "{statement}");
    }
    pair.change_roles();
    (narrows, admin, client)
}

#[test]
fn a_client_that_keeps_its_connection_for_nothing_on_it_continues_with_the_new_writer() {
    for interval in ["100", "600000"] {
        let pair = Pair::start();
        let config = pair.config().variable("multiplexing", "false");
        let (narrows, mut admin) = started(&pair, &config.variable("monitor_read_only_interval", interval));
        let (mut first, mut second) = (narrows.client(), narrows.client());
        for client in [&mut first, &mut second] {
            assert_eq!(client.query("INSERT INTO t VALUES (1)").error(), None);
        }
        pair.change_roles();
        // This one finds out, or the monitor does.
        assert_eq!(first.query("INSERT INTO t VALUES (2)").error(), None);
        wait_until("the roles have changed", || is_writer(&mut admin, &pair, NEW));
        assert_eq!(second.query("INSERT INTO t VALUES (3)").error(), None);
        assert_eq!((pair.writes(OLD), pair.writes(NEW)), (2, 2), "interval {interval}");
    }
}

#[test]
fn a_client_that_keeps_its_connection_for_nothing_on_it_continues_when_it_is_lost() {
    let pair = Pair::start();
    let (narrows, _) = started(&pair, &pair.config().variable("multiplexing", "false"));
    let mut client = narrows.client();
    assert_eq!(client.query("INSERT INTO t VALUES (1)").error(), None);
    pair.hang_up(OLD);
    assert_eq!(client.query("INSERT INTO t VALUES (2)").error(), None);
    assert_eq!(pair.writes(OLD), 2);
}

#[test]
fn a_client_in_a_transaction_is_told_that_its_server_takes_no_writes_any_more() {
    let pair = Pair::start();
    let (_narrows, mut admin, mut client) = changed_under_a_transaction(&pair);
    assert_eq!(client.query("INSERT INTO t VALUES (1)").error().map(|error| error.code), Some(1290));
    wait_until("the roles have changed", || is_writer(&mut admin, &pair, NEW));
    assert_eq!(client.query("ROLLBACK").error(), None);
    assert_eq!(client.query("INSERT INTO t VALUES (2)").error(), None);
    assert_eq!((pair.writes(OLD), pair.writes(NEW)), (0, 1));
}

#[test]
fn errors_that_mean_another_role_make_narrows_ask_at_once() {
    for code in [1290, 1836, 3032, 3098, 3100] {
        let pair = Pair::start();
        let (_narrows, mut admin, mut client) = changed_under_a_transaction(&pair);
        let error = client.query(format!("{FAILS}{code}")).error().expect("the server refuses it");
        assert_eq!(error.code, code);
        wait_until("the roles have changed", || is_writer(&mut admin, &pair, NEW));
    }
}

#[test]
fn a_lost_connection_makes_narrows_ask_at_once() {
    let pair = Pair::start();
    let (narrows, mut admin) = started(&pair, &seldom(&pair));
    let mut client = narrows.client();
    assert_eq!(client.query("BEGIN").error(), None);
    pair.change_roles();
    pair.hang_up(OLD);
    assert_eq!(client.query("INSERT INTO t VALUES (1)").error().map(|error| error.code), Some(2013));
    // The check of the old one may find its own connection lost, too; what clients do makes it be asked again.
    let mut client = narrows.client();
    wait_until("the roles have changed", || {
        client.query("INSERT INTO t VALUES (2)").error().is_none() && is_writer(&mut admin, &pair, NEW)
    });
}

#[test]
fn a_second_writer_is_logged_and_counted_until_it_is_gone() {
    let pair = Pair::start();
    let config = pair.config().variable("monitor_read_only_interval", "100");
    let (narrows, mut admin) = started(&pair, &config);
    let mut metrics = narrows.admin();
    let mut writers = |count: usize| {
        let line = format!("narrows_replication_writers{{hostgroup=\"0\"}} {count}\n");
        wait_until("the writers are counted", || {
            let rows = metrics.query("SHOW PROMETHEUS METRICS").text_rows();
            rows.into_iter().flatten().flatten().any(|page| page.contains(&line))
        });
    };
    writers(1);
    // A change of roles is none, whichever server is asked first.
    pair.change_roles();
    wait_until("the roles have changed", || is_writer(&mut admin, &pair, NEW));
    writers(1);
    assert!(!narrows.log().contains(TWO_WRITERS), "{}", narrows.log());
    // The old primary comes back without read_only.
    pair.becomes_writable(OLD);
    writers(2);
    let log = narrows.wait_for_log(0, |log| log.contains(TWO_WRITERS));
    let warning = log.lines().find(|line| line.contains(TWO_WRITERS)).expect("it is there");
    assert!(warning.contains("WARN") && warning.contains(&pair.port(OLD).to_string()), "{warning}");
    pair.becomes_read_only(OLD);
    writers(1);
    narrows.wait_for_log(0, |log| log.contains("a writer hostgroup has one writer again"));
    assert_eq!(narrows.log().matches(TWO_WRITERS).count(), 1, "it is said once");
}

const TWO_WRITERS: &str = "has more than one server that takes writes";

/// Planned switchovers, changes by somebody else before the next check, and lost connections, in any order: the roles in force are
/// those that the servers say, and no two servers are written to.
#[test]
fn the_roles_in_force_are_those_that_servers_say_whatever_has_happened() {
    let pair = Pair::start();
    let (narrows, mut admin) = started(&pair, &pair.config());
    let mut random = Random::new(42, 0);
    for round in 0..60 {
        let mut done = Vec::new();
        for _ in 0..=random.below(3) {
            let server = random.below(2);
            done.push((random.below(4), server));
            match done.last().expect("it is there").0 {
                0 => {
                    let to = format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'", pair.port(server));
                    // It may be refused: the server is the writer, or there is none.
                    admin.query(to);
                }
                1 => pair.becomes_writable(server),
                2 => pair.becomes_read_only(server),
                _ => pair.hang_up(server),
            }
        }
        let writable: Vec<String> = [OLD, NEW]
            .into_iter()
            .filter(|server| pair.takes_writes(*server))
            .map(|server| pair.port(server).to_string())
            .collect();
        let what =
            format!("round {round}: {done:?}: {writable:?} of {} and {}", pair.port(OLD), pair.port(NEW));
        wait_until(&what, || {
            let writers =
                admin.query("SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0").text_rows();
            let writers: Vec<String> = writers.into_iter().flatten().flatten().collect();
            assert!(writers.len() < 2, "{what}: {writers:?} {}", narrows.log());
            match writable.is_empty() {
                true => writers.is_empty(),
                false => writers.len() == 1 && writable.contains(&writers[0]),
            }
        });
    }
    // After all that a switchover is still possible.
    pair.becomes_read_only(NEW);
    pair.becomes_writable(OLD);
    wait_until("the first one is the writer", || is_writer(&mut admin, &pair, OLD));
    let to = format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'", pair.port(NEW));
    wait_until("a switchover is made", || admin.query(&*to).error().is_none());
    assert!(is_writer(&mut admin, &pair, NEW));
}
