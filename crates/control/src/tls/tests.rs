use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_first_start_makes_what_there_is_not_and_the_next_one_uses_it() {
    let folder = folder();
    let first = load(folder.path(), &Values::default(), &[], &Secrets::default()).expect("made");
    assert_eq!(first.remarks, Vec::<String>::new());
    assert!(first.tls.clients.is_some() && first.tls.key_pair.is_some());
    let second = load(folder.path(), &Values::default(), &[], &Secrets::default()).expect("read");
    assert_eq!(first.tls.certificates, second.tls.certificates);
    let roles: Vec<_> = second.tls.certificates.iter().map(|one| (one.role, one.subject.as_str())).collect();
    assert_eq!(
        roles,
        [
            ("server certificate", "CN=Narrows server certificate"),
            ("authority of clients", "CN=Narrows authority of the first start")
        ]
    );
    let pem = |tls: &Tls| tls.key_pair.as_ref().expect("made").public_pem();
    assert_eq!(pem(&first.tls), pem(&second.tls));
    assert_eq!(*pem(&first.tls), *std::fs::read(folder.path().join("public_key.pem")).expect("kept"));
}

#[test]
fn private_keys_are_their_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    load(folder.path(), &Values::default(), &[], &Secrets::default()).expect("made");
    for name in ["proxysql-key.pem", "private_key.pem"] {
        let mode = std::fs::metadata(folder.path().join(name)).expect("kept").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn what_is_there_and_cannot_be_used_is_said() {
    let folder = folder();
    load(folder.path(), &Values::default(), &[], &Secrets::default()).expect("made");
    let key = folder.path().join("proxysql-key.pem");
    let good = std::fs::read(&key).expect("kept");
    let error = |content: Option<&[u8]>| {
        match content {
            Some(content) => std::fs::write(&key, content).expect("written"),
            None => std::fs::remove_file(&key).expect("removed"),
        }
        load(folder.path(), &Values::default(), &[], &Secrets::default()).expect_err("of no use").to_string()
    };
    assert!(error(Some(b"nothing")).contains("proxysql-key.pem: no private key"));
    let other = generate::certificates(true).expect("made");
    assert!(error(Some(other.key.as_bytes())).contains("proxysql-cert.pem"));
    assert!(error(None).contains("proxysql-key.pem is not"));
    std::fs::write(&key, good).expect("written");
    assert!(load(folder.path(), &Values::default(), &[], &Secrets::default()).is_ok());
}

#[test]
fn a_folder_that_cannot_be_written_to_costs_a_remark() {
    let folder = folder();
    let loaded =
        load(&folder.path().join("missing"), &Values::default(), &[], &Secrets::default()).expect("made");
    assert!(loaded.tls.clients.is_some() && loaded.tls.key_pair.is_some());
    assert!(loaded.remarks.iter().all(|remark| remark.contains("is not kept")), "{:?}", loaded.remarks);
    assert_eq!(loaded.remarks.len(), 5);
}

#[test]
fn rows_of_servers_go_before_the_variables_and_say_what_is_wrong() {
    let folder = folder();
    let row = |username: &str, ssl_ca: &str| SslParamsRow {
        hostname: "db".to_owned(),
        port: 3306,
        username: username.to_owned(),
        ssl_ca: ssl_ca.to_owned(),
        ..SslParamsRow::default()
    };
    let loaded = load(
        folder.path(),
        &Values::default(),
        &[row("", ""), row("ann", "/nowhere/ca.pem")],
        &Secrets::default(),
    )
    .expect("made");
    let servers = &loaded.tls.servers;
    let default = servers.toward("other", 3306, "ann").expect("usable");
    let row = servers.toward("db", 3306, "bob").expect("usable");
    assert!(!Arc::ptr_eq(&default.config, &row.config));
    // Without an authority, a server's identity is not verified.
    assert!(!default.verifies && !row.verifies);
    assert!(
        servers.toward("db", 3306, "ann").expect_err("no file").starts_with("/nowhere/ca.pem: No such file")
    );
    assert!(loaded.remarks.iter().any(|remark| remark.contains("mysql_servers_ssl_params of db:3306")));
}

/// One RSA key in several forms, made by OpenSSL; the passphrase is `of-key`.
fn key_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/keys").join(name)
}

fn passphrase(text: Option<&str>) -> Passphrase<'_> {
    Passphrase { variable: "mysql-ssl_key_passphrase", text }
}

#[test]
fn keys_of_every_form_are_one_key() {
    let modulus = |name: &str, text| {
        let key = keys::rsa_key(&key_file(name), passphrase(text)).expect(name);
        generate::public_pem(&key).expect("its public key")
    };
    let plain = modulus("pkcs8.pem", Some(""));
    assert_eq!(modulus("pkcs1.pem", Some("")), plain);
    assert_eq!(modulus("encrypted.pem", Some("of-key")), plain);
    assert_eq!(modulus("encrypted_scrypt.pem", Some("of-key")), plain);
}

#[test]
fn a_key_that_cannot_be_decrypted_says_why() {
    let why = |name: &str, text| keys::key(&key_file(name), passphrase(text)).expect_err(name).to_string();
    assert!(why("encrypted.pem", Some("")).ends_with("mysql-ssl_key_passphrase has no passphrase"));
    assert!(why("encrypted.pem", None).ends_with("of mysql-ssl_key_passphrase is not known"));
    assert!(
        why("encrypted.pem", Some("other")).contains("the passphrase of mysql-ssl_key_passphrase is wrong")
    );
    assert!(why("encrypted_3des.pem", Some("of-key")).contains("or its cipher is not supported"));
    assert!(why("encrypted_old.pem", Some("of-key")).contains("openssl pkcs8 -topk8 -in "));
}

#[test]
fn every_file_that_was_read_is_watched() {
    let folder = folder();
    let authorities = folder.path().join("authorities");
    std::fs::create_dir(&authorities).expect("made");
    let made = generate::certificates(true).expect("made");
    std::fs::write(authorities.join("one.pem"), made.ca.expect("one")).expect("written");
    std::fs::write(authorities.join("README"), "none").expect("written");
    let row = SslParamsRow {
        ssl_capath: authorities.display().to_string(),
        ssl_cert: "/nowhere/cert.pem".to_owned(),
        ..SslParamsRow::default()
    };
    let loaded = load(folder.path(), &Values::default(), &[row], &Secrets::default()).expect("made");
    let names: Vec<(String, bool)> =
        loaded.read.iter().map(|(path, mark)| (path.display().to_string(), mark.is_some())).collect();
    for name in
        ["proxysql-ca.pem", "proxysql-cert.pem", "proxysql-key.pem", "private_key.pem", "public_key.pem"]
    {
        let path = folder.path().join(name).display().to_string();
        assert!(names.contains(&(path, true)), "{names:?}");
    }
    let of_row = |name: &str| (authorities.join(name).display().to_string(), true);
    assert!(names.contains(&of_row("one.pem")) && names.contains(&(authorities.display().to_string(), true)));
    assert!(!names.contains(&of_row("README")) && names.contains(&("/nowhere/cert.pem".to_owned(), false)));
}
