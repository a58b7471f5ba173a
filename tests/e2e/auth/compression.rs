//! The compressed protocol, with clients that request it and servers that are configured for it.

use std::process::{Command, Stdio};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RealServer};

use crate::support::start;

#[test]
fn clients_and_servers_compress_each_on_its_own() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        for columns in ["", "compression=1"] {
            let config = NarrowsConfig::new()
                .server(0, server.port(), columns)
                .user("sbtest", "sbtest", "")
                .variable("max_allowed_packet", "268435456");
            let narrows = start(&config);
            let status = narrows.client().query("SHOW STATUS LIKE 'Compression'").text_rows();
            let expected = if columns.is_empty() { "OFF" } else { "ON" };
            assert_eq!(status[0][1].as_deref(), Some(expected), "{flavour:?}");
            through_a_client(&narrows, "mariadb", &["--compress", "--skip-ssl"]);
            through_a_client(&narrows, "mariadb", &["--compress", "--ssl"]);
            if flavour == Flavour::MySql9 {
                let root = std::env::var("NARROWS_MYSQL9").unwrap_or_else(|_| "/opt/mysql9".to_owned());
                for algorithm in ["zlib", "zstd"] {
                    let option = format!("--compression-algorithms={algorithm}");
                    let mysql = format!("{root}/bin/mysql");
                    through_a_client(&narrows, &mysql, &[&option, "--ssl-mode=DISABLED"]);
                    through_a_client(&narrows, &mysql, &[&option, "--ssl-mode=REQUIRED"]);
                }
            }
        }
    }
}

/// Short and long statements and answers, one connection, one after the other; the longest is more than one packet.
fn through_a_client(narrows: &Narrows, program: &str, options: &[&str]) {
    let long = "z".repeat(17 << 20);
    let script = format!(
        "SELECT 1;\nSELECT LENGTH('{long}');\nSELECT SHA2(REPEAT('abc', 1000000), 256), REPEAT('abc', 1000000);\n\
         DO 1;\nSELECT 'the end';\n"
    );
    let mut child = Command::new(program)
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=sbtest"])
        .arg(format!("--port={}", narrows.port()))
        .args(["--batch", "--skip-column-names", "--max-allowed-packet=256M"])
        .args(options)
        .env("MYSQL_PWD", "sbtest")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut input = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, script.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{program} {options:?}: {} lines", lines.len());
    assert_eq!((lines[0], lines[1], lines[3]), ("1", "17825792", "the end"), "{program} {options:?}");
    let (hash, repeated) = lines[2].split_once('\t').expect("two columns");
    assert_eq!((hash.len(), repeated.len()), (64, 3_000_000));
    assert!(repeated.as_bytes().chunks(3).all(|part| part == b"abc"), "{program} {options:?}");
}

#[test]
fn nobody_compresses_where_it_is_off() {
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("have_compress", "false")
        .variable("have_ssl", "false");
    let narrows = start(&config);
    let mut client = narrows_testkit::RawClient::connect(&narrows.endpoint());
    let offered = client.greeting().expect("a greeting").capabilities;
    use narrows_testkit::capability::{COMPRESS, SSL};
    assert_eq!(offered & (COMPRESS | SSL), 0);
}
