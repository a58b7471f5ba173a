//! `narrows check --connect`: servers and accounts are really tried.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use narrows_testkit::{Authority, Flavour, RealServer, ServerOptions, Validity, free_port};
use serde_json::Value;

use super::{Files, check, findings, stdout};

/// The account of the monitor and its password.
const MONITOR: &str = "monitor_username=\"check_monitor\" monitor_password=\"watch\"";

/// A server on which that account may do what the monitor does, and clients' accounts as in the files below.
fn server() -> &'static RealServer {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE USER IF NOT EXISTS check_monitor IDENTIFIED BY 'watch'",
        "GRANT SLAVE MONITOR, REPLICATION CLIENT ON *.* TO check_monitor",
        "CREATE USER IF NOT EXISTS check_nobody IDENTIFIED BY 'watch'",
        "CREATE USER IF NOT EXISTS check_app IDENTIFIED BY 'secret'",
    ]);
    server
}

/// A file with these variables, servers and accounts.
fn text(variables: &str, servers: &[String], users: &[&str]) -> String {
    let rows =
        |rows: Vec<String>| rows.iter().map(|row| format!("  {{ {row} }}")).collect::<Vec<_>>().join(",\n");
    let users = users.iter().map(|user| (*user).to_owned()).collect();
    format!(
        "mysql_variables = {{ {variables} }}\nmysql_servers = (\n{}\n)\nmysql_users = (\n{}\n)\n",
        rows(servers.to_vec()),
        rows(users)
    )
}

fn at(port: u16, more: &str) -> String {
    format!("address=\"127.0.0.1\" port={port} hostgroup=0 {more}")
}

const APP: &str = "username=\"check_app\" password=\"secret\"";

/// The findings about a file, and whether the check succeeds.
fn tried(text: &str) -> (Vec<Value>, bool) {
    let output = check(&["--connect", "--json", "-"], text);
    (findings(&output), output.status.success())
}

fn messages(found: &[Value], severity: &str) -> Vec<String> {
    let of = found.iter().filter(|finding| finding["severity"] == severity);
    of.map(|finding| finding["message"].as_str().expect("a message").to_owned()).collect()
}

#[test]
fn what_the_file_says_works_and_what_is_not_tried_is_a_note() {
    Flavour::MariaDb.if_tested(|_| {
        let server = server();
        let socket = format!("address=\"{}\" port=0 hostgroup=0", server.socket().display());
        let servers = [at(server.port(), "max_replication_lag=10"), socket, at(1, "status=\"OFFLINE_SOFT\"")];
        let native = "username=\"hashed\" password=\"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"";
        let users = [APP, native, "username=\"off\" active=0", "username=\"lost\" default_hostgroup=7"];
        let pairs = "mysql_replication_hostgroups = ( { writer_hostgroup=0 reader_hostgroup=1 } )\n";
        let text = text(MONITOR, &servers, &users) + pairs;
        let (found, succeeds) = tried(&text);
        assert!(succeeds, "{found:#?}");
        assert_eq!(messages(&found, "error"), Vec::<String>::new());
        let mut notes = messages(&found, "note");
        notes.sort();
        assert_eq!(
            notes,
            [
                "account \"hashed\": not tried: its password is stored as a hash",
                "account \"lost\": not tried: hostgroup 7 has no server in use",
                "account \"off\": not tried: it is not active",
                "server 127.0.0.1:1: not tried: it is OFFLINE_SOFT",
            ]
        );
        // Notes are about lines, and are no warnings.
        let offline = found.iter().find(|finding| finding["key"] == "server 127.0.0.1:1").expect("the note");
        assert_eq!(offline["line"], 5);
        let output = check(&["--connect", "-"], &text);
        assert!(
            stdout(&output).contains("<stdin>:5:3: note: server 127.0.0.1:1: not tried"),
            "{}",
            stdout(&output)
        );
        assert!(stdout(&output).ends_with("can be started: 0 errors, 1 warning\n"), "{}", stdout(&output));
    });
}

#[test]
fn each_failure_names_server_account_and_reason() {
    Flavour::MariaDb.if_tested(|_| {
        let (server, closed) = (server(), free_port());
        let port = server.port();
        let servers = [at(port, "max_replication_lag=10"), at(closed, "")];
        let users = [APP, "username=\"sbtest\" password=\"wrong\""];
        let (found, succeeds) = tried(&text(MONITOR, &servers, &users));
        assert!(!succeeds);
        let errors = messages(&found, "error");
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!(
            errors[0],
            format!(
                "server 127.0.0.1:{closed}: account \"check_monitor\" of the monitor: Connection refused (os error 111)"
            )
        );
        let denied = format!("server 127.0.0.1:{port}: account \"sbtest\": error 1045 (28000): Access denied for user");
        assert!(errors[1].starts_with(&denied), "{}", errors[1]);
        let lines: Vec<&Value> = found.iter().map(|finding| &finding["line"]).collect();
        assert_eq!(lines, [4, 8]);
        // The monitor's password is wrong.
        let wrong = "monitor_username=\"check_monitor\" monitor_password=\"wrong\"";
        let (found, succeeds) = tried(&text(wrong, &[at(port, "")], &[APP]));
        assert!(!succeeds);
        let errors = messages(&found, "error");
        let denied = format!("server 127.0.0.1:{port}: account \"check_monitor\" of the monitor: error 1045 (28000): ");
        assert!(errors.len() == 1 && errors[0].starts_with(&denied), "{errors:?}");
    });
}

#[test]
fn a_monitor_without_a_privilege_is_found_if_a_check_needs_it() {
    Flavour::MariaDb.if_tested(|_| {
        let port = server().port();
        let nobody = "monitor_username=\"check_nobody\" monitor_password=\"watch\"";
        let (found, succeeds) = tried(&text(nobody, &[at(port, "max_replication_lag=10")], &[APP]));
        assert!(!succeeds);
        let errors = messages(&found, "error");
        let denied = format!(
            "server 127.0.0.1:{port}: account \"check_nobody\" of the monitor: the check replication_lag fails: error 1227 (42000): "
        );
        assert!(errors.len() == 1 && errors[0].starts_with(&denied), "{errors:?}");
        // Without a limit on the lag, nobody asks for it.
        assert!(tried(&text(nobody, &[at(port, "")], &[APP])).1);
        let heartbeat = format!("{nobody} monitor_replication_lag_use_percona_heartbeat=\"mysql.user\"");
        let (found, _) = tried(&text(&heartbeat, &[at(port, "max_replication_lag=10")], &[APP]));
        let errors = messages(&found, "error");
        assert!(errors.len() == 1 && errors[0].contains("error 1142 (42000)"), "{errors:?}");
        // While the monitor is off, its account is not needed.
        let off = "monitor_enabled=false monitor_username=\"nobody\"";
        let (found, succeeds) = tried(&text(off, &[at(port, "")], &[APP]));
        assert!(succeeds, "{found:?}");
        let expected = "account \"nobody\" of the monitor: not tried: mysql-monitor_enabled is false";
        assert_eq!(messages(&found, "note"), [expected]);
    });
}

#[test]
fn servers_that_accept_and_send_nothing_end_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let servers: Vec<String> = (0..20)
        .map(|weight| at(port, &format!("weight={weight} hostgroup={weight}")))
        .map(|row| row.replacen("hostgroup=0 ", "", 1))
        .collect();
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other_port = other.local_addr().expect("an address").port();
    let servers = [servers, vec![at(other_port, "")]].concat();
    let begun = Instant::now();
    let (found, succeeds) = tried(&text(MONITOR, &servers, &[APP]));
    let took = begun.elapsed();
    assert!(!succeeds);
    let mut errors = messages(&found, "error");
    errors.sort();
    let of = |port: u16| {
        format!("server 127.0.0.1:{port}: account \"check_monitor\" of the monitor: no answer within 5s")
    };
    let mut expected = [of(port), of(other_port)];
    expected.sort();
    assert_eq!(errors, expected);
    assert_eq!(
        messages(&found, "note"),
        ["account \"check_app\": not tried: no server of hostgroup 0 answers"]
    );
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(9), "{took:?}");
}

#[test]
fn tls_is_tried_with_the_files_that_the_file_names() {
    Flavour::MariaDb.if_tested(|flavour| {
        let authority = Authority::new("the authority");
        let own = authority.issue("server", &["127.0.0.1"], Validity::Current);
        let other = Authority::new("another authority");
        let files = Files::with(&[
            ("ca.pem", authority.pem()),
            ("other.pem", other.pem()),
            ("cert.pem", &own.certificate),
            ("key.pem", &own.key),
        ]);
        let server = ServerOptions::new(flavour)
            .option(&format!("--ssl-cert={}", files.path("cert.pem")))
            .option(&format!("--ssl-key={}", files.path("key.pem")))
            .start();
        let of = |ca: &str| {
            let variables = format!(
                "monitor_username=\"sbtest\" monitor_password=\"sbtest\" ssl_p2s_ca=\"{}\"",
                files.path(ca)
            );
            let users = ["username=\"sbtest\" password=\"sbtest\""];
            tried(&text(&variables, &[at(server.port(), "use_ssl=1")], &users))
        };
        let (found, succeeds) = of("ca.pem");
        assert!(succeeds, "{found:?}");
        let (found, succeeds) = of("other.pem");
        assert!(!succeeds);
        let errors = messages(&found, "error");
        assert!(errors.len() == 1 && errors[0].contains("account \"sbtest\" of the monitor: "), "{errors:?}");
        assert!(errors[0].contains("certificate"), "{errors:?}");
    });
}

#[test]
fn a_file_with_errors_is_not_tried() {
    let wrong = "mysql_variables = { threads = 1000 }\n";
    let (found, succeeds) = tried(wrong);
    assert!(!succeeds);
    let notes = messages(&found, "note");
    assert_eq!(notes, ["servers and accounts are not tried: the file has errors"]);
}
