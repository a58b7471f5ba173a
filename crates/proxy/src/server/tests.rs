//! The whole data plane, in the test's own process, where a panic can be had on demand.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, Endpoint, FakeMysql, Login, RawClient};

use super::*;
use crate::snapshot::{UserRow, Variables};
use crate::stats::{self, Counters};
use crate::stream::tests::PANIC;

struct Plane {
    plane: Option<DataPlane>,
    server: FakeMysql,
}

impl Plane {
    /// In front of a server that says OK to everything.
    fn start(variables: Variables) -> Plane {
        let server = FakeMysql::start(Conversation::new());
        let rows = Rows {
            variables: Variables { interfaces: vec!["127.0.0.1:0".to_owned()], ..variables },
            servers: vec![crate::rows::server(0, "127.0.0.1", server.port())],
            users: vec![user()],
            ..Rows::default()
        };
        let plane = DataPlane::start(rows).expect("a free port");
        Plane { plane: Some(plane), server }
    }

    fn endpoint(&self) -> Endpoint {
        let plane = self.plane.as_ref().expect("running");
        Endpoint::Tcp(plane.addresses()[0].parse().expect("an address of TCP"))
    }

    fn client(&self) -> RawClient {
        RawClient::open(&self.endpoint(), &Login::new("sbtest", "sbtest"))
    }

    fn counters(&self) -> Vec<Counters> {
        stats::wait(self.plane.as_ref().expect("running").observer().counters())
    }

    fn panics(&self) -> u64 {
        self.counters().iter().map(|counters| counters.panics).sum()
    }

    fn wait_for_panics(&self, count: u64) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.panics() != count {
            assert!(Instant::now() < deadline, "{} panics instead of {count}", self.panics());
            std::thread::yield_now();
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.plane.take().expect("running").stop();
    }
}

pub(super) fn user() -> UserRow {
    UserRow { max_connections: 2, ..crate::rows::user("sbtest", "sbtest") }
}

#[test]
fn refuses_new_clients_while_paused_and_keeps_those_that_are_there() {
    let mut plane = Plane::start(Variables::default());
    let mut client = plane.client();
    let before = plane.endpoint();
    let running = plane.plane.as_mut().expect("running");
    running.pause();
    assert_eq!(running.listening(), Listening::Paused);
    assert!(RawClient::try_connect(&before).is_err(), "the port is closed when pause returns");
    assert!(client.query("SELECT 1").ok().is_some());
    running.resume().expect("the port is still free");
    assert_eq!(plane.endpoint(), before, "the port that was chosen is kept");
    assert!(plane.client().query("SELECT 1").ok().is_some());
    assert!(client.query("SELECT 1").ok().is_some());
}

fn panicking_statement() -> Vec<u8> {
    [PANIC, b"DO 0"].concat()
}

#[test]
fn a_panic_ends_its_own_session_and_closes_its_backend_connection() {
    let plane = Plane::start(Variables { threads: 1, ..Variables::default() });
    let (mut unlucky, mut other) = (plane.client(), plane.client());
    unlucky.query("DO 1").ok().expect("an answer");
    other.query("DO 2").ok().expect("an answer");
    assert_eq!(plane.server.wait_for("DO 1"), plane.server.wait_for("DO 2"), "one connection serves both");

    unlucky.send_command(narrows_testkit::command::QUERY, &panicking_statement()).expect("send it");

    assert!(unlucky.is_closed_within(Duration::from_secs(10)));
    plane.server.wait_for_open(0);
    plane.wait_for_panics(1);
    other.query("DO 3").ok().expect("the worker and its other sessions continue");
    assert_eq!((plane.server.wait_for("DO 2"), plane.server.wait_for("DO 3")), (0, 1));
    // Its place under the user's two connections is free again.
    plane.client().query("DO 4").ok().expect("an answer");
}

#[test]
fn a_panic_does_not_return_a_connection_that_was_pinned() {
    let plane = Plane::start(Variables { threads: 1, ..Variables::default() });
    let (mut unlucky, mut other) = (plane.client(), plane.client());
    unlucky.query("LOCK TABLES t WRITE").ok().expect("an answer");
    other.query("DO 1").ok().expect("an answer");
    let (pinned, free) = (plane.server.wait_for("LOCK TABLES t WRITE"), plane.server.wait_for("DO 1"));
    assert_ne!(pinned, free);

    unlucky.send_command(narrows_testkit::command::QUERY, &panicking_statement()).expect("send it");

    assert!(unlucky.is_closed_within(Duration::from_secs(10)));
    plane.server.wait_for_open(1);
    plane.wait_for_panics(1);
    other.query("DO 2").ok().expect("the worker and its other sessions continue");
    assert_eq!(plane.server.wait_for("DO 2"), free);
    let resets = plane.server.received().into_iter().rfind(|received| received.connection == pinned);
    assert_eq!(resets.expect("something").body, String::from_utf8_lossy(&panicking_statement()));
}

#[test]
fn clients_that_come_at_once_are_spread_over_the_workers() {
    const CLIENTS: usize = 40;
    let plane = Plane::start(Variables { threads: 4, ..Variables::default() });
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| RawClient::connect(&plane.endpoint())).collect();
    for client in &mut clients {
        client.greeting().expect("a greeting before anybody has logged in");
    }

    for client in &mut clients {
        // The account has places for two; a refused login counts as well as another.
        let _ = client.login(&Login::new("sbtest", "sbtest"));
    }

    let attempts = |counters: &Counters| counters.logins + counters.login_failures;
    let attempts: Vec<u64> = plane.counters().iter().map(attempts).collect();
    assert_eq!(attempts, [CLIENTS as u64 / 4; 4]);
}

#[test]
fn clients_that_have_not_logged_in_count_under_max_connections() {
    let plane = Plane::start(Variables { threads: 2, max_connections: 2, ..Variables::default() });
    let mut waiting = [RawClient::connect(&plane.endpoint()), RawClient::connect(&plane.endpoint())];
    for client in &mut waiting {
        client.greeting().expect("a greeting");
    }

    let error = RawClient::connect(&plane.endpoint()).greeting().cloned().expect_err("one too many");

    assert_eq!((error.code, error.state.as_str()), (1040, "08004"), "{error:?}");
    waiting[0].login(&Login::new("sbtest", "sbtest")).expect("room for those that came first");
}
