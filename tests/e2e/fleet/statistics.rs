//! The statistics of all members, read on one of them.

use narrows_testkit::{RawClient, wait_until};

use super::{Fleet, admin_address, texts};

/// The rows, and the warnings of the statement.
fn rows(admin: &mut RawClient, sql: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let answer = admin.query(sql);
    assert!(answer.error().is_none(), "{sql}: {:?}", answer.error());
    let rows = texts(answer.text_rows());
    let warnings = texts(admin.query("SHOW WARNINGS").text_rows());
    (rows, warnings.into_iter().map(|row| row[2].clone()).collect())
}

/// The rows once all members have answered: a machine with much to do may take longer than a member has time.
fn all_rows(admin: &mut RawClient, sql: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    wait_until(&format!("all members answer {sql}"), || {
        let (rows, warnings) = rows(admin, sql);
        found = rows;
        warnings.is_empty()
    });
    found
}

fn wait_until_all_report(fleet: &Fleet, members: usize) {
    wait_until("all members say where they are", || {
        let rows = texts(fleet.admin(0).query("SHOW NARROWS FLEET").text_rows());
        rows.len() == members && rows.iter().all(|row| row[10].starts_with("127.0.0.1:"))
    });
}

#[test]
fn the_statistics_of_all_members_are_read_on_any_of_them() {
    let Some(fleet) = Fleet::start(3) else { return };
    wait_until_all_report(&fleet, 3);
    for (member, times) in [(0, 1), (1, 2), (2, 4)] {
        let mut client = fleet.members[member].client();
        (0..times).for_each(|_| assert!(client.query("SELECT 1").error().is_none()));
    }
    let digests = "SELECT node, sum(count_star) FROM fleet_stats_mysql_query_digest \
                   WHERE digest_text = 'SELECT ?' GROUP BY node ORDER BY node";
    let expected = [["n0", "1"], ["n1", "2"], ["n2", "4"]];
    for member in 0..3 {
        for mut user in [fleet.admin(member), fleet.members[member].stats()] {
            wait_until("all have counted", || all_rows(&mut user, digests) == expected);
        }
    }
    // With a name of the database, two tables at once, and figures that are numbers.
    let mut admin = fleet.admin(1);
    let found = all_rows(
        &mut admin,
        "SELECT p.node, p.srv_port > 0, g.Variable_Value > 0 FROM stats.fleet_stats_mysql_connection_pool p \
         JOIN fleet_stats_mysql_global g USING (node) WHERE g.Variable_Name = 'Questions' ORDER BY 1",
    );
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|row| row[1] == "1" && row[2] == "1"), "{found:?}");
    // Every table of statistics has one of all members.
    let names = "SELECT name FROM stats.sqlite_master WHERE name LIKE 'fleet\\_%' ESCAPE '\\'";
    let (names, _) = rows(&mut admin, names);
    assert!(names.len() > 12, "{names:?}");
    for name in names {
        let sql = format!("SELECT * FROM {}", name[0]);
        all_rows(&mut admin, &sql);
        all_rows(&mut fleet.members[1].stats(), &sql);
    }
}

#[test]
fn a_member_that_does_not_answer_is_a_warning_beside_the_rows_of_the_others() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    wait_until_all_report(&fleet, 3);
    let sql = "SELECT DISTINCT node FROM fleet_stats_memory_metrics ORDER BY node";
    // Its kernel accepts connections, and nothing answers.
    fleet.members[2].process().signal(libc::SIGSTOP);
    for mut user in [fleet.admin(0), fleet.members[0].stats()] {
        wait_until("the others answer", || {
            let (found, warnings) = rows(&mut user, sql);
            assert!(warnings.iter().any(|it| it.starts_with("n2 (127.0.0.1:")), "{warnings:?}");
            found == [["n0"], ["n1"]]
        });
    }
    fleet.members[2].process().signal(libc::SIGCONT);
    wait_until("it answers again", || {
        let (found, warnings) = rows(&mut fleet.admin(0), sql);
        found.len() == 3 && warnings.is_empty()
    });
    // Without etcd, those that were known before are asked.
    (0..3).for_each(|node| fleet.etcd.kill(node));
    wait_until("all are asked without etcd", || {
        let (found, warnings) = rows(&mut fleet.admin(0), sql);
        assert!(warnings.iter().any(|it| it.contains("etcd cannot be reached")), "{warnings:?}");
        found == [["n0"], ["n1"], ["n2"]]
    });
}

#[test]
fn the_tables_in_which_proxysql_shows_a_cluster_show_the_members() {
    let Some(fleet) = Fleet::start(2) else { return };
    wait_until_all_report(&fleet, 2);
    let ports: Vec<String> = fleet.members.iter().map(admin_address).collect();
    let mut admin = fleet.admin(0);
    let place = "hostname || ':' || port";
    let (found, _) =
        rows(&mut admin, &format!("SELECT {place}, comment FROM runtime_proxysql_servers ORDER BY comment"));
    assert_eq!(found, [[ports[0].as_str(), "n0"], [ports[1].as_str(), "n1"]]);
    // One version: the same checksums, until something is loaded on one.
    let differing = "SELECT DISTINCT name FROM stats_proxysql_servers_checksums WHERE diff_check > 0";
    let shared = "name IN ('mysql_servers', 'mysql_query_rules')";
    wait_until("all have the same", || {
        let all = format!("SELECT * FROM stats_proxysql_servers_checksums WHERE {shared} AND version > 0");
        rows(&mut admin, &all).0.len() == 4
            && rows(&mut admin, &format!("{differing} AND {shared}")).0.is_empty()
    });
    let mut other = fleet.admin(1);
    other.query("UPDATE mysql_query_rules SET comment = 'other'").ok().unwrap();
    other.query("LOAD MYSQL QUERY RULES TO RUNTIME").ok().unwrap();
    wait_until("one differs", || {
        rows(&mut admin, &format!("{differing} AND {shared}")).0 == [["mysql_query_rules"]]
    });
    assert!(fleet.members[1].client().query("SELECT 1").error().is_none());
    wait_until("its figures are there", || {
        let sql = format!(
            "SELECT {place}, Queries > 0, Client_Connections_created > 0 FROM stats_proxysql_servers_metrics WHERE comment = 'n1'"
        );
        rows(&mut admin, &sql).0 == [[ports[1].as_str(), "1", "1"]]
    });
}
