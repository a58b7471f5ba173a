//! Clusters of three real servers: Galera of MariaDB, and Group Replication of MySQL 9. They are on 127.0.0.1, or each in a
//! namespace of a network.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::process::free_port;
use crate::real_server::{Flavour, RealServer, ServerOptions};

/// Three servers that form a cluster; killed when dropped. The first one has begun it.
#[derive(Debug)]
pub struct Cluster {
    /// The servers.
    pub servers: Vec<RealServer>,
    /// Their network, if it is not 127.0.0.1.
    pub network: Option<Network>,
}

/// Where Debian's galera-4 has its library.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

/// Members of a cluster.
pub const MEMBERS: usize = 3;

/// How long the members may take to find each other.
const FORMS_WITHIN: Duration = Duration::from_secs(60);

impl Cluster {
    /// Starts a Galera cluster: the second and the third node receive the data of the first one, with rsync. `None`: the
    /// library or rsync is not installed.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn galera() -> Option<Cluster> {
        Cluster::has_galera().then(|| Cluster::galera_in(None, &[]))
    }

    /// Whether a Galera cluster can be started here.
    pub fn has_galera() -> bool {
        Path::new(GALERA).exists() && Path::new("/usr/bin/rsync").exists()
    }

    /// Starts a Galera cluster in a network of three nodes, with further options of its servers.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn galera_in(network: Option<Network>, more: &[&str]) -> Cluster {
        let ports: Vec<[u16; 3]> = (0..MEMBERS).map(|_| [free_port(), free_port(), free_port()]).collect();
        let hosts = hosts(network.as_ref());
        let names: Vec<String> =
            hosts.iter().zip(&ports).map(|(host, [port, ..])| format!("{host}:{port}")).collect();
        let start = |number: usize| {
            let (host, [group, increments, copies]) = (&hosts[number], ports[number]);
            let provider = format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://{host}:{group};ist.recv_addr={host}:{increments};\
                 gcache.size=16M"
            );
            let options = [
                "--binlog-format=ROW".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
                "--wsrep-on=1".to_owned(),
                format!("--wsrep-provider={GALERA}"),
                "--wsrep-cluster-name=narrows".to_owned(),
                format!("--wsrep-cluster-address=gcomm://{}", names.join(",")),
                format!("--wsrep-node-name=node{number}"),
                format!("--wsrep-node-address={host}"),
                provider,
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address={host}:{copies}"),
            ];
            let server = options_of(Flavour::MariaDb, number, network.as_ref(), more);
            let server = match number {
                0 => server.at_first("--wsrep-new-cluster"),
                _ => server.without_data(),
            };
            options.iter().fold(server, |server, option| server.option(option)).start()
        };
        let cluster = Cluster { servers: (0..MEMBERS).map(start).collect(), network };
        let question = "SHOW STATUS WHERE Variable_name = 'wsrep_local_state_comment' AND Value = 'Synced'";
        cluster.wait_until_all_are_there(|server| server.rows(question).len() == 1);
        cluster
    }

    /// Starts a group with one primary, the first server.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn group() -> Cluster {
        Cluster::group_in(None, &[])
    }

    /// The same in a network of three nodes, with further options of its servers.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn group_in(network: Option<Network>, more: &[&str]) -> Cluster {
        let ports: Vec<u16> = (0..MEMBERS).map(|_| free_port()).collect();
        let hosts = hosts(network.as_ref());
        let seeds: Vec<String> =
            hosts.iter().zip(&ports).map(|(host, port)| format!("{host}:{port}")).collect();
        let start = |number: usize| {
            let options = [
                "--log-bin=binlog".to_owned(),
                "--gtid-mode=ON".to_owned(),
                "--enforce-gtid-consistency=ON".to_owned(),
                format!("--report-host={}", hosts[number]),
                "--plugin-load-add=group_replication.so".to_owned(),
                "--loose-group-replication-group-name=6e617272-6f77-4373-8472-696f6f667468".to_owned(),
                "--loose-group-replication-start-on-boot=OFF".to_owned(),
                format!("--loose-group-replication-local-address={}", seeds[number]),
                format!("--loose-group-replication-group-seeds={}", seeds.join(",")),
                format!("--loose-group-replication-ip-allowlist={}", hosts.join(",")),
                "--loose-group-replication-recovery-get-public-key=ON".to_owned(),
            ];
            let server = options_of(Flavour::MySql9, number, network.as_ref(), more);
            options.iter().fold(server, |server, option| server.option(option)).start()
        };
        let servers: Vec<RealServer> = (0..MEMBERS).map(start).collect();
        join_one_after_another(&servers);
        let question =
            "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'";
        let cluster = Cluster { servers, network };
        cluster.wait_until_all_are_there(|server| server.rows(question).len() == MEMBERS);
        cluster
    }

    /// The servers.
    pub fn servers(&self) -> &[RealServer] {
        &self.servers
    }

    /// Where this side reaches a server.
    pub fn host(&self, server: usize) -> String {
        hosts(self.network.as_ref()).swap_remove(server)
    }

    fn wait_until_all_are_there(&self, is_there: impl Fn(&RealServer) -> bool) {
        let deadline = Instant::now() + FORMS_WITHIN;
        for server in &self.servers {
            while !is_there(server) {
                assert!(Instant::now() < deadline, "no cluster forms:\n{}", server.log());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Makes servers the members of a group, which the first one begins.
fn join_one_after_another(servers: &[RealServer]) {
    for (number, server) in servers.iter().enumerate() {
        server.execute(&["CHANGE REPLICATION SOURCE TO SOURCE_USER='sbtest', SOURCE_PASSWORD='sbtest' \
                          FOR CHANNEL 'group_replication_recovery'"]);
        if number == 0 {
            server.execute(&["SET GLOBAL group_replication_bootstrap_group = ON"]);
        }
        server.execute(&["START GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group = OFF"]);
    }
}

/// The addresses of the servers.
fn hosts(network: Option<&Network>) -> Vec<String> {
    match network {
        None => vec!["127.0.0.1".to_owned(); MEMBERS],
        Some(network) => network.nodes().iter().map(|node| node.far().to_string()).collect(),
    }
}

/// What every server of a cluster has.
fn options_of(flavour: Flavour, number: usize, network: Option<&Network>, more: &[&str]) -> ServerOptions {
    let server = ServerOptions::new(flavour).option(&format!("--server-id={}", number + 1));
    let server = more.iter().fold(server, |server, option| server.option(option));
    match network.map(|network| &network.nodes()[number]) {
        None => server,
        Some(node) => server.option(&format!("--bind-address=127.0.0.1,{}", node.far())).inside(node),
    }
}
