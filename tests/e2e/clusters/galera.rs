//! A real Galera trio: what leaves, what dies, and what comes back.

use std::path::Path;
use std::time::Duration;

use narrows_testkit::wait_until;
use rustix::process::Signal;

use super::{INTERVAL, Scene, Trio};

#[test]
fn a_galera_trio_always_has_one_writer() {
    if !Path::new("/usr/lib/galera/libgalera_smm.so").exists() || !Path::new("/usr/bin/rsync").exists() {
        println!("not tested: galera-4 or rsync is not installed");
        return;
    }
    let mut trio = Trio::start(&["--galera"], |text| {
        let interval = format!("monitor_galera_healthcheck_interval = {}", INTERVAL.as_millis());
        let timeout = "monitor_galera_healthcheck_timeout = 400\nmonitor_ping_interval = 1000";
        text.replace("monitor_galera_healthcheck_interval = 1000", &format!("{interval}\n{timeout}"))
    });
    trio.wait_until_healthy();
    what_is_shown(&mut trio);
    maintenance(&mut trio);
    refused_queries(&mut trio);
    a_locked_donor(&mut trio);
    a_component_without_a_majority(&mut trio);
    a_frozen_writer(&mut trio);
    a_killed_writer(&mut trio);
    a_node_that_comes_and_goes(&mut trio);
}

/// The tables and the statements that show the cluster.
fn what_is_shown(trio: &mut Trio) {
    let rows = trio.ask("SELECT writer_hostgroup, max_writers, active FROM runtime_mysql_galera_hostgroups");
    assert_eq!(rows, ["0 1 1"]);
    wait_until("all are heard", || {
        trio.ask("SHOW NARROWS STATUS").iter().all(|it| !it.contains("not been heard"))
    });
    let log = "SELECT DISTINCT primary_partition, read_only, wsrep_local_state, wsrep_desync, wsrep_reject_queries, \
               wsrep_sst_donor_rejects_queries, pxc_maint_mode, error FROM monitor.mysql_server_galera_log";
    wait_until("checks have results", || trio.ask(log) == ["YES NO 4 NO NO NO NO NULL"]);
    let status = trio.ask("SHOW NARROWS STATUS");
    let writers =
        status.iter().filter(|line| line.starts_with("Narrows_galera_0_") && line.contains(" writer for "));
    assert_eq!(writers.count(), 1, "{status:#?}");
    let route = trio.ask("EXPLAIN ROUTE 'INSERT INTO t VALUES (1)' AS app");
    assert!(route.iter().any(|line| line.contains("writer of galera 0 it can be written to")), "{route:#?}");
    assert_eq!((trio.nodes_in(1).len(), trio.nodes_in(2).len()), (2, 2), "backup writers are read from");
}

/// The operator takes the writer out of flow control: no client notices.
fn maintenance(trio: &mut Trio) {
    let mut scene = Scene::begin("wsrep_desync=ON", trio);
    let old = scene.writer;
    let mut client = scene.trio.client();
    let mut run = |statement: &str| {
        let answer = client.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        answer
    };
    run("CREATE TABLE app.kept (n INT PRIMARY KEY, node INT)");
    run("BEGIN");
    run("INSERT INTO app.kept VALUES (1, 0)");
    scene.trio.on(old, &["SET GLOBAL wsrep_desync = ON"]);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    assert!(took <= 2 * INTERVAL, "{took:?}");
    // The transaction finishes where it began.
    run("INSERT INTO app.kept VALUES (2, 0)");
    run("COMMIT");
    // The new writer applies it a moment later than the old one.
    wait_until("the new writer has the transaction", || {
        run("SELECT COUNT(*) FROM app.kept FOR UPDATE").cell().as_deref() == Some("2")
    });
    let status = scene.trio.ask("SHOW NARROWS STATUS").join("\n");
    assert!(status.contains("offline_soft for") && status.contains("wsrep_desync is ON"), "{status}");
    let pool =
        scene.trio.ask("SELECT hostgroup, status FROM stats_mysql_connection_pool WHERE status != 'ONLINE'");
    assert!(pool.contains(&"0 OFFLINE_SOFT".to_owned()), "{pool:?}");
    scene.trio.on(old, &["SET GLOBAL wsrep_desync = OFF"]);
    let trio = returns_as_backup(scene, old, &[]);
    trio.on(0, &["DROP TABLE app.kept"]);
}

/// The writer refuses every statement: those of clients wait for another one.
fn refused_queries(trio: &mut Trio) {
    let mut scene = Scene::begin("wsrep_reject_queries=ALL", trio);
    let old = scene.writer;
    scene.trio.on(old, &["SET GLOBAL wsrep_reject_queries = ALL"]);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    assert!(took <= 2 * INTERVAL, "{took:?}");
    scene.trio.on(old, &["SET GLOBAL wsrep_reject_queries = NONE"]);
    returns_as_backup(scene, old, &[]);
}

/// The writer is locked, as it is while it is a donor.
fn a_locked_donor(trio: &mut Trio) {
    let mut scene = Scene::begin("FLUSH TABLES WITH READ LOCK", trio);
    let old = scene.writer;
    let mut lock = scene.trio.client_of(old);
    scene.faults_now();
    assert!(lock.query("FLUSH TABLES WITH READ LOCK").error().is_none());
    let (_, took) = scene.wait_for_another();
    assert!(took <= 2 * INTERVAL, "{took:?}");
    assert!(lock.query("UNLOCK TABLES").error().is_none());
    returns_as_backup(scene, old, &[]);
}

/// The writer is cut off from the others, and still answers clients.
fn a_component_without_a_majority(trio: &mut Trio) {
    let mut scene = Scene::begin("partition", trio);
    let old = scene.writer;
    scene.trio.on(old, &["SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'"]);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    println!("partition: another writer after {took:?}");
    let log = scene.trio.narrows.log();
    // The node itself may say it first, or the other two.
    let reasons = ["wsrep_cluster_status is not Primary", "the other nodes have excluded it"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
    scene.trio.on(old, &["SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'"]);
    // On a busy machine it has missed much, and the writer that gives it the data is locked, as below.
    scene.most_nodes = 3;
    returns_as_backup(scene, old, &[2013, 1180]);
}

/// The writer hangs: its kernel accepts connections, and nobody answers.
fn a_frozen_writer(trio: &mut Trio) {
    let mut scene = Scene::begin("SIGSTOP", trio);
    let old = scene.writer;
    scene.trio.signal(old, Signal::STOP);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    println!("SIGSTOP: another writer after {took:?}");
    assert!(took <= 3 * INTERVAL + Duration::from_secs(1), "{took:?}");
    std::thread::sleep(Duration::from_secs(1));
    scene.trio.signal(old, Signal::CONT);
    returns_as_backup(scene, old, &[2013]);
}

/// The writer dies, and joins again without its data.
fn a_killed_writer(trio: &mut Trio) {
    let mut scene = Scene::begin("kill -9", trio);
    let old = scene.writer;
    scene.trio.signal(old, Signal::KILL);
    scene.faults_now();
    let (_, took) = scene.wait_for_another();
    println!("kill -9: another writer after {took:?}");
    assert!(took <= 2 * INTERVAL, "{took:?}");
    std::thread::sleep(Duration::from_secs(1));
    // If the writer is the one that gives it the data, it is locked, and the third node takes its place.
    scene.most_nodes = 3;
    scene.trio.start_again(old, true);
    returns_as_backup(scene, old, &[2013]);
}

/// A node that leaves and returns every three seconds is not the writer each time it is there.
fn a_node_that_comes_and_goes(trio: &mut Trio) {
    let scene = Scene::begin("every three seconds", trio);
    let old = scene.writer;
    // The long form lasts a minute.
    let rounds = if std::env::var("NARROWS_CLUSTER_CHAOS").as_deref() == Ok("long") { 20 } else { 6 };
    for round in 0..rounds {
        let value = if round % 2 == 0 { "ON" } else { "OFF" };
        scene.trio.on(old, &[&format!("SET GLOBAL wsrep_desync = {value}")]);
        std::thread::sleep(Duration::from_secs(3));
    }
    let written = scene.end(Duration::ZERO);
    assert_eq!((written.order.len(), written.errors.len(), written.lost), (2, 0, 0), "{written}");
}

/// Waits until the former writer is a backup writer, and not the writer; no write was lost, and none went to two nodes.
fn returns_as_backup<'a>(scene: Scene<'a>, old: usize, allowed: &[u16]) -> &'a mut Trio {
    let name = scene.name;
    let Scene { trio, ledger, most_nodes, .. } = scene;
    wait_until(&format!("{name}: the node is back"), || trio.nodes_in(2).contains(&old));
    std::thread::sleep(2 * INTERVAL);
    assert_ne!(trio.writer(), Some(old), "{name}: it took the role again");
    let written = ledger.end(trio);
    println!("{name}: {written}");
    let unexpected: Vec<_> = written.errors.iter().filter(|(code, _)| !allowed.contains(code)).collect();
    assert!(unexpected.is_empty(), "{name}: {unexpected:?}");
    assert_eq!((written.lost, &written.late), (0, &Vec::new()), "{name}");
    assert!((2..=most_nodes).contains(&written.order.len()), "{name}: {written}");
    trio
}
