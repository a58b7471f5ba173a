//! Clusters of three real servers on 127.0.0.1: Galera of MariaDB, and Group Replication of MySQL 9.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::free_port;
use crate::real_server::{Flavour, RealServer, ServerOptions};

/// Three servers that form a cluster; killed when dropped. The first one has begun it.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<RealServer>,
}

/// Where Debian's galera-4 has its library.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

/// Members of a cluster.
const MEMBERS: usize = 3;

/// How long the members may take to find each other.
const FORMS_WITHIN: Duration = Duration::from_secs(60);

impl Cluster {
    /// Starts a Galera cluster: the second and the third node receive the data of the first one, with rsync. `None`: the
    /// library or rsync is not installed.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn galera() -> Option<Cluster> {
        if !Path::new(GALERA).exists() || !Path::new("/usr/bin/rsync").exists() {
            return None;
        }
        let ports: Vec<[u16; 3]> = (0..MEMBERS).map(|_| [free_port(), free_port(), free_port()]).collect();
        let names: Vec<String> = ports.iter().map(|[port, ..]| format!("127.0.0.1:{port}")).collect();
        let addresses = names.join(",");
        let start = |(number, [group, increments, copies]): (usize, &[u16; 3])| {
            let provider = format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{increments};\
                 gcache.size=16M"
            );
            let options = [
                "--binlog-format=ROW".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
                "--wsrep-on=1".to_owned(),
                format!("--wsrep-provider={GALERA}"),
                "--wsrep-cluster-name=narrows".to_owned(),
                format!("--wsrep-cluster-address=gcomm://{addresses}"),
                format!("--wsrep-node-name=node{number}"),
                "--wsrep-node-address=127.0.0.1".to_owned(),
                provider,
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address=127.0.0.1:{copies}"),
                format!("--server-id={}", number + 1),
            ];
            let begins = ServerOptions::new(Flavour::MariaDb);
            let server = match number {
                0 => begins.option("--wsrep-new-cluster"),
                _ => begins.without_data(),
            };
            options.iter().fold(server, |server, option| server.option(option)).start()
        };
        let cluster = Cluster { servers: ports.iter().enumerate().map(start).collect() };
        let question = "SHOW STATUS WHERE Variable_name = 'wsrep_local_state_comment' AND Value = 'Synced'";
        cluster.wait_until_all_are_there(|server| server.rows(question).len() == 1);
        Some(cluster)
    }

    /// Starts a group with one primary, the first server.
    ///
    /// # Panics
    /// If it does not form within a minute.
    pub fn group() -> Cluster {
        let ports: Vec<u16> = (0..MEMBERS).map(|_| free_port()).collect();
        let seeds: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let start = |(number, port): (usize, &u16)| {
            let options = [
                format!("--server-id={}", number + 1),
                "--log-bin=binlog".to_owned(),
                "--gtid-mode=ON".to_owned(),
                "--enforce-gtid-consistency=ON".to_owned(),
                "--report-host=127.0.0.1".to_owned(),
                "--plugin-load-add=group_replication.so".to_owned(),
                "--loose-group-replication-group-name=6e617272-6f77-4373-8472-696f6f667468".to_owned(),
                "--loose-group-replication-start-on-boot=OFF".to_owned(),
                format!("--loose-group-replication-local-address=127.0.0.1:{port}"),
                format!("--loose-group-replication-group-seeds={}", seeds.join(",")),
                "--loose-group-replication-recovery-get-public-key=ON".to_owned(),
            ];
            let server = ServerOptions::new(Flavour::MySql9);
            options.iter().fold(server, |server, option| server.option(option)).start()
        };
        let servers: Vec<RealServer> = ports.iter().enumerate().map(start).collect();
        for (number, server) in servers.iter().enumerate() {
            server.execute(&["CHANGE REPLICATION SOURCE TO SOURCE_USER='sbtest', SOURCE_PASSWORD='sbtest' \
                              FOR CHANNEL 'group_replication_recovery'"]);
            if number == 0 {
                server.execute(&["SET GLOBAL group_replication_bootstrap_group = ON"]);
            }
            server
                .execute(&["START GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group = OFF"]);
        }
        let question =
            "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'";
        let cluster = Cluster { servers };
        cluster.wait_until_all_are_there(|server| server.rows(question).len() == MEMBERS);
        cluster
    }

    /// The servers.
    pub fn servers(&self) -> &[RealServer] {
        &self.servers
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
