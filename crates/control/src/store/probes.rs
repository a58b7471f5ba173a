//! Every ProxySQL variable with the values that were tried, and the results.

use super::tests::Fixture;
use crate::schema::Module;
use crate::variables::Variable;

/// Probes with different results: the beginning of the variable's name, the value, and the reason, which is also in
/// docs/compatibility.md.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("admin-admin_credentials", "admin", "Text without a colon is not an account."),
    (
        "admin-cluster_",
        "",
        "An empty value removes the name or password; ProxySQL keeps the old one running.",
    ),
    (
        "admin-ssl_keylog_file",
        "*",
        "The value is shown as it was written; if its folder does not exist, a warning says so.",
    ),
    ("admin-telnet_", "", "An empty value is shown as empty, not as `(null)`."),
    ("admin-version", "x", "It is the version of Narrows."),
    ("mysql-default_schema", "", "Empty is a valid value: clients then have no schema, as on a server."),
    ("mysql-handle_unknown_charset", "3", "3 has no meaning."),
    (
        "mysql-interfaces",
        "*",
        "The value stays in memory, to be saved for the next start, and a warning says so; ProxySQL restores the old \
         value.",
    ),
    ("mysql-keep_multiplexing_variables", "", "An empty list is valid."),
    ("mysql-proxy_protocol_networks", "bad", "If a value is refused, memory is reset as well."),
    ("mysql-proxy_protocol_networks", "10.0.0.1", "A single address is the network of that address."),
    ("mysql-server_capabilities", "*", "Capabilities follow from what the program can do and cannot be set."),
    ("mysql-server_version", "5.1.30", "The version is sent to clients as it was written."),
    ("mysql-threads", "*", "The value stays in memory, as with mysql-interfaces; 0 means one per core."),
];

/// The rows of the page.
fn page() -> String {
    let value = |value: &str| match value {
        "*" => "any".to_owned(),
        "" => "empty".to_owned(),
        value => format!("`{value}`"),
    };
    let row = |(name, text, reason): &(&str, &str, &str)| {
        let more = if name.ends_with('_') { "…" } else { "" };
        format!("| `{name}{more}` | {} | {reason} |\n", value(text))
    };
    DIFFERENT.iter().map(row).collect()
}

#[test]
fn the_compatibility_page_lists_the_same_differences() {
    assert!(
        include_str!("../../../../docs/compatibility.md").contains(&page()),
        "the page lacks:\n{}",
        page()
    );
}

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
            // The effect of admin-read_only is not tested here.
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
