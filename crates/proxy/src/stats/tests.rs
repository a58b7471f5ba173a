//! A data plane in the test's own process, in front of a scripted server: every figure is compared with what was sent.

use std::time::{Duration, Instant};

use narrows_sql::KillKind;
use narrows_testkit::{Conversation, Endpoint, FakeMysql, Login, Move, RawClient, command};

use super::*;
use crate::rows::server;
use crate::rules::Activity;
use crate::server::DataPlane;
use crate::snapshot::{HostgroupId, Rows, RuleRow, ServerStatus, UserRow, Variables};
use crate::worker::KillAnswer;

struct Plane {
    plane: Option<DataPlane>,
    observer: Observer,
    server: FakeMysql,
    rows: Rows,
}

impl Plane {
    fn start(conversation: Conversation, change: impl FnOnce(&mut Rows)) -> Plane {
        let fake = FakeMysql::start(conversation);
        let variables =
            Variables { interfaces: vec!["127.0.0.1:0".to_owned()], threads: 2, ..Variables::default() };
        let servers = vec![server(0, "127.0.0.1", fake.port())];
        let mut rows = Rows { variables, servers, users: vec![user("app")], ..Rows::default() };
        change(&mut rows);
        let plane = DataPlane::start(rows.clone()).expect("a free port");
        Plane { observer: plane.observer(), plane: Some(plane), server: fake, rows }
    }

    fn client(&self) -> RawClient {
        let plane = self.plane.as_ref().expect("running");
        let endpoint = Endpoint::Tcp(plane.addresses()[0].parse().expect("an address of TCP"));
        RawClient::open(&endpoint, &Login::new("app", "secret").schema("shop"))
    }

    fn refused(&self) {
        let plane = self.plane.as_ref().expect("running");
        let endpoint = Endpoint::Tcp(plane.addresses()[0].parse().expect("an address of TCP"));
        let mut client = RawClient::connect(&endpoint);
        client.login(&Login::new("app", "wrong")).expect_err("a wrong password");
    }

    fn publish(&mut self, change: impl FnOnce(&mut Rows)) {
        change(&mut self.rows);
        self.plane.as_mut().expect("running").publish(self.rows.clone()).expect("it can be honoured");
    }

    fn only_server(&self, take: Take) -> ServerLine {
        let lines = wait(self.observer.connection_pool(take));
        assert_eq!(lines.len(), 1);
        lines.into_iter().next().expect("one")
    }

    fn process(&self, fits: impl Fn(&ProcessLine) -> bool) -> ProcessLine {
        until(|| wait(self.observer.processes()).into_iter().find(&fits))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.plane.take().expect("running").stop();
    }
}

/// The result of `look`, as soon as it has one.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come about in 30 s");
        std::thread::yield_now();
    }
}

fn user(name: &str) -> UserRow {
    crate::rows::user(name, "secret")
}

fn rule(rule_id: i64, change: impl FnOnce(&mut RuleRow)) -> RuleRow {
    let mut row = RuleRow { rule_id, active: Activity::InForce, apply: true, ..RuleRow::default() };
    row.re_modifiers = "CASELESS".to_owned();
    change(&mut row);
    row
}

/// An OK with the status flag of an open transaction.
fn in_transaction() -> Move {
    Move::Reply(vec![vec![0, 0, 0, 0x03, 0, 0, 0]])
}

fn command_line(plane: &Plane, command: &str) -> CommandLine {
    let lines = wait(plane.observer.commands());
    lines.into_iter().find(|line| line.command == command).expect("a class of the table")
}

#[test]
fn statements_count_by_digest_and_by_class() {
    let rows = [Move::rows("c", &["1", "2", "3"])];
    let plane = Plane::start(Conversation::new().on("SELECT c FROM t WHERE id = 1", &rows), |_| {});
    let mut clients = [plane.client(), plane.client(), plane.client()];
    for client in &mut clients {
        client.query("SELECT c FROM t WHERE id = 1");
        client.query("SELECT c FROM t WHERE id = 2").ok().expect("an answer");
        client.query("CREATE UNIQUE INDEX i ON t (c)").ok().expect("an answer");
    }

    let mut digests = wait(plane.observer.digests(Take::Copy));
    digests.sort_by(|one, two| two.digest_text.cmp(&one.digest_text));
    let [select, create] = &digests[..] else { panic!("not two rows: {digests:?}") };
    assert_eq!(select.digest_text, "SELECT c FROM t WHERE id = ?");
    assert_eq!(select.digest, narrows_sql::digest_hash(b"SELECT c FROM t WHERE id = ?"));
    assert_eq!((select.hostgroup, select.count, select.rows_sent), (HostgroupId(0), 6, 9));
    assert_eq!((&*select.username, &*select.schemaname, &*select.client_address), ("app", "shop", ""));
    assert!(select.min_time_us <= select.max_time_us && select.max_time_us <= select.sum_time_us);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(select.first_seen <= select.last_seen && select.last_seen.abs_diff(now) < 60);
    assert_eq!(create.count, 3);
    assert_eq!(command_line(&plane, "SELECT").total, 6);
    assert_eq!(command_line(&plane, "CREATE_INDEX").total, 3);
    assert_eq!(wait(plane.observer.global()).questions, 9);

    assert_eq!(wait(plane.observer.digests(Take::Reset)).len(), 2);
    assert_eq!(wait(plane.observer.digests(Take::Copy)), []);
}

#[test]
fn digests_are_not_counted_while_they_are_off_and_by_address_when_that_is_wanted() {
    let mut plane = Plane::start(Conversation::new(), |rows| rows.variables.query_digests = false);
    let mut client = plane.client();
    client.query("DO 1").ok().expect("an answer");
    assert_eq!(wait(plane.observer.digests(Take::Copy)), []);

    plane.publish(|rows| {
        rows.variables.query_digests = true;
        rows.variables.query_digests_track_hostname = true;
    });
    client.query("DO 1").ok().expect("an answer");
    let digests = wait(plane.observer.digests(Take::Copy));
    assert_eq!(digests.iter().map(|line| &*line.client_address).collect::<Vec<_>>(), ["127.0.0.1"]);
}

#[test]
fn what_narrows_answers_counts_nowhere() {
    let plane = Plane::start(Conversation::new(), |rows| {
        rows.rules = vec![rule(1, |row| {
            row.match_digest = Some("^DELETE".to_owned());
            row.error_msg = Some("not here".to_owned());
        })];
    });
    plane.client().query("DELETE FROM t").error().expect("the rule's");
    let digests = wait(plane.observer.digests(Take::Copy));
    assert_eq!(digests.iter().map(|line| line.hostgroup).collect::<Vec<_>>(), [HostgroupId(-1)]);
    assert_eq!(wait(plane.observer.global()).generated_errors, 1);
}

#[test]
fn a_process_list_shows_who_sleeps_and_what_runs() {
    let plane = Plane::start(Conversation::new().on("SELECT SLEEP(9)", &[Move::Wait, Move::ok()]), |_| {});
    let mut running = plane.client();
    let _sleeping = plane.client();
    running.send_command(command::QUERY, b"SELECT SLEEP(9)").expect("connected");
    plane.server.wait_for("SELECT SLEEP(9)");

    let busy = plane.process(|line| line.doing == Doing::Command("Query"));
    assert_eq!(busy.info.as_deref(), Some("SELECT SLEEP(9)"));
    assert_eq!((busy.hostgroup, &*busy.username), (Some(HostgroupId(0)), "app"));
    assert_eq!((busy.schema.as_deref(), &*busy.client_host), (Some("shop"), "127.0.0.1"));
    let backend = busy.backend.expect("it runs on one");
    assert_eq!((&*backend.hostname, backend.port), ("127.0.0.1", plane.server.port()));
    assert_ne!(backend.local_port, 0);
    let idle = plane.process(|line| line.doing == Doing::Sleep);
    assert_eq!((idle.info, idle.backend, idle.hostgroup), (None, None, None));
    assert_eq!(wait(plane.observer.global()).busy_clients, 1);
    assert_eq!(plane.only_server(Take::Copy).used, 1);

    plane.server.release();
    running.answer(command::QUERY).ok().expect("an answer");
    plane.process(|line| line.id == busy.id && line.doing == Doing::Sleep && line.info.is_none());
    assert_eq!(plane.only_server(Take::Copy).used, 0);
}

#[test]
fn a_long_statement_is_shown_by_its_beginning() {
    let long = format!("SELECT '{}'", "x".repeat(5_000));
    let plane = Plane::start(Conversation::new().on(&long, &[Move::Wait, Move::ok()]), |_| {});
    let mut client = plane.client();
    client.send_command(command::QUERY, long.as_bytes()).expect("connected");
    let shown = plane.process(|line| line.info.is_some()).info.expect("found by it");
    assert_eq!(shown, long[..SHOWN_TEXT]);
    plane.server.release();
    client.answer(command::QUERY).ok().expect("an answer");
}

#[test]
fn every_session_of_many_is_in_the_process_list_once() {
    let plane = Plane::start(Conversation::new(), |_| {});
    let _clients: Vec<RawClient> = (0..300).map(|_| plane.client()).collect();
    let ids: Vec<u32> = wait(plane.observer.processes()).iter().map(|line| line.id).collect();
    assert_eq!(ids.len(), 300);
    assert!(ids.is_sorted_by(|one, two| one < two));
    let users = wait(plane.observer.users());
    assert_eq!((&*users[0].username, users[0].connections, users[0].max_connections), ("app", 300, 1_000));
    let memory = wait(plane.observer.memory());
    assert!(memory.resident > 0 && memory.sessions >= 300 * 100, "{memory:?}");
}

#[test]
fn the_administrator_ends_any_session() {
    let plane = Plane::start(Conversation::new(), |_| {});
    let mut client = plane.client();
    let id = plane.process(|_| true).id;
    assert_eq!(wait(plane.observer.kill(id, KillKind::Connection)), KillAnswer::Done);
    assert!(client.is_closed_within(Duration::from_secs(30)));
    let killed_twice = || wait(plane.observer.kill(id, KillKind::Connection)) == KillAnswer::Unknown;
    until(|| killed_twice().then_some(()));
}

#[test]
fn a_pin_tells_its_reason_and_the_statement_that_caused_it() {
    let conversation =
        Conversation::new().on("BEGIN", &[in_transaction()]).on("LOCK TABLES t READ", &[in_transaction()]);
    let plane = Plane::start(conversation, |_| {});
    let mut client = plane.client();
    client.query("BEGIN").ok().expect("an answer");
    client.query("LOCK TABLES t READ").ok().expect("an answer");

    let pins = wait(plane.observer.pins());
    let told: Vec<(&str, &str)> = pins.iter().map(|line| (line.reason, &*line.digest_text)).collect();
    assert_eq!(told, [("transaction", "BEGIN"), ("lock_tables", "LOCK TABLES t READ")]);
    assert!(pins.iter().all(|line| line.backend.is_some() && line.username == "app"));
    let global = wait(plane.observer.global());
    assert_eq!((global.active_transactions, global.pins["lock_tables"]), (1, 1));

    client.query("COMMIT").ok().expect("an answer");
    let reasons: Vec<&str> = wait(plane.observer.pins()).iter().map(|line| line.reason).collect();
    assert_eq!(reasons, ["lock_tables"]);
    client.query("UNLOCK TABLES").ok().expect("an answer");
    assert_eq!(wait(plane.observer.pins()), []);
    assert_eq!(plane.process(|_| true).backend, None, "the connection was given back");
}

#[test]
fn a_servers_line_counts_connections_commands_and_bytes() {
    let plane = Plane::start(Conversation::new().on("SELECT 1", &[Move::rows("1", &["1"])]), |_| {});
    let mut clients = [plane.client(), plane.client()];
    for client in &mut clients {
        client.query("SELECT 1");
    }
    let line = plane.only_server(Take::Reset);
    assert_eq!(
        (line.status, line.used, line.tally.failed, line.tally.queries),
        (ServerStatus::Online, 0, 0, 2)
    );
    assert!((1..=2).contains(&line.tally.connected) && line.free == line.tally.connected, "{line:?}");
    assert!((1..=2).contains(&line.most_used), "{line:?}");
    // Header, command, text; column count, definition, EOF, row, EOF.
    assert_eq!(line.tally.bytes_sent, 2 * (4 + 1 + 8));
    let answer = plane.client().query("SELECT 1");
    let bytes: usize = answer.packets.iter().map(|packet| 4 + packet.payload.len()).sum();
    assert_eq!(line.tally.bytes_received, 2 * bytes as u64);

    let line = plane.only_server(Take::Copy);
    assert_eq!(
        (line.tally.queries, line.tally.connected, line.tally.bytes_sent),
        (1, 0, 13),
        "counted since the reset"
    );
    let global = wait(plane.observer.global());
    assert_eq!((global.backend_bytes_sent, global.questions), (3 * 13, 3), "counted since the start");
    assert!((1..=2).contains(&global.created_backends));
    assert_eq!(wait(plane.observer.free_connections()).len() as u64, line.free);
}

#[test]
fn a_server_that_cannot_be_reached_is_shunned_until_it_can() {
    let nobody = FakeMysql::nobody();
    let plane = Plane::start(Conversation::new(), |rows| {
        rows.servers = vec![server(0, "127.0.0.1", nobody)];
        // How long the statements below wait for a server.
        rows.variables.connect_timeout_server_max = Duration::from_secs(1);
    });
    let mut client = plane.client();
    let refused = client.query("DO 1").error().expect("nobody is there");
    assert_eq!(refused.code, 9001);
    let line = plane.only_server(Take::Copy);
    assert_eq!((line.status, line.tally.connected), (ServerStatus::Shunned, 0));
    assert!(line.tally.failed > 0 && line.failure.is_some(), "{line:?}");
    let errors = wait(plane.observer.errors(Take::Reset));
    let [error] = &errors[..] else { panic!("not one error: {errors:?}") };
    assert_eq!((error.errno, &*error.username, &*error.schemaname), (2003, "app", "shop"));
    assert_eq!((error.hostname.as_str(), error.port), ("127.0.0.1", nobody));
    let global = wait(plane.observer.global());
    assert!(global.connect_timeouts > 0 && global.aborted_backends > 0);

    let _server = FakeMysql::start_on(nobody, Conversation::new());
    until(|| client.query("DO 1").ok());
    let line = plane.only_server(Take::Copy);
    assert_eq!((line.status, line.failure), (ServerStatus::Online, None));
}

#[test]
fn an_error_of_a_server_is_counted_with_its_last_text() {
    let error = Move::error(1146, "42S02", "Table 'shop.t' doesn't exist");
    let plane = Plane::start(Conversation::new().on("SELECT * FROM t", &[error]), |_| {});
    let mut client = plane.client();
    client.query("SELECT * FROM t").error().expect("the server's");
    client.query("SELECT * FROM t").error().expect("the server's");
    let errors = wait(plane.observer.errors(Take::Reset));
    let [line] = &errors[..] else { panic!("not one error: {errors:?}") };
    assert_eq!((line.errno, line.count, &*line.last_error), (1146, 2, "Table 'shop.t' doesn't exist"));
    assert_eq!((&*line.schemaname, line.hostgroup), ("shop", HostgroupId(0)));
    assert_eq!(wait(plane.observer.errors(Take::Copy)), []);
}

#[test]
fn hits_of_rules_begin_again_only_when_rules_change() {
    let read = |row: &mut RuleRow| row.match_digest = Some("^SELECT".to_owned());
    let mut plane =
        Plane::start(Conversation::new(), |rows| rows.rules = vec![rule(5, read), rule(9, |_| {})]);
    let mut client = plane.client();
    client.query("SELECT 1").ok().expect("an answer");
    client.query("SELECT 2").ok().expect("an answer");
    client.query("DO 1").ok().expect("an answer");
    let hits = |plane: &Plane| -> Vec<(i64, u64)> {
        wait(plane.observer.rule_hits()).iter().map(|line| (line.rule_id, line.hits)).collect()
    };
    assert_eq!(hits(&plane), [(5, 2), (9, 1)]);
    plane.publish(|rows| rows.users.push(user("other")));
    assert_eq!(hits(&plane), [(5, 2), (9, 1)]);
    plane.publish(|rows| rows.rules.truncate(1));
    assert_eq!(hits(&plane), [(5, 0)]);
}

#[test]
fn logins_that_fail_count_by_cause_and_address() {
    let plane = Plane::start(Conversation::new(), |rows| rows.variables.client_host_cache_size = 10);
    plane.refused();
    plane.refused();
    let global = until(|| Some(wait(plane.observer.global())).filter(|global| global.login_failures == 2));
    assert_eq!((global.wrong_passwords, global.aborted_clients), (2, 2));
    let hosts = plane.observer.client_hosts(Take::Reset);
    assert_eq!(hosts.iter().map(|host| &*host.address).collect::<Vec<_>>(), ["127.0.0.1"]);
    assert_eq!(hosts[0].errors, 2);
    assert_eq!(plane.observer.client_hosts(Take::Copy), []);
}

#[test]
fn slow_statements_are_those_of_long_query_time() {
    let plane = Plane::start(Conversation::new(), |rows| rows.variables.long_query_time = Duration::ZERO);
    plane.client().query("DO 1").ok().expect("an answer");
    assert_eq!(wait(plane.observer.global()).slow_queries, 1);
}

#[test]
fn every_name_of_the_global_table_is_told_once() {
    let mut names: Vec<&str> = Counters::default().rows().iter().map(|(name, _)| *name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(names.contains(&"Questions") && names.contains(&"hostgroup_locked_queries"));
}

#[test]
fn a_statement_that_is_held_back_is_seen_and_can_be_killed() {
    let plane = Plane::start(Conversation::new(), |rows| {
        rows.rules = vec![rule(1, |row| row.delay = Some(600_000))];
    });
    let mut client = plane.client();
    client.send_command(command::QUERY, b"DO 1").expect("connected");
    let held = plane.process(|line| line.doing == Doing::Command("Delay"));
    assert_eq!((held.info.as_deref(), held.backend), (Some("DO 1"), None));
    assert_eq!(wait(plane.observer.kill(held.id, KillKind::Query)), KillAnswer::Done);
    assert_eq!(client.answer(command::QUERY).error().expect("it was killed").code, 1317);
    plane.process(|line| line.id == held.id && line.doing == Doing::Sleep);
}
