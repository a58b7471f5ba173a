//! Killed processes: no connecting client is refused, and no configuration is lost.

use std::process::Command;
use std::time::Duration;

use narrows_testkit::{Endpoint, Login, RawClient, command, kill};

use super::{BINARY, Connects, scene, wait_for_another};

/// Kills the worker process five times while `threads` connect; returns the outcome of 3,000 connects.
fn five_kills(threads: &str) {
    let (_server, narrows) = scene(|config| config);
    let mut connects = Connects::begin(&narrows, &["-i", "2000", "-c", "3000", "-q", "1", "-t", threads]);
    let mut kills = 0;
    let mut last = 0;
    while kills < 5 && connects.is_at_work() {
        let worker = narrows.worker();
        if worker == last {
            continue;
        }
        // Some statements between one death and the next.
        std::thread::sleep(Duration::from_millis(60));
        kill(worker);
        (last, kills) = (worker, kills + 1);
    }
    let report = connects.report();
    println!("-t {threads}: {report}");
    assert_eq!(kills, 5);
    let number = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!(number("ok") + number("err"), 3_000);
    // No connect is refused, and the next process continues what the killed one was doing.
    assert_eq!((number("refused"), number("lost")), (0, 0), "{report}\n{}", narrows.log());
}

#[test]
fn nobody_is_refused_while_the_worker_process_is_killed() {
    five_kills("1");
}

#[test]
fn nobody_of_many_is_refused_while_the_worker_process_is_killed() {
    five_kills("8");
}

#[test]
fn what_runs_goes_on_after_a_crash_and_what_is_saved_is_there() {
    let (_server, narrows) = scene(|config| config);
    let mut admin = narrows.admin();
    for statement in [
        "INSERT INTO mysql_users (username, password) VALUES ('saved', 'x')",
        "SAVE MYSQL USERS TO DISK",
        "INSERT INTO mysql_users (username, password) VALUES ('loaded', 'x')",
        "LOAD MYSQL USERS TO RUNTIME",
    ] {
        admin.query(statement).ok().expect(statement);
    }
    let worker = narrows.worker();
    kill(worker);
    wait_for_another(&narrows, worker);
    for user in ["saved", "loaded"] {
        RawClient::open(&narrows.endpoint(), &Login::new(user, "x"));
    }
    let mut admin = narrows.admin();
    let names = |table: &str| format!("SELECT COUNT(*) FROM {table} WHERE username IN ('saved', 'loaded')");
    assert_eq!(admin.query(names("mysql_users")).cell().as_deref(), Some("2"));
    assert_eq!(admin.query(names("disk.mysql_users")).cell().as_deref(), Some("1"));
    // One row for the client side and one for the server side.
    assert_eq!(admin.query(names("runtime_mysql_users")).cell().as_deref(), Some("4"));
}

#[test]
fn an_address_of_administrators_that_is_lost_stops_nobody_after_a_crash() {
    let (_server, narrows) = scene(|config| config);
    let mut admin = narrows.admin();
    let [own, of_clients] = [narrows.admin_endpoint(), narrows.endpoint()].map(|endpoint| match endpoint {
        Endpoint::Tcp(address) => address,
        Endpoint::Unix(_) => panic!("a port"),
    });
    for statement in [
        &*format!("SET admin-mysql_ifaces='/nonexistent/admin.sock;{of_clients};{own}'"),
        "LOAD ADMIN VARIABLES TO RUNTIME",
        "SAVE ADMIN VARIABLES TO DISK",
    ] {
        admin.query(statement).ok().expect(statement);
    }
    let worker = narrows.worker();
    kill(worker);
    wait_for_another(&narrows, worker);
    assert_eq!(narrows.client().query("SELECT 1").error(), None);
    assert_eq!(narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
    for lost in ["/nonexistent/admin.sock", &of_clients.to_string()] {
        let said =
            format!("ERROR narrows_control::runtime::admin: cannot listen on {lost} (admin-mysql_ifaces)");
        assert!(narrows.log().contains(&said), "{said}");
    }
}

#[test]
fn a_killed_supervisor_is_followed_by_one_that_finds_the_worker_process() {
    let (_server, mut narrows) = scene(|config| config);
    let mut client = narrows.client();
    let worker = narrows.worker();
    narrows.process().kill();
    // Existing clients continue, and new ones connect.
    client.query("DO 1").ok().expect("the worker process lives");
    narrows.client().query("DO 1").ok().expect("it accepts");
    narrows.start_again(BINARY);
    assert_eq!(narrows.worker(), worker);
    client.query("DO 1").ok().expect("the worker process lives");
    // The new supervisor takes over the old one's tasks.
    kill(worker);
    wait_for_another(&narrows, worker);
    narrows.client().query("DO 1").ok().expect("another one serves");
}

#[test]
fn a_folder_is_used_by_one_supervisor_only() {
    let (_server, narrows) = scene(|config| config);
    let config = narrows.folder().join("narrows.cnf");
    let output = Command::new(BINARY)
        .arg("-f")
        .arg("-c")
        .arg(config)
        .arg("-D")
        .arg(narrows.folder())
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("another Narrows uses this folder"), "{text}");
    narrows.client().query("DO 1").ok().expect("the first one continues");
}

#[test]
fn whatever_is_killed_while_it_saves_the_configuration_is_there_again() {
    let (_server, mut narrows) = scene(|config| config);
    for round in 0..9 {
        let worker = narrows.worker();
        let mut admin = narrows.admin();
        let saver = std::thread::spawn(move || save_until_cut(&mut admin));
        // At a different point each time.
        std::thread::sleep(Duration::from_millis(20 + 17 * round));
        let kills_supervisor = round % 3 != 0;
        if kills_supervisor {
            narrows.process().kill();
        }
        if round % 3 == 1 {
            narrows.start_again(BINARY);
        }
        kill(worker);
        let acknowledged = saver.join().expect("it ends with its connection");
        if round % 3 == 2 {
            narrows.start_again(BINARY);
        }
        wait_for_another(&narrows, worker);
        let mut admin = narrows.admin();
        let saved = admin.query("SELECT CAST(comment AS INT) FROM disk.mysql_users").cell();
        let saved: u64 = saved.and_then(|saved| saved.parse().ok()).expect("a number");
        assert!(saved >= acknowledged, "round {round}: {saved} of {acknowledged}");
        assert_eq!(admin.query("SELECT COUNT(*) FROM disk.mysql_users").cell().as_deref(), Some("1"));
        narrows.client().query("DO 1").ok().expect("it serves");
    }
}

/// Saves one number after another; returns the last one that was acknowledged.
fn save_until_cut(admin: &mut RawClient) -> u64 {
    let mut ask = |statement: &str| {
        admin.send_command(command::QUERY, statement.as_bytes()).is_ok() && admin.read().is_ok()
    };
    for number in 1.. {
        let change = format!("UPDATE mysql_users SET comment = '{number}'");
        if !(ask(&change) && ask("SAVE MYSQL USERS TO DISK")) {
            return number - 1;
        }
    }
    unreachable!("it ends when it is cut")
}
