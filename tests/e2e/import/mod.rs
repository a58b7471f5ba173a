//! `narrows import`: from an admin port, a database and a file, with a report of everything.

mod admin_port;
mod public;
mod rules;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use narrows_testkit::{Monitor, Narrows, TempFolder};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// Runs `narrows import` in `folder`.
fn import(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("import").args(arguments).current_dir(folder).env_remove("NARROWS_LOG");
    command.stdin(Stdio::null()).output().expect("the program runs")
}

/// The report, as JSON, of an import that must succeed.
fn report(folder: &Path, arguments: &[&str]) -> Value {
    let output = import(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The one line that an import fails with.
fn failure(folder: &Path, arguments: &[&str]) -> String {
    let output = import(folder, arguments);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    let error = text(&output.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
    error
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sentences under a key of the report.
fn sentences(report: &Value, key: &str) -> Vec<String> {
    let list = report[key].as_array().unwrap_or_else(|| panic!("{key}: {report}"));
    list.iter().map(|sentence| sentence.as_str().expect("a sentence").to_owned()).collect()
}

/// The tables that are carried over, with their rows.
fn carried_over(report: &Value) -> Vec<(String, u64)> {
    let tables = report["carried_over"].as_array().expect("a list").iter();
    let row = |row: &Value| {
        (row["table"].as_str().expect("a name").to_owned(), row["rows"].as_u64().expect("rows"))
    };
    tables.map(row).collect()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Starts Narrows with an imported narrows.toml, on ports of its own.
fn start(toml: &str) -> Narrows {
    Narrows::start_with(BINARY, Monitor::Off, |interfaces, admin| {
        let own = ["interfaces = ", "mysql_ifaces = ", "admin_credentials = ", "threads = "];
        let kept = toml.lines().filter(|line| !own.iter().any(|name| line.starts_with(name)));
        let mut text = String::from("drain_timeout = 0\n");
        kept.for_each(|line| text.extend([line, "\n"]));
        for (section, line) in [
            ("[admin_variables]", format!("mysql_ifaces = \"{admin}\"")),
            ("[mysql_variables]", format!("interfaces = \"{interfaces}\"\nthreads = 1")),
        ] {
            match text.contains(section) {
                true => text = text.replace(section, &format!("{section}\n{line}")),
                false => text.push_str(&format!("\n{section}\n{line}\n")),
            }
        }
        text
    })
}

#[test]
fn a_report_writes_nothing_and_names_what_would_become_of_everything() {
    let folder = TempFolder::new("import");
    let file = "mysql_servers = ( { address=\"a\", hostgroup=0 } )\n\
                mysql_users = ( { username=\"app\", password=\"of-app\", fast_forward=1 } )\n\
                restapi = ( { id=1, timeout_ms=1000, method=\"GET\", uri=\"x\", script=\"/bin/true\" } )\npgsql_users = ( )\n";
    fs::write(folder.file("proxysql.cnf"), file).expect("a file");
    let output = import(folder.path(), &["proxysql.cnf", "--report"]);
    let said = text(&output.stdout);
    for expected in [
        "Carried over from proxysql.cnf:\n  mysql_servers: 1 row\n  mysql_users: 1 row\n  restapi_routes: 1 row\n",
        "Not carried over:\n  proxysql.cnf:4:1: warning: ignored: `pgsql_users` is not read",
        "Works differently in Narrows:\n  mysql_users.fast_forward = 1 (1): LOAD DATA LOCAL is refused",
        "Carried over, and does nothing in Narrows:\n  restapi_routes (1 row) has no effect in this version",
        "Nothing was written.\n",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(!said.contains("of-app"), "{said}");
    assert_eq!(files(folder.path()), ["proxysql.cnf"]);
}

#[test]
fn a_file_is_written_that_narrows_starts_with() {
    let folder = TempFolder::new("import");
    let file = "admin_variables = { admin_credentials=\"admin:of-admin\" }\nmysql_variables = { max_connections=77 }\n\
                mysql_servers = ( { address=\"a\\\"b\", hostgroup=3, comment=\"it's\" } )\n\
                mysql_users = ( { username=\"app\", password=\"of\\\\app\" } )\n";
    fs::write(folder.file("proxysql.cnf"), file).expect("a file");
    let written = report(folder.path(), &["proxysql.cnf", "--output", "narrows.toml"]);
    assert_eq!(written["written"], "narrows.toml");
    let mode = fs::metadata(folder.file("narrows.toml")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let toml = fs::read_to_string(folder.file("narrows.toml")).expect("a file");
    assert_eq!(
        toml.lines().skip(3).collect::<Vec<_>>().join("\n"),
        "[admin_variables]\nadmin_credentials = \"admin:of-admin\"\n\n[mysql_variables]\nmax_connections = 77\n\n\
         [[mysql_servers]]\nhostgroup_id = 3\nhostname = \"a\\\"b\"\ncomment = \"it's\"\n\n\
         [[mysql_users]]\nusername = \"app\"\npassword = \"of\\\\app\""
    );
    let narrows = start(&toml);
    let rows = narrows.admin().query("SELECT hostname, comment FROM runtime_mysql_servers").text_rows();
    assert_eq!(rows, [[Some("a\"b".to_owned()), Some("it's".to_owned())]]);
    assert!(
        failure(folder.path(), &["proxysql.cnf", "--output", "narrows.toml"]).contains("narrows.toml exists")
    );
    report(folder.path(), &["proxysql.cnf", "--output", "narrows.toml", "--force"]);
}

#[test]
fn a_data_folder_that_is_not_there_is_created_for_its_owner() {
    let folder = TempFolder::new("import");
    fs::write(folder.file("proxysql.cnf"), "mysql_variables = { max_connections=77 }\n").expect("a file");
    let output = import(folder.path(), &["proxysql.cnf", "-D", "new/data"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("  narrows -f -D new/data\n"), "{}", text(&output.stdout));
    assert_eq!(files(&folder.file("new/data")), ["narrows.db", "narrows_stats.db"]);
    let mode = fs::metadata(folder.file("new/data")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let again = failure(folder.path(), &["proxysql.cnf", "-D", "new/data"]);
    assert!(again.contains("holds a configuration already"), "{again}");
}

#[test]
fn what_cannot_be_imported_is_one_sentence_and_leaves_nothing() {
    let folder = TempFolder::new("import");
    fs::create_dir(folder.file("data")).expect("a folder");
    fs::write(folder.file("noise.db"), [0xA7; 4096]).expect("a file");
    fs::write(folder.file("cut.db"), b"SQLite format 3\0").expect("a file");
    fs::write(folder.file("wrong.cnf"), "mysql_variables = { threads=\"\x1b[2J many\" }\n").expect("a file");
    for (source, expected) in [
        ("noise.db", "noise.db cannot be used: file is not a database"),
        ("cut.db", "cut.db cannot be used: file is not a database"),
        ("missing.db", "missing.db cannot be used"),
        ("data", "data is not a regular file"),
        ("/dev/zero", "/dev/zero is not a regular file"),
    ] {
        let error = failure(folder.path(), &[source, "-D", "data"]);
        assert!(error.contains(expected), "{error}");
        assert_eq!(files(&folder.file("data")), Vec::<String>::new(), "{source}");
    }
    let output = import(folder.path(), &["wrong.cnf", "-D", "data"]);
    let error = text(&output.stderr);
    assert!(error.contains("wrong.cnf:1:29: error: threads: expected an integer"), "{error}");
    assert!(!error.contains('\x1b'), "{error:?}");
    assert_eq!(files(&folder.file("data")), Vec::<String>::new());
}

#[test]
fn a_pipe_that_is_included_is_an_error() {
    let folder = TempFolder::new("import");
    let made = std::process::Command::new("mkfifo").arg(folder.file("pipe")).status();
    assert!(made.expect("mkfifo").success());
    fs::write(folder.file("a.cnf"), "@include \"pipe\"\n").expect("a file");
    assert!(text(&import(folder.path(), &["a.cnf", "--report"]).stderr).contains("it is a pipe"));
}
