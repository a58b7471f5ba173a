//! A real primary with replicas, for tests of replication: how each kind of server spells what is done to them.

use narrows_testkit::{Flavour, RealServer, ServerOptions};

/// A primary, the first one at the beginning, and its replicas.
pub struct Replicas {
    pub flavour: Flavour,
    pub nodes: Vec<RealServer>,
}

impl Replicas {
    /// Starts so many servers with the server ids 1, 2, and so on, and these options besides those of replication. Nothing
    /// replicates yet.
    pub fn start(flavour: Flavour, count: u32, more: &[&str]) -> Replicas {
        let node = |id| more.iter().fold(options(flavour, id), |options, more| options.option(more)).start();
        let nodes: Vec<RealServer> = (1..=count).map(node).collect();
        if flavour == Flavour::MySql9 {
            // What each has written at its start is not part of the shared history.
            nodes.iter().for_each(|node| node.execute(&["RESET BINARY LOGS AND GTIDS"]));
        }
        Replicas { flavour, nodes }
    }

    /// Makes a server replicate from another one.
    pub fn follow(&self, replica: usize, source: usize) {
        let port = self.nodes[source].port();
        let change = match self.flavour {
            Flavour::MySql9 => format!(
                "SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='sbtest', SOURCE_PASSWORD='sbtest', \
                 SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1"
            ),
            Flavour::MariaDb => format!(
                "MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='sbtest', MASTER_PASSWORD='sbtest', \
                 MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
            ),
        };
        let name = self.change();
        self.nodes[replica].execute(&[&format!("{name} {change}"), &self.replication("START")]);
    }

    /// Changes an option of replication that is spelled without its prefix, such as `DELAY = 5`.
    pub fn change_source(&self, replica: usize, option: &str) {
        let prefix = if self.flavour == Flavour::MySql9 { "SOURCE" } else { "MASTER" };
        self.nodes[replica].execute(&[
            &self.replication("STOP"),
            &format!("{} {prefix}_{option}", self.change()),
            &self.replication("START"),
        ]);
    }

    /// Makes a replica apply what its primary has written these seconds later.
    pub fn delay(&self, replica: usize, seconds: u32) {
        self.change_source(replica, &format!("DELAY={seconds}"));
    }

    /// Ends the replication of a server, which forgets its source.
    pub fn forget_source(&self, replica: usize) {
        let reset = format!("{} ALL", self.replication("RESET"));
        self.nodes[replica].execute(&[&self.replication("STOP"), &reset]);
    }

    /// `START REPLICA` and the like.
    pub fn replication(&self, verb: &str) -> String {
        format!("{verb} {}", if self.flavour == Flavour::MySql9 { "REPLICA" } else { "SLAVE" })
    }

    fn change(&self) -> &'static str {
        match self.flavour {
            Flavour::MySql9 => "CHANGE REPLICATION SOURCE TO",
            Flavour::MariaDb => "CHANGE MASTER TO",
        }
    }

    /// Everything that a server has.
    pub fn position(&self, node: usize) -> String {
        let position = match self.flavour {
            Flavour::MySql9 => "SELECT @@GLOBAL.gtid_executed",
            Flavour::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
        };
        self.nodes[node].rows(position)[0][0].clone().unwrap_or_default().replace('\n', "")
    }

    /// Waits until all have everything that a primary has, which nobody writes to.
    pub fn have_all(&self, primary: usize) {
        let position = self.position(primary);
        let wait = match self.flavour {
            Flavour::MySql9 => format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', 50)"),
            Flavour::MariaDb => format!("SELECT MASTER_GTID_WAIT('{position}', 50)"),
        };
        for node in self.nodes.iter().enumerate().filter(|(index, _)| *index != primary).map(|it| it.1) {
            // A server that was filled again on a machine that is busy with something else may need minutes.
            let has_all = (0..6).any(|_| node.rows(&wait)[0][0].as_deref() == Some("0"));
            let status = || node.rows("SHOW REPLICA STATUS");
            assert!(has_all, "a replica has {position}: {:?}\n{}", status(), node.log());
        }
    }
}

fn options(flavour: Flavour, id: u32) -> ServerOptions {
    let options = ServerOptions::new(flavour)
        .account("sbtest", "sbtest")
        .option(&format!("--server-id={id}"))
        .option("--log-bin=binlog")
        .option("--skip-slave-start");
    match flavour {
        Flavour::MariaDb => options.option("--log-slave-updates"),
        Flavour::MySql9 => options.option("--gtid-mode=ON").option("--enforce-gtid-consistency=ON"),
    }
}
