//! What an account asks of its clients besides the password: from where they come, how often they may fail, how long they stay.

use std::time::Duration;

use narrows_testkit::{
    Conversation, Endpoint, ErrorPacket, FakeMysql, Login, Move, Narrows, NarrowsConfig, RawClient,
};

use crate::support::start;

fn with_attributes(attributes: &str) -> (FakeMysql, Narrows) {
    let server = FakeMysql::start(
        Conversation::new()
            .on("SELECT 1", &[Move::rows("1", &["1"])])
            .on("BEGIN", &[Move::ok()])
            .on("COMMIT", &[Move::ok()]),
    );
    let attributes = format!("attributes=\"{}\"", attributes.replace('"', "\\\""));
    let config = NarrowsConfig::new().server(0, server.port(), "");
    let config = config.user("app", "right", &attributes).user("other", "right", "");
    (server, start(&config))
}

fn log_in(endpoint: &Endpoint, user: &str, password: &str) -> Result<RawClient, ErrorPacket> {
    let mut client = RawClient::connect(endpoint);
    client.login(&Login::new(user, password)).map(|_| client)
}

/// The error with which a login is refused.
fn refusal(endpoint: &Endpoint, user: &str, password: &str) -> ErrorPacket {
    match log_in(endpoint, user, password) {
        Ok(_) => panic!("{user} has logged in"),
        Err(error) => error,
    }
}

#[test]
fn clients_come_from_the_networks_of_their_account_only() {
    let (_server, narrows) = with_attributes(r#"{"networks":["10.0.0.0/8","localhost"]}"#);
    let tcp = narrows.endpoint();
    let refused = refusal(&tcp, "app", "right");
    assert_eq!(refused.code, 1045);
    assert!(refused.message.ends_with("The account may not be used from this address"), "{refused:?}");
    let refused = refusal(&tcp, "app", "wrong");
    assert!(!refused.message.contains("address"), "who has no password learns nothing: {refused:?}");
    assert!(log_in(&Endpoint::Unix(narrows.socket()), "app", "right").is_ok());
    assert!(log_in(&tcp, "other", "right").is_ok());
    // COM_CHANGE_USER is a login, too.
    let mut client = log_in(&tcp, "other", "right").expect("no networks");
    assert_eq!(client.change_user(&Login::new("app", "right")).expect_err("refused").code, 1045);
}

#[test]
fn an_address_with_wrong_passwords_is_locked_out_of_that_account_alone() {
    let attributes = r#"{"failed_login_attempts":2,"password_lock_time_s":1}"#;
    let (_server, narrows) = with_attributes(attributes);
    let tcp = narrows.endpoint();
    let fail = || refusal(&tcp, "app", "wrong").code;
    assert_eq!((fail(), fail()), (1045, 1045));
    let refused = refusal(&tcp, "app", "right");
    assert_eq!(refused.code, 3955);
    assert!(refused.message.contains("blocked for this address for another 1 s"), "{refused:?}");
    assert!(log_in(&Endpoint::Unix(narrows.socket()), "app", "right").is_ok(), "another address");
    assert!(log_in(&tcp, "other", "right").is_ok(), "another account");
    narrows.wait_for_log(0, |line| line.contains("locked out") && line.contains("user=\"app\""));
    narrows_testkit::wait_until("the time is over", || log_in(&tcp, "app", "right").is_ok());
    // The login has made it forget: it takes two wrong passwords again.
    assert_eq!(fail(), 1045);
    assert!(log_in(&tcp, "app", "right").is_ok());
}

#[test]
fn a_client_whose_login_is_too_old_leaves_when_it_is_in_no_transaction() {
    let (_server, narrows) = with_attributes(r#"{"max_connection_age_s":1}"#);
    let mut idle = log_in(&narrows.endpoint(), "app", "right").expect("logged in");
    let mut other = log_in(&narrows.endpoint(), "other", "right").expect("logged in");
    assert!(idle.is_closed_within(Duration::from_secs(20)));
    let mut busy = log_in(&narrows.endpoint(), "app", "right").expect("logged in");
    let mut gone = None;
    narrows_testkit::wait_until("it has to leave", || {
        gone = busy.query("SELECT 1").error();
        gone.is_some()
    });
    assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn values_that_cannot_be_read_are_reported_and_let_nobody_in() {
    let (_server, narrows) = with_attributes(r#"{"networks":"10.0.0.0/8","failed_login_attempts":-1}"#);
    let mut admin = narrows.admin();
    admin.query("LOAD MYSQL USERS TO RUNTIME").ok().expect("loaded");
    let said = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    for expected in
        ["`networks` is", "expected a list of addresses", "`failed_login_attempts` is -1: expected a number"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(log_in(&narrows.endpoint(), "app", "right").is_err());
}
