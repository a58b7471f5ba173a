//! Servers that crash, hang, are cut off, are full and change roles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Flavour, Login, RawClient, wait_until};

use super::cluster::Cluster;
use super::load::Load;
use super::report::{Change, Excuse, Report, Times, needs_primary};
use super::{Scene, is_long};

pub fn kill(scene: &mut Scene, report: &mut Report) {
    report.scenario("a replica is killed and comes back", |load| {
        restart_replica(&mut scene.cluster, load, if is_long() { Duration::from_secs(5) } else { MOMENT })
    });
}

pub fn freeze(scene: &mut Scene, report: &mut Report) {
    report.scenario("a replica is stopped for a while", |load| {
        let cluster = &mut scene.cluster;
        let replica = cluster.replicas()[0];
        cluster.nodes[replica].server.freeze();
        std::thread::sleep(if is_long() { Duration::from_secs(10) } else { 3 * MOMENT });
        cluster.nodes[replica].server.thaw();
        recovered(cluster, load, replica)
    });
}

pub fn cut_off(scene: &mut Scene, report: &mut Report) {
    let cluster = &scene.cluster;
    let Some(namespace) = &cluster.namespace else {
        return report.skip("a replica is cut off from the network");
    };
    let cut = || {
        namespace.cut();
        std::thread::sleep(if is_long() { Duration::from_secs(20) } else { 3 * MOMENT });
        namespace.mend();
    };
    let last = cluster.nodes.len() - 1;
    if cluster.primary != last {
        return report.scenario("a replica is cut off from the network", |load| {
            cut();
            recovered(cluster, load, last)
        });
    }
    // There is one such network, and the primary may now be in it.
    report.scenario("the primary is cut off from the network", |load| {
        let from = Instant::now();
        cut();
        let mended = Instant::now();
        wait_until("writes continue", || load.has_written_since(mended));
        let writes = Some(from.elapsed());
        let excuses = vec![Excuse { during: (from, Instant::now()), covers: needs_primary }];
        Times { writes, excuses, ..recovered(cluster, load, last) }
    });
}

pub fn exhaust(scene: &mut Scene, report: &mut Report) {
    report.scenario("a replica has no connections left", |load| {
        take_all_places(&scene.cluster, load, is_long())
    });
}

pub fn flap(scene: &mut Scene, report: &mut Report) {
    let cluster = &mut scene.cluster;
    // MySQL takes several seconds to start.
    let times = match cluster.flavour {
        _ if is_long() => 15,
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

pub fn fail_over_and_back(scene: &mut Scene, report: &mut Report) {
    // The former runtime configuration would be loaded.
    let bursts = Arc::clone(&scene.bursts);
    let _no_loads = bursts.pause();
    report.scenario("the primary is killed, and another takes its place", |load| {
        fail_over(&mut scene.cluster, load, if is_long() { Duration::from_secs(5) } else { MOMENT })
    });
}

fn restart_replica(cluster: &mut Cluster, load: &mut Load, pause: Duration) -> Times {
    let replica = cluster.replicas()[0];
    cluster.wait_for_acknowledgers();
    cluster.nodes[replica].server.kill();
    std::thread::sleep(pause);
    cluster.nodes[replica].server.restart();
    cluster.follow(replica);
    recovered(cluster, load, replica)
}

/// Others use all connections of a replica, while more clients connect.
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
    load.remove_readers();
    recovered(cluster, load, replica)
}

/// The primary is killed; what an orchestrator does then.
fn fail_over(cluster: &mut Cluster, load: &mut Load, pause: Duration) -> Times {
    let old = cluster.primary;
    cluster.wait_for_acknowledgers();
    let (killed, ends) = (Instant::now(), load.first_unanswered());
    cluster.nodes[old].server.kill();
    std::thread::sleep(pause);
    cluster.promote();
    let (promoted, begins) = (Instant::now(), load.next_number());
    let change = Change { ends, begins, server: cluster.nodes[cluster.primary].id };
    let excuses = vec![Excuse { during: (killed, promoted), covers: needs_primary }];
    wait_until("writes continue", || load.has_written_since(promoted));
    let writes = Some(killed.elapsed());
    // It comes back read-only, as configured, and does not know about the other one.
    cluster.bring_back(old, pause);
    Times { writes, change: Some(change), excuses, ..recovered(cluster, load, old) }
}

/// Waits until a server that has recovered answers reads.
pub fn recovered(cluster: &Cluster, load: &Load, server: usize) -> Times {
    let since = Instant::now();
    let id = cluster.nodes[server].id;
    let reads = wait_until("a server that has recovered gets reads", || load.is_answered_by(id, since));
    Times { reads, ..Times::default() }
}

pub fn wait_for_reads_of(cluster: &Cluster, load: &Load, servers: &[usize], since: Instant) {
    for server in servers {
        let id = cluster.nodes[*server].id;
        wait_until("all replicas get reads", || load.is_answered_by(id, since));
    }
}

/// How long a fault lasts if no client is supposed to wait.
pub const MOMENT: Duration = Duration::from_secs(1);
