//! A full disk: what is stored there stays, clients notice nothing, and everything continues when there is space again.
//!
//! The data folder is on a separate small disk if one can be mounted; otherwise no file may grow.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use narrows_testkit::{Login, Narrows, RawClient, wait_until, workers_and_keepers};
use rustix::process::{Pid, Resource, getrlimit, prlimit};

use super::load::{Failure, What};
use super::processes::{Idle, excuse_of_a_kill, upgrade};
use super::report::{Excuse, Report, Times};
use super::servers::recovered;
use super::{Scene, short_or_long};

/// Everything that is stored is tried, and some processes are killed in the meantime.
pub fn fill(scene: &mut Scene, report: &mut Report) {
    report.scenario("the disk is full", |load| {
        let mut defects = Vec::new();
        let saved = scene.narrows.data_file("saved.cnf");
        let save = format!("SAVE CONFIG TO FILE {}", scene.narrows.folder().join("saved.cnf").display());
        let mut admin = scene.admin();
        done(&mut admin, &save);
        let idle: Vec<Idle> = (0..20).map(|number| Idle::begin(scene, number)).collect();
        let from = Instant::now();
        let mut is_refused = || {
            make_full(&mut scene.narrows);
            let before = fs::read(&saved).expect("it was saved");
            let is_refused = admin.query(&save).error().is_some();
            let after = fs::read(&saved).unwrap_or_default();
            if is_refused && after != before {
                defects.push("a file that could not be saved is not what it was".to_owned());
            }
            is_refused
        };
        // Other activity may free space at that moment: a journal is removed, a log is rotated.
        if !(0..5).any(|_| is_refused()) {
            defects.push("saving a file on a full disk is said to have succeeded".to_owned());
        }
        done(&mut admin, "UPDATE mysql_users SET max_connections = 9999 WHERE username = 'app'");
        done(&mut admin, "LOAD MYSQL USERS TO RUNTIME");
        let mut client = scene.client();
        for number in 0..20 {
            let statement = format!("DO 'logged {number} {}'", "x".repeat(4_000));
            if let Some(error) = client.query(statement).error() {
                defects.push(format!("a statement that cannot be logged: {error:?}"));
            }
        }
        drop((admin, client));
        let kill_from = Instant::now();
        let is_killed = scene.random.below(2) == 0;
        if is_killed {
            let worker = scene.narrows.worker();
            narrows_testkit::kill(worker);
            scene.wait_for_another(worker);
        }
        let is_upgraded = scene.random.below(2) == 0 && upgrade(scene).0;
        std::thread::sleep(short_or_long(Duration::from_millis(300), Duration::from_secs(10)));
        // They may be what frees space.
        wait_until("administrators are served on a full disk", || {
            let mut admin = RawClient::try_connect(&scene.narrows.admin_endpoint()).ok();
            let login = Login::new("admin", "admin");
            admin
                .as_mut()
                .is_some_and(|admin| admin.login(&login).is_ok() && admin.query("SELECT 1").error().is_none())
        });
        println!("the disk is full: killed {is_killed}, upgraded {is_upgraded}");
        defects.extend(idle.into_iter().filter_map(|mut idle| idle.check()));
        let full_until = Instant::now();
        free(&scene.narrows);

        let mut excuses =
            vec![Excuse { during: (from, full_until + Duration::from_secs(1)), covers: cannot_be_stored }];
        if is_killed || is_upgraded {
            excuses.push(excuse_of_a_kill(kill_from));
        }
        scene.leave_former_processes(load);
        defects.extend(stores_again(scene, &saved, &save));
        Times { defects, excuses, ..recovered(&scene.cluster, load, scene.cluster.replicas()[0]) }
    });
}

/// What is wrong although there is space again.
fn stores_again(scene: &Scene, saved: &Path, save: &str) -> Vec<String> {
    let mut defects = Vec::new();
    let mut admin = scene.admin();
    for statement in [save, "SAVE MYSQL USERS TO DISK", "SAVE MYSQL DIGEST TO DISK"] {
        if let Some(error) = admin.query(statement).error() {
            defects.push(format!("{statement} with space again: {error:?}"));
        }
    }
    let text = fs::read_to_string(saved).unwrap_or_default();
    if !text.contains("mysql_users") || !text.contains("eventslog_filename") {
        defects.push(format!("what is saved is not the configuration: {text}"));
    }
    let users =
        admin.query("SELECT COUNT(*) FROM disk.mysql_users WHERE username IN ('app', 'marker')").cell();
    if users.as_deref() != Some("2") {
        defects.push(format!("{users:?} users are stored"));
    }
    let mut client = scene.client();
    let last = format!("logged at last {:?}", Instant::now());
    wait_until("statements are logged again", || {
        client.query(format!("DO '{last}'")).ok().expect("it serves");
        query_log(&scene.narrows).contains(&last)
    });
    let text = query_log(&scene.narrows);
    let broken = text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
    defects.extend(broken.map(|line| format!("half a line in the query log: {line}")));
    defects
}

fn query_log(narrows: &Narrows) -> String {
    let entries = fs::read_dir(narrows.data_file("")).expect("the data folder").flatten();
    let is_log =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("queries."));
    let paths = entries.map(|entry| entry.path()).filter(|path| is_log(path));
    paths.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

fn done(admin: &mut RawClient, statement: &str) {
    let error = admin.query(statement).error();
    assert!(error.is_none(), "{statement}: {error:?}");
}

/// An administrator gets an error for what could not be saved.
fn cannot_be_stored(failure: &Failure) -> bool {
    failure.what == What::Admin && failure.text.contains(", at SAVE ")
}

/// Fills the disk.
fn make_full(narrows: &mut Narrows) {
    if !narrows.has_small_disk() {
        return limit_files(narrows, Some(0));
    }
    narrows.fill_small_disk();
}

/// Frees the space again.
pub fn free(narrows: &Narrows) {
    if !narrows.has_small_disk() {
        return limit_files(narrows, None);
    }
    // It does not exist if none was created.
    let _ = fs::remove_file(narrows.data_file(FILLER));
}

fn limit_files(narrows: &Narrows, most: Option<u64>) {
    for pid in workers_and_keepers(narrows.folder()) {
        let mut limit = getrlimit(Resource::Fsize);
        limit.current = most;
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process")).expect("a process");
        // A process that has ended needs no limit.
        let _ = prlimit(Some(pid), Resource::Fsize, limit);
    }
}

const FILLER: &str = "filler";
