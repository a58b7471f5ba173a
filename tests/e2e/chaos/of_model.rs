//! The model's clients, whose every answer is known, read from servers that are killed, stopped and cut off, while
//! everything they change is on a server that stays up. They are compared as strictly as without faults.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Namespace, Narrows, NarrowsConfig, RealServer, wait_until};

use super::cluster::{FACTS, fill, namespace};
use super::is_long;
use super::load::Load;
use crate::model::{RULE, prepared_server, run_model_beside, variables_of};

#[test]
fn the_model_holds_while_servers_that_it_reads_from_fail() {
    Flavour::MariaDb.if_tested(hold);
}

#[test]
fn the_model_holds_while_servers_of_mysql9_that_it_reads_from_fail() {
    Flavour::MySql9.if_tested(hold);
}

const CLIENTS: usize = 50;

fn hold(flavour: Flavour) {
    let mut spares = Spares::start(flavour);
    let others = spares.servers.each_ref().map(variables_of);
    let (steps, rounds) = if is_long() { (20_000, 5) } else { (1_000, 1) };
    let rows = spares.rows();
    let configure = |config: NarrowsConfig| {
        let config = rows
            .iter()
            .fold(config, |config, (address, port)| config.server_at(1, address, *port, "max_connections=6"));
        config
            .monitor()
            .user("app", "app", "default_hostgroup=1")
            .rule(&format!("rule_id=1 active=1 {RULE} destination_hostgroup=1 apply=1"))
            // An account that no client uses.
            .variable("monitor_username", "sbtest")
            .variable("monitor_password", "sbtest")
            .variable("get_server_public_key", "true")
            .variable("shun_recovery_time_sec", "1")
            .variable("monitor_ping_interval", "250")
            .variable("monitor_ping_timeout", "500")
    };
    run_model_beside(flavour, (steps, CLIENTS), &others, configure, |narrows| spares.fail(narrows, rounds));
}

/// The servers that fail: two, of which the second can be cut off.
struct Spares {
    servers: [RealServer; 2],
    addresses: [String; 2],
    namespace: Option<Namespace>,
}

impl Spares {
    fn start(flavour: Flavour) -> Spares {
        let namespace = namespace();
        let loopback = "127.0.0.1".to_owned();
        let far = namespace.as_ref().map_or(loopback.clone(), |namespace| namespace.far().to_string());
        let addresses = [loopback, far];
        let server = |index: usize| {
            let address = &addresses[index];
            let server = prepared_server(flavour, CLIENTS, |options| {
                let options = options.option(&format!("--server-id={}", index + 1)).account("app", "app");
                // A killed server may have written half a page.
                let options = options.option("--innodb-doublewrite=ON");
                match namespace.as_ref().filter(|_| index == 1) {
                    Some(inside) => {
                        options.option(&format!("--bind-address=127.0.0.1,{address}")).inside(inside)
                    }
                    None => options,
                }
            });
            server.execute(&[
                "CREATE DATABASE chaos",
                "CREATE TABLE chaos.facts (id INT PRIMARY KEY, value INT NOT NULL)",
                &fill(FACTS),
            ]);
            server
        };
        let servers = std::thread::scope(|scope| {
            let second = scope.spawn(|| server(1));
            [server(0), second.join().expect("a server")]
        });
        Spares { servers, addresses, namespace }
    }
    /// Their addresses.
    fn rows(&self) -> [(String, u16); 2] {
        [0, 1].map(|index: usize| (self.addresses[index].clone(), self.servers[index].port()))
    }

    /// Runs all their faults this many times, alongside readers of our own.
    fn fail(&mut self, narrows: &Narrows, rounds: usize) {
        let load = Load::of_readers(narrows.endpoint());
        let pause = if is_long() { Duration::from_secs(5) } else { MOMENT };
        let back = |load: &Load, server: usize| {
            let since = Instant::now();
            wait_until("it gets reads again", || load.is_answered_by(server as u32 + 1, since));
        };
        for server in [0, 1] {
            back(&load, server);
        }
        for _ in 0..rounds {
            for server in [0, 1] {
                self.servers[server].kill();
                std::thread::sleep(pause);
                self.servers[server].restart();
                back(&load, server);
            }
            self.servers[0].freeze();
            std::thread::sleep(2 * pause);
            self.servers[0].thaw();
            back(&load, 0);
            if let Some(namespace) = &self.namespace {
                namespace.cut();
                std::thread::sleep(2 * pause);
                namespace.mend();
                back(&load, 1);
            }
        }
        let (tally, _) = load.stop();
        let (model, ours) = (reads_of(narrows, "username <> 'app'"), reads_of(narrows, "username = 'app'"));
        println!(
            "{rounds} rounds of faults, {model} reads of the model and {ours} others on the servers that failed, {} wrong, {} failed",
            tally.wrong.len(),
            tally.failures.len()
        );
        assert!(
            tally.wrong.is_empty() && tally.failures.is_empty(),
            "{:?} {:?}",
            tally.wrong,
            tally.failures
        );
        assert!(model > 0, "the clients of the model have read nothing there");
    }
}

/// How many statements ran on the servers that fail, as counted by Narrows.
fn reads_of(narrows: &Narrows, whose: &str) -> u64 {
    let mut admin = narrows.admin();
    let query =
        format!("SELECT SUM(count_star) FROM stats_mysql_query_digest WHERE hostgroup = 1 AND {whose}");
    admin.query(query).cell().and_then(|cell| cell.parse().ok()).unwrap_or(0)
}

/// How long a fault lasts if no client is supposed to wait.
const MOMENT: Duration = Duration::from_secs(1);
