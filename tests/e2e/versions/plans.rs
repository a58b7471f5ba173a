//! What a plan says, what makes it void, and the program's own commands for it.

use std::fs;
use std::process::{Command, Output};

use narrows_testkit::{Conversation, Endpoint, FakeMysql, Move, Narrows, NarrowsConfig, RawClient};

use super::{all_layers, apply, differences, newest_version, plan};
use crate::support::start;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

const RULES: &str =
    "mysql_query_rules = ( { rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=2 apply=1 } )";

fn narrows(verb: &str, narrows: &Narrows, arguments: &[&str]) -> Output {
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("no TCP") };
    let mut command = Command::new(BINARY);
    command.arg(verb).args(arguments).arg(address.to_string());
    command.output().expect("the program starts")
}

fn saved(of: &Narrows, text: &str) -> String {
    let path = of.folder().join("wanted.cnf");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_plan_changes_nothing_and_is_void_once_anything_else_has_changed() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    let before = all_layers(&mut admin);
    let statement = format!("NARROWS PLAN FILE '{}'", saved(&narrows, RULES));
    let (token, rows) = plan(&mut admin, &statement);
    assert!(rows.iter().any(|row| row[1].as_deref() == Some("mysql_query_rules")), "{rows:?}");
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    // The same plan again has the same token.
    assert_eq!(plan(&mut admin, &statement).0, token);
    admin.query("UPDATE mysql_users SET comment = 'moved'").ok().expect("an edit");
    let refused = admin.query(format!("NARROWS APPLY PLAN '{token}'")).error().expect("something has moved");
    assert!(refused.message.contains("has changed since"), "{refused:?}");
    // What would be lost is said.
    let (token, rows) = plan(&mut admin, &statement);
    let lost = rows.iter().find(|row| row[0].as_deref() == Some("lost edit")).expect("an edit would be lost");
    assert_eq!(lost[4].as_deref(), Some("comment"));
    apply(&mut admin, &token);
    assert_eq!(admin.query("SELECT comment FROM mysql_users").cell().as_deref(), Some(""));
    assert_eq!(admin.query("SELECT count(*) FROM disk.mysql_query_rules").cell().as_deref(), Some("1"));
    assert!(admin.query("NARROWS APPLY PLAN 'nosuch'").error().is_some());
}

#[test]
fn memory_can_be_planned_and_applied_at_once() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    admin.query("SET mysql-max_connections = 55").ok().expect("a variable");
    admin.query("INSERT INTO mysql_users (username, password) VALUES ('more', 'x')").ok().expect("a user");
    let (token, rows) = plan(&mut admin, "NARROWS PLAN");
    assert!(rows.iter().all(|row| row[0].as_deref() == Some("change")), "{rows:?}");
    apply(&mut admin, &token);
    assert!(admin.query("SHOW NARROWS DRIFT").text_rows().is_empty());
    assert_eq!(admin.query("SELECT @@mysql-max_connections").cell().as_deref(), Some("55"));
}

#[test]
fn a_configuration_that_cannot_run_changes_nothing() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    let (before, version) = (all_layers(&mut admin), newest_version(&mut admin));
    let bad = saved(&narrows, &RULES.replace("^SELECT", "(unclosed"));
    let refused = admin.query(format!("NARROWS PLAN FILE '{bad}'")).error().expect("it does not compile");
    assert!(refused.message.contains("unclosed"), "{refused:?}");
    assert!(admin.query("NARROWS PLAN FILE '/no/such/file'").error().is_some());
    assert!(admin.query("NARROWS PLAN CONFIGURATION '{'").error().is_some());
    let strange = r#"NARROWS PLAN CONFIGURATION '{"form":1,"tables":{"nosuch":{"columns":[],"rows":[]}},"variables":{}}'"#;
    assert!(admin.query(strange).error().is_some());
    // In memory, where nobody has checked it.
    admin
        .query("INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) VALUES (1, 1, '(unclosed', 1)")
        .ok()
        .expect("memory takes it");
    let (token, rows) = plan(&mut admin, "NARROWS PLAN");
    assert!(rows.iter().any(|row| row[0].as_deref() == Some("warning")), "{rows:?}");
    let refused =
        admin.query(format!("NARROWS APPLY PLAN '{token}'")).error().expect("a rule would be left out");
    assert!(refused.message.contains("left out"), "{refused:?}");
    admin.query("DELETE FROM mysql_query_rules").ok().expect("as before");
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    assert_eq!(newest_version(&mut admin), version);
}

#[test]
fn what_would_be_missing_or_cannot_be_listened_on_is_not_applied() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    let (before, version) = (all_layers(&mut admin), newest_version(&mut admin));
    for (text, name) in [
        ("mysql_server = ( { address=\"127.0.0.1\" } )", "`mysql_server`"),
        ("mysql_variables = { max_conections=5 }", "`max_conections`"),
        (
            "mysql_query_rules = ( { rule_id=1 active=1 match_digst=\"^X\" destination_hostgroup=2 apply=1 } )",
            "`match_digst`",
        ),
    ] {
        let path = saved(&narrows, text);
        let refused = admin.query(format!("NARROWS PLAN FILE '{path}'")).error().expect("a name is unknown");
        assert!(refused.message.contains(name), "{refused:?}");
        for (verb, arguments) in [("plan", vec![path.as_str()]), ("apply", vec![path.as_str(), "--yes"])] {
            let answer = self::narrows(verb, &narrows, &arguments);
            let said = String::from_utf8_lossy(&answer.stderr);
            assert!(!answer.status.success() && said.contains(name), "{said}");
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address");
    let file = saved(&narrows, &format!("admin_variables = {{ mysql_ifaces=\"{taken}\" }}"));
    let shown = self::narrows("plan", &narrows, &[&file]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    let warning = format!("Warnings:\n  cannot listen on {taken} (admin-mysql_ifaces)");
    assert!(shown.contains(&warning), "{shown}");
    let applied = self::narrows("apply", &narrows, &[&file, "--yes"]);
    assert!(!applied.status.success(), "{applied:?}");
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    assert_eq!(newest_version(&mut admin), version);
}

#[test]
fn a_pipe_is_planned_by_the_program_and_not_by_the_administrators_thread() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    let pipe = narrows.folder().join("pipe").display().to_string();
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let refused = admin.query(format!("NARROWS PLAN FILE '{pipe}'")).error().expect("nobody writes to it");
    assert!(refused.message.contains("no regular file"), "{refused:?}");
    let to = pipe.clone();
    let writer = std::thread::spawn(move || fs::write(to, RULES));
    let planned = self::narrows("plan", &narrows, &[&pipe]);
    writer.join().expect("it ends").expect("written");
    assert!(String::from_utf8_lossy(&planned.stdout).contains("mysql_query_rules"), "{planned:?}");
}

#[test]
fn a_pipe_is_read_once_by_plan_and_by_apply() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let file = saved(&narrows, RULES);
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("no TCP") };
    let piped = |what: &str| {
        let line = format!("cat '{file}' | '{BINARY}' {what} {address}");
        let output = Command::new("sh").args(["-c", &line]).output().expect("a shell");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    for (what, expected) in [
        ("plan /dev/stdin", "+ mysql_query_rules rule_id=1"),
        ("apply /dev/stdin", "nobody can be asked here"),
        ("apply /dev/stdin --yes", "version 2 is in force"),
    ] {
        let said = piped(what);
        assert!(said.contains(expected), "{what}: {said}");
    }
    let again = self::narrows("plan", &narrows, &[&file, "--exit-code"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
}

#[test]
fn servers_in_use_and_statements_that_would_go_elsewhere_are_named() {
    let server = FakeMysql::start(Conversation::new().deciding(|_| None));
    let config = NarrowsConfig::in_front_of(server.port()).server(2, server.port(), "");
    let narrows = start(&config);
    server.say(
        Conversation::new()
            .on("SELECT 1", &[Move::rows("1", &["1"])])
            .on("SELECT GET_LOCK('a', 1)", &[Move::rows("1", &["1"])]),
    );
    let mut client: RawClient = narrows.client();
    for _ in 0..3 {
        client.query("SELECT 1");
    }
    client.query("SELECT GET_LOCK('a', 1)");
    let mut admin = narrows.admin();
    admin.query("DELETE FROM mysql_servers WHERE hostgroup_id = 0").ok().expect("memory");
    admin.query("INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, cache_ttl, apply) VALUES (1, 1, '^SELECT', 2, 500, 1)").ok().expect("memory");
    let rows = plan(&mut admin, "NARROWS PLAN").1;
    let of = |part: &str, what: &str| -> Vec<Option<&str>> {
        let fits = |row: &&Vec<Option<String>>| {
            row[0].as_deref() == Some(part) && row[3].as_deref().is_some_and(|text| text.starts_with(what))
        };
        rows.iter().find(fits).unwrap_or_else(|| panic!("{rows:?}")).iter().map(Option::as_deref).collect()
    };
    assert_eq!(
        of("statement", "hostgroup")[2..],
        [Some("SELECT ?"), Some("hostgroup"), None, Some("0"), Some("2"), Some("3")]
    );
    assert_eq!(of("statement", "cache_ttl")[5..], [None, Some("500"), Some("3")]);
    assert_eq!(of("server", "it leaves the hostgroup")[7], Some("1"));
}

#[test]
fn the_program_plans_and_applies_from_a_shell() {
    let server = start(&NarrowsConfig::in_front_of(3306));
    let file = saved(&server, RULES);
    let out = server.folder().join("plan.json").display().to_string();
    let text = |output: &Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let planned = narrows("plan", &server, &[&file, "--out", &out, "--exit-code"]);
    assert_eq!(planned.status.code(), Some(2), "{}", text(&planned));
    assert!(text(&planned).contains("+ mysql_query_rules rule_id=1"), "{}", text(&planned));
    let json = narrows("plan", &server, &[&file, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["change"][0]["subject"], "mysql_query_rules");
    // Nobody is there to say yes.
    assert!(!narrows("apply", &server, &[&file]).status.success());
    let applied = narrows("apply", &server, &[&out, "--comment", "it's time"]);
    assert!(
        applied.status.success() && text(&applied).contains("version 2 is in force"),
        "{}",
        text(&applied)
    );
    let again = narrows("apply", &server, &[&out]);
    assert!(!again.status.success() && text(&again).contains("has changed since"), "{}", text(&again));
    assert_eq!(narrows("plan", &server, &[&file, "--exit-code"]).status.code(), Some(0));
    let yes = narrows("apply", &server, &[&saved(&server, &RULES.replace("=2", "=3")), "--yes"]);
    assert!(yes.status.success(), "{}", text(&yes));
    let mut admin = server.admin();
    let comment = "SELECT comment FROM disk.narrows_config_history WHERE version = 2";
    assert_eq!(admin.query(comment).cell().as_deref(), Some("it's time"));
    assert_eq!(newest_version(&mut admin), 3);
    // What was sent is not in the log.
    assert!(!server.log().contains("PLAN CONFIGURATION"), "{}", server.log());
}
