//! What happens to clients whose worker process is killed: those that can be continued correctly notice nothing, the
//! others are closed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, Narrows, NarrowsConfig, RawClient, RealServer, command,
    kill, tls_client,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{BINARY, scene, wait_for_another};

/// How long a closed client may take to notice.
const SOON: Duration = Duration::from_secs(10);

/// Kills the worker process, and waits until another one serves.
fn killed(narrows: &Narrows) {
    let worker = narrows.worker();
    kill(worker);
    wait_for_another(narrows, worker);
}

fn before(server: &FakeMysql) -> Narrows {
    Narrows::start(BINARY, &NarrowsConfig::in_front_of(server.port()).supervised())
}

/// The connection id in the greeting.
fn id(client: &mut RawClient) -> u32 {
    client.greeting().expect("a greeting").connection_id
}

#[test]
fn idle_clients_go_on_under_their_numbers() {
    let (_server, narrows) = scene(|config| config);
    let mut clients: Vec<RawClient> = (0..100).map(|_| narrows.client()).collect();
    for _ in 0..3 {
        clients.iter_mut().step_by(2).for_each(|client| drop(client.query("DO 1").ok().expect("it serves")));
        killed(&narrows);
        for client in &mut clients {
            client.query("DO 1").ok().unwrap_or_else(|| panic!("another one serves:\n{}", narrows.log()));
        }
        clients.extend((0..10).map(|_| narrows.client()));
    }
    let ids: BTreeSet<u32> = clients.iter_mut().map(id).collect();
    assert_eq!(ids.len(), clients.len(), "two clients have one number");
    let mut admin = narrows.admin();
    let shown = admin.query("SELECT SessionID FROM stats_mysql_processlist").text_rows();
    let shown: BTreeSet<u32> = shown.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
    assert_eq!(shown, ids);
    let connected = "SELECT Variable_Value FROM stats_mysql_global \
                     WHERE Variable_Name = 'Client_Connections_connected'";
    assert_eq!(admin.query(connected).cell(), Some(clients.len().to_string()));
}

#[test]
fn clients_that_go_on_count_under_the_limits() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user("sbtest", "sbtest", "max_connections=3")
        .supervised();
    let narrows = Narrows::start(BINARY, &config);
    let mut clients: Vec<RawClient> = (0..3).map(|_| narrows.client()).collect();
    killed(&narrows);
    clients.iter_mut().for_each(|client| drop(client.query("DO 1").ok().expect("it serves")));
    let mut other = RawClient::connect(&narrows.endpoint());
    let refusal = other.login(&Login::new("sbtest", "sbtest")).expect_err("there are as many as allowed");
    assert!(refusal.message.contains("max_user_connections"), "{refusal:?}");
}

#[test]
fn a_login_goes_on_at_whatever_point() {
    let (_server, narrows) = scene(|config| config);
    let mut greeted = RawClient::connect(&narrows.endpoint());
    let number = id(&mut greeted);
    killed(&narrows);
    killed(&narrows);
    greeted.login(&Login::new("sbtest", "sbtest")).expect("the same challenge is valid");
    greeted.query("DO 1").ok().expect("it serves");
    assert_eq!(id(&mut greeted), number);
    // A wrong password is also wrong in the next process.
    let mut stranger = RawClient::connect(&narrows.endpoint());
    id(&mut stranger);
    killed(&narrows);
    stranger.login(&Login::new("sbtest", "other")).expect_err("it is wrong");
}

#[test]
fn a_read_that_runs_is_run_again() {
    let reads = [Move::Wait, Move::rows("n", &["1"])];
    let server = FakeMysql::start(Conversation::new().on("SELECT n FROM t", &reads));
    let narrows = before(&server);
    let mut client = narrows.client();
    client.send_command(command::QUERY, b"SELECT n FROM t").expect("it is sent");
    server.wait_for("SELECT n FROM t");
    killed(&narrows);
    server.wait_for_times("SELECT n FROM t", 2);
    // The killed process's connection waits too.
    server.release();
    server.release();
    assert_eq!(client.answer(command::QUERY).cell().as_deref(), Some("1"), "{}", narrows.log());
    let times = server.received().iter().filter(|command| command.body == "SELECT n FROM t").count();
    assert_eq!(times, 2);
    client.query("DO 1").ok().expect("the session continues");
}

#[test]
fn a_read_that_runs_at_every_death_does_not_run_for_ever() {
    let server = FakeMysql::start(Conversation::new().on("SELECT n FROM t", &[Move::Hang]));
    let narrows = before(&server);
    let mut client = narrows.client();
    client.send_command(command::QUERY, b"SELECT n FROM t").expect("it is sent");
    for times in 1..=3 {
        server.wait_for_times("SELECT n FROM t", times);
        killed(&narrows);
    }
    assert!(client.is_closed_within(SOON), "{}", narrows.log());
    assert_eq!(server.received().iter().filter(|command| command.body == "SELECT n FROM t").count(), 3);
}

#[test]
fn a_write_that_runs_is_not_repeated() {
    let server =
        FakeMysql::start(Conversation::new().on("INSERT INTO t VALUES (1)", &[Move::Wait, Move::ok()]));
    let narrows = before(&server);
    let mut client = narrows.client();
    client.send_command(command::QUERY, b"INSERT INTO t VALUES (1)").expect("it is sent");
    server.wait_for("INSERT INTO t VALUES (1)");
    killed(&narrows);
    server.release();
    assert!(client.is_closed_within(SOON), "{}", narrows.log());
    narrows.client().query("DO 1").ok().expect("it serves");
    let writes = server.received().iter().filter(|command| command.body.contains("INSERT")).count();
    assert_eq!(writes, 1);
}

#[test]
fn half_a_command_is_kept_and_the_next_process_reads_the_rest() {
    let (server, narrows) = scene(|config| config);
    let mut client = narrows.client();
    client.query("DO 1").ok().expect("it serves");
    let statement = b"\x0a\0\0\0\x03DO 1 + 23";
    client.send_bytes(&statement[..7]).expect("it is sent");
    // Something sent earlier on another connection has arrived, so this has too.
    narrows.client().query("DO 1").ok().expect("it serves");
    killed(&narrows);
    client.send_bytes(&statement[7..]).expect("it is sent");
    assert!(client.answer(command::QUERY).ok().is_some(), "{}", narrows.log());
    server.wait_for("DO 1 + 23");
}

#[test]
fn what_a_session_has_set_goes_on_with_it() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE DATABASE IF NOT EXISTS kept", "CREATE OR REPLACE TABLE kept.t (n INT)"]);
    let narrows = Narrows::start(BINARY, &NarrowsConfig::in_front_of(server.port()).supervised());
    let mut client = narrows.client();
    for statement in
        ["USE kept", "SET NAMES latin1, sql_mode = 'ANSI'", "SET @kept = 'yes'", "INSERT INTO t VALUES (7)"]
    {
        client.query(statement).ok().expect(statement);
    }
    killed(&narrows);
    let asked = "SELECT CONCAT_WS(' ', DATABASE(), @@character_set_client, @@sql_mode LIKE '%ANSI%', @kept, n) FROM t";
    assert_eq!(client.query(asked).cell().as_deref(), Some("kept latin1 1 yes 7"), "{}", narrows.log());
}

#[test]
fn a_transaction_ends_with_its_process_and_so_does_its_client() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE DATABASE IF NOT EXISTS kept", "CREATE OR REPLACE TABLE kept.open (n INT)"]);
    let narrows = Narrows::start(BINARY, &NarrowsConfig::in_front_of(server.port()).supervised());
    let mut client = narrows.client();
    client.query("START TRANSACTION");
    client.query("INSERT INTO kept.open VALUES (1)").ok().expect("a row");
    let mut prepared = narrows.client();
    prepared.command(command::STMT_PREPARE, b"SELECT 1");
    killed(&narrows);
    assert!(client.is_closed_within(SOON), "{}", narrows.log());
    assert!(prepared.is_closed_within(SOON), "{}", narrows.log());
    let locked = "SELECT n FROM kept.open FOR UPDATE";
    assert!(server.rows(locked).is_empty(), "the row is still there");
}

#[test]
fn what_only_the_killed_process_knew_is_not_made_up() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS kept",
        "CREATE OR REPLACE TABLE kept.ids (id INT AUTO_INCREMENT PRIMARY KEY)",
    ]);
    let narrows = Narrows::start(BINARY, &NarrowsConfig::in_front_of(server.port()).supervised());
    let asks = ["SELECT LAST_INSERT_ID()", "SELECT ROW_COUNT()", "SHOW WARNINGS"];
    let mut clients: Vec<RawClient> = asks.iter().map(|_| narrows.client()).collect();
    let mut others: Vec<RawClient> = asks.iter().map(|_| narrows.client()).collect();
    for client in &mut clients {
        client.query("INSERT INTO kept.ids VALUES ()").ok().expect("a row");
    }
    killed(&narrows);
    for (client, asked) in clients.iter_mut().zip(asks) {
        let refusal = client.query(asked).error().unwrap_or_else(|| panic!("{asked} is answered"));
        assert!(refusal.message.contains("has died"), "{refusal:?}");
        assert!(client.is_closed_within(SOON));
    }
    // A client that has done nothing yet has nothing to lose; and another statement has other answers.
    assert_eq!(others[0].query("SELECT LAST_INSERT_ID()").cell().as_deref(), Some("0"));
    others[1].query("SELECT 1");
    assert_eq!(others[1].query("SELECT FOUND_ROWS()").cell().as_deref(), Some("1"));
}

#[test]
fn clients_outlive_their_process_under_another_supervisor_too() {
    let (_server, mut narrows) = scene(|config| config);
    let mut client = narrows.client();
    narrows.process().kill();
    narrows.start_again(BINARY);
    killed(&narrows);
    client.query("DO 1").ok().expect("the session continues");
    // With both gone nothing can be continued, and no client is kept waiting.
    let worker = narrows.worker();
    narrows.process().kill();
    kill(worker);
    assert!(client.is_closed_within(SOON));
}

#[test]
fn a_keeper_that_is_killed_is_replaced() {
    let (_server, narrows) = scene(|config| config);
    let mut clients: Vec<RawClient> = (0..50).map(|_| narrows.client()).collect();
    for round in 0..3 {
        let worker = narrows.worker();
        for _ in 0..2 {
            // The longest-lived one first, so that each of them is killed in turn.
            let former = two_keepers(&narrows, worker);
            let before = narrows.log().len();
            kill(former[0]);
            narrows.wait_for_log(before, |line| line.contains("a keeper of this process has ended"));
            assert!(!two_keepers(&narrows, worker).contains(&former[0]));
        }
        let before = narrows.log().len();
        killed(&narrows);
        for client in &mut clients {
            client.query("DO 1").ok().unwrap_or_else(|| panic!("round {round}:\n{}", narrows.log()));
        }
        let line =
            narrows.wait_for_log(before, |line| line.contains("the clients of the former process continue"));
        assert!(line.contains("kept=50 closed=0"), "{line}");
    }
}

#[test]
fn clients_that_are_closed_are_counted_whatever_they_speak() {
    let (_server, narrows) = scene(|config| config);
    let ca = std::fs::read_to_string(narrows.data_file("proxysql-ca.pem")).expect("its authority");
    let (trust, login) = (tls_client(&ca, None), Login::new("sbtest", "sbtest"));
    let mut plain = narrows.client();
    let mut secure: Vec<RawClient> =
        (0..3).map(|_| RawClient::open_tls(&narrows.endpoint(), &trust, &login)).collect();
    let before = narrows.log().len();
    killed(&narrows);
    plain.query("DO 1").ok().expect("the session continues");
    assert!(secure.iter_mut().all(|client| client.is_closed_within(SOON)));
    let line =
        narrows.wait_for_log(before, |line| line.contains("the clients of the former process continue"));
    assert!(line.contains("kept=1 closed=3 why=\"tied to the process: 3\""), "{line}");
}

#[test]
fn clients_without_a_keeper_are_not_said_to_be_kept() {
    let (_server, narrows) = scene(|config| config);
    let mut client = narrows.client();
    let worker = narrows.worker();
    // Neither has time to replace the other.
    let keepers = two_keepers(&narrows, worker);
    keepers.iter().for_each(|keeper| stop(*keeper));
    keepers.iter().for_each(|keeper| kill(*keeper));
    narrows.wait_for_log(0, |line| line.contains("the keepers of this process were killed"));
    killed(&narrows);
    assert!(client.is_closed_within(SOON));
    narrows.wait_for_log(0, |line| line.contains("no keeper held the clients of the former process"));
    narrows.client().query("DO 1").ok().expect("it serves");
}

#[test]
fn nobody_is_lost_with_a_process_that_dies_while_it_goes_on_with_others() {
    let (_server, narrows) = scene(|config| config);
    let mut clients: Vec<RawClient> = (0..320).map(|_| narrows.client()).collect();
    for round in 0..6 {
        let worker = narrows.worker();
        kill(worker);
        wait_for_another(&narrows, worker);
        let successor = narrows.worker();
        // It has just begun to receive them.
        std::thread::sleep(Duration::from_micros(700 * round));
        kill(successor);
        wait_for_another(&narrows, successor);
        let log = narrows.log();
        let lost = clients.iter_mut().filter_map(|client| client.query("DO 1").error()).count();
        assert_eq!(lost, 0, "round {round}:\n{log}");
        // Many deaths in a row during the start count as failures to start.
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The keepers of a worker process, the oldest first.
fn two_keepers(narrows: &Narrows, worker: u32) -> Vec<u32> {
    let deadline = Instant::now() + SOON;
    loop {
        let mut keepers = keepers(worker);
        if keepers.len() == 2 {
            keepers.sort_unstable();
            return keepers.into_iter().map(|(_, pid)| pid).collect();
        }
        assert!(Instant::now() < deadline, "{keepers:?}\n{}", narrows.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// When each keeper of a worker process started, and its pid.
pub(crate) fn keepers(worker: u32) -> Vec<(u64, u32)> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let keeper = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.split_once("(keeper) ")?.1.split(' ').collect();
        let is_ours = fields[0] != "Z" && fields[1].parse() == Ok(worker);
        is_ours.then(|| (fields[19].parse().expect("a time"), pid))
    };
    pids.filter_map(keeper).collect()
}

fn stop(process: u32) {
    let pid = Pid::from_raw(i32::try_from(process).expect("a process")).expect("a process");
    kill_process(pid, Signal::STOP).expect("it lives");
}
