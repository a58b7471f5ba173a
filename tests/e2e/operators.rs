//! The programs of ProxySQL operators on the admin interface: Ansible's modules, exporters' queries, and the command
//! line client in a terminal.
//!
//! `NARROWS_SKIP_DRIVERS=1` skips those that have to be installed (Ansible, Go).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use narrows_testkit::{Endpoint, Flavour, Narrows, NarrowsConfig, RealServer};

use crate::support::start;

fn admin_port(narrows: &Narrows) -> String {
    match narrows.admin_endpoint() {
        Endpoint::Tcp(address) => address.port().to_string(),
        Endpoint::Unix(path) => panic!("administrators connect by TCP, not {}", path.display()),
    }
}

fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers")
}

/// Reports that it skips what is not to be installed.
fn is_skipped(what: &str) -> bool {
    let skipped = std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1");
    if skipped {
        eprintln!("{what} is skipped: NARROWS_SKIP_DRIVERS=1");
    }
    skipped
}

fn text_of(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn ansible_has_its_way_and_then_nothing_to_do() {
    if is_skipped("Ansible") {
        return;
    }
    let narrows = start(&NarrowsConfig::new());
    let play = |options: &[&str]| {
        let mut command = Command::new(drivers().join("ansible/play.sh"));
        let output = command.arg(admin_port(&narrows)).args(options).output().expect("bash runs scripts");
        let text = text_of(&output);
        assert!(output.status.success(), "{options:?}: {text}");
        let recap = text.lines().find(|line| line.starts_with("localhost ")).expect("a recap").to_owned();
        let changed = recap.split_once("changed=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let changed: u32 = changed.expect("a number of changes");
        (changed, text)
    };
    // Ten tasks change something, and each reports its state the second time.
    for options in [&[] as &[&str], &["-e", "wanted=absent"]] {
        let (changed, text) = play(options);
        assert_eq!(changed, 10, "{text}");
        let (changed, text) = play(options);
        assert_eq!(changed, 0, "{text}");
    }
}

/// What `tests/drivers/go-mysql/scrape` prints: figures by the name of their query, labels and column.
fn scrape(narrows: &Narrows, user: &str) -> BTreeMap<String, f64> {
    let installer = Command::new(drivers().join("install.sh")).arg("go").output().expect("bash runs scripts");
    assert!(installer.status.success(), "{}", text_of(&installer));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/drivers/go/scrape");
    let output = Command::new(program)
        .args(["127.0.0.1", &admin_port(narrows), user, user])
        .output()
        .expect("what was installed runs");
    assert!(output.status.success(), "as {user}: {}", text_of(&output));
    let figure = |line: &str| {
        let (name, figure) = line.rsplit_once(' ').expect("a figure at the end");
        (name.to_owned(), figure.parse().expect("a number"))
    };
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(figure).collect()
}

#[test]
fn exporters_read_figures_of_what_was_done() {
    if is_skipped("the exporters' statements") {
        return;
    }
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut client = narrows.client();
    for _ in 0..20 {
        assert_eq!(client.query("SELECT 1 + 1").cell().as_deref(), Some("2"));
    }
    assert!(client.query("SELECT nothing FROM nowhere").error().is_some());
    for user in ["stats", "admin"] {
        let figures = scrape(&narrows, user);
        let pool = format!("connection_pool,0,127.0.0.1,{}", server.port());
        let at_least = [
            ("status,Client_Connections_created Variable_Value", 1.0),
            ("status,Client_Connections_connected Variable_Value", 1.0),
            ("status,Server_Connections_created Variable_Value", 1.0),
            ("status,Questions Variable_Value", 21.0),
            ("status,Queries_backends_bytes_recv Variable_Value", 100.0),
            ("status,Queries_frontends_bytes_sent Variable_Value", 100.0),
            ("status,MySQL_Thread_Workers Variable_Value", 2.0),
            ("command_counter,SELECT Total_cnt", 21.0),
            ("command_counter,SELECT Total_Time_us", 1.0),
            (&format!("{pool} Queries"), 20.0),
            (&format!("{pool} ConnOK"), 1.0),
            (&format!("{pool} Bytes_data_recv"), 100.0),
            (&format!("{pool} status"), 1.0),
            ("client_connection_list,127.0.0.1 connection_count", 1.0),
            ("detailed_client_connection_count,sbtest,,127.0.0.1,0 count", 1.0),
            ("memory,SQLite3_memory_bytes Variable_Value", 1.0),
        ];
        for (name, least) in at_least {
            let figure = figures.get(name).unwrap_or_else(|| panic!("as {user}: no {name} in {figures:#?}"));
            assert!(*figure >= least, "as {user}: {name} is {figure}");
        }
        let digests = figures.iter().filter(|(name, _)| name.starts_with("netdata_digests,0x"));
        assert!(digests.filter(|(name, _)| name.ends_with(" count_star")).any(|(_, count)| *count == 20.0));
    }
    let servers = scrape(&narrows, "admin");
    assert!(
        servers
            .keys()
            .any(|name| name.starts_with(&format!("runtime_servers,0,127.0.0.1,{}", server.port())))
    );
}

/// What an operator types, and what must appear after it.
const TYPED: &[(&str, &str)] = &[
    (r"\s", "Server version:"),
    ("SHOW DATABASES;", "| stats_history |"),
    ("use stats", "Database changed"),
    ("use main", "Database changed"),
    ("SHOW TABLES;", "| runtime_mysql_query_rules "),
    ("SELECT 1 + 1 AS two;", "| two |"),
    (
        r#"INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (7, "typed");"#,
        "Query OK, 1 row affected",
    ),
    ("load mysql servers to runtime;", "Query OK, 0 rows affected"),
    ("SELECT hostgroup_id, hostname FROM runtime_mysql_servers;", "| 7            | typed    |"),
    (r"SHOW CREATE TABLE mysql_servers\G", "Create Table: CREATE TABLE mysql_servers ("),
    (
        "INSERT INTO mysql_query_rules (rule_id, active, match_pattern) VALUES (1, 1, 'a(');",
        "Query OK, 1 row affected",
    ),
    ("LOAD MYSQL QUERY RULES TO RUNTIME;", "0 rows affected, 1 warning"),
    ("SHOW WARNINGS;", "the expression does not compile, at character 2"),
    ("SELEC 1;", "ERROR 1045 (28000): ProxySQL Admin Error: near \"SELEC\": syntax error"),
    ("SHOW MYSQL STATUS;", "| Questions "),
    ("SELECT 'still here';", "| still here "),
];

#[test]
fn the_command_line_client_feels_at_home_under_a_terminal() {
    let narrows = start(&NarrowsConfig::new());
    let client = format!("mariadb --no-defaults -h127.0.0.1 -P{} -uadmin -padmin", admin_port(&narrows));
    // It is interactive if it has a terminal, which `script` provides.
    let mut terminal = Command::new("script")
        .args(["-q", "-e", "-c", &client, "/dev/null"])
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is part of every Debian");
    let mut keyboard = terminal.stdin.take().expect("piped");
    for (line, _) in TYPED {
        writeln!(keyboard, "{line}").expect("the terminal accepts it");
    }
    writeln!(keyboard, "exit").expect("the terminal accepts it");
    let output = terminal.wait_with_output().expect("it ends");
    let screen = text_of(&output).replace('\r', "");
    assert!(output.status.success(), "{screen}");
    // The input is echoed before the first prompt; the output follows it, in the order of the input.
    let (_, mut rest) = screen.split_once("Welcome to the").expect(&screen);
    for (line, seen) in TYPED {
        let found = rest.find(seen).unwrap_or_else(|| panic!("{line}: no {seen:?} in\n{screen}"));
        rest = &rest[found + seen.len()..];
    }
    assert!(rest.contains("Bye"), "{screen}");
}
