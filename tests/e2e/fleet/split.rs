//! An etcd that has lost what members run, or is another one: they say so, keep what they run, and follow what an administrator
//! names.

use narrows_testkit::{RawClient, wait_until};

use super::{BINARY, Fleet, apply, change, change_surely, metric, tags};

const RESTORE: &str = "NARROWS FLEET RESTORE COMMENT 'restored'";

/// Makes what runs on a member the version of all.
fn restore(admin: &mut RawClient) {
    wait_until("it is restored", || match apply(admin, RESTORE) {
        Ok(()) => true,
        Err(reason) => panic!("{reason}"),
    });
}

#[test]
fn when_etcd_has_lost_its_data_all_say_so_until_one_member_is_named() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    change_surely(&mut fleet.admin(0), "second");
    fleet.wait_until_all_run("second");
    fleet.etcd.lose_data();
    fleet.wait_until_mismatch(&[0, 1, 2], true);
    for member in 0..3 {
        fleet.members[member].wait_for_log(0, |line| line.contains("it has lost its data"));
    }
    wait_until("all show it", || {
        let shown = fleet.shown(0);
        shown.len() == 3
            && shown.values().all(|[_, state, _, why]| state == "mismatch" && why.contains("lost"))
    });
    let refused = change(&mut fleet.admin(2), "third").unwrap_err();
    assert!(refused.contains("NARROWS FLEET RESTORE on the member"), "{refused}");
    // One that knows nothing of what was lost does not begin from the start.
    fleet.join("n3", "");
    let mut new = fleet.admin(3);
    wait_until("it has reached etcd", || super::etcd_trouble(&mut new).is_none());
    let refused = change(&mut new, "other").unwrap_err();
    assert!(refused.contains("etcd does not have any more"), "{refused}");
    restore(&mut fleet.admin(1));
    fleet.wait_until_all_run("second");
    fleet.wait_until_mismatch(&[0, 1, 2, 3], false);
    change_surely(&mut fleet.admin(3), "third");
    fleet.wait_until_all_run("third");
}

#[test]
fn a_change_in_an_etcd_that_was_put_back_does_not_replace_what_others_run() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    fleet.members[2].process().kill();
    assert!(fleet.etcd.save("before"));
    change_surely(&mut fleet.admin(0), "second");
    wait_until("both run it", || (0..2).all(|member| tags(&mut fleet.admin(member)) == ["second"; 4]));
    fleet.etcd.restore("before");
    fleet.wait_until_mismatch(&[0, 1], true);
    // One that was away has what etcd has. It makes no change while others say what they run.
    fleet.members[2].start_alone_again(BINARY);
    let mut admin = fleet.admin(2);
    wait_until("it has reached etcd", || super::etcd_trouble(&mut admin).is_none());
    let refused = change(&mut admin, "other").unwrap_err();
    assert!(refused.contains("etcd does not have any more"), "{refused}");
    // Once their reports are gone, it gives the number of the lost version to another one.
    (0..2).for_each(|member| fleet.members[member].process().kill());
    fleet.etcd.delete_all("/narrows/nodes/n0");
    fleet.etcd.delete_all("/narrows/nodes/n1");
    change_surely(&mut admin, "other");
    assert_eq!(metric(&mut admin, "narrows_fleet_version").as_deref(), Some("2"));
    let logged: Vec<usize> = (0..2).map(|member| fleet.members[member].log().len()).collect();
    for member in 0..2 {
        fleet.members[member].start_alone_again(BINARY);
    }
    fleet.wait_until_mismatch(&[0, 1], true);
    for (member, logged) in logged.into_iter().enumerate() {
        fleet.members[member].wait_for_log(logged, |line| line.contains("does not descend from version 2"));
        assert_eq!(tags(&mut fleet.admin(member)), ["second"; 4]);
    }
    // Either of them may be the right one.
    restore(&mut fleet.admin(0));
    fleet.wait_until_all_run("second");
    fleet.wait_until_mismatch(&[0, 1, 2], false);
}

#[test]
fn servers_of_two_clusters_are_named_and_only_that_of_the_fleet_is_followed() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    fleet.etcd.separate(2);
    fleet.wait_until_mismatch(&[0, 1], true);
    fleet.members[0].wait_for_log(0, |line| line.contains("servers of two clusters of etcd are configured"));
    change_surely(&mut fleet.admin(0), "second");
    fleet.wait_until_all_run("second");
    // Which one is right, a new member cannot know.
    fleet.join("n2", "");
    fleet.wait_until_mismatch(&[2], true);
    assert_ne!(tags(&mut fleet.admin(2))[0], "second");
    let refused = change(&mut fleet.admin(2), "other").unwrap_err();
    assert!(refused.contains("is not of the etcd"), "{refused}");
    // Without the right one, the other one is not followed either.
    (0..2).for_each(|node| fleet.etcd.kill(node));
    fleet.members[0].wait_for_log(0, |line| line.contains("are not the fleet of this member"));
    let refused = change(&mut fleet.admin(0), "third").unwrap_err();
    assert!(refused.contains("are not the fleet of this member"), "{refused}");
    assert_eq!(tags(&mut fleet.admin(0)), ["second"; 4]);
    (0..2).for_each(|node| fleet.etcd.run(node));
    fleet.etcd.unite(2);
    fleet.wait_until_mismatch(&[0, 1, 2], false);
    fleet.wait_until_all_run("second");
}

#[test]
fn a_member_with_another_prefix_says_that_this_is_not_its_fleet() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let path = fleet.members[1].folder().join("narrows.cnf");
    let right = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(&path, right.replace("node = ", "prefix = \"/other\" node = ")).expect("the file");
    fleet.members[1].process().kill();
    fleet.members[1].start_alone_again(BINARY);
    fleet.members[1].wait_for_log(0, |line| line.contains("are not the fleet of this member"));
    fleet.wait_until_mismatch(&[1], true);
    let refused = change(&mut fleet.admin(1), "second").unwrap_err();
    assert!(refused.contains("/other in the etcd"), "{refused}");
    std::fs::write(&path, right).expect("the file");
    fleet.members[1].process().kill();
    fleet.members[1].start_alone_again(BINARY);
    fleet.wait_until_mismatch(&[1], false);
    change_surely(&mut fleet.admin(1), "second");
    fleet.wait_until_all_run("second");
}

#[test]
fn a_fleet_moves_to_another_etcd_when_one_member_is_restored_there() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    change_surely(&mut fleet.admin(0), "second");
    fleet.wait_until_all_run("second");
    // Of each member, the servers are replaced.
    let other = narrows_testkit::EtcdCluster::start();
    for member in 0..2 {
        let path = fleet.members[member].folder().join("narrows.cnf");
        let mut text = std::fs::read_to_string(&path).expect("the file");
        for (old, new) in fleet.etcd.endpoints().iter().zip(other.endpoints()) {
            text = text.replace(old, &new);
        }
        std::fs::write(&path, text).expect("the file");
        fleet.members[member].process().kill();
        fleet.members[member].start_alone_again(BINARY);
    }
    fleet.wait_until_mismatch(&[0, 1], true);
    fleet.members[0].wait_for_log(0, |line| line.contains("is not of the etcd"));
    wait_until("both report there", || fleet.shown(0).len() == 2);
    restore(&mut fleet.admin(0));
    fleet.wait_until_mismatch(&[0, 1], false);
    fleet.etcd = other;
    change_surely(&mut fleet.admin(1), "third");
    fleet.wait_until_all_run("third");
}
