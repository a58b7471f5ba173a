//! Servers of a hostgroup that are not all equal: backups, and the zones of servers and of Narrows.

use narrows_testkit::{
    Conversation, FakeMysql, Move, Narrows, NarrowsConfig, RawClient, command, wait_until, writer,
};

use crate::clusters::scripted;
use crate::support::start;

const STATEMENT: &str = "SELECT who";
const WRITE: &str = "UPDATE t SET n = 1";

fn conversation(name: &str) -> Conversation {
    // OK, with a transaction open.
    let in_transaction = [Move::Reply(vec![writer::ok(0, 0, 3, 0)])];
    let answers = Conversation::new().on(STATEMENT, &[Move::rows("who", &[name])]);
    answers.on("BEGIN", &in_transaction).on(WRITE, &in_transaction)
}

fn server(name: &str) -> FakeMysql {
    FakeMysql::start(conversation(name))
}

/// Servers in hostgroup 0 with these columns and these settings.
fn config(servers: &[(&FakeMysql, &str)], settings: &str) -> NarrowsConfig {
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").variable("slow_start_ms", "0");
    for (server, columns) in servers {
        config = config.server(0, server.port(), columns);
    }
    let settings = settings.replace('"', "\\\"");
    config.row("mysql_hostgroup_attributes", &format!("hostgroup_id=0 hostgroup_settings=\"{settings}\""))
}

/// The setting `zones` of servers on this machine.
fn zones(of_each: &[(&FakeMysql, &str)]) -> String {
    let zone = |(server, zone): &(&FakeMysql, &str)| format!("\"127.0.0.1:{}\":\"{zone}\"", server.port());
    format!("\"zones\":{{{}}}", of_each.iter().map(zone).collect::<Vec<_>>().join(","))
}

fn load(admin: &mut RawClient, change: &str) {
    for statement in [change, "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
}

/// Which servers have answered, and how often, of this many statements.
fn answers(client: &mut RawClient, count: usize) -> Vec<(String, usize)> {
    let mut answers: std::collections::BTreeMap<String, usize> = Default::default();
    for _ in 0..count {
        let answer = client.query(STATEMENT);
        assert_eq!(answer.error(), None);
        *answers.entry(answer.cell().unwrap()).or_default() += 1;
    }
    answers.into_iter().collect()
}

fn names(client: &mut RawClient) -> Vec<String> {
    answers(client, 60).into_iter().map(|(name, _)| name).collect()
}

fn text(admin: &mut RawClient, statement: &str) -> String {
    let rows = admin.query(statement).text_rows();
    let line = |row: Vec<Option<String>>| row.into_iter().flatten().collect::<Vec<_>>().join(" ");
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_backup_gets_nothing_until_too_few_others_can_serve_and_gives_it_back_without_cutting_clients_off() {
    for (min_servers, joined) in [(1, &["b"][..]), (2, &["b", "c"])] {
        let [a, b, backup] = ["a", "b", "c"].map(server);
        let settings = format!("{{\"backup_weight_threshold\":10,\"backup_min_servers\":{min_servers}}}");
        let servers = [(&a, "weight=10"), (&b, "weight=10"), (&backup, "weight=9")];
        let narrows = start(&config(&servers, &settings));
        let (mut client, mut admin) = (narrows.client(), narrows.admin());
        assert_eq!(answers(&mut client, 400), [("a".to_owned(), 200), ("b".to_owned(), 200)]);

        let set = |port: u16, status: &str| {
            format!("UPDATE mysql_servers SET status = '{status}' WHERE port = {port}")
        };
        load(&mut admin, &set(a.port(), "OFFLINE_SOFT"));
        assert_eq!(names(&mut client), joined, "{min_servers}");
        load(&mut admin, &set(b.port(), "OFFLINE_SOFT"));
        assert_eq!(names(&mut client), ["c"]);
        let mut holder = narrows.client();
        holder.query("BEGIN").ok().expect("a connection of its own");
        backup.wait_for("BEGIN");

        load(&mut admin, "UPDATE mysql_servers SET status = 'ONLINE'");
        assert_eq!(names(&mut client), ["a", "b"], "what is new goes to the others at once");
        for statement in [WRITE, WRITE, "COMMIT"] {
            holder.query(statement).ok().expect("a transaction stays where it began");
        }
        backup.wait_for_times(WRITE, 2);
        backup.wait_for("COMMIT");
        assert_eq!(names(&mut holder), ["a", "b"]);

        let log = narrows.log();
        let told = log.lines().filter(|line| line.contains("backups are used: fewer than"));
        assert_eq!(told.count(), 1, "{log}");
        let page = text(&mut admin, "SHOW PROMETHEUS METRICS");
        let counter = "proxysql_mysql_hostgroup_backup_server_selected_total{hostgroup=\"0\"}";
        assert!(page.contains(counter), "{page}");
    }
}

#[test]
fn clients_notice_nothing_when_the_other_server_dies_and_when_it_is_back() {
    let backup = server("backup");
    let other = server("other");
    let port = other.port();
    let settings = r#"{"backup_weight_threshold":10}"#;
    let config = config(&[(&other, "weight=10"), (&backup, "weight=1")], settings)
        .monitor()
        .variable("monitor_ping_interval", "100")
        .variable("monitor_ping_max_failures", "2")
        .variable("shun_recovery_time_sec", "1");
    let narrows = start(&config);
    let mut client = narrows.client();
    assert_eq!(names(&mut client), ["other"]);
    drop(other);
    assert_eq!(names(&mut client), ["backup"]);
    let other = FakeMysql::start_on(port, conversation("other"));
    wait_until("it is used again", || answers(&mut client, 1)[0].0 == "other");
    assert_eq!(names(&mut client), ["other"]);
    assert!(other.connections() > 0);
}

#[test]
fn a_server_that_is_full_opens_the_backups_unless_its_status_is_asked_for() {
    for (availability, expected) in
        [("selectable", Some("backup")), ("capacity", Some("backup")), ("status", None)]
    {
        let waits = Conversation::new().on("SELECT wait", &[Move::Wait, Move::rows("who", &["other"])]);
        let (other, backup) = (FakeMysql::start(waits), server("backup"));
        let settings =
            format!("{{\"backup_weight_threshold\":10,\"backup_availability\":\"{availability}\"}}");
        let servers = [(&other, "weight=10 max_connections=1"), (&backup, "weight=1")];
        let config = config(&servers, &settings).variable("connect_timeout_server_max", "300");
        let narrows = start(&config);
        let mut holder = narrows.client();
        holder.send_command(command::QUERY, b"SELECT wait").unwrap();
        other.wait_for("SELECT wait");
        let answer = narrows.client().query(STATEMENT);
        assert_eq!(
            answer.error().is_none().then(|| answer.cell()).flatten().as_deref(),
            expected,
            "{availability}"
        );
        if let Some(error) = answer.error() {
            let kept = format!("127.0.0.1:{} ONLINE (pool 0/1000), a backup that is not used", backup.port());
            assert!(error.code == 9001 && error.message.contains(&kept), "{error:?}");
        }
        other.release();
        assert_eq!(holder.answer(command::QUERY).error(), None);
    }
}

/// Narrows in the zone east with two servers there and two elsewhere, of which the first of each have few connections.
fn two_zones() -> ([FakeMysql; 4], Narrows) {
    let waits = |name: &str| {
        FakeMysql::start(conversation(name).on("SELECT wait", &[Move::Wait, Move::rows("who", &[name])]))
    };
    let servers = ["east1", "east2", "west1", "west2"].map(waits);
    let [one, two, three, four] = &servers;
    let zones = zones(&[(one, "east"), (two, "east"), (three, "west"), (four, "west")]);
    let columns = "max_connections=2";
    let all = [(one, columns), (two, columns), (three, ""), (four, "")];
    let config = config(&all, &format!("{{{zones}}}")).variable("zone", "east");
    let narrows = start(&config);
    (servers, narrows)
}

#[test]
fn servers_of_the_own_zone_are_used_up_to_their_connections_and_then_those_of_others() {
    let (servers, narrows) = two_zones();
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    assert_eq!(answers(&mut client, 100), [("east1".to_owned(), 50), ("east2".to_owned(), 50)]);
    // All connections of the zone are in use.
    let mut holders: Vec<RawClient> = (0..4).map(|_| narrows.client()).collect();
    for (count, holder) in (1..).zip(&mut holders) {
        holder.send_command(command::QUERY, b"SELECT wait").unwrap();
        wait_until("it runs", || {
            let had =
                |server: &FakeMysql| server.received().iter().filter(|it| it.body == "SELECT wait").count();
            servers[..2].iter().map(had).sum::<usize>() == count
        });
    }
    assert_eq!(names(&mut client), ["west1", "west2"]);
    // Each call lets one statement continue.
    servers[..2].iter().chain(&servers[..2]).for_each(FakeMysql::release);
    for holder in &mut holders {
        assert_eq!(holder.answer(command::QUERY).error(), None);
    }
    assert_eq!(names(&mut client), ["east1", "east2"]);
    let page = text(&mut admin, "SHOW PROMETHEUS METRICS");
    for (zone, count) in [("own", 164), ("other", 60)] {
        let counted =
            format!("narrows_hostgroup_zone_choices_total{{hostgroup=\"0\",zone=\"{zone}\"}} {count}\n");
        assert!(page.contains(&counted), "{counted}: {page}");
    }
    let status = text(&mut admin, "SHOW NARROWS STATUS");
    assert!(
        status.contains("ONLINE (own zone east); ") && status.contains("ONLINE (zone west); "),
        "{status}"
    );
    let share = "Narrows_zones_0 164 choices (73.2 %) in the own zone, 60 in others";
    assert!(status.contains(share), "{status}");
}

#[test]
fn statements_leave_a_zone_that_is_down_and_return_to_it() {
    let (servers, narrows) = two_zones();
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    let of_east = format!("port IN ({}, {})", servers[0].port(), servers[1].port());
    let route = |admin: &mut RawClient| text(admin, "EXPLAIN ROUTE 'SELECT 1' AS sbtest");
    assert_eq!(names(&mut client), ["east1", "east2"]);
    let told = route(&mut admin);
    let later = "zone west: used while no server of zone east can take more";
    assert_eq!(told.matches(later).count(), 2, "{told}");
    assert_eq!(told.matches("server passed over").count(), 2, "{told}");

    load(&mut admin, &format!("UPDATE mysql_servers SET status = 'OFFLINE_HARD' WHERE {of_east}"));
    assert_eq!(names(&mut client), ["west1", "west2"]);
    let told = route(&mut admin);
    assert!(told.contains("OFFLINE_HARD; own zone east") && !told.contains(later), "{told}");

    load(&mut admin, "UPDATE mysql_servers SET status = 'ONLINE'");
    assert_eq!(names(&mut client), ["east1", "east2"]);
    // The zone of Narrows is a variable.
    for statement in ["SET mysql-zone = 'west'", "LOAD MYSQL VARIABLES TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
    assert_eq!(names(&mut client), ["west1", "west2"]);
}

#[test]
fn backups_are_used_after_the_other_zones_and_explain_route_says_so() {
    let [one, other, backup] = ["one", "other", "backup"].map(server);
    let zones = zones(&[(&one, "east"), (&other, "west"), (&backup, "east")]);
    let servers = [(&one, "weight=10"), (&other, "weight=10"), (&backup, "weight=1")];
    let settings = format!("{{\"backup_weight_threshold\":10,{zones}}}");
    let narrows = start(&config(&servers, &settings).variable("zone", "east"));
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    let kept = "own zone east, backup: backups are used while fewer than 1 of the other servers can serve";
    for expected in ["one", "other"] {
        assert_eq!(names(&mut client), [expected]);
        let told = text(&mut admin, "EXPLAIN ROUTE 'SELECT 1' AS sbtest");
        assert!(told.contains(kept), "{told}");
        let port = if expected == "one" { one.port() } else { other.port() };
        load(&mut admin, &format!("UPDATE mysql_servers SET status = 'OFFLINE_SOFT' WHERE port = {port}"));
    }
    assert_eq!(names(&mut client), ["backup"]);
    let told = text(&mut admin, "EXPLAIN ROUTE 'SELECT 1' AS sbtest");
    let used = "own zone east, backup: fewer than 1 of the other servers can serve";
    assert!(told.contains(used) && !told.contains(kept), "{told}");
}

#[test]
fn readers_of_a_cluster_have_zones_too() {
    let node = |name: &str| scripted::node(&[]).on(STATEMENT, &[Move::rows("who", &[name])]);
    let nodes = ["a", "b", "c"].map(|name| FakeMysql::start(node(name)));
    let zones = zones(&[(&nodes[0], "east"), (&nodes[1], "west"), (&nodes[2], "west")]);
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "default_hostgroup=1").monitor();
    for (name, value) in [
        ("monitor_galera_healthcheck_interval", "100"),
        ("monitor_ping_interval", "200"),
        ("zone", "west"),
        ("slow_start_ms", "0"),
    ] {
        config = config.variable(name, value);
    }
    for (node, weight) in nodes.iter().zip([9, 5, 5]) {
        config = config.server(0, node.port(), &format!("weight={weight}"));
    }
    let columns = "writer_hostgroup=0 backup_writer_hostgroup=2 reader_hostgroup=1 offline_hostgroup=3 writer_is_also_reader=1";
    let settings = format!("{{{zones}}}").replace('"', "\\\"");
    let config = config
        .row("mysql_galera_hostgroups", columns)
        .row("mysql_hostgroup_attributes", &format!("hostgroup_id=1 hostgroup_settings=\"{settings}\""));
    let narrows = start(&config);
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    scripted::wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "1+2"]);
    assert_eq!(names(&mut client), ["b", "c"]);
    // The nodes of the zone go into maintenance, one after the other.
    nodes[1].say(scripted::node(&[("pxc_maint_mode", "MAINTENANCE")]));
    scripted::wait_for_places(&mut admin, &nodes, ["0+1", "3", "1+2"]);
    assert_eq!(names(&mut client), ["c"]);
    nodes[2].say(scripted::node(&[("pxc_maint_mode", "MAINTENANCE")]));
    scripted::wait_for_places(&mut admin, &nodes, ["0+1", "3", "3"]);
    assert_eq!(names(&mut client), ["a"]);
    nodes[1].say(node("b"));
    scripted::wait_for_places(&mut admin, &nodes, ["0+1", "1+2", "3"]);
    assert_eq!(names(&mut client), ["b"]);
}

#[test]
fn load_warns_of_what_cannot_be() {
    let [a, b] = ["a", "b"].map(server);
    let narrows = start(&config(&[(&a, "weight=10"), (&b, "weight=1")], "{}").variable("zone", "east"));
    let mut admin = narrows.admin();
    let mut warned = |settings: &str| {
        load(&mut admin, &format!("UPDATE mysql_hostgroup_attributes SET hostgroup_settings = '{settings}'"));
        text(&mut admin, "SHOW WARNINGS")
    };
    for (settings, expected) in [
        (
            r#"{"backup_weight_threshold":1}"#,
            "`backup_weight_threshold` is 1: no server has a smaller weight",
        ),
        (
            r#"{"backup_weight_threshold":11}"#,
            "is 11: no server has as much weight, so all of them are backups",
        ),
        (r#"{"backup_weight_threshold":5,"backup_min_servers":2}"#, "backups are always used"),
        (
            r#"{"backup_weight_threshold":-5}"#,
            "left out: backup_weight_threshold is -5: expected an integer from",
        ),
        (
            r#"{"zones":{"db9:3306":"east"}}"#,
            "`zones` names \"db9:3306\", which is no server of the hostgroup",
        ),
        (r#"{"zones":{"127.0.0.1":"west"}}"#, "`zones` has no server in \"east\", which is mysql-zone"),
    ] {
        let warnings = warned(settings);
        assert!(warnings.contains(expected), "{settings}: {warnings}");
    }
    assert_eq!(warned(r#"{"backup_weight_threshold":5,"zones":{"127.0.0.1":"east"}}"#), "");
}
