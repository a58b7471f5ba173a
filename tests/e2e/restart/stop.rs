//! Orderly shutdowns: clients have time to disconnect, and no more than that.

use std::time::{Duration, Instant};

use narrows_testkit::{
    ErrorPacket, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, command, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};

use super::{BINARY, scene, wait_for_another};

const SIGTERM: i32 = 15;

#[test]
fn clients_finish_what_they_do_before_the_process_ends() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(30));
    let mut client = narrows.client();
    client.query("DO 1").ok().expect("it serves");
    narrows.process().signal(SIGTERM);
    narrows.wait_for_log(0, |line| line.contains("stopping signal=\"SIGTERM\""));
    let deadline = Instant::now() + Duration::from_secs(10);
    // New clients are refused, and none waits in vain.
    while std::net::TcpStream::connect(("127.0.0.1", narrows.port())).is_ok() {
        assert!(Instant::now() < deadline, "clients can still connect");
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..10 {
        client.query("DO 1").ok().expect("existing clients continue");
    }
    assert!(narrows.process().try_wait().is_none());
    drop(client);
    let status = narrows.process().wait_for(Duration::from_secs(10)).expect("the last client has left");
    assert!(status.success());
}

#[test]
fn administrators_start_it_again_and_end_it() {
    let (_server, mut narrows) = scene(|config| config);
    let ask = |narrows: &Narrows, statement: &str| {
        let mut admin = narrows.admin();
        admin.send_command(command::QUERY, statement.as_bytes()).expect("it reads");
        assert!(admin.is_closed_within(Duration::from_secs(10)), "{statement} has no answer");
    };
    let former = narrows.worker();
    ask(&narrows, "PROXYSQL RESTART");
    wait_for_another(&narrows, former);
    narrows.client().query("DO 1").ok().expect("it serves again");
    // A supervisor that did not start the worker process understands it all the same.
    narrows.process().kill();
    narrows.start_again(BINARY);
    ask(&narrows, "PROXYSQL SHUTDOWN");
    let status =
        narrows.process().wait_for(Duration::from_secs(10)).expect("it ends with the worker process");
    assert!(status.success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(60));
    let _client = narrows.client();
    narrows.process().signal(SIGTERM);
    narrows.wait_for_log(0, |line| line.contains("stopping signal=\"SIGTERM\""));
    assert!(narrows.process().try_wait().is_none());
    narrows.process().signal(SIGTERM);
    let status =
        narrows.process().wait_for(Duration::from_secs(10)).expect("it does not wait for the idle client");
    assert!(status.success());
}

#[test]
fn two_signals_are_two_for_a_process_that_is_late() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(60));
    let _client = narrows.client();
    let worker = Pid::from_raw(narrows.worker() as i32).expect("it has an id");
    kill_process(worker, Signal::STOP).expect("it pauses");
    for count in 1..=2 {
        narrows.process().signal(SIGTERM);
        let received = || narrows.log().matches("stopping signal=\"SIGTERM\"").count();
        wait_until("the supervisor has received it", || received() == count);
    }
    kill_process(worker, Signal::CONT).expect("it continues");
    let status =
        narrows.process().wait_for(Duration::from_secs(10)).expect("it does not wait for the idle client");
    assert!(status.success());
}

#[test]
fn sessions_end_between_two_transactions_when_their_time_is_over() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(1));
    let mut idle = narrows.client();
    idle.query("DO 1").ok().expect("it serves");
    narrows.process().signal(SIGTERM);
    let status = narrows.process().wait_for(Duration::from_secs(10)).expect("its time is over");
    assert!(status.success());
    let last = idle.read().expect("it gets an error");
    assert_eq!(ErrorPacket::decode(&last.payload).map(|error| error.code), Some(1053));
}

/// Clients that are never at rest for long: each ends between two transactions all the same, and nothing is cut in one.
#[test]
fn busy_sessions_end_at_the_end_of_a_transaction() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS drains",
        "CREATE TABLE IF NOT EXISTS drains.t (client INT, turn INT, part INT)",
        "TRUNCATE drains.t",
    ]);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=50")
        .user("sbtest", "sbtest", "")
        .supervised()
        .drain_timeout(1);
    let mut narrows = Narrows::start(BINARY, &config);
    let clients: Vec<_> = (0..12_u64)
        .map(|number| {
            let mut client = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));
            std::thread::spawn(move || {
                for turn in 0.. {
                    let insert = |part| format!("INSERT INTO drains.t VALUES ({number}, {turn}, {part})");
                    // Some have no pause between two transactions, some commit each statement by itself.
                    let statements = match number % 3 {
                        0 => vec!["BEGIN".to_owned(), insert(0), insert(1), "COMMIT".to_owned()],
                        1 => vec!["SET autocommit = 0".to_owned(), insert(0), insert(1), "COMMIT".to_owned()],
                        _ => vec![insert(0)],
                    };
                    for (place, statement) in statements.iter().enumerate() {
                        std::thread::sleep(Duration::from_millis(number * 3 % 20));
                        let sent = client.send_command(command::QUERY, statement.as_bytes());
                        let answer = sent.and_then(|()| client.read());
                        let error = match answer {
                            Ok(packet) => ErrorPacket::decode(&packet.payload).map(|error| error.code),
                            Err(_) => Some(0),
                        };
                        if let Some(error) = error {
                            return (place, turn, error);
                        }
                    }
                }
                unreachable!("it is cut off")
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    narrows.process().signal(SIGTERM);
    let ends: Vec<(usize, i32, u16)> =
        clients.into_iter().map(|client| client.join().expect("it does not panic")).collect();
    let status = narrows.process().wait_for(Duration::from_secs(10)).expect("its time is over");
    assert!(status.success());
    println!("{ends:?}");
    for (number, (place, turn, error)) in ends.into_iter().enumerate() {
        // autocommit = 0 begins no transaction yet.
        let between = place == 0 || number % 3 == 1 && place == 1;
        assert!(between, "{number} was cut off within a transaction, by {error}: {place} of {turn}");
        assert!([0, 1053].contains(&error), "{number}: {error}");
    }
    let halves = "SELECT COUNT(*) FROM (SELECT client, turn FROM drains.t WHERE client % 3 < 2
                  GROUP BY client, turn HAVING COUNT(*) <> 2) halves";
    assert_eq!(server.rows(halves)[0][0].as_deref(), Some("0"));
}
