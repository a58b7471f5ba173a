//! Tests of the kit itself: servers start, answer, die and come back; the fake server follows its script.

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, RawClient, RealServer, ServerOptions, command,
};

#[test]
fn real_servers_answer_over_tcp_and_socket() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        assert_eq!(server.root().query("SELECT 1+1").cell().as_deref(), Some("2"));
        // The full authentication of caching_sha2_password needs the socket once; after that TCP will do.
        let login = Login::new("sbtest", "sbtest");
        RawClient::open(&narrows_testkit::Endpoint::Unix(server.socket()), &login);
        let mut client = RawClient::open(&server.endpoint(), &login);
        let answer = client.query("SELECT NULL, 'a' UNION SELECT 2, 'b'");
        let rows: Vec<Vec<Option<&str>>> = vec![vec![None, Some("a")], vec![Some("2"), Some("b")]];
        let got = answer.text_rows();
        assert_eq!(
            got.iter().map(|row| row.iter().map(Option::as_deref).collect::<Vec<_>>()).collect::<Vec<_>>(),
            rows
        );
        assert_eq!(client.query("SELECT nothing").error().expect("an error").code, 1054);
        assert!(client.change_user(&login).is_ok());
    }
}

#[test]
fn a_killed_server_comes_back_on_its_port() {
    let mut server = ServerOptions::new(Flavour::MariaDb).account("u_extra", "p").start();
    server.execute(&["CREATE DATABASE kept"]);
    let port = server.port();
    server.kill();
    assert!(RawClient::try_connect(&server.endpoint()).is_err());
    server.restart();
    assert_eq!(server.port(), port);
    RawClient::open(&server.endpoint(), &Login::new("u_extra", "p").schema("kept"));
}

#[test]
fn a_wrong_password_is_told() {
    let server = RealServer::shared(Flavour::MariaDb);
    let error = RawClient::connect(&server.endpoint()).login(&Login::new("sbtest", "wrong")).unwrap_err();
    assert_eq!((error.code, error.state.as_str()), (1045, "28000"));
}

#[test]
fn the_fake_plays_its_script_and_remembers() {
    let fake = FakeMysql::start(
        Conversation::new()
            .on("SELECT a", &[Move::rows("a", &["1", "2"])])
            .on("SELECT lost", &[Move::beginning_of_rows("a"), Move::Close])
            .on("SELECT e", &[Move::error(1064, "42000", "no")]),
    );
    let mut client = RawClient::open(&fake.endpoint(), &Login::new("anybody", "anything"));
    assert_eq!(client.query("SELECT a").text_rows().len(), 2);
    assert_eq!(client.query("SELECT e").error().expect("an error").message, "no");
    assert!(client.command(command::PING, b"").ok().is_some());
    assert!(client.query("SELECT lost").lost.is_some());
    let bodies: Vec<String> = fake.received().into_iter().map(|received| received.body).collect();
    assert_eq!(bodies, ["SELECT a", "SELECT e", "", "SELECT lost"]);
    fake.wait_for_open(0);
}
