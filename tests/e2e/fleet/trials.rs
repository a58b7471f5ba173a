//! Versions that some members try: what makes them pass, and what ends them.

use std::sync::mpsc::channel;

use narrows_testkit::{RawClient, free_port, wait_until};

use super::{Fleet, apply, change, change_surely, edit, plan, tags, texts};

/// Edits memory, and returns the command that has n1 try it.
fn trial(admin: &mut RawClient, tag: &str, edits: &[&str], time: &str) -> String {
    // What was taken back is still in memory where it was typed.
    for sql in ["LOAD MYSQL SERVERS FROM DISK", "LOAD MYSQL USERS FROM DISK"] {
        admin.query(sql).ok().unwrap_or_else(|| panic!("{sql}"));
    }
    edit(admin, tag);
    for sql in edits {
        admin.query(*sql).ok().unwrap_or_else(|| panic!("{sql}"));
    }
    format!("NARROWS APPLY PLAN '{}' CANARY 'n1' FOR {time} COMMENT '{tag}'", plan(admin))
}

/// Has n1 try a version that is taken back; returns why. Meanwhile, `during` gets n1 when it runs it, and no other gets it.
fn taken_back(fleet: &Fleet, edits: &[&str], time: &str, during: impl FnOnce(&mut RawClient)) -> String {
    let statement = trial(&mut fleet.admin(0), "tried", edits, time);
    let refused = std::thread::scope(|scope| {
        let trying = scope.spawn(|| apply(&mut fleet.admin(0), &statement));
        let mut canary = fleet.admin(1);
        let shown = |canary: &mut RawClient| {
            canary.query("SELECT comment FROM runtime_mysql_query_rules").cell().as_deref() == Some("tried")
        };
        wait_until("n1 tries it", || trying.is_finished() || shown(&mut canary));
        during(&mut canary);
        while !trying.is_finished() {
            assert_eq!(tags(&mut fleet.admin(2)), ["first"; 4]);
        }
        trying.join().expect("no panic").expect_err("it is taken back")
    });
    fleet.wait_until_all_run("first");
    refused
}

#[test]
fn what_is_loaded_on_a_member_that_tries_a_version_ends_the_trial() {
    let Some(fleet) = Fleet::start(3) else { return };
    let load = |canary: &mut RawClient, sql: &str| {
        canary.query(sql).ok().unwrap();
        canary.query("LOAD MYSQL QUERY RULES TO RUNTIME").ok().unwrap();
    };
    // It runs the version again before anybody could have seen a report of that.
    let reason = taken_back(&fleet, &[], "5s", |canary| {
        load(canary, "UPDATE mysql_query_rules SET comment = 'other'");
        load(canary, "UPDATE mysql_query_rules SET comment = 'tried'");
    });
    assert!(reason.contains("something else was loaded there (mysql_query_rules 1 altered)"), "{reason}");
    // What would repair a bad version on n1 does not make it a good one.
    let reason = taken_back(&fleet, &["DELETE FROM mysql_servers"], "1s", |canary| {
        load(canary, "LOAD MYSQL SERVERS FROM DISK");
    });
    assert!(reason.contains("lead to hostgroup 0, and it has no server"), "{reason}");
}

#[test]
fn a_version_whose_servers_cannot_be_reached_reaches_no_second_member() {
    let Some(fleet) = Fleet::start(3) else { return };
    let away = format!("UPDATE mysql_servers SET port = {}", free_port());
    let reason = taken_back(&fleet, &[&away], "1s", |_| {});
    assert!(reason.contains("n1 cannot reach any server of hostgroup 0: 127.0.0.1:"), "{reason}");
    let reason = taken_back(&fleet, &["UPDATE mysql_users SET active = 0"], "1s", |_| {});
    assert!(reason.contains("no account of mysql_users is active"), "{reason}");
    let trials = texts(fleet.admin(2).query("SHOW NARROWS FLEET TRIALS").text_rows());
    assert_eq!(trials.len(), 2, "{trials:?}");
    // A server that does not know the monitor is reached all the same, and the next change can follow at once, on any member.
    let statement = trial(&mut fleet.admin(0), "good", &[], "1s");
    apply(&mut fleet.admin(0), &statement).unwrap();
    let mut admin = fleet.admin(2);
    let next = change(&mut admin, "next");
    assert!(next.as_ref().err().is_none_or(|it| !it.contains("on trial")), "{next:?}");
    change_surely(&mut admin, "last");
    fleet.wait_until_all_run("last");
}

#[test]
fn a_fleet_that_never_had_a_server_can_try_a_version() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut admin = fleet.admin(0);
    for table in ["mysql_servers", "mysql_query_rules", "mysql_users"] {
        admin.query(format!("DELETE FROM {table}")).ok().unwrap();
    }
    let token = plan(&mut admin);
    apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).unwrap();
    let servers = "SELECT count(*) FROM runtime_mysql_servers";
    wait_until("all have no server", || fleet.admin(1).query(servers).cell().as_deref() == Some("0"));
    admin.query("SET mysql-monitor_username = 'other'").ok().unwrap();
    let token = plan(&mut admin);
    let statement = format!("NARROWS APPLY PLAN '{token}' CANARY 'n1' FOR 1s");
    wait_until("it passes", || match apply(&mut admin, &statement) {
        Ok(()) => true,
        Err(reason) => panic!("{reason}"),
    });
}

#[test]
fn a_trial_during_which_etcd_is_away_is_answered_and_taken_back() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let statement = trial(&mut fleet.admin(0), "tried", &[], "5s");
    let (mut admin, mut canary) = (fleet.admin(0), fleet.admin(1));
    let (to, answer) = channel();
    let trying = std::thread::spawn(move || to.send(apply(&mut admin, &statement)));
    wait_until("n1 tries it", || tags(&mut canary) == ["tried"; 4]);
    (0..3).for_each(|node| fleet.etcd.kill(node));
    let refused = answer.recv().expect("an answer").expect_err("it is not known");
    trying.join().expect("no panic").expect("it was received");
    assert!(refused.contains("etcd cannot be reached") && refused.contains("it is not known"), "{refused}");
    assert_eq!(tags(&mut canary), ["tried"; 4]);
    (0..3).for_each(|node| fleet.etcd.run(node));
    fleet.wait_until_all_run("first");
    wait_until("all know why", || {
        let trials = texts(fleet.admin(2).query("SHOW NARROWS FLEET TRIALS").text_rows());
        trials.first().is_some_and(|row| row[4].contains("etcd could not be used"))
    });
}

#[test]
fn a_member_that_has_a_version_in_force_keeps_it_when_etcd_goes_back_to_its_trial() {
    let Some(fleet) = Fleet::start(2) else { return };
    let first = fleet.head_id();
    change_surely(&mut fleet.admin(0), "second");
    fleet.wait_until_all_run("second");
    let mut admin = fleet.admin(1);
    let second = fleet.head_id();
    let trial = |nodes: &str| {
        format!(r#"{{"version": 2, "id": "{second}", "nodes": [{nodes}], "by": "nobody", "seconds": 60}}"#)
    };
    fleet.etcd.put_for(60, "/narrows/trial", trial("\"n1\"").as_bytes());
    fleet.put_head(1, &first, 2);
    fleet.members[0].wait_for_log(0, |line| line.contains("etcd was put back"));
    fleet.members[1].wait_for_log(0, |line| line.contains("on trial, and version 2"));
    // The trial ends, as with its lease.
    let logged = fleet.members[1].log().len();
    fleet.etcd.put_for(60, "/narrows/trial", trial("").as_bytes());
    fleet.members[1].wait_for_log(logged, |line| line.contains("etcd was put back"));
    assert_eq!(tags(&mut admin), ["second"; 4]);
}

#[test]
fn a_trial_whose_member_has_died_is_taken_back_and_listed() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let statement = trial(&mut fleet.admin(0), "tried", &[], "60s");
    let (mut admin, mut canary) = (fleet.admin(0), fleet.admin(1));
    let trying = std::thread::spawn(move || {
        // Its connection ends with the member.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| apply(&mut admin, &statement)));
    });
    wait_until("n1 tries it", || tags(&mut canary) == ["tried"; 4]);
    fleet.members[0].process().kill();
    trying.join().expect("no panic");
    wait_until("it is taken back", || tags(&mut canary) == ["first"; 4]);
    wait_until("all list it", || {
        (1..3).all(|member| {
            let trials = texts(fleet.admin(member).query("SHOW NARROWS FLEET TRIALS").text_rows());
            let of_it =
                trials.iter().filter(|row| row[1] == "n0" && row[4].contains("n0, on which it was begun"));
            of_it.count() == 1 && trials.len() == 1
        })
    });
}
