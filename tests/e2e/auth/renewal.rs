//! Keys and certificates whose files change while Narrows runs, keys with a passphrase, and certificates that expire.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use narrows_testkit::{
    Authority, Certificate, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions,
    TempFolder, TlsClient, Validity, tls_client, wait_until,
};

fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("writing");
    fs::rename(&beside, path).expect("renaming");
}

/// A Narrows with this pair in its folder.
fn start_with(config: &NarrowsConfig, pair: &Certificate) -> Narrows {
    Narrows::start_prepared(env!("CARGO_BIN_EXE_narrows"), config, |path| {
        fs::write(path.join("proxysql-cert.pem"), &pair.certificate).expect("a new folder");
        fs::write(path.join("proxysql-key.pem"), &pair.key).expect("a new folder");
    })
}

fn mariadb() -> NarrowsConfig {
    NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
}

/// The certificate that a new client is shown.
fn shown(narrows: &Narrows, trust: &Arc<TlsClient>) -> Vec<u8> {
    let client = RawClient::open_tls(&narrows.endpoint(), trust, &Login::new("sbtest", "sbtest"));
    client.server_certificate().expect("TLS")
}

#[test]
fn a_new_pair_is_in_force_when_both_files_are_there_and_half_of_one_never_is() {
    let authority = Authority::new("of clients");
    let pair = |name: &str| authority.issue(name, &["127.0.0.1", "localhost"], Validity::Current);
    let [old, new] = ["old", "new"].map(pair);
    let narrows = start_with(&mariadb(), &old);
    let trust = tls_client(authority.pem(), None);
    let first = shown(&narrows, &trust);
    let mut before = RawClient::open_tls(&narrows.endpoint(), &trust, &Login::new("sbtest", "sbtest"));
    write(&narrows.folder().join("proxysql-cert.pem"), &new.certificate);
    let told = "keys and certificates have changed; those before stay in force";
    narrows.wait_for_log(0, |log| log.contains(told));
    assert_eq!(shown(&narrows, &trust), first, "half of a pair");
    write(&narrows.folder().join("proxysql-key.pem"), &new.key);
    wait_until("the new pair is shown", || shown(&narrows, &trust) != first);
    assert_eq!(narrows.log().matches(told).count(), 1);
    assert_eq!(narrows.log().matches("keys and certificates have changed, and are in force").count(), 1);
    assert_eq!(before.query("SELECT 1").cell().as_deref(), Some("1"), "who is there stays");
    // Both gone is no reason to make a pair of its own.
    for name in ["proxysql-cert.pem", "proxysql-key.pem"] {
        fs::remove_file(narrows.folder().join(name)).expect("removing");
    }
    let second = shown(&narrows, &trust);
    wait_until("the log has it", || narrows.log().matches(told).count() == 2);
    assert_eq!(shown(&narrows, &trust), second);
    assert!(!narrows.folder().join("proxysql-cert.pem").exists());
}

#[test]
fn files_that_do_not_fit_do_not_keep_the_next_process_from_serving() {
    let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &mariadb().supervised());
    let file = |name: &str| narrows.data_file(name);
    let trust =
        tls_client(&fs::read_to_string(file("proxysql-ca.pem")).expect("made at the first start"), None);
    let first = shown(&narrows, &trust);
    let own = fs::read_to_string(file("proxysql-key.pem")).expect("made at the first start");
    let other = Authority::new("of others").issue("other", &["127.0.0.1"], Validity::Current);
    write(&file("proxysql-key.pem"), &other.key);
    narrows.wait_for_log(0, |log| log.contains("those before stay in force"));
    narrows_testkit::kill(narrows.worker());
    narrows.wait_for_log(0, |log| log.contains("clients are served without TLS until its files can be used"));
    assert_eq!(narrows.client().query("SELECT 1").cell().as_deref(), Some("1"));
    write(&file("proxysql-key.pem"), &own);
    narrows.wait_for_log(0, |log| log.contains("keys and certificates have changed, and are in force"));
    assert_eq!(shown(&narrows, &trust), first);
}

#[test]
fn authorities_of_servers_are_read_again_and_a_damaged_file_changes_nothing() {
    let [old, new] = ["old", "new"].map(Authority::new);
    let folder = TempFolder::new("renewal");
    let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| folder.file(name));
    let pair = new.issue("db", &["127.0.0.1"], Validity::Current);
    write(&cert, &pair.certificate);
    write(&key, &pair.key);
    write(&ca, old.pem());
    let server = ServerOptions::new(Flavour::MariaDb)
        .option(&format!("--ssl-cert={}", cert.display()))
        .option(&format!("--ssl-key={}", key.display()))
        .start();
    let config = NarrowsConfig::new()
        .server(0, server.port(), "use_ssl=1")
        .user("sbtest", "sbtest", "")
        .variable("ssl_p2s_ca", &ca.display().to_string())
        .variable("free_connections_pct", "0")
        .variable("shun_on_failures", "1000000")
        .variable("connect_timeout_server_max", "1000");
    let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let answers = || narrows.client().query("SELECT 1").error().is_none();
    assert!(!answers(), "its authority is not trusted");
    write(&ca, new.pem());
    wait_until("the authority is trusted", answers);
    write(&ca, "no certificate");
    narrows.wait_for_log(0, |log| log.contains("those before stay in force: ") && log.contains("ca.pem"));
    assert!(answers());
}

#[test]
fn an_encrypted_key_needs_its_passphrase_which_may_be_kept_elsewhere() {
    let authority = Authority::new("of clients");
    let mut pair = authority.issue("with a passphrase", &["127.0.0.1", "localhost"], Validity::Current);
    let folder = TempFolder::new("renewal");
    let [plain, encrypted, passphrase] = ["plain", "encrypted", "passphrase"].map(|name| folder.file(name));
    write(&plain, &pair.key);
    write(&passphrase, "of-the-key\n");
    let made = Command::new("openssl")
        .args(["pkcs8", "-topk8", "-passout", "pass:of-the-key", "-in"])
        .arg(&plain)
        .arg("-out")
        .arg(&encrypted)
        .status();
    assert!(made.is_ok_and(|status| status.success()), "openssl encrypts the key");
    pair.key = fs::read_to_string(&encrypted).expect("made");
    let config = mariadb().variable("ssl_key_passphrase", &format!("file:{}", passphrase.display()));
    let narrows = start_with(&config, &pair);
    shown(&narrows, &tls_client(authority.pem(), None));
    let mut admin = narrows.admin();
    for statement in ["SET mysql-ssl_key_passphrase='another'", "LOAD MYSQL VARIABLES TO RUNTIME"] {
        assert!(admin.query(statement).ok().is_some());
    }
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    let told = |row: &Vec<Option<String>>| {
        row.iter().flatten().any(|cell| cell.contains("the passphrase of mysql-ssl_key_passphrase is wrong"))
    };
    assert!(warnings.iter().any(told), "{warnings:?}");
    shown(&narrows, &tls_client(authority.pem(), None));
}

#[test]
fn a_certificate_that_has_expired_is_told_of_once() {
    let pair = Authority::new("of clients").issue("of yesterday", &["127.0.0.1"], Validity::Expired);
    let narrows = start_with(&mariadb(), &pair);
    let told = "server certificate \"CN=of yesterday\" of";
    narrows.wait_for_log(0, |log| log.contains(told));
    let metrics = narrows.admin().query("SHOW PROMETHEUS METRICS").packets;
    let text: String = metrics.iter().map(|it| String::from_utf8_lossy(&it.payload).into_owned()).collect();
    assert!(text.contains("narrows_tls_certificate_expiry_timestamp_seconds{role=\"server certificate\""));
    assert_eq!(narrows.log().matches(told).count(), 1);
}
