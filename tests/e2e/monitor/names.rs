//! Host names: resolved before they are connected to, and followed when their address changes, as after a cloud
//! provider's failover. The program runs with its own hosts file, in a mount namespace, which needs root.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, TempFolder, command};

use super::*;

const STATEMENT: &str = "SELECT who";

/// A hosts file that only one program sees.
struct Hosts(TempFolder);

impl Hosts {
    fn new(line: &str) -> Hosts {
        let hosts = Hosts(TempFolder::new("hosts"));
        hosts.set(line);
        fs::write(hosts.0.file("nsswitch.conf"), "hosts: files\n").unwrap();
        let folder = hosts.0.path().display();
        let script = format!(
            "#!/bin/sh\nexec unshare -m sh -c 'mount --bind {folder}/hosts /etc/hosts && \\\n\
             mount --bind {folder}/nsswitch.conf /etc/nsswitch.conf && exec \"$@\"' sh {} \"$@\"\n",
            env!("CARGO_BIN_EXE_narrows")
        );
        fs::write(hosts.program(), script).unwrap();
        fs::set_permissions(hosts.program(), fs::Permissions::from_mode(0o755)).unwrap();
        hosts
    }

    /// The program that sees it.
    fn program(&self) -> String {
        self.0.file("narrows-with-hosts").display().to_string()
    }

    fn set(&self, line: &str) {
        // In place: it is the file that is mounted, not its name.
        fs::write(self.0.file("hosts"), format!("{line}\n")).unwrap();
    }
}

fn named(name: &str) -> Conversation {
    Conversation::new().on(STATEMENT, &[Move::rows("who", &[name])]).on("DO 1", &[Move::Wait, Move::ok()])
}

fn figure(admin: &mut RawClient, name: &str) -> u64 {
    let question = format!(
        "SELECT variable_value FROM stats_mysql_global WHERE variable_name = 'MySQL_Monitor_dns_cache_{name}'"
    );
    rows(admin, &question)[0].parse().unwrap()
}

#[test]
fn connections_follow_a_name_that_moves_and_stay_when_it_is_lost() {
    let old = FakeMysql::start(named("old"));
    let new = FakeMysql::start_at("127.0.0.2", old.port(), named("new"));
    let hosts = Hosts::new("127.0.0.1 db.test");
    let mut config = watched().server_at(0, "db.test", old.port(), "");
    for name in ["ttl", "refresh_interval"] {
        config = config.variable(&format!("monitor_local_dns_cache_{name}"), "50");
    }
    let narrows = Narrows::start(&hosts.program(), &config);
    narrows.wait_for_log(0, |line| line.contains("127.0.0.1") && line.contains("has new addresses"));
    let mut client = narrows.client();
    let who = |client: &mut RawClient| client.query(STATEMENT).cell().expect("an answer");
    assert_eq!(who(&mut client), "old");
    let mut busy = narrows.client();
    busy.send_command(command::QUERY, b"DO 1").unwrap();
    old.wait_for("DO 1");

    hosts.set("127.0.0.2 db.test");
    narrows.wait_for_log(0, |line| line.contains("127.0.0.2") && line.contains("has new addresses"));
    let begun = Instant::now();
    while who(&mut client) == "old" {
        assert!(begun.elapsed() < DEADLINE, "it stays where it was: {}", narrows.log());
    }
    // A running statement continues to its end, after which its connection is not used any more.
    old.release();
    assert_eq!(busy.answer(command::QUERY).error(), None);
    let served_by_old = || old.received().iter().filter(|received| received.body == STATEMENT).count();
    let before = served_by_old();
    assert!((0..20).all(|_| who(&mut busy) == "new" && who(&mut client) == "new"));
    assert_eq!(served_by_old(), before);

    hosts.set("127.0.0.9 other.test");
    narrows.wait_for_log(0, |line| line.contains("a host name cannot be resolved"));
    new.hang_up();
    assert!((0..20).all(|_| who(&mut client) == "new"));
    let mut admin = narrows.admin();
    let [queried, found, updated] =
        ["queried", "lookup_success", "record_updated"].map(|name| figure(&mut admin, name));
    assert!(updated == 2 && found >= 3 && queried >= found, "{queried} {found} {updated}");
}
