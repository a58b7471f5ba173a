//! Versions of the configuration: plans, and what they change; the way back; what is left after a death in the middle.
//!
//! `NARROWS_CONFIG_PAIRS` sets the number of random configurations (1,000 take a few minutes), `NARROWS_STATEMENTS` that of the statements
//! that are compared with forecasts, and `NARROWS_SEED` generates others.

mod crash;
mod forecast;
mod generated;
mod history;
mod in_use;
mod owner;
mod plans;
mod random;

use std::collections::BTreeMap;

use narrows_testkit::RawClient;

/// The contents of every layer, by table, each row as its text, sorted.
type Layers = BTreeMap<String, Vec<String>>;

/// The tables that the generated configurations have.
const TABLES: [&str; 5] = [
    "mysql_servers",
    "mysql_users",
    "mysql_query_rules",
    "mysql_query_rules_fast_routing",
    "mysql_hostgroup_attributes",
];

fn layers(admin: &mut RawClient, names: &[&str]) -> Layers {
    let mut layers = Layers::new();
    for layer in names {
        for table in TABLES.iter().chain(&["global_variables"]) {
            let name = format!("{layer}{table}");
            let rows = admin.query(format!("SELECT * FROM {name}")).text_rows();
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            layers.insert(name, rows);
        }
    }
    layers
}

/// Memory, runtime and disk.
fn all_layers(admin: &mut RawClient) -> Layers {
    layers(admin, &["main.", "runtime_", "disk."])
}

/// What differs, for a message that can be read.
fn differences(one: &Layers, other: &Layers) -> Vec<String> {
    let mut found = Vec::new();
    for (name, rows) in one {
        let others = other.get(name).cloned().unwrap_or_default();
        found.extend(rows.iter().filter(|row| !others.contains(row)).map(|row| format!("{name} - {row}")));
        found.extend(others.iter().filter(|row| !rows.contains(row)).map(|row| format!("{name} + {row}")));
    }
    found
}

/// The token of a plan, and its other rows.
fn plan(admin: &mut RawClient, statement: &str) -> (String, Vec<Vec<Option<String>>>) {
    let answer = admin.query(statement);
    assert_eq!(answer.error(), None, "{statement}");
    let rows = answer.text_rows();
    let token = rows[0][1].clone().expect("a token");
    (token, rows.into_iter().filter(|row| row[0].as_deref() != Some("plan")).collect())
}

fn apply(admin: &mut RawClient, token: &str) {
    admin.query(format!("NARROWS APPLY PLAN '{token}'")).ok().expect("the plan can be applied");
}

fn newest_version(admin: &mut RawClient) -> i64 {
    let newest = admin.query("SELECT max(version) FROM disk.narrows_config_history").cell();
    newest.and_then(|text| text.parse().ok()).expect("there is a version")
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}
