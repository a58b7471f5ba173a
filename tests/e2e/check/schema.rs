//! `narrows check --schema`: what Narrows reads fits the schema, and what it does not read does not.

use std::path::Path;

use narrows_control::config::parse;
use narrows_control::config::tree::{Node, NodeValue};
use serde_json::{Map, Value};

use super::{check, stdout};

/// The schema as the program prints it.
fn printed() -> Value {
    let output = check(&["--schema"], "");
    assert!(output.status.success());
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// What of a configuration does not fit the schema that the program prints.
pub fn misfits(text: &str) -> Vec<String> {
    let no_file = |_: &Path| Err("no file is included".to_owned());
    let document = parse::parse(Path::new("narrows.toml"), text, &no_file).expect("a configuration");
    let value = json(&Node { value: NodeValue::Group(document.root), at: Default::default() });
    let mut found = Vec::new();
    compare(&value, &printed(), "", &mut found);
    found
}

/// A configuration as JSON.
fn json(node: &Node) -> Value {
    match &node.value {
        NodeValue::Flag(flag) => (*flag).into(),
        NodeValue::Integer(integer, _) => (*integer).into(),
        NodeValue::Literal(text) | NodeValue::Text(text) => text.as_str().into(),
        NodeValue::List(nodes) => nodes.iter().map(json).collect(),
        NodeValue::Group(entries) => {
            entries.iter().map(|entry| (entry.name.clone(), json(&entry.node))).collect::<Map<_, _>>().into()
        }
    }
}

/// Compares a value with the part of JSON Schema that the schema uses.
fn compare(value: &Value, schema: &Value, place: &str, found: &mut Vec<String>) {
    let mut wrong = |what: String| found.push(format!("{place}: {what}"));
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    if !types.is_empty() && !types.iter().any(|wanted| is_of_type(value, wanted.as_str())) {
        wrong(format!("{value} is not of type {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|listed| !listed.contains(value)) {
        wrong(format!("{value} is none of {}", schema["enum"]));
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str()) {
        let expression = regex::Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        if !expression.is_match(text) {
            wrong(format!("{text:?} does not match {pattern}"));
        }
    }
    if let Some(number) = value.as_i64() {
        let is_outside = schema["minimum"].as_i64().is_some_and(|least| number < least)
            || schema["maximum"].as_i64().is_some_and(|most| number > most);
        if is_outside {
            wrong(format!("{number} is out of range"));
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(required).is_none() {
            wrong(format!("{required} is missing"));
        }
    }
    combinations(value, schema, place, found);
    for (name, member) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => compare(member, schema, &format!("{place}/{name}"), found),
            None if schema["additionalProperties"] == false => found.push(format!("{place}: no {name}")),
            None => {}
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        compare(item, &schema["items"], &format!("{place}/{index}"), found);
    }
}

/// `anyOf`, `oneOf` and `allOf`.
fn combinations(value: &Value, schema: &Value, place: &str, found: &mut Vec<String>) {
    let fits = |schema: &Value| {
        let mut found = Vec::new();
        compare(value, schema, place, &mut found);
        found.is_empty()
    };
    let fitting = |name: &str| schema[name].as_array().map(|all| all.iter().filter(|one| fits(one)).count());
    if fitting("anyOf") == Some(0) || fitting("oneOf").is_some_and(|fitting| fitting != 1) {
        found.push(format!("{place}: {value} does not fit"));
    }
    for one in schema["allOf"].as_array().into_iter().flatten() {
        compare(value, one, place, found);
    }
}

fn is_of_type(value: &Value, wanted: Option<&str>) -> bool {
    match wanted {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => false,
    }
}

#[test]
fn the_examples_and_the_packaged_file_fit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in [
        "examples/narrows.toml",
        "examples/minimal.toml",
        "examples/proxysql.cnf",
        "examples/minimal.cnf",
        "packaging/narrows.toml",
    ] {
        let text = std::fs::read_to_string(root.join(name)).expect("a file of this repository");
        assert_eq!(misfits(&text), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_a_check_complains_about_does_not_fit() {
    let fine = "[[mysql_servers]]\nhostname = 'a'\nhostgroup = 0\nstatus = 'Offline_Soft'\nuse_ssl = '1'\nport = '3307'\n";
    assert_eq!(misfits(fine), Vec::<String>::new());
    for (wrong, misfit) in [
        ("[mysql_variables]\nthread = 1\n", "/mysql_variables: no thread"),
        ("[mysql_variables]\nthreads = 1000\n", "/mysql_variables/threads: 1000 is out of range"),
        ("[mysql_variables]\nmultiplexing = 'on'\n", "/mysql_variables/multiplexing: \"on\" is none of "),
        ("[mysql_user]\n", ": no mysql_user"),
        ("[[mysql_users]]\npassword = 'x'\n", "/mysql_users/0: username is missing"),
        ("[[mysql_servers]]\nhostname = 'a'\n", "/mysql_servers/0: "),
        ("[[mysql_servers]]\nhostname = 'a'\nhostgroup = 0\nstatus = 'ON'\n", "/mysql_servers/0/status: "),
        ("[[mysql_servers]]\nhostname = 'a'\nhostgroup = 0\nport = 'x'\n", "/mysql_servers/0/port: "),
        ("[[mysql_query_rules]]\nrule_id = 1\ndigest = '1'\n", "/mysql_query_rules/0/digest: "),
        (
            "[[mysql_query_rules]]\nrule_id = 1\nre_modifiers = 'CASELES'\n",
            "/mysql_query_rules/0/re_modifiers: ",
        ),
    ] {
        let found = misfits(wrong);
        assert!(found.len() == 1 && found[0].starts_with(misfit), "{wrong}: {found:?}");
        let said = stdout(&check(&["-"], wrong));
        assert!(said.contains("<stdin>:"), "{wrong}: {said}");
    }
}

#[test]
fn the_schema_is_printed_without_a_file_and_not_with_one() {
    let schema = printed();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let port = &schema["properties"]["mysql_servers"]["items"]["properties"]["port"];
    assert!(port["description"].as_str().is_some_and(|doc| doc.starts_with("TCP port")), "{port}");
    assert_eq!(check(&["--schema", "-"], "").status.code(), Some(2));
    assert_eq!(check(&["--schema", "--strict"], "").status.code(), Some(2));
}
