//! A real primary with two replicas, and the configuration with which Narrows follows their roles.
//!
//! Nothing is durable, and nothing waits for the disk: so replicas keep up with their primary on any machine.

use std::ops::{Deref, DerefMut};

use narrows_testkit::{Flavour, NarrowsConfig, RawClient, RealServer, wait_until};

use crate::replicas::Replicas;

/// A primary with two replicas.
pub struct Servers {
    replicas: Replicas,
    /// What the last server that was promoted had replicated until then.
    promoted_at: String,
    /// How many were filled again.
    filled_again: u32,
}

impl Deref for Servers {
    type Target = Replicas;

    fn deref(&self) -> &Replicas {
        &self.replicas
    }
}

impl DerefMut for Servers {
    fn deref_mut(&mut self) -> &mut Replicas {
        &mut self.replicas
    }
}

impl Servers {
    pub fn start(flavour: Flavour) -> Servers {
        Servers::some(flavour, 3)
    }

    /// So many, the first of which is the primary.
    pub fn some(flavour: Flavour, count: u32) -> Servers {
        Servers::with(flavour, count, &[])
    }

    /// Those whose commits are acknowledged when a replica has them, however long that takes. Of what a killed process has
    /// written nothing is lost.
    pub fn start_semi_synchronous(flavour: Flavour) -> Servers {
        let more: &[&str] = match flavour {
            Flavour::MySql9 => &[
                "--plugin-load-add=semisync_source.so;semisync_replica.so",
                "--rpl-semi-sync-replica-enabled=1",
                "--rpl-semi-sync-source-timeout=600000",
                "--innodb-flush-log-at-trx-commit=2",
            ],
            Flavour::MariaDb => &[
                "--rpl-semi-sync-slave-enabled=1",
                "--rpl-semi-sync-master-timeout=600000",
                "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
                "--innodb-flush-log-at-trx-commit=2",
            ],
        };
        let servers = Servers::with(flavour, 3, more);
        servers.nodes[0].execute(&[servers.acknowledge_by_replicas()]);
        servers
    }

    /// How many commits of a semi-synchronous primary were acknowledged although no replica had confirmed them.
    pub fn commits_without_a_replica(&self, primary: usize) -> u64 {
        let name = match self.flavour {
            Flavour::MySql9 => "Rpl_semi_sync_source_no_tx",
            Flavour::MariaDb => "Rpl_semi_sync_master_no_tx",
        };
        let rows = self.nodes[primary].rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        rows[0][1].as_deref().and_then(|count| count.parse().ok()).expect("a number")
    }

    fn acknowledge_by_replicas(&self) -> &'static str {
        match self.flavour {
            Flavour::MySql9 => "SET GLOBAL rpl_semi_sync_source_enabled = 1",
            Flavour::MariaDb => "SET GLOBAL rpl_semi_sync_master_enabled = 1",
        }
    }

    fn with(flavour: Flavour, count: u32, more: &[&str]) -> Servers {
        let all: Vec<&str> = options(flavour).iter().chain(more).copied().collect();
        let replicas = Replicas::start(flavour, count, &all);
        replicas.nodes[0].execute(&[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.ledger (client INT, turn INT, PRIMARY KEY (client, turn))",
            "CREATE TABLE shop.counter (client INT PRIMARY KEY, n INT NOT NULL)",
            "CREATE USER shop IDENTIFIED BY 'shop'",
            "GRANT ALL ON shop.* TO shop",
        ]);
        let servers = Servers { replicas, promoted_at: String::new(), filled_again: 0 };
        for replica in 1..servers.nodes.len() {
            servers.follow(replica, 0, Some(""));
        }
        servers
    }

    /// Makes a server a read-only replica of another one; on MariaDB after this position, if one is given.
    fn follow(&self, replica: usize, source: usize, position: Option<&str>) {
        let node = &self.nodes[replica];
        match self.flavour {
            Flavour::MySql9 => node.execute(&["SET GLOBAL super_read_only = 1"]),
            Flavour::MariaDb => {
                node.execute(&["SET GLOBAL read_only = 1"]);
                if let Some(position) = position {
                    node.execute(&[&format!("SET GLOBAL gtid_slave_pos = '{position}'")]);
                }
            }
        }
        self.replicas.follow(replica, source);
        wait_until("a replica has what the primary has", || {
            let has = "SELECT count(*) >= 2 FROM information_schema.tables WHERE table_schema = 'shop'";
            node.rows(has)[0][0].as_deref() == Some("1")
        });
    }

    /// Makes a replica the primary, as a tool outside does, and leaves the others as they are.
    pub fn promote_only(&self, replica: usize) {
        self.forget_source(replica);
        self.nodes[replica].execute(&["SET GLOBAL read_only = 0"]);
    }

    /// What a tool does when the primary is gone: the replica that has more takes its place. Returns that one.
    pub fn promote(&mut self, dead: usize) -> usize {
        let candidates: Vec<usize> = (0..self.nodes.len()).filter(|node| *node != dead).collect();
        candidates.iter().for_each(|node| self.apply_what_it_has(*node));
        let [one, other] = candidates[..] else { panic!("two replicas") };
        let (new, other) = if self.has_all_of(one, other) { (one, other) } else { (other, one) };
        self.promoted_at = self.position(new);
        self.forget_source(new);
        self.nodes[new].execute(&[self.acknowledge_by_replicas()]);
        self.nodes[other].execute(&[&self.replication("STOP")]);
        self.follow(other, new, None);
        self.nodes[new].execute(&["SET GLOBAL read_only = 0"]);
        new
    }

    /// A primary that was killed comes back as a replica, after `look` has seen what it has. If it has more than the new primary,
    /// it is filled again; returns whether that was so.
    pub fn return_as_replica(
        &mut self,
        old: usize,
        primary: usize,
        look: &mut dyn FnMut(&RealServer),
    ) -> bool {
        self.nodes[old].restart_with(&["--read-only=1"]);
        look(&self.nodes[old]);
        let position = self.position(old);
        let has_more = match self.flavour {
            Flavour::MySql9 => {
                let is_in = format!("SELECT GTID_SUBSET('{position}', @@GLOBAL.gtid_executed)");
                self.nodes[primary].rows(&is_in)[0][0].as_deref() == Some("0")
            }
            Flavour::MariaDb => number(&position) > number(&self.promoted_at),
        };
        if has_more {
            self.nodes[old].restart_as_new(&["--read-only=1"]);
            self.filled_again += 1;
            if self.flavour == Flavour::MySql9 {
                // It skips what was written under its own number, and its data are gone.
                let number = format!("SET GLOBAL server_id = {}", 100 + self.filled_again);
                self.nodes[old].execute(&["RESET BINARY LOGS AND GTIDS", &number]);
            }
        }
        self.follow(old, primary, Some(if has_more { "" } else { &position }));
        self.have_all(primary);
        has_more
    }

    /// Ends the connection to the source, and waits until everything that was received is applied.
    fn apply_what_it_has(&self, node: usize) {
        let node = &self.nodes[node];
        let waited = match self.flavour {
            Flavour::MySql9 => {
                node.execute(&["STOP REPLICA IO_THREAD"]);
                let received =
                    "SELECT received_transaction_set FROM performance_schema.replication_connection_status";
                let received = node.rows(received)[0][0].clone().unwrap_or_default();
                node.rows(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{received}', 60)"))
            }
            Flavour::MariaDb => {
                node.execute(&["STOP SLAVE IO_THREAD"]);
                let mut root = node.root();
                let status = root.query("SHOW SLAVE STATUS");
                let column = status.columns().iter().position(|column| column.name == "Gtid_IO_Pos");
                let received = status.text_rows()[0][column.expect("MariaDB says so")].clone();
                node.rows(&format!("SELECT MASTER_GTID_WAIT('{}', 60)", received.unwrap_or_default()))
            }
        };
        assert_eq!(waited[0][0].as_deref(), Some("0"), "it has applied what it has");
    }

    /// Whether a server has everything that another one has.
    fn has_all_of(&self, one: usize, other: usize) -> bool {
        let position = self.position(other);
        match self.flavour {
            Flavour::MySql9 => {
                let is_in = format!("SELECT GTID_SUBSET('{position}', @@GLOBAL.gtid_executed)");
                self.nodes[one].rows(&is_in)[0][0].as_deref() == Some("1")
            }
            Flavour::MariaDb => number(&self.position(one)) >= number(&position),
        }
    }

    pub fn config(&self) -> NarrowsConfig {
        let mut config = NarrowsConfig::new()
            .monitor()
            .user("shop", "shop", "")
            .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
            .variable("monitor_username", "sbtest")
            .variable("monitor_password", "sbtest")
            .variable("monitor_read_only_interval", "500")
            .variable("get_server_public_key", "true")
            .variable("switchover_replication_username", "sbtest")
            .variable("switchover_replication_password", "sbtest");
        for (index, node) in self.nodes.iter().enumerate() {
            config = config.server(i32::from(index != 0), node.port(), "max_connections=100");
        }
        config
    }

    /// Waits until Narrows knows who is the writer.
    pub fn wait_for_roles(&self, admin: &mut RawClient) {
        wait_until("the roles are known", || {
            let roles = "SELECT count(*) FROM runtime_mysql_servers WHERE hostgroup_id = 0";
            admin.query(roles).cell().as_deref() == Some("1")
        });
    }

    /// Waits until all have what the primary has.
    pub fn are_alike(&self, primary: usize) {
        for table in ["ledger", "counter"] {
            let checksum =
                |node: &RealServer| node.rows(&format!("CHECKSUM TABLE shop.{table}"))[0][1].clone();
            let wanted = checksum(&self.nodes[primary]);
            for node in &self.nodes {
                wait_until("a replica has all", || checksum(node) == wanted);
            }
        }
    }
}

fn options(flavour: Flavour) -> &'static [&'static str] {
    match flavour {
        Flavour::MariaDb => &["--gtid-strict-mode=1"],
        // An applier commits for itself, where writers of the primary commit together: with a flush of the binary log for each
        // commit, a replica with few appliers is slower than its primary.
        Flavour::MySql9 => &["--sync-binlog=0", "--replica-parallel-workers=16"],
    }
}

/// The sequence number of a GTID of MariaDB.
fn number(position: &str) -> u64 {
    position.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
