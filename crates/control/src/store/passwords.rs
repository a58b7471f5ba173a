//! Looks for passwords of the configuration in a text: in memory, on disk, and in what runs.

use aho_corasick::AhoCorasick;

use super::Store;
use crate::schema::Database;
use crate::variables::secret_variables;
use crate::versions::{passwords_of_row, passwords_of_variable};

impl Store {
    /// The passwords that are part of `text`, as the configuration has them in any of its layers.
    pub fn passwords_in(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for database in [Database::Main, Database::Disk] {
            // What cannot be read has no password to hide either.
            found.extend(self.passwords_of_users(database, text).unwrap_or_default());
            found.extend(self.passwords_of_variables(database).unwrap_or_default());
        }
        let running = self.running_rows("mysql_users").iter();
        found.extend(running.flat_map(|row| passwords_of_row("mysql_users", row)));
        let running = self.variables().iter().filter(|(variable, _)| variable.is_secret());
        found.extend(
            running.flat_map(|(variable, value)| passwords_of_variable(variable.name, &value.to_string())),
        );
        parts_of(text, found)
    }

    /// Those of the accounts in a database, at least those that are part of `text`. In a short text SQLite searches for each, as
    /// there may be tens of thousands.
    fn passwords_of_users(&self, database: Database, text: &str) -> rusqlite::Result<Vec<String>> {
        let sql = format!(
            "SELECT * FROM {}.mysql_users WHERE length(?1) > {LONG_TEXT} OR (password <> '' AND instr(?1, CASE WHEN password \
             LIKE 'plain:%' THEN substr(password, 7) ELSE password END)) OR attributes LIKE '%additional%' OR attributes LIKE '%\\u%'",
            database.name()
        );
        let mut statement = self.all.connection.prepare(&sql)?;
        let columns = statement.column_count();
        let found = statement.query_map([text], |row| {
            let cells: rusqlite::Result<Vec<_>> = (0..columns).map(|column| row.get(column)).collect();
            Ok(passwords_of_row("mysql_users", &cells?))
        })?;
        Ok(found.flatten().flatten().collect())
    }

    /// Those of the variables in a database.
    fn passwords_of_variables(&self, database: Database) -> rusqlite::Result<Vec<String>> {
        let names = vec!["?"; secret_variables().len()].join(", ");
        let sql = format!(
            "SELECT variable_name, variable_value FROM {}.global_variables WHERE variable_name IN ({names})",
            database.name()
        );
        let mut statement = self.all.connection.prepare(&sql)?;
        let found = statement.query_map(rusqlite::params_from_iter(secret_variables()), |row| {
            Ok(passwords_of_variable(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?))
        })?;
        Ok(found.flatten().flatten().collect())
    }
}

/// Those that are part of a text. In a long one, such as all values of a table that was loaded, all are searched for at once.
fn parts_of(text: &str, mut passwords: Vec<String>) -> Vec<String> {
    passwords.retain(|password| !password.is_empty());
    if text.len() <= LONG_TEXT {
        passwords.retain(|password| text.contains(password.as_str()));
        return passwords;
    }
    passwords.sort_unstable();
    passwords.dedup();
    // More than any machine holds: all are taken for parts, and hidden.
    let Ok(all) = AhoCorasick::new(&passwords) else { return passwords };
    let mut are_there = vec![false; passwords.len()];
    for part in all.find_overlapping_iter(text) {
        are_there[part.pattern().as_usize()] = true;
    }
    let mut are_there = are_there.into_iter();
    passwords.retain(|_| are_there.next().unwrap_or(true));
    passwords
}

/// The bytes of a text for which it takes longer to search for each password than for all at once.
const LONG_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_the_same_parts_as_a_short_one() {
        let passwords: Vec<String> =
            ["secret", "secret-2", "cret", "absent", "", "\u{e9}t\u{e9}"].map(str::to_owned).into();
        let text = "x secret-2 y \u{e9}t\u{e9}";
        let long = format!("{}{text}{0}", " ".repeat(LONG_TEXT));
        let mut short = parts_of(text, passwords.clone());
        short.sort_unstable();
        assert_eq!(short, ["cret", "secret", "secret-2", "\u{e9}t\u{e9}"]);
        assert_eq!(parts_of(&long, passwords), short);
    }
}
