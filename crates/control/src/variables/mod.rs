//! The variables: what each one holds, and the values they have.
//!
//! A value is text outside (admin interface, file) and typed inside. What a variable is, is its row in
//! [`VARIABLES`].

mod adopt;
mod table;

/// What is told where ProxySQL tells its version. Tools read the part before the first `-` and decide by it what they may
/// use; what follows says what this is.
pub const VERSION: &str = concat!("2.7.1-narrows-", env!("CARGO_PKG_VERSION"));

use narrows_proxy::snapshot::Variables;

use crate::config::charset;
use crate::config::diagnostic::Problem;
use crate::config::form::{Form, flag_of, integer_of};
use crate::config::tree;
use crate::effect::Effect;
use crate::monitor::settings::Settings;
pub use table::VARIABLES;

/// One variable.
#[derive(Debug)]
pub struct Variable {
    /// Its name with `mysql-` or `admin-`.
    pub name: &'static str,
    /// How much a ProxySQL set-up depends on it.
    pub class: Class,
    /// What it holds.
    pub kind: Kind,
    /// Whether a change only counts after a restart.
    pub needs_restart: bool,
    /// Who acts on it.
    pub reader: Reader,
    /// What it means.
    pub doc: &'static str,
}

/// How much a ProxySQL set-up depends on a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nearly every set-up has it.
    Essential,
    /// Many have it.
    Useful,
    /// Tuning of ProxySQL's own machinery, or a legacy.
    Obscure,
}

/// What a variable holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within both bounds.
    Integer {
        /// Value at first.
        default: i64,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// true or false.
    Flag {
        /// Value at first.
        default: bool,
    },
    /// Text of a certain form.
    Text {
        /// Value at first.
        default: &'static str,
        /// What it must look like.
        form: Form,
    },
    /// Text that cannot be set.
    Fixed {
        /// The text.
        text: &'static str,
    },
}

/// Who acts on a variable.
#[derive(Debug, Clone, Copy)]
pub enum Reader {
    /// Nobody yet: it is kept and shown, and whoever changes it is warned.
    Nobody,
    /// Nobody, as there is nothing for it to do here: why.
    Needless(&'static str),
    /// The control plane, by its name.
    Name,
    /// The data plane, as a number.
    Integer(fn(&mut Variables, i64)),
    /// The data plane, as a flag.
    Flag(fn(&mut Variables, bool)),
    /// The data plane, as text.
    Text(fn(&mut Variables, &str)),
    /// The monitor, as a number.
    MonitorInteger(fn(&mut Settings, i64)),
    /// The monitor, as a flag.
    MonitorFlag(fn(&mut Settings, bool)),
    /// The monitor, as text.
    MonitorText(fn(&mut Settings, &str)),
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of an integer variable.
    Integer(i64),
    /// Of a flag.
    Flag(bool),
    /// Of a text variable.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(value) => value.fmt(f),
            Value::Flag(value) => value.fmt(f),
            Value::Text(value) => value.fmt(f),
        }
    }
}

impl Variable {
    /// The variable of that full name, in any case.
    pub fn named(name: &str) -> Option<&'static Variable> {
        VARIABLES.iter().find(|variable| variable.name.eq_ignore_ascii_case(name))
    }

    /// The name without `mysql-` or `admin-`, as it stands in a file.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(_, short)| short)
    }

    /// Whether it does anything.
    pub fn effect(&self) -> Effect {
        match self.reader {
            Reader::Nobody => Effect::NotYet,
            Reader::Needless(why) => Effect::Needless(why),
            _ => Effect::Acts,
        }
    }

    /// What is to be said of a value that nobody acts on; `None`: somebody does, or it is the one at first.
    pub fn lacks_effect(&self, value: &Value) -> Option<String> {
        self.effect().lacking().filter(|_| *value != self.default_value())
    }

    /// Its value at first.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Integer { default, .. } => Value::Integer(default),
            Kind::Flag { default } => Value::Flag(default),
            Kind::Text { default: text, .. } | Kind::Fixed { text } => Value::Text(text.to_owned()),
        }
    }

    /// Reads a value of it.
    pub fn parse(&self, written: &tree::Value) -> Result<Value, Problem> {
        let wrong = || Problem::Value {
            name: self.short_name().to_owned(),
            expected: self.kind.describe(),
            found: written.describe(),
            nearest: None,
        };
        match self.kind {
            Kind::Integer { min, max, .. } => integer_of(written)
                .filter(|value| (min..=max).contains(value))
                .map(Value::Integer)
                .ok_or_else(wrong),
            Kind::Flag { .. } => flag_of(written).map(Value::Flag).ok_or_else(wrong),
            Kind::Text { form, .. } => {
                form.read(self.short_name(), written).map(|(text, _)| Value::Text(text))
            }
            Kind::Fixed { .. } => Err(Problem::FixedVariable { name: self.short_name().to_owned() }),
        }
    }
}

impl Kind {
    /// What a value must be.
    pub fn describe(&self) -> String {
        match self {
            Kind::Integer { min, max, .. } => format!("an integer from {min} to {max}"),
            Kind::Flag { .. } => "true or false".to_owned(),
            Kind::Text { form, .. } => form.describe(),
            Kind::Fixed { .. } => "nothing: it cannot be set".to_owned(),
        }
    }
}

/// The values of all variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// One for each of [`VARIABLES`], in their order.
    values: Vec<Value>,
}

impl Default for Values {
    fn default() -> Values {
        Values { values: VARIABLES.iter().map(Variable::default_value).collect() }
    }
}

impl Values {
    /// The value of the variable of that full name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(variable, _)| variable.name.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Sets `variable` to what is written, unless that is wrong.
    pub fn set(&mut self, variable: &'static Variable, written: &tree::Value) -> Result<(), Problem> {
        self.put(variable, variable.parse(written)?);
        Ok(())
    }

    /// Gives `variable` a value that it has read.
    pub fn put(&mut self, variable: &'static Variable, value: Value) {
        for (row, kept) in VARIABLES.iter().zip(&mut self.values) {
            if row.name == variable.name {
                *kept = value;
                return;
            }
        }
    }

    /// Sets the flag of that full name to false.
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
    pub fn for_monitor(&self) -> Settings {
        let mut settings = Settings::default();
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
                (Reader::Nobody | Reader::Needless(_) | Reader::Name, _) => {}
                (Reader::MonitorInteger(_) | Reader::MonitorFlag(_) | Reader::MonitorText(_), _) => {}
                _ => debug_assert!(false, "{} is read as another type", variable.name),
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
                // Only the collation was chosen.
                Some(chosen) if variables.default_charset == Variables::default().default_charset => {
                    variables.default_charset = chosen.charset.to_owned();
                }
                _ => variables.default_collation_connection = first.name.to_owned(),
            }
        }
        variables
    }
}

#[cfg(test)]
mod tests;
