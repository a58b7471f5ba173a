//! `narrows.db` with crashes, damage, and full or unwritable disks.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use narrows_control::schema::{Layer, Module};
use narrows_control::store::{Answer, OpenError, Opening, Start, Store};
use rand::Rng;

fn open(datadir: &Path) -> Result<Store, OpenError> {
    Store::open(Opening { datadir, file: None, start: Start::Usual, uuid: None })
}

fn done(store: &mut Store, text: &str) {
    let answer = store.sql(text).expect(text);
    assert!(matches!(answer, Answer::Done { .. }), "{text}");
}

fn rows(store: &mut Store, text: &str) -> Vec<Vec<String>> {
    let Ok(Answer::Rows(answer)) = store.sql(text) else { panic!("{text}") };
    let text = |cell: Option<Vec<u8>>| String::from_utf8(cell.unwrap_or_default()).unwrap();
    answer.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

/// Runs one of the ignored tests below in a separate process.
fn child(name: &str, datadir: &Path, limit_to: Option<u32>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("NARROWS_TEST_DATADIR", datadir).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(user) = limit_to {
        command.uid(user);
    }
    command.spawn().unwrap()
}

fn datadir_of_child() -> std::path::PathBuf {
    std::env::var_os("NARROWS_TEST_DATADIR").expect("run by another test").into()
}

const ROWS: u32 = 400;

#[test]
#[ignore = "the process that is killed"]
fn saves_without_end() {
    let mut store = open(&datadir_of_child()).unwrap();
    let comment = rows(&mut store, "SELECT MAX(CAST(comment AS INT)) FROM disk.mysql_servers");
    let first: u64 = comment[0][0].parse().unwrap_or(0);
    for number in first + 1.. {
        done(&mut store, "DELETE FROM mysql_servers");
        let servers = format!(
            "INSERT INTO mysql_servers (hostgroup_id, hostname, comment) WITH RECURSIVE c(x) AS
             (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {ROWS}) SELECT x, 'host' || x, {number} FROM c"
        );
        done(&mut store, &servers);
        done(
            &mut store,
            &format!("INSERT OR REPLACE INTO global_variables VALUES ('mysql-init_connect', '{number}')"),
        );
        store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).unwrap();
        store.copy(Module::MysqlVariables, Layer::Memory, Layer::Disk).unwrap();
        println!("\nsaved {number}");
    }
}

#[test]
fn what_was_saved_survives_being_killed_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = rand::rng();
    let mut saved = 0;
    for round in 0..40 {
        let mut process = child("saves_without_end", folder.path(), None);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let numbers = lines.filter_map(|line| line.strip_prefix("saved ")?.parse::<u64>().ok());
        // Some rounds end before anything is saved, and all of them end during a save.
        for number in numbers.take(rng.random_range(0..6)) {
            saved = number;
        }
        // This waits for nothing, but kills the process at a random time.
        std::thread::sleep(std::time::Duration::from_micros(rng.random_range(0..30_000)));
        process.kill().unwrap();
        process.wait().unwrap();

        let mut store = open(folder.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let found = rows(&mut store, "SELECT COUNT(*), MIN(comment), MAX(comment) FROM disk.mysql_servers");
        let [count, least, greatest] = found[0].as_slice() else { panic!("{found:?}") };
        assert_eq!(least, greatest, "round {round}: half of a save");
        let found: u64 = greatest.parse().unwrap_or(0);
        assert!(found >= saved, "round {round}: {found} is there, {saved} was saved");
        assert_eq!(count.parse(), Ok(if found == 0 { 0 } else { ROWS }), "round {round}");
        saved = found;
    }
    println!("{saved} saves in 40 rounds");
    assert!(saved > 0);
}

/// The files in a folder with their contents.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name.starts_with("narrows.db"))
        .collect();
    files.sort();
    files
}

fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).unwrap();
    done(&mut store, "INSERT INTO mysql_users (username, comment) VALUES ('a', printf('%90000d', 1))");
    store.copy(Module::MysqlUsers, Layer::Memory, Layer::Disk).unwrap();
    folder
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 4] = [
        ("no database", |bytes| bytes[..100].fill(b'x')),
        ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
        ("pages of zeros", |bytes| bytes[4096..3 * 4096].fill(0)),
        ("pages of noise", |bytes| bytes[4096..12 * 4096].fill(0xA7)),
    ];
    for (damage, inflict) in damages {
        let folder = filled();
        let path = folder.path().join("narrows.db");
        let mut bytes = std::fs::read(&path).unwrap();
        inflict(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let before = contents(folder.path());
        let error = open(folder.path()).expect_err(damage).to_string();
        println!("{damage}: {error}");
        assert!(error.starts_with(&format!("the database {} ", path.display())), "{error}");
        assert_eq!(contents(folder.path()), before, "{damage}: something was written");
    }
}

#[test]
#[ignore = "the process of another user"]
fn opens_once() {
    match open(&datadir_of_child()) {
        Ok(_) => println!("\nopened"),
        Err(error) => println!("\n{error}"),
    }
}

/// A user who is not root: root may write to any file.
const NOBODY: u32 = 65_534;

fn opened_by_nobody(folder: &Path) -> String {
    let user = is_root().then_some(NOBODY);
    let output = child("opens_once", folder, user).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = text.lines().find(|line| *line == "opened" || line.starts_with("the database "));
    answer.unwrap_or_else(|| panic!("no answer: {text}")).to_owned()
}

/// Whether this user can write other users' files.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).unwrap() == 0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_database_that_cannot_be_written_is_refused() {
    let folder = filled();
    let path = folder.path().join("narrows.db");
    let history = folder.path().join("narrows_stats.db");
    for (directory, file, of_history) in [(0o755, 0o444, 0o666), (0o555, 0o666, 0o666), (0o755, 0o000, 0o666)]
    {
        set_mode(&path, file);
        set_mode(&history, of_history);
        set_mode(folder.path(), directory);
        let before = if file == 0 { Vec::new() } else { contents(folder.path()) };
        let said = opened_by_nobody(folder.path());
        println!("{directory:o} {file:o}: {said}");
        assert!(said.starts_with(&format!("the database {} cannot be", path.display())), "{said}");
        set_mode(folder.path(), 0o755);
        set_mode(&path, 0o644);
        if !before.is_empty() {
            assert_eq!(contents(folder.path()), before);
        }
    }
    set_mode(folder.path(), 0o777);
    set_mode(&path, 0o666);
    assert_eq!(opened_by_nobody(folder.path()), "opened");
}
