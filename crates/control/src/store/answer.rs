//! The store's answers: rows, a count, or a refusal with ProxySQL's messages.

use std::borrow::Cow;

use rusqlite::ffi::ErrorCode;
use rusqlite::types::ValueRef;

use super::packed::Packed;

/// Rows with the names of their columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Packed,
    /// What is missing.
    pub warnings: Vec<Warning>,
}

/// Something that was skipped or changed, for `SHOW WARNINGS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The MySQL error number.
    pub code: u16,
    /// The text of the warning.
    pub message: String,
}

/// The answer of a statement that is not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Rows.
    Rows(ResultSet),
    /// An OK without rows.
    Done {
        /// The number of rows changed.
        affected: u64,
        /// The text of the OK packet.
        info: String,
        /// What was skipped or changed.
        warnings: Vec<Warning>,
    },
}

impl Answer {
    /// An OK with only the number of rows changed.
    pub fn done(affected: u64) -> Answer {
        Answer::Done { affected, info: String::new(), warnings: Vec::new() }
    }
}

/// Why a statement was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The number of the error packet.
    pub code: u16,
    /// The SQLSTATE of the error packet.
    pub sqlstate: &'static str,
    /// The text of the error packet.
    pub message: String,
}

impl Refusal {
    /// A refusal in the form of the admin interface's errors.
    pub fn admin(reason: impl std::fmt::Display) -> Refusal {
        Refusal { code: 1045, sqlstate: "28000", message: format!("ProxySQL Admin Error: {reason}") }
    }

    /// Whether another connection has the tables locked.
    pub fn is_locked(&self) -> bool {
        self.code == LOCKED
    }
}

/// `ER_LOCK_WAIT_TIMEOUT`
const LOCKED: u16 = 1205;

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Refusal {
        if let Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) = error.sqlite_error_code() {
            let message = "ProxySQL Admin Error: database is locked".to_owned();
            return Refusal { code: LOCKED, sqlstate: "HY000", message };
        }
        Refusal::admin(reason(&error))
    }
}

/// SQLite's message, without `rusqlite`'s additions.
pub fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// A value as text; `None` for NULL.
pub fn cell(value: ValueRef<'_>) -> Option<Cow<'_, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(integer) => Some(integer.to_string().into_bytes().into()),
        ValueRef::Real(real) => Some(real_text(real).into_bytes().into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.into()),
    }
}

/// The number with 15 significant digits, and at least one after the decimal point, as ProxySQL and older versions of
/// SQLite write it.
fn real_text(real: f64) -> String {
    if real.is_infinite() {
        return if real > 0.0 { "Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{real:.14e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..15).contains(&exponent) {
        let decimals = usize::try_from(14 - exponent).unwrap_or(0);
        return trim_zeros(&format!("{real:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(digits), exponent.abs())
}

/// The number without trailing zeros after the decimal point, except one.
fn trim_zeros(number: &str) -> String {
    let Some((whole, fraction)) = number.split_once('.') else { return format!("{number}.0") };
    let fraction = fraction.trim_end_matches('0');
    format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_point_have_fifteen_digits() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let numbers = [
            "1.0",
            "0.1",
            "-2.5",
            "1e15",
            "123456789012345.6",
            "1e100",
            "1.5e-5",
            "0.0001",
            "1/3.0",
            "9e999",
        ];
        for number in numbers {
            let sql = format!("SELECT CAST({number} AS REAL), printf('%!.15g', CAST({number} AS REAL))");
            connection
                .query_row(&sql, [], |row| {
                    let own = cell(row.get_ref(0)?).unwrap();
                    let theirs: String = row.get(1)?;
                    assert_eq!(String::from_utf8(own.into_owned()).unwrap(), theirs);
                    Ok(())
                })
                .unwrap();
        }
    }
}
