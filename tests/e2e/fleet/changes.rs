//! What a change on one member does on all, and what stays each one's own.

use narrows_testkit::{RawClient, wait_until};

use super::{Fleet, apply, change_surely, edit, metric, plan, tags, texts};

#[test]
fn a_plan_or_a_rollback_on_any_member_is_the_next_version_on_all() {
    let Some(fleet) = Fleet::start(3) else { return };
    let interfaces = |admin: &mut RawClient| {
        let sql =
            "SELECT variable_value FROM runtime_global_variables WHERE variable_name = 'mysql-interfaces'";
        admin.query(sql).cell()
    };
    let before: Vec<_> = (0..3).map(|member| interfaces(&mut fleet.admin(member))).collect();
    change_surely(&mut fleet.admin(1), "second");
    fleet.wait_until_all_run("second");
    let after: Vec<_> = (0..3).map(|member| interfaces(&mut fleet.admin(member))).collect();
    assert_eq!(before, after, "where each listens is its own");
    let history = texts(fleet.admin(2).query("SHOW NARROWS CHANGES").text_rows());
    assert_eq!((history[0][4].as_str(), history[0][6].as_str()), ("fleet", "second"));
    let command = &history[0][5];
    assert!(
        command.starts_with("version 2 of the fleet (") && command.contains("), made on n1: "),
        "{history:?}"
    );
    // Memory and disk have it too.
    for layer in ["main.", "disk."] {
        let comment = fleet.admin(2).query(format!("SELECT comment FROM {layer}mysql_servers")).cell();
        assert_eq!(comment.as_deref(), Some("second"), "{layer}");
    }
    // The way back is a version too, with the numbers of the member on which it was typed.
    let first = texts(fleet.admin(2).query("SHOW NARROWS CHANGES").text_rows());
    let first = first.iter().find(|row| row[6] == "first").expect("the first version").clone();
    let rollback = format!("NARROWS ROLLBACK TO {}", first[0]);
    wait_until("it is taken back", || apply(&mut fleet.admin(2), &rollback).is_ok());
    fleet.wait_until_all_run("first");
    wait_until("all report version 3", || {
        let shown = fleet.shown(0);
        shown.len() == 3 && shown.values().all(|[version, state, ..]| version == "3" && state == "in force")
    });
}

#[test]
fn of_changes_at_the_same_time_one_is_made_and_the_others_are_refused() {
    let Some(fleet) = Fleet::start(5) else { return };
    let mut all_made = 0;
    for round in 0..3 {
        let mut ready: Vec<(RawClient, String, String)> = (0..5)
            .map(|member| {
                let (mut admin, tag) = (fleet.admin(member), format!("r{round}m{member}"));
                edit(&mut admin, &tag);
                let token = plan(&mut admin);
                (admin, format!("NARROWS APPLY PLAN '{token}' COMMENT '{tag}'"), tag)
            })
            .collect();
        let outcomes: Vec<Result<String, String>> = std::thread::scope(|scope| {
            let apply = |(admin, statement, tag): &mut (RawClient, String, String)| {
                apply(admin, statement).map(|()| tag.clone())
            };
            let threads: Vec<_> = ready.iter_mut().map(|it| scope.spawn(move || apply(it))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let made: Vec<&String> = outcomes.iter().flatten().collect();
        // None is made if etcd is too slow.
        assert!(made.len() <= 1, "{outcomes:?}");
        for refused in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            let is_clear = [
                "etcd cannot be reached",
                "at the same time",
                "is the newest",
                "applied meanwhile",
                "has changed since plan",
            ]
            .iter()
            .any(|part| refused.contains(part));
            assert!(is_clear, "{refused}");
        }
        made.iter().for_each(|tag| fleet.wait_until_all_run(tag));
        all_made += made.len();
    }
    assert!(all_made > 0);
}

#[test]
fn each_change_of_two_administrators_on_each_of_two_members_has_a_clear_answer() {
    let Some(fleet) = Fleet::start(2) else { return };
    let work = |member: usize, number: usize| -> Vec<Result<(), String>> {
        let mut admin = fleet.admin(member);
        let one = |round: usize| {
            let tag = format!("m{member}a{number}r{round}");
            admin.query(format!("UPDATE mysql_query_rules SET comment = '{tag}'")).ok();
            let token = plan(&mut admin);
            apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}' COMMENT '{tag}'"))
        };
        (0..12).map(one).collect()
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let begin = |(member, number)| scope.spawn(move || work(member, number));
        let threads: Vec<_> = [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().map(begin).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    // It is a version, or it is clear that it is none.
    let unclear = outcomes.iter().filter_map(|it| it.as_ref().err()).find(|it| it.contains("not known"));
    assert_eq!(unclear, None);
    assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
}

#[test]
fn a_load_on_one_member_is_drift_until_the_next_version() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut admin = fleet.admin(1);
    assert_eq!(metric(&mut admin, "narrows_fleet_drift_rows").as_deref(), Some("0"));
    admin.query("UPDATE mysql_servers SET weight = 7").ok().unwrap();
    admin.query("LOAD MYSQL SERVERS TO RUNTIME").ok().unwrap();
    assert_eq!(metric(&mut admin, "narrows_fleet_drift_rows").as_deref(), Some("1"));
    let drift = texts(admin.query("SHOW NARROWS FLEET DRIFT").text_rows());
    assert_eq!(drift.len(), 1);
    assert_eq!(drift[0][3..], ["weight", "1", "7"]);
    wait_until("the other one knows it", || {
        let shown = fleet.shown(0);
        shown["n1"][1..3] == ["drifted", "1"] && shown["n0"][1..3] == ["in force", "0"]
    });
    // What is a member's own is no drift.
    let mut other = fleet.admin(0);
    other.query("SET mysql-zone = 'here'").ok().unwrap();
    other.query("LOAD MYSQL VARIABLES TO RUNTIME").ok().unwrap();
    assert_eq!(metric(&mut other, "narrows_fleet_drift_rows").as_deref(), Some("0"));
    // A plan that changes nothing that is shared stays here.
    other.query("SET mysql-zone = 'there'").ok().unwrap();
    let token = plan(&mut other);
    apply(&mut other, &format!("NARROWS APPLY PLAN '{token}'")).unwrap();
    assert_eq!(metric(&mut other, "narrows_fleet_head_version").as_deref(), Some("1"));
    change_surely(&mut other, "next");
    fleet.wait_until_all_run("next");
    assert_eq!(metric(&mut admin, "narrows_fleet_drift_rows").as_deref(), Some("0"));
    let weight = admin.query("SELECT weight FROM runtime_mysql_servers").cell();
    assert_eq!(weight.as_deref(), Some("1"));
    let zone = "SELECT variable_value FROM runtime_global_variables WHERE variable_name = 'mysql-zone'";
    assert_eq!(other.query(zone).cell().as_deref(), Some("there"));
    assert_eq!(tags(&mut admin), tags(&mut other));
}
