//! Switchovers in which a server dies, hangs, refuses or lies at a step: what was done is undone, or the error names what is to
//! be done, and never do two servers take writes.

use std::thread;

use narrows_testkit::wait_until;

use super::pair::{NEW, OLD, Pair, Place, Wrong};
use crate::support::start;

const ALL: [Wrong; 6] =
    [Wrong::DiesBefore, Wrong::DiesAfter, Wrong::HangsBefore, Wrong::HangsAfter, Wrong::Refuses, Wrong::Lies];

/// Each statement of a switchover, in order.
const PLACES: [Place; 16] = [
    Place { server: OLD, statement: "SELECT @@GLOBAL.gtid_executed", occurrence: 1 },
    Place { server: NEW, statement: "SELECT WAIT_FOR_EXECUTED_GTID_SET", occurrence: 1 },
    Place { server: OLD, statement: "SET SESSION lock_wait_timeout", occurrence: 1 },
    Place { server: OLD, statement: "SET GLOBAL super_read_only = 1", occurrence: 1 },
    Place { server: OLD, statement: "SELECT @@GLOBAL.read_only", occurrence: 1 },
    Place { server: OLD, statement: "SELECT @@GLOBAL.gtid_executed", occurrence: 2 },
    Place { server: NEW, statement: "SELECT WAIT_FOR_EXECUTED_GTID_SET", occurrence: 2 },
    Place { server: NEW, statement: "SET GLOBAL read_only = 0", occurrence: 1 },
    Place { server: NEW, statement: "SELECT @@GLOBAL.read_only", occurrence: 1 },
    Place { server: NEW, statement: "STOP REPLICA", occurrence: 1 },
    Place { server: NEW, statement: "RESET REPLICA ALL", occurrence: 1 },
    Place { server: NEW, statement: "RESET PERSIST IF EXISTS", occurrence: 1 },
    Place { server: OLD, statement: "SET PERSIST super_read_only = 1", occurrence: 1 },
    Place { server: OLD, statement: "CHANGE REPLICATION SOURCE", occurrence: 1 },
    Place { server: OLD, statement: "START REPLICA", occurrence: 1 },
    Place { server: OLD, statement: "SHOW REPLICA STATUS", occurrence: 2 },
];

#[test]
fn whatever_a_server_does_wrong_a_switchover_is_undone_or_says_what_to_do() {
    let cases: Vec<(Place, Wrong)> =
        PLACES.iter().flat_map(|place| ALL.map(|wrong| (*place, wrong))).collect();
    // They mostly wait.
    for some in cases.chunks(CASES_AT_ONCE) {
        let failed: Vec<String> = thread::scope(|scope| {
            let runs: Vec<_> = some
                .iter()
                .map(|(place, wrong)| {
                    scope.spawn(move || (format!("{place:?} {wrong:?}"), case_with_patience(*place, *wrong)))
                })
                .collect();
            runs.into_iter()
                .filter_map(|run| match run.join() {
                    Ok((_, Ok(()))) => None,
                    Ok((name, Err(reason))) => Some(format!("{name}: {reason}")),
                    Err(_) => Some("a panic, see above".to_owned()),
                })
                .collect()
        });
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

/// A machine that is busy with something else may not come so far within the time of a switchover: then it is tried again.
fn case_with_patience(place: Place, wrong: Wrong) -> Result<(), String> {
    let mut ended = Ok(());
    for _ in 0..3 {
        ended = case(place, wrong);
        if !ended.as_ref().is_err_and(|reason| reason.starts_with(NOT_SENT)) {
            break;
        }
    }
    ended
}

const NOT_SENT: &str = "the statement was not sent";

fn case(place: Place, wrong: Wrong) -> Result<(), String> {
    let pair = Pair::start();
    let narrows = start(&pair.config());
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    wait_until("the roles are known", || {
        let roles = "SELECT count(*) FROM runtime_mysql_servers WHERE hostgroup_id = 0";
        admin.query(roles).cell().as_deref() == Some("1")
    });
    if let Some(error) = client.query("INSERT INTO t VALUES (1)").error() {
        return Err(format!("before: {error:?}"));
    }
    pair.go_wrong(place, wrong);
    let to = format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}' WITHIN 4", pair.port(NEW));
    let answer = admin.query(to);
    let shown = format!("{:?} {:?}", answer.error().map(|error| error.message), answer.text_rows());
    if !pair.has_gone_wrong() {
        return Err(format!("{NOT_SENT}: {shown}"));
    }
    if pair.have_both_taken_writes() {
        return Err(format!("both servers took writes: {shown}"));
    }
    let writers = [pair.takes_writes(OLD), pair.takes_writes(NEW)];
    let says = |text: &str| shown.contains(text);
    let expected = match answer.error() {
        None => writers[NEW] || wrong_after_the_end(place, wrong),
        // The old primary may be dead.
        Some(_) if says("Nothing was changed") || says("Undone: ") => {
            !writers[NEW] && (writers[OLD] || died(wrong))
        }
        // Somebody has to look: what is to be run is said.
        Some(_) => says("run `SET GLOBAL"),
    };
    if !expected {
        return Err(format!("{writers:?}: {shown}"));
    }
    if writers.contains(&true) {
        let server = if writers[OLD] { OLD } else { NEW };
        let before = pair.writes(server);
        if let Some(error) = client.query("INSERT INTO t VALUES (2)").error() {
            return Err(format!(
                "a write failed with {error:?} though server {server} takes writes: {shown}"
            ));
        }
        if pair.writes(server) != before + 1 {
            return Err(format!("a write went elsewhere: {shown}"));
        }
    }
    Ok(())
}

fn died(wrong: Wrong) -> bool {
    matches!(wrong, Wrong::DiesBefore | Wrong::DiesAfter)
}

/// Nothing can be undone any more, and the new primary itself has died.
fn wrong_after_the_end(place: Place, wrong: Wrong) -> bool {
    place.server == NEW && died(wrong)
}

/// How many run at the same time: each waits for seconds, with few statements.
const CASES_AT_ONCE: usize = 28;
