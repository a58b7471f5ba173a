//! A member whose configuration file owns a section.

use narrows_testkit::wait_until;

use super::{Fleet, apply, plan};

#[test]
fn a_member_refuses_what_its_file_owns_and_applies_everything_else() {
    let Some(mut fleet) = Fleet::start(1) else { return };
    // The file of this one has the servers as the first version has them.
    let mut admin = fleet.admin(0);
    admin.query("UPDATE mysql_servers SET comment = ''").ok().unwrap();
    let token = plan(&mut admin);
    wait_until("it is made", || apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).is_ok());
    fleet.join("n1", "managed = ( \"servers\" )\n");
    let rules = "SELECT group_concat(comment) FROM runtime_mysql_query_rules";
    let servers = "SELECT group_concat(comment || weight) FROM runtime_mysql_servers";
    wait_until("the owner of servers takes the rest", || {
        fleet.admin(1).query(rules).cell().as_deref() == Some("first")
    });
    // A version with other servers is refused as a whole.
    admin.query("UPDATE mysql_servers SET weight = 7").ok().unwrap();
    admin.query("UPDATE mysql_query_rules SET comment = 'second'").ok().unwrap();
    let token = plan(&mut admin);
    apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).unwrap();
    let file = fleet.members[1].folder().join("narrows.cnf").display().to_string();
    wait_until("it is refused", || {
        let shown = fleet.shown(0);
        shown.get("n1").is_some_and(|[_, state, _, why]| state == "refused" && why.contains(&file))
    });
    assert_eq!(fleet.admin(0).query(servers).cell().as_deref(), Some("7"));
    assert_eq!(fleet.admin(1).query(servers).cell().as_deref(), Some("1"));
    assert_eq!(fleet.admin(1).query(rules).cell().as_deref(), Some("first"));
    // The next one that leaves them alone is applied.
    admin.query("UPDATE mysql_servers SET weight = 1").ok().unwrap();
    let token = plan(&mut admin);
    apply(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")).unwrap();
    wait_until("it is applied", || fleet.admin(1).query(rules).cell().as_deref() == Some("second"));
    wait_until("it is in force", || fleet.shown(0).get("n1").is_some_and(|it| it[1] == "in force"));
    // What it owns is changed through its file only, and on no member but through the fleet.
    let refused = fleet.admin(1).query("UPDATE mysql_servers SET weight = 8").error().expect("it is owned");
    assert!(refused.message.contains(&file), "{refused:?}");
}
