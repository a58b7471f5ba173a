//! `narrows check` as a gate: several files, standard input, JSON, exit status.

mod connect;
mod kept_elsewhere;
pub(crate) mod schema;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use narrows_testkit::TempFolder;
use serde_json::Value;

const FINE: &str =
    "mysql_servers = ( { address=\"127.0.0.1\", hostgroup=0 } )\nmysql_users = ( { username=\"app\" } )\n";
const WARNED: &str = "mysql_servers = ( { address=\"127.0.0.1\", hostgroup=0, wieght=1 } )\nmysql_users = ( { username=\"app\" } )\n";
const WRONG: &str = "mysql_variables = { threads = 1000 }\n";

/// Runs `narrows check`, with `input` on its standard input.
fn check(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command.arg("check").args(arguments).env_remove("NARROWS_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the program starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    // A check that does not read it closes the pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    process.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its findings in JSON.
fn findings(output: &Output) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", stdout(output));
    });
    document.as_array().expect("an array").clone()
}

/// Files with these texts, and their paths.
struct Files(TempFolder);

impl Files {
    fn with(files: &[(&str, &str)]) -> Files {
        let folder = TempFolder::new("check");
        for (name, text) in files {
            std::fs::write(folder.file(name), text).expect("a file");
        }
        Files(folder)
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.file(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

#[test]
fn each_of_several_files_is_reported_by_its_name() {
    let files = Files::with(&[("fine.cnf", FINE), ("warned.cnf", WARNED), ("wrong.cnf", WRONG)]);
    let [fine, warned, wrong] = ["fine.cnf", "warned.cnf", "wrong.cnf"].map(|name| files.path(name));
    let output = check(&[&fine, &warned, &wrong, "/nonexistent/a.toml"], "");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "{fine}: can be started: 0 errors, 0 warnings\n\
         {warned}:1:55: warning: ignored: there is no column `wieght` in mysql_servers; did you mean `weight`?\n\
         {warned}: can be started: 0 errors, 1 warning\n\
         {wrong}: warning: mysql_servers has no rows: statements have nowhere to go\n\
         {wrong}: warning: mysql_users has no active rows: no client can log in\n\
         {wrong}:1:31: error: threads: expected an integer from 0 to 255, found 1000\n\
         {wrong}: cannot be started: 1 error, 2 warnings\n\
         /nonexistent/a.toml: error: cannot be read: No such file or directory (os error 2)\n\
         /nonexistent/a.toml: cannot be started: 1 error, 0 warnings\n"
    );
    assert_eq!(stdout(&output), expected);
}

#[test]
fn the_exit_status_says_whether_the_check_succeeds() {
    let files =
        Files::with(&[("fine.cnf", FINE), ("warned.cnf", WARNED), ("wrong.cnf", WRONG), ("empty.toml", "")]);
    let status = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments
            .iter()
            .map(
                |argument| if argument.contains('.') { files.path(argument) } else { (*argument).to_owned() },
            )
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        check(&arguments, FINE).status.code()
    };
    assert_eq!(status(&["fine.cnf"]), Some(0));
    assert_eq!(status(&["--strict", "fine.cnf"]), Some(0));
    assert_eq!(status(&["warned.cnf"]), Some(0));
    assert_eq!(status(&["--strict", "warned.cnf"]), Some(1));
    assert_eq!(status(&["fine.cnf", "--strict", "warned.cnf", "--json"]), Some(1));
    assert_eq!(status(&["empty.toml"]), Some(0));
    assert_eq!(status(&["--strict", "empty.toml"]), Some(1));
    assert_eq!(status(&["wrong.cnf", "fine.cnf"]), Some(1));
    assert_eq!(status(&["wrong.cnf", "--json"]), Some(1));
    for wrong_usage in [&[][..], &["--strict"], &["--no-such-flag", "fine.cnf"], &["-", "-"]] {
        assert_eq!(status(wrong_usage), Some(2), "{wrong_usage:?}");
    }
}

#[test]
fn standard_input_is_a_file_of_that_name() {
    let output = check(&["-"], "[mysql_variables]\nthreads = 'x'\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("<stdin>:2:11: error: threads: expected"), "{}", stdout(&output));
    assert!(
        stdout(&output).ends_with("<stdin>: cannot be started: 1 error, 2 warnings\n"),
        "{}",
        stdout(&output)
    );
    let output = check(&["-", "--strict"], FINE);
    assert_eq!(stdout(&output), "<stdin>: can be started: 0 errors, 0 warnings\n");
    assert!(output.status.success());
}

#[test]
fn json_has_an_object_for_each_finding() {
    let files = Files::with(&[("warned.cnf", WARNED), ("wrong.cnf", WRONG)]);
    let [warned, wrong] = ["warned.cnf", "wrong.cnf"].map(|name| files.path(name));
    let output = check(&["--json", &warned, &wrong, "-"], FINE);
    assert_eq!(output.status.code(), Some(1));
    let found = findings(&output);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert_eq!(
        found[0],
        serde_json::json!({
            "file": warned, "line": 1, "column": 55, "severity": "warning", "key": "mysql_servers.wieght",
            "message": "ignored: there is no column `wieght` in mysql_servers; did you mean `weight`?",
        })
    );
    assert_eq!(
        found[1],
        serde_json::json!({
            "file": wrong, "severity": "warning", "key": "mysql_servers",
            "message": "mysql_servers has no rows: statements have nowhere to go",
        })
    );
    let error = (&found[3]["severity"], &found[3]["key"], &found[3]["line"]);
    assert_eq!(error, (&"error".into(), &"threads".into(), &1.into()));
    let output = check(&["--json", "-"], FINE);
    assert!(findings(&output).is_empty() && output.status.success());
}

#[test]
fn help_says_what_the_exit_status_means() {
    let output = check(&["--help"], "");
    let said = stdout(&output);
    for part in ["--strict", "--json", "Exit status: 0 ", "standard input"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning_at_a_check_and_at_a_load_alike() {
    let rules = "mysql_query_rules = ( { rule_id=1, username=\"ap\" } )\n";
    let output = check(&["-"], &format!("{FINE}{rules}"));
    let message = "rule 1: username is \"ap\", which no client meets, so the rule never matches: mysql_users has no such \
                   active account";
    assert!(stdout(&output).contains(message), "{}", stdout(&output));
    let config = narrows_testkit::NarrowsConfig::new().server(0, 1, "").user("app", "app", "");
    let narrows = crate::support::start(&config);
    let mut admin = narrows.admin();
    admin.query("INSERT INTO mysql_query_rules (rule_id, active, username) VALUES (1, 1, 'ap')");
    admin.query("LOAD MYSQL QUERY RULES TO RUNTIME");
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    assert!(warnings.iter().flatten().flatten().any(|cell| cell == message), "{warnings:?}");
    // An account with that name ends it.
    admin.query("INSERT INTO mysql_users (username, password) VALUES ('ap', 'x')");
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    assert!(warnings.is_empty(), "{warnings:?}");
}
