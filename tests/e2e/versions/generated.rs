//! Random configurations: as a file, and as the statements that an operator would type instead.

use std::fmt::Write;

use crate::chaos::random::Random;

/// The rows of a configuration: the table, and columns with values in SQL.
pub struct Generated {
    rows: Vec<(&'static str, Vec<(&'static str, String)>)>,
    variables: Vec<(&'static str, String)>,
}

impl Generated {
    /// One with a few rows in each table.
    pub fn new(random: &mut Random) -> Generated {
        let mut rows = Vec::new();
        let count = |random: &mut Random, most: u64| 1 + random.below(most);
        for port in 0..count(random, 4) {
            let columns = vec![
                ("hostgroup_id", random.below(4).to_string()),
                ("hostname", quoted("127.0.0.1")),
                ("port", (20_001 + port).to_string()),
                ("status", quoted(["ONLINE", "OFFLINE_SOFT", "OFFLINE_HARD"][random.below(3) as usize])),
                ("weight", random.below(1_000).to_string()),
                ("max_connections", random.below(1_000).to_string()),
                ("comment", quoted(&text(random))),
            ];
            rows.push(("mysql_servers", columns));
        }
        for user in 0..count(random, 4) {
            let columns = vec![
                ("username", quoted(&format!("user{user}"))),
                ("password", quoted(&format!("secret{}", random.below(3)))),
                ("active", random.below(2).to_string()),
                ("default_hostgroup", random.below(4).to_string()),
                ("default_schema", quoted(&text(random))),
                ("max_connections", random.below(1_000).to_string()),
                ("comment", quoted(&text(random))),
            ];
            rows.push(("mysql_users", columns));
        }
        for rule in 0..count(random, 6) {
            let columns = vec![
                ("rule_id", (rule * 10).to_string()),
                ("active", random.below(3).to_string()),
                ("match_digest", quoted(&format!("^SELECT {}", random.below(9)))),
                ("destination_hostgroup", random.below(4).to_string()),
                ("apply", random.below(2).to_string()),
                ("comment", quoted(&text(random))),
            ];
            rows.push(("mysql_query_rules", columns));
        }
        for schema in 0..count(random, 3) {
            let columns = vec![
                ("username", quoted("user0")),
                ("schemaname", quoted(&format!("schema{schema}"))),
                ("flagIN", "0".to_owned()),
                ("destination_hostgroup", random.below(4).to_string()),
                ("comment", quoted(&text(random))),
            ];
            rows.push(("mysql_query_rules_fast_routing", columns));
        }
        for hostgroup in 0..count(random, 3) {
            let columns = vec![
                ("hostgroup_id", hostgroup.to_string()),
                ("free_connections_pct", random.below(100).to_string()),
                ("comment", quoted(&text(random))),
            ];
            rows.push(("mysql_hostgroup_attributes", columns));
        }
        let variables = vec![
            ("mysql-max_connections", (1_000 + random.below(5)).to_string()),
            ("mysql-default_query_timeout", (10_000 + random.below(5)).to_string()),
            ("mysql-query_cache_size_MB", random.below(5).to_string()),
            ("mysql-firewall_whitelist_errormsg", text(random)),
            ("admin-stats_mysql_connections", random.below(5).to_string()),
        ];
        Generated { rows, variables }
    }

    /// As `proxysql.cnf`.
    pub fn file(&self) -> String {
        let mut file = String::new();
        for prefix in ["admin", "mysql"] {
            let _ = writeln!(file, "{prefix}_variables =\n{{");
            for (name, value) in &self.variables {
                if let Some(name) = name.strip_prefix(prefix) {
                    let _ = writeln!(file, "    {}=\"{}\"", &name[1..], escaped(value));
                }
            }
            file.push_str("}\n");
        }
        for table in super::TABLES {
            let of_table = self.rows.iter().filter(|(of, _)| *of == table);
            let rows: Vec<String> = of_table
                .map(|(_, columns)| {
                    let cell = |(name, value): &(&str, String)| {
                        let value = match value.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                            Some(text) => format!("\"{}\"", escaped(&text.replace("''", "'"))),
                            None => value.clone(),
                        };
                        format!("{name}={value}")
                    };
                    format!("    {{ {} }}", columns.iter().map(cell).collect::<Vec<_>>().join(" "))
                })
                .collect();
            let _ = writeln!(file, "{table} =\n(\n{}\n)", rows.join(",\n"));
        }
        file
    }

    /// As an operator would type it: all of it, loaded and saved.
    pub fn statements(&self) -> Vec<String> {
        let mut statements: Vec<String> =
            super::TABLES.iter().map(|table| format!("DELETE FROM {table}")).collect();
        for (table, columns) in &self.rows {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            let values: Vec<&str> = columns.iter().map(|(_, value)| value.as_str()).collect();
            statements.push(format!(
                "INSERT INTO {table} ({}) VALUES ({})",
                names.join(", "),
                values.join(", ")
            ));
        }
        for (name, value) in &self.variables {
            let value = quoted(value);
            statements.push(format!(
                "UPDATE global_variables SET variable_value = {value} WHERE variable_name = '{name}'"
            ));
        }
        for module in MODULES {
            statements.push(format!("LOAD {module} TO RUNTIME"));
            statements.push(format!("SAVE {module} TO DISK"));
        }
        statements
    }
}

/// The modules that have something of a generated configuration.
pub const MODULES: [&str; 5] =
    ["ADMIN VARIABLES", "MYSQL VARIABLES", "MYSQL SERVERS", "MYSQL USERS", "MYSQL QUERY RULES"];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A text with whatever is awkward in SQL, JSON or a file.
fn text(random: &mut Random) -> String {
    const PIECES: [&str; 8] = ["a", "it's", "\"", "\\", "ä", "%", "日本", "--"];
    (0..random.below(4)).map(|_| PIECES[random.below(8) as usize]).collect::<Vec<_>>().join(" ")
}
