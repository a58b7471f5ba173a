//! Tokens that servers refuse, settings without effect, and the warnings about them.

use std::process::Command;

use narrows_testkit::wait_until;

use super::*;

#[test]
fn a_refused_token_comes_with_what_may_be_the_matter() {
    let scene = Scene::new();
    let narrows = start(&scene.with_keys());
    scene.rds.set_ahead(20 * 60);
    let error = app(&narrows).query("DO 1").error().expect("the clocks differ");
    assert_eq!(scene.rds.attempts().last().map(|it| it.refused.as_str()), Some("not now"));
    let told = "refuses the account 'app': Access denied for user 'app'@'127.0.0.1' (using password: YES) \
                (it was sent an IAM token; the log of Narrows says which one)";
    assert!(error.code == 1045 && error.message.ends_with(told), "{error:?}");
    let key = format!(" UTC, signed with {KEY} of environment, without an end");
    let logged = [
        "(with an IAM token of 20",
        &key,
        "the server's time must be within 15 minutes of it, and the role needs rds-db:connect for this account)",
    ];
    narrows.wait_for_log(0, |line| logged.iter().all(|part| line.contains(part)));
    let errors = narrows.admin().query("SELECT * FROM stats_mysql_errors").text_rows();
    assert!(!format!("{errors:?}").contains(KEY), "{errors:?}");
    nothing_is_shown(&narrows);
}

#[test]
fn without_a_region_there_is_no_token_and_the_environment_may_name_it() {
    let scene = Scene::new();
    let without = r#"attributes="{\"aws_iam\":true}""#;
    let narrows = start(&scene.with_keys().user("plain", "of-clients", without));
    let login = Login::new("plain", "of-clients");
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    let error = client.query("DO 1").error().expect("no region");
    let why = "no AWS region is known for 127.0.0.1: it is no RDS endpoint, aws_iam names none, and neither AWS_REGION nor \
               AWS_DEFAULT_REGION is set";
    assert!(error.message.ends_with(why), "{error:?}");
    let mut admin = narrows.admin();
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(warnings.contains("gets no connection to 127.0.0.1:") && warnings.contains(why), "{warnings}");
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        let config = scene.with_keys().user("plain", "of-clients", without).environment(name, REGION);
        let narrows = start(&config);
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        assert_eq!(client.query("DO 1").error(), None, "{name}");
    }
}

#[test]
fn an_account_without_a_password_lets_nobody_in_to_what_the_token_is_good_for() {
    let scene = Scene::new();
    let narrows = start(&scene.with_keys().user("open", "", TOKENS));
    for endpoint in [narrows.endpoint(), Endpoint::Unix(narrows.socket())] {
        for login in [Login::new("open", ""), Login::new("open", "x")] {
            assert_eq!(RawClient::connect(&endpoint).login(&login).expect_err("nobody").code, 1045);
        }
    }
    let mut admin = narrows.admin();
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(warnings.contains("nobody can log in without a password"), "{warnings}");
    // What is no object says nothing that could be relied on.
    admin.query(
        r#"UPDATE mysql_users SET attributes = '[{"token":{"issuer":"idp"}}]' WHERE username = 'open'"#,
    );
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let login = Login::new("open", "");
    assert_eq!(RawClient::connect(&narrows.endpoint()).login(&login).expect_err("nobody").code, 1045);
}

#[test]
fn a_server_that_repeats_the_token_makes_it_known_to_nobody() {
    let scene = Scene::new();
    let narrows = start(&scene.with_keys());
    scene.rds.set_ahead(20 * 60);
    scene.rds.repeat_tokens();
    let error = app(&narrows).query("DO 1").error().expect("the clocks differ");
    assert!(error.message.contains("a part of the token in it, and is not shown"), "{error:?}");
    assert!(!error.message.contains(KEY), "{error:?}");
    narrows.wait_for_log(0, |line| line.contains("(with an IAM token of 20"));
    let errors = format!("{:?}", narrows.admin().query("SELECT * FROM stats_mysql_errors").text_rows());
    for text in [&error.message, &errors, &narrows.log()] {
        assert!(!text.contains("X-Amz-Signature"), "{text}");
    }
    nothing_is_shown(&narrows);
}

#[test]
fn where_tokens_have_no_effect_that_is_said() {
    let scene = Scene::new();
    let narrows = start(&scene.with_keys());
    let mut admin = narrows.admin();
    let run = |admin: &mut RawClient, statement: &str| {
        assert_eq!(admin.query(statement).error(), None, "{statement}")
    };
    // A place that is no account of servers.
    run(&mut admin, "UPDATE mysql_users SET password='aws-iam:'");
    let error = admin.query("LOAD MYSQL USERS TO RUNTIME").error().expect("no password");
    assert!(
        error
            .message
            .contains("mysql_users username='app': password: aws-iam: is for mysql-monitor_password and")
    );
    run(&mut admin, "UPDATE mysql_users SET password='of-clients'");
    run(&mut admin, "SET mysql-monitor_password='aws-iam:no region'");
    let error = admin.query("LOAD MYSQL VARIABLES TO RUNTIME").error().expect("no region");
    assert!(
        error.message.contains("mysql-monitor_password: it begins with aws-iam: and names no region"),
        "{error:?}"
    );
    run(&mut admin, "SET mysql-monitor_password='aws-iam:eu-central-1'");
    // Only servers know the passwords of clients, which are shown to them.
    for statement in [
        "SET mysql-passthrough_auth_enabled='true'",
        "LOAD MYSQL VARIABLES TO RUNTIME",
        "UPDATE mysql_users SET password=''",
    ] {
        run(&mut admin, statement);
    }
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(warnings.contains("`aws_iam`") && warnings.contains("so they get these"), "{warnings}");
    // A value that is none.
    run(
        &mut admin,
        r#"UPDATE mysql_users SET password='of-clients', attributes='{"aws_iam":"eu-central-1"}'"#,
    );
    admin.query("LOAD MYSQL USERS TO RUNTIME");
    let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(warnings.contains("expected true, false, or a region, as in"), "{warnings}");
}

/// `narrows check` warns of accounts that would get no connection, and `--connect` logs in with tokens.
#[test]
fn a_check_of_a_file_logs_in_with_tokens() {
    let scene = Scene::new();
    let check = |config: &NarrowsConfig, arguments: &[&str]| {
        let file = scene.folder.file("narrows.cnf");
        let text =
            config.clone().variable("monitor_enabled", "false").text("127.0.0.1:6033", "127.0.0.1:6032");
        std::fs::write(&file, text).expect("its folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        command.arg("check").args(arguments).arg(&file).env("HOME", scene.folder.path());
        command
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_SESSION_TOKEN", SESSION);
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (is_right, said) = check(&scene.config(), &["--connect"]);
    assert!(is_right, "{said}");
    let attempts = scene.rds.attempts();
    assert!(
        attempts.iter().any(|attempt| attempt.user == "app" && attempt.refused.is_empty()),
        "{attempts:?}\n{said}"
    );
    let (_, said) = check(&scene.config().variable("ssl_p2s_ca", ""), &[]);
    let warning =
        format!("user \"app\": attributes `aws_iam` gets no connection to 127.0.0.1:{}", scene.rds.port());
    assert!(said.contains(&warning), "{said}");
}

/// That there are no credentials says nothing about a server.
#[test]
fn a_monitor_without_credentials_leaves_servers_in_use() {
    let scene = Scene::new();
    let config = scene
        .config()
        .monitor()
        .user("plain", "plain", "")
        .variable("monitor_password", "aws-iam:eu-central-1")
        .variable("monitor_ping_interval", "100")
        .variable("monitor_ping_max_failures", "2");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let failed = "SELECT COUNT(*) > 5 FROM monitor.mysql_server_ping_log WHERE ping_error LIKE '%there are no AWS credentials%'";
    wait_until("checks fail", || admin.query(failed).cell().as_deref() == Some("1"));
    let status = admin.query("SELECT DISTINCT status FROM runtime_mysql_servers").cell();
    assert_eq!(status.as_deref(), Some("ONLINE"));
}
