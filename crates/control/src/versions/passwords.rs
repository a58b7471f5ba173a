//! Which passwords rows of a configuration have, as they are written there: clear text and hashes, and no references.

use rusqlite::types::Value;
use serde_json::Value as Json;

use super::document::ConfigDocument;
use crate::schema;
use crate::secrets::literal;
use crate::variables::secret_variables;

/// Those of a whole configuration.
pub fn passwords_of_document(document: &ConfigDocument) -> Vec<String> {
    let of_users = document.rows(USERS).iter().flat_map(|row| passwords_of_row(USERS, row));
    let of_variables = document.variables().flat_map(|(name, text)| passwords_of_variable(name, text));
    of_users.chain(of_variables).collect()
}

/// Those of one row.
pub fn passwords_of_row(table: &str, row: &[Value]) -> Vec<String> {
    let text = |cell: Option<&Value>| match cell {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    match table {
        USERS => {
            let columns = schema::columns(USERS);
            let cell =
                |name: &str| text(columns.iter().position(|it| *it == name).and_then(|at| row.get(at)));
            let attributes: Json = serde_json::from_str(&cell("attributes")).unwrap_or_default();
            let second = attributes.get("additional_password").and_then(Json::as_str).unwrap_or_default();
            literals([cell("password").as_str(), second])
        }
        "global_variables" => passwords_of_variable(&text(row.first()), &text(row.get(1))),
        _ => Vec::new(),
    }
}

/// Those in the value of a variable; none if that is no secret.
pub fn passwords_of_variable(name: &str, text: &str) -> Vec<String> {
    match name {
        _ if !secret_variables().contains(&name) => Vec::new(),
        _ if name.ends_with("_credentials") => {
            literals(text.split(';').filter_map(|account| Some(account.split_once(':')?.1)))
        }
        _ => literals([text]),
    }
}

fn literals<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let literals = texts.into_iter().filter_map(literal).filter(|text| !text.is_empty());
    literals.map(str::to_owned).collect()
}

const USERS: &str = "mysql_users";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_where_a_configuration_has_them() {
        for (name, text, expected) in [
            ("admin-admin_credentials", "a:one;b:file:/x;c:plain:two", &["one", "two"][..]),
            ("mysql-monitor_password", "a:one", &["a:one"]),
            ("mysql-monitor_password", "env:X", &[]),
            ("mysql-threads", "4", &[]),
        ] {
            assert_eq!(passwords_of_variable(name, text), expected, "{name} {text}");
        }
        let mut row = schema::defaults(USERS);
        let columns = schema::columns(USERS);
        let mut put = |name: &str, text: &str| {
            let at = columns.iter().position(|column| *column == name).unwrap();
            row[at] = Value::Text(text.to_owned());
        };
        put("password", "first");
        put("attributes", r#"{"additional_passwor\u0064":"second"}"#);
        assert_eq!(passwords_of_row(USERS, &row), ["first", "second"]);
    }
}
