//! Functions available to statements in addition to SQLite's.

use narrows_wire::auth::{NONCE_LENGTH, caching_sha2, native, nonce_from};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;

use crate::calendar::date_and_time;
use rusqlite::{Connection, Result};

/// Adds the functions to `connection`.
pub fn add(connection: &Connection) -> Result<()> {
    let any = FunctionFlags::SQLITE_UTF8;
    let pure = any | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("FROM_UNIXTIME", -1, pure, from_unixtime)?;
    connection.create_scalar_function("MYSQL_NATIVE_PASSWORD", 1, pure, native_password)?;
    connection.create_scalar_function("CACHING_SHA2_PASSWORD", 1, any, caching_sha2_password)?;
    connection.create_scalar_function("CACHING_SHA2_PASSWORD", 2, pure, caching_sha2_password)
}

/// What the password functions return instead of an error.
const WRONG_TYPE: &[u8] = b"Invalid argument type";
const WRONG_SIZE: &[u8] = b"Invalid argument size";

fn native_password(context: &Context<'_>) -> Result<String> {
    let answer = match context.get_raw(0) {
        ValueRef::Text([]) => WRONG_SIZE.to_vec(),
        ValueRef::Text(password) => return Ok(native_hash(password)),
        _ => WRONG_TYPE.to_vec(),
    };
    Ok(text(answer))
}

/// A password as `mysql_native_password` stores it: `*` and 40 hexadecimal digits.
pub fn native_hash(password: &[u8]) -> String {
    native::format_stored(&native::stage2(&native::stage1(password)))
}

fn caching_sha2_password(context: &Context<'_>) -> Result<String> {
    let salt = match context.len() {
        1 => {
            let mut random = [0; NONCE_LENGTH];
            aws_lc_rs::rand::fill(&mut random).map_err(|e| rusqlite::Error::UserFunctionError(e.into()))?;
            nonce_from(random).to_vec()
        }
        _ => match context.get_raw(1) {
            ValueRef::Text(salt) if salt.is_empty() || salt.len() > NONCE_LENGTH => {
                return Ok(text(WRONG_SIZE.to_vec()));
            }
            ValueRef::Text(salt) => salt.to_vec(),
            _ => return Ok(text(WRONG_TYPE.to_vec())),
        },
    };
    let answer = match context.get_raw(0) {
        ValueRef::Text([]) => WRONG_SIZE.to_vec(),
        ValueRef::Text(password) => caching_sha2::format_stored(password, &salt),
        _ => WRONG_TYPE.to_vec(),
    };
    Ok(text(answer))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Seconds of the years 0 to 9999, outside of which SQLite's own functions also return NULL.
const WRITABLE: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

fn from_unixtime(context: &Context<'_>) -> Result<Option<String>> {
    if context.is_empty() {
        return Ok(None);
    }
    let seconds = match context.get_raw(0) {
        ValueRef::Integer(seconds) => Some(seconds),
        ValueRef::Real(seconds) => whole(seconds),
        ValueRef::Text(text) => {
            std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).and_then(whole)
        }
        _ => None,
    };
    Ok(seconds.filter(|seconds| WRITABLE.contains(seconds)).map(date_and_time))
}

fn whole(seconds: f64) -> Option<i64> {
    // Larger numbers are not valid times, and the conversion of smaller ones is exact.
    (seconds.abs() < 1e15).then(|| seconds.floor() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(sql: &str) -> Option<String> {
        let connection = Connection::open_in_memory().unwrap();
        add(&connection).unwrap();
        connection.query_row(&format!("SELECT {sql}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn passwords_are_hashed_as_servers_store_them() {
        let is = |sql: &str, expected: &str| assert_eq!(value(sql).as_deref(), Some(expected), "{sql}");
        is("MYSQL_NATIVE_PASSWORD('pw')", "*D821809F681A40A6E379B50D0463EFAE20BDD122");
        is("MYSQL_NATIVE_PASSWORD('')", "Invalid argument size");
        is("MYSQL_NATIVE_PASSWORD(1)", "Invalid argument type");
        is(
            "HEX(CACHING_SHA2_PASSWORD('pw','abcdefghijklmnopqrst'))",
            "244124303035246162636465666768696A6B6C6D6E6F70717273746748376F476B4859495A4E653073717A554D6D786F67654D694\
             8516867417132486F6F653043554A507744",
        );
        is(
            "HEX(CACHING_SHA2_PASSWORD('pw','short'))",
            "2441243030352473686F727448592E66706B32642E6D55774C6A4E346F706E2E6B524E76567349552E684D76497A4A6B41573071\
             327639",
        );
        is("CAST(LENGTH(CACHING_SHA2_PASSWORD('pw')) AS TEXT)", "70");
        is("CACHING_SHA2_PASSWORD('pw','abcdefghijklmnopqrstu')", "Invalid argument size");
        is("CACHING_SHA2_PASSWORD('pw',5)", "Invalid argument type");
    }

    #[test]
    fn times_are_those_of_sqlite() {
        for seconds in
            [0_i64, 1_600_000_000, 951_782_400, 4_107_542_399, -1, -62_167_219_200, 253_402_300_799]
        {
            let theirs = value(&format!("datetime({seconds}, 'unixepoch')"));
            assert_eq!(value(&format!("FROM_UNIXTIME({seconds})")), theirs);
        }
        assert_eq!(value("FROM_UNIXTIME(1.5)").as_deref(), Some("1970-01-01 00:00:01"));
        assert_eq!(value("FROM_UNIXTIME('1600000000')").as_deref(), Some("2020-09-13 12:26:40"));
        for nothing in
            ["FROM_UNIXTIME()", "FROM_UNIXTIME(NULL)", "FROM_UNIXTIME('abc')", "FROM_UNIXTIME(1e300)"]
        {
            assert_eq!(value(nothing), None, "{nothing}");
        }
    }
}
