//! `NARROWS SWITCHOVER` of real servers, a primary with two replicas, while clients write. Each client keeps its own ledger of
//! what was acknowledged, which is compared with what the servers have.
//!
//! `NARROWS_SWITCHOVER=long` makes 50 switchovers of each kind of server, with 32 clients.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, RawClient, RealServer, wait_until};

use super::servers::Servers;
use super::{held_ms, is_long, shares};
use crate::support::start;

/// What clients have seen.
#[derive(Default)]
struct Seen {
    errors: Vec<String>,
    acknowledged: Vec<u64>,
    /// When each statement was sent, and how long it took.
    longest: Vec<(Instant, Duration)>,
}

pub fn shop(narrows: &Narrows) -> RawClient {
    RawClient::open(&narrows.endpoint(), &Login::new("shop", "shop"))
}

/// Writes until it is stopped, alone and in transactions; returns how many writes were acknowledged.
fn write(narrows: &Narrows, client: usize, stop: &AtomicBool, seen: &Mutex<Seen>) {
    let mut session = shop(narrows);
    let (mut turn, mut longest) = (0u64, Vec::new());
    let mut errors = Vec::new();
    let mut run = |statement: String, errors: &mut Vec<String>| {
        let began = Instant::now();
        if let Some(error) = session.query(&statement).error() {
            errors.push(format!("{statement}: {} {}", error.code, error.message));
        }
        longest.push((began, began.elapsed()));
    };
    run(format!("INSERT INTO shop.counter VALUES ({client}, 0)"), &mut errors);
    while !stop.load(Ordering::Relaxed) && errors.is_empty() {
        turn += 1;
        // A replica that is slower than its primary is another matter.
        thread::sleep(Duration::from_millis(2));
        let insert = format!("INSERT INTO shop.ledger VALUES ({client}, {turn})");
        let count = format!("UPDATE shop.counter SET n = n + 1 WHERE client = {client}");
        if turn.is_multiple_of(2) {
            run(insert, &mut errors);
            run(count, &mut errors);
        } else {
            for statement in ["BEGIN".to_owned(), insert, count, "COMMIT".to_owned()] {
                run(statement, &mut errors);
            }
        }
    }
    longest.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    longest.truncate(200);
    let mut seen = seen.lock().unwrap();
    seen.errors.extend(errors);
    seen.acknowledged.push(turn);
    seen.longest.extend(longest);
}

/// Makes planned switchovers there and back under writing clients.
fn under_writes(flavour: Flavour) {
    let servers = Servers::start(flavour);
    let narrows = start(&servers.config());
    let mut admin = narrows.admin();
    servers.wait_for_roles(&mut admin);
    // On a machine that is busy with something else a replica may be slow.
    admin.set_patience(Duration::from_secs(150));
    let (count, clients) = if is_long() { (50, 32) } else { (6, 8) };
    let (stop, seen) = (AtomicBool::new(false), Mutex::new(Seen::default()));
    let mut made: Vec<(Instant, Instant)> = Vec::new();
    let mut held: Vec<u64> = Vec::new();
    let mut primary = 0;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..clients)
            .map(|client| {
                let (narrows, stop, seen) = (&narrows, &stop, &seen);
                scope.spawn(move || write(narrows, client, stop, seen))
            })
            .collect();
        for _ in 0..count {
            // Clients write for a while in between.
            thread::sleep(Duration::from_millis(500));
            let next = (primary + 1) % 3;
            let began = Instant::now();
            let to = format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'", servers.nodes[next].port());
            let answer = admin.query(&to);
            made.push((began, Instant::now()));
            if let Some(error) = answer.error() {
                stop.store(true, Ordering::Relaxed);
                panic!("{}\n{}", error.message, narrows.log());
            }
            let steps = answer.text_rows();
            let failed = steps.iter().find(|step| step[3].as_deref() != Some("done"));
            if failed.is_some() {
                stop.store(true, Ordering::Relaxed);
                panic!("{steps:#?}");
            }
            primary = next;
            held.extend(held_ms(&steps));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.errors, Vec::<String>::new(), "{}", narrows.log());
    let acknowledged: u64 = seen.acknowledged.iter().sum();
    let rows = |query: &str| servers.nodes[primary].rows(query)[0][0].clone().unwrap_or_default();
    assert_eq!(rows("SELECT count(*) FROM shop.ledger"), acknowledged.to_string(), "none is lost");
    assert_eq!(rows("SELECT sum(n) FROM shop.counter"), acknowledged.to_string(), "none is done twice");
    servers.are_alike(primary);
    let stall = |(began, ended): &(Instant, Instant)| {
        let of_it = seen.longest.iter().filter(|(sent, took)| *sent <= *ended && *sent + *took >= *began);
        of_it.map(|(_, took)| *took).max().unwrap_or_default()
    };
    let (median, p99, most) = shares(made.iter().map(stall).collect());
    println!(
        "{flavour:?}: {count} switchovers under {clients} writers, {acknowledged} turns, 0 errors; longest wait of a client: \
         median {median:?}, p99 {p99:?}, max {most:?}",
    );
    held.sort();
    println!("clients were held for (ms): {held:?}");
    assert!(p99 < Duration::from_secs(if is_long() { 1 } else { 3 }), "{p99:?}");
}

#[test]
fn clients_of_mariadb_write_on_through_planned_switchovers() {
    Flavour::MariaDb.if_tested(under_writes);
}

#[test]
fn clients_of_mysql9_write_on_through_planned_switchovers() {
    Flavour::MySql9.if_tested(under_writes);
}

pub fn switch_over(admin: &mut RawClient, to: &RealServer, more: &str) -> Result<Vec<Vec<String>>, String> {
    let answer = admin.query(format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'{more}", to.port()));
    match answer.error() {
        Some(error) => Err(error.message),
        None => Ok(answer.text_rows().into_iter().map(|row| row.into_iter().flatten().collect()).collect()),
    }
}

pub fn roles(admin: &mut RawClient) -> Vec<Vec<Option<String>>> {
    admin
        .query("SELECT hostgroup_id, port FROM runtime_mysql_servers ORDER BY hostgroup_id, port")
        .text_rows()
}

fn is_read_only(server: &RealServer) -> bool {
    server.rows("SELECT @@GLOBAL.read_only")[0][0].as_deref() != Some("0")
}

#[test]
fn a_switchover_that_cannot_be_finished_leaves_everything_as_it_was() {
    Flavour::MariaDb.if_tested(|flavour| {
        let servers = Servers::start(flavour);
        let narrows = start(&servers.config().variable("monitor_writer_is_also_reader", "false"));
        let (mut admin, mut client) = (narrows.admin(), shop(&narrows));
        wait_until("the roles are known", || roles(&mut admin).len() == 3);
        let before = roles(&mut admin);
        let (old, new) = (&servers.nodes[0], &servers.nodes[1]);

        let planned = switch_over(&mut admin, new, " DRY RUN").expect("it can be made");
        assert!(planned.iter().all(|step| step[3] == "planned"), "{planned:#?}");
        assert!(planned.iter().all(|step| !step[2].contains("= 'sbtest'")), "no password: {planned:#?}");

        let error = switch_over(&mut admin, old, "").unwrap_err();
        assert!(error.ends_with("is the writer of hostgroup 0 already"), "{error}");

        client.query("BEGIN").ok().expect("it begins");
        client.query("INSERT INTO shop.ledger VALUES (1, 1)").ok().expect("it is inserted");
        let error = switch_over(&mut admin, new, " WITHIN 1").unwrap_err();
        assert!(error.contains("1 sessions still run something in hostgroup 0"), "{error}");
        assert!(error.ends_with("Nothing was changed"), "{error}");
        client.query("COMMIT").ok().expect("its transaction was not touched");

        // Somebody else keeps the server from becoming read-only.
        let mut direct = old.root();
        direct.query("LOCK TABLES shop.counter WRITE").ok().expect("it is locked");
        let error = switch_over(&mut admin, new, " WITHIN 2").unwrap_err();
        assert!(error.contains("SET GLOBAL read_only = 1: "), "{error}");
        assert!(error.contains("Undone: ") && error.ends_with("is its replica, as before"), "{error}");
        direct.query("UNLOCK TABLES").ok().expect("it is unlocked");

        assert_eq!(roles(&mut admin), before);
        assert!(!is_read_only(old) && is_read_only(new));
        client.query("INSERT INTO shop.ledger VALUES (1, 2)").ok().expect("clients write on");
        servers.are_alike(0);
    });
}

#[test]
fn a_switchover_goes_on_without_its_administrator_and_only_one_runs() {
    Flavour::MariaDb.if_tested(|flavour| {
        let servers = Servers::start(flavour);
        let narrows = start(&servers.config());
        let (mut admin, mut client) = (narrows.admin(), shop(&narrows));
        wait_until("the roles are known", || roles(&mut admin).len() >= 3);
        client.query("BEGIN").ok().expect("it begins");
        client.query("INSERT INTO shop.ledger VALUES (1, 1)").ok().expect("it is inserted");
        let mut gone = narrows.admin();
        let statement =
            format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}' WITHIN 60", servers.nodes[1].port());
        gone.send_command(narrows_testkit::command::QUERY, statement.as_bytes()).expect("it is sent");
        wait_until("clients are held", || !admin.query("SHOW NARROWS HOLDS").text_rows().is_empty());
        gone.vanish();
        let error = switch_over(&mut admin, &servers.nodes[2], "").unwrap_err();
        assert!(error.contains("another switchover is running"), "{error}");
        let error = admin.query("NARROWS RELEASE HOSTGROUP 0").error().expect("it is the switchover's");
        assert!(error.message.ends_with("a switchover of hostgroup 0 is running"), "{}", error.message);
        client.query("COMMIT").ok().expect("it commits");
        let last = "it replicates from the new primary";
        wait_until("the switchover has ended", || {
            let steps = admin.query("SHOW NARROWS SWITCHOVER").text_rows();
            steps.iter().filter(|step| step[2].as_deref() == Some(last)).count() == 2
        });
        client.query("INSERT INTO shop.ledger VALUES (1, 2)").ok().expect("clients write on");
        assert!(is_read_only(&servers.nodes[0]) && !is_read_only(&servers.nodes[1]));
        servers.are_alike(1);
    });
}
