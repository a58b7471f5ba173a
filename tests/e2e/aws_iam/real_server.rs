//! A real MariaDB that asks for the password in clear text, as the servers of RDS do: its PAM plugin with a service that lets in who
//! the server itself is, whatever the password is. So this shows that a token gets through, and not that it is right.

use std::path::Path;

use narrows_testkit::{Flavour, Login, RawClient, RealServer, ServerOptions, wait_until};

use super::*;

/// A PAM service that root passes without a password, on Debian and Red Hat.
const SERVICE: &str = "su";

/// Accounts of the operating system, which PAM looks up.
const ACCOUNTS: [&str; 2] = ["daemon", "nobody"];

/// Whether root passes the service, and the server is root.
fn is_possible() -> bool {
    let service = std::fs::read_to_string(Path::new("/etc/pam.d").join(SERVICE)).unwrap_or_default();
    let has_plugin = Path::new("/usr/lib/mysql/plugin/auth_pam_v1.so").exists();
    rustix::process::geteuid().is_root() && service.contains("pam_rootok.so") && has_plugin
}

/// A server with the accounts.
fn server(scene: &Scene) -> RealServer {
    let certificate = scene.authority.issue("db", &["127.0.0.1"], Validity::Current);
    let file = |name: &str| scene.folder.file(name).display().to_string();
    std::fs::write(file("cert.pem"), &certificate.certificate).expect("its folder");
    std::fs::write(file("key.pem"), &certificate.key).expect("its folder");
    let server = ServerOptions::new(Flavour::MariaDb)
        .option(&format!("--ssl-cert={}", file("cert.pem")))
        .option(&format!("--ssl-key={}", file("key.pem")))
        .option("--plugin-load-add=auth_pam_v1")
        .option("--pam-use-cleartext-plugin=ON")
        .start();
    for name in ACCOUNTS {
        server.execute(&[
            &format!("CREATE USER {name}@'%' IDENTIFIED VIA pam USING '{SERVICE}' REQUIRE SSL"),
            &format!("GRANT ALL ON *.* TO {name}@'%'"),
        ]);
    }
    server
}

#[test]
fn a_server_that_asks_for_a_clear_password_gets_the_token() {
    if !is_possible() {
        println!("left out: no PAM service here lets root in without a password");
        return;
    }
    let scene = Scene::new();
    let server = server(&scene);
    let config =
        ACCOUNTS.iter().fold(scene.with_keys(), |config, name| config.user(name, "of-clients", TOKENS));
    let narrows =
        start(&config.variable("default_query_timeout", "1000").variable("connection_max_age_ms", "0"));
    let mut admin = narrows.admin();
    for statement in [
        &format!("UPDATE mysql_servers SET port={}, max_connections=1", server.port()),
        "LOAD MYSQL SERVERS TO RUNTIME",
    ] {
        assert_eq!(admin.query(statement).error(), None, "{statement}");
    }
    // One connection, which is logged in again for each of them; and one that kills.
    let mut clients =
        ACCOUNTS.map(|name| RawClient::open(&narrows.endpoint(), &Login::new(name, "of-clients")));
    for _ in 0..2 {
        for (client, name) in clients.iter_mut().zip(ACCOUNTS) {
            let user = client.query("SELECT CURRENT_USER()");
            assert_eq!(user.cell(), Some(format!("{name}@%")), "{:?}", user.error());
            let version = client.query("SHOW STATUS LIKE 'Ssl_version'").text_rows();
            assert_eq!(version[0][1].as_deref(), Some("TLSv1.3"));
        }
    }
    let killed = clients[0].query("SELECT SLEEP(50)").error().expect("it is killed");
    assert_eq!(killed.code, 1907, "{killed:?}");
    wait_until("it serves again", || clients[0].query("SELECT 1").error().is_none());
    nothing_is_shown(&narrows);
}
