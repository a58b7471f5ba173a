//! Servers that crash, hang, are cut off, are full and change roles, under clients that never stop. What is counted is what
//! must never be: wrong answers, acknowledged writes that are lost, writes on two primaries, reads that fail.
//!
//! `NARROWS_CHAOS=long` has each fault last as long as an operator would see it; otherwise it is seconds.

mod cluster;
mod load;
mod verdict;

use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, Narrows, RawClient};

use cluster::{Cluster, wait_until};
use load::Load;
use verdict::{Change, Report, Times};

#[test]
fn clients_go_on_whatever_becomes_of_servers() {
    let long = std::env::var("NARROWS_CHAOS").as_deref() == Ok("long");
    let mut cluster = Cluster::start();
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &cluster.config());
    let load = Load::start(narrows.endpoint());
    let mut report = Report::new(load, cluster.nodes[cluster.primary].id);
    wait_for_reads_of(&cluster, &report, &cluster.replicas(), Instant::now());

    report.scenario("a replica is killed and comes back", |load| {
        restart_replica(&mut cluster, load, if long { Duration::from_secs(5) } else { MOMENT })
    });
    report.scenario("a replica is stopped for a while", |load| {
        let replica = cluster.replicas()[0];
        cluster.nodes[replica].server.freeze();
        std::thread::sleep(if long { Duration::from_secs(10) } else { 3 * MOMENT });
        cluster.nodes[replica].server.thaw();
        recovered(&cluster, load, replica)
    });
    if let Some(namespace) = &cluster.namespace {
        report.scenario("a replica is cut off from the network", |load| {
            namespace.cut();
            std::thread::sleep(if long { Duration::from_secs(20) } else { 3 * MOMENT });
            namespace.mend();
            recovered(&cluster, load, cluster.nodes.len() - 1)
        });
    } else {
        report.skip("a replica is cut off from the network");
    }
    report.scenario("a replica has no connections left", |load| exhaust(&cluster, load, long));
    report.scenario("a replica is killed every second", |load| {
        for _ in 0..if long { 60 } else { 5 } {
            restart_replica(&mut cluster, load, Duration::ZERO);
            std::thread::sleep(MOMENT);
        }
        recovered(&cluster, load, cluster.replicas()[0])
    });
    for _ in 0..if long { 5 } else { 1 } {
        report.scenario("the primary is killed, and another takes its place", |load| {
            fail_over(&mut cluster, load, if long { Duration::from_secs(5) } else { MOMENT })
        });
    }

    let failures = report.finish(&cluster);
    assert!(narrows.process().try_wait().is_none(), "Narrows has ended");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
fn exhaust(cluster: &Cluster, load: &mut Load, long: bool) -> Times {
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
    cluster.nodes[old].server.restart();
    std::thread::sleep(pause);
    cluster.follow(old);
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
