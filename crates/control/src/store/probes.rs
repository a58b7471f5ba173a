//! Every variable of ProxySQL with the values it was asked to take, and what came of them.

use super::tests::Fixture;
use super::*;
use crate::variables::Variable;

/// Probes that come out differently, by the beginning of the variable's name, the value, and the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("admin-admin_credentials", "admin", "a text without a colon is no account"),
    ("admin-cluster_", "", "a name or password is taken away again by an empty text"),
    ("admin-ssl_keylog_file", "*", "the value is shown as it was written"),
    ("admin-telnet_", "", "nothing is shown as nothing"),
    ("admin-version", "x", "the version is that of Narrows"),
    ("mysql-default_schema", "", "empty is a value: clients have no schema, as on a server"),
    ("mysql-handle_unknown_charset", "3", "3 means nothing"),
    ("mysql-interfaces", "*", "the value stays in memory, to be saved for the next start"),
    ("mysql-keep_multiplexing_variables", "", "an empty list is a list"),
    ("mysql-proxy_protocol_networks", "bad", "what is refused is put back in memory too"),
    ("mysql-proxy_protocol_networks", "10.0.0.1", "an address alone is the network of that address"),
    ("mysql-server_capabilities", "*", "capabilities follow from what the program can do and cannot be set"),
    ("mysql-server_version", "5.1.30", "a version is told to clients as it was written"),
    ("mysql-threads", "*", "the value stays in memory, to be saved for the next start; 0 is one per core"),
];

#[test]
fn variables_take_what_those_of_proxysql_take() {
    let mut fixture = Fixture::new();
    let (mut equal, mut listed, mut unexplained) = (0, 0, Vec::new());
    for line in include_str!("../../tests/data/variables.jsonl").lines() {
        let (name, default, probes): (String, String, Vec<[String; 3]>) = serde_json::from_str(line).unwrap();
        let module = if name.starts_with("mysql-") { Module::MysqlVariables } else { Module::AdminVariables };
        if Variable::named(&name).is_none() {
            unexplained.push(format!("{name}: no such variable"));
            continue;
        }
        for [value, runtime, memory] in &probes {
            // What admin-read_only does is not what is asked here.
            fixture.store.set_read_only(false);
            fixture.set(&name, &default);
            fixture.load(module);
            fixture.store.set_read_only(false);
            fixture.set(&name, value);
            fixture.load(module);
            let found = [fixture.running(&name), fixture.in_memory(&name)];
            let is_listed = |(beginning, text, _): &&(&str, &str, &str)| {
                name.starts_with(beginning) && (*text == value || *text == "*")
            };
            if found == [runtime.clone(), memory.clone()] {
                equal += 1;
            } else if DIFFERENT.iter().any(|row| is_listed(&row)) {
                listed += 1;
            } else {
                unexplained.push(format!("{name} = {value:?}: {found:?} for {:?}", [runtime, memory]));
            }
        }
    }
    println!("{equal} equal, {listed} listed");
    assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
    assert!(equal * 100 >= (equal + listed) * 98, "{equal} equal, {listed} listed");
}
