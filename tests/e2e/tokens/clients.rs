//! Real clients with tokens: the command lines of MySQL 9 and MariaDB, and drivers.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Stand, configured};
use crate::auth::matrix::script;

fn output(mut command: Command, token: &str) -> String {
    command.env("MYSQL_PWD", token).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
}

fn command_line(program: &str, stand: &Stand, user: &str, options: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-defaults").args(options).arg(format!("--user={user}"));
    command.args([
        "--batch",
        "--skip-column-names",
        "--connect-timeout=60",
        "--execute=SELECT CURRENT_USER()",
    ]);
    match options.contains(&"--protocol=socket") {
        true => command.arg(format!("--socket={}", stand.narrows.socket().display())),
        false => command
            .args(["--protocol=tcp", "--host=127.0.0.1"])
            .arg(format!("--port={}", stand.narrows.port())),
    };
    command
}

#[test]
fn command_lines_send_tokens() {
    let stand = Stand::of("tok_cli");
    let token = stand.good("tok_cli");
    let root = std::env::var("NARROWS_MYSQL9").unwrap_or_else(|_| "/opt/mysql9".to_owned());
    let (mysql, plugins) = (format!("{root}/bin/mysql"), format!("--plugin-dir={root}/usr/lib/mysql/plugin"));
    let mut cases: Vec<(&str, Vec<&str>)> =
        vec![("mariadb", vec!["--ssl"]), ("mariadb", vec!["--protocol=socket"])];
    if Path::new(&mysql).exists() && std::env::var_os("NARROWS_SKIP_MYSQL9").is_none() {
        cases.push((&mysql, vec![&plugins, "--ssl-mode=REQUIRED", "--enable-cleartext-plugin"]));
        // Over TLS, it sends what it has without being allowed to by an option.
        let sha2 = "--default-auth=caching_sha2_password";
        cases.push((&mysql, vec![&plugins, "--ssl-mode=REQUIRED", sha2]));
        let clear = "--default-auth=mysql_clear_password";
        cases.push((&mysql, vec![&plugins, "--ssl-mode=REQUIRED", "--enable-cleartext-plugin", clear]));
        cases.push((&mysql, vec![&plugins, "--protocol=socket", "--enable-cleartext-plugin"]));
    }
    for (program, options) in cases {
        let said = output(command_line(program, &stand, "tok_cli", &options), &token);
        assert_eq!(said, "tok_cli@%", "{program} {options:?}");
    }
    let said = output(command_line("mariadb", &stand, "tok_cli", &["--skip-ssl"]), &token);
    assert!(said.contains("1045") && said.contains("TLS"), "{said}");
}

#[test]
fn pymysql_sends_tokens() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/drivers/python/bin/python");
    if !python.exists() || std::env::var_os("NARROWS_SKIP_DRIVERS").is_some() {
        return;
    }
    let stand = Stand::of("tok_python");
    let script = "import os, sys, ssl, pymysql\n\
        context = ssl.create_default_context(cafile=sys.argv[2])\n\
        context.check_hostname = False\n\
        c = pymysql.connect(host='127.0.0.1', port=int(sys.argv[1]), user='tok_python', password=os.environ['MYSQL_PWD'], ssl=context)\n\
        cursor = c.cursor()\n\
        cursor.execute('SELECT CURRENT_USER()')\n\
        print(cursor.fetchone()[0])\n";
    let mut command = Command::new(python);
    command.args(["-c", script, &stand.narrows.port().to_string()]);
    command.arg(stand.narrows.folder().join("proxysql-ca.pem"));
    assert_eq!(output(command, &stand.good("tok_python")), "tok_python@%");
}

/// A driver, its name in the documents, and the options that it needs besides those for TLS if Narrows greets it with
/// `mysql_native_password`. Without them it says `without`. After a greeting with `caching_sha2_password`, none needs an option.
struct Driver {
    script: &'static str,
    name: &'static str,
    options: &'static str,
    without: &'static str,
}

const DRIVERS: &[Driver] = &[
    Driver { script: "connector-j", name: "Connector/J", options: "", without: "" },
    Driver { script: "mariadb-java", name: "MariaDB Connector/J", options: "", without: "" },
    Driver {
        script: "go-mysql",
        name: "go-sql-driver",
        options: "allowCleartextPasswords=true",
        without: "please add 'allowCleartextPasswords=1'",
    },
    Driver {
        script: "node-mysql2",
        name: "mysql2",
        options: r#"{"enableCleartextPlugin": true}"#,
        without: "set the `enableCleartextPlugin` option to `true`",
    },
    Driver { script: "pymysql", name: "PyMySQL", options: "", without: "" },
];

#[test]
fn drivers_send_tokens_with_the_options_in_the_documents() {
    if std::env::var_os("NARROWS_SKIP_DRIVERS").is_some() {
        return;
    }
    let user = "tok_driver";
    let greeting = |plugin: &str| {
        configured((user, ""), "", "", |config| {
            let config = config.variable("default_authentication_plugin", plugin);
            // Connector/J chooses its first statements by the version. And drivers begin slowly when many tests run.
            config.variable("server_version", "5.7.19").variable("connect_timeout_client", "60000")
        })
    };
    let (native, sha2) = (greeting("mysql_native_password"), greeting("caching_sha2_password"));
    let line = |stand: &Stand, transport: &str, options: &str| {
        let (port, token) = (stand.narrows.port(), stand.good(user));
        let options = if options.is_empty() { String::new() } else { format!("\t{options}") };
        format!("{transport}\t{port}\tmysql_native_password\t{user}\t{token}{options}\n")
    };
    let documents = include_str!("../../../docs/tokens.md");
    for driver in DRIVERS {
        let input = [
            line(&native, "tls", driver.options),
            line(&sha2, "tls", ""),
            line(&native, "tls", ""),
            line(&native, "tcp", driver.options),
            line(&sha2, "tcp", ""),
        ];
        let said = script(driver.script, &input.concat());
        let [with, after_sha2, without, open, open_after_sha2] = said.as_slice() else {
            panic!("{}: {said:?}", driver.name)
        };
        assert_eq!([with.as_str(), after_sha2], ["ok"; 2], "{}", driver.name);
        match driver.options {
            "" => assert_eq!(without, "ok", "{}", driver.name),
            _ => assert!(without.contains(driver.without), "{}: {without}", driver.name),
        }
        for said in [open, open_after_sha2] {
            assert!(said.contains("sent over TLS or a Unix socket only"), "{}: {said}", driver.name);
        }
        let options =
            if driver.options.is_empty() { "–".to_owned() } else { format!("`{}`", driver.options) };
        let row = format!("| {} | {options} |", driver.name);
        assert!(documents.contains(&row), "docs/tokens.md has no {row}");
    }
    assert_eq!(native.figure("refused") + &sha2.figure("refused"), "00");
}
