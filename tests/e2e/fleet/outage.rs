//! etcd is away: everything continues, changes are refused, and it is found again.

use std::time::Instant;

use super::{BINARY, Fleet, change, change_surely, tags};

#[test]
fn without_etcd_all_serve_the_last_version_also_after_a_restart_and_changes_are_refused() {
    let Some(mut fleet) = Fleet::start(5) else { return };
    (0..3).for_each(|node| fleet.etcd.kill(node));
    for member in 0..5 {
        fleet.members[member].process().kill();
        fleet.members[member].start_alone_again(BINARY);
        assert_eq!(tags(&mut fleet.admin(member)), ["first"; 4], "n{member}");
        assert!(fleet.members[member].client().query("SELECT 1").error().is_none(), "n{member}");
    }
    let refused = change(&mut fleet.admin(0), "second").unwrap_err();
    assert!(
        refused.contains("etcd cannot be reached") && refused.contains("nothing has changed"),
        "{refused}"
    );
    assert_eq!(tags(&mut fleet.admin(0)), ["first"; 4]);
    // A majority is enough.
    (0..2).for_each(|node| fleet.etcd.run(node));
    change_surely(&mut fleet.admin(3), "second");
    fleet.wait_until_all_run("second");
}

#[test]
fn a_member_that_was_away_gets_the_newest_version_and_none_between() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    fleet.members[2].process().kill();
    for tag in ["second", "third", "fourth"] {
        change_surely(&mut fleet.admin(0), tag);
    }
    let began = Instant::now();
    fleet.members[2].start_alone_again(BINARY);
    fleet.wait_until_all_run("fourth");
    println!("a member that was started has the newest version after {} ms", began.elapsed().as_millis());
    let made = fleet.admin(2).query("SELECT group_concat(comment, ' ') FROM (SELECT comment FROM disk.narrows_config_history WHERE source = 'fleet' ORDER BY version)");
    assert_eq!(made.cell().as_deref(), Some("first fourth"));
}

#[test]
fn a_minority_of_etcd_takes_no_change_and_loses_none() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    fleet.etcd.kill(0);
    change_surely(&mut fleet.admin(1), "two");
    fleet.wait_until_all_run("two");
    fleet.etcd.kill(1);
    let refused = change(&mut fleet.admin(1), "one").unwrap_err();
    assert!(refused.contains("etcd cannot be reached"), "{refused}");
    assert!((0..3).all(|member| tags(&mut fleet.admin(member)) == ["two"; 4]));
    (0..2).for_each(|node| fleet.etcd.run(node));
    change_surely(&mut fleet.admin(2), "three");
    fleet.wait_until_all_run("three");
}
