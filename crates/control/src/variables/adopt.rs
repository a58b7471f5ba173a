//! How the admin interface reads the text of a variable: as ProxySQL does, more leniently than in a file.

use std::path::Path;

use crate::config::tree;

use super::variable::{Kind, Special, Value, Variable};

/// Seconds between two samples, as far as ProxySQL distinguishes them.
const SAMPLE_STEPS: [i64; 8] = [1, 5, 10, 30, 60, 120, 300, 600];

impl Variable {
    /// The value that `text` sets the variable to, or the reason why it sets none.
    ///
    /// Numbers are read as far as they go and are 0 if there are no digits; flags are true, false, 1 or 0.
    pub fn adopt(&self, text: &str) -> Result<Value, String> {
        let expected = || format!("{}: expected {}, found {text:?}", self.name, self.kind.describe());
        match self.kind {
            Kind::Integer { min, max, .. } => {
                let value = leading_integer(text);
                if !(min..=max).contains(&value) {
                    return Err(expected());
                }
                let is_sampled = self.special == Some(Special::SampleInterval);
                Ok(Value::Integer(if is_sampled { rounded_up(value, max) } else { value }))
            }
            Kind::Fixed { .. } => Err(format!("{}: cannot be set", self.name)),
            Kind::Flag { .. } | Kind::Text { .. } => {
                let written = tree::NodeValue::Text(text.to_owned());
                if self.special == Some(Special::FilePrefix) && !has_folder(text) {
                    return Err(format!("{}: there is no such folder: {text:?}", self.name));
                }
                self.parse(&written).map_err(|problem| format!("{}: {problem}", self.name))
            }
        }
    }
}

/// Whether files with that name can be created; relative ones are in the data folder.
fn has_folder(name: &str) -> bool {
    let path = Path::new(name);
    path.is_relative() || path.parent().is_some_and(Path::is_dir)
}

/// The number that `text` begins with, or 0.
fn leading_integer(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    let number =
        digits.fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -number } else { number }
}

fn rounded_up(value: i64, max: i64) -> i64 {
    let step = SAMPLE_STEPS.into_iter().find(|step| *step >= value);
    if value == 0 { 0 } else { step.unwrap_or(max) }
}
