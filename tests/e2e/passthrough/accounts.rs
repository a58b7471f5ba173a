//! The kinds of accounts that servers have, and how clients send passwords.

use narrows_testkit::{
    Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, kill, tls_client, wait_until,
};

use super::{asked, config, log_in, patient, refusal};
use crate::auth::matrix::command_line_over;
use crate::support::start;

#[test]
fn each_kind_of_account_is_let_in_or_refused_as_by_its_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        let common = [
            "CREATE USER pt_empty@'%'",
            "CREATE USER pt_here@'127.0.0._' IDENTIFIED BY 'one'",
            "CREATE USER pt_there@'10.0.0.0/255.0.0.0' IDENTIFIED BY 'one'",
            "CREATE USER pt_locked@'%' IDENTIFIED BY 'one' ACCOUNT LOCK",
            "CREATE USER pt_expired@'%' IDENTIFIED BY 'one' PASSWORD EXPIRE",
            "CREATE USER pt_ssl@'%' IDENTIFIED BY 'one' REQUIRE SSL",
        ];
        server.execute(&common);
        log_in(&narrows, "pt_empty", "").expect("the server has no password for it");
        assert_eq!(refusal(&narrows, "pt_empty", "one").0, 1045, "{flavour:?}");
        log_in(&narrows, "pt_here", "one").expect("Narrows is here");
        assert_eq!(refusal(&narrows, "pt_there", "one").0, 1045, "{flavour:?}");
        let locked = if flavour == Flavour::MySql9 { 3118 } else { 4151 };
        assert_eq!(refusal(&narrows, "pt_locked", "one").0, locked, "{flavour:?}");
        assert_eq!(refusal(&narrows, "pt_locked", "two").0, 1045, "{flavour:?}");
        assert_eq!(
            refusal(&narrows, "pt_ssl", "one").0,
            1045,
            "{flavour:?}: Narrows uses no TLS to the server"
        );
        expired(&narrows, flavour);
        let drop = ["empty@'%'", "here@'127.0.0._'", "there@'10.0.0.0/255.0.0.0'"];
        let drop = drop.into_iter().chain(["locked@'%'", "expired@'%'", "ssl@'%'"]);
        let drop: Vec<String> = drop.map(|it| format!("DROP USER pt_{it}")).collect();
        server.execute(&drop.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// MySQL refuses the login; MariaDB lets the account in to change its password.
fn expired(narrows: &Narrows, flavour: Flavour) {
    if flavour == Flavour::MySql9 {
        return assert_eq!(refusal(narrows, "pt_expired", "one").0, 1862);
    }
    let mut client = log_in(narrows, "pt_expired", "one").expect("it may change its password");
    assert_eq!(client.query("SELECT 1").error().expect("not before").code, 1820);
    let changed = client.query("SET PASSWORD = PASSWORD('two')");
    assert!(changed.error().is_none(), "{:?}", changed.error());
    let mut client = log_in(narrows, "pt_expired", "two").expect("at the first try");
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn an_ed25519_account_of_mariadb_is_let_in() {
    Flavour::MariaDb.if_tested(|flavour| {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        server.execute(&[
            "INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'",
            "CREATE USER pt_ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('one')",
        ]);
        let mut client = log_in(&narrows, "pt_ed", "one").expect("it exists");
        assert_eq!(client.query("SELECT CURRENT_USER()").cell().as_deref(), Some("pt_ed@%"));
        assert_eq!(refusal(&narrows, "pt_ed", "two").0, 1045);
        server.execute(&["DROP USER pt_ed@'%'"]);
    });
}

#[test]
fn passwords_are_asked_over_tls_and_unix_sockets_only_unless_plain_tcp_is_allowed() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&["CREATE USER pt_tls@'%' IDENTIFIED BY 'one'"]);
        let narrows = start(&config(server.port()));
        let tcp = |narrows: &Narrows, plugin: &str| {
            let mut client = RawClient::connect(&narrows.endpoint());
            let login = client.login(&Login::new("pt_tls", "one").plugin(plugin));
            login.map_err(|error| (error.code, error.message))
        };
        let (code, text) = tcp(&narrows, "caching_sha2_password").expect_err("others could listen");
        assert!(code == 1045 && text.contains("mysql-passthrough_auth_require_tls"), "{code} {text}");
        let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made");
        for plugin in ["mysql_native_password", "caching_sha2_password", "mysql_clear_password"] {
            narrows.admin().query("PROXYSQL FLUSH PASSTHROUGH_AUTH_CACHE FOR USER 'pt_tls'");
            let mut client = RawClient::connect(&narrows.endpoint());
            client.start_tls(&tls_client(&ca, None)).expect("a handshake");
            client.login(&Login::new("pt_tls", "one").plugin(plugin)).expect(plugin);
            assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "{flavour:?} {plugin}");
        }
        // A password that is known need not be sent.
        tcp(&narrows, "caching_sha2_password").expect("it is verified without being sent");
        let narrows = start(&config(server.port()).variable("passthrough_auth_require_tls", "false"));
        if flavour == Flavour::MySql9 {
            // The one client here that encrypts passwords with a key that it asks for.
            let port = narrows.port().to_string();
            assert_eq!(command_line_over("tcp", "mysql", &port, ("pt_tls", "one")), "ok");
            assert!(command_line_over("tcp", "mysql", &port, ("pt_tls", "two")).contains("Access denied"));
            assert_eq!((asked(&narrows, "confirmed"), asked(&narrows, "refused")), (1, 1));
        }
        server.execute(&["DROP USER pt_tls@'%'"]);
    }
}

#[test]
fn rows_with_an_empty_password_and_templates_give_accounts_their_settings() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE USER IF NOT EXISTS pt_row@'%' IDENTIFIED BY 'one', 'ann@tenant_7'@'%' IDENTIFIED BY 'one', \
         'ann@tenants'@'%' IDENTIFIED BY 'one', pt_none@'%'",
        "CREATE DATABASE IF NOT EXISTS pt_tenants",
        "GRANT ALL ON pt_tenants.* TO 'ann@tenant_7'@'%'",
    ]);
    let like = r#"attributes="{\"usernames_like\":\"%@tenant\\\\_%\"}" default_hostgroup=7"#;
    let config = patient(NarrowsConfig::new().server(0, server.port(), ""))
        .server(7, server.port(), "")
        .user("pt_row", "", "max_connections=1")
        .user("pt_none", "", "")
        .user("tenants", "", &format!("{like} default_schema=\"pt_tenants\" max_connections=1"))
        .variable("passthrough_auth_enabled", "true");
    let narrows = start(&config.clone().variable("passthrough_auth_unknown_users", "true"));
    let client = log_in(&narrows, "pt_row", "one").expect("the server knows it");
    assert_eq!(refusal(&narrows, "pt_row", "one").0, 1226);
    drop(client);
    assert_eq!(refusal(&narrows, "pt_row", "").0, 1045, "an empty password is one that the server refuses");
    assert_eq!(
        refusal(&narrows, "pt_none", "one").0,
        1045,
        "the password of the row is not tried in its place"
    );
    log_in(&narrows, "pt_none", "").expect("the server has no password for it");
    assert_eq!(refusal(&narrows, "tenants", "").0, 1045, "a template is no account");
    let mut client = log_in(&narrows, "ann@tenant_7", "one").expect("the server knows it");
    assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("pt_tenants"));
    let hostgroups =
        "SELECT DISTINCT hostgroup FROM stats_mysql_query_digest WHERE username = 'ann@tenant_7'";
    assert_eq!(narrows.admin().query(hostgroups).cell().as_deref(), Some("7"));
    let mut other = log_in(&narrows, "ann@tenants", "one").expect("the server knows it");
    assert_eq!(other.query("SELECT DATABASE()").cell(), None);
    // COM_CHANGE_USER asks, too.
    other.change_user(&Login::new("pt_row", "one")).expect("the server knows it");
    assert_eq!(other.query("SELECT CURRENT_USER()").cell().as_deref(), Some("pt_row@%"));
    assert_eq!(other.change_user(&Login::new("ann@tenant_7", "two")).expect_err("wrong").code, 1045);

    let narrows = start(&config);
    log_in(&narrows, "pt_row", "one").expect("the server knows it");
    let asked_before = asked(&narrows, "refused");
    assert_eq!(refusal(&narrows, "ann@tenants", "one").0, 1045, "passthrough_auth_unknown_users is off");
    assert_eq!(asked(&narrows, "refused"), asked_before, "no server was asked");
    let log = narrows.log();
    assert!(log.contains("usernames_like` has no effect"), "{log}");
}

#[test]
fn a_name_that_an_administrator_has_switched_off_is_looked_for_nowhere() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS pt_off@'%' IDENTIFIED BY 'one'"]);
    let config = config(server.port()).supervised();
    let config = config.variable("auth_query", "SELECT '' AS password FROM dual WHERE ? = 'pt_off'");
    let narrows =
        start(&config.variable("auth_query_username", "pt_off").variable("auth_query_password", "one"));
    let mut admin = narrows.admin();
    for (change, may_log_in) in [
        ("INSERT INTO mysql_users (username, password, active) VALUES ('pt_off', '', 0)", false),
        ("UPDATE mysql_users SET active = 1, frontend = 0", false),
        ("UPDATE mysql_users SET active = 0, frontend = 1", false),
        ("DELETE FROM mysql_users", true),
        ("INSERT INTO mysql_users (username, password, active) VALUES ('pt_off', 'x', 0)", false),
    ] {
        for statement in [change, "LOAD MYSQL USERS TO RUNTIME", "PROXYSQL FLUSH PASSTHROUGH_AUTH_CACHE"] {
            assert_eq!(admin.query(statement).error(), None, "{statement}");
        }
        assert_eq!(log_in(&narrows, "pt_off", "").is_ok(), may_log_in, "{change}");
        assert!(log_in(&narrows, "pt_off", "x").is_err(), "{change}");
    }
    // The next process knows it, too.
    kill(narrows.worker());
    wait_until("the next process serves", || {
        let mut client = RawClient::try_connect(&Endpoint::Unix(narrows.socket()));
        client.as_mut().is_ok_and(|client| client.greeting().is_ok())
    });
    assert_eq!(refusal(&narrows, "pt_off", "").0, 1045);
}

#[test]
fn a_mysql_users_row_goes_on_without_a_password_where_pass_through_is_off() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS pt_open@'%'"]);
    let config = NarrowsConfig::new().server(0, server.port(), "").user("pt_open", "", "");
    let narrows = start(&config);
    let mut client = RawClient::open(&Endpoint::Unix(narrows.socket()), &Login::new("pt_open", ""));
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}
