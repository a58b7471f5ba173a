//! Bad input and bad luck: whatever a client or a server does, the other clients continue, a clear error gives the
//! cause if anybody is left to read it, and the log has one line.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, Endpoint, ErrorPacket, FakeMysql, Flavour, Login, Move, Narrows, NarrowsConfig, RawClient,
    RealServer, capability, command,
};

use crate::support::start;

/// Long enough for anything on this machine, short enough for a failing test.
const SOON: Duration = Duration::from_secs(10);

/// The usual set: a real server, quick time limits.
fn usual() -> NarrowsConfig {
    NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("connect_timeout_server_max", "500")
}

fn in_front_of_fake(fake: &FakeMysql) -> NarrowsConfig {
    NarrowsConfig::in_front_of(fake.port())
        .variable("connect_timeout_server", "300")
        .variable("connect_timeout_server_max", "500")
}

/// Does something bad while another client works, and checks that the other one notices nothing.
fn beside_a_working_client<T>(narrows: &Narrows, bad: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    let served = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut client = narrows.client();
            let mut number = 0_u32;
            while !done.load(Ordering::SeqCst) || number == 0 {
                number += 1;
                let answer = client.query("SELECT 42 AS bystander");
                assert_eq!(answer.cell().as_deref(), Some("42"), "query {number} of the bystander");
                served.store(true, Ordering::SeqCst);
            }
        });
        // The bad thing begins while the other client is being served.
        while !served.load(Ordering::SeqCst) && !bystander.is_finished() {
            std::thread::yield_now();
        }
        // A failure of the test itself must end the bystander too, otherwise the scope waits forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(bad));
        done.store(true, Ordering::SeqCst);
        if let Err(panic) = bystander.join() {
            std::panic::resume_unwind(panic);
        }
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The log lines that this causes: waits for the first one, then for as long as a client needs to be served.
fn log_lines(narrows: &Narrows, bad: impl FnOnce()) -> Vec<String> {
    let mark = narrows.log().len();
    beside_a_working_client(narrows, bad);
    narrows.wait_for_log(mark, |_| true);
    // A second line for the same event would be written before or with the next connection's service.
    narrows.client().query("SELECT 1");
    narrows.log()[mark..].lines().map(str::to_owned).collect()
}

fn assert_one_line(narrows: &Narrows, bad: impl FnOnce()) -> String {
    let lines = log_lines(narrows, bad);
    // The end of a session that a warning explains may also be logged at level info.
    let warnings: Vec<&String> =
        lines.iter().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    let telling = if warnings.is_empty() { lines.iter().collect() } else { warnings };
    assert_eq!(telling.len(), 1, "one event, one line: {lines:#?}");
    telling[0].clone()
}

/// The error that the server sends before it closes, if any.
fn last_words(client: &mut RawClient) -> Option<ErrorPacket> {
    client.set_patience(SOON);
    let mut words = None;
    while let Ok(packet) = client.read() {
        words = ErrorPacket::decode(&packet.payload);
    }
    words
}

// Before the login.

#[test]
fn garbage_instead_of_a_handshake_closes_the_connection() {
    let narrows = start(&usual());
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"[..], &[0xFF; 300], &[0; 300], b"\x01\0\0\x01\0"]
    {
        assert_one_line(&narrows, || {
            let mut client = RawClient::connect(&narrows.endpoint());
            client.greeting().expect("a greeting");
            client.send_bytes(garbage).expect("send garbage");
            client.finish_sending();
            assert!(client.is_closed_within(SOON), "{garbage:?}");
        });
    }
}

#[test]
fn a_truncated_login_closes_the_connection() {
    let narrows = start(&usual());
    let mut client = RawClient::connect(&narrows.endpoint());
    let seed = client.greeting().expect("a greeting").seed.clone();
    let whole = Login::new("sbtest", "sbtest").response(&seed, "mysql_native_password");
    // As a packet that is shorter than its content requires; the plugin name at the end may be missing.
    for length in [1, 4, 31, 32, 36, 39, 45] {
        assert_one_line(&narrows, || {
            let mut client = RawClient::connect(&narrows.endpoint());
            client.greeting().expect("a greeting");
            client.send(&whole[..length]).expect("send a part");
            assert!(client.is_closed_within(SOON), "{length} bytes of a login");
        });
    }
}

#[test]
fn a_login_that_breaks_off_is_one_line() {
    let narrows = start(&usual());
    assert_one_line(&narrows, || {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.greeting().expect("a greeting");
        client.send_bytes(b"\x50\0\0\x01\x05\xa2\x0e").expect("send a part of a packet");
    });
}

#[test]
fn a_login_with_a_wrong_sequence_number_is_refused() {
    let narrows = start(&usual());
    assert_one_line(&narrows, || {
        let mut client = RawClient::connect(&narrows.endpoint());
        let seed = client.greeting().expect("a greeting").seed.clone();
        let payload = Login::new("sbtest", "sbtest").response(&seed, "mysql_native_password");
        client.send_bytes(&[&[payload.len() as u8, 0, 0, 5], &payload[..]].concat()).expect("send a login");
        let error = last_words(&mut client).expect("an error before the end");
        assert_eq!((error.code, error.state.as_str()), (1156, "08S01"), "{error:?}");
    });
}

#[test]
fn a_length_that_lies_closes_the_connection() {
    let narrows = start(&usual());
    let mut client = RawClient::connect(&narrows.endpoint());
    let seed = client.greeting().expect("a greeting").seed.clone();
    let honest = Login::new("sbtest", "sbtest").response(&seed, "mysql_native_password");
    // The length of the answer to the challenge follows the 32 fixed bytes and the user's name with its zero.
    let at = 32 + "sbtest".len() + 1;
    for lie in [
        &[0xFA][..],
        &[0xFC, 0xFF, 0xFF],
        &[0xFD, 0xFF, 0xFF, 0xFF],
        &[0xFE, 255, 255, 255, 255, 255, 255, 255, 127],
        &[0xFF],
    ] {
        assert_one_line(&narrows, || {
            let mut client = RawClient::connect(&narrows.endpoint());
            client.greeting().expect("a greeting");
            let payload = [&honest[..at], lie, &honest[at + 1..]].concat();
            client.send(&payload).expect("send a login");
            assert!(client.is_closed_within(SOON), "{lie:?}");
        });
    }
}

#[test]
fn a_client_that_hangs_in_the_handshake_is_closed_in_time() {
    let narrows = start(&usual().variable("connect_timeout_client", "500"));
    assert_one_line(&narrows, || {
        let began = Instant::now();
        let mut client = RawClient::connect(&narrows.endpoint());
        client.greeting().expect("a greeting");
        assert!(client.is_closed_within(SOON));
        assert!(began.elapsed() >= Duration::from_millis(490), "closed after {:?}", began.elapsed());
    });
}

#[test]
fn a_wrong_password_is_1045() {
    let narrows = start(&usual());
    for (user, password, using) in [("sbtest", "wrong", "YES"), ("nobody", "x", "YES"), ("sbtest", "", "NO")]
    {
        let line = assert_one_line(&narrows, || {
            let error =
                RawClient::connect(&narrows.endpoint()).login(&Login::new(user, password)).unwrap_err();
            assert_eq!((error.code, error.state.as_str()), (1045, "28000"));
            let text = format!("Access denied for user '{user}'@'127.0.0.1' (using password: {using})");
            assert_eq!(error.message, text);
        });
        assert!(line.contains(user), "{line}");
    }
}

#[test]
fn an_unknown_schema_is_1049() {
    let narrows = start(&usual());
    let login = Login::new("sbtest", "sbtest").schema("no_such_schema");
    let error = RawClient::connect(&narrows.endpoint()).login(&login).expect_err("no such schema");
    assert_eq!((error.code, error.state.as_str()), (1049, "42000"));
    assert_eq!(error.message, "Unknown database 'no_such_schema'");
    let mut client = narrows.client();
    let error = client.change_user(&login).expect_err("no such schema");
    assert_eq!((error.code, error.state.as_str()), (1049, "42000"));
    let error = narrows.client().query("USE no_such_schema").error().expect("an error");
    assert_eq!((error.code, error.state.as_str()), (1049, "42000"));
}

#[test]
fn a_schema_whose_name_is_too_long_is_the_clients_mistake_and_no_servers() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&["CREATE USER IF NOT EXISTS too_long IDENTIFIED BY 'one'"]);
        let config = NarrowsConfig::new().server(0, server.port(), "").user("too_long", "one", "");
        let narrows = start(&config.variable("get_server_public_key", "true"));
        for length in [64, 65, 250, 2000] {
            let login = Login::new("too_long", "one").schema(&"d".repeat(length));
            let code = |endpoint: &Endpoint| {
                RawClient::connect(endpoint).login(&login).expect_err("there is no such schema").code
            };
            let direct = code(&Endpoint::Unix(server.socket()));
            assert_eq!(code(&narrows.endpoint()), direct, "{flavour:?}: {length}");
        }
        let log = narrows.log();
        assert!(!log.contains("cannot connect to a server"), "{flavour:?}:\n{log}");
    }
}

// After the login.

#[test]
fn an_unknown_command_is_1047_and_the_session_goes_on() {
    let narrows = start(&usual());
    let mut client = narrows.client();
    for code in [0x00, 0x20, 0x80, 0xFF] {
        client.send_command(code, b"whatever").expect("send a command");
        let packet = client.read().expect("an answer");
        let error = ErrorPacket::decode(&packet.payload).expect("an error");
        assert_eq!((error.code, error.state.as_str()), (1047, "08S01"), "{code:#x}: {error:?}");
        assert!(client.command(command::PING, b"").ok().is_some(), "after {code:#x}");
    }
}

#[test]
fn a_command_with_a_wrong_sequence_number_ends_the_session() {
    let narrows = start(&usual());
    assert_one_line(&narrows, || {
        let mut client = narrows.client();
        client.send_bytes(b"\x09\0\0\x07\x03SELECT 1").expect("send a command");
        let error = last_words(&mut client).expect("an error before the end");
        assert_eq!((error.code, error.state.as_str()), (1156, "08S01"), "{error:?}");
    });
}

#[test]
fn a_command_cut_short_is_an_error_or_the_end() {
    let narrows = start(&usual());
    let commands = [
        command::STMT_EXECUTE,
        command::STMT_FETCH,
        command::STMT_RESET,
        command::SET_OPTION,
        command::CHANGE_USER,
    ];
    for code in commands {
        beside_a_working_client(&narrows, || {
            let mut client = narrows.client();
            client.send_command(code, &[1]).expect("send a command");
            match client.read() {
                Ok(packet) => assert!(ErrorPacket::decode(&packet.payload).is_some(), "{code}: {packet:?}"),
                Err(_closed) => {}
            }
        });
    }
}

#[test]
fn an_empty_command_is_1047_and_the_session_goes_on() {
    let narrows = start(&usual());
    beside_a_working_client(&narrows, || {
        let mut client = narrows.client();
        client.send_bytes(&[0, 0, 0, 0]).expect("send an empty packet");
        let packet = client.read().expect("an answer");
        let error = ErrorPacket::decode(&packet.payload).expect("an error");
        assert_eq!((error.code, error.state.as_str()), (1047, "08S01"), "{error:?}");
        assert!(client.command(command::PING, b"").ok().is_some());
    });
}

#[test]
fn a_statement_over_max_allowed_packet_is_1153() {
    let narrows = start(&usual().variable("max_allowed_packet", "8192"));
    beside_a_working_client(&narrows, || {
        let mut client = narrows.client();
        let error = client.query(format!("SELECT '{}'", "x".repeat(9000))).error().expect("an error");
        assert_eq!((error.code, error.state.as_str()), (1153, "08S01"), "{error:?}");
    });
}

#[test]
fn a_client_that_vanishes_in_a_command_or_a_result_harms_nobody() {
    let narrows = start(&usual());
    let server = RealServer::shared(Flavour::MariaDb);
    assert_one_line(&narrows, || {
        let mut client = narrows.client();
        client.send_bytes(b"\xff\0\0\0\x03SELECT").expect("send a part of a command");
        client.vanish();
    });
    assert_one_line(&narrows, || {
        let mut client = narrows.client();
        let long = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                    SELECT REPEAT('x', 10000) AS vanishing FROM n a, n b";
        client.send_command(command::QUERY, long.as_bytes()).expect("send a statement");
        client.read().expect("the answer begins");
        client.vanish();
    });
    let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%AS vanishing FROM%' AND ID <> CONNECTION_ID()";
    let deadline = Instant::now() + SOON;
    while server.rows(running)[0][0].as_deref() != Some("0") {
        assert!(Instant::now() < deadline, "the statement still runs on the server");
        std::thread::sleep(Duration::from_millis(20));
    }
}

// Servers.

#[test]
fn no_server_is_9001_with_its_causes() {
    let port = FakeMysql::nobody();
    let config = usual().server(5, port, "").user("u_down", "p", "default_hostgroup=5").user(
        "u_none",
        "p",
        "default_hostgroup=7",
    );
    let narrows = start(&config);
    let lines = log_lines(&narrows, || {
        let began = Instant::now();
        let mut client = RawClient::open(&narrows.endpoint(), &Login::new("u_down", "p"));
        let error = client.query("SELECT 1").error().expect("an error");
        assert_eq!((error.code, error.state.as_str()), (9001, "HY000"));
        for part in ["hostgroup 5", &format!("127.0.0.1:{port}"), "refused", "ms"] {
            assert!(error.message.contains(part), "no {part:?} in {error:?}");
        }
        assert!(began.elapsed() < SOON, "after {:?}", began.elapsed());
        assert!(client.command(command::PING, b"").ok().is_some(), "the session continues");
    });
    // The loss of a server is one event; the error sent to a client is another, and includes the error.
    let warnings: Vec<&String> = lines.iter().filter(|line| line.contains(" WARN ")).collect();
    let [gone, told] = warnings[..] else { panic!("two events, two lines: {lines:#?}") };
    assert!(gone.contains("cannot connect to a server") && gone.contains("hostgroup=5"), "{gone}");
    for part in ["hostgroup=5", "cause=\"connect_failed\"", &format!("127.0.0.1:{port} ONLINE (pool 0/")] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("u_none", "p"));
    let error = client.query("SELECT 1").error().expect("an error");
    assert_eq!(error.code, 9001);
    assert!(error.message.to_lowercase().contains("hostgroup 7"), "{error:?}");
}

/// A script in which another working client is served too.
fn script() -> Conversation {
    Conversation::new()
        .on("SELECT 42 AS bystander", &[Move::rows("bystander", &["42"])])
        .on("SELECT 1", &[Move::rows("1", &["1"])])
}

#[test]
fn a_server_that_dies_in_a_result_ends_it_with_an_error() {
    for end in [Move::Close, Move::Reset] {
        let fake = FakeMysql::start(script().on("SELECT lost", &[Move::beginning_of_rows("a"), end]));
        let narrows = start(&in_front_of_fake(&fake));
        assert_one_line(&narrows, || {
            let answer = narrows.client().query("SELECT lost");
            let error = answer.error().expect("no incomplete result looks complete");
            assert_eq!(error.code, 2013, "{error:?}");
        });
    }
}

#[test]
fn a_server_that_dies_before_its_answer_is_2013_in_a_transaction() {
    let fake = FakeMysql::start(
        script()
            .on("BEGIN", &[Move::Reply(vec![narrows_testkit::writer::ok(0, 0, 3, 0)])])
            .on("UPDATE lost", &[Move::Close]),
    );
    let narrows = start(&in_front_of_fake(&fake));
    assert_one_line(&narrows, || {
        let mut client = narrows.client();
        assert!(client.query("BEGIN").ok().is_some());
        let error = client.query("UPDATE lost").error().expect("an error");
        assert_eq!(error.code, 2013, "{error:?}");
    });
    // Sent once: nobody knows whether it ran.
    let sent = fake.received().into_iter().filter(|received| received.body == "UPDATE lost").count();
    assert_eq!(sent, 1);
}

#[test]
fn a_server_that_closes_an_idle_connection_is_not_noticed() {
    let fake = FakeMysql::start(script());
    let narrows = start(&in_front_of_fake(&fake));
    let mut client = narrows.client();
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
    fake.hang_up();
    fake.wait_for_open(0);
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
    assert_eq!(fake.connections(), 2);
}

#[test]
fn a_server_that_talks_nonsense_is_an_error() {
    for nonsense in [
        &[0xFF; 64][..],
        b"\x05\0\0\x01\xfe\xff\xff\xff\xff",
        b"\x01\0\0\x09\0",
        b"HTTP/1.1 400 Bad Request\r\n",
    ] {
        let fake =
            FakeMysql::start(script().on("SELECT nonsense", &[Move::Bytes(nonsense.to_vec()), Move::Close]));
        let narrows = start(&in_front_of_fake(&fake));
        beside_a_working_client(&narrows, || {
            let error = narrows.client().query("SELECT nonsense").error();
            assert!(error.is_some(), "{nonsense:?}");
        });
    }
}

#[test]
fn a_server_that_hangs_or_refuses_at_login_is_told() {
    let hanging = FakeMysql::start(Conversation::new().at_connect(&[Move::Hang]));
    let refusing = FakeMysql::start(Conversation::new().at_login(&[Move::error(1045, "28000", "no entry")]));
    let config = usual()
        .variable("connect_timeout_server", "200")
        .server(5, hanging.port(), "")
        .server(6, refusing.port(), "")
        .user("u_hang", "p", "default_hostgroup=5")
        .user("u_refuse", "p", "default_hostgroup=6");
    let narrows = start(&config);
    for (user, cause) in [("u_hang", "no answer in time"), ("u_refuse", "no entry")] {
        beside_a_working_client(&narrows, || {
            let error =
                RawClient::open(&narrows.endpoint(), &Login::new(user, "p")).query("SELECT 1").error();
            let error = error.expect("an error");
            assert!(matches!(error.code, 9001 | 1045), "{error:?}");
            assert!(error.message.contains(cause), "{error:?}");
        });
    }
}

#[test]
fn a_command_of_several_packets_over_max_allowed_packet_is_read_to_its_end() {
    // Either its first packet is already too long, or all together are, once a server has received part of them.
    for (limit, megabytes, packets) in [(8192, 17, 2), (20 << 20, 40, 3), (33 << 20, 70, 5)] {
        let narrows = start(&usual().variable("max_allowed_packet", &limit.to_string()));
        let mut client = narrows.client();
        let text = format!("SELECT '{}'", "x".repeat(megabytes << 20));
        client.send_command(command::QUERY, text.as_bytes()).expect("all of it is taken");
        let packet = client.read().expect("an answer");
        let error = ErrorPacket::decode(&packet.payload).expect("an error");
        assert_eq!((error.code, error.state.as_str()), (1153, "08S01"), "{error:?}");
        assert_eq!(packet.sequence, packets, "after {packets} packets");
        assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "the session continues");
    }
}

#[test]
fn a_server_gets_no_file_for_a_statement_that_names_none() {
    let question = Move::Reply(vec![b"\xFB/etc/passwd".to_vec()]);
    let fake = FakeMysql::start(script().on("SELECT stolen", &[question, Move::Close]));
    let narrows = start(&in_front_of_fake(&fake).variable("enable_load_data_local_infile", "true"));
    let mut client = narrows.client();
    client.set_local_file(b"a secret".to_vec());
    let answer = client.query("SELECT stolen");
    assert!(answer.packets.iter().all(|packet| packet.first() != 0xFB), "{answer:?}");
    assert!(answer.error().is_some(), "{answer:?}");
}

#[test]
fn names_from_the_network_make_no_lines_of_the_log() {
    let narrows = start(&usual());
    let forged = "nobody\n2026-01-01T00:00:00.000000Z  WARN forged: line\r\u{1b}[31m";
    let line = assert_one_line(&narrows, || {
        let error = RawClient::connect(&narrows.endpoint()).login(&Login::new(forged, "x")).unwrap_err();
        assert_eq!(error.code, 1045);
    });
    assert!(line.contains("nobody") && !line.contains('\u{1b}'), "{line:?}");
    assert!(!narrows.log().lines().any(|line| line.starts_with("2026-01-01T00:00:00")), "{}", narrows.log());
}

#[test]
fn no_statement_ends_the_process() {
    let deep = |opens: &str, inner: &str, closes: &str| {
        let times = 300_000 / (opens.len() + closes.len());
        format!("{}{inner}{}", opens.repeat(times), closes.repeat(times))
    };
    let texts = [
        "SELECT 1 /*!99999 */; SELECT 2".to_owned(),
        "SELECT 1; SELECT 2 /*M! + 1 */".to_owned(),
        "COMMIT RELEASE; SELECT /*!80000 1 */".to_owned(),
        "SELECT 1 /*! ; SELECT 2 */* ' */ ; '".to_owned(),
        "SET autocommit = 0; SELECT 1 /*!99999 */".to_owned(),
        "PREPARE s FROM 'PREPARE t FROM \"SELECT 1 /*!99999 */; SELECT 2\"'; SELECT 1".to_owned(),
        "EXPLAIN EXPLAIN SELECT 1 /*!99999 */; SELECT 2".to_owned(),
        deep("(", "SELECT 1", ")"),
        deep("/*!99999 ", "SELECT 1", " */"),
        deep("/*! ; SELECT 2 */* ' */ ; '", "", ""),
        deep("EXPLAIN ", "SELECT 1", ""),
        deep("SET STATEMENT max_statement_time = 1 FOR ", "SELECT 1 /*!99999 */; SELECT 2", ""),
        format!("{}SELECT 1 /*!99999 */", "SELECT 1; ".repeat(500)),
        deep("WITH a AS (", "SELECT 1", ")"),
        deep("SELECT \"\\\\", "", ""),
    ];
    for flavour in Flavour::both() {
        let config = NarrowsConfig::in_front_of(RealServer::shared(flavour).port()).supervised();
        let narrows = start(&config);
        let worker = narrows.worker();
        for text in &texts {
            for more in [0, capability::MULTI_STATEMENTS] {
                let login = Login::new("sbtest", "sbtest").with(more);
                let mut client = RawClient::open(&narrows.endpoint(), &login);
                client.set_patience(SOON);
                client.query(text);
                client.command(command::STMT_PREPARE, text.as_bytes());
                client.query("SET autocommit = 0");
                client.query(text);
                assert_eq!(narrows.worker(), worker, "another process serves after {text:.80}");
            }
        }
        assert_eq!(narrows.client().query("SELECT 1").cell().as_deref(), Some("1"));
    }
}
