//! Versions that a member cannot apply, and trials.

use narrows_testkit::wait_until;

use super::{Fleet, apply, change, edit, metric, plan, tags, texts};

#[test]
fn what_a_member_cannot_apply_it_refuses_and_what_ran_still_runs() {
    let Some(fleet) = Fleet::start(3) else { return };
    // An expression that does not compile is refused where it is typed.
    let mut admin = fleet.admin(0);
    edit(&mut admin, "bad");
    admin.query("UPDATE mysql_query_rules SET match_digest = '('").ok().unwrap();
    let token = plan(&mut admin);
    let refused = apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).unwrap_err();
    assert!(refused.contains("does not compile"), "{refused}");
    fleet.wait_until_all_run("first");
    // What is no version is refused by all of them, and the next one is applied.
    fleet.etcd.put("/narrows/versions/0000000000000000002", b"nonsense");
    let first = fleet.head_id();
    fleet.put_head(2, &"0".repeat(32), 2);
    wait_until("all have refused it", || {
        fleet
            .shown(0)
            .values()
            .filter(|[_, state, _, why]| state == "refused" && why.contains("version 2: "))
            .count()
            == 3
    });
    fleet.wait_until_all_run("first");
    let refused = change(&mut admin, "other").unwrap_err();
    assert!(refused.contains("version 2 of the fleet was refused here"), "{refused}");
    fleet.put_head(1, &first, 2);
    wait_until("the refusal has ended", || {
        fleet.shown(0).values().all(|[_, state, _, why]| state == "in force" && why.is_empty())
    });
    assert_eq!(metric(&mut admin, "narrows_fleet_refused_version").as_deref(), Some("0"));
    wait_until("a change can be made again", || change(&mut fleet.admin(1), "third").is_ok());
    fleet.wait_until_all_run("third");
    assert!(fleet.shown(2).values().all(|[_, _, _, why]| why.is_empty()));
    // What is put back to an old version is not followed.
    fleet.put_head(1, &first, 1);
    wait_until("all say so", || {
        let shown = fleet.shown(0);
        let says =
            |[_, state, _, why]: &&[String; 4]| state == "mismatch" && why.contains("etcd was put back");
        shown.values().filter(says).count() == 3
    });
    fleet.wait_until_all_run("third");
}

#[test]
fn a_version_that_is_bad_for_those_who_try_it_reaches_no_other() {
    let Some(fleet) = Fleet::start(4) else { return };
    let mut admin = fleet.admin(0);
    edit(&mut admin, "good");
    let token = plan(&mut admin);
    let trial = format!("NARROWS APPLY PLAN '{token}' CANARY 'n1,n2' FOR 1s COMMENT 'good'");
    wait_until("it is tried, and kept", || apply(&mut admin, &trial).is_ok());
    fleet.wait_until_all_run("good");
    // No server can be used.
    edit(&mut admin, "bad");
    admin.query("UPDATE mysql_servers SET status = 'OFFLINE_HARD'").ok().unwrap();
    let token = plan(&mut admin);
    let trial = format!("NARROWS APPLY PLAN '{token}' CANARY 'n1' FOR 1s");
    let refused = std::thread::scope(|scope| {
        let trying = scope.spawn(|| apply(&mut fleet.admin(0), &trial).unwrap_err());
        let mut canary = fleet.admin(1);
        wait_until("it is tried", || tags(&mut canary)[0] == "bad");
        while !trying.is_finished() {
            for member in [0, 2, 3] {
                assert_eq!(tags(&mut fleet.admin(member))[0], "good", "n{member}");
            }
        }
        trying.join().expect("no panic")
    });
    assert!(refused.contains("was taken back: n1 cannot serve clients with it"), "{refused}");
    fleet.wait_until_all_run("good");
    // All know which version was taken back last, and why.
    for member in 0..4 {
        let trials = texts(fleet.admin(member).query("SHOW NARROWS FLEET TRIALS").text_rows());
        assert!(!trials.is_empty(), "n{member}");
        assert_eq!((trials[0][1].as_str(), trials[0][2].as_str()), ("n0", "n1"), "{trials:?}");
        assert!(trials[0][4].contains("n1 cannot serve clients with it"), "{trials:?}");
    }
    // One that does not exist cannot try anything.
    edit(&mut admin, "other");
    let token = plan(&mut admin);
    for (nodes, time, reason) in [("''", "1s", "no member is named"), ("'n1'", "x", "is no time")] {
        let refused = apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}' CANARY {nodes} FOR {time}"));
        assert!(refused.as_ref().is_err_and(|it| it.contains(reason)), "{refused:?}");
    }
}
