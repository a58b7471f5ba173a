//! What drivers and object-relational mappers send when they connect, and that it does not pin their sessions.
//!
//! `docs/start-up-chatter.md` contains this test's results; `NARROWS_WRITE_DOCS=1` writes it again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions};

use crate::support::start;

/// A driver or object-relational mapper, with its name for `tests/drivers/chatter.sh`.
struct Library {
    name: &'static str,
    command: &'static str,
    /// Its version, if Debian's package is used and the machine decides.
    package: Option<&'static str>,
}

const fn library(name: &'static str, command: &'static str) -> Library {
    Library { name, command, package: None }
}

const fn packaged(name: &'static str, command: &'static str, package: &'static str) -> Library {
    Library { name, command, package: Some(package) }
}

const LIBRARIES: &[Library] = &[
    library("PyMySQL", "pymysql"),
    library("mysqlclient", "mysqlclient"),
    library("SQLAlchemy on PyMySQL", "sqlalchemy-pymysql"),
    library("SQLAlchemy on mysqlclient", "sqlalchemy-mysqlclient"),
    library("Django on mysqlclient", "django"),
    library("MySQL Connector/J", "connector-j"),
    library("MariaDB Connector/J", "mariadb-java"),
    library("Hibernate on Connector/J", "hibernate"),
    library("go-sql-driver", "go-mysql"),
    library("mysql2 for Node.js", "node-mysql2"),
    packaged("PHP mysqli", "mysqli", "php-mysql"),
    packaged("PHP PDO", "pdo", "php-mysql"),
    packaged("Laravel 10 and later, as PDO", "laravel", "php-mysql"),
    packaged("Laravel up to 9, as PDO", "laravel-old", "php-mysql"),
    packaged("mysql2 for Ruby", "mysql2", "ruby-mysql2"),
    packaged("ActiveRecord on mysql2", "activerecord", "ruby-activerecord"),
];

/// The statement with which a library shows that it has connected.
const MARKER: &str = "SELECT 'ready'";

/// What one library did.
struct Chatter {
    version: String,
    statements: Vec<String>,
    /// Reason and statement of each pin.
    pins: Vec<(String, String)>,
}

#[test]
fn start_up_chatter_leaves_sessions_unpinned() {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let mut page = String::from(HEAD);
    let mut wrong = Vec::new();
    for flavour in Flavour::both() {
        let scene = Scene::start(flavour);
        writeln!(page, "\n## {}\n\n{TABLE}", name_of(flavour)).expect("writing to a String cannot fail");
        for library in LIBRARIES {
            let chatter = scene.hear(library);
            let pins = chatter.pins.iter();
            wrong.extend(pins.map(|pin| format!("{} on {flavour:?}: {pin:?}", library.name)));
            page.push_str(&row(library, &chatter));
        }
    }
    if Flavour::both().len() == 2 {
        compare(&page);
    }
    assert!(wrong.is_empty(), "pinned:\n{}", wrong.join("\n"));
}

/// A server that records what it receives, and Narrows in front of it.
struct Scene {
    server: RealServer,
    narrows: Narrows,
}

impl Scene {
    fn start(flavour: Flavour) -> Scene {
        let server =
            ServerOptions::new(flavour).option("--log-output=TABLE").option("--general-log=1").start();
        server.execute(&["CREATE DATABASE IF NOT EXISTS chatter"]);
        let version = RawClient::connect(&server.endpoint()).greeting().expect("a greeting").version.clone();
        let config = NarrowsConfig::in_front_of(server.port())
            // Libraries choose their statements by it.
            .variable("server_version", &version)
            .environment("NARROWS_LOG", "info,narrows_proxy::pins=debug");
        let narrows = start(&config);
        Scene { server, narrows }
    }

    /// Connects once directly, to record what is sent, and once through Narrows, to see what Narrows does with it.
    fn hear(&self, library: &Library) -> Chatter {
        self.server.execute(&["TRUNCATE TABLE mysql.general_log"]);
        let version = connect(library, self.server.port());
        let heard = self.server.rows(
            "SELECT command_type, CONVERT(argument USING utf8mb4) FROM mysql.general_log \
             WHERE user_host LIKE '%sbtest%' ORDER BY event_time, thread_id",
        );
        let text = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        };
        let sent = heard.into_iter().map(text).filter_map(|(kind, text)| match kind.as_str() {
            "Query" => Some(text),
            "Prepare" => Some(format!("(prepared) {text}")),
            "Init DB" => Some(format!("(COM_INIT_DB) {text}")),
            _ => None,
        });
        let statements = sent.take_while(|statement| !statement.ends_with(MARKER)).collect();

        let skipped = self.narrows.log().len();
        connect(library, self.narrows.port());
        Chatter { version, statements, pins: pins(&self.narrows.log()[skipped..]) }
    }
}

/// The pins logged before the marker.
fn pins(log: &str) -> Vec<(String, String)> {
    let field = |line: &str, name: &str| {
        let rest = line.split_once(name).map(|(_, rest)| rest)?;
        Some(rest.split(" statement=").next().unwrap_or(rest).trim_matches('"').to_owned())
    };
    let lines = log.lines().filter(|line| line.contains("narrows_proxy::pins"));
    let pins = lines.filter_map(|line| {
        let statement = line.split_once(" statement=").map(|(_, rest)| rest.to_owned())?;
        Some((field(line, "reason=")?, statement))
    });
    pins.filter(|(_, statement)| !statement.contains("SELECT \\'ready")).collect()
}

/// Runs the library's program; returns its version.
fn connect(library: &Library, port: u16) -> String {
    let script = root().join("tests/drivers/chatter.sh");
    let arguments = [library.command, "127.0.0.1", &port.to_string(), "sbtest", "sbtest", "chatter"];
    let output = Command::new(script).args(arguments).output().expect("bash runs scripts");
    assert!(
        output.status.success(),
        "{} ({}):\n{}\nToolchains are installed by `scripts/setup.sh drivers`; NARROWS_SKIP_DRIVERS=1 skips this.",
        library.name,
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or_default().trim_start_matches('v').to_owned()
}

fn name_of(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::MariaDb => "MariaDB 10.11",
        Flavour::MySql9 => "MySQL 9",
    }
}

fn row(library: &Library, chatter: &Chatter) -> String {
    let version = match library.package {
        Some(package) => format!("Debian's {package}"),
        None => chatter.version.clone(),
    };
    let cell = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        // Code that contains such quotes needs two of them around it.
        if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
    };
    let statements: Vec<String> = chatter.statements.iter().map(|statement| cell(statement)).collect();
    let statements = if statements.is_empty() { "nothing".to_owned() } else { statements.join("<br>") };
    let pinned = match chatter.pins.first() {
        None => "no".to_owned(),
        Some((reason, _)) => format!("yes: {reason}"),
    };
    format!("| {} | {version} | {statements} | {pinned} |\n", library.name)
}

fn compare(page: &str) {
    let path = root().join("docs/start-up-chatter.md");
    if std::env::var("NARROWS_WRITE_DOCS").as_deref() == Ok("1") {
        return std::fs::write(&path, page).expect("write the page");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    // Another Debian release may have other versions; what they send is compared all the same.
    let lines = |page: &str| -> Vec<String> {
        page.lines().filter(|line| !line.contains("| Debian's ")).map(str::to_owned).collect()
    };
    let (there, seen) = (lines(&there), lines(page));
    let new: Vec<&String> = seen.iter().filter(|line| !there.contains(line)).collect();
    assert!(
        there == seen,
        "{} differs from the results; NARROWS_WRITE_DOCS=1 writes it again. New in it:\n{new:#?}",
        path.display()
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

const HEAD: &str = "\
# Start-up chatter

The statements that drivers and object-relational mappers send when they connect with their defaults, before the application's
first statement, and whether the session is then pinned to a backend connection. `tests/e2e/chatter.rs` records them and compares
them with this page. The protocol's handshake is not shown; line breaks and indentation are collapsed to single spaces.
";

const TABLE: &str = "| library | version | statements | pinned |\n|---|---|---|---|";
