//! Limits that servers count by account, or for all connections together, while clients share connections.

use std::thread;

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, ServerOptions, capability, command,
};

use crate::support::logged_in;

/// A client with another capability than others have cannot use their connections.
fn client_with(narrows: &Narrows, capabilities: u32) -> RawClient {
    logged_in(&narrows.endpoint(), &Login::new("few", "few").with(capabilities))
}

/// The account's own limit of connections, and the server's for any account.
#[test]
fn within_the_limit_of_an_account_idle_connections_make_room_and_busy_ones_are_waited_for() {
    for flavour in Flavour::both() {
        for (limit, option) in [("WITH MAX_USER_CONNECTIONS 2", None), ("", Some("--max-user-connections=2"))]
        {
            let options = ServerOptions::new(flavour);
            let server = option.iter().fold(options, |options, option| options.option(option)).start();
            let create = format!("CREATE USER few@'%' IDENTIFIED BY 'few' {limit}");
            server.execute(&[&create, "GRANT ALL ON *.* TO few@'%'"]);
            for workers in ["1", "2"] {
                let config = NarrowsConfig::new()
                    .server(0, server.port(), "max_connections=5")
                    .variable("threads", workers)
                    .variable("connect_timeout_server_max", "10000")
                    .user("few", "few", "");
                let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
                let what = format!("{flavour:?} {limit}{option:?} {workers} workers");
                // Four kinds of connections, of which the server allows two.
                let classes = [0, capability::FOUND_ROWS, capability::INTERACTIVE, capability::NO_SCHEMA];
                let mut clients = classes.map(|class| client_with(&narrows, class));
                for round in 0..3 {
                    for client in &mut clients {
                        let answer = client.query(format!("SELECT {round}"));
                        assert_eq!(answer.cell(), Some(round.to_string()), "{what}: {answer:?}");
                    }
                }
                // All at once.
                let working = clients.map(|mut client| {
                    thread::spawn(move || {
                        (0..10).map(|_| client.query("SELECT SLEEP(0.02)").cell()).collect::<Vec<_>>()
                    })
                });
                for thread in working {
                    let answers = thread.join().expect("it does not panic");
                    assert!(
                        answers.iter().all(|answer| answer.as_deref() == Some("0")),
                        "{what}: {answers:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_account_whose_connections_stay_busy_gets_its_servers_error_in_time_and_others_are_served() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        let create = "CREATE USER few@'%' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1";
        server.execute(&[create, "GRANT ALL ON *.* TO few@'%'"]);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=5")
            .variable("threads", "1")
            .variable("connect_timeout_server_max", "1500")
            .user("sbtest", "sbtest", "")
            .user("few", "few", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
        let mut first = client_with(&narrows, 0);
        first.query("BEGIN");
        first.query("SELECT 1");
        let mut second = client_with(&narrows, 0);
        let waiting = thread::spawn(move || second.query("SELECT 2").error().map(|error| error.code));
        let mut other = logged_in(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));
        let mut answered = 0;
        while !waiting.is_finished() {
            assert_eq!(other.query("SELECT 3").cell().as_deref(), Some("3"), "{flavour:?}");
            answered += 1;
        }
        assert_eq!(waiting.join().expect("it does not panic"), Some(1226), "{flavour:?}");
        assert!(answered > 10, "{flavour:?}: others wait for the account: {answered}");
        assert_eq!(first.query("SELECT 4").cell().as_deref(), Some("4"), "{flavour:?}");
    }
}

/// `max_prepared_stmt_count` counts what Narrows keeps for clients, and what texts prepare.
#[test]
fn statements_that_are_kept_make_room_for_those_that_texts_prepare() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).option("--max-prepared-stmt-count=5").start();
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=3")
            .variable("threads", "2")
            .user("sbtest", "sbtest", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
        let login = Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS);
        let client = || logged_in(&narrows.endpoint(), &login);
        for round in 0..4 {
            let mut first = client();
            for number in 0..5 {
                let text = format!("SELECT {number}");
                let prepared = first.command(command::STMT_PREPARE, text.as_bytes());
                assert!(prepared.error().is_none(), "{flavour:?} {round}: {prepared:?}");
            }
            if round % 2 == 0 {
                drop(first);
            }
            let mut second = client();
            let prepared = second.query("PREPARE p FROM 'SELECT 7'");
            assert!(prepared.error().is_none(), "{flavour:?} {round}: {prepared:?}");
            assert_eq!(second.query("EXECUTE p").cell().as_deref(), Some("7"), "{flavour:?} {round}");
            // In a transaction, too.
            second.query("BEGIN");
            assert!(second.query("PREPARE p FROM 'SELECT 8'").error().is_none(), "{flavour:?} {round}");
            assert_eq!(second.query("EXECUTE p").cell().as_deref(), Some("8"), "{flavour:?} {round}");
        }
    }
}
