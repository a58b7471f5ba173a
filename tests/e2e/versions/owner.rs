//! Sections that the configuration file owns: who may change them, and what takes them from the file.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use narrows_testkit::{Endpoint, Monitor, Narrows, NarrowsConfig, RawClient, kill, wait_until};

use super::{all_layers, apply, differences, plan};

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

fn start(managed: &str) -> Narrows {
    let config = NarrowsConfig::in_front_of(3306);
    Narrows::start_with(BINARY, Monitor::Off, |interfaces, admin| {
        format!("managed = ( {managed} )\n{}", config.text(interfaces, admin))
    })
}

fn file(narrows: &Narrows) -> PathBuf {
    narrows.folder().join("narrows.cnf")
}

fn write(narrows: &Narrows, from: &str, to: &str) {
    let text = fs::read_to_string(file(narrows)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file(narrows), text.replace(from, to)).unwrap();
}

fn run(verb: &str, narrows: &Narrows, file: &str, more: &[&str]) -> (bool, String) {
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("no TCP") };
    let mut command = Command::new(BINARY);
    command.arg(verb).arg(file).arg(address.to_string()).args(more);
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn state(admin: &mut RawClient, section: &str) -> String {
    let rows = admin.query("SHOW NARROWS MANAGED").text_rows();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(section)).expect("the section");
    row[4].clone().unwrap_or_default()
}

#[test]
fn what_the_file_owns_is_read_only_and_the_error_says_who_owns_it() {
    let narrows = start("\"servers\", \"mysql_users\"");
    let mut admin = narrows.admin();
    let before = all_layers(&mut admin);
    let path = file(&narrows).display().to_string();
    for statement in [
        "INSERT INTO mysql_servers (hostname) VALUES ('x')",
        "REPLACE INTO main.mysql_servers (hostname) VALUES ('x')",
        "INSERT INTO disk.mysql_users (username) VALUES ('x')",
        "WITH x AS (SELECT 'x') INSERT INTO mysql_users (username) SELECT * FROM x",
        "UPDATE mysql_users SET password = 'x'",
        "DELETE FROM mysql_hostgroup_attributes",
        "SAVE MYSQL USERS TO MEMORY",
        "SAVE MYSQL SERVERS FROM RUNTIME",
    ] {
        let refused = admin.query(statement).error().expect(statement).message;
        assert!(refused.contains(&path) && refused.contains("narrows apply"), "{statement}: {refused}");
    }
    let included = narrows.folder().join("included.cnf");
    fs::write(&included, "restapi_routes = ()\n").unwrap();
    write(&narrows, "managed = (", "@include \"included.cnf\"\nmanaged = (");
    for path in [&path, &included.display().to_string()] {
        let refused = admin.query(format!("SAVE CONFIG TO FILE {path}")).error().expect("it owns sections");
        assert!(refused.message.contains("is not written"), "{refused:?}");
    }
    for statement in [
        "LOAD MYSQL SERVERS TO RUNTIME",
        "SAVE MYSQL SERVERS TO DISK",
        "LOAD MYSQL USERS FROM DISK",
        "LOAD MYSQL USERS FROM CONFIG",
        "LOAD MYSQL USER sbtest TO RUNTIME",
    ] {
        admin.query(statement).ok().expect(statement);
    }
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    // The rest is free.
    for statement in [
        "SET mysql-max_connections = 99",
        "LOAD MYSQL VARIABLES TO RUNTIME",
        "SAVE MYSQL VARIABLES TO DISK",
        "INSERT INTO mysql_query_rules (rule_id, active, apply) VALUES (1, 1, 1)",
        "LOAD MYSQL QUERY RULES TO RUNTIME",
        "NARROWS ROLLBACK TO 1",
        "PROXYSQL READONLY",
        "PROXYSQL READWRITE",
    ] {
        admin.query(statement).ok().expect(statement);
    }
    assert_eq!(state(&mut admin, "servers"), "in force");
    assert_eq!(state(&mut admin, "rules"), "administrators change it");
}

#[test]
fn owned_variables_are_read_only_and_those_of_the_other_kind_are_free() {
    let narrows = start("\"admin_variables\"");
    let mut admin = narrows.admin();
    for statement in [
        "SET admin-log_level = 'debug'",
        "PROXYSQL READONLY",
        "UPDATE global_variables SET variable_value = 1",
    ] {
        let refused = admin.query(statement).error().expect(statement).message;
        assert!(refused.contains("owns the section admin_variables"), "{statement}: {refused}");
    }
    admin.query("SET mysql-max_connections = 99").ok().expect("it is free");
    assert_eq!(admin.query("SELECT @@mysql-max_connections").cell().as_deref(), Some("99"));
    // For everybody who may not set anything, the reason is another one.
    assert!(narrows.stats().query("SET admin-log_level = 'debug'").error().is_some());
}

#[test]
fn only_the_file_that_owns_a_section_is_applied_to_it() {
    let narrows = start("\"servers\"");
    let mut admin = narrows.admin();
    let owner = file(&narrows).display().to_string();
    let other = narrows.folder().join("other.cnf").display().to_string();
    fs::write(&other, "mysql_servers = ( { hostgroup=0 hostname=\"10.0.0.9\" } )").unwrap();
    let (token, rows) = plan(&mut admin, &format!("NARROWS PLAN FILE '{other}'"));
    let warned = |row: &Vec<Option<String>>| {
        row[0].as_deref() == Some("warning") && row[3].as_deref().is_some_and(|text| text.contains(&owner))
    };
    assert!(rows.iter().any(warned), "{rows:?}");
    let refused = admin.query(format!("NARROWS APPLY PLAN '{token}'")).error().expect("it is not the owner");
    assert!(refused.message.contains(&owner), "{refused:?}");
    let (done, said) = run("apply", &narrows, &other, &["--yes"]);
    assert!(!done && said.contains("owns the section servers"), "{said}");
    // The owner itself.
    write(&narrows, "address=\"127.0.0.1\"", "address=\"10.0.0.2\"");
    assert!(state(&mut admin, "servers").contains("was not applied"));
    let (done, said) = run("apply", &narrows, &owner, &["--yes"]);
    assert!(done && said.contains("version 2 is in force"), "{said}");
    assert_eq!(state(&mut admin, "servers"), "in force");
    for layer in ["main.", "disk.", "runtime_"] {
        let servers = admin.query(format!("SELECT hostname FROM {layer}mysql_servers")).cell();
        assert_eq!(servers.as_deref(), Some("10.0.0.2"), "{layer}");
    }
    let refused = admin.query("NARROWS ROLLBACK TO 1").error().expect("version 1 has other servers");
    assert!(refused.message.contains(&owner), "{refused:?}");
    // A plan of something free.
    fs::write(&other, "mysql_query_rules = ( { rule_id=1 active=1 apply=1 } )").unwrap();
    let (token, _) = plan(&mut admin, &format!("NARROWS PLAN FILE '{other}'"));
    apply(&mut admin, &token);
    // A plan that is made, and a file that changes before it is applied.
    write(&narrows, "10.0.0.2", "10.0.0.3");
    let (token, _) = plan(&mut admin, &format!("NARROWS PLAN FILE '{owner}'"));
    write(&narrows, "10.0.0.3", "10.0.0.4");
    assert!(admin.query(format!("NARROWS APPLY PLAN '{token}'")).error().is_some());
    admin.query("LOAD MYSQL SERVERS FROM CONFIG").ok().expect("the file as it is now");
    admin.query("LOAD MYSQL SERVERS TO RUNTIME").ok().expect("the file as it is now");
    assert_eq!(admin.query("SELECT hostname FROM runtime_mysql_servers").cell().as_deref(), Some("10.0.0.4"));
}

#[test]
fn a_start_takes_owned_sections_from_the_file_and_a_killed_worker_process_changes_nothing() {
    let mut narrows = start("\"servers\"");
    let mut admin = narrows.admin();
    admin.query("UPDATE mysql_users SET comment = 'by hand'").ok().expect("it is free");
    admin.query("SAVE MYSQL USERS TO DISK").ok().expect("it is free");
    write(&narrows, "address=\"127.0.0.1\"", "address=\"10.0.0.2\"");
    narrows.process().kill();
    narrows.start_again(BINARY);
    let shown = |narrows: &Narrows| {
        let mut admin = narrows.admin();
        let servers = admin.query("SELECT hostname FROM runtime_mysql_servers").cell();
        (servers, admin.query("SELECT comment FROM mysql_users").cell())
    };
    let expected = (Some("10.0.0.2".to_owned()), Some("by hand".to_owned()));
    assert_eq!(shown(&narrows), expected);
    // The next process owns the same, whatever the file says meanwhile.
    write(&narrows, "address=\"10.0.0.2\"", "address=");
    let worker = narrows.worker();
    kill(worker);
    wait_until("another worker process serves", || narrows.worker() != worker);
    wait_until("administrators are served", || RawClient::try_connect(&narrows.admin_endpoint()).is_ok());
    assert_eq!(shown(&narrows), expected);
    let refused = narrows.admin().query("DELETE FROM mysql_servers").error().expect("it is owned");
    assert!(refused.message.contains("owns the section servers"), "{refused:?}");
}

#[test]
fn a_list_that_cannot_be_followed_is_an_error_of_narrows_check() {
    let folder = narrows_testkit::TempFolder::new("owner");
    let servers = "[[mysql_servers]]\nhostgroup_id = 0\nhostname = \"a\"\n";
    for (text, expected) in [
        (format!("managed = [\"serverz\"]\n{servers}"), "did you mean `servers`?"),
        (format!("managed = \"servers\"\n{servers}"), "a list of some of servers, users"),
        (format!("managed = [\"users\"]\n{servers}"), "`mysql_users = []`"),
        (format!("managed = [\"variables\"]\n{servers}"), "`[mysql_variables]`"),
        (format!("{servers}managed = [\"servers\"]\n"), "at the top of the file"),
        (format!("[mysql_variables]\nmanaged = [\"servers\"]\n{servers}"), "at the top of the file"),
    ] {
        let path = folder.file("narrows.toml");
        fs::write(&path, &text).unwrap();
        let output = Command::new(BINARY).arg("check").arg(&path).output().expect("the program starts");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{text}: {said}");
    }
}
