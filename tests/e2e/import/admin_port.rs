//! Import from an admin port: that of a Narrows, which speaks ProxySQL's admin SQL, and those of servers that lie.

use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, Endpoint, FakeMysql, Move, Narrows, NarrowsConfig, TempFolder, writer};

use crate::init::TYPIST;

use super::{BINARY, carried_over, failure, import, report, sentences, start, text};

/// Options for reading from `port`.
fn from(port: u16) -> [String; 4] {
    ["--from".to_owned(), format!("127.0.0.1:{port}"), "--password".to_owned(), "admin".to_owned()]
}

fn source() -> Narrows {
    let config = NarrowsConfig::new()
        .variable("max_connections", "77")
        .server(1, 3310, "comment=\"gr\u{f6}\u{df}e\"")
        .server(2, 3311, "weight=7")
        .user("app", "of-app", "default_hostgroup=1")
        .rule("rule_id=5 active=1 match_digest=\"^SELECT\" destination_hostgroup=2 apply=1")
        .rule("rule_id=6 active=0 match_digest=\"^SHOW\" destination_hostgroup=2 apply=1")
        .row("proxysql_servers", "hostname=\"other\" port=6032");
    Narrows::start(BINARY, &config)
}

#[test]
fn a_running_configuration_is_read_and_left_as_it_is() {
    let (folder, narrows) = (TempFolder::new("import"), source());
    let mut admin = narrows.admin();
    let statement = "SELECT COUNT(*) FROM mysql_query_rules";
    let before = admin.query(statement).text_rows();
    let port = narrows.admin_endpoint();
    let Endpoint::Tcp(address) = port else { panic!("a port") };
    let options = from(address.port());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let said = report(folder.path(), &[&options[..], &["--output", "narrows.toml"]].concat());
    let rows = carried_over(&said);
    for expected in
        [("mysql_servers", 2), ("mysql_users", 1), ("mysql_query_rules", 2), ("proxysql_servers", 1)]
    {
        assert!(rows.contains(&(expected.0.to_owned(), expected.1)), "{rows:?}");
    }
    assert_eq!(sentences(&said, "not_carried_over"), Vec::<String>::new());
    let without = sentences(&said, "without_effect");
    assert!(without.iter().any(|sentence| sentence.starts_with("proxysql_servers (1 row)")), "{without:?}");
    let toml = std::fs::read_to_string(folder.file("narrows.toml")).expect("a file");
    assert!(toml.contains("gr\u{f6}\u{df}e") && toml.contains("max_connections = 77"), "{toml}");
    let imported = start(&toml);
    for (table, order) in
        [("mysql_servers", "port"), ("mysql_query_rules", "rule_id"), ("proxysql_servers", "port")]
    {
        let select = format!("SELECT * FROM {table} ORDER BY {order}");
        assert_eq!(imported.admin().query(&select).text_rows(), admin.query(&select).text_rows(), "{table}");
    }
    assert_eq!(admin.query(statement).text_rows(), before);
    // What runs has no inactive rows.
    let runtime = report(folder.path(), &[&options[..], &["--runtime", "--report"]].concat());
    assert!(carried_over(&runtime).contains(&("mysql_query_rules".to_owned(), 1)), "{runtime}");
    let printed = import(folder.path(), &[&options[..], &["--report"]].concat());
    let printed = text(&printed.stdout) + &said.to_string() + &runtime.to_string();
    assert!(!printed.contains("of-app"), "{printed}");
}

#[test]
fn a_wrong_password_or_a_port_without_tables_is_one_sentence() {
    let (folder, narrows) = (TempFolder::new("import"), source());
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("a port") };
    let at = address.to_string();
    let wrong = failure(folder.path(), &["--from", &at, "--password", "secret-and-wrong", "--report"]);
    assert!(wrong.contains("refuses 'admin'") && !wrong.contains("secret-and-wrong"), "{wrong}");
    let none = failure(folder.path(), &["--from", &at, "--report"]);
    assert!(none.contains("the password of 'admin' is missing: give --password"), "{none}");
    let stats =
        failure(folder.path(), &["--from", &at, "--user", "stats", "--password", "stats", "--report"]);
    assert!(stats.contains("shows 'stats' no table mysql_servers: give the admin port"), "{stats}");
    let nobody = format!("127.0.0.1:{}", FakeMysql::nobody());
    let refused = failure(folder.path(), &["--from", &nobody, "--password", "x", "--report"]);
    assert!(refused.contains("nothing listens on"), "{refused}");
    assert_eq!(super::files(folder.path()), Vec::<String>::new());
}

#[test]
fn on_a_terminal_the_password_is_asked_for_and_not_shown() {
    let (folder, narrows) = (TempFolder::new("import"), source());
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("a port") };
    let steps = r#"[["Password of 'admin': ", "admin"]]"#;
    let mut command = Command::new("python3");
    command.args(["-c", TYPIST, steps, BINARY, "import", "--from", &address.to_string(), "--report"]);
    let output = command.current_dir(folder.path()).output().expect("python3 is installed");
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("Nothing was written."), "{shown}");
    let after = shown.split_once("Password of 'admin': ").expect("the question").1;
    assert!(!after.lines().next().unwrap_or_default().contains("admin"), "{shown}");
}

/// A result set of text columns.
fn table(columns: &[&str], rows: &[&[Option<&str>]]) -> Move {
    let mut payloads = vec![writer::lenenc(columns.len() as u64)];
    payloads.extend(columns.iter().map(|column| writer::column(column)));
    payloads.push(writer::eof(2, 0));
    payloads.extend(rows.iter().map(|row| writer::row(row)));
    payloads.push(writer::eof(2, 0));
    Move::Reply(payloads)
}

/// An admin port with these tables.
fn port_with(names: &[&str]) -> Conversation {
    let rows: Vec<Vec<Option<&str>>> = names.iter().map(|name| vec![Some(*name)]).collect();
    let rows: Vec<&[Option<&str>]> = rows.iter().map(Vec::as_slice).collect();
    Conversation::new().on("SHOW TABLES", &[table(&["tables"], &rows)])
}

fn said_by(conversation: Conversation) -> serde_json::Value {
    let (folder, server) = (TempFolder::new("import"), FakeMysql::start(conversation));
    let options = from(server.port());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    report(folder.path(), &[&options[..], &["--report"]].concat())
}

fn failure_of(conversation: Conversation) -> String {
    let (folder, server) = (TempFolder::new("import"), FakeMysql::start(conversation));
    let options = from(server.port());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    std::fs::create_dir(folder.file("data")).expect("a folder");
    let error = failure(folder.path(), &[&options[..], &["-D", "data"]].concat());
    assert_eq!(super::files(&folder.file("data")), Vec::<String>::new(), "{error}");
    error
}

#[test]
fn columns_and_tables_that_narrows_does_not_have_are_reported() {
    let servers = table(
        &["hostgroup_id", "hostname", "port", "hostname", "region\x1b[2J"],
        &[
            &[Some("1"), Some("db1"), Some("3306"), Some("again"), Some("eu")],
            &[Some("x"), Some("db2"), Some("3306"), None, None],
            &[Some("2"), None, Some("3306"), None, None],
        ],
    );
    let variables = table(
        &["variable_name", "variable_value"],
        &[
            &[Some("mysql-max_connections"), Some("99")],
            &[Some("mysql-of_tomorrow"), Some("secret-value")],
            &[Some("pgsql-threads"), Some("4")],
            &[Some("admin-version"), Some("3.1.0")],
            &[None, None],
        ],
    );
    let names =
        ["mysql_servers", "global_variables", "pgsql_servers", "runtime_mysql_servers", "x; DROP TABLE y"];
    let report = said_by(
        port_with(&names)
            .on("SELECT * FROM mysql_servers", &[servers])
            .on("SELECT * FROM global_variables", &[variables])
            .on("SELECT COUNT(*) FROM pgsql_servers", &[Move::rows("COUNT(*)", &["3"])]),
    );
    assert_eq!(
        carried_over(&report),
        [("mysql_servers".to_owned(), 2), ("global_variables".to_owned(), 1)],
        "{report}"
    );
    let left_out = sentences(&report, "not_carried_over");
    for expected in [
        "mysql_servers.region\x1b[2J, set in 1 row: there is no such column in Narrows",
        "mysql_servers.hostname, set in 1 row: there is no such column in Narrows",
        "mysql_servers hostgroup_id='x' hostname='db2' port=3306: left out: hostgroup_id: expected an integer",
        "NOT NULL constraint failed: mysql_servers.hostname",
        "global_variables: 1 variables pgsql-*: Narrows is not for PostgreSQL",
        "global_variables: there is no mysql-of_tomorrow",
        "pgsql_servers: 3 rows left out: Narrows has no such table",
    ] {
        assert!(left_out.iter().any(|sentence| sentence.contains(expected)), "{expected}\n{left_out:#?}");
    }
    assert!(!report.to_string().contains("secret-value"), "{report}");
}

#[test]
fn a_server_that_lies_is_given_up_and_nothing_is_written() {
    let servers = "SELECT * FROM mysql_servers";
    let head = Move::beginning_of_rows("hostname");
    for (move_, expected) in [
        (vec![Move::ok()], "mysql_servers has 0 columns: this is not a ProxySQL"),
        (
            vec![Move::error(1045, "28000", "no\x1b[2J more\nforged line")],
            "the answer to SELECT * FROM mysql_servers",
        ),
        (vec![head.clone(), Move::error(1317, "70100", "interrupted")], "interrupted"),
        (vec![head.clone(), Move::Close], "the answer to SELECT * FROM mysql_servers"),
        (vec![head.clone(), Move::Reset], "the answer to SELECT * FROM mysql_servers"),
        (
            vec![Move::Bytes(b"\xff\xff\xff\x01".to_vec()), Move::Close],
            "the answer to SELECT * FROM mysql_servers",
        ),
        (vec![head, Move::Endless(writer::row(&[Some(&"x".repeat(100_000))]))], "more than 64 MiB"),
    ] {
        let error = failure_of(port_with(&["mysql_servers"]).on(servers, &move_));
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let many: Vec<String> = (0..300).map(|number| format!("c{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = failure_of(port_with(&["mysql_servers"]).on(servers, &[table(&many, &[])]));
    assert!(error.contains("has 300 columns"), "{error}");
    let error = failure_of(
        Conversation::new().on("SHOW TABLES", &[Move::error(1046, "3D000", "No database selected")]),
    );
    assert!(error.contains("No database selected"), "{error}");
}

#[test]
fn a_server_that_says_nothing_at_login_is_given_up() {
    let begun = Instant::now();
    let error = failure_of(Conversation::new().at_connect(&[Move::Hang]));
    assert!(error.contains("does not answer within 5 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
