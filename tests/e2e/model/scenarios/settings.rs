//! Settings that stay: variables, character sets, the schema.

use super::super::script::{Burst, Script};
use super::super::side::Step;
use super::super::variables::CHARACTER_SETS;
use super::look;

pub(super) fn assignment(script: &mut Script) -> (String, bool) {
    let (name, values) = *script.random.pick(&script.variables.clone());
    let scope = *script.random.pick(&["", "", "SESSION ", "@@session.", "@@", "LOCAL ", "@@local."]);
    let value = match script.random.below(6) {
        0 => "DEFAULT".to_owned(),
        1 if script.random.percent(40) => format!("@@global.{name}"),
        _ => (*script.random.pick(values)).to_owned(),
    };
    let colon = if script.random.percent(10) { ":" } else { "" };
    // For the next transaction only, which may start much later.
    let ties = scope == "@@" && (name.starts_with("tx_") || name.starts_with("transaction_"));
    (format!("{scope}{name} {colon}= {value}"), ties)
}

pub(super) fn variable(script: &mut Script, burst: &mut Burst) {
    let (assignment, ties) = assignment(script);
    burst.query(format!("SET {assignment}"));
    burst.ties |= ties;
}

pub(super) fn variables_at_once(script: &mut Script, burst: &mut Burst) {
    let mut parts: Vec<String> = (0..2 + script.random.below(3)).map(|_| assignment(script).0).collect();
    if script.random.percent(30) {
        parts.push("@b = 'together'".to_owned());
    }
    if script.random.percent(15) {
        parts.push("nosuchvariable = 1".to_owned());
    }
    if script.random.percent(15) {
        parts.push("sql_mode = 'NOSUCHMODE'".to_owned());
    }
    burst.query(format!("SET {}", parts.join(", ")));
    // If one of several fails, the effect of the others is unknown.
    burst.ties = true;
}

pub(super) fn character_set(script: &mut Script, burst: &mut Burst) {
    let statement = *script.random.pick(CHARACTER_SETS);
    burst.ties = statement.contains('@');
    burst.query(statement);
}

pub(super) fn schema(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let schema = (*script.random.pick(&[own.as_str(), own.as_str(), "common", "latin", "nosuch"])).to_owned();
    match script.random.below(6) {
        0 | 1 => burst.steps.push(Step::InitDb(schema)),
        2 => burst.query(format!("use `{schema}`")),
        3 if script.random.percent(30) => {
            // A schema that is dropped while it is the default one.
            let gone = format!("{own}x");
            for statement in [
                format!("CREATE DATABASE {gone}"),
                format!("USE {gone}"),
                "SELECT DATABASE()".to_owned(),
                format!("DROP DATABASE {gone}"),
                "SELECT DATABASE()".to_owned(),
            ] {
                burst.query(statement);
            }
        }
        _ => burst.query(format!("USE {schema}")),
    }
}

const LITERALS: &[&str] =
    &["1", "-5", "1.50", "1e10", "'x'", "'it''s'", "\"dq\"", "NULL", "'1'", "18446744073709551615", "''"];

/// Literals that may tie the session, being hard to repeat elsewhere.
const ODD_LITERALS: &[&str] = &[
    "TRUE",
    "0x4142",
    "x'4142'",
    "b'101'",
    "'back\\\\slash'",
    "'\u{e9}t\u{e9}'",
    "-0.0",
    "N'n'",
    "_latin1'l'",
    "DATE'2024-01-02'",
];

const NAMES: &[&str] = &["@a", "@b", "@c", "@A", "@`a`", "@'b'", "@d", "@`odd name`"];

pub(super) fn user_variable(script: &mut Script, burst: &mut Burst) {
    let operator = if script.random.percent(30) { ":=" } else { "=" };
    let mut parts = Vec::new();
    for _ in 0..=script.random.below(2) {
        let name = *script.random.pick(NAMES);
        let odd = script.random.percent(30);
        burst.ties |= odd;
        let literals = if odd { ODD_LITERALS } else { LITERALS };
        parts.push(format!("{name} {operator} {}", script.random.pick(literals)));
    }
    burst.query(format!("SET {}", parts.join(", ")));
    if script.random.percent(50) {
        burst.query("SELECT @a, @b, @c, @d, @`odd name`, CHARSET(@a), COLLATION(@b)");
    }
}

pub(super) fn user_variable_by_expression(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let expression = *script.random.pick(&[
        "SET @a = 1 + 2",
        "SET @a = CONCAT('x', @b)",
        "SET @b = (SELECT MAX(id) FROM t)",
        "SET @c = @@sql_mode",
        "SET @a = 1, @b = @a",
        "SELECT @c := 'assigned'",
        "SELECT @a := @a + 1, @a",
        "SELECT 1, 2 INTO @a, @b",
        "SELECT id INTO @c FROM common.t WHERE id = 20",
        "SELECT id FROM common.t WHERE (@d := id) > 0 ORDER BY id",
        "DO @a := 7",
        "SET @d = USER() IS NULL",
        "SET @a = LAST_INSERT_ID()",
        "SET @a = DATABASE()",
    ]);
    burst.query(expression);
    if script.random.percent(30) {
        burst.query(format!("INSERT INTO {own}.t (v) VALUES (@x := {})", script.number()));
    }
    burst.query("SELECT @a, @b, @c, @d, @x");
    burst.ties = true;
}

/// `timestamp` makes time stand still; without it, time is not comparable.
pub(super) fn timestamp(script: &mut Script, burst: &mut Burst) {
    burst.query("SET timestamp = 1000000000.25");
    burst.query("SELECT NOW(6), UNIX_TIMESTAMP()");
    if script.random.percent(50) {
        variable(script, burst);
    }
    burst.query("SELECT COUNT(*) FROM common.t");
    burst.query("SELECT CURRENT_TIMESTAMP, @@timestamp");
    burst.query("SET timestamp = DEFAULT");
    burst.query("SELECT @@timestamp > 1000000001");
    if script.random.percent(30) {
        burst.query("SET rand_seed1 = 5, rand_seed2 = 7");
        burst.query("SELECT RAND() AS first");
        burst.query("SELECT RAND() AS second");
        burst.ties = true;
    }
}

/// Text with backslashes, in modes where they escape and modes where they do not.
pub(super) fn backslash(script: &mut Script, burst: &mut Burst) {
    let mode = *script.random.pick(&[
        "''",
        "'NO_BACKSLASH_ESCAPES'",
        "'ANSI_QUOTES'",
        "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    ]);
    burst.query(format!("SET sql_mode = {mode}"));
    burst.query(r"SET @a = 'C:\new\tab', @b = 'end'");
    burst.query("SELECT HEX(@a), @b");
    burst.query(*script.random.pick(&[
        r"SET @a = 'it''s \\', @c = 1",
        r"SELECT 'a\\', \N",
        r"SET @b = 'x\%y\_z'",
        r"SELECT '\\', 'b' AS `q\`",
    ]));
    look(script, burst);
    burst.query("SELECT HEX(@a), HEX(@b), @c");
    if script.random.percent(60) {
        burst.query("SET sql_mode = DEFAULT");
        burst.query("SELECT HEX(@a), HEX(@b), 'a\\tb'");
    }
    burst.ties = script.random.percent(50);
}

/// Two-byte letters whose second byte may be a backslash.
pub(super) fn multi_byte(script: &mut Script, burst: &mut Burst) {
    let (charset, letter) = *script.random.pick(&[
        ("gbk", &b"\xbf\x5c"[..]),
        ("gbk", b"\xc4\xe3"),
        ("sjis", b"\x95\x5c"),
        ("big5", b"\xa5\x5c"),
        ("cp932", b"\x83\x5c"),
    ]);
    burst.query(format!("SET NAMES {charset}"));
    burst.query([b"SET @a = '", letter, b"x', @b = 'ascii'"].concat());
    burst.query([b"SELECT HEX(@a), HEX('", letter, b"'), @b"].concat());
    look(script, burst);
    burst.query("SELECT HEX(@a), CHARSET(@a), @b");
    burst.query("SET NAMES utf8mb4");
    burst.query("SELECT HEX(@a), @b");
    burst.ties = true;
}
