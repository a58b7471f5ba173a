//! The names of members: two with one name, and one that is replaced by its next process.

use std::time::{Duration, Instant};

use narrows_testkit::{Narrows, wait_until};

use super::{BINARY, Fleet, admin_address, apply, change_surely, edit, etcd_trouble, plan, texts};

#[test]
fn the_second_member_with_a_name_keeps_away_from_the_report_of_the_first_and_says_so() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    fleet.join("n1", "");
    fleet.members[2].wait_for_log(0, |line| line.contains("has the same name"));
    let rows = texts(fleet.admin(2).query("SHOW NARROWS FLEET").text_rows());
    let own = rows.iter().find(|row| row[3] == "same name").expect("its own row");
    assert!(own[0] == "n1" && own[5].contains("another `node` in [fleet]"), "{own:?}");
    // The others see one of that name, which is the first.
    let address = admin_address(&fleet.members[1]);
    for member in [0, 1] {
        let rows = texts(fleet.admin(member).query("SHOW NARROWS FLEET").text_rows());
        let of_name: Vec<_> = rows.iter().filter(|row| row[0] == "n1").collect();
        assert!(of_name.len() == 1 && of_name[0][10] == address, "{rows:?} {address}");
    }
    // It has what all have, and changes nothing.
    change_surely(&mut fleet.admin(1), "second");
    fleet.wait_until_all_run("second");
    let mut admin = fleet.admin(2);
    edit(&mut admin, "third");
    let token = plan(&mut admin);
    let refused = apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).unwrap_err();
    assert!(refused.contains("has the name n1"), "{refused}");
    // Once the first one is gone, the name is free.
    fleet.members[1].process().kill();
    wait_until("it has the name", || {
        etcd_trouble(&mut admin).is_none()
            && texts(admin.query("SHOW NARROWS FLEET").text_rows()).iter().all(|row| row[3] != "same name")
    });
    let statement = format!("NARROWS APPLY PLAN '{token}'");
    wait_until("it makes a change", || apply(&mut admin, &statement).is_ok());
}

#[test]
fn the_next_process_of_a_member_has_its_name_and_its_report_at_once() {
    let Some(mut fleet) = Fleet::start(1) else { return };
    let settings = fleet.settings("n1");
    let config = fleet.config.clone().supervised().line(&format!("fleet = {{ {settings} }}"));
    fleet.members.push(Narrows::start(BINARY, &config));
    fleet.wait_until_all_run("first");
    wait_until("it has reported", || fleet.shown(0).contains_key("n1"));
    for round in 0..4 {
        let former = fleet.members[1].worker();
        let (is_done, text) = crate::restart::upgrade(BINARY.as_ref(), &fleet.members[1]);
        assert!(is_done, "{text}");
        crate::restart::wait_for_another(&fleet.members[1], former);
        let began = Instant::now();
        let mut admin = fleet.admin(1);
        let mut reported = None;
        wait_until("it has reported for some time", || {
            let shown = texts(admin.query("SHOW NARROWS FLEET").text_rows());
            assert!(shown.iter().all(|row| row[3] != "same name"), "round {round}: {shown:?}");
            if etcd_trouble(&mut admin).is_none() {
                reported.get_or_insert_with(|| began.elapsed());
            }
            reported.is_some_and(|at| began.elapsed() > at + Duration::from_secs(1))
        });
        println!("round {round}: it has reported after {reported:?}");
    }
    let log = fleet.members[1].log();
    assert!(!log.contains("has the same name"), "{log}");
    change_surely(&mut fleet.admin(1), "second");
    fleet.wait_until_all_run("second");
}
