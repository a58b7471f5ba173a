//! Clusters: what the file makes of them, and what is said. Scripted servers play them; one test has a real one.

use narrows_testkit::{Conversation, FakeMysql, Flavour, Move, wait_until, writer};

use super::{Place, ports};
use crate::sandbox::Sandbox;

/// A result set of text columns.
fn table(columns: &[&str], rows: &[Vec<String>]) -> Move {
    let end = || writer::eof(2, 0);
    let mut payloads = vec![writer::lenenc(columns.len() as u64)];
    payloads.extend(columns.iter().map(|column| writer::column(column)));
    payloads.push(end());
    for row in rows {
        let cells: Vec<Option<&str>> = row.iter().map(|cell| Some(cell.as_str())).collect();
        payloads.push(writer::row(&cells));
    }
    payloads.push(end());
    Move::Reply(payloads)
}

fn pairs(rows: &[(&str, &str)]) -> Move {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|(name, value)| vec![(*name).into(), (*value).into()]).collect();
    table(&["Variable_name", "Value"], &rows)
}

/// A server with this number.
fn server(number: usize, read_only: &str, status: &Move) -> Conversation {
    let id = number.to_string();
    let variables = [
        ("version", "8.4.3"),
        ("server_id", &id),
        ("server_uuid", &format!("uuid-{id}")),
        ("max_connections", "100"),
        ("read_only", read_only),
    ];
    let conversation =
        Conversation::new().on(VARIABLES, &[pairs(&variables)]).on(STATUS, std::slice::from_ref(status));
    [10, 20].iter().fold(conversation, |conversation, hostgroup| {
        let statement = format!("/* hostgroup={hostgroup} */ SELECT @@server_id");
        conversation.on(&statement, &[Move::rows("@@server_id", &[&id])])
    })
}

fn three() -> Vec<FakeMysql> {
    (0..3).map(|_| FakeMysql::start(Conversation::new())).collect()
}

#[test]
fn of_a_galera_cluster_all_nodes_are_used_in_their_roles() {
    let nodes = three();
    let all: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    for (number, node) in nodes.iter().enumerate() {
        let status = pairs(&[("wsrep_cluster_size", "3"), ("wsrep_incoming_addresses", &all.join(","))]);
        node.say(server(number, "OFF", &status));
    }
    let place = Place::new();
    let said = place.init_well(nodes[1].port(), "app", &[]);
    assert!(said.contains("roles: one node in hostgroup 10 is written to, those in 20 are read"), "{said}");
    let toml = place.toml();
    assert_eq!(
        (toml.matches("[[mysql_servers]]").count(), toml.matches("OFFLINE_SOFT").count()),
        (3, 0),
        "{toml}"
    );
    assert!(toml.contains("[[mysql_galera_hostgroups]]\nwriter_hostgroup = 10\n"), "{toml}");
    assert!(toml.contains("auto_read_write_split = true"), "{toml}");
    let _narrows = place.serve();
    let mut admin = place.admin();
    assert_eq!(ports(&mut admin, 10).len(), 1);
}

/// Two nodes of a Galera cluster: the given one, and one on what looks like another machine.
fn with_a_stranger() -> (Vec<FakeMysql>, String) {
    let nodes: Vec<FakeMysql> = (0..2).map(|_| FakeMysql::start(Conversation::new())).collect();
    // It leads to this machine, and is not its loopback.
    let stranger = format!("0.0.0.0:{}", nodes[1].port());
    let all = format!("127.0.0.1:{},{stranger}", nodes[0].port());
    for (number, node) in nodes.iter().enumerate() {
        let status = pairs(&[("wsrep_cluster_size", "2"), ("wsrep_incoming_addresses", &all)]);
        node.say(server(number, "OFF", &status));
    }
    (nodes, stranger)
}

#[test]
fn a_machine_that_nobody_has_named_does_not_get_the_password() {
    let (nodes, stranger) = with_a_stranger();
    let place = Place::new();
    let said = place.init_well(nodes[0].port(), "app", &[]);
    let advice = format!(
        "{stranger} is named by your servers and not by you, and did not get the password. If they are yours, give \
         --server {stranger}, or --trust-discovered for all"
    );
    assert!(said.contains(&advice), "{said}");
    assert_eq!(nodes[1].connections(), 0, "{said}");
    assert_eq!(place.toml().matches("[[mysql_servers]]").count(), 1, "{}", place.toml());
}

#[test]
fn a_machine_that_is_named_or_trusted_gets_the_password() {
    let (nodes, stranger) = with_a_stranger();
    for options in [&["--trust-discovered"][..], &["--server", &stranger]] {
        let place = Place::new();
        let said = place.init_well(nodes[0].port(), "app", options);
        assert!(!said.contains("did not get the password"), "{options:?}: {said}");
        assert_eq!(place.toml().matches("[[mysql_servers]]").count(), 2, "{}", place.toml());
    }
    assert!(nodes[1].connections() >= 2);
}

#[test]
fn on_a_terminal_other_machines_are_shown_before_they_get_the_password() {
    let (nodes, stranger) = with_a_stranger();
    for (answers, servers) in [(&["perhaps", "n"][..], 1), (&["y"], 2)] {
        let (place, before) = (Place::new(), nodes[1].connections());
        let question = "with the same password? (y or n): ";
        let steps: Vec<(&str, &str)> = answers.iter().map(|answer| (question, *answer)).collect();
        let address = format!("127.0.0.1:{}", nodes[0].port());
        let account = ["--user", "app", "--password", "app", "--app-user", "app", "--app-password", "app"];
        let options = [&["--server", &address][..], &account].concat();
        let (_, shown) = place.type_answers(&steps, &options);
        assert!(shown.contains(&format!("which you have not named:\r\n  {stranger}\r\n")), "{shown}");
        assert_eq!(shown.contains("a machine that is not yours would learn"), servers == 1, "{shown}");
        assert_eq!(nodes[1].connections() > before, servers == 2, "{shown}");
    }
}

#[test]
fn of_a_group_all_members_are_used_in_their_roles() {
    let members = three();
    let row = |member: &FakeMysql| vec!["127.0.0.1".to_owned(), member.port().to_string()];
    let rows: Vec<Vec<String>> = members.iter().map(row).collect();
    for (number, member) in members.iter().enumerate() {
        let members = table(&["MEMBER_HOST", "MEMBER_PORT"], &rows);
        let read_only = if number == 0 { "OFF" } else { "ON" };
        member.say(server(number, read_only, &pairs(&[])).on(MEMBERS, &[members]));
    }
    let place = Place::new();
    let said = place.init_well(members[2].port(), "app", &[]);
    assert!(said.contains("failover: another node is written to"), "{said}");
    let toml = place.toml();
    assert!(toml.contains("[[mysql_group_replication_hostgroups]]\nwriter_hostgroup = 10\n"), "{toml}");
    assert_eq!(
        (toml.matches("[[mysql_servers]]").count(), toml.matches("# MySQL").count()),
        (3, 3),
        "{toml}"
    );
}

#[test]
fn a_cluster_in_which_nothing_can_be_written_gets_no_file() {
    let nodes = three();
    let all: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    for (number, node) in nodes.iter().enumerate() {
        let status = pairs(&[("wsrep_cluster_size", "3"), ("wsrep_incoming_addresses", &all.join(","))]);
        node.say(server(number, "ON", &status));
    }
    let place = Place::new();
    let said = place.init_badly(nodes[0].port(), "app", &[]);
    assert!(said.contains("is read-only, and so is every other node of its cluster"), "{said}");
}

#[test]
fn a_real_galera_cluster_is_found_from_one_node_and_served() {
    Flavour::MariaDb.if_tested(|_| {
        let sandbox = Sandbox::start(&["--galera"]);
        let nodes: Vec<u16> = sandbox.servers().iter().map(|node| node.port).collect();
        let place = Place::new();
        let said = place.init_well(nodes[2], "app", &[]);
        let toml = place.toml();
        assert_eq!(toml.matches("[[mysql_servers]]").count(), 3, "{said}\n{toml}");
        assert!(toml.contains("[[mysql_galera_hostgroups]]"), "{toml}");
        let _narrows = place.serve();
        let mut admin = place.admin();
        wait_until("one node is written to, and two are read", || {
            ports(&mut admin, 10).len() == 1 && ports(&mut admin, 20).len() == 2
        });
    });
}

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'server_id', \
    'server_uuid', 'hostname', 'port', 'read_only', 'super_read_only', 'innodb_read_only', 'max_connections')";

const STATUS: &str =
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_incoming_addresses')";

const MEMBERS: &str = "SELECT MEMBER_HOST, MEMBER_PORT FROM performance_schema.replication_group_members \
     WHERE MEMBER_STATE <> 'OFFLINE'";
