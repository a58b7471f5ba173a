//! `narrows check` and passwords that are kept elsewhere: what cannot be looked up is named, and no value is printed.

use narrows_testkit::{Flavour, KEPT_MARK, RealServer, TempFolder};

use super::{check, findings, stdout};

/// A file in which every place for a password has `good` or `bad`.
fn text(port: u16, good: &str, bad: &str) -> String {
    format!(
        "fleet = {{ endpoints = \"http://127.0.0.1:1\", node = \"a\", username = \"u\", password = \"{bad}\" }}\n\
         admin_variables = {{ admin_credentials = \"admin:{bad}\" }}\n\
         mysql_variables = {{ monitor_enabled = false, monitor_password = \"{bad}\", auth_query_password = \"{bad}\" }}\n\
         mysql_servers = ( {{ address = \"127.0.0.1\", port = {port}, hostgroup = 0 }} )\n\
         mysql_users = (\n\
         {{ username = \"check_good\", password = \"{good}\" }},\n\
         {{ username = \"check_bad\", password = \"{bad}\" }},\n\
         {{ username = \"check_both\", password = \"{good}\", attributes = \"{{\\\"additional_password\\\":\\\"{bad}\\\"}}\" }}\n\
         )\n"
    )
}

/// The places in it that have `bad`.
const PLACES: [&str; 6] = [
    "admin-admin_credentials of 'admin'",
    "mysql-monitor_password",
    "mysql-auth_query_password",
    "fleet.password",
    "mysql_users username='check_bad': password",
    "mysql_users username='check_both': additional_password",
];

/// The messages of findings about passwords that are not found.
fn lost(options: &[&str], text: &str, reason: &str) -> Vec<String> {
    let output = check(&[options, &["--json", "-"]].concat(), text);
    assert!(!stdout(&output).contains(KEPT_MARK), "{}", stdout(&output));
    let messages = findings(&output).into_iter().filter_map(|it| it["message"].as_str().map(str::to_owned));
    messages.filter(|message| message.contains(reason)).collect()
}

fn assert_names_all(lost: &[String]) {
    for place in PLACES {
        assert_eq!(lost.iter().filter(|it| it.contains(place)).count(), 1, "{place}: {lost:#?}");
    }
    assert_eq!(lost.len(), PLACES.len(), "{lost:#?}");
}

#[test]
fn every_reference_that_leads_nowhere_is_named_and_no_value_is_printed() {
    let folder = TempFolder::new("check");
    let path = folder.file("password").display().to_string();
    std::fs::write(&path, format!("{KEPT_MARK}-check")).expect("a file");
    let good = format!("file:{path}");
    for (bad, reason) in [
        ("env:NARROWS_NO_SUCH", "the environment variable NARROWS_NO_SUCH is not set"),
        ("file:/nonexistent/password", "the file /nonexistent/password is not there"),
        ("exec:/nonexistent/program", "the program /nonexistent/program cannot be run"),
    ] {
        assert_names_all(&lost(&[], &text(1, &good, bad), reason));
    }
    assert_eq!(
        lost(&[], &text(1, &good, "exec:/bin/false"), "/bin/false"),
        Vec::<String>::new(),
        "it runs no programs"
    );
}

#[test]
fn with_connect_programs_run_and_those_that_fail_are_errors() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        &format!("CREATE OR REPLACE USER check_good@'%' IDENTIFIED BY '{KEPT_MARK}-check'"),
        &format!("CREATE OR REPLACE USER check_both@'%' IDENTIFIED BY '{KEPT_MARK}-check'"),
    ]);
    let fails = text(server.port(), "exec:/bin/echo another", "exec:/bin/false");
    assert_names_all(&lost(&["--connect"], &fails, "the program /bin/false has failed: exit status 1"));
    let output = check(&["--connect", "-"], &fails);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("account \"check_good\": error 1045"), "{}", stdout(&output));
    let folder = TempFolder::new("check");
    let path = folder.file("password").display().to_string();
    std::fs::write(&path, format!("{KEPT_MARK}-check")).expect("a file");
    let good = format!("exec:/bin/cat {path}");
    let all_good = text(server.port(), &good, &good);
    let output = check(&["--connect", "--json", "-"], &all_good);
    assert!(!stdout(&output).contains(KEPT_MARK), "{}", stdout(&output));
    let about: Vec<_> =
        findings(&output).into_iter().filter(|it| it.to_string().contains("check_good")).collect();
    assert!(about.is_empty(), "it logs in: {about:?}");
}
