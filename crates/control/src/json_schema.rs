//! The JSON Schema of `narrows.toml` (draft 2020-12), made from the rows of variables and columns, as the documents are.
//!
//! It is for editors and for programs that write a configuration. It has the names as they are documented, and no others:
//! Narrows itself ignores unknown names with a warning, and reads names in any case. It says what one value must be; what
//! rows must be together, only `narrows check` says.

use serde_json::{Map, Value, json};

use crate::config::form::Form;
use crate::config::managed::MANAGED_NAMES;
use crate::config::schema::{Absent, Column, ColumnKind, ConfigTable};
use crate::config::tables::{
    AURORA_HOSTGROUPS, BOOTSTRAP, FAST_ROUTING, FIREWALL_FINGERPRINTS, FIREWALL_RULES, FIREWALL_USERS, FLEET,
    GALERA_HOSTGROUPS, GROUP_REPLICATION_HOSTGROUPS, HOSTGROUP_ATTRIBUTES, REPLICATION_HOSTGROUPS, RULES,
    SECTIONS_NOT_READ, SECTIONS_STORED_ONLY, SERVERS, SSL_PARAMS, TOKEN_ISSUERS, USERS,
};
use crate::effect::Effect;
use crate::schema;
use crate::variables::{self, Kind, VARIABLES, Variable};

/// The schema, as a document.
pub fn text() -> String {
    format!("{:#}\n", whole())
}

/// The schema.
fn whole() -> Value {
    let mut properties = Map::new();
    properties.extend(BOOTSTRAP.columns.iter().map(|column| (column.name.to_owned(), of_column(column))));
    for (section, prefix) in [("mysql_variables", "mysql-"), ("admin_variables", "admin-")] {
        properties.insert(section.to_owned(), of_variables(prefix));
    }
    properties.insert(FLEET.name.to_owned(), of_fleet());
    let tables = [
        of_table(&SERVERS),
        of_table(&USERS),
        of_table(&TOKEN_ISSUERS),
        of_table(&RULES),
        of_table(&FAST_ROUTING),
        of_table(&REPLICATION_HOSTGROUPS),
        of_table(&GROUP_REPLICATION_HOSTGROUPS),
        of_table(&GALERA_HOSTGROUPS),
        of_table(&AURORA_HOSTGROUPS),
        of_table(&HOSTGROUP_ATTRIBUTES),
        of_table(&FIREWALL_USERS),
        of_table(&FIREWALL_RULES),
        of_table(&FIREWALL_FINGERPRINTS),
        of_table(&SSL_PARAMS),
    ];
    properties.extend(tables.map(|(name, schema)| (name.to_owned(), schema)));
    for (section, table) in SECTIONS_STORED_ONLY {
        let doc = with_effect("Rows of the admin table of this name.", schema::effect(table));
        let section_schema = json!({ "description": doc, "type": "array", "items": { "type": "object" } });
        properties.insert((*section).to_owned(), section_schema);
    }
    for section in SECTIONS_NOT_READ {
        let doc = "Not read by this version of Narrows.";
        properties.insert((*section).to_owned(), json!({ "description": doc }));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "narrows.toml",
        "description": "The configuration file of Narrows.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// A section of variables, which has their names without `prefix`.
fn of_variables(prefix: &str) -> Value {
    let is_set = |variable: &&Variable| !matches!(variable.kind, Kind::Fixed { .. });
    let own = VARIABLES.iter().filter(|variable| variable.name.starts_with(prefix)).filter(is_set);
    let properties: Map<String, Value> =
        own.map(|variable| (variable.short_name().to_owned(), of_variable(variable))).collect();
    json!({
        "description": format!("Variables {prefix}*, without that prefix."),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn of_variable(variable: &Variable) -> Value {
    let mut schema = match variable.kind {
        Kind::Integer { min, max, .. } => integer(min, max),
        Kind::Flag { .. } => flag(),
        Kind::Text { form, .. } => text_of(form),
        Kind::Fixed { .. } => Map::new(),
    };
    let doc = described(variable.doc, &variable.kind.describe());
    schema.insert("description".to_owned(), with_effect(&doc, variable.effect()).into());
    let default = match variable.default_value() {
        variables::Value::Integer(value) => value.into(),
        variables::Value::Flag(value) => value.into(),
        variables::Value::Text(value) => value.into(),
    };
    schema.insert("default".to_owned(), default);
    Value::Object(schema)
}

/// A section that is a list of rows, and its name.
fn of_table<R>(table: &'static ConfigTable<R>) -> (&'static str, Value) {
    let mut properties = Map::new();
    let (mut required, mut one_of_two) = (Vec::new(), Vec::new());
    for column in table.columns {
        let names = std::iter::once(column.name).chain(column.alias);
        properties.extend(names.map(|name| (name.to_owned(), of_column(column))));
        match (column.absent, column.alias) {
            (Absent::Required, Some(alias)) => {
                one_of_two.push(json!({ "oneOf": [{ "required": [column.name] }, { "required": [alias] }] }));
            }
            (Absent::Required, None) => required.push(column.name),
            _ => {}
        }
    }
    let mut row = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    if let (Some(row), false) = (row.as_object_mut(), one_of_two.is_empty()) {
        row.insert("allOf".to_owned(), one_of_two.into());
    }
    (table.name, json!({ "description": table.doc, "type": "array", "items": row }))
}

/// The section `fleet`: one group.
fn of_fleet() -> Value {
    let (_, mut rows) = of_table(&FLEET);
    let mut group = rows["items"].take();
    group["description"] = FLEET.doc.into();
    group
}

fn of_column<R>(column: &Column<R>) -> Value {
    let mut schema = match &column.kind {
        ColumnKind::Integer { min, max, .. } => integer(*min, *max),
        ColumnKind::Flag(_) => flag(),
        ColumnKind::Activity(_) => activity(),
        ColumnKind::Text(form, _) => text_of(*form),
        ColumnKind::Sections(_) => list_of_sections(),
        ColumnKind::Unused => Map::new(),
    };
    let doc = described(column.doc, &column.kind.describe());
    schema.insert("description".to_owned(), with_effect(&doc, column.effect).into());
    if let Absent::Is(text) = column.absent {
        let default = match &column.kind {
            ColumnKind::Integer { .. } => text.parse::<i64>().map_or(Value::Null, Value::from),
            ColumnKind::Flag(_) | ColumnKind::Activity(_) => matches!(text, "1" | "true").into(),
            ColumnKind::Text(..) | ColumnKind::Sections(_) | ColumnKind::Unused => text.into(),
        };
        schema.insert("default".to_owned(), default);
    }
    Value::Object(schema)
}

fn list_of_sections() -> Map<String, Value> {
    let names: Vec<&str> = MANAGED_NAMES.iter().flat_map(|managed| [managed.name, managed.section]).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "array".into());
    schema.insert("items".to_owned(), json!({ "enum": names }));
    schema
}

fn described(doc: &str, value: &str) -> String {
    format!("{doc} Value: {value}.")
}

fn with_effect(doc: &str, effect: Effect) -> String {
    match effect.lacking() {
        Some(what) => format!("{doc} It {what}."),
        None => doc.to_owned(),
    }
}

/// A whole number, or a string that is one. The bounds are those of the number.
fn integer(min: i64, max: i64) -> Map<String, Value> {
    let mut schema = object(json!({ "type": ["integer", "string"], "pattern": "^\\s*[-+]?[0-9]+\\s*$" }));
    for (name, bound, none) in [("minimum", min, i64::MIN), ("maximum", max, i64::MAX)] {
        if bound != none {
            schema.insert(name.to_owned(), bound.into());
        }
    }
    schema
}

/// The ways to write true and false.
fn flag() -> Map<String, Value> {
    object(json!({ "enum": [true, false, 1, 0, "true", "false", "1", "0"] }))
}

/// The ways to write whether a rule is in force, or a dry run.
fn activity() -> Map<String, Value> {
    object(json!({ "enum": [true, false, 1, 0, 2, "true", "false", "1", "0", "2"] }))
}

/// A text; numbers and flags are read as they are written.
fn text_of(form: Form) -> Map<String, Value> {
    let scalar = || json!({ "type": ["string", "number", "boolean"] });
    object(match form {
        // The names as they are stored, for editors; any other case is read too.
        Form::OneOf(names) => {
            let any_case: Vec<String> = names.iter().map(|name| in_any_case(name)).collect();
            json!({ "anyOf": [
                { "enum": names },
                { "type": "string", "pattern": format!("^({})$", any_case.join("|")) },
            ] })
        }
        Form::ListOf(names) => {
            let one = names.iter().map(|name| in_any_case(name)).collect::<Vec<_>>().join("|");
            json!({ "type": "string", "pattern": format!("^\\s*(({one})?\\s*(,\\s*({one})?\\s*)*)$") })
        }
        Form::NotEmpty => json!({ "type": ["string", "number", "boolean"], "minLength": 1 }),
        Form::Digest => json!({ "type": "string", "pattern": "^0[xX][0-9a-fA-F]{1,16}$" }),
        Form::Json
        | Form::TableName
        | Form::Charset
        | Form::Collation
        | Form::IpAddresses
        | Form::Collector
        | Form::NodeName
        | Form::HostAndPort => json!({ "type": "string" }),
        Form::WebAddresses => json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ] }),
        Form::Any
        | Form::Expression
        | Form::Password
        | Form::Secret
        | Form::Addresses
        | Form::Credentials
        | Form::Share
        | Form::Networks => scalar(),
    })
}

/// An expression for `name` in upper and lower case.
fn in_any_case(name: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphabetic() => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
        // Others may not be escaped.
        c if "^$\\.*+?()[]{}|/".contains(c) => format!("\\{c}"),
        c => c.to_string(),
    };
    name.chars().map(letter).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_description_and_a_form() {
        let schema = whole();
        let at = |path: &str| schema.pointer(path).unwrap_or_else(|| panic!("no {path}"));
        let server = "/properties/mysql_servers/items";
        assert_eq!(at(&format!("{server}/properties/port/default")), &json!(3306));
        assert_eq!(at(&format!("{server}/properties/port/maximum")), &json!(65_535));
        assert_eq!(at(&format!("{server}/properties/address")), at(&format!("{server}/properties/hostname")));
        assert_eq!(at(&format!("{server}/properties/status/anyOf/0/enum/1")), &json!("SHUNNED"));
        assert_eq!(at(&format!("{server}/allOf/0/oneOf/1/required/0")), &json!("hostgroup"));
        assert_eq!(at("/properties/mysql_users/items/required"), &json!(["username"]));
        assert_eq!(at("/properties/mysql_variables/properties/multiplexing/default"), &json!(true));
        for section in ["mysql_variables", "admin_variables"] {
            let variables = at(&format!("/properties/{section}/properties")).as_object().expect("an object");
            assert!(variables.len() > 30, "{section}");
            assert!(variables.values().all(|it| it["description"].is_string() && !it["default"].is_null()));
        }
        let effect = at("/properties/uuid/description").as_str().unwrap_or_default();
        assert!(effect.ends_with("It has no effect in this version of Narrows."), "{effect}");
    }

    #[test]
    fn names_are_matched_in_any_case() {
        assert_eq!(in_any_case("a|B&_1"), "[Aa]\\|[Bb]&_1");
    }
}
