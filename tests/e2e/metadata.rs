//! `CLIENT_OPTIONAL_RESULTSET_METADATA`: Narrows neither offers it nor requests it from servers, so that every answer
//! has its column definitions, and a client that sets the flag all the same is served like one that does not.

use narrows_testkit::{
    Conversation, Endpoint, FakeMysql, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer,
    capability,
};

const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;

fn start(port: u16, more: &str) -> Narrows {
    let config = NarrowsConfig::new().server(0, port, "").user("sbtest", "sbtest", more);
    crate::support::start(&config)
}

#[test]
fn clients_are_not_offered_to_leave_column_definitions_out() {
    for flavour in Flavour::both() {
        let narrows = start(RealServer::shared(flavour).port(), "");
        // Once before the first connection to a server, and once after.
        for _ in 0..2 {
            let mut client = RawClient::connect(&narrows.endpoint());
            let offered = client.greeting().expect("a greeting").capabilities;
            assert_eq!(offered & OPTIONAL_RESULTSET_METADATA, 0, "{flavour:?}");
            client.login(&Login::new("sbtest", "sbtest")).expect("logged in");
            client.query("DO 1");
        }
    }
}

#[test]
fn a_client_that_asks_for_it_all_the_same_gets_whole_answers() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        for more in ["", "fast_forward=true"] {
            let narrows = start(server.port(), more);
            for asks in [0, OPTIONAL_RESULTSET_METADATA] {
                let what = format!("{flavour:?} {more} {asks:#x}");
                let login = Login::new("sbtest", "sbtest").with(asks);
                let mut client = RawClient::open(&narrows.endpoint(), &login);
                // Over its socket, where any authentication plugin works.
                let socket = Endpoint::Unix(server.socket());
                let mut direct = RawClient::open(&socket, &Login::new("sbtest", "sbtest"));
                // MySQL refuses it if the client lacks the capability; MariaDB does not support it.
                let set = "SET SESSION resultset_metadata = NONE";
                let error = client.query(set).error().map(|error| error.code);
                assert_eq!(error, direct.query(set).error().map(|error| error.code), "{what}");
                assert!(error.is_some(), "{what}");
                for statement in
                    ["SELECT 1 AS a, 'b' AS b", "SHOW VARIABLES LIKE 'port'", "SELECT 1 FROM DUAL WHERE 0"]
                {
                    let (ours, theirs) = (client.query(statement), direct.query(statement));
                    assert_eq!(ours.columns().len(), theirs.columns().len(), "{what}: {statement}");
                    assert_eq!(ours.text_rows(), theirs.text_rows(), "{what}: {statement}");
                }
            }
        }
    }
}

#[test]
fn servers_are_not_asked_to_leave_column_definitions_out() {
    for more in ["", "fast_forward=true"] {
        let offering = capability::SESSION_TRACK | OPTIONAL_RESULTSET_METADATA;
        let server = FakeMysql::start(Conversation::new().offering(offering));
        let narrows = start(server.port(), more);
        let login = Login::new("sbtest", "sbtest").with(OPTIONAL_RESULTSET_METADATA);
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        client.query("DO 1");
        let asked = server.logins();
        assert!(!asked.is_empty(), "{more}");
        for flags in asked {
            assert_eq!(flags & OPTIONAL_RESULTSET_METADATA, 0, "{more}: {flags:#x}");
        }
    }
}
