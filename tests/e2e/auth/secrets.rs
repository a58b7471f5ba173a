//! Passwords and keys are only where they belong, after a run in which everything was logged.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use narrows_testkit::{
    Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, allow_core_files, tls_client,
};

use crate::support::start;

/// Passwords that nothing else contains.
const CLEAR: &str = "qX7-clear-secret";
const HASHED: &str = "qX7-hashed-secret";
const WRONG: &str = "qX7-wrong-secret";

/// `HASHED` as MariaDB's PASSWORD() and as MySQL store it.
const HASHED_NATIVE: &str = "*48CA50ABA799A1A97E16598E05DB356956A228D4";
const HASHED_SHA2: &str = "$A$005$narrowsnarrowsnarrow3zbEPd53fNZOfVIt.VRU2hq8JJRo8QXHA98e6NCxe03";

#[test]
fn no_secret_is_in_a_log_an_error_or_a_core_file() {
    let mut errors = String::new();
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        for (user, password) in [("sec_clear", CLEAR), ("sec_native", HASHED), ("sec_sha2", HASHED)] {
            server.execute(&[
                &format!("CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY '{password}'"),
                &format!("GRANT ALL ON *.* TO {user}@'%'"),
            ]);
        }
        let config = NarrowsConfig::new()
            .server(0, server.port(), "")
            .user("sec_clear", CLEAR, r#"attributes="{\"additional_password\":\"qX7-second-secret\"}""#)
            .user("sec_native", HASHED_NATIVE, "")
            .user("sec_sha2", HASHED_SHA2, "")
            .environment("NARROWS_LOG", "trace");
        let mut narrows = start(&config);
        errors += &use_everything(&narrows);
        let shown = ask_everything(&narrows);
        let key = std::fs::read_to_string(narrows.folder().join("proxysql-key.pem")).expect("made");
        let rsa_key = std::fs::read_to_string(narrows.folder().join("private_key.pem")).expect("made");
        let line = |pem: &str| pem.lines().nth(1).expect("a line of base 64").to_owned();
        let mut secrets = vec![line(&key), line(&rsa_key), "qX7-".to_owned()];
        secrets.extend([HASHED_NATIVE, HASHED_SHA2].map(str::to_owned));

        // The worst possible end: if core files were written, this would write one.
        allow_core_files(narrows.process().pid());
        narrows.process().signal(SIGABRT);
        let status = narrows.process().wait_for(Duration::from_secs(30)).expect("the signal ends it");
        assert_eq!((status.signal(), status.core_dumped()), (Some(SIGABRT), false));
        let log = narrows.log();
        assert!(log.contains("login failed"), "the log says what has happened");
        for secret in &secrets {
            assert!(!log.contains(secret), "{secret:?} is in the log:\n{log}");
            assert!(!errors.contains(secret), "{secret:?} is in an error:\n{errors}");
            // A password that the operator has stored as a hash is shown as stored.
            let stored = secret == HASHED_NATIVE || secret == HASHED_SHA2;
            assert!(stored || !shown.contains(secret), "{secret:?} is shown:\n{shown}");
        }
        assert_eq!(cores(narrows.folder()), Vec::<String>::new());
    }
}

const SIGABRT: i32 = 6;

/// Logs in in every way, including wrong ones; returns all the errors.
fn use_everything(narrows: &Narrows) -> String {
    let mut errors = String::new();
    let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made");
    let trust = tls_client(&ca, None);
    for (user, password) in
        [("sec_clear", CLEAR), ("sec_native", HASHED), ("sec_sha2", HASHED), ("nobody", CLEAR)]
    {
        for plugin in ["mysql_native_password", "caching_sha2_password", "mysql_clear_password"] {
            for password in [WRONG, password] {
                let login = Login::new(user, password).plugin(plugin);
                let clients = [
                    RawClient::connect(&narrows.endpoint()),
                    RawClient::connect(&Endpoint::Unix(narrows.socket())),
                    {
                        let mut client = RawClient::connect(&narrows.endpoint());
                        client.start_tls(&trust).expect("a handshake");
                        client
                    },
                ];
                for mut client in clients {
                    match client.login(&login) {
                        Ok(_) => {
                            let answer = client.query("SELECT no_such_column");
                            errors += &format!("{:?}\n", answer.error());
                            let changed = client.change_user(&Login::new("sec_clear", WRONG));
                            errors += &format!("{changed:?}\n");
                        }
                        Err(error) => errors += &format!("{error:?}\n"),
                    }
                }
            }
        }
    }
    errors
}

/// Everything that the admin interface shows to users who may not read configurations, and the runtime accounts.
fn ask_everything(narrows: &Narrows) -> String {
    let mut shown = String::new();
    let ask = |client: &mut RawClient, statement: &str| {
        let answer = client.query(statement);
        let lossy = |packet: &narrows_testkit::Packet| String::from_utf8_lossy(&packet.payload).into_owned();
        answer.packets.iter().map(lossy).collect::<String>()
    };
    let mut stats = narrows.stats();
    let mut admin = narrows.admin();
    let tables = admin.query("SELECT name FROM stats.sqlite_master WHERE type = 'table'");
    let tables: Vec<String> = tables.text_rows().into_iter().filter_map(|mut row| row.remove(0)).collect();
    assert!(tables.len() > 20, "{tables:?}");
    for table in &tables {
        shown += &ask(&mut stats, &format!("SELECT * FROM {table}"));
    }
    for statement in [
        "SELECT * FROM runtime_mysql_users",
        "SELECT * FROM runtime_checksums_values",
        "SHOW PROMETHEUS METRICS",
        "SHOW FULL PROCESSLIST",
        "SHOW PINS",
        "SELECT * FROM stats_mysql_query_digest",
        "EXPLAIN ROUTE 'SELECT 1' AS sec_clear",
    ] {
        let answer = ask(&mut admin, statement);
        assert!(!answer.is_empty(), "{statement}");
        shown += &answer;
    }
    assert!(shown.contains("sec_clear"), "{shown}");
    shown
}

fn cores(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("its folder").flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("core"))
        .collect()
}
