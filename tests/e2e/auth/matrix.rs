//! Every plugin, transport and stored form with the clients that people use, in front of both servers.
//!
//! Each cell has its own user, so that nothing revealed by an earlier login helps it. `docs/logins.md` contains this
//! test's results; `NARROWS_WRITE_DOCS=1` writes it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, RealServer};

use super::{NATIVE_HASH, PASSWORD, SHA2_HASH};
use crate::support::start;

pub(crate) const CLIENTS: &[(&str, &str)] = &[
    ("mysql", "mysql 9.7"),
    ("mariadb", "mariadb"),
    ("pymysql", "PyMySQL"),
    ("go-mysql", "go-sql-driver"),
    ("node-mysql2", "mysql2"),
    ("connector-j", "Connector/J"),
];

const PLUGINS: &[(&str, &str)] = &[
    ("nat", "mysql_native_password"),
    ("sha", "caching_sha2_password"),
    ("clr", "mysql_clear_password"),
    ("edd", "client_ed25519"),
];

const TRANSPORTS: &[(&str, &str)] = &[("tcp", "TCP"), ("tls", "TLS"), ("unix", "Unix socket")];

const STORED: &[(&str, &str, &str)] =
    &[("text", PASSWORD, "clear text"), ("nh", NATIVE_HASH, "native hash"), ("sh", SHA2_HASH, "sha2 hash")];

/// The outcome of a login.
type Results = BTreeMap<(Flavour2, Cell), String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Flavour2 {
    MariaDb,
    MySql9,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    plugin: usize,
    transport: usize,
    stored: usize,
    client: usize,
}

impl Cell {
    fn all() -> impl Iterator<Item = Cell> {
        (0..PLUGINS.len()).flat_map(|plugin| {
            (0..TRANSPORTS.len()).flat_map(move |transport| {
                (0..STORED.len()).flat_map(move |stored| {
                    (0..CLIENTS.len()).map(move |client| Cell { plugin, transport, stored, client })
                })
            })
        })
    }

    fn user(self) -> String {
        let Cell { plugin, transport, stored, client } = self;
        let (plugin, transport, stored) = (PLUGINS[plugin].0, TRANSPORTS[transport].0, STORED[stored].0);
        format!("{}_{plugin}_{transport}_{stored}", CLIENTS[client].0.replace('-', ""))
    }
}

/// A Narrows for each plugin that a greeting can announce, before a server of the flavour.
fn start_proxies(flavour: Flavour, server: &RealServer) -> [Narrows; 2] {
    let mut greeted = RawClient::connect(&server.endpoint());
    let version = match flavour {
        // Connector/J takes MariaDB's own version for a 5.5 without caching_sha2_password, or for a 10 with MySQL
        // 8's variables.
        Flavour::MariaDb => "5.7.19".to_owned(),
        Flavour::MySql9 => greeted.greeting().expect("a greeting").version.clone(),
    };
    ["mysql_native_password", "caching_sha2_password"].map(|announced| {
        let mut config = NarrowsConfig::new().server(0, server.port(), "");
        config = config.variable("default_authentication_plugin", announced);
        // Connector/J chooses its first statements by it.
        config = config.variable("server_version", &version);
        // Many programs start at once, on however many cores there are.
        for name in ["connect_timeout_client", "connect_timeout_server", "connect_timeout_server_max"] {
            config = config.variable(name, "60000");
        }
        for cell in Cell::all() {
            config = config.user(&cell.user(), STORED[cell.stored].1, "");
        }
        start(&config)
    })
}

#[test]
fn every_client_logs_in_or_is_refused_as_documented() {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("the matrix of logins is skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let flavours = Flavour::both();
    let mut results = Results::new();
    for flavour in &flavours {
        let server = RealServer::shared(*flavour);
        let accounts = Cell::all().flat_map(|cell| {
            let user = cell.user();
            [
                format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'"),
                format!("GRANT SELECT ON *.* TO '{user}'@'%'"),
            ]
        });
        let accounts: Vec<String> = accounts.collect();
        server.execute(&accounts.iter().map(String::as_str).collect::<Vec<_>>());
        let proxies = start_proxies(*flavour, server);
        let flavour = match flavour {
            Flavour::MariaDb => Flavour2::MariaDb,
            Flavour::MySql9 => Flavour2::MySql9,
        };
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..CLIENTS.len())
                .map(|client| {
                    let proxies = &proxies;
                    scope.spawn(move || run(client, proxies))
                })
                .collect();
            for run in runs {
                let seen = run.join().expect("a client's run ends");
                results.extend(seen.into_iter().map(|(cell, result)| ((flavour, cell), result)));
            }
        });
    }
    let page = page(&results);
    println!("{page}");
    for ((flavour, cell), result) in &results {
        assert_ne!(
            result,
            "unreadable",
            "{flavour:?} {}: no result that the table has a word for",
            cell.user()
        );
    }
    if flavours.len() < 2 {
        eprintln!("without MySQL 9 the page is not compared");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/logins.md");
    if std::env::var("NARROWS_WRITE_DOCS").as_deref() == Ok("1") {
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let rest = written.split_once(MARKER).map_or("", |(_, rest)| rest);
        std::fs::write(&path, format!("{page}{MARKER}{rest}")).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let written = written.split_once(MARKER).map_or("", |(own, _)| own);
    let differs = page.lines().zip(written.lines()).find(|(seen, written)| seen != written);
    assert!(
        written == page,
        "{path:?} differs from the results; NARROWS_WRITE_DOCS=1 writes it again: {differs:?}"
    );
}

/// All logins of one client, in front of one server.
fn run(client: usize, proxies: &[Narrows; 2]) -> Vec<(Cell, String)> {
    let cells: Vec<Cell> = Cell::all().filter(|cell| cell.client == client).collect();
    let address = |cell: &Cell| {
        let narrows = &proxies[usize::from(PLUGINS[cell.plugin].1 == "caching_sha2_password")];
        match TRANSPORTS[cell.transport].0 {
            "unix" => narrows.socket().display().to_string(),
            _ => narrows.port().to_string(),
        }
    };
    let answers: Vec<String> = match CLIENTS[client].0 {
        name @ ("mysql" | "mariadb") => cells
            .iter()
            .map(|cell| command_line(name, cell, &address(cell), (&cell.user(), PASSWORD)))
            .collect(),
        driver => {
            let input: String = cells
                .iter()
                .map(|cell| {
                    let (transport, plugin) = (TRANSPORTS[cell.transport].0, PLUGINS[cell.plugin].1);
                    format!("{transport}\t{}\t{plugin}\t{}\t{PASSWORD}\n", address(cell), cell.user())
                })
                .collect();
            script(driver, &input)
        }
    };
    assert_eq!(answers.len(), cells.len(), "{}: {answers:#?}", CLIENTS[client].0);
    for (cell, answer) in cells.iter().zip(&answers) {
        if answer != "ok" && !answer.starts_with("none") {
            println!("{}: {answer}", cell.user());
        }
    }
    cells.into_iter().zip(answers.iter().map(|answer| in_short(answer))).collect()
}

/// The driver's own script; a line for each line of `input`.
pub(crate) fn script(driver: &str, input: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/logins.sh");
    let mut child = Command::new(path)
        .arg(driver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash runs scripts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn command_line(name: &str, cell: &Cell, address: &str, (user, password): (&str, &str)) -> String {
    let plugin = PLUGINS[cell.plugin].1;
    let root = std::env::var("NARROWS_MYSQL9").unwrap_or_else(|_| "/opt/mysql9".to_owned());
    let mut command = match name {
        "mysql" => {
            if plugin == "client_ed25519" {
                return "none: the client does not have the plugin".to_owned();
            }
            let mut command = Command::new(format!("{root}/bin/mysql"));
            command.arg("--no-defaults").arg(format!("--plugin-dir={root}/usr/lib/mysql/plugin"));
            command.args(["--get-server-public-key", "--enable-cleartext-plugin"]);
            command.arg(match TRANSPORTS[cell.transport].0 {
                "tls" => "--ssl-mode=REQUIRED",
                _ => "--ssl-mode=DISABLED",
            });
            command
        }
        _ => {
            let mut command = Command::new("mariadb");
            command.arg("--no-defaults");
            command.arg(if TRANSPORTS[cell.transport].0 == "tls" { "--ssl" } else { "--skip-ssl" });
            command
        }
    };
    match TRANSPORTS[cell.transport].0 {
        "unix" => command.arg(format!("--socket={address}")),
        _ => command.args(["--protocol=tcp", "--host=127.0.0.1"]).arg(format!("--port={address}")),
    };
    command.arg(format!("--user={user}")).arg(format!("--default-auth={plugin}"));
    command.args(["--batch", "--skip-column-names", "--connect-timeout=60", "--execute=SELECT 'in'"]);
    command.env("MYSQL_PWD", password).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{name}: {error}"));
    if output.stdout == b"in\n" {
        return "ok".to_owned();
    }
    let text = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    text.lines()
        .filter(|line| line.contains("ERROR") || line.contains("--connect-expired-password"))
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A login over TCP or TLS with `caching_sha2_password`; the answer is as of [`script`].
pub(crate) fn command_line_over(transport: &str, name: &str, port: &str, account: (&str, &str)) -> String {
    let at =
        |of: &[(&str, &str)], wanted: &str| of.iter().position(|(it, _)| *it == wanted).expect("one of them");
    let (plugin, transport) = (at(PLUGINS, "sha"), at(TRANSPORTS, transport));
    let cell = Cell { plugin, transport, stored: 0, client: at(CLIENTS, name) };
    command_line(name, &cell, port, account)
}

/// Where the tables of `tests/e2e/passthrough/matrix.rs` begin.
pub(crate) const MARKER: &str = "\n## Accounts that the servers know\n";

/// The table's entry for an answer.
fn in_short(answer: &str) -> String {
    let words = [
        ("only its mysql_native_password hash is known", "hash"),
        ("SSL connection required", "client"),
        ("Access denied", "denied"),
    ];
    if answer == "ok" {
        return "ok".to_owned();
    }
    if answer.starts_with("none") {
        return "–".to_owned();
    }
    let found = words.iter().find(|(text, _)| answer.contains(text));
    found.map_or_else(|| "unreadable".to_owned(), |(_, word)| (*word).to_owned())
}

fn page(results: &Results) -> String {
    let mut page = String::from(INTRODUCTION);
    for (plugin, (_, name)) in PLUGINS.iter().enumerate() {
        let clients: Vec<&str> = CLIENTS.iter().map(|(_, name)| *name).collect();
        let rule = "|---".repeat(CLIENTS.len() + 2);
        let _ = write!(page, "\n## {name}\n\n| transport | stored | {} |\n{rule}|\n", clients.join(" | "));
        for (transport, (_, transport_name)) in TRANSPORTS.iter().enumerate() {
            for (stored, (_, _, stored_name)) in STORED.iter().enumerate() {
                let _ = write!(page, "| {transport_name} | {stored_name} |");
                for client in 0..CLIENTS.len() {
                    let cell = Cell { plugin, transport, stored, client };
                    let on = |flavour| results.get(&(flavour, cell)).map_or("", String::as_str);
                    let (maria, mysql) = (on(Flavour2::MariaDb), on(Flavour2::MySql9));
                    let _ = match maria == mysql {
                        true => write!(page, " {maria} |"),
                        false => write!(page, " {maria}; MySQL 9: {mysql} |"),
                    };
                }
                page.push('\n');
            }
        }
    }
    page
}

const INTRODUCTION: &str = "# Logins\n\n\
    The outcome of a login, by the plugin that the client begins with, the transport, the form in which the password \
    is stored in `mysql_users.password`, and the client. Each login is the first of its account since the start; what \
    a client reveals can be used for later logins. The tables are written by a test (`tests/e2e/auth/matrix.rs`) with \
    MariaDB 10.11 and MySQL 9.7 as servers; a single word means that the outcome is the same for both.\n\n\
    - **ok**: logged in, and a statement was answered.\n\
    - **hash**: logged in to Narrows, but Narrows cannot log in to the server: the client has revealed only the SHA-1 \
    of its password, which is enough to check a native hash, but MySQL 9 wants the password itself. Error 1045 says \
    so. Store the password in clear text or as a sha2 hash, or have clients use TLS and caching_sha2_password, which \
    reveals the password itself.\n\
    - **denied**: error 1045. Connector/J encrypts passwords with PKCS #1 padding if the server announces a version \
    before 8.0.5; from a newer one it queries variables that MariaDB 10.11 does not have.\n\
    - **client**: the client itself refuses to send a clear-text password over a connection that others could listen \
    to.\n\
    - **–**: the client does not have the plugin, does not let the user choose it, or does not have the transport.\n\n\
    For mysql_native_password and caching_sha2_password, `mysql-default_authentication_plugin` was set to that plugin, \
    and the command-line clients were given it as an option. The mysql client was run with `--get-server-public-key` \
    and Connector/J with `allowPublicKeyRetrieval=true`: without these options, neither sends its password over plain \
    TCP for a sha2 hash.\n\
    A client that begins with a plugin that Narrows cannot verify is asked to switch to another one; a clear-text \
    password is requested over TLS only. Clients can also show a [token](tokens.md), over TLS or a Unix socket.\n";
