//! What ProxySQL tools and users expect of the admin port.

use std::process::{Command, Stdio};

use narrows_testkit::{Endpoint, capability};

use super::{narrows, rows};

#[test]
fn clients_that_compress_are_understood() {
    let (_server, narrows) = narrows();
    let mut client = narrows.admin();
    assert_ne!(client.greeting().expect("a greeting").capabilities & capability::COMPRESS, 0);
    let Endpoint::Tcp(address) = narrows.admin_endpoint() else { panic!("it listens on TCP") };
    for tls in ["--skip-ssl", "--ssl"] {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=admin", "--compress", tls])
            .args(["--skip-ssl-verify-server-cert", "--batch", "--skip-column-names"])
            .arg(format!("--port={}", address.port()))
            .args(["-e", "SELECT printf('%100000d', 7); SELECT 'the end'"])
            .env("MYSQL_PWD", "admin")
            .stdin(Stdio::null())
            .output()
            .expect("the client runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{tls}: {said}");
        assert_eq!((lines[0].trim_start_matches(' '), lines[1]), ("7", "the end"), "{tls}: {said}");
    }
}

#[test]
fn questions_of_tools_are_answered() {
    let (_server, narrows) = narrows();
    let (mut admin, mut stats) = (narrows.admin(), narrows.stats());
    let named = admin.query("SELECT DATABASE() AS name");
    assert_eq!(named.columns()[0].name, "name");
    assert_eq!(named.cell().as_deref(), Some("admin"));
    assert_eq!(stats.query("select database() as `name`").cell().as_deref(), Some("stats"));
    let metrics = stats.query("SHOW PROMETHEUS METRICS\\G").cell().expect("metrics");
    assert!(metrics.contains("proxysql_uptime_seconds_total"), "{metrics}");
}

#[test]
fn a_row_of_64_mib_is_an_answer() {
    let (_server, narrows) = narrows();
    let mut client = narrows.admin();
    let answer = client.query(format!("SELECT printf('%.*c', {}, 'x')", 64 << 20));
    assert!(answer.error().is_none(), "{:?}", answer.error());
    // Between the columns and the end: a row of several packets, which begins with its length in nine bytes.
    let packets = &answer.packets[3..answer.packets.len() - 1];
    assert_eq!(packets.len(), 5);
    assert_eq!(packets.iter().map(|packet| packet.payload.len()).sum::<usize>(), (64 << 20) + 9);
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn variables_are_shown_by_pattern_and_module() {
    let (_server, narrows) = narrows();
    let mut client = narrows.admin();
    for statement in [
        "SHOW MYSQL VARIABLES LIKE 'mysql-max_conn%'",
        "SHOW GLOBAL VARIABLES LIKE '%max_connections'",
        "SHOW ALL VARIABLES LIKE '%max_connections'",
        "SHOW VARIABLES LIKE '%max_connections'",
    ] {
        assert_eq!(rows(&mut client, statement), [["mysql-max_connections", "10000"]], "{statement}");
    }
    assert_eq!(rows(&mut client, "SHOW ADMIN VARIABLES LIKE '%max_connections'"), Vec::<Vec<String>>::new());
    assert_eq!(
        rows(&mut client, "SHOW ADMIN VARIABLES LIKE 'admin-read_only'"),
        [["admin-read_only", "false"]]
    );
}

#[test]
fn a_variable_that_there_is_none_of_is_a_warning_that_names_the_nearest() {
    let (_server, narrows) = narrows();
    let mut client = narrows.admin();
    let ok = client.query("SET mysql-max_conections=5").ok().expect("OK, as in ProxySQL");
    assert_eq!(ok.warnings, 1);
    let warning = &rows(&mut client, "SHOW WARNINGS")[0];
    assert_eq!(warning[1], "1193");
    assert!(warning[2].contains("'mysql-max_connections' may be meant"), "{warning:?}");
    // What drivers set is not a variable of ours.
    assert_eq!(client.query("SET SESSION wait_timeout=100").ok().expect("OK").warnings, 0);
}
