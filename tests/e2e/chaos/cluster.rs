//! A primary with two replicas that lose no acknowledged write, and what an orchestrator does with them.
//!
//! Replication is semi-synchronous (AFTER_SYNC, without a timeout): a write is acknowledged when a replica has it.
//! Every server is read-only by configuration and only becomes writable by hand, so that one that comes back from a
//! crash accepts no writes: this is the fencing, and the servers do it themselves. A killed MariaDB primary discards
//! what no replica has acknowledged, and follows; a MySQL primary keeps it, and is rebuilt: it clones the primary that
//! replaced it.

use std::time::Duration;

use narrows_testkit::{Flavour, Namespace, NarrowsConfig, RealServer, ServerOptions, wait_until};

use super::{short_or_long, sysbench};

/// One server.
pub struct Node {
    pub server: RealServer,
    /// The address at which the others and Narrows reach it.
    pub address: String,
    /// Its `server_id`.
    pub id: u32,
}

/// All of them.
pub struct Cluster {
    pub flavour: Flavour,
    pub nodes: Vec<Node>,
    pub primary: usize,
    /// The network of the last node, if namespaces are allowed.
    pub namespace: Option<Namespace>,
}

impl Cluster {
    /// Starts it, with `facts`, an empty `ledger` and the tables of sysbench on all servers.
    pub fn start(flavour: Flavour) -> Cluster {
        let namespace = namespace();
        let near =
            namespace.as_ref().map_or("127.0.0.1".to_owned(), |namespace| namespace.near().to_string());
        let node = |id: u32| {
            let inside = namespace.as_ref().filter(|_| id == NODES);
            let address = inside.map_or(near.clone(), |namespace| namespace.far().to_string());
            Node { server: options(flavour, id, &address, inside).start(), address, id }
        };
        let mut cluster = Cluster { flavour, nodes: (1..=NODES).map(node).collect(), primary: 0, namespace };
        if flavour == Flavour::MySql9 {
            // What each has written at its start is not part of the shared history.
            cluster.nodes.iter().for_each(|node| node.server.execute(&["RESET BINARY LOGS AND GTIDS"]));
        }
        cluster.primary().execute(&["SET GLOBAL read_only = 0"]);
        let fill = fill(FACTS);
        cluster.primary().execute(&[
            "CREATE DATABASE chaos",
            "CREATE TABLE chaos.facts (id INT PRIMARY KEY, value INT NOT NULL)",
            &fill,
            "CREATE TABLE chaos.ledger (id BIGINT PRIMARY KEY, server INT NOT NULL)",
        ]);
        sysbench::prepare(cluster.primary());
        for replica in cluster.replicas() {
            cluster.follow(replica);
        }
        cluster.wait_for_replicas();
        // From now on the primary waits for the replicas.
        cluster.primary().execute(&[&cluster.wait_for_acknowledgements(1)]);
        cluster
    }

    /// Narrows in front of it: reads go to the replicas, everything else to the primary. Statements marked for it go to
    /// a server of another kind, at the given port.
    pub fn config(&self, deaf: u16) -> NarrowsConfig {
        let mut config = NarrowsConfig::new()
            .supervised()
            // Longer than the tests wait for clients that are told to disconnect.
            .drain_timeout(180)
            .small_disk(64 << 20)
            .monitor()
            .user("app", "app", "")
            .user(MARKER, "x", "comment=\"0\"")
            .rule("rule_id=1 active=1 match_digest=\"^DO (deaf|hears)\" destination_hostgroup=9 timeout=1000 apply=1")
            .rule("rule_id=2 active=1 match_digest=\"^SELECT SLEEP\" destination_hostgroup=1 timeout=1000 apply=1")
            .rule("rule_id=3 active=1 match_pattern=\"^DO 'logged\" destination_hostgroup=0 log=1 apply=1")
            .rule("rule_id=10 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
            .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1")
            .server(9, deaf, "max_connections=20")
            .variable("monitor_username", "app")
            .variable("monitor_password", "app")
            // For MySQL, whose servers are reached over a network other than the loopback.
            .variable("get_server_public_key", "true")
            // Short enough to see that a server is back, before it is fully available.
            .variable("shun_recovery_time_sec", "1")
            .variable("monitor_ping_interval", "250")
            // On a machine under load for an hour, a server may be unresponsive for longer.
            .variable("monitor_ping_timeout", short_or_long("500", "1500"))
            .variable("monitor_read_only_interval", "250")
            // Shorter than others wait for a connection.
            .variable("stall_timeout_client", short_or_long("2000", "5000"))
            .variable("kill_timeout_server", "1000")
            .variable("free_connections_pct", "25")
            .variable("eventslog_filename", "queries");
        for (index, node) in self.nodes.iter().enumerate() {
            let hostgroup = i32::from(index != self.primary);
            let columns = format!("max_connections={PLACES}");
            config = config.server_at(hostgroup, &node.address, node.server.port(), &columns);
        }
        config
    }

    /// The current primary.
    pub fn primary(&self) -> &RealServer {
        &self.nodes[self.primary].server
    }

    /// The indices of the others.
    pub fn replicas(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| *index != self.primary).collect()
    }

    /// Makes a server follow the primary, read-only.
    pub fn follow(&mut self, index: usize) {
        if self.flavour == Flavour::MySql9 {
            stop_replica(&mut self.nodes[index].server);
        }
        let primary = &self.nodes[self.primary];
        let (host, port) = (&primary.address, primary.server.port());
        if self.flavour == Flavour::MySql9 {
            return self.nodes[index].server.execute(&[
                "SET GLOBAL read_only = 1",
                &self.wait_for_acknowledgements(0),
                &format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, SOURCE_USER='sbtest', \
                     SOURCE_PASSWORD='sbtest', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, \
                     SOURCE_HEARTBEAT_PERIOD=0.5"
                ),
                "START REPLICA",
            ]);
        }
        self.nodes[index].server.execute(&[
            "SET GLOBAL read_only = 1",
            &self.wait_for_acknowledgements(0),
            "STOP SLAVE",
            // A former primary continues as a replica after its own last write.
            "SET GLOBAL gtid_slave_pos = @@global.gtid_current_pos",
            &format!(
                "CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='sbtest', \
                 MASTER_PASSWORD='sbtest', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, \
                 MASTER_HEARTBEAT_PERIOD=0.5"
            ),
            "START SLAVE",
        ]);
    }

    /// Makes another server the primary: the most advanced of those still running, after it has applied everything.
    pub fn promote(&mut self) {
        let candidates = self.replicas();
        let mut position = |index: &usize| match self.flavour {
            Flavour::MariaDb => applied_on_mariadb(&self.nodes[*index].server),
            Flavour::MySql9 => applied_on_mysql9(&mut self.nodes[*index].server),
        };
        let chosen = candidates.iter().copied().max_by_key(&mut position).expect("there are replicas");
        self.primary = chosen;
        for other in candidates.into_iter().filter(|other| *other != chosen) {
            self.follow(other);
        }
        let replica = if self.flavour == Flavour::MySql9 { "REPLICA" } else { "SLAVE" };
        self.primary().execute(&[
            &format!("STOP {replica}"),
            &format!("RESET {replica} ALL"),
            &self.wait_for_acknowledgements(1),
            "SET GLOBAL read_only = 0",
        ]);
    }

    /// Starts a killed primary again, and after `pause` makes it follow the one that replaced it.
    pub fn bring_back(&mut self, index: usize, pause: Duration) {
        match self.flavour {
            Flavour::MariaDb => {
                self.nodes[index].server.restart();
                std::thread::sleep(pause);
            }
            Flavour::MySql9 => self.clone_primary(index),
        }
        self.follow(index);
    }

    /// Makes a MySQL server replace its data by the primary's. Nobody can reach it in the meantime, because its data
    /// differs from the others'.
    fn clone_primary(&mut self, index: usize) {
        let primary = &self.nodes[self.primary];
        let (host, port) = (primary.address.clone(), primary.server.port());
        let server = &mut self.nodes[index].server;
        server.restart_with(&["--skip-networking"]);
        server.execute(&[&format!("SET GLOBAL clone_valid_donor_list = '{host}:{port}'")]);
        let clone = format!("CLONE INSTANCE FROM 'sbtest'@'{host}':{port} IDENTIFIED BY 'sbtest'");
        let error = server.root().query(clone).error().expect("it shuts down, and says so");
        // Nothing restarts it.
        assert_eq!(error.code, 3707, "{error:?}");
        assert!(server.process().wait_for(Duration::from_secs(60)).is_some(), "it does not shut down");
        server.restart();
    }

    /// The statement that makes a server wait for replicas before it acknowledges a write, or not.
    fn wait_for_acknowledgements(&self, on: u8) -> String {
        let source = if self.flavour == Flavour::MySql9 { "source" } else { "master" };
        format!("SET GLOBAL rpl_semi_sync_{source}_enabled = {on}")
    }

    /// Waits until all replicas acknowledge what the primary writes. If one of two does not yet, and the other one is
    /// killed, every write waits in the primary without limit.
    pub fn wait_for_acknowledgers(&self) {
        let source = if self.flavour == Flavour::MySql9 { "source" } else { "master" };
        let status = format!("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_{source}_clients'");
        let clients = || self.primary().rows(&status)[0][1].as_deref()?.parse::<usize>().ok();
        wait_until("all replicas acknowledge", || {
            clients().is_some_and(|clients| clients >= self.nodes.len() - 1)
        });
    }

    /// Makes all servers run, be reachable, and follow the primary or the one that replaces it.
    pub fn heal(&mut self) {
        self.namespace.iter().for_each(Namespace::mend);
        self.nodes.iter_mut().for_each(|node| node.server.thaw());
        let ended = |node: &mut Node| node.server.process().try_wait().is_some();
        if ended(&mut self.nodes[self.primary]) {
            let old = self.primary;
            self.promote();
            self.bring_back(old, Duration::ZERO);
        }
        for replica in self.replicas() {
            if ended(&mut self.nodes[replica]) {
                self.nodes[replica].server.restart();
            }
            self.follow(replica);
        }
    }

    /// Waits until all replicas have everything that the primary has.
    pub fn wait_for_replicas(&self) {
        let (position, wait, status) = match self.flavour {
            Flavour::MariaDb => ("gtid_binlog_pos", "MASTER_GTID_WAIT", "SHOW SLAVE STATUS"),
            Flavour::MySql9 => ("gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET", "SHOW REPLICA STATUS"),
        };
        let position = self.primary().rows(&format!("SELECT @@global.{position}")).remove(0).remove(0);
        let position = position.expect("a position");
        for replica in self.replicas() {
            let server = &self.nodes[replica].server;
            let has_all = || {
                let waited = server.rows(&format!("SELECT {wait}('{position}', 30)"));
                waited[0][0].as_deref() == Some("0")
            };
            // An hour may have left much to apply.
            let is_done = (0..short_or_long(1, 10)).any(|_| has_all());
            assert!(is_done, "replica {replica}: {:?}", server.rows(status));
        }
    }
}

/// A network that can be cut off, if namespaces are allowed.
pub fn namespace() -> Option<Namespace> {
    let skipped = |why: &String| eprintln!("SKIPPED: no server is cut off from its network here: {why}");
    Namespace::new().inspect_err(skipped).ok()
}

/// The statement that fills `chaos.facts`.
pub fn fill(facts: u64) -> String {
    format!(
        "INSERT INTO chaos.facts WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < {facts}) \
         SELECT seq, seq * 7 FROM n"
    )
}

fn options(flavour: Flavour, id: u32, address: &str, inside: Option<&Namespace>) -> ServerOptions {
    let mut options = ServerOptions::new(flavour);
    if let Some(namespace) = inside {
        options = options.inside(namespace);
    }
    let loopback = if address == "127.0.0.1" { String::new() } else { format!(",{address}") };
    for option in [
        &format!("--server-id={id}"),
        &format!("--bind-address=127.0.0.1{loopback}"),
        "--read-only=1",
        "--log-bin=binlog",
        // What a server has acknowledged survives a kill of its process; the machine itself does not crash.
        "--innodb-flush-log-at-trx-commit=1",
    ] {
        options = options.option(option);
    }
    let of_flavour: &[&str] = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql9 => &MYSQL9,
    };
    for option in of_flavour {
        options = options.option(option);
    }
    let monitor = match flavour {
        Flavour::MariaDb => "REPLICA MONITOR",
        Flavour::MySql9 => "REPLICATION CLIENT",
    };
    // Not with all privileges: those would write to read-only servers too.
    options.statements.push("CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY 'app'".to_owned());
    let privileges = format!("SELECT, INSERT, UPDATE, DELETE, PROCESS, {monitor}");
    options.statements.push(format!("GRANT {privileges} ON *.* TO 'app'@'%'"));
    options
}

const MARIADB: [&str; 8] = [
    "--log-slave-updates=1",
    "--binlog-format=ROW",
    "--gtid-strict-mode=1",
    "--slave-net-timeout=2",
    // A killed primary discards what no replica has acknowledged.
    "--init-rpl-role=SLAVE",
    "--rpl-semi-sync-slave-enabled=1",
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    "--rpl-semi-sync-master-timeout=3600000",
];

const MYSQL9: [&str; 11] = [
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--replica-net-timeout=2",
    "--relay-log-recovery=ON",
    "--plugin-load-add=semisync_source.so;semisync_replica.so;mysql_clone.so",
    "--rpl-semi-sync-replica-enabled=1",
    "--rpl-semi-sync-source-wait-point=AFTER_SYNC",
    "--rpl-semi-sync-source-timeout=3600000",
    "--rpl-stop-replica-timeout=2",
    "--sync-binlog=0",
    // A server that is killed may have written half a page.
    "--innodb-doublewrite=ON",
];

/// Stops a replica's receiver, waits until everything received has been applied, and returns how many transactions that
/// is.
fn applied_on_mariadb(server: &RealServer) -> u64 {
    server.execute(&["STOP SLAVE IO_THREAD"]);
    wait_until("a replica has applied what it has received", || {
        let status = server.root().query("SHOW SLAVE STATUS");
        let received = status.columns().iter().position(|column| column.name == "Gtid_IO_Pos");
        let received = status.text_rows()[0][received.expect("MariaDB has it")].clone();
        received == server.rows("SELECT @@global.gtid_slave_pos")[0][0]
    });
    let position = server.rows("SELECT @@global.gtid_slave_pos")[0][0].clone().unwrap_or_default();
    // The last part of a GTID of one domain.
    position.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The same for MySQL.
fn applied_on_mysql9(server: &mut RealServer) -> u64 {
    server.execute(&["STOP REPLICA IO_THREAD"]);
    let cell = |query: &str| server.rows(query).remove(0).remove(0).unwrap_or_default();
    let received = "SELECT received_transaction_set FROM performance_schema.replication_connection_status";
    let wait = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET(({received}), 30)");
    let executed = || transactions(&cell("SELECT @@global.gtid_executed"));
    // It may lag by minutes, as long as it makes progress.
    let mut before = executed();
    while cell(&wait) != "0" {
        let now = executed();
        assert!(now > before, "a replica does not apply what it has received: {:?}", applier(server));
        before = now;
    }
    let executed = executed();
    stop_replica(server);
    executed
}

/// What the applier of a MySQL replica does.
fn applier(server: &RealServer) -> Vec<Vec<Option<String>>> {
    server.rows(
        "SELECT id, command, time, state, info FROM performance_schema.processlist WHERE user = 'system user'",
    )
}

/// Stops a MySQL replica. If it waits a minute for the other half of a transaction, it is restarted, which makes it
/// discard the first half.
fn stop_replica(server: &mut RealServer) {
    let Some(error) = server.root().query("STOP REPLICA").error() else { return };
    assert_eq!(error.code, 1875, "{error:?}");
    server.restart();
    server.execute(&["STOP REPLICA"]);
}

/// How many transactions a set of GTIDs has: `UUID:1-5:8,UUID:1-3` has nine.
fn transactions(set: &str) -> u64 {
    let interval = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<u64>().expect("a number");
        number(last) - number(first) + 1
    };
    set.split(',').flat_map(|source| source.split(':').skip(1)).map(interval).sum()
}

/// How many facts there are; the value of each is seven times its number.
pub const FACTS: u64 = 1_000;

/// How many connections Narrows may have to each server.
pub const PLACES: usize = 40;

/// The account with which administrators check that their changes are in force.
pub const MARKER: &str = "marker";

const NODES: u32 = 3;
