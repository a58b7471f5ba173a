//! Processes that are killed while a plan is applied: afterwards every layer has one version, and the same one.

use std::thread;
use std::time::Duration;

use narrows_testkit::{Narrows, NarrowsConfig, RawClient, kill, wait_until, workers_and_keepers};

use super::generated::Generated;
use super::random::enact;
use super::{all_layers, differences, number, plan};
use crate::chaos::random::Random;
use crate::support::start;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

#[test]
fn either_version_is_there_and_whole_after_a_kill_at_any_moment() {
    let rounds = number("NARROWS_CONFIG_PAIRS").unwrap_or(16);
    let mut random = Random::new("versions::crash");
    let mut narrows = start(&NarrowsConfig::new().supervised());
    enact(&mut narrows.admin(), &narrows, &Generated::new(&mut random));
    let (mut old, mut new, mut deaths) = (0, 0, 0);
    for round in 0..rounds {
        let what = format!("round {round}");
        let mut admin = narrows.admin();
        let before = all_layers(&mut admin);
        // What it would be: applied once, and taken back.
        let wanted = Generated::new(&mut random);
        enact(&mut admin, &narrows, &wanted);
        let after = all_layers(&mut admin);
        let back = super::newest_version(&mut admin) - i64::from(before != after);
        admin.query(format!("NARROWS ROLLBACK TO {back}")).ok().expect("back");
        let path = narrows.folder().join("wanted.cnf");
        let (token, _) = plan(&mut admin, &format!("NARROWS PLAN FILE '{}'", path.display()));
        let wait = Duration::from_micros(random.below(12_000));
        // A supervisor whose worker processes die one after another waits longer and longer.
        let everything = random.below(3) == 0 || deaths == MOST_DEATHS;
        deaths = if everything { 0 } else { deaths + 1 };
        thread::scope(|scope| {
            scope.spawn(move || send(&mut admin, &format!("NARROWS APPLY PLAN '{token}'")));
            thread::sleep(wait);
            die(&mut narrows, everything);
        });
        let now = all_layers(&mut served(&narrows));
        match (differences(&before, &now).is_empty(), differences(&after, &now).is_empty()) {
            (true, _) => old += 1,
            (_, true) => new += 1,
            _ => panic!(
                "{what}, killed after {wait:?}, everything: {everything}: neither\n- before: {:#?}\n- after: {:#?}",
                differences(&before, &now),
                differences(&after, &now)
            ),
        }
        let drift = served(&narrows).query("SHOW NARROWS DRIFT").text_rows();
        assert_eq!(drift, Vec::<Vec<Option<String>>>::new(), "{what}");
    }
    println!("{rounds} kills: the old version {old} times, the new one {new} times");
}

/// Kills the worker process, or all of the program, which is then started again.
fn die(narrows: &mut Narrows, everything: bool) {
    let worker = narrows.worker();
    if !everything {
        kill(worker);
        wait_until("another worker process serves", || narrows.worker() != worker);
        return;
    }
    narrows.process().kill();
    for pid in workers_and_keepers(narrows.folder()) {
        kill(pid);
    }
    narrows.start_again(BINARY);
}

fn served(narrows: &Narrows) -> RawClient {
    wait_until("administrators are served", || RawClient::try_connect(&narrows.admin_endpoint()).is_ok());
    narrows.admin()
}

/// Sends a statement whose answer may never come.
fn send(admin: &mut RawClient, statement: &str) {
    let _ = admin.send_command(COM_QUERY, statement.as_bytes());
    let _ = admin.read();
}

/// How many worker processes die before the supervisor does.
const MOST_DEATHS: u32 = 5;

const COM_QUERY: u8 = 3;
