//! Logins to an etcd with TLS: with a user and a password, and with a client certificate.

use std::fs;
use std::process::{Command, Stdio};

use narrows_testkit::{
    Authority, Certificate, Conversation, EtcdCluster, FakeMysql, Move, Narrows, NarrowsConfig, Process,
    TempFolder, Validity, free_port, wait_until,
};

use super::{change_surely, etcd_trouble, start_member, tags, texts};

/// An etcd of one node, for clients with TLS.
struct SecuredEtcd {
    authority: Authority,
    folder: TempFolder,
    port: u16,
    _process: Process,
}

impl SecuredEtcd {
    /// Starts one; `None`: etcd is not installed. Its certificate has no common name, as etcd wants it for its gateway.
    fn start(asks_for_certificates: bool) -> Option<SecuredEtcd> {
        if !EtcdCluster::is_there() {
            return None;
        }
        let (authority, folder) = (Authority::new("the authority of etcd"), TempFolder::new("etcd"));
        let (port, peer_port) = (free_port(), free_port());
        fs::write(folder.file("ca.pem"), authority.pem()).expect("a file");
        let own = authority.issue("", &["127.0.0.1", "localhost"], Validity::Current);
        let [certificate, key] = write(&folder, "server", &own);
        let log = fs::File::create(folder.file("log")).expect("a log");
        let (client, peer) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let mut command = Command::new("etcd");
        command.args(["--name", "a", "--data-dir"]).arg(folder.file("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("a={peer}"), "--unsafe-no-fsync", "--logger", "zap"]);
        command.args(["--cert-file", &certificate, "--key-file", &key]);
        if asks_for_certificates {
            command.args(["--client-cert-auth", "--trusted-ca-file"]).arg(folder.file("ca.pem"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process::spawn(command).expect("etcd can be started");
        let etcd = SecuredEtcd { authority, folder, port, _process: process };
        wait_until("etcd serves", || etcd.control(&["get", "x"]));
        Some(etcd)
    }

    /// Runs `etcdctl`, which shows a certificate in any case; returns whether it has succeeded.
    fn control(&self, arguments: &[&str]) -> bool {
        let file = |name: &str| self.folder.file(name).display().to_string();
        let mut command = Command::new("etcdctl");
        command.args([
            "--endpoints",
            &format!("https://127.0.0.1:{}", self.port),
            "--cacert",
            &file("ca.pem"),
        ]);
        command.args(["--cert", &file("server.pem"), "--key", &file("server.key")]);
        command.args(["--dial-timeout", "30s", "--command-timeout", "30s"]).args(arguments);
        let output = command.env("ETCDCTL_API", "3").stdin(Stdio::null()).output().expect("etcdctl runs");
        output.status.success()
    }

    /// Makes it ask for users: `narrows`, whose password is `one`, may use the usual prefix.
    fn ask_for_users(&self) {
        for arguments in [
            &["user", "add", "root:secret"][..],
            &["user", "add", "narrows:one"],
            &["role", "add", "fleet"],
            &["role", "grant-permission", "fleet", "readwrite", "--prefix=true", "/narrows/"],
            &["user", "grant-role", "narrows", "fleet"],
            &["user", "grant-role", "root", "root"],
            &["auth", "enable"],
        ] {
            assert!(self.control(arguments), "{arguments:?}");
        }
    }

    /// A member with these settings.
    fn member(&self, node: &str, settings: &str, config: &NarrowsConfig) -> Narrows {
        let ca = self.folder.file("ca.pem").display().to_string();
        let settings = format!(
            "endpoints = \"https://127.0.0.1:{}\" node = \"{node}\" tls_ca = \"{ca}\" {settings}",
            self.port
        );
        start_member(&settings, "", config)
    }
}

fn write(folder: &TempFolder, name: &str, certificate: &Certificate) -> [String; 2] {
    let path = |ending: &str| folder.file(&format!("{name}.{ending}"));
    fs::write(path("pem"), &certificate.certificate).expect("a file");
    fs::write(path("key"), &certificate.key).expect("a file");
    ["pem", "key"].map(|ending| path(ending).display().to_string())
}

/// A change on one member reaches the other.
fn assert_they_are_a_fleet(members: &[Narrows]) {
    for member in members {
        let mut admin = member.admin();
        wait_until("a member has reached etcd", || etcd_trouble(&mut admin).is_none());
    }
    change_surely(&mut members[0].admin(), "first");
    for member in members {
        let mut admin = member.admin();
        wait_until("all run it", || tags(&mut admin) == ["first"; 4]);
    }
}

/// Waits until a member says that of etcd, and makes sure that it serves clients all the same.
fn assert_trouble(member: &Narrows, part: &str) {
    let mut admin = member.admin();
    let mut last = Vec::new();
    wait_until(part, || {
        last = texts(admin.query("SHOW NARROWS FLEET").text_rows());
        last.len() == 1 && last[0][9].contains(part)
    });
    assert!(member.client().query("SELECT 1").error().is_none());
}

fn server() -> (FakeMysql, NarrowsConfig) {
    let server = FakeMysql::start(Conversation::new().on("SELECT 1", &[Move::rows("1", &["1"])]));
    let config = NarrowsConfig::in_front_of(server.port());
    (server, config)
}

#[test]
fn a_user_and_a_password_open_an_etcd_that_asks_for_them_and_see_only_the_prefix() {
    let Some(etcd) = SecuredEtcd::start(false) else { return };
    etcd.ask_for_users();
    let (_server, config) = server();
    let password = etcd.folder.file("password");
    fs::write(&password, "one\n").expect("a file");
    let by_file = format!("username = \"narrows\" password_file = \"{}\"", password.display());
    let by_reference = |name: &str, reference: &str| {
        let login = format!("username = \"narrows\" password = \"{reference}\"");
        etcd.member(name, &login, &config)
    };
    let members = [by_reference("a", "one"), etcd.member("b", &by_file, &config)];
    assert_they_are_a_fleet(&members);
    for (name, kind) in [("f", "file:"), ("g", "exec:/bin/cat ")] {
        let member = by_reference(name, &format!("{kind}{}", password.display()));
        wait_until("it has reached etcd", || etcd_trouble(&mut member.admin()).is_none());
    }
    assert_trouble(
        &by_reference("h", "env:NARROWS_NO_SUCH"),
        "fleet.password: the environment variable NARROWS_NO_SUCH is not set",
    );
    let wrong = etcd.member("c", "username = \"narrows\" password = \"two\"", &config);
    assert_trouble(&wrong, "etcd refuses the user narrows: ");
    assert_trouble(&etcd.member("d", "", &config), "user name is empty");
    let elsewhere = "username = \"narrows\" password = \"one\" prefix = \"/other\"";
    assert_trouble(&etcd.member("e", elsewhere, &config), "permission denied");
    // A password that changes is read again from its file.
    assert!(etcd.control(&["--user", "root:secret", "user", "delete", "narrows"]));
    assert_trouble_of_two(&members);
    let with_root = |arguments: &[&str]| etcd.control(&[&["--user", "root:secret"][..], arguments].concat());
    assert!(
        with_root(&["user", "add", "narrows:three"])
            && with_root(&["user", "grant-role", "narrows", "fleet"])
    );
    fs::write(&password, "three\n").expect("a file");
    let mut admin = members[1].admin();
    wait_until("the member with the file is back", || etcd_trouble(&mut admin).is_none());
}

fn assert_trouble_of_two(members: &[Narrows]) {
    for member in members {
        let mut admin = member.admin();
        wait_until("its user is gone", || etcd_trouble(&mut admin).is_some());
    }
}

#[test]
fn a_client_certificate_opens_an_etcd_that_asks_for_one() {
    let Some(etcd) = SecuredEtcd::start(true) else { return };
    let (_server, config) = server();
    let shown = |name: &str, authority: &Authority, common_name: &str| {
        let [certificate, key] =
            write(&etcd.folder, name, &authority.issue(common_name, &["127.0.0.1"], Validity::Current));
        format!("tls_cert = \"{certificate}\" tls_key = \"{key}\"")
    };
    let good = shown("good", &etcd.authority, "");
    let members = [etcd.member("a", &good, &config), etcd.member("b", &good, &config)];
    assert_they_are_a_fleet(&members);
    // Without a certificate, or with one of another authority, there is no connection.
    assert_trouble(&etcd.member("d", "", &config), "https://127.0.0.1:");
    let foreign = shown("foreign", &Authority::new("another"), "");
    assert_trouble(&etcd.member("e", &foreign, &config), "https://127.0.0.1:");
    // With users, too, the certificate must have no common name.
    etcd.ask_for_users();
    let login = "username = \"narrows\" password = \"one\"";
    let both = etcd.member("g", &format!("{good} {login}"), &config);
    wait_until("it has both", || etcd_trouble(&mut both.admin()).is_none());
    let named = shown("named", &etcd.authority, "narrows");
    assert_trouble(&etcd.member("c", &format!("{named} {login}"), &config), "CommonName");
    // An etcd of another authority is not spoken to.
    let other = Authority::new("another");
    fs::write(etcd.folder.file("ca.pem"), other.pem()).expect("a file");
    assert_trouble(&etcd.member("f", &good, &config), "certificate");
}
