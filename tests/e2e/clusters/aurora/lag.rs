//! Statements with a limit of lag: `max_lag_ms` and `min_epoch_ms`.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

/// What nodes report; with `add_lag_ms`, 30 ms more is estimated.
const FEW_MS: &str = "16.4";
const MANY_MS: &str = "470.0";

/// Makes the second and the third node report these lags, and waits until statements are routed by them.
fn report(scene: &mut Scene, lags: [&'static str; 2]) {
    for (node, lag) in [1, 2].into_iter().zip(lags) {
        let mut says = Says::healthy(node, 0);
        says.known[node].1 = lag;
        scene.nodes[node].say(says.conversation());
    }
    let estimates = lags.map(|lag| if lag == FEW_MS { "its lag was 47 ms" } else { "its lag was 500 ms" });
    let explain = format!("EXPLAIN ROUTE '{NEAR}' AS sbtest");
    wait_until("statements are routed by the lags", || {
        let route = scene.ask(&explain);
        [1, 2].into_iter().zip(estimates).all(|(node, estimate)| {
            let is_it = |line: &&String| line.contains(&format!("{}{DOMAIN}", IDS[node]));
            route.iter().find(is_it).is_some_and(|line| line.contains(estimate))
        })
    });
}

fn client(scene: &Scene) -> RawClient {
    RawClient::open(&Endpoint::local(scene.narrows.port()), &Login::new("sbtest", "sbtest"))
}

/// Which nodes answer a statement.
fn who(client: &mut RawClient, statement: &str) -> Vec<String> {
    let ask = |_| {
        let answer = client.query(statement);
        assert_eq!(answer.error(), None, "{statement}");
        answer.cell().expect("a node")
    };
    (0..40).map(ask).collect::<BTreeSet<String>>().into_iter().collect()
}

fn counter(scene: &mut Scene, name: &str) -> u64 {
    let question = format!("SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name = '{name}'");
    scene.ask(&question)[0].parse().expect("a number")
}

#[test]
fn a_statement_goes_to_readers_within_its_limit_and_waits_while_there_are_none() {
    let mut scene = Scene::begin_with("", &[("connect_timeout_server_max", "600")], ["0", "1", "1"]);
    let mut client = client(&scene);
    report(&mut scene, [FEW_MS, FEW_MS]);
    assert_eq!(who(&mut client, NEAR), [IDS[1], IDS[2]]);
    report(&mut scene, [MANY_MS, FEW_MS]);
    assert_eq!(who(&mut client, NEAR), [IDS[2]]);
    assert_eq!(who(&mut client, READ), [IDS[1], IDS[2]]);
    report(&mut scene, [MANY_MS, MANY_MS]);
    let error = client.query(NEAR).error().expect("no reader is within the limit");
    assert_eq!(error.code, 9001);
    let why = "its lag was 500 ms when it was checked";
    assert!(
        error.message.contains(why) && error.message.contains("the statement has max_lag_ms=100"),
        "{error:?}"
    );
    scene.narrows.wait_for_log(0, |log| log.contains("cause=\"lag\"") || log.contains("cause=lag"));
    assert_eq!(who(&mut client, READ), [IDS[1], IDS[2]]);
    // Who waits continues when a check finds a smaller lag, and holds up nobody until then.
    scene.ask("SET mysql-connect_timeout_server_max = 20000");
    scene.ask("LOAD MYSQL VARIABLES TO RUNTIME");
    let delayed = counter(&mut scene, "queries_with_max_lag_ms__delayed");
    let mut other = self::client(&scene);
    let waiting = std::thread::spawn(move || other.query(NEAR).cell());
    wait_until("a statement waits", || {
        counter(&mut scene, "queries_with_max_lag_ms__delayed") == delayed + 1
    });
    assert_eq!(who(&mut client, READ), [IDS[1], IDS[2]]);
    report(&mut scene, [FEW_MS, MANY_MS]);
    assert_eq!(waiting.join().expect("a client").as_deref(), Some(IDS[1]));
    assert!(counter(&mut scene, "queries_with_max_lag_ms__total_wait_time_us") > 600_000);
}

#[test]
fn a_statement_with_a_point_in_time_waits_for_a_check_after_it() {
    let mut scene = Scene::begin("");
    report(&mut scene, [FEW_MS, MANY_MS]);
    let mut client = client(&scene);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    // Nobody answers these as rows: only where they arrive matters.
    let statement = format!("/* hostgroup=1; min_epoch_ms={} */ DO 1", now + 30);
    client.query(&statement);
    let arrived = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let got: Vec<usize> = (0..3)
        .filter(|node| scene.nodes[*node].received().iter().any(|received| received.body == statement))
        .collect();
    assert_eq!(got.len(), 1, "{got:?}");
    // That node said 47 ms at the time that counted, or 500.
    assert!(arrived >= now + 30 + 47, "{now} {arrived}");
    let old = format!("EXPLAIN ROUTE '/* min_epoch_ms={} */ DO 1'", now - 700_000);
    assert!(scene.ask(&old).iter().any(|line| line.contains("at most 600000 ms from now")));
}

#[test]
fn the_writer_of_aurora_is_spared_while_enough_replicas_are_within_the_limit() {
    let mut scene = Scene::begin_with("writer_is_also_reader=1", &[], ["0+1", "1", "1"]);
    let mut client = client(&scene);
    report(&mut scene, [FEW_MS, FEW_MS]);
    assert_eq!(who(&mut client, READ), IDS);
    assert_eq!(who(&mut client, NEAR), [IDS[1], IDS[2]]);
    let route = scene.ask(&format!("EXPLAIN ROUTE '{NEAR}' AS sbtest"));
    let why = "mysql-aurora_max_lag_ms_only_read_from_replicas";
    assert!(route.iter().any(|line| line.contains(why)), "{route:#?}");
    report(&mut scene, [FEW_MS, MANY_MS]);
    assert_eq!(who(&mut client, NEAR), [IDS[0], IDS[1]]);
    scene.ask("SET mysql-aurora_max_lag_ms_only_read_from_replicas = 1");
    scene.ask("LOAD MYSQL VARIABLES TO RUNTIME");
    wait_until("one replica is enough", || who(&mut client, NEAR) == [IDS[1]]);
    report(&mut scene, [MANY_MS, MANY_MS]);
    assert_eq!(who(&mut client, NEAR), [IDS[0]]);
}
