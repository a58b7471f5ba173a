//! Servers that crash, hang, are cut off, are full and change roles, under clients that never stop. What is counted is what
//! must never be: wrong answers, acknowledged writes that are lost, writes on two primaries, reads that fail.
//!
//! `NARROWS_CHAOS=long` has each fault last as long as an operator would see it; otherwise it is seconds.

mod cluster;
mod load;
mod of_model;
mod sysbench;
mod verdict;

use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Flavour, Login, Narrows, RawClient};

use cluster::{Cluster, wait_until};
use load::Load;
use sysbench::Sysbench;
use verdict::{Change, Report, Times};

#[test]
fn clients_go_on_whatever_becomes_of_servers() {
    run_chaos(Flavour::MariaDb, &[kill, freeze, cut_off, exhaust, flap, fail_over_and_back]);
}

#[test]
fn clients_go_on_whatever_becomes_of_servers_of_mysql9() {
    if Flavour::both().contains(&Flavour::MySql9) {
        run_chaos(Flavour::MySql9, &[kill, freeze, cut_off, exhaust, flap, fail_over_and_back]);
    }
}

/// Something that goes wrong, and what comes of it.
type Fault = fn(&mut Cluster, &mut Report);

fn run_chaos(flavour: Flavour, faults: &[Fault]) {
    let mut cluster = Cluster::start(flavour);
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &cluster.config());
    let load = (Load::start(narrows.endpoint()), Sysbench::start(narrows.port()));
    let mut report = Report::new(load, cluster.nodes[cluster.primary].id);
    wait_for_reads_of(&cluster, &report, &cluster.replicas(), Instant::now());
    faults.iter().for_each(|fault| fault(&mut cluster, &mut report));
    let failures = report.finish(&cluster);
    assert!(narrows.process().try_wait().is_none(), "Narrows has ended");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn is_long() -> bool {
    std::env::var("NARROWS_CHAOS").as_deref() == Ok("long")
}

fn kill(cluster: &mut Cluster, report: &mut Report) {
    report.scenario("a replica is killed and comes back", |load| {
        restart_replica(cluster, load, if is_long() { Duration::from_secs(5) } else { MOMENT })
    });
}

fn freeze(cluster: &mut Cluster, report: &mut Report) {
    report.scenario("a replica is stopped for a while", |load| {
        let replica = cluster.replicas()[0];
        cluster.nodes[replica].server.freeze();
        std::thread::sleep(if is_long() { Duration::from_secs(10) } else { 3 * MOMENT });
        cluster.nodes[replica].server.thaw();
        recovered(cluster, load, replica)
    });
}

fn cut_off(cluster: &mut Cluster, report: &mut Report) {
    let Some(namespace) = &cluster.namespace else {
        return report.skip("a replica is cut off from the network");
    };
    report.scenario("a replica is cut off from the network", |load| {
        namespace.cut();
        std::thread::sleep(if is_long() { Duration::from_secs(20) } else { 3 * MOMENT });
        namespace.mend();
        recovered(cluster, load, cluster.nodes.len() - 1)
    });
}

fn exhaust(cluster: &mut Cluster, report: &mut Report) {
    report.scenario("a replica has no connections left", |load| take_all_places(cluster, load, is_long()));
}

fn flap(cluster: &mut Cluster, report: &mut Report) {
    // MySQL takes several seconds to start.
    let times = match cluster.flavour {
        _ if is_long() => 60,
        Flavour::MariaDb => 5,
        Flavour::MySql9 => 2,
    };
    report.scenario("a replica is killed every second", |load| {
        for _ in 0..times {
            restart_replica(cluster, load, Duration::ZERO);
            std::thread::sleep(MOMENT);
        }
        recovered(cluster, load, cluster.replicas()[0])
    });
}

fn fail_over_and_back(cluster: &mut Cluster, report: &mut Report) {
    for _ in 0..if is_long() { 5 } else { 1 } {
        report.scenario("the primary is killed, and another takes its place", |load| {
            fail_over(cluster, load, if is_long() { Duration::from_secs(5) } else { MOMENT })
        });
    }
}

fn restart_replica(cluster: &mut Cluster, load: &mut Load, pause: Duration) -> Times {
    let replica = cluster.replicas()[0];
    cluster.nodes[replica].server.kill();
    std::thread::sleep(pause);
    cluster.nodes[replica].server.restart();
    cluster.follow(replica);
    recovered(cluster, load, replica)
}

/// Every place of a replica is taken by others, while more clients come.
fn take_all_places(cluster: &Cluster, load: &mut Load, long: bool) -> Times {
    let replica = cluster.replicas()[0];
    let node = &cluster.nodes[replica];
    let address = format!("{}:{}", node.address, node.server.port());
    let endpoint = Endpoint::Tcp(address.parse().expect("an address and a port"));
    let hog = || {
        let mut client = RawClient::connect(&endpoint);
        client.login(&Login::new("app", "app")).map(|_| client)
    };
    let hogs: Vec<RawClient> = std::iter::repeat_with(hog).map_while(Result::ok).collect();
    load.add_readers(8);
    std::thread::sleep(if long { Duration::from_secs(10) } else { 2 * MOMENT });
    drop(hogs);
    recovered(cluster, load, replica)
}

/// The primary is killed; what an orchestrator does then.
fn fail_over(cluster: &mut Cluster, load: &mut Load, pause: Duration) -> Times {
    let old = cluster.primary;
    let (killed, ends) = (Instant::now(), load.next_number());
    cluster.nodes[old].server.kill();
    std::thread::sleep(pause);
    cluster.promote();
    let (promoted, begins) = (Instant::now(), load.next_number());
    let change =
        Change { ends, begins, server: cluster.nodes[cluster.primary].id, during: (killed, promoted) };
    wait_until("writes go on", || load.has_written_since(promoted));
    let writes = Some(killed.elapsed());
    // It comes back read-only, as it is configured, and without knowing of the other.
    cluster.bring_back(old, pause);
    Times { writes, change: Some(change), ..recovered(cluster, load, old) }
}

/// Waits until a server that is well again answers reads.
fn recovered(cluster: &Cluster, load: &Load, server: usize) -> Times {
    let since = Instant::now();
    let id = cluster.nodes[server].id;
    let reads = wait_until("a server that is well again gets reads", || load.is_answered_by(id, since));
    Times { reads, ..Times::default() }
}

fn wait_for_reads_of(cluster: &Cluster, report: &Report, servers: &[usize], since: Instant) {
    for server in servers {
        let id = cluster.nodes[*server].id;
        wait_until("all replicas get reads", || report.load().is_answered_by(id, since));
    }
}

/// How long a fault lasts where nobody is to wait for it.
const MOMENT: Duration = Duration::from_secs(1);
