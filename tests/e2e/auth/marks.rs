//! Nothing that Narrows writes or shows has a password in it that may not be there: one run with marked passwords, in which clients
//! and administrators log in, change and fail in every way, processes crash and are replaced, and all logs are on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use narrows_testkit::{
    Answer, Authority, Endpoint, Flavour, KEPT_MARK, Login, Narrows, NarrowsConfig, RawClient, RealServer,
    TYPED_MARK, TempFolder, Validity, allow_core_files, files_below, has_text, keeps_configurations, kill,
    tls_client, workers_and_keepers,
};

use crate::http;
use crate::restart::{upgrade, wait_for_another};
use crate::support::start;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// Where a password that an operator has written may be shown, and why. Nothing else may show one, and nothing at all one with
/// [`KEPT_MARK`], except the environment that the test itself has set.
const SHOWN_AS_WRITTEN: &[(&str, &str)] = &[
    ("main.mysql_users", "what an operator edits, as in ProxySQL; `LOAD` and `SAVE` move it"),
    ("disk.mysql_users", "the same, saved"),
    ("main.global_variables", "what an operator edits, as in ProxySQL"),
    ("disk.global_variables", "the same, saved"),
    ("main.runtime_global_variables", "what runs, as written, for `SAVE ... FROM RUNTIME`, as in ProxySQL"),
    ("SELECT CONFIG FILE", "memory as a configuration file, from which Narrows can be started"),
    ("SHOW ADMIN VARIABLES", "`main.global_variables`, as in ProxySQL"),
    ("SHOW MYSQL VARIABLES", "`main.global_variables`, as in ProxySQL"),
    ("SHOW MYSQL USERS", "`main.mysql_users`"),
];

fn kept(name: &str) -> String {
    format!("{KEPT_MARK}-{name}")
}

fn typed(name: &str) -> String {
    format!("{TYPED_MARK}-{name}")
}

/// Accounts on the server, with their passwords.
fn accounts() -> Vec<(&'static str, String)> {
    vec![
        ("mk_clear", typed("clear")),
        ("mk_second", typed("second")),
        ("mk_native", kept("native")),
        ("mk_env", kept("env")),
        ("mk_file", kept("file")),
        ("mk_exec", kept("exec")),
        ("mk_pass", kept("pass")),
        ("mk_monitor", kept("monitor")),
        ("mk_service", kept("service")),
        ("mk_queried", kept("queried")),
    ]
}

/// Everything that is kept elsewhere: files, a program, and a key with a passphrase.
fn elsewhere() -> TempFolder {
    let folder = TempFolder::new("marks");
    for name in ["file", "exec", "monitor", "service", "boss", "passphrase", "replication"] {
        fs::write(folder.file(name), kept(name) + "\n").expect("a file");
    }
    let pair = Authority::new("towards servers").issue("narrows", &["127.0.0.1"], Validity::Current);
    fs::write(folder.file("certificate"), &pair.certificate).expect("a file");
    fs::write(folder.file("plain-key"), &pair.key).expect("a file");
    let made = Command::new("openssl")
        .args(["pkcs8", "-topk8", "-passout", &format!("pass:{}", kept("passphrase")), "-in"])
        .args([folder.file("plain-key"), "-out".into(), folder.file("key")])
        .status();
    assert!(made.is_ok_and(|status| status.success()), "openssl encrypts the key");
    folder
}

fn config(server: &RealServer, folder: &TempFolder) -> NarrowsConfig {
    let path = |name: &str| folder.file(name).display().to_string();
    let file = |name: &str| format!("file:{}", path(name));
    let hash = hash_of(server, "native");
    let second = format!(r#"attributes="{{\"additional_password\":\"{}\"}}""#, typed("second"));
    let queried =
        "SELECT authentication_string FROM mysql.user WHERE user = ? AND user LIKE 'mk\\\\_queried'";
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user("mk_clear", &typed("clear"), "")
        .user("mk_second", &typed("first"), &second)
        .user("mk_native", &hash, "")
        .user("mk_env", "env:NARROWS_TEST_PASSWORD", "")
        .user("mk_file", &file("file"), "")
        .user("mk_exec", &format!("exec:/bin/cat {}", path("exec")), "")
        .environment("NARROWS_TEST_PASSWORD", &kept("env"))
        .environment("NARROWS_LOG", "trace")
        .supervised()
        .monitor();
    [
        ("monitor_username", "mk_monitor"),
        ("monitor_password", &file("monitor")),
        ("switchover_replication_password", &file("replication")),
        ("auth_query", queried),
        ("auth_query_username", "mk_service"),
        ("auth_query_password", &file("service")),
        ("passthrough_auth_enabled", "true"),
        ("passthrough_auth_unknown_users", "true"),
        ("default_authentication_plugin", "caching_sha2_password"),
        ("ssl_p2s_cert", &path("certificate")),
        ("ssl_p2s_key", &path("key")),
        ("ssl_p2s_key_passphrase", &file("passphrase")),
        ("auditlog_filename", "audit"),
        ("eventslog_filename", "queries"),
        ("eventslog_default_log", "1"),
        ("eventslog_buffer_history_size", "1000"),
    ]
    .into_iter()
    .fold(config, |config, (name, value)| config.variable(name, value))
}

/// Logs in in every way, also with wrong passwords; returns the errors.
fn use_everything(narrows: &Narrows) -> String {
    let mut errors = String::new();
    let ca = fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made");
    let trust = tls_client(&ca, None);
    let encrypted = || {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.start_tls(&trust).expect("a handshake");
        client
    };
    for (user, password) in accounts() {
        for plugin in ["mysql_native_password", "caching_sha2_password", "mysql_clear_password"] {
            for password in [kept("wrong"), password.clone()] {
                let clients = [
                    encrypted(),
                    RawClient::connect(&Endpoint::Unix(narrows.socket())),
                    RawClient::connect(&narrows.endpoint()),
                ];
                for mut client in clients {
                    let login = Login::new(user, &password).plugin(plugin);
                    match client.login(&login) {
                        Ok(_) => {
                            errors += &text(&client.query("SELECT CURRENT_USER(), no_such_column"));
                            errors += &text(&client.query("SELECT CURRENT_USER()"));
                            let (right, wrong) = (
                                Login::new("mk_clear", &typed("clear")),
                                Login::new("mk_file", &kept("wrong")),
                            );
                            errors += &format!("{:?}\n", client.change_user(&right).err());
                            errors += &format!("{:?}\n", client.change_user(&wrong).err());
                        }
                        Err(error) => errors += &format!("{error:?}\n"),
                    }
                }
            }
        }
    }
    for user in accounts() {
        let mut client = encrypted();
        let is_monitor = matches!(user.0, "mk_monitor" | "mk_service");
        let done = client.login(&Login::new(user.0, &user.1)).is_ok() && client.query("DO 1").ok().is_some();
        assert!(done || is_monitor, "{} can log in", user.0);
    }
    errors
}

/// What an administrator does, with passwords in it, and with mistakes; returns what is answered.
fn administrate(narrows: &Narrows, folder: &TempFolder) -> String {
    let mut admin = narrows.admin();
    let [first, other, boss] = ["admin-1", "admin-2", "boss"].map(typed);
    let mut said = String::new();
    for statement in [
        format!(
            "SET admin-admin_credentials='admin:admin;typed:{boss};boss:file:{}'",
            folder.file("boss").display()
        ),
        "LOAD ADMIN VARIABLES TO RUNTIME".to_owned(),
        "SAVE ADMIN VARIABLES TO DISK".to_owned(),
        format!("INSERT INTO mysql_users (username, password) VALUES ('mk_new', '{first}')"),
        format!("UPDATE mysql_users SET password = '{other}' WHERE username = 'mk_new'"),
        "LOAD MYSQL USERS TO RUNTIME".to_owned(),
        "SAVE MYSQL USERS TO DISK".to_owned(),
        format!("SET mysql-auth_query_password = '{first}'"),
        format!("SET mysql-auth_query_password = {other}"),
        "LOAD MYSQL VARIABLES FROM DISK".to_owned(),
        format!(
            "UPDATE global_variables SET variable_value = '{first}' WHERE variable_name = 'mysql-switchover_replication_password'"
        ),
        "LOAD MYSQL VARIABLES TO RUNTIME".to_owned(),
        format!("INSERT INTO mysql_users (username, passwort) VALUES ('a', '{first}')"),
        format!("INSERT INTO mysql_users (username, password) VALUES ('mk_new', '{first}')"),
        format!("SELECT {first}"),
        format!("SET mysql-no_such_password = '{first}'"),
        format!("LOAD MYSQL USERS FROM '{first}'"),
        "SELECT username, default_schema FROM runtime_mysql_users".to_owned(),
        "SHOW NARROWS DRIFT".to_owned(),
    ] {
        said += &text(&admin.query(statement));
    }
    for (user, password) in [("typed", boss), ("boss", kept("boss"))] {
        RawClient::open(&narrows.admin_endpoint(), &Login::new(user, &password));
        let refused = RawClient::connect(&narrows.admin_endpoint()).login(&Login::new(user, &kept("wrong")));
        said += &format!("{:?}\n", refused.expect_err("a wrong password"));
    }
    said += &plan(&mut admin, &other);
    // What runs from now on.
    for statement in [
        &format!("SET admin-stats_credentials = 'stats:stats;typed:{first}'"),
        &format!("SET mysql-switchover_replication_password = '{first}'"),
        "LOAD ADMIN VARIABLES TO RUNTIME",
        "LOAD MYSQL VARIABLES TO RUNTIME",
        "SAVE ADMIN VARIABLES TO DISK",
        "SAVE MYSQL VARIABLES TO DISK",
    ] {
        said += &text(&admin.query(statement));
    }
    said
}

/// Plans, applies and takes back; returns what is answered.
fn plan(admin: &mut RawClient, password: &str) -> String {
    let document = format!(r#"{{"mysql_users":[{{"username":"mk_planned","password":"{password}"}}]}}"#);
    let mut said = text(&admin.query(format!("NARROWS PLAN CONFIGURATION '{document}'")));
    admin.query(format!(
        "UPDATE mysql_users SET password = '{password}-3', comment = 'planned' WHERE username = 'mk_new'"
    ));
    let planned = admin.query("NARROWS PLAN");
    let token = planned.text_rows()[0][1].clone().expect("a token");
    said += &text(&planned);
    for statement in [
        &format!("NARROWS APPLY PLAN '{token}' COMMENT 'another password'"),
        "SHOW NARROWS CHANGES",
        "NARROWS ROLLBACK TO 1",
        "SHOW NARROWS CHANGES",
        "SHOW NARROWS CHANGES OF VERSION 2",
        "SHOW NARROWS CHANGES FROM 1 TO 3",
        "SHOW NARROWS MANAGED",
        "PROXYSQL FLUSH LOGS",
        "DUMP EVENTSLOG FROM BUFFER TO MEMORY",
        "DUMP EVENTSLOG FROM BUFFER TO DISK",
        "PROXYSQL COREDUMP",
    ] {
        said += &text(&admin.query(statement));
    }
    said
}

/// Everything that can be asked for, by its name.
fn shown(narrows: &Narrows, http_port: u16) -> BTreeMap<String, Vec<u8>> {
    let mut admin = narrows.admin();
    let mut shown = BTreeMap::new();
    let saved = format!("SAVE CONFIG TO FILE {}", narrows.folder().join("saved.cnf").display());
    for statement in [
        "SELECT CONFIG FILE",
        "SHOW PROMETHEUS METRICS",
        "SHOW ADMIN VARIABLES",
        "SHOW MYSQL VARIABLES",
        "SHOW MYSQL USERS",
        "SHOW NARROWS STATUS",
        "SHOW NARROWS CHANGES",
        "SHOW FULL PROCESSLIST",
        "SHOW PINS",
        "SHOW WARNINGS",
        "EXPLAIN ROUTE 'SELECT 1' AS mk_clear",
        &saved,
    ] {
        let answer = admin.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        shown.insert(statement.to_owned(), text(&answer).into());
    }
    for schema in ["main", "disk", "stats", "monitor", "stats_history"] {
        let names =
            admin.query(format!("SELECT name FROM {schema}.sqlite_master WHERE type IN ('table', 'view')"));
        let names: Vec<String> = names.text_rows().into_iter().filter_map(|mut row| row.remove(0)).collect();
        assert!(!names.is_empty(), "{schema}");
        for name in names {
            let rows = admin.query(format!("SELECT * FROM {schema}.{name}"));
            shown.insert(format!("{schema}.{name}"), text(&rows).into());
        }
    }
    for path in ["/metrics", "/health", "/"] {
        let answer = http::get(http_port, path);
        shown.insert(format!("GET {path}"), (answer.head + &answer.body).into());
    }
    shown
}

/// What the system shows of its processes, except the variable that the test has set.
fn of_processes(narrows: &mut Narrows) -> BTreeMap<String, Vec<u8>> {
    let mut shown = BTreeMap::new();
    let pids: BTreeSet<u32> =
        workers_and_keepers(narrows.folder()).into_iter().chain([narrows.process().pid()]).collect();
    assert!(pids.len() > 2, "a supervisor, a worker process and a standby: {pids:?}");
    for pid in pids {
        for name in ["cmdline", "comm", "status", "maps", "mountinfo", "limits"] {
            shown.insert(
                format!("/proc/{pid}/{name}"),
                fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default(),
            );
        }
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let others =
            environment.split(|byte| *byte == 0).filter(|it| !it.starts_with(b"NARROWS_TEST_PASSWORD="));
        shown.insert(format!("/proc/{pid}/environ"), others.collect::<Vec<_>>().join(&0));
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let path = thread.path().join("comm");
            shown.insert(path.display().to_string(), fs::read(&path).unwrap_or_default());
        }
    }
    shown
}

#[test]
fn nothing_has_a_marked_password_that_may_not_be_there() {
    let server = RealServer::shared(Flavour::MariaDb);
    for (user, password) in accounts() {
        server.execute(&[
            &format!("CREATE USER IF NOT EXISTS {user}@'%'"),
            &format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"),
            &format!("GRANT ALL ON *.* TO {user}@'%'"),
        ]);
    }
    let folder = elsewhere();
    let mut narrows = start(&config(server, &folder));
    let mut said = use_everything(&narrows);
    said += &administrate(&narrows, &folder);
    let http_port = http::enable(&narrows);
    let mut places = shown(&narrows, http_port);
    places.extend(of_processes(&mut narrows));
    // What one process passes on to the next one, by a crash and by an upgrade.
    let former = narrows.worker();
    let ends_in = fs::read_link(format!("/proc/{former}/cwd")).expect("it runs");
    let before = cores(&ends_in);
    allow_core_files(former);
    // SAFETY: kill affects nothing in this process.
    unsafe { libc::kill(former.try_into().expect("a process"), libc::SIGABRT) };
    wait_for_another(&narrows, former);
    said += &use_everything(&narrows);
    let (done, text) = upgrade(Path::new(BINARY), &narrows);
    assert!(done, "{text}");
    said += &use_everything(&narrows);
    places.extend(shown(&narrows, http_port));
    places.insert("answers and errors".to_owned(), said.into());
    // The worst possible end: if core files were written, this would write some.
    allow_core_files(narrows.process().pid());
    narrows.process().signal(libc::SIGABRT);
    let status = narrows.process().wait_for(Duration::from_secs(30)).expect("the signal ends it");
    assert_eq!((status.signal(), status.core_dumped()), (Some(libc::SIGABRT), false));
    workers_and_keepers(narrows.folder()).into_iter().for_each(kill);
    let files = files_below(narrows.folder()).into_iter().filter(|(name, _)| name != "narrows.cnf");
    places.extend(files.map(|(name, bytes)| (format!("file {name}"), bytes)));
    assert!(!places.keys().any(|name| name.starts_with("file core")), "{:?}", places.keys());
    assert_eq!(cores(&ends_in), before, "a core file of a worker process");
    assert_nothing_leaks(&places, &hashes(server));
}

/// The core files in a folder.
fn cores(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name == "core" || name.starts_with("core."));
    names.sort();
    names
}

/// Hashes that are nowhere in the configuration.
fn hashes(server: &RealServer) -> Vec<String> {
    ["queried", "file", "env", "exec", "pass"].into_iter().map(|name| hash_of(server, name)).collect()
}

fn hash_of(server: &RealServer, name: &str) -> String {
    let rows = server.rows(&format!("SELECT PASSWORD('{}')", kept(name)));
    rows[0][0].clone().expect("a hash")
}

fn assert_nothing_leaks(places: &BTreeMap<String, Vec<u8>>, hashes: &[String]) {
    let kept: Vec<&String> = places
        .iter()
        .filter(|(_, bytes)| has_text(bytes, KEPT_MARK) || hashes.iter().any(|hash| has_text(bytes, hash)))
        .map(|(name, _)| name)
        .collect();
    let may_show = |name: &str| {
        let is_saved = name.strip_prefix("file ").is_some_and(keeps_configurations);
        is_saved || SHOWN_AS_WRITTEN.iter().any(|(place, _)| *place == name)
    };
    let typed: Vec<&String> = places
        .iter()
        .filter(|(name, bytes)| !may_show(name) && has_text(bytes, TYPED_MARK))
        .map(|(name, _)| name)
        .collect();
    assert!(
        kept.is_empty() && typed.is_empty(),
        "kept elsewhere: {kept:#?}\nwritten by an operator: {typed:#?}"
    );
    for (place, reason) in SHOWN_AS_WRITTEN {
        let shows = places.get(*place).is_some_and(|bytes| has_text(bytes, TYPED_MARK));
        assert!(shows, "{place} is no exception any more: {reason}");
    }
}

fn text(answer: &Answer) -> String {
    answer.packets.iter().map(|packet| String::from_utf8_lossy(&packet.payload)).collect()
}
