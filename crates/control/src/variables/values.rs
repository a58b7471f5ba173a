//! The values of all variables, and what the data plane and the monitor read from them.

use narrows_proxy::snapshot::Variables;

use super::table::VARIABLES;
use super::variable::{Kind, Reader, Value, Variable};
use crate::config::diagnostic::Problem;
use crate::config::{charset, tree};
use crate::monitor::settings::MonitorSettings;

/// The values of all variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// One for each of [`VARIABLES`], in the same order.
    values: Vec<Value>,
}

impl Default for Values {
    fn default() -> Values {
        Values { values: VARIABLES.iter().map(Variable::default_value).collect() }
    }
}

impl Values {
    /// The value of the variable with that full name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(variable, _)| variable.name.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The text of the variable `name`; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        self.value(name).map(ToString::to_string).unwrap_or_default()
    }

    /// Sets `variable` to the written value, unless that is wrong.
    pub fn set(&mut self, variable: &'static Variable, written: &tree::NodeValue) -> Result<(), Problem> {
        self.put(variable, variable.parse(written)?);
        Ok(())
    }

    /// Sets `variable` to a value that has been read.
    pub fn put(&mut self, variable: &'static Variable, value: Value) {
        for (row, kept) in VARIABLES.iter().zip(&mut self.values) {
            if row.name == variable.name {
                *kept = value;
                return;
            }
        }
    }

    /// Sets the flag with that full name to false.
    pub fn switch_off(&mut self, name: &str) {
        for (row, kept) in VARIABLES.iter().zip(&mut self.values) {
            if row.name == name && matches!(row.kind, Kind::Flag { .. }) {
                *kept = Value::Flag(false);
            }
        }
    }

    /// Every variable with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Variable, &Value)> {
        VARIABLES.iter().zip(&self.values)
    }

    /// What the monitor reads.
    pub fn for_monitor(&self) -> MonitorSettings {
        let mut settings = MonitorSettings::default();
        for (variable, value) in self.iter() {
            match (variable.reader, value) {
                (Reader::MonitorInteger(read), Value::Integer(value)) => read(&mut settings, *value),
                (Reader::MonitorFlag(read), Value::Flag(value)) => read(&mut settings, *value),
                (Reader::MonitorText(read), Value::Text(value)) => read(&mut settings, value),
                _ => {}
            }
        }
        settings
    }

    /// What the data plane reads.
    pub fn for_data_plane(&self) -> Variables {
        let mut variables = Variables::default();
        for (variable, value) in self.iter() {
            match (variable.reader, value) {
                (Reader::Integer(read), Value::Integer(value)) => read(&mut variables, *value),
                (Reader::Flag(read), Value::Flag(value)) => read(&mut variables, *value),
                (Reader::Text(read), Value::Text(value)) => read(&mut variables, value),
                _ => {}
            }
        }
        if variables.interfaces.is_empty() {
            variables.interfaces = Variables::default().interfaces;
        }
        let chosen = charset::collation(&variables.default_collation_connection);
        if let Some(first) = charset::default_collation(&variables.default_charset)
            && chosen.is_none_or(|chosen| chosen.charset != first.charset)
        {
            match chosen {
                // Only the collation was set.
                Some(chosen) if variables.default_charset == Variables::default().default_charset => {
                    variables.default_charset = chosen.charset.to_owned();
                }
                _ => variables.default_collation_connection = first.name.to_owned(),
            }
        }
        variables
    }
}
