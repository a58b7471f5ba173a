//! Who gets tokens, and what servers make of them.

use narrows_testkit::{Conversation, FakeMysql, Login, NarrowsConfig, RawClient, wait_until};

use super::*;

#[test]
fn clients_have_their_password_and_servers_get_tokens() {
    let scene = Scene::new();
    let narrows = start(&scene.with_keys());
    let mut refused = RawClient::connect(&narrows.endpoint());
    assert_eq!(
        refused.login(&Login::new("app", "another")).expect_err("its password is another one").code,
        1045
    );
    let mut client = app(&narrows);
    for _ in 0..3 {
        assert_eq!(client.query("DO 1").error(), None);
    }
    let attempts = scene.rds.attempts();
    let count = attempts.len();
    assert!((1..=3).contains(&count), "{attempts:?}");
    for attempt in attempts {
        assert_eq!((attempt.user.as_str(), attempt.key.as_str(), attempt.refused.as_str()), ("app", KEY, ""));
    }
    assert_eq!(
        credentials(&narrows, "source || ' ' || access_key_id || ' ' || tokens"),
        format!("environment {KEY} {count}")
    );
    narrows.wait_for_log(0, |line| line.contains("AWS credentials for IAM tokens") && line.contains(KEY));
    nothing_is_shown(&narrows);
}

/// One connection for two accounts: each statement logs it in again, with a token of the other account.
#[test]
fn connections_are_shared_as_those_of_other_accounts() {
    let scene = Scene::new();
    let config = scene.with_keys().user("other", "of-clients", TOKENS).variable("connection_max_age_ms", "0");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    for statement in ["UPDATE mysql_servers SET max_connections=1", "LOAD MYSQL SERVERS TO RUNTIME"] {
        assert_eq!(admin.query(statement).error(), None);
    }
    let mut clients =
        [app(&narrows), RawClient::open(&narrows.endpoint(), &Login::new("other", "of-clients"))];
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.query("DO 1").error(), None);
        }
    }
    let attempts = scene.rds.attempts();
    let users: Vec<&str> = attempts.iter().map(|attempt| attempt.user.as_str()).collect();
    assert_eq!(users, ["app", "other"].repeat(3));
    assert!(attempts.iter().all(|attempt| attempt.refused.is_empty()), "{attempts:?}");
    assert_eq!(scene.rds.connections(), 1);
}

#[test]
fn the_account_of_the_monitor_may_have_tokens() {
    let scene = Scene::new();
    let config = scene
        .with_keys()
        .monitor()
        .variable("monitor_username", "watch")
        .variable("monitor_password", "aws-iam:eu-central-1")
        .variable("monitor_connect_interval", "100")
        .variable("monitor_ping_interval", "100");
    let narrows = start(&config);
    let has_logged_in =
        || scene.rds.attempts().iter().any(|attempt| attempt.user == "watch" && attempt.refused.is_empty());
    wait_until("the monitor logs in", has_logged_in);
    let mut admin = narrows.admin();
    let ok = "SELECT COUNT(*) > 0 FROM monitor.mysql_server_connect_log WHERE connect_error IS NULL";
    wait_until("a check succeeds", || admin.query(ok).cell().as_deref() == Some("1"));
    assert!(scene.rds.attempts().iter().all(|attempt| attempt.refused.is_empty()));
    let shown = admin
        .query("SELECT variable_value FROM global_variables WHERE variable_name='mysql-monitor_password'");
    assert_eq!(shown.cell().as_deref(), Some("aws-iam:eu-central-1"));
    nothing_is_shown(&narrows);
}

/// The account that looks others up logs in with a token, and the account that it finds does, too.
#[test]
fn accounts_that_are_looked_up_get_tokens_by_their_template() {
    let scene = Scene::new();
    let config = scene
        .with_keys()
        .user(
            "template",
            "",
            r#"attributes="{\"usernames_like\":\"found%\",\"aws_iam\":{\"region\":\"eu-central-1\"}}""#,
        )
        .variable("auth_query", "SELECT ?")
        .variable("auth_query_username", "looker")
        .variable("auth_query_password", "aws-iam:eu-central-1");
    let narrows = start(&config);
    // The server has no rows for anybody, so there is no such account; but it was asked.
    let mut client = RawClient::connect(&narrows.endpoint());
    client.login(&Login::new("found1", "any")).expect_err("no such account");
    let attempts = scene.rds.attempts();
    assert!(attempts.iter().any(|it| it.user == "looker" && it.refused.is_empty()), "{attempts:?}");
}

#[test]
fn an_account_gets_tokens_while_its_clients_are_logged_in() {
    let scene = Scene::new();
    let config = scene.with_keys().user("later", "of-clients", "");
    let narrows = start(&config);
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("later", "of-clients"));
    let error = client.query("DO 1").error().expect("the server wants a token");
    assert_eq!(error.code, 1045, "{error:?}");
    let mut admin = narrows.admin();
    for statement in [
        r#"UPDATE mysql_users SET attributes='{"aws_iam":{"region":"eu-central-1"}}' WHERE username='later'"#,
        "LOAD MYSQL USERS TO RUNTIME",
    ] {
        assert_eq!(admin.query(statement).error(), None);
    }
    // The server is not asked again at once after a refusal.
    wait_until("it logs in", || client.query("DO 1").error().is_none());
}

/// A server that anybody could be gets nothing, not even the beginning of a login.
#[test]
fn a_server_that_is_not_verified_gets_no_token() {
    let scene = Scene::new();
    let no_ca = "set mysql-ssl_p2s_ca, or ssl_ca in mysql_servers_ssl_params";
    let cases = [("use_ssl=1", "", no_ca), ("use_ssl=0", "", "use_ssl of the server is 0")];
    for (columns, ca, why) in cases {
        let narrows = start(&scene.with_keys().variable("ssl_p2s_ca", ca));
        let mut admin = narrows.admin();
        let update = format!("UPDATE mysql_servers SET {columns}");
        assert_eq!(admin.query(update).error(), None);
        admin.query("LOAD MYSQL SERVERS TO RUNTIME");
        let warnings = admin.query("SHOW WARNINGS").text_rows();
        let warned = |row: &Vec<Option<String>>| {
            let text = row.last().cloned().flatten().unwrap_or_default();
            text.contains("user \"app\"")
                && text.contains("gets no connection to 127.0.0.1:")
                && text.contains(why)
        };
        assert!(warnings.iter().any(warned), "{warnings:?}");
        let (mut client, before) = (app(&narrows), scene.rds.connections());
        let error = client.query("DO 1").error().expect("no token");
        let expected =
            format!("Narrows cannot log in to 127.0.0.1:{} for you: an IAM token is sent", scene.rds.port());
        assert!(
            error.code == 1045 && error.message.starts_with(&expected) && error.message.contains(why),
            "{error:?}"
        );
        let refusal = |line: &str| line.contains("a server refuses an account") && line.contains(why);
        narrows.wait_for_log(0, refusal);
        for _ in 0..5 {
            assert!(client.query("DO 1").error().is_some());
        }
        assert_eq!(
            narrows.log().lines().filter(|line| refusal(line)).count(),
            1,
            "it is logged once a minute"
        );
        assert_eq!(scene.rds.connections(), before, "it was not connected to");
    }
    assert_eq!(scene.rds.attempts(), []);
}

#[test]
fn a_server_with_another_certificate_gets_no_token() {
    let scene = Scene::new();
    let another = Authority::new("another");
    std::fs::write(scene.folder.file("another.pem"), another.pem()).expect("its folder");
    let ca = scene.folder.file("another.pem").display().to_string();
    let narrows = start(&scene.with_keys().variable("ssl_p2s_ca", &ca));
    let error = app(&narrows).query("DO 1").error().expect("it is not the server");
    assert!(error.message.contains("its issuer is none of the CAs that are trusted"), "{error:?}");
    assert_eq!(scene.rds.attempts(), []);
}

/// A server in the place of RDS that offers no TLS does not get the name of an account.
#[test]
fn a_server_without_tls_gets_no_token() {
    let (scene, server) = (Scene::new(), FakeMysql::start(Conversation::new()));
    let config = NarrowsConfig::new()
        .server(0, server.port(), "use_ssl=1")
        .user("app", "of-clients", TOKENS)
        .variable("ssl_p2s_ca", &scene.folder.file("ca.pem").display().to_string())
        .variable("connect_timeout_server_max", "1000")
        .environment("AWS_ACCESS_KEY_ID", KEY)
        .environment("AWS_SECRET_ACCESS_KEY", SECRET);
    let narrows = start(&config);
    let error = app(&narrows).query("DO 1").error().expect("no TLS there");
    assert!(error.message.contains("does not offer TLS"), "{error:?}");
    assert!(server.logins().is_empty());
}
