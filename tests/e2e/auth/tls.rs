//! TLS on both sides: versions, certificates, resumption, who requires what.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use narrows_testkit::{
    Authority, Certificate, Flavour, Login, Narrows, NarrowsConfig, Packet, RawClient, RealServer,
    ServerOptions, TempFolder, TlsClient, Validity, capability, tls_client, writer,
};

use crate::support::start;

/// A Narrows in front of the shared MariaDB, and what its clients trust.
fn narrows(config: NarrowsConfig) -> (Narrows, Arc<TlsClient>) {
    let narrows = start(&config);
    let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made at the start");
    let config = tls_client(&ca, None);
    (narrows, config)
}

fn in_front_of_mariadb() -> NarrowsConfig {
    NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
}

#[test]
fn a_certificate_is_made_that_clients_can_verify_and_sessions_are_resumed() {
    let (narrows, trust) = narrows(in_front_of_mariadb());
    let mut first = RawClient::open_tls(&narrows.endpoint(), &trust, &Login::new("sbtest", "sbtest"));
    assert_eq!(
        first.query("SELECT REPEAT('x', 300000)").text_rows()[0][0].as_deref().map(str::len),
        Some(300_000)
    );
    assert_eq!(first.is_resumed(), Some(false));
    let mut second = RawClient::open_tls(&narrows.endpoint(), &trust, &Login::new("sbtest", "sbtest"));
    assert_eq!(second.query("SELECT 1").text_rows()[0][0].as_deref(), Some("1"));
    assert_eq!(second.is_resumed(), Some(true));
    // A statement longer than any buffer on its path.
    let long = format!("SELECT LENGTH('{}')", "y".repeat(3_000_000));
    assert_eq!(second.query(long).text_rows()[0][0].as_deref(), Some("3000000"));
}

#[test]
fn who_trusts_another_authority_is_not_served() {
    let (narrows, _) = narrows(in_front_of_mariadb());
    let stranger = tls_client(Authority::new("another").pem(), None);
    let mut client = RawClient::connect(&narrows.endpoint());
    let error = client.start_tls(&stranger).expect_err("not its authority");
    assert!(error.message.contains("UnknownIssuer"), "{error:?}");
    drop(client);
    narrows.wait_for_log(0, |line| line.contains("login failed") && line.contains("TLS"));
}

#[test]
fn versions_before_1_2_are_refused() {
    let (narrows, _) = narrows(in_front_of_mariadb());
    for minor in [1, 2] {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.greeting().expect("a greeting");
        let mut request = (capability::USUAL | capability::SSL).to_le_bytes().to_vec();
        request.extend([0, 0, 0, 1, 33]);
        request.extend([0; 23]);
        client.send(&request).expect("it reads");
        client.send_bytes(&old_hello(minor)).expect("it reads");
        let mut alert = [0; 7];
        let count = client.read_bytes(&mut alert).expect("an alert");
        // A fatal alert: protocol_version, or handshake_failure.
        let refused = (alert[0], alert[5]) == (21, 2) && [70, 40].contains(&alert[6]);
        assert!(refused, "{:?}", &alert[..count]);
    }
}

/// The first message of a client that knows TLS up to 1.`minor - 1` only.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut hello = vec![3, minor];
    hello.extend([7; 32]);
    // No session, two cipher suites of that time, no compression; no extensions.
    hello.extend([0, 0, 4, 0xC0, 0x14, 0x00, 0x2F, 1, 0]);
    let mut message = vec![1, 0, 0, hello.len() as u8];
    message.extend(hello);
    let mut record = vec![22, 3, minor, 0, message.len() as u8];
    record.extend(message);
    record
}

#[test]
fn a_hello_in_pieces_that_is_none_is_refused_and_ends_nobody() {
    let (narrows, _) = narrows(in_front_of_mariadb());
    for endpoint in [narrows.endpoint(), narrows.admin_endpoint()] {
        let mut client = RawClient::connect(&endpoint);
        client.greeting().expect("a greeting");
        let mut request = (capability::PROTOCOL_41 | capability::SSL).to_le_bytes().to_vec();
        request.extend([0, 0, 0, 1, 33]);
        request.extend([0; 23]);
        client.send(&request).expect("it reads");
        client.send_bytes(&[22, 3, 1, 0, 1, 1].repeat(4)).expect("it reads");
        assert!(client.is_closed_within(Duration::from_secs(30)), "{endpoint:?}");
    }
    assert!(!narrows.log().contains("panicked"), "{}", narrows.log());
}

#[test]
fn an_account_may_require_tls_and_a_certificate() {
    let authority = Authority::new("of clients");
    let server = RealServer::shared(Flavour::MariaDb);
    for user in ["needs_tls", "needs_spiffe", "needs_subject"] {
        server.execute(&[
            &format!("CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY 'sbtest'"),
            &format!("GRANT ALL ON *.* TO {user}@'%'"),
        ]);
    }
    let config = in_front_of_mariadb()
        .user("needs_tls", "sbtest", "use_ssl=1")
        .user("needs_spiffe", "sbtest", r#"attributes="{\"spiffe_id\":\"spiffe://example/app\"}""#)
        .user("needs_subject", "sbtest", r#"attributes="{\"subject\":\"/CN=reports\"}""#);
    // The clients' authority is in the folder before the first start; the certificate is created next to it.
    let narrows = start_with_ca(&config, &authority);
    let shown = |identity: Option<&Certificate>| {
        let server_certificate =
            std::fs::read_to_string(narrows.folder().join("proxysql-cert.pem")).expect("made");
        tls_client(&server_certificate, identity)
    };
    let login = |user: &str| Login::new(user, "sbtest");
    let refused = |mut client: RawClient, user: &str| client.login(&login(user)).expect_err("refused");

    let error = refused(RawClient::connect(&narrows.endpoint()), "needs_tls");
    assert_eq!((error.code, error.message.contains("SSL is required")), (1045, true), "{error:?}");
    let none = shown(None);
    RawClient::open_tls(&narrows.endpoint(), &none, &login("needs_tls"));

    let app = authority.issue("app", &["spiffe://example/app"], Validity::Current);
    let reports = authority.issue("reports", &["spiffe://example/reports"], Validity::Current);
    for (identity, user, fits) in [
        (None, "needs_spiffe", false),
        (Some(&app), "needs_spiffe", true),
        (Some(&reports), "needs_spiffe", false),
        (Some(&app), "needs_subject", false),
        (Some(&reports), "needs_subject", true),
    ] {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.start_tls(&shown(identity)).expect("a handshake");
        match client.login(&login(user)) {
            Ok(_) => assert!(fits, "{user} logged in"),
            Err(error) => {
                assert!(
                    !fits && error.code == 1045 && error.message.contains("certificate"),
                    "{user}: {error:?}"
                );
            }
        }
    }
    let stranger = Authority::new("another").issue("app", &["spiffe://example/app"], Validity::Current);
    let mut client = RawClient::connect(&narrows.endpoint());
    let handshake = client.start_tls(&shown(Some(&stranger)));
    assert!(
        handshake.is_err() || client.login(&login("needs_spiffe")).is_err(),
        "an authority nobody trusts"
    );
}

/// A Narrows whose folder contains an authority for clients from the beginning.
fn start_with_ca(config: &NarrowsConfig, authority: &Authority) -> Narrows {
    Narrows::start_prepared(env!("CARGO_BIN_EXE_narrows"), config, |path| {
        std::fs::write(path.join("proxysql-ca.pem"), authority.pem()).expect("a new folder");
    })
}

/// The files of a server with TLS, in a separate folder.
struct ServerFiles {
    folder: TempFolder,
}

impl ServerFiles {
    fn new(certificate: &Certificate) -> ServerFiles {
        let folder = TempFolder::new("certificates");
        std::fs::write(folder.file("cert.pem"), &certificate.certificate).expect("a new folder");
        std::fs::write(folder.file("key.pem"), &certificate.key).expect("a new folder");
        ServerFiles { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    fn server(&self, flavour: Flavour) -> RealServer {
        ServerOptions::new(flavour)
            .option(&format!("--ssl-cert={}", self.path("cert.pem").display()))
            .option(&format!("--ssl-key={}", self.path("key.pem").display()))
            .option("--require-secure-transport=ON")
            .start()
    }
}

#[test]
fn servers_are_reached_by_tls_and_their_certificates_are_checked() {
    let authority = Authority::new("of servers");
    let cases = [
        (authority.issue("db", &["127.0.0.1", "localhost"], Validity::Current), None),
        (authority.issue("db", &["127.0.0.1"], Validity::Expired), Some("it has expired")),
        (authority.issue("db", &["db.example"], Validity::Current), Some("not for the host 127.0.0.1")),
        (
            Authority::new("another").issue("db", &["127.0.0.1"], Validity::Current),
            Some("its issuer is none of the CAs that are trusted"),
        ),
    ];
    for (certificate, refusal) in cases {
        let files = ServerFiles::new(&certificate);
        let server = files.server(Flavour::MariaDb);
        let ca = files.path("ca.pem");
        std::fs::write(&ca, authority.pem()).expect("a new folder");
        let config = NarrowsConfig::new()
            .server(0, server.port(), "use_ssl=1")
            .user("sbtest", "sbtest", "")
            .variable("ssl_p2s_ca", &ca.display().to_string())
            // However long the first attempt takes, its error is reported.
            .variable("connect_timeout_server", "30000")
            .variable("connect_timeout_server_max", "1500");
        let narrows = start(&config);
        let answer = narrows.client().query("SHOW STATUS LIKE 'Ssl_version'");
        match (refusal, answer.error()) {
            (None, None) => assert_eq!(answer.text_rows()[0][1].as_deref(), Some("TLSv1.3")),
            (Some(reason), Some(error)) => {
                assert_eq!((error.code, error.message.contains(reason)), (9001, true), "{reason}: {error:?}");
            }
            (expected, got) => panic!("{expected:?}: {got:?}"),
        }
        if refusal.is_none() {
            continue;
        }
        // It is not checked if no authority is given.
        let config = NarrowsConfig::new()
            .server(0, server.port(), "use_ssl=1")
            .user("sbtest", "sbtest", "")
            .variable("connect_timeout_server", "30000");
        let unverified = start(&config);
        assert_eq!(unverified.client().query("DO 1").error(), None);
    }
}

#[test]
fn a_statement_over_tls_is_killed_and_a_session_moves_between_users() {
    for flavour in Flavour::both() {
        let authority = Authority::new("of servers");
        let files = ServerFiles::new(&authority.issue("db", &["127.0.0.1"], Validity::Current));
        let server = files.server(flavour);
        server.execute(&["CREATE USER other IDENTIFIED BY 'other'", "GRANT ALL ON *.* TO other"]);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "use_ssl=1 max_connections=3")
            .user("sbtest", "sbtest", "")
            .user("other", "other", "")
            .variable("connect_timeout_server", "30000")
            .variable("default_query_timeout", "1000");
        let narrows = start(&config);
        let mut client = narrows.client();
        // If killed, it is an error on MariaDB, and a row with the result on MySQL.
        let killed = client.query("SELECT SLEEP(50)");
        match killed.error() {
            Some(error) => assert_eq!(error.code, 1907, "{flavour:?}"),
            None => assert_eq!(killed.text_rows()[0][0].as_deref(), Some("1"), "{flavour:?}"),
        }
        assert_eq!(client.query("SELECT CURRENT_USER()").text_rows()[0][0].as_deref(), Some("sbtest@%"));
        let mut other = RawClient::open(&narrows.endpoint(), &Login::new("other", "other"));
        assert_eq!(other.query("SELECT CURRENT_USER()").text_rows()[0][0].as_deref(), Some("other@%"));
    }
}

#[test]
fn a_server_without_tls_is_not_spoken_to_where_tls_is_asked_for() {
    let server = narrows_testkit::FakeMysql::start(narrows_testkit::Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "use_ssl=1")
        .user("sbtest", "sbtest", "")
        .variable("connect_timeout_server", "30000")
        .variable("connect_timeout_server_max", "1000");
    let narrows = start(&config);
    let error = narrows.client().query("DO 1").error().expect("no TLS there");
    assert!(error.message.contains("does not offer TLS"), "{error:?}");
}

/// A man in the middle inserts an OK after the server's greeting, where nothing is encrypted yet.
#[test]
fn what_comes_before_tls_is_not_read_as_if_it_came_inside() {
    let authority = Authority::new("servers");
    let files = ServerFiles::new(&authority.issue("db", &["127.0.0.1"], Validity::Current));
    let server = files.server(Flavour::MariaDb);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let upstream = server.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // It ends when either side disconnects.
            let _ = between(client, upstream);
        }
    });
    let config = NarrowsConfig::new()
        .server(0, port, "use_ssl=1")
        .user("sbtest", "sbtest", "")
        .variable("connect_timeout_server", "30000")
        .variable("connect_timeout_server_max", "2000");
    let narrows = start(&config);
    let answer = narrows.client().query("SELECT 'true'");
    let error = answer.error().unwrap_or_else(|| panic!("an answer to something else: {answer:?}"));
    assert!(error.message.contains("bytes after the greeting"), "{error:?}");
}

/// Forwards what client and server send, and inserts something in the server's name after its greeting.
fn between(client: TcpStream, upstream: u16) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", upstream))?;
    let greeting = Packet::read(&mut &server)?;
    let mut said = Vec::new();
    let sequence = Packet::write(&mut said, &greeting.payload, 0)?;
    Packet::write(&mut said, &writer::ok(0, 0, 2, 0), sequence + 1)?;
    (&client).write_all(&said)?;
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut &from, &mut &to));
    std::thread::spawn(move || std::io::copy(&mut &server, &mut &client));
    Ok(())
}
