//! The description of a variable: its name, its type, and what reads it.

use narrows_proxy::snapshot::Variables;

use crate::config::diagnostic::Problem;
use crate::config::form::{Form, flag_of, integer_of};
use crate::config::tree;
use crate::effect::Effect;
use crate::monitor::settings::MonitorSettings;

/// One variable.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name with `mysql-` or `admin-`.
    pub name: &'static str,
    /// How much a ProxySQL set-up depends on it.
    pub class: Class,
    /// The type of its value.
    pub kind: Kind,
    /// A property that few variables have.
    pub special: Option<Special>,
    /// What reads it.
    pub reader: Reader,
    /// What it means.
    pub doc: &'static str,
}

/// How important a variable is in ProxySQL set-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nearly every set-up has it.
    Essential,
    /// Many have it.
    Useful,
    /// Tuning of ProxySQL's internals, or legacy.
    Obscure,
}

/// A property that few variables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// A change only takes effect after a restart.
    AfterRestart,
    /// A prefix of file names: the admin interface refuses one whose folder does not exist.
    FilePrefix,
    /// Keys and certificates are derived from it: they are loaded again if it has changed.
    ForTls,
    /// Seconds between two samples, of which ProxySQL distinguishes only some.
    SampleInterval,
}

/// The type of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within both bounds.
    Integer {
        /// The default value.
        default: i64,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// true or false.
    Flag {
        /// The default value.
        default: bool,
    },
    /// Text of a certain form.
    Text {
        /// The default value.
        default: &'static str,
        /// The required form.
        form: Form,
    },
    /// Text that cannot be set.
    Fixed {
        /// The text.
        text: &'static str,
    },
}

/// What reads a variable.
#[derive(Debug, Clone, Copy)]
pub enum Reader {
    /// Nothing yet: it is stored and shown, and changing it gives a warning.
    Nobody,
    /// Nothing, because there is nothing for it to do here, for this reason.
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
    MonitorInteger(fn(&mut MonitorSettings, i64)),
    /// The monitor, as a flag.
    MonitorFlag(fn(&mut MonitorSettings, bool)),
    /// The monitor, as text.
    MonitorText(fn(&mut MonitorSettings, &str)),
}

/// A variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The value of an integer variable.
    Integer(i64),
    /// The value of a flag.
    Flag(bool),
    /// The value of a text variable.
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
    /// The name without `mysql-` or `admin-`, as in a file.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(_, short)| short)
    }

    /// Whether a change only takes effect after a restart.
    pub fn needs_restart(&self) -> bool {
        self.special == Some(Special::AfterRestart)
    }

    /// Whether it has passwords, or references to them: its value is not shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Text { form: Form::Secret | Form::Credentials, .. })
    }

    /// Whether it has an effect.
    pub fn effect(&self) -> Effect {
        match self.reader {
            Reader::Nobody => Effect::NotYet,
            Reader::Needless(why) => Effect::Needless(why),
            _ => Effect::Acts,
        }
    }

    /// The remark on a value without effect; `None`: it has an effect, or is the default.
    pub fn lacks_effect(&self, value: &Value) -> Option<String> {
        self.effect().lacking().filter(|_| *value != self.default_value())
    }

    /// Its default value.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Integer { default, .. } => Value::Integer(default),
            Kind::Flag { default } => Value::Flag(default),
            Kind::Text { default: text, .. } | Kind::Fixed { text } => Value::Text(text.to_owned()),
        }
    }

    /// Parses a value of this variable.
    pub fn parse(&self, written: &tree::NodeValue) -> Result<Value, Problem> {
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
    /// What a value must be, for error messages.
    pub fn describe(&self) -> String {
        match self {
            Kind::Integer { min, max, .. } => format!("an integer from {min} to {max}"),
            Kind::Flag { .. } => "true or false".to_owned(),
            Kind::Text { form, .. } => form.describe(),
            Kind::Fixed { .. } => "nothing: it cannot be set".to_owned(),
        }
    }
}
