//! Keys that no member has written, an etcd that is full, and clocks that differ.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use narrows_testkit::{EtcdCluster, Narrows, wait_until};

use super::{BINARY, Fleet, change, change_surely, etcd_trouble, metric, tags, texts};

#[test]
fn a_head_with_the_greatest_of_all_numbers_ends_no_member() {
    let Some(fleet) = Fleet::start(2) else { return };
    let first = fleet.head_id();
    let mut admin = fleet.admin(0);
    fleet.put_head(1, &first, i64::MAX);
    wait_until("it says so", || etcd_trouble(&mut admin).is_some_and(|it| it.contains("/narrows/head")));
    assert_eq!(metric(&mut admin, "narrows_fleet_etcd_up").as_deref(), Some("0"));
    let refused = change(&mut admin, "second").unwrap_err();
    assert!(refused.contains("what etcd has cannot be used"), "{refused}");
    fleet.put_head(1, &first, 1);
    change_surely(&mut admin, "second");
    fleet.wait_until_all_run("second");
}

#[test]
fn a_trial_that_no_member_has_begun_is_named_with_the_way_to_remove_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut admin = fleet.admin(0);
    let first = fleet.head_id();
    let endless =
        format!(r#"{{"version": 2, "id": "{first}", "nodes": ["n1"], "by": "nobody", "seconds": 60}}"#);
    for value in ["nonsense", endless.as_str()] {
        fleet.etcd.put("/narrows/trial", value.as_bytes());
        wait_until("it says so", || {
            etcd_trouble(&mut admin).is_some_and(|it| it.contains("etcdctl del /narrows/trial"))
        });
        let refused = change(&mut admin, "second").unwrap_err();
        assert!(refused.contains("etcdctl del /narrows/trial removes it"), "{refused}");
        fleet.members[1].wait_for_log(0, |line| line.contains("etcdctl del /narrows/trial"));
        fleet.etcd.delete_all("/narrows/trial");
        wait_until("it is over", || etcd_trouble(&mut admin).is_none());
    }
    change_surely(&mut admin, "second");
    fleet.wait_until_all_run("second");
}

#[test]
fn a_report_that_no_member_has_written_is_replaced_or_named() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut admin = fleet.admin(1);
    let foreign = br#"{"node": "n1", "uuid": "another", "process": "p", "reported": 1}"#;
    // One that would never end is none.
    fleet.etcd.put("/narrows/nodes/n1", foreign);
    wait_until("it is replaced", || {
        fleet.etcd.get("/narrows/nodes/n1").is_some_and(|value| !value.contains("another"))
    });
    change_surely(&mut admin, "second");
    fleet.wait_until_all_run("second");
    fleet.etcd.put_for(3_600, "/narrows/nodes/n1", foreign);
    let mut tries = 0;
    wait_until("it says so", || {
        tries += 1;
        change(&mut admin, &format!("try{tries}"))
            .is_err_and(|it| it.contains("etcdctl del /narrows/nodes/n1"))
    });
    fleet.etcd.delete_all("/narrows/nodes/n1");
    wait_until("a change can be made", || change(&mut admin, "fourth").is_ok());
    fleet.wait_until_all_run("fourth");
}

#[test]
fn a_small_version_that_unpacks_to_a_large_one_takes_no_memory() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let first = fleet.head_id();
    // 32 MB, and 5 million values in 10 MB: both take some KB in etcd.
    for (version, text) in
        [(2, format!("[{}0]", " ".repeat(32 << 20))), (3, format!("[{}0]", "0,".repeat(5_000_000)))]
    {
        let Some((value, hash)) = filtered("zstd", &text).zip(filtered("sha256sum", &text)) else {
            eprintln!("zstd and sha256sum are not installed");
            return;
        };
        assert!(value.len() < 10_000, "{}", value.len());
        let id = String::from_utf8_lossy(&hash[..32]).into_owned();
        let before = fleet.members[1].process().peak_resident_bytes();
        fleet.etcd.put(&format!("/narrows/versions/{version:019}"), &value);
        fleet.put_head(version, &id, version);
        wait_until("it is refused", || {
            let [_, state, _, why] = &fleet.shown(0)["n1"];
            state == "refused" && (why.contains("too large") || why.contains("longer than"))
        });
        let more = fleet.members[1].process().peak_resident_bytes().saturating_sub(before);
        println!("version {version}: {} bytes took {more} bytes of memory", value.len());
        assert!(more < 80 << 20, "{more}");
        fleet.put_head(1, &first, version);
    }
    fleet.wait_until_all_run("first");
    change_surely(&mut fleet.admin(0), "second");
    fleet.wait_until_all_run("second");
}

/// What a program makes of a text; `None`: it is not installed.
fn filtered(program: &str, text: &str) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (mut input, text) = (child.stdin.take()?, text.to_owned());
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writing.join().ok()?.ok()?;
    output.status.success().then_some(output.stdout)
}

#[test]
fn while_etcd_is_full_no_change_is_made_and_all_serve() {
    if !EtcdCluster::is_there() {
        return;
    }
    let fleet = Fleet::start_on(EtcdCluster::start_small(16 << 20), 2);
    let noise: Vec<u8> =
        (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let filled = (0..100).find(|number| !fleet.etcd.try_to_put(&format!("/noise/{number}"), &noise, 0));
    assert!(filled.is_some(), "etcd takes more than it should");
    let mut admin = fleet.admin(0);
    wait_until("it says so", || {
        etcd_trouble(&mut admin).is_some_and(|it| it.contains("database space exceeded"))
    });
    assert_eq!(metric(&mut admin, "narrows_fleet_etcd_up").as_deref(), Some("0"));
    let refused = change(&mut admin, "second").unwrap_err();
    assert!(refused.contains("database space exceeded"), "{refused}");
    for member in 0..2 {
        assert_eq!(tags(&mut fleet.admin(member)), ["first"; 4]);
        assert!(fleet.members[member].client().query("SELECT 1").error().is_none());
    }
    fleet.etcd.delete_all("/noise/");
    fleet.etcd.free_space();
    wait_until("a change can be made", || change(&mut admin, "second").is_ok());
    fleet.wait_until_all_run("second");
}

#[test]
fn a_member_whose_clock_is_off_by_an_hour_is_a_member_like_others() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut added = Vec::new();
    for (node, seconds) in [("late", -3_600), ("early", 3_600)] {
        let (source, library) =
            (folder.path().join(format!("{node}.c")), folder.path().join(format!("{node}.so")));
        fs::write(&source, CLOCK.replace("OFFSET", &seconds.to_string())).expect("a file");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        if !compiled.is_ok_and(|status| status.success()) {
            eprintln!("there is no C compiler");
            return;
        }
        let settings = fleet.settings(node);
        let config = fleet.config.clone().line(&format!("fleet = {{ {settings} }}"));
        let config = config.environment("LD_PRELOAD", library.to_str().expect("a path"));
        added.push(fleet.members.len());
        fleet.members.push(Narrows::start(BINARY, &config));
    }
    fleet.wait_until_all_run("first");
    for (number, member) in added.iter().enumerate() {
        change_surely(&mut fleet.admin(*member), &format!("by{number}"));
        fleet.wait_until_all_run(&format!("by{number}"));
    }
    // The age of a report is by both clocks; nothing else depends on them.
    wait_until("all report", || {
        fleet.shown(0).values().filter(|[_, state, ..]| state == "in force").count() == 4
    });
    let rows = texts(fleet.admin(0).query("SHOW NARROWS FLEET").text_rows());
    let age = |node: &str| -> i64 {
        let row = rows.iter().find(|row| row[0] == node).expect("its row");
        row[8].parse().expect("a number")
    };
    assert!(age("late") >= 3_590 && age("early") == 0, "{rows:?}");
    // A trial begins and ends on them too.
    let mut admin = fleet.admin(added[0]);
    super::edit(&mut admin, "tried");
    let token = super::plan(&mut admin);
    let statement = format!("NARROWS APPLY PLAN '{token}' CANARY 'early,n1' FOR 1s");
    wait_until("it is tried, and kept", || super::apply(&mut admin, &statement).is_ok());
    fleet.wait_until_all_run("tried");
}

/// A clock that is off.
const CLOCK: &str = "#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME) time->tv_sec += OFFSET;
    return failed;
}
";
