//! Statements with a limit of lag (`max_lag_ms`, `min_epoch_ms`), with a real replica that applies everything late.

use std::time::{SystemTime, UNIX_EPOCH};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, RealServer, wait_until};

use crate::replicas::Replicas;
use crate::support::start;

/// How late the replica is, in seconds: less than the server may take to answer a client.
const DELAY_S: u32 = 8;

/// A primary, and a replica that is late.
struct Pair(Replicas);

impl Pair {
    fn start(flavour: Flavour) -> Pair {
        let pair = Pair(Replicas::start(flavour, 2, &["--binlog-format=ROW"]));
        pair.0.follow(1, 0);
        pair.primary().execute(&["CREATE DATABASE shop", "CREATE TABLE shop.t (n INT PRIMARY KEY)"]);
        pair.wait_for_rows("0");
        pair.0.delay(1, DELAY_S);
        pair
    }

    fn primary(&self) -> &RealServer {
        &self.0.nodes[0]
    }

    fn replica(&self) -> &RealServer {
        &self.0.nodes[1]
    }

    fn wait_for_rows(&self, count: &str) {
        let table = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop'";
        wait_until("the replica has the rows", || {
            self.replica().rows(table)[0][0].as_deref() == Some("1")
                && self.replica().rows("SELECT count(*) FROM shop.t")[0][0].as_deref() == Some(count)
        });
    }

    /// Reads go to hostgroup 1, where both are.
    fn config(&self) -> NarrowsConfig {
        NarrowsConfig::in_front_of(self.primary().port())
            .monitor()
            .variable("monitor_username", "sbtest")
            .variable("monitor_password", "sbtest")
            .variable("monitor_replication_lag_interval", "200")
            .variable("get_server_public_key", "true")
            .variable("connect_timeout_server_max", "30000")
            .rule("rule_id=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
            .server(1, self.primary().port(), "max_replication_lag=1000")
            .server(1, self.replica().port(), "max_replication_lag=1000")
    }
}

/// How many rows reads with this hint see, each number once.
fn seen(client: &mut RawClient, hint: &str) -> Vec<String> {
    let statement = format!("/* {hint} */ SELECT count(*) FROM shop.t");
    let ask = |_| {
        let answer = client.query(&statement);
        assert_eq!(answer.error(), None);
        answer.cell().expect("a count")
    };
    let mut all: Vec<String> = (0..30).map(ask).collect();
    all.sort();
    all.dedup();
    all
}

/// Waits until statements with this limit are routed by a lag of the replica that is within it, or not.
fn wait_for_route(narrows: &Narrows, pair: &Pair, hint: &str, is_eligible: bool) {
    let explain = format!("EXPLAIN ROUTE '/* {hint} */ SELECT count(*) FROM shop.t' AS sbtest");
    let (mut admin, replica) = (narrows.admin(), format!("127.0.0.1:{}", pair.replica().port()));
    wait_until("statements are routed by the lag", || {
        let rows = admin.query(&explain).text_rows();
        let mut lines = rows.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        let line = lines.find(|line| line.contains(&replica)).unwrap_or_default();
        line.contains("its lag was") && line.contains("max_lag_ms=") != is_eligible
    });
}

#[test]
fn a_late_replica_answers_only_statements_whose_limit_it_is_within() {
    for flavour in Flavour::both() {
        let pair = Pair::start(flavour);
        let narrows = start(&pair.config());
        let mut client = narrows.client();
        wait_for_route(&narrows, &pair, "max_lag_ms=900", true);
        client.query("INSERT INTO shop.t VALUES (1)");
        wait_for_route(&narrows, &pair, "max_lag_ms=900", false);
        assert_eq!(seen(&mut client, "max_lag_ms=900"), ["1"]);
        assert_eq!(seen(&mut client, "max_lag_ms=600000"), ["0", "1"]);
        assert_eq!(seen(&mut client, "no_hint=1"), ["0", "1"]);
        // A transaction stays where it has begun.
        pair.wait_for_rows("1");
        wait_for_route(&narrows, &pair, "max_lag_ms=900", true);
        client.query("INSERT INTO shop.t VALUES (2)");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        assert_eq!(seen(&mut client, &format!("min_epoch_ms={now}")), ["2"]);
    }
}

#[test]
fn a_statement_waits_for_a_late_replica_that_is_the_only_server() {
    for flavour in Flavour::both() {
        let pair = Pair::start(flavour);
        let replica = pair.replica().port();
        let config = pair.config().server(2, replica, "max_replication_lag=1000");
        let narrows = start(&config);
        let mut client = narrows.client();
        wait_for_route(&narrows, &pair, "max_lag_ms=900", true);
        client.query("INSERT INTO shop.t VALUES (1)");
        wait_for_route(&narrows, &pair, "hostgroup=2; max_lag_ms=900", false);
        assert_eq!(seen(&mut client, "hostgroup=2"), ["0"]);
        assert_eq!(seen(&mut client, "hostgroup=2; max_lag_ms=900"), ["1"]);
    }
}
