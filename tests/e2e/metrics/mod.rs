//! The metrics, as Prometheus and the dashboards see them.

mod dashboards;
mod prometheus;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RealServer, free_port, wait_until};
use serde_json::Value;

use crate::http::{enable, get};
use crate::support::start;
use prometheus::Prometheus;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// Sends statements of all kinds until `is_over`, from two clients, while a third one has a transaction open.
fn keep_busy(narrows: &Narrows, is_over: &AtomicBool) {
    let mut pinned = narrows.client();
    pinned.query("BEGIN");
    let mut clients = [narrows.client(), narrows.client()];
    while !is_over.load(Ordering::Relaxed) {
        for client in &mut clients {
            for statement in [
                "SELECT 1 /* cached */",
                "BEGIN",
                "SELECT 2",
                "COMMIT",
                "SELECT nothing FROM nowhere",
                "SET @a = 1",
                "DO SLEEP(0.01)",
            ] {
                client.query(statement);
            }
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn dashboards_and_alerts_find_what_they_ask_for() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(
        &NarrowsConfig::in_front_of(server.port())
            .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=10")
            .rule("rule_id=1, active=1, match_pattern=\"cached\", cache_ttl=1000, apply=1"),
    );
    let prometheus = Prometheus::start(enable(&narrows));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_busy(&narrows, &is_over));
        // The whole test is in here, so that the clients end with it, however it ends.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(&prometheus)));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = found {
            std::panic::resume_unwind(panic);
        }
    });
}

fn ask(prometheus: &Prometheus) {
    let rate = |selector: &str| prometheus.query(&format!("irate({selector}[15s])"));
    wait_until("there is a rate of statements", || {
        rate("proxysql_questions_total").is_ok_and(|found| !found.is_empty())
    });
    wait_until("there is a rate of errors", || {
        rate("proxysql_mysql_error_total").is_ok_and(|found| !found.is_empty())
    });
    let mut faults = Vec::new();
    for selector in dashboards::OF_GRAFANA.iter().chain(dashboards::OF_PMM) {
        if rate(selector).is_ok_and(|found| found.is_empty()) {
            faults.push(format!("no data: {selector}"));
        }
    }
    // Our own dashboard and alerts: every expression is accepted, and every metric with its labels exists.
    let own = expressions(&example("grafana/narrows.json"));
    assert!(own.len() > 40, "{}", own.len());
    let alerts = fs::read_to_string(example("alerts.yml")).expect("a file");
    let alerts: Vec<String> =
        alerts.lines().filter_map(|line| Some(line.trim().strip_prefix("expr: ")?.to_owned())).collect();
    assert_eq!(alerts.len(), 19);
    for expression in own.iter().chain(&alerts) {
        if let Err(error) = prometheus.query(expression) {
            faults.push(format!("{expression}: {error}"));
        }
    }
    let existing =
        prometheus.query("group by (__name__) (last_over_time({job='narrows'}[1m]))").expect("names");
    let existing: BTreeSet<&str> =
        existing.iter().filter_map(|one| one["metric"]["__name__"].as_str()).collect();
    for expression in own.iter().chain(&alerts) {
        for name in names(expression) {
            // There was no such event in this test.
            let is_rare = RARE.iter().any(|rare| name.starts_with(rare));
            if !existing.contains(&*name) && !is_rare {
                faults.push(format!("{expression}: there is no {name}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Metrics whose time series begin with an event, or are those of members of a fleet.
const RARE: [&str; 4] = [
    "narrows_hostgroup_unavailable_total",
    "narrows_server_changes_total",
    "narrows_monitor_check_failing",
    "narrows_fleet_mismatch",
];

/// The expressions of a dashboard, with its variables replaced.
fn expressions(file: &Path) -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(expression) = fields.get("expr").and_then(Value::as_str) {
                    found.push(expression.to_owned());
                }
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(file).expect("a file");
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text).expect("JSON"), &mut found);
    let replaced = |text: String| {
        text.replace("$__rate_interval", "15s").replace("$instance", ".*").replace("$hostgroup", ".*")
    };
    found.into_iter().map(replaced).collect()
}

/// The metrics that an expression names.
fn names(expression: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(|letter| !is_part(letter));
    let is_ours =
        |word: &&str| ["narrows_", "proxysql_", "process_"].iter().any(|start| word.starts_with(start));
    words.filter(is_ours).map(ToOwned::to_owned).collect()
}

#[test]
fn promtool_finds_nothing_but_names_that_others_have_chosen() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let page = get(enable(&narrows), "/metrics").body;
    let said = promtool(&["check", "metrics"], &page);
    let ours: Vec<&str> = said.lines().filter(|line| !line.starts_with("proxysql_")).collect();
    assert!(ours.is_empty() && said.lines().count() < 20, "{said}");
    let said = promtool(&["check", "rules", &example("alerts.yml").to_string_lossy()], "");
    assert!(said.contains("SUCCESS: 19 rules found"), "{said}");
    let said = promtool(&["check", "config", &example("prometheus.yml").to_string_lossy()], "");
    assert!(said.contains("prometheus.yml is valid prometheus config") && !said.contains("FAILED"), "{said}");
}

fn promtool(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed (scripts/setup.sh metrics)");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn series_above_the_limit_are_left_out_and_counted() {
    let mut config = NarrowsConfig::in_front_of(free_port());
    for port in 1..=40 {
        config = config.server(1, port, "");
    }
    let narrows = start(&config);
    let port = enable(&narrows);
    let mut admin = narrows.admin();
    admin.query("SET admin-metrics_max_series = 5");
    admin.query("LOAD ADMIN VARIABLES TO RUNTIME");
    let page = get(port, "/metrics").body;
    let lines = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(lines("proxysql_connpool_conns_status{"), 5, "{page}");
    assert_eq!(lines("narrows_server_connect_duration_seconds_count{"), 5);
    let left_out = page.lines().find_map(|line| line.strip_prefix("narrows_metrics_series_left_out "));
    assert!(
        left_out.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 100)),
        "{left_out:?}"
    );
}

#[test]
fn a_wait_and_a_long_answer_are_in_the_histograms() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::new().user("sbtest", "sbtest", "default_hostgroup=0").server(
        0,
        server.port(),
        "max_connections=1",
    );
    let narrows = start(&config);
    let port = enable(&narrows);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| narrows.client().query("SELECT SLEEP(0.3)"));
        }
    });
    assert!(began.elapsed() > Duration::from_millis(600), "one waits for the other");
    let page = get(port, "/metrics").body;
    let value = |name: &str| -> f64 {
        let line =
            page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let wait = value("narrows_connection_wait_duration_seconds_sum{hostgroup=\"0\"}");
    assert!((0.2..20.0).contains(&wait), "{wait}");
    let statements = value("narrows_statement_duration_seconds_sum{hostgroup=\"0\"}");
    assert!((0.9..20.0).contains(&statements), "{statements}");
    assert_eq!(value("narrows_statement_duration_seconds_count{hostgroup=\"0\"}"), 2.0);
    assert_eq!(value("narrows_statement_duration_seconds_bucket{hostgroup=\"0\",le=\"0.25\"}"), 0.0);
    let answers = value("narrows_server_answer_duration_seconds_sum{");
    let first_bytes = value("narrows_server_first_byte_duration_seconds_sum{");
    assert!(answers >= 0.6 && first_bytes >= 0.6 && first_bytes <= answers, "{answers} {first_bytes}");
    assert!(value("narrows_server_connect_duration_seconds_count{") >= 1.0);
}

#[test]
fn the_page_of_metrics_lists_each_with_its_meaning() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let page = get(enable(&narrows), "/metrics").body;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let docs = fs::read_to_string(docs).expect("a page");
    let helps = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let of_exporter = |name: &str| {
        [
            "mysql_status",
            "stats_memory",
            "connection_pool",
            "runtime_servers",
            "processlist",
            "mysql_command",
            "up",
        ]
        .iter()
        .any(|part| name.starts_with(&format!("proxysql_{part}")) && !name.starts_with("proxysql_uptime"))
    };
    let mut faults = Vec::new();
    let mut listed = 0;
    for (name, help) in helps.filter(|(name, _)| !of_exporter(name)) {
        listed += 1;
        let is_there = |line: &&str| {
            line.starts_with(&format!("| `{name}` |")) && line.ends_with(&format!("| {help} |"))
        };
        if docs.lines().filter(is_there).count() != 1 {
            faults.push(format!("{name}: {help}"));
        }
    }
    let rows = docs.lines().filter(|line| line.starts_with("| `") && !of_exporter(&line[3..])).count();
    assert!(faults.is_empty() && rows == listed, "{rows} rows, {listed} metrics\n{}", faults.join("\n"));
}
