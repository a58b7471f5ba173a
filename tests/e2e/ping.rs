//! `narrows ping`: what it finds, how it fails, and that nothing is logged about it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, NarrowsConfig, RawClient, free_port};

use crate::support::start;

/// Runs it; returns whether it found an answer, and what it printed.
fn ping(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("ping")
        .args(arguments)
        .env("NARROWS_TEST_PASSWORD", "sbtest")
        .output()
        .expect("the program starts");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_of_file = text.contains("cannot be started\n");
    assert_eq!(text.lines().count(), if is_of_file { 2 } else { 1 }, "one line: {text}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    (output.status.success(), text)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn finds_the_narrows_of_an_address_a_socket_and_a_data_folder() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let clients = format!("127.0.0.1:{}", narrows.port());
    let Endpoint::Tcp(administrators) = narrows.admin_endpoint() else { panic!("a TCP endpoint") };
    let administrators = administrators.to_string();
    let (socket, folder) = (text(&narrows.socket()), text(&narrows.data_file("")));
    for (arguments, place) in [
        (vec![clients.as_str()], &clients),
        (vec![&administrators], &administrators),
        (vec![&socket], &socket),
        (vec!["-D", &folder], &clients),
        (vec!["-D", &folder, "--admin"], &administrators),
    ] {
        let (found, said) = ping(&arguments);
        assert!(found, "{arguments:?}: {said}");
        assert!(said.starts_with(&format!("{place} answers: version ")), "{said}");
    }
    // A health check every few seconds must not fill the log, and is no failed login of its address.
    assert!(!narrows.log().contains("login failed"), "{}", narrows.log());
}

#[test]
fn administrators_are_answered_when_there_are_too_many_clients() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()).variable("max_connections", "1"));
    let mut client = RawClient::connect(&narrows.endpoint());
    client.login(&Login::new("sbtest", "sbtest")).expect("the first client");
    let folder = text(&narrows.data_file(""));
    let (found, said) = ping(&["-D", &folder]);
    assert!(!found && said.contains(" refuses clients: error 1040: "), "{said}");
    assert!(ping(&["-D", &folder, "--admin"]).0);
}

#[test]
fn blocks_no_address_that_only_checks() {
    let config = NarrowsConfig::in_front_of(free_port()).variable("client_host_error_counts", "2");
    let narrows = start(&config.variable("client_host_cache_size", "10"));
    let clients = format!("127.0.0.1:{}", narrows.port());
    for _ in 0..5 {
        assert!(ping(&[&clients]).0);
        // A check that does not read the greeting resets the connection.
        drop(TcpStream::connect(&clients).expect("it listens"));
    }
    let (found, said) = ping(&[&clients, "-u", "sbtest", "--password", "sbtest"]);
    assert!(found, "{said}");
}

#[test]
fn logs_in_to_an_account() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let (clients, socket) = (format!("127.0.0.1:{}", narrows.port()), text(&narrows.socket()));
    let passwords: [&[&str]; 2] =
        [&["--password", "sbtest"], &["--password-env", "NARROWS_TEST_PASSWORD", "--ssl"]];
    for (place, password) in [&clients, &socket].into_iter().zip(passwords) {
        let (found, said) = ping(&[&[place.as_str(), "-u", "sbtest"], password].concat());
        assert!(found && said == format!("{place} answers: 'sbtest' can log in\n"), "{said}");
    }
    let (found, said) = ping(&[&clients, "-u", "sbtest", "--password", "wrong"]);
    assert!(!found);
    assert!(said.contains(&format!("{clients} refuses 'sbtest': error 1045: ")), "{said}");
    let (found, said) = ping(&[&clients, "--password", "sbtest"]);
    assert!(!found && said.contains("add --user"), "{said}");
    let folder = text(&narrows.data_file(""));
    let (found, said) = ping(&["-D", &folder, "--admin", "-u", "admin", "--password", "admin"]);
    assert!(found && said.ends_with(" answers: 'admin' can log in\n"), "{said}");
}

#[test]
fn says_why_there_is_no_answer() {
    let nobody = format!("127.0.0.1:{}", free_port());
    assert_eq!(ping(&[&nobody]), (false, format!("narrows: nothing listens on {nobody}\n")));
    let socket = "/nonexistent/narrows.sock";
    assert_eq!(ping(&[socket]), (false, format!("narrows: there is no socket {socket}\n")));
    let (found, said) = ping(&["no-such-host.invalid", "--timeout", "10"]);
    assert!(!found && said.contains("no-such-host.invalid"), "{said}");
    let (found, said) = ping(&["-c", "/nonexistent/narrows.toml"]);
    assert!(!found && said.contains("/nonexistent/narrows.toml"), "{said}");
}

#[test]
fn does_not_wait_for_long() {
    // It accepts connections, as the kernel does for a process that hangs.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = silent.local_addr().expect("an address").to_string();
    for account in [vec![], vec!["-u", "app"]] {
        let since = Instant::now();
        let (found, said) = ping(&[&[place.as_str(), "--timeout", "1"], account.as_slice()].concat());
        assert_eq!((found, said), (false, format!("narrows: {place} does not answer within 1 s\n")));
        assert!(since.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn is_not_deceived_by_other_programs() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0", "\x08\0\0\0\x09old\0\0\0\0", ""] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(answer.as_bytes()).expect("written");
            // The client may have closed the connection already.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0]);
        });
        let (found, said) = ping(&[&place]);
        assert!(!found && said.starts_with(&format!("narrows: {place} ")), "{answer:?}: {said}");
        server.join().expect("the server");
    }
}
