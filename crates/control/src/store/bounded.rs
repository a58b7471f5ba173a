//! SQLite functions whose duration is proportional to the product of the lengths of their arguments: each call is one
//! step of SQLite's virtual machine, which cannot be interrupted. Calls that would take too long are refused; SQLite's
//! own function does the rest.

use std::ffi::{CStr, CString};

use rusqlite::ffi;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result, params_from_iter};

use super::guard::Guard;

/// The names of the functions, and their numbers of arguments: the lengths of the first two arguments are multiplied.
const FUNCTIONS: &[(&str, u8)] = &[
    ("instr", 2),
    ("replace", 3),
    ("trim", 2),
    ("ltrim", 2),
    ("rtrim", 2),
    ("like", 2),
    ("like", 3),
    ("glob", 2),
];

/// Whether a function is one of [`FUNCTIONS`].
#[cfg(test)]
pub fn is_bounded(name: &str) -> bool {
    FUNCTIONS.iter().any(|(bounded, _)| *bounded == name)
}

/// Replaces the functions.
pub fn replace(connection: &Connection, guard: &Guard) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments) in FUNCTIONS.iter().copied() {
        // This connection has the original functions.
        let original = Connection::open_in_memory()?;
        for limit in [Limit::SQLITE_LIMIT_LENGTH, Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH] {
            original.set_limit(limit, connection.limit(limit)?)?;
        }
        let call = format!("SELECT {name}({})", vec!["?"; usize::from(arguments)].join(", "));
        let longest_pattern =
            connection.limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH)?.unsigned_abs().into();
        let guard = guard.clone();
        let bounded = move |context: &Context<'_>| {
            if guard.is_late() {
                return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
            }
            let (first, second) = (length(context.get_raw(0)), length(context.get_raw(1)));
            // SQLite checks the length of a pattern first.
            let is_refused = matches!(name, "like" | "glob") && first > longest_pattern;
            if !is_refused && first.saturating_mul(second) > guard.limits.work {
                let text = format!("the arguments of {name}() are too long for each other");
                return Err(Error::UserFunctionError(text.into()));
            }
            if let ("like" | "glob", 2) = (name, arguments)
                && let (ValueRef::Text(pattern), ValueRef::Text(text)) =
                    (context.get_raw(0), context.get_raw(1))
                && pattern.len() < SHORT
                && let (Ok(pattern), Ok(text)) = (CString::new(pattern), CString::new(text))
            {
                return Ok(Value::Integer(matches(name, &pattern, &text).into()));
            }
            let arguments = (0..context.len()).map(|index| ToSqlOutput::Borrowed(context.get_raw(index)));
            original.query_row(&call, params_from_iter(arguments), |row| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
                    other => Value::try_from(other)?,
                })
            })
        };
        connection.create_scalar_function(name, arguments.into(), flags, bounded)?;
    }
    Ok(())
}

/// Matches without an SQL statement, which would take many times as long.
fn matches(name: &str, pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: both texts are zero-terminated and live until it returns; nothing else is accessed.
    let difference = unsafe {
        match name {
            "like" => ffi::sqlite3_strlike(pattern.as_ptr(), text.as_ptr(), 0),
            _ => ffi::sqlite3_strglob(pattern.as_ptr(), text.as_ptr()),
        }
    };
    difference == 0
}

/// The maximum length of a pattern that is matched directly: it may consist of wildcards only.
const SHORT: usize = 1024;

/// The length of a value as text.
fn length(value: ValueRef<'_>) -> u64 {
    let bytes = match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => LONGEST_NUMBER,
    };
    bytes as u64
}

/// Approximate length of a number as text.
const LONGEST_NUMBER: usize = 24;

#[cfg(test)]
mod tests {
    use super::super::guard::{Abandoned, Limits};
    use super::*;
    use crate::urgency::Urgency;

    #[test]
    fn they_answer_as_those_of_sqlite_do() {
        let plain = Connection::open_in_memory().unwrap();
        let mut bounded = Connection::open_in_memory().unwrap();
        let guard =
            Guard::install(&mut bounded, Limits::FULL, Urgency::default(), Abandoned::default()).unwrap();
        replace(&bounded, &guard).unwrap();
        for expression in [
            "instr('äbc', 'c')",
            "instr(x'00ff01', x'ff')",
            "instr('abc', x'62')",
            "instr(NULL, 'a')",
            "instr(12345, 34)",
            "instr(0.1, '.1')",
            "instr('', '')",
            "replace('aXbX', 'X', 'yy')",
            "replace('a', '', 'b')",
            "replace(NULL, 'a', 'b')",
            "replace(x'414243', 'B', 'x')",
            "typeof(replace(121, 2, 3))",
            "trim('  a ')",
            "trim('xxaxx', 'x')",
            "ltrim('ääbä', 'ä')",
            "rtrim('ab', 'ba')",
            "trim(NULL, 'a')",
            "'aBc' LIKE 'Ab_'",
            "'a%c' LIKE 'a\\%c' ESCAPE '\\'",
            "'abc' LIKE 'a\\%c' ESCAPE '\\'",
            "NULL LIKE 'a'",
            "1234 LIKE '%23%'",
            "'abc' NOT LIKE '%d%'",
            "'abc' GLOB '[a-b]*'",
            "'aBc' GLOB 'abc'",
            "x'41' LIKE 'a'",
        ] {
            let value = |connection: &Connection| -> Value {
                connection.query_row(&format!("SELECT {expression}"), [], |row| row.get(0)).unwrap()
            };
            assert_eq!(value(&bounded), value(&plain), "{expression}");
        }
        let refused = |connection: &Connection, expression: &str| {
            let failed = connection.query_row(&format!("SELECT {expression}"), [], |_| Ok(())).unwrap_err();
            super::super::answer::reason(&failed)
        };
        for expression in ["'a' LIKE 'a' ESCAPE 'bc'", "'a' LIKE replace(printf('%60000d', 1), ' ', 'a')"] {
            assert_eq!(refused(&bounded, expression), refused(&plain, expression));
        }
        assert_eq!(
            refused(&bounded, "instr(zeroblob(2000000), zeroblob(1000000))"),
            "the arguments of instr() are too long for each other"
        );
    }
}
