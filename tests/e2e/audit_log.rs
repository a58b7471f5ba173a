//! The audit log: who comes, who is refused, who leaves, and what administrators change.

use std::collections::BTreeMap;
use std::time::Duration;

use narrows_testkit::{
    Flavour, KEPT_MARK, Login, Narrows, NarrowsConfig, RawClient, RealServer, TYPED_MARK, TempFolder,
    wait_until,
};
use serde_json::{Value as Json, json};

use crate::support::start;

/// A Narrows with an audit log in a folder of its own.
fn audited(config: &NarrowsConfig) -> (Narrows, TempFolder) {
    let folder = TempFolder::new("audit");
    let name = folder.file("audit");
    let name = name.to_str().expect("a path in UTF-8").to_owned();
    (start(&config.clone().variable("auditlog_filename", &name)), folder)
}

/// What is in the log, of all its files.
fn events(folder: &TempFolder) -> Vec<Json> {
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let text: String =
        files.iter().map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let all = lines
        .map(|line| serde_json::from_str::<Json>(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    all.filter(|event| event["event"] != "Audit_Log_On").collect()
}

/// Waits until the log has `count` events of a kind; returns all.
fn wait_for(folder: &TempFolder, event: &str, count: usize) -> Vec<Json> {
    let mut found = Vec::new();
    wait_until(&format!("the log has {count} of {event}"), || {
        found = events(folder);
        found.iter().filter(|it| it["event"] == event).count() >= count
    });
    found
}

fn names(events: &[Json]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

#[test]
fn the_life_of_a_client_is_in_the_audit_log_in_order() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port()).user("other", "of-other", "");
    let (narrows, folder) = audited(&config);
    let mut client = narrows.client();
    client.command(INIT_DB, b"mysql").ok().expect("a schema");
    client.query("USE information_schema").ok().expect("a schema");
    client.query("USE missing").error().expect("no schema");
    client.change_user(&Login::new("other", "of-other")).expect("another user");
    client.send_command(QUIT, b"").expect("sent");
    assert!(client.is_closed_within(Duration::from_secs(10)));
    RawClient::connect(&narrows.endpoint())
        .login(&Login::new("sbtest", "wrong-secret"))
        .expect_err("a wrong password");
    narrows.client().vanish();
    let events = wait_for(&folder, "MySQL_Client_Close", 1);
    assert_eq!(
        names(&events),
        [
            "MySQL_Client_Connect_OK",
            "MySQL_Client_Init_DB",
            "MySQL_Client_Init_DB",
            "MySQL_Client_Change_User_OK",
            "MySQL_Client_Quit",
            "MySQL_Client_Connect_ERR",
            "MySQL_Client_Connect_OK",
            "MySQL_Client_Close",
        ]
    );
    let of = |name: &str| events.iter().map(|event| event[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        of("username"),
        ["sbtest", "sbtest", "sbtest", "other", "other", "sbtest", "sbtest", "sbtest"]
    );
    assert!(of("thread_id")[..5].iter().all(|id| *id == events[0]["thread_id"]), "{events:#?}");
    assert!(of("client_addr")[..5].iter().all(|address| *address == events[0]["client_addr"]), "{events:#?}");
    assert_eq!(of("schemaname")[1..3], ["mysql", "information_schema"]);
    assert_eq!(events[3]["former_username"], "sbtest");
    let reason = events[5]["extra_info"].as_str().expect("a reason");
    assert!(reason.contains("Access denied for user 'sbtest'"), "{reason}");
    assert!(events[4]["duration"].as_str().is_some_and(|time| time.ends_with("ms")), "{events:#?}");
    let whole = format!("{events:?}");
    assert!(!whole.contains("secret") && !whole.contains("of-other"), "{whole}");
}

#[test]
fn what_administrators_change_is_in_it_with_the_values_before_and_after() {
    let (narrows, folder) = audited(&NarrowsConfig::new().server(0, 1, "").user("app", "secret-of-app", ""));
    RawClient::connect(&narrows.admin_endpoint())
        .login(&Login::new("admin", "wrong-secret"))
        .expect_err("refused");
    let mut admin = narrows.admin();
    for statement in [
        "SELECT * FROM mysql_users",
        "UPDATE mysql_servers SET weight = 5",
        "UPDATE mysql_users SET password = 'secret-2', default_schema = 'a' WHERE username = 'app'",
        "REPLACE INTO mysql_users (username, password) VALUES ('second', 'secret-of-second')",
        "SET mysql-monitor_password = 'secret-3'",
        "SET mysql-monitor_password = secret-4",
        "SET mysql-max_connections = 123",
        "LOAD MYSQL SERVERS TO RUNTIME",
        "INSERT INTO mysql_users (username) VALUES ('app')",
        "PROXYSQL FLUSH QUERY CACHE",
    ] {
        admin.query(statement);
    }
    admin.send_command(QUIT, b"").expect("sent");
    let events = wait_for(&folder, "Admin_Quit", 1);
    let expected = [
        "Admin_Connect_ERR",
        "Admin_Connect_OK",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Statement",
        "Admin_Quit",
    ];
    assert_eq!(names(&events), expected, "{events:#?}");
    let [_, login, weight, password, second, secret, _, value, loaded, refused, flushed, _] = &events[..]
    else {
        panic!("{events:#?}")
    };
    for name in ["thread_id", "proxy_addr", "ssl"] {
        assert_eq!(weight[name], login[name], "{name}");
    }
    assert_eq!(weight["statement"], "UPDATE mysql_servers SET weight = ?");
    let server = "hostgroup_id=0 hostname='127.0.0.1' port=1";
    let row = |table: &str, key: &str, change: &str, columns: Json| json!([{ "table": table, "key": key, "change": change, "columns": columns }]);
    let weights = json!({ "weight": { "before": "1", "after": "5" } });
    assert_eq!(weight["changes"], row("main.mysql_servers", server, "altered", weights.clone()));
    let columns = json!({
        "password": { "before": "***", "after": "***" }, "default_schema": { "before": "", "after": "a" },
    });
    assert_eq!(password["changes"], row("main.mysql_users", "username='app' backend=1", "altered", columns));
    assert_eq!(second["changes"][0]["change"], "added", "{second}");
    assert_eq!(secret["changes"][0]["key"], "mysql-monitor_password", "{secret}");
    let columns = json!({ "variable_value": { "before": "10000", "after": "123" } });
    assert_eq!(value["changes"], row("main.global_variables", "mysql-max_connections", "altered", columns));
    assert_eq!(loaded["changes"], row("runtime.mysql_servers", server, "altered", weights));
    assert!(refused["extra_info"].as_str().is_some_and(|text| text.contains("UNIQUE")), "{refused}");
    assert_eq!((&refused["changes"], &flushed["changes"]), (&json!([]), &json!([])));
    let whole = format!("{events:?}");
    assert!(!whole.contains("secret"), "{whole}");
}

#[test]
fn copies_of_passwords_are_hidden_in_it_and_in_the_log() {
    let hash = "*A9256F0627DBE2B8439A2522EBA39624FD8A55B1";
    let second = format!(r#"attributes="{{\"additional_password\":\"{TYPED_MARK}-second\"}}""#);
    let kept = TempFolder::new("audit");
    std::fs::write(kept.file("password"), format!("{KEPT_MARK}-audit")).expect("a file");
    let config = NarrowsConfig::new()
        .server(0, 1, "")
        .user("app", &format!("{TYPED_MARK}-first"), &second)
        .user("hashed", hash, "")
        .user("short", "7", "")
        .user("kept", &format!("file:{}", kept.file("password").display()), "");
    let (narrows, folder) = audited(&config);
    let mut admin = narrows.admin();
    for statement in [
        // The password that is copied is another one afterwards.
        &format!(
            "UPDATE mysql_users SET comment = 'was ' || password, password = '{TYPED_MARK}-other' WHERE username = 'app'"
        ),
        "UPDATE mysql_users SET comment = password, default_schema = json_extract(attributes, '$.additional_password') WHERE username <> 'short'",
        "UPDATE mysql_servers SET comment = (SELECT password FROM mysql_users WHERE username = 'hashed'), weight = 7",
        "INSERT INTO scheduler (id, interval_ms, filename, arg1) SELECT 1, 1000, '/bin/true', '--password=' || password FROM mysql_users WHERE username = 'app'",
        &format!(
            "INSERT INTO restapi_routes (timeout_ms, method, uri, script, comment) VALUES (1000, 'GET', 'u', '/x', '{KEPT_MARK}-audit')"
        ),
        "UPDATE global_variables SET variable_value = (SELECT password FROM mysql_users WHERE username = 'app') WHERE variable_name = 'mysql-server_version'",
        "LOAD MYSQL USERS TO RUNTIME",
        "SAVE MYSQL USERS TO DISK",
        "LOAD SCHEDULER TO RUNTIME",
        "LOAD MYSQL VARIABLES TO RUNTIME",
        &format!("LOAD MYSQL USER '{TYPED_MARK}-other' TO RUNTIME"),
        &format!("NARROWS ROLLBACK TO 1 COMMENT 'without {TYPED_MARK}-other'"),
        "UPDATE mysql_users SET comment = '' WHERE username = 'app'",
        "PROXYSQL FLUSH QUERY CACHE",
    ] {
        admin.query(statement);
    }
    let mut events = Vec::new();
    wait_until("the last statement is in it", || {
        events = wait_for(&folder, "Admin_Statement", 1);
        events.iter().any(|event| event["statement"] == "PROXYSQL FLUSH QUERY CACHE")
    });
    narrows.wait_for_log(0, |line| line.contains("PROXYSQL FLUSH QUERY CACHE"));
    let all = format!("{events:?}{}", narrows.log());
    for secret in [TYPED_MARK, KEPT_MARK, hash] {
        assert!(!all.contains(secret), "{secret}: {events:#?}\n{}", narrows.log());
    }
    let changes: Vec<&Json> =
        events.iter().filter_map(|event| event["changes"].as_array()).flatten().collect();
    let after =
        |column: &str, value: &str| changes.iter().any(|change| change["columns"][column]["after"] == value);
    for (column, value) in
        [("comment", "was ***"), ("comment", "***"), ("arg1", "--password=***"), ("weight", "7")]
    {
        assert!(after(column, value), "{column} {value}: {events:#?}");
    }
}

#[test]
fn plans_and_rollbacks_are_in_it_with_what_runs_differently() {
    let (narrows, folder) = audited(&NarrowsConfig::new().server(0, 1, ""));
    let mut admin = narrows.admin();
    admin.query("UPDATE mysql_servers SET weight = 5").ok().expect("changed");
    let token = admin.query("NARROWS PLAN").text_rows()[0][1].clone().expect("a token");
    admin.query(format!("NARROWS APPLY PLAN '{token}'")).ok().expect("applied");
    admin.query("NARROWS ROLLBACK TO 1").ok().expect("as before");
    let events = wait_for(&folder, "Admin_Statement", 3);
    let weights = |event: &Json| {
        let change = &event["changes"][0];
        assert_eq!(change["table"], "runtime.mysql_servers", "{event}");
        change["columns"]["weight"].clone()
    };
    let statements: Vec<&Json> = events.iter().filter(|event| event["event"] == "Admin_Statement").collect();
    let [_, applied, back] = &statements[..] else { panic!("{events:#?}") };
    assert_eq!(weights(applied), json!({ "before": "1", "after": "5" }));
    assert_eq!(weights(back), json!({ "before": "5", "after": "1" }));
}

#[test]
fn nobody_can_write_into_it_or_make_it_miss_a_change() {
    let (narrows, folder) = audited(&NarrowsConfig::new().server(0, 1, ""));
    let mut admin = narrows.admin();
    for statement in [
        "SELECT narrows_row_after('main', 'mysql_servers', 7, 'invented', 1)",
        "CREATE VIEW narrows_watch_mine AS SELECT narrows_row_after('main', 'mysql_servers', 7, 'invented', 1)",
        "CREATE VIEW mine AS SELECT narrows_row_after('main', 'mysql_servers', 7, 'invented', 1) AS a",
        "INSERT INTO mysql_servers (hostgroup_id, hostname) SELECT 1, 'x' FROM mine",
        "DROP TRIGGER temp.narrows_watch_main_mysql_servers_after_insert",
        "/* not a change */ UPDATE mysql_servers SET weight = 7",
        "-- SELECT\nREPLACE INTO mysql_users (username, attributes) VALUES ('a', '{\"additional_passwor\\u0064\":\"hidden\"}')",
        "DELETE FROM mysql_servers",
        "PROXYSQL FLUSH QUERY CACHE",
    ] {
        admin.query(statement);
    }
    let events = wait_for(&folder, "Admin_Statement", 7);
    let whole = format!("{events:?}");
    assert!(!whole.contains("invented'") && !whole.contains("hidden"), "{whole}");
    let changes: Vec<&Json> =
        events.iter().filter_map(|event| event["changes"].as_array()).flatten().collect();
    for expected in ["weight", "attributes"] {
        assert!(
            changes.iter().any(|change| !change["columns"][expected].is_null()),
            "{expected}: {events:#?}"
        );
    }
    let deleted = events.iter().find(|event| event["statement"] == "DELETE FROM mysql_servers");
    let deleted = deleted.expect("the statement is there");
    assert_eq!(deleted["changes"][0]["change"], "removed", "{deleted}");
}

#[test]
fn it_misses_no_login_but_those_of_the_last_second_before_a_kill() {
    let server = RealServer::shared(Flavour::MariaDb);
    let mut config = NarrowsConfig::in_front_of(server.port()).supervised();
    for user in 0..4 {
        config = config.user(&format!("user{user}"), "p", "");
    }
    let (narrows, folder) = audited(&config);
    let endpoint = narrows.endpoint();
    let log_in = move |user: usize, count: usize, password: &'static str| {
        let endpoint = endpoint.clone();
        std::thread::spawn(move || {
            let login = Login::new(&format!("user{user}"), password);
            (0..count).for_each(|_| drop(RawClient::connect(&endpoint).login(&login)));
        })
    };
    let mut admin = narrows.admin();
    let threads: Vec<_> =
        (0..4).map(|user| log_in(user, 200, if user == 3 { "wrong" } else { "p" })).collect();
    for weight in 1..=100 {
        admin.query(format!("UPDATE mysql_servers SET weight = {}", weight + 1)).ok().expect("changed");
    }
    threads.into_iter().for_each(|thread| thread.join().expect("logins"));
    wait_for(&folder, "MySQL_Client_Quit", 600);
    let events = wait_for(&folder, "Admin_Statement", 100);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for event in &events {
        let (name, user) = (event["event"].as_str(), event["username"].as_str());
        *counts.entry((name.expect("a name"), user.expect("a user"))).or_default() += 1;
    }
    for user in ["user0", "user1", "user2"] {
        assert_eq!(counts[&("MySQL_Client_Connect_OK", user)], 200, "{counts:?}");
    }
    assert_eq!(counts[&("MySQL_Client_Connect_ERR", "user3")], 200, "{counts:?}");
    let weights = events.iter().filter(|event| event["event"] == "Admin_Statement");
    let weights = weights.map(|event| event["changes"][0]["columns"]["weight"]["after"].clone());
    let expected: Vec<Json> = (2..=101).map(|weight| json!(weight.to_string())).collect();
    assert_eq!(weights.collect::<Vec<_>>(), expected, "in their order, none missing");
    let times: Vec<u64> = events.iter().filter_map(|event| event["timestamp"].as_u64()).collect();
    // Threads take the time before they queue.
    assert!(times.windows(2).all(|pair| pair[1] + 50 >= pair[0]), "they are in order");

    // What is older than a second is on disk, whatever happens to the process.
    drop(narrows.client());
    wait_for(&folder, "MySQL_Client_Connect_OK", 601);
    let before = narrows.log().len();
    narrows_testkit::kill(narrows.worker());
    narrows.wait_for_log(before, |line| line.contains("the next worker process serves"));
    drop(narrows.client());
    wait_for(&folder, "MySQL_Client_Connect_OK", 602);
}

const QUIT: u8 = 1;
const INIT_DB: u8 = 2;
