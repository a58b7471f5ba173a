//! A full disk: what is stored there stays, what was to be stored is not lost, and everything continues when there is
//! space again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig, RawClient, kill, wait_until};

use super::{all_done, narrows, refusal, rows, start};

/// How many statements the digests count, excluding the administrator's.
fn counted(admin: &mut RawClient, table: &str) -> String {
    let query = format!("SELECT COALESCE(SUM(count_star), 0) FROM {table} WHERE digest_text LIKE 'DO %'");
    rows(admin, &query)[0][0].clone()
}

#[test]
fn digests_are_there_until_they_are_stored() {
    let (_server, mut narrows) = narrows();
    let mut client = narrows.client();
    (0..7).for_each(|_| assert!(client.query("DO 1").error().is_none()));
    let mut admin = narrows.admin();
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest"), "7");

    narrows.process().limit_file_size(Some(0));
    let (code, text) = refusal(&admin.query("SAVE MYSQL DIGEST TO DISK"));
    assert_eq!(code, 1045, "{text}");
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest"), "7", "they are counted on");
    assert!(client.query("DO 1").error().is_none(), "clients do not notice");

    narrows.process().limit_file_size(None);
    all_done(&mut admin, &["SAVE MYSQL DIGEST TO DISK"]);
    assert_eq!(counted(&mut admin, "stats_history.history_mysql_query_digest"), "8");
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest"), "0");
}

#[test]
fn figures_begin_again_only_when_they_were_told() {
    let (_server, narrows) = narrows();
    let mut client = narrows.client();
    (0..3).for_each(|_| assert!(client.query("DO 1").error().is_none()));
    let (mut admin, mut stats) = (narrows.admin(), narrows.stats());
    let endless = "SELECT COUNT(*) FROM stats_mysql_query_digest_reset, \
                   (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n)";
    assert_eq!(refusal(&stats.query("SELECT no_such FROM stats_mysql_query_digest_reset")).0, 1045);
    assert_eq!(refusal(&stats.query("SELECT no_such FROM stats_mysql_connection_pool_reset")).0, 1045);
    assert_eq!(refusal(&stats.query(endless)).0, 1045);
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest"), "3");
    let queries = rows(&mut admin, "SELECT SUM(Queries) > 0 FROM stats_mysql_connection_pool");
    assert_eq!(queries, [["1"]]);
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest_reset"), "3");
    assert_eq!(counted(&mut admin, "stats_mysql_query_digest"), "0");
}

#[test]
fn a_configuration_file_is_replaced_as_a_whole_or_stays() {
    let (_server, mut narrows) = narrows();
    let mut admin = narrows.admin();
    let folder = narrows.folder().join("saved");
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("saved.cnf");
    let save = format!("SAVE CONFIG TO FILE {}", path.display());
    all_done(&mut admin, &[&save, "INSERT INTO mysql_users (username) VALUES ('another')"]);
    let before = std::fs::read_to_string(&path).expect("it is saved");
    assert!(before.contains("sbtest") && !before.contains("another"));

    narrows.process().limit_file_size(Some(64));
    let (code, text) = refusal(&admin.query(&save));
    assert_eq!(code, 1045);
    assert!(text.contains("File too large"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file exists"), before);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1, "no file is left");

    narrows.process().limit_file_size(None);
    all_done(&mut admin, &[&save]);
    assert!(std::fs::read_to_string(&path).expect("the file exists").contains("another"));
}

#[test]
fn what_cannot_be_saved_is_an_error_and_is_saved_when_there_is_room() {
    let (_server, mut narrows) = narrows();
    let mut admin = narrows.admin();
    all_done(&mut admin, &["INSERT INTO mysql_users (username) VALUES ('another')"]);
    narrows.process().limit_file_size(Some(0));
    for module in ["MYSQL USERS", "MYSQL SERVERS", "MYSQL QUERY RULES", "MYSQL VARIABLES"] {
        assert_eq!(refusal(&admin.query(format!("SAVE {module} TO DISK"))).0, 1045, "{module}");
    }
    all_done(&mut admin, &["LOAD MYSQL USERS TO RUNTIME"]);
    narrows.process().limit_file_size(None);
    assert_eq!(rows(&mut admin, "SELECT COUNT(*) FROM disk.mysql_users"), [["1"]]);
    all_done(&mut admin, &["SAVE MYSQL USERS TO DISK"]);
    assert_eq!(rows(&mut admin, "SELECT COUNT(*) FROM disk.mysql_users"), [["2"]]);
}

#[test]
fn administrators_are_served_after_a_crash_on_a_full_disk() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port()).supervised().small_disk(16 << 20);
    let narrows = start(&config);
    // The machine's own disk must not be filled.
    if !narrows.has_small_disk() {
        return;
    }
    let filler = narrows.fill_small_disk();
    for _ in 0..2 {
        let worker = narrows.worker();
        let before = narrows.log().len();
        kill(worker);
        narrows.wait_for_log(before, |line| line.contains("administrators are served"));
    }

    let mut admin = narrows.admin();
    all_done(
        &mut admin,
        &["INSERT INTO mysql_users (username) VALUES ('another')", "LOAD MYSQL USERS TO RUNTIME"],
    );
    assert_eq!(refusal(&admin.query("SAVE MYSQL USERS TO DISK")).0, 1045);
    std::fs::remove_file(filler).expect("the file exists");
    all_done(&mut admin, &["SAVE MYSQL USERS TO DISK"]);
    assert_eq!(rows(&mut admin, "SELECT COUNT(*) FROM disk.mysql_users"), [["2"]]);
}

#[test]
fn an_upgrade_on_a_full_disk_leaves_the_pid_file_and_goes_on() {
    let server = FakeMysql::start(Conversation::new().on("DO 1", &[Move::ok()]));
    let config = NarrowsConfig::in_front_of(server.port()).supervised().pidfile("n.pid").small_disk(16 << 20);
    let mut narrows = start(&config);
    // The machine's own disk must not be filled.
    if !narrows.has_small_disk() {
        return;
    }
    let pid = format!("{}\n", narrows.process().pid());
    assert_eq!(std::fs::read_to_string(narrows.data_file("n.pid")).expect("it is written"), pid);
    let filler = narrows.fill_small_disk();
    // The second one needs a supervisor that has survived the first.
    for round in 0..2 {
        let before = narrows.log().len();
        let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["upgrade", "-D"])
            .arg(narrows.data_file(""))
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "round {round}: {output:?}\n{}", narrows.log());
        narrows.wait_for_log(before, |line| line.contains(" starting version="));
    }
    wait_until("the supervisor listens again", || narrows.data_file("narrows.control").exists());
    assert!(narrows.process().try_wait().is_none(), "{}", narrows.log());
    narrows.client().query("DO 1").ok().expect("clients are served");
    for file in ["n.pid", "narrows.lock"] {
        assert_eq!(std::fs::read_to_string(narrows.data_file(file)).expect("the file exists"), pid, "{file}");
    }
    assert!(!narrows.log().contains("pid file"), "{}", narrows.log());
    std::fs::remove_file(filler).expect("the file exists");
}

#[test]
fn the_query_log_has_whole_lines_and_few_files() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("eventslog_filename", "queries")
        .variable("eventslog_default_log", "1");
    let mut narrows = start(&config);
    let mut client = narrows.client();
    let folder = narrows.folder().to_owned();
    client.query("DO 'first'");
    wait_until("the first line is there", || logged(&folder).contains("first"));

    let size = std::fs::metadata(&files(&folder)[0]).expect("a file").len();
    narrows.process().limit_file_size(Some(size + 40));
    let skipped = narrows.log().len();
    // Longer than the pause before a log that could not be written is retried.
    let end = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < end {
        client.query("DO 'lost'");
    }
    narrows.process().limit_file_size(None);
    wait_until("it is written again", || {
        client.query("DO 'last'");
        logged(&folder).contains("last")
    });

    assert_eq!(files(&folder).len(), 1);
    for line in logged(&folder).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    let line = narrows.wait_for_log(skipped, |line| line.contains("the query log is written again"));
    assert!(line.contains("lost="), "{line}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("queries.")));
    files
}

fn logged(folder: &Path) -> String {
    files(folder).iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
}
