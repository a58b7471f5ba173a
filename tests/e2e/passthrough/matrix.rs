//! Every kind of account that servers have, through pass-through, with the clients that people use.
//!
//! `docs/logins.md` ends with this test's results; `NARROWS_WRITE_DOCS=1` writes them again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use narrows_testkit::{Flavour, Narrows, RealServer};

use super::config;
use crate::auth::matrix::{CLIENTS, MARKER, command_line_over, script};
use crate::support::start;

/// A kind of account: its name in the table, that in its user, and how it is created on MariaDB and on MySQL 9; empty: this server does not have it.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("caching_sha2_password", "sha", "", "'%' IDENTIFIED WITH caching_sha2_password BY 'one'"),
    ("mysql_native_password", "nat", "'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('one')", ""),
    ("ed25519", "ed", "'%' IDENTIFIED VIA ed25519 USING PASSWORD('one')", ""),
    ("no password", "none", "'%'", "'%'"),
    ("host of Narrows", "here", "'127.0.0._' IDENTIFIED BY 'one'", "'127.0.0._' IDENTIFIED BY 'one'"),
    ("another host", "there", "'10.%' IDENTIFIED BY 'one'", "'10.%' IDENTIFIED BY 'one'"),
    ("ACCOUNT LOCK", "lock", "'%' IDENTIFIED BY 'one' ACCOUNT LOCK", "'%' IDENTIFIED BY 'one' ACCOUNT LOCK"),
    (
        "PASSWORD EXPIRE",
        "expire",
        "'%' IDENTIFIED BY 'one' PASSWORD EXPIRE",
        "'%' IDENTIFIED BY 'one' PASSWORD EXPIRE",
    ),
    (
        "REQUIRE SSL, plain TCP to the server",
        "plain",
        "'%' IDENTIFIED BY 'one' REQUIRE SSL",
        "'%' IDENTIFIED BY 'one' REQUIRE SSL",
    ),
    ("REQUIRE SSL, use_ssl=1", "tls", "", "'%' IDENTIFIED BY 'one' REQUIRE SSL"),
    ("REQUIRE X509, use_ssl=1", "tls_x", "", "'%' IDENTIFIED BY 'one' REQUIRE X509"),
];

type Results = BTreeMap<(usize, usize), [String; 2]>;

#[test]
fn every_kind_of_account_logs_in_with_every_client_as_documented() {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("the matrix of accounts is skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let flavours = Flavour::both();
    let mut results = Results::new();
    for flavour in &flavours {
        for (client, cells) in of_server(*flavour).into_iter().enumerate() {
            for (kind, result) in cells.into_iter().enumerate() {
                results.entry((kind, client)).or_default()[usize::from(*flavour == Flavour::MySql9)] = result;
            }
        }
    }
    let part = page(&results);
    println!("{part}");
    if flavours.len() < 2 {
        eprintln!("without MySQL 9 the page is not compared");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/logins.md");
    let written = std::fs::read_to_string(&path).expect("docs/logins.md");
    let (before, after) = written.split_once(MARKER).unwrap_or((&written, ""));
    if std::env::var("NARROWS_WRITE_DOCS").as_deref() == Ok("1") {
        std::fs::write(&path, format!("{before}{MARKER}{part}")).expect("docs can be written");
        return;
    }
    let differs = part.lines().zip(after.lines()).find(|(seen, written)| seen != written);
    assert!(
        after == part,
        "{path:?} differs from the results; NARROWS_WRITE_DOCS=1 writes it again: {differs:?}"
    );
}

/// The results of all clients, by kind.
fn of_server(flavour: Flavour) -> Vec<Vec<String>> {
    let server = RealServer::shared(flavour);
    let definition = |kind: &(&str, &str, &'static str, &'static str)| match flavour {
        Flavour::MariaDb => kind.2,
        Flavour::MySql9 => kind.3,
    };
    if flavour == Flavour::MariaDb {
        server.execute(&["INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'"]);
    }
    for kind in KINDS.iter().filter(|kind| !definition(kind).is_empty()) {
        for (client, _) in CLIENTS {
            let user = user(kind.1, client);
            server.execute(&[&format!("CREATE USER '{user}'@{}", definition(kind))]);
        }
    }
    let template = r#"attributes="{\"usernames_like\":\"pm_tls%\"}" default_hostgroup=1"#;
    let version = if flavour == Flavour::MySql9 { "9.7.0" } else { "5.7.19" };
    let config = config(server.port()).server(1, server.port(), "use_ssl=1").user("over_tls", "", template);
    let limits = ["passthrough_auth_max_failures_per_ip", "passthrough_auth_max_failures_per_user"];
    let config = limits.into_iter().fold(config, |config, limit| config.variable(limit, "0"));
    let narrows = start(&config.variable("server_version", version));
    let run = |client: usize| -> Vec<String> {
        let kinds = KINDS.iter().enumerate();
        let there: Vec<usize> =
            kinds.filter(|(_, kind)| !definition(kind).is_empty()).map(|it| it.0).collect();
        let mut answers = logins(&narrows, client, &there).into_iter();
        let cell = |kind: usize| match there.contains(&kind) {
            true => in_short(&answers.next().expect("an answer for each login")),
            false => String::new(),
        };
        (0..KINDS.len()).map(cell).collect()
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..CLIENTS.len()).map(|client| scope.spawn(move || run(client))).collect();
        runs.into_iter().map(|run| run.join().expect("a client's run ends")).collect()
    })
}

fn user(kind: &str, client: &str) -> String {
    format!("pm_{kind}_{}", client.replace('-', ""))
}

/// What a client says of each login.
fn logins(narrows: &Narrows, client: usize, kinds: &[usize]) -> Vec<String> {
    let name = CLIENTS[client].0;
    let account = |kind: &usize| {
        let kind = KINDS[*kind].1;
        (user(kind, name), if kind == "none" { "" } else { "one" })
    };
    let port = narrows.port().to_string();
    match name {
        "mysql" | "mariadb" => {
            let login =
                |(user, password): (String, &str)| command_line_over("tls", name, &port, (&user, password));
            kinds.iter().map(account).map(login).collect()
        }
        driver => {
            let line = |(user, password)| format!("tls\t{port}\tcaching_sha2_password\t{user}\t{password}\n");
            script(driver, &kinds.iter().map(account).map(line).collect::<String>())
        }
    }
}

/// The table's entry for an answer.
fn in_short(answer: &str) -> String {
    let words = [
        ("SET PASSWORD", "to be changed"),
        ("reset your password", "to be changed"),
        ("has expired", "expired"),
        // The mysql client says so in the place of the error, as without Narrows.
        ("--connect-expired-password", "expired"),
        ("ccount is locked", "locked"),
        ("Access denied", "denied"),
    ];
    if answer == "ok" {
        return "ok".to_owned();
    }
    let found = words.iter().find(|(text, _)| answer.contains(text));
    found.map_or_else(|| format!("unreadable: {answer}"), |(_, word)| (*word).to_owned())
}

fn page(results: &Results) -> String {
    let clients: Vec<&str> = CLIENTS.iter().map(|(_, name)| *name).collect();
    let mut page = String::from(INTRODUCTION);
    let _ = write!(page, "\n| account | {} |\n{}|\n", clients.join(" | "), "|---".repeat(clients.len() + 1));
    for (kind, (name, ..)) in KINDS.iter().enumerate() {
        let cell = |client| match &results[&(kind, client)] {
            [maria, mysql] if maria == mysql => maria.clone(),
            [maria, mysql] if maria.is_empty() => format!("MySQL 9: {mysql}"),
            [maria, mysql] if mysql.is_empty() => format!("MariaDB: {maria}"),
            [maria, mysql] => format!("{maria}; MySQL 9: {mysql}"),
        };
        let cells: Vec<String> = (0..CLIENTS.len()).map(cell).collect();
        let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
    }
    page
}

const INTRODUCTION: &str = "\n\
    The outcome of a login through [pass-through](pass-through.md), by the kind of account on the server and the client, each over \
    TLS and with `mysql-default_authentication_plugin=caching_sha2_password`. The table is written by a test \
    (`tests/e2e/passthrough/matrix.rs`).\n\n\
    - **ok**: logged in, and a statement was answered.\n\
    - **denied**: error 1045, as without Narrows if the client came from the host of Narrows. **locked**: error 3118, of MariaDB \
    4151. **expired**: error 1862.\n\
    - **to be changed**: MariaDB lets the client in, and answers with error 1820 until the password was changed.\n\n\
    It has no lines for accounts without a password to try (`unix_socket`, `auth_socket`, Kerberos).\n";
