//! Passwords that the configuration only refers to: in the environment, in files, and from programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use narrows_testkit::{
    Flavour, KEPT_MARK as MARK, Login, Narrows, NarrowsConfig, RawClient, RealServer, TYPED_MARK, TempFolder,
    wait_until,
};

use crate::support::start;

fn account(server: &RealServer, user: &str, password: &str) {
    server.execute(&[
        &format!("CREATE USER IF NOT EXISTS {user}@'%'"),
        &format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"),
        &format!("GRANT ALL ON *.* TO {user}@'%'"),
    ]);
}

/// Whether a client can log in and have a statement run on a server.
fn serves(narrows: &Narrows, user: &str, password: &str) -> bool {
    let mut client = RawClient::connect(&narrows.endpoint());
    let logged_in = client.login(&Login::new(user, password)).is_ok();
    logged_in && client.query("SELECT CURRENT_USER()").cell().is_some_and(|it| it.starts_with(user))
}

fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("writing");
    fs::rename(&beside, path).expect("renaming");
}

/// A program that prints what the file `answer` in `folder` has.
fn program(folder: &TempFolder) -> PathBuf {
    let path = folder.file("program");
    let script =
        format!("#!/bin/sh\ncat {}\necho complaint of {MARK} >&2\n", folder.file("answer").display());
    fs::write(&path, script).expect("writing");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("making it executable");
    path
}

fn of_file(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// The three accounts, and a user of the admin interface and the monitor, whose passwords are nowhere in the configuration.
fn narrows(server: &RealServer, folder: &TempFolder) -> Narrows {
    for (user, password) in accounts() {
        account(server, &user, &password);
    }
    write(&folder.file("password"), &format!("{MARK}-file\n"));
    write(&folder.file("second"), &format!("{MARK}-second"));
    write(&folder.file("answer"), &format!("{MARK}-exec"));
    write(&folder.file("boss"), &format!("{MARK}-boss"));
    let second =
        format!(r#"attributes="{{\"additional_password\":\"{}\"}}""#, of_file(&folder.file("second")));
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user("kept_env", "env:NARROWS_TEST_PASSWORD", "")
        .user("kept_file", &of_file(&folder.file("password")), &second)
        .user("kept_exec", &format!("exec:{} x", program(folder).display()), "")
        .user("kept_plain", "plain:env:x", "")
        .variable("monitor_password", &of_file(&folder.file("second")))
        .environment("NARROWS_TEST_PASSWORD", &format!("{MARK}-env"))
        .environment("NARROWS_LOG", "trace");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let boss = of_file(&folder.file("boss"));
    for statement in [
        &format!("SET admin-admin_credentials='admin:admin;boss:{boss}'"),
        "SET admin-exec_secrets_interval=1",
        "LOAD ADMIN VARIABLES TO RUNTIME",
        "SAVE ADMIN VARIABLES TO DISK",
        "SAVE MYSQL USERS TO DISK",
    ] {
        let answer = admin.query(statement);
        assert!(answer.ok().is_some(), "{statement}: {:?}", answer.error());
    }
    narrows
}

fn accounts() -> [(String, String); 4] {
    let of = |user: &str, password: &str| (user.to_owned(), password.to_owned());
    [
        of("kept_env", &format!("{MARK}-env")),
        of("kept_file", &format!("{MARK}-file")),
        of("kept_exec", &format!("{MARK}-exec")),
        of("kept_plain", "env:x"),
    ]
}

#[test]
fn a_password_of_every_source_lets_clients_in_and_narrows_into_servers() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let folder = TempFolder::new("kept");
        let narrows = narrows(server, &folder);
        for (user, password) in accounts() {
            assert!(serves(&narrows, &user, &password), "{user}");
            assert!(!serves(&narrows, &user, "another"), "{user}");
        }
        for reference in ["env:NARROWS_TEST_PASSWORD", &of_file(&folder.file("password")), "plain:env:x"] {
            assert!(!serves(&narrows, "kept_env", reference) && !serves(&narrows, "kept_file", reference));
        }
        let boss = Login::new("boss", &format!("{MARK}-boss"));
        let mut admin = RawClient::open(&narrows.admin_endpoint(), &boss);
        let shown = "SELECT password FROM mysql_users WHERE username = 'kept_file' UNION ALL \
                     SELECT DISTINCT password FROM runtime_mysql_users WHERE username = 'kept_file'";
        let rows = admin.query(shown).text_rows();
        let reference = Some(of_file(&folder.file("password")));
        assert_eq!(rows, [[reference.clone()], [reference]]);
    }
}

#[test]
fn what_has_changed_where_it_is_kept_is_in_force_without_a_load() {
    let server = RealServer::shared(Flavour::MariaDb);
    let folder = TempFolder::new("kept");
    let narrows = narrows(server, &folder);
    assert!(serves(&narrows, "kept_file", &format!("{MARK}-file")));
    account(server, "kept_file", &format!("{MARK}-file2"));
    account(server, "kept_exec", &format!("{MARK}-exec2"));
    let skipped = narrows.log().len();
    write(&folder.file("password"), &format!("{MARK}-file2\n"));
    write(&folder.file("answer"), &format!("{MARK}-exec2"));
    write(&folder.file("boss"), &format!("{MARK}-boss2"));
    wait_until("the account has the new password of its file", || {
        serves(&narrows, "kept_file", &format!("{MARK}-file2"))
    });
    assert!(!serves(&narrows, "kept_file", &format!("{MARK}-file")));
    wait_until("the account has the new password of its program", || {
        serves(&narrows, "kept_exec", &format!("{MARK}-exec2"))
    });
    wait_until("the administrator has the new password", || {
        let mut client = RawClient::connect(&narrows.admin_endpoint());
        client.login(&Login::new("boss", &format!("{MARK}-boss2"))).is_ok()
    });
    narrows.wait_for_log(skipped, |log| {
        log.contains(
            "another password is in force, as where it is kept: mysql_users username='kept_file': password",
        )
    });
    fs::remove_file(folder.file("password")).expect("removing");
    narrows.wait_for_log(skipped, |log| {
        log.contains("is not there: the password that was read before stays in force")
    });
    assert!(serves(&narrows, "kept_file", &format!("{MARK}-file2")));
}

#[test]
fn what_cannot_be_looked_up_is_refused_by_a_load_and_closes_one_account_at_a_start() {
    let server = RealServer::shared(Flavour::MariaDb);
    account(server, "kept_late", &format!("{MARK}-late"));
    account(server, "kept_other", &format!("{TYPED_MARK}-other"));
    let folder = TempFolder::new("kept");
    let reference = of_file(&folder.file("late"));
    let narrows =
        start(&NarrowsConfig::new().server(0, server.port(), "").user("kept_late", &reference, "").user(
            "kept_other",
            &format!("{TYPED_MARK}-other"),
            "",
        ));
    let path = folder.file("late");
    let told =
        format!("mysql_users username='kept_late': password: the file {} is not there", path.display());
    assert!(narrows.log().contains(&format!("{told}: no login with it succeeds until it can be looked up")));
    assert!(serves(&narrows, "kept_other", &format!("{TYPED_MARK}-other")));
    for password in ["", &reference, &format!("{MARK}-late")] {
        assert!(!serves(&narrows, "kept_late", password));
    }
    let mut admin = narrows.admin();
    let refused = admin.query("LOAD MYSQL USERS TO RUNTIME").error().expect("refused").message;
    assert_eq!(refused, format!("ProxySQL Admin Error: {told}"));
    assert!(
        admin.query("LOAD MYSQL SERVERS TO RUNTIME").ok().is_some(),
        "it has nothing to do with accounts"
    );
    assert!(
        admin
            .query("LOAD MYSQL USER 'kept_other' TO RUNTIME")
            .error()
            .is_none_or(|it| !it.message.contains(&told))
    );
    write(&path, &format!("{MARK}-late"));
    wait_until("the account is open", || serves(&narrows, "kept_late", &format!("{MARK}-late")));
    assert!(admin.query("LOAD MYSQL USERS TO RUNTIME").ok().is_some());
    for (password, why) in [
        ("file:late", "it begins with file: and names no absolute path"),
        ("exec:/bin/false", "the program /bin/false has failed: exit status 1"),
        ("env:NO_SUCH", "the environment variable NO_SUCH is not set"),
    ] {
        admin.query(format!("UPDATE mysql_users SET password = '{password}' WHERE username = 'kept_other'"));
        let error = admin.query("LOAD MYSQL USERS TO RUNTIME").error().expect("refused").message;
        assert!(
            error.contains("mysql_users username='kept_other': password: ") && error.contains(why),
            "{error}"
        );
    }
    assert!(serves(&narrows, "kept_other", &format!("{TYPED_MARK}-other")), "what ran still runs");
}

#[test]
fn no_login_fails_while_passwords_rotate() {
    Flavour::MySql9.if_tested(|flavour| {
        let server = RealServer::shared(flavour);
        let [old, new] = [format!("{MARK}-old"), format!("{MARK}-new")];
        account(server, "kept_rotated", &old);
        let folder = TempFolder::new("kept");
        let [first, second] = ["first", "second"].map(|name| folder.file(name));
        write(&first, &old);
        write(&second, &new);
        let more = format!(r#"attributes="{{\"additional_password\":\"{}\"}}""#, of_file(&second));
        let narrows = start(&NarrowsConfig::new().server(0, server.port(), "").user(
            "kept_rotated",
            &of_file(&first),
            &more,
        ));
        let (done, logins) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert!(serves(&narrows, "kept_rotated", &old), "a login with the old password");
                        logins.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let more_logins = |count: usize| {
                let before = logins.load(Ordering::Relaxed);
                wait_until("logins continue", || logins.load(Ordering::Relaxed) >= before + count);
            };
            more_logins(20);
            server.execute(&[&format!(
                "ALTER USER kept_rotated@'%' IDENTIFIED BY '{new}' RETAIN CURRENT PASSWORD"
            )]);
            more_logins(20);
            assert!(serves(&narrows, "kept_rotated", &new), "the new password");
            let renewals = || narrows.log().matches("another password is in force").count();
            write(&second, &format!("{old}\n"));
            wait_until("the second password is the old one", || renewals() == 1);
            more_logins(20);
            write(&first, &format!("{new}\n"));
            wait_until("the first password is the new one", || renewals() == 2);
            more_logins(20);
            done.store(true, Ordering::Relaxed);
        });
        assert!(serves(&narrows, "kept_rotated", &new) && serves(&narrows, "kept_rotated", &old));
    });
}

#[test]
fn a_connection_of_another_account_is_taken_over_with_either_password() {
    Flavour::MySql9.if_tested(|flavour| {
        let server = RealServer::shared(flavour);
        let [old, new] = [format!("{TYPED_MARK}-old"), format!("{TYPED_MARK}-new")];
        account(server, "kept_taker", &old);
        account(server, "kept_giver", &old);
        let second = format!(r#"attributes="{{\"additional_password\":\"{new}\"}}""#);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .user("kept_taker", &old, &second)
            .user("kept_giver", &old, "")
            .variable("threads", "1");
        let narrows = start(&config);
        let mut admin = narrows.admin();
        let mut changes = || {
            let rows = admin.query("SHOW MYSQL STATUS LIKE 'Com_backend_change_user'").text_rows();
            rows[0][1].as_ref().and_then(|text| text.parse::<u32>().ok()).expect("a number")
        };
        let [mut taker, mut giver] = ["kept_taker", "kept_giver"]
            .map(|user| RawClient::open(&narrows.endpoint(), &Login::new(user, &old)));
        let mut in_turn = || {
            for (client, user) in [(&mut giver, "kept_giver@%"), (&mut taker, "kept_taker@%")] {
                let answer = client.query("SELECT CURRENT_USER()");
                assert_eq!(answer.cell().as_deref(), Some(user), "{:?}", answer.error());
            }
        };
        in_turn();
        assert!(changes() > 0, "one connection serves both");
        server.execute(&[
            &format!("ALTER USER kept_taker@'%' IDENTIFIED BY '{new}' RETAIN CURRENT PASSWORD"),
            "ALTER USER kept_taker@'%' DISCARD OLD PASSWORD",
        ]);
        // The client has shown the old password, which is also the first one here.
        in_turn();
        // From now on the first one is the right one, and the client still has the old one.
        let more = format!(r#"{{"additional_password":"{old}"}}"#);
        let mut other = narrows.admin();
        for statement in [
            &format!("UPDATE mysql_users SET password = '{new}', attributes = '{more}' WHERE username = 'kept_taker'"),
            "LOAD MYSQL USERS TO RUNTIME",
        ] {
            assert!(other.query(statement).ok().is_some(), "{statement}");
        }
        let before = changes();
        in_turn();
        in_turn();
        assert!(changes() >= before + 3, "no connection was opened for it");
        let used = "SELECT 1 FROM stats_narrows_passwords WHERE username = 'kept_taker' AND servers_password = 2";
        assert!(!other.query(used).text_rows().is_empty());
        assert!(!narrows.log().contains("a server refuses an account"), "{}", narrows.log());
    });
}
