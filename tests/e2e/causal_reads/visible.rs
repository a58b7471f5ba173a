//! What clients notice: the GTIDs of their writes if they have asked for them, and otherwise nothing.

use narrows_testkit::{Endpoint, Flavour, Login, Packet, RawClient, capability};

use super::{Servers, on_each, run};
use crate::support::start;

/// Two forms of result sets, each for clients that take reports and for others.
const FORMS: [u32; 4] = [
    0,
    capability::DEPRECATE_EOF,
    capability::SESSION_TRACK,
    capability::DEPRECATE_EOF | capability::SESSION_TRACK,
];

/// A client with exactly this form.
fn client(endpoint: &Endpoint, form: u32) -> RawClient {
    let both = capability::DEPRECATE_EOF | capability::SESSION_TRACK;
    let login = Login::new("sbtest", "sbtest").schema("shop").without(both & !form).with(form);
    let client = RawClient::open(endpoint, &login);
    assert_eq!(client.capabilities() & both, form);
    client
}

/// Statements whose answers show no place and no time.
const STATEMENTS: [&str; 12] = [
    "REPLACE INTO t VALUES (1, 1)",
    "SELECT n FROM t WHERE id = 1",
    "BEGIN",
    "UPDATE t SET n = 2 WHERE id = 1",
    "SELECT n FROM t WHERE id = 1 FOR UPDATE",
    "COMMIT",
    "SELECT n FROM t WHERE id = 1",
    "INSERT INTO t VALUES (1, 1)",
    "DELETE FROM t WHERE id = 1",
    "SELECT n FROM t WHERE id = 1",
    "CALL put(1, 5)",
    "SELECT n FROM t WHERE id = 1",
];

/// What they are answered, from a table without that row.
fn answers(client: &mut RawClient) -> Vec<Vec<Packet>> {
    run(client, "DELETE FROM t WHERE id = 1");
    STATEMENTS.iter().map(|statement| client.query(statement).packets).collect()
}

/// The primary itself, without Narrows.
fn primary(servers: &Servers) -> Endpoint {
    Endpoint::Unix(servers.nodes[0].socket())
}

/// Whether an answer has GTIDs in it: MySQL's form, or the name of MariaDB's variable.
fn shows_gtids(packets: &[Packet], source: &str) -> bool {
    packets.iter().any(|packet| {
        let text = String::from_utf8_lossy(&packet.payload);
        text.contains(source) || text.contains("last_gtid")
    })
}

#[test]
fn answers_are_byte_for_byte_those_of_the_server() {
    on_each(|servers| {
        let mut admin = None;
        for (delayed, level) in [(false, "session"), (true, "session"), (true, "global")] {
            let narrows = start(&servers.config().variable("causal_reads", level));
            servers.apply(!delayed);
            for form in FORMS {
                let direct = answers(&mut client(&primary(servers), form));
                let through = answers(&mut client(&narrows.endpoint(), form));
                for ((statement, ours), theirs) in STATEMENTS.iter().zip(&through).zip(&direct) {
                    assert_eq!(ours, theirs, "{:?}, {level}, form {form:#x}: {statement}", servers.flavour);
                }
            }
            admin = Some(narrows.admin());
            servers.apply(true);
            servers.wait_for_replicas();
        }
        drop(admin);
    });
}

#[test]
fn gtids_are_for_those_who_have_asked_for_them() {
    Flavour::MySql9.if_tested(|flavour| {
        let servers = Servers::start(flavour);
        let source = servers.nodes[0].rows("SELECT @@server_uuid")[0][0].clone().expect("a UUID");
        for (level, is_shown) in [("none", true), ("session", true), ("session", false)] {
            let config = servers.config().variable("causal_reads", level);
            let narrows = start(&config.variable("client_session_track_gtid", &is_shown.to_string()));
            for form in [capability::SESSION_TRACK, capability::SESSION_TRACK | capability::DEPRECATE_EOF] {
                let mut silent = client(&narrows.endpoint(), form);
                assert!(
                    !answers(&mut silent).iter().any(|packets| shows_gtids(packets, &source)),
                    "nobody asked"
                );
                let mut asks = client(&narrows.endpoint(), form);
                run(&mut asks, "SET SESSION session_track_gtids = OWN_GTID");
                let wrote =
                    asks.query("INSERT INTO t VALUES (3, 3) ON DUPLICATE KEY UPDATE n = n + 1").packets;
                assert_eq!(shows_gtids(&wrote, &source), is_shown, "{level}, {is_shown}: {wrote:?}");
                let told = answers(&mut asks);
                let count = told.iter().filter(|packets| shows_gtids(packets, &source)).count();
                // Three statements commit, and COMMIT does.
                assert_eq!(count, if is_shown { 4 } else { 0 }, "{level}, {is_shown}");
                // The connection was theirs: the next client has not asked.
                drop(asks);
                assert!(!answers(&mut silent).iter().any(|packets| shows_gtids(packets, &source)));
                run(&mut silent, "SET SESSION session_track_gtids = OWN_GTID");
                run(&mut silent, "SET SESSION session_track_gtids = OFF");
                assert!(!answers(&mut silent).iter().any(|packets| shows_gtids(packets, &source)));
            }
        }
    });
}
