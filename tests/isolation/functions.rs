//! What counts as a call of a built-in function. A stored function may do anything to its session, and servers decide by
//! more than the name.

use narrows_sql::{Dialect, classify};
use narrows_testkit::{Flavour, RawClient, ServerOptions};

use crate::support::{Pair, Stand};

/// All names that Narrows takes for built-in functions, or for keywords before a parenthesis.
fn known_names() -> Vec<&'static str> {
    let source = include_str!("../../crates/sql/src/functions.rs");
    let (lists, _) = source.split_once("#[cfg(test)]").expect("tests at the end");
    let is_name = |text: &&str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let names: Vec<&str> = lists.split('"').skip(1).step_by(2).filter(is_name).collect();
    assert!(names.len() > 400, "{}", names.len());
    names
}

/// Whether a server looks for a stored function to answer this.
fn asks_for_stored(client: &mut RawClient, query: &str) -> bool {
    let answer = client.query(query);
    answer.error().is_some_and(|error| matches!(error.code, 1305 | 1630))
}

/// What servers of this version do not have. A stored function of such a name is mistaken for the built-in function of
/// other versions; docs/compatibility.md says so.
const OF_OTHER_VERSIONS: [&str; 5] = ["MD5", "SHA", "SHA1", "UUID_V4", "UUID_V7"];

#[test]
fn no_call_of_a_stored_function_is_taken_for_one_of_a_built_in_function() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &["CREATE DATABASE d"]);
        let dialect = match flavour {
            Flavour::MariaDb => Dialect::MariaDb,
            _ => Dialect::MySql,
        };
        let mut client = stand.direct();
        client.query("USE d");
        let (mut mistaken, mut stored) = (Vec::new(), 0);
        let modes: &[&str] = match flavour {
            Flavour::MariaDb => &["", "ORACLE", "ANSI"],
            _ => &["", "ANSI"],
        };
        for mode in modes {
            client.query(format!("SET sql_mode = '{mode}'"));
            for name in known_names() {
                for between in ["", " ", "\n", "/**/", "/*! */"] {
                    for arguments in ["", "1", "1, 1", "1, 1, 1"] {
                        let query = format!("SELECT {name}{between}({arguments})");
                        if asks_for_stored(&mut client, &query) {
                            stored += 1;
                            let statement = classify(query.as_bytes()).on(dialect);
                            if statement.is_certain(query.as_bytes()) && !OF_OTHER_VERSIONS.contains(&name) {
                                mistaken.push(query);
                            }
                        }
                    }
                }
            }
        }
        assert!(mistaken.is_empty(), "{flavour:?}: {mistaken:#?}");
        assert!(stored > 1_000, "{flavour:?}: {stored}");
    }
}

/// Calls of stored functions, as families write them: names, with the arguments of their calls.
const STORED: &[(&str, &str, &str)] = &[
    ("NOW", "a INT", "NOW (1)"),
    ("COUNT", "a INT", "COUNT/**/(1)"),
    ("MAX", "a INT", "MAX\n(1)"),
    ("OF", "a INT", "OF(1)"),
    ("LATERAL", "a INT", "LATERAL(1)"),
    ("BIN_TO_UUID", "a INT", "BIN_TO_UUID(1)"),
    ("POINT", "a INT", "POINT(1)"),
    ("LINESTRING", "", "LINESTRING()"),
    ("TO_CHAR", "a INT", "TO_CHAR(1)"),
    ("BIT_NOT", "a INT", "BIT_NOT(1)"),
    ("1_", "", "1_()"),
    ("2024_1", "", "d.2024_1()"),
    ("1", "", "d.1()"),
];

#[test]
fn what_a_stored_function_with_the_name_of_a_built_in_one_leaves_stays_with_its_client() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), &["CREATE DATABASE d"], |config| {
            config.unverified("a verification releases what is left")
        });
        for (name, parameters, call) in STORED {
            // Nothing reports a lock.
            stand.server.execute(&[&format!(
                "CREATE FUNCTION d.`{name}` ({parameters}) RETURNS INT RETURN GET_LOCK(CONCAT('left', CONNECTION_ID()), 0)"
            )]);
            for way in ["SELECT {}", "DO {}", "SELECT 1; SELECT {}", "SELECT 1 FROM (SELECT {} AS a) x"] {
                let mut one = Pair::in_schema(&stand, "d");
                one.both(&way.replace("{}", call));
                // If it has called the stored function, it keeps the only connection.
                if one.keeps_connection(&stand) {
                    one.both("SELECT RELEASE_ALL_LOCKS()");
                    continue;
                }
                let found = Pair::in_schema(&stand, "d").both("SELECT RELEASE_ALL_LOCKS()");
                assert_eq!(found, [[Some("0".to_owned())]], "{flavour:?} {call}");
            }
        }
    }
}

#[test]
fn flushed_user_variables_are_gone() {
    let stand = Stand::new(Flavour::MariaDb, &[]);
    for flush in ["FLUSH USER_VARIABLES", "FLUSH STATUS, USER_VARIABLES", "DO 1; FLUSH LOCAL USER_VARIABLES"]
    {
        let mut one = Pair::new(&stand);
        let disturb = |one: &mut Pair| {
            if !one.keeps_connection(&stand) {
                assert!(stand.client().query("SET @b = 1").error().is_none());
            }
        };
        for statement in ["SET @a = 1", flush, "SELECT @a", "SET @a = 2", "SELECT @a, @b"] {
            one.both(statement);
            disturb(&mut one);
        }
    }
}
