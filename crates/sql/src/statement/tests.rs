use super::*;
use crate::{KillKind, kill_target};

/// The rows of `tests/vectors/statements.txt`.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let rows = include_str!("../../tests/vectors/statements.txt").lines();
    rows.filter(|row| !row.starts_with('#') && !row.is_empty()).map(|row| {
        let mut parts = row.splitn(3, '|');
        let mut part = || parts.next().expect("three parts").trim();
        (part(), part(), part().replace("\\n", "\n"))
    })
}

#[test]
fn classifies_every_case() {
    let mut wrong = Vec::new();
    for (kind, flags, query) in cases() {
        let expected = flags
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| Flags::named(name).unwrap_or_else(|| panic!("no flag {name}")));
        let expected = expected.fold(Flags::NONE, Flags::union);
        let found = classify(query.as_bytes());
        if format!("{:?}", found.kind) != kind
            || found.flags.without(Flags::COMMENT | Flags::FROM) != expected
        {
            wrong.push(format!(
                "{query}\n  expected {kind} {expected:?}\n  found    {:?} {:?}",
                found.kind, found.flags
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases().count() > 250);
}

#[test]
fn says_whether_there_is_a_from() {
    let from = |query: &str| classify(query.as_bytes()).flags.contains(Flags::FROM);
    for query in [
        "SELECT 1 FROM t",
        "select(1)from t",
        "SELECT /*! FROM */ t",
        "DELETE/**/From t",
        "SELECT (SELECT 1 FROM t)",
    ] {
        assert!(from(query), "{query}");
    }
    for query in ["SELECT 1", "SELECT 'a FROM t'", "SELECT `from`, t.from, @from -- FROM t", "SELECT fromage"]
    {
        assert!(!from(query), "{query}");
    }
}

#[test]
fn says_whether_there_is_a_comment() {
    let comment = |query: &str| classify(query.as_bytes()).flags.contains(Flags::COMMENT);
    assert!(comment("/* a */ SELECT 1") && comment("SELECT /*+ a */ 1") && comment("SELECT 1 /*! a */"));
    assert!(!comment("SELECT '/* a */'") && !comment("SELECT 1 -- /* a */"));
}

#[test]
fn a_backslash_hides_no_statement_when_it_is_no_escape() {
    let query = br"SELECT 'a\'; DROP TABLE t; -- '";
    let escaped = classify(query);
    assert_eq!(escaped.flags, Flags::ESCAPED_QUOTE);
    let plain = classify_with(query, Escapes::None);
    assert!(plain.flags.contains(Flags::MULTI | Flags::ESCAPED_QUOTE));
}

#[test]
fn names_the_schema_of_use() {
    let schema = |query: &str| use_schema(query.as_bytes()).map(Cow::into_owned);
    for query in ["USE db1", "use `db1`;", "/* x */ USE db1 -- y", "USE \"db1\"", "/*!40000 USE db1 */"] {
        assert_eq!(schema(query), Some(b"db1".to_vec()), "{query}");
    }
    assert_eq!(schema("USE `a``b`"), Some(b"a`b".to_vec()));
    assert_eq!(schema("USE 2021_logs"), Some(b"2021_logs".to_vec()));
    for query in ["USE", "USE a b", "USE a; SELECT 1", "USE 'a'", "USE `a", "SELECT 1", ""] {
        assert_eq!(schema(query), None, "{query}");
    }
}

#[test]
fn reads_what_kill_ends() {
    let target = |query: &str| kill_target(query.as_bytes()).map(|target| (target.kind, target.id));
    for (query, expected) in [
        ("KILL 5", Some((KillKind::Connection, 5))),
        ("kill connection 5;", Some((KillKind::Connection, 5))),
        ("KILL QUERY 18446744073709551615", Some((KillKind::Query, u64::MAX))),
        ("KILL HARD QUERY 7", Some((KillKind::Query, 7))),
        ("KILL SOFT CONNECTION 7", Some((KillKind::Connection, 7))),
        ("KILL QUERY ID 7", None),
        ("KILL USER 'x'", None),
        ("KILL 5; SELECT 1", None),
        ("KILL @x", None),
        ("KILL 5+1", None),
        ("KILL -5", None),
        ("KILL", None),
        ("KILL 99999999999999999999", None),
    ] {
        assert_eq!(target(query), expected, "{query}");
    }
}

#[test]
fn splits_texts_of_several_statements() {
    let split = |query: &'static str| -> Vec<&str> {
        statements(query.as_bytes(), Escapes::Backslash)
            .map(|one| std::str::from_utf8(one).unwrap())
            .collect()
    };
    assert_eq!(split("SELECT ';' ; ; /* ; */ SET a=1;"), ["SELECT ';'", "SET a=1"]);
    assert_eq!(split("SELECT 1"), ["SELECT 1"]);
    assert_eq!(split(" ; "), [""; 0]);
}

#[test]
fn reads_what_some_servers_skip_in_both_ways() {
    let seen = |query: &str| {
        let found = classify(query.as_bytes());
        (found.kind, found.flags.without(Flags::EXECUTABLE_COMMENT | Flags::COMMENT | Flags::FROM))
    };
    // The server may read it in either way.
    assert_eq!(seen("SELECT 1 FOR /*!99999 x */ UPDATE"), (Kind::Select, Flags::FOR_UPDATE));
    assert_eq!(seen("SELECT 1 FOR /*!99999 UPDATE */"), (Kind::Select, Flags::FOR_UPDATE));
    assert_eq!(seen("/*!80000 SET SESSION x = 1 */"), (Kind::Set, Flags::NONE));
    for query in [
        "/*!99999 SELECT 1 FROM */ LOCK TABLES t READ",
        "/*!99999 COMMIT */",
        "SET x = 1 /*!99999 , y = 2 */",
        "SELECT 1; /*!99999 SELECT */ LOCK TABLES t READ",
        "SELECT /*!99999 ' */ 1; CREATE TEMPORARY TABLE t (n INT) -- '",
        "SELECT 1 /*!99999 a */ /*!50700 b */",
        "/*M! SELECT */ DO 1",
    ] {
        let (kind, flags) = seen(query);
        assert_eq!((kind, flags.contains(Flags::UNSURE)), (Kind::Call, true), "{query}");
        assert_eq!(statements(query.as_bytes(), Escapes::Backslash).count(), 1, "{query}");
    }
    assert!(seen("SELECT /*!99999 ' */ 1; KILL 5 -- '").1.contains(Flags::KILL));
    // All existing servers execute these.
    assert_eq!(seen("/*!40101 COMMIT */"), (Kind::Commit, Flags::NONE));
    assert_eq!(seen("/*! COMMIT */"), (Kind::Commit, Flags::NONE));
}

#[test]
fn parts_are_never_several_statements() {
    let all = |query: &str| {
        parts(query.as_bytes(), Escapes::Backslash)
            .map(|(part, statement)| (part.escape_ascii().to_string(), statement.kind, statement.flags))
            .collect::<Vec<_>>()
    };
    for query in [
        "SELECT 1 /*!99999 */; SELECT 2",
        "SELECT 1; SELECT 2 /*M! 3 */",
        "COMMIT RELEASE; SELECT /*!80000 1 */",
        "SELECT 1 --\u{a0}; SELECT 2",
        // On its own, the second part has a comment at the place where the whole text ends one.
        "SELECT 1 /*! ; SELECT 2 */* ' */ ; '",
    ] {
        let parts = all(query);
        assert!(!parts.is_empty(), "{query}");
        assert!(parts.iter().all(|(_, _, flags)| !flags.contains(Flags::MULTI)), "{query}: {parts:?}");
        assert!(parts.iter().any(|(_, kind, flags)| *kind == Kind::Call && flags.contains(Flags::UNSURE)));
    }
    let kinds: Vec<Kind> = all("SELECT 1; COMMIT;; SET a = 1").iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [Kind::Select, Kind::Commit, Kind::Set]);
}

/// Texts of this size are read as a whole. None of them may take long, or use much of the stack.
#[test]
#[expect(clippy::disallowed_types, reason = "the test is about how long it takes")]
fn time_and_stack_are_bounded_for_any_text() {
    for piece in [
        "/*!99999 ",
        "/*!99999 */",
        "/*! ",
        "/*M!",
        "/*",
        "*/",
        "(",
        ")",
        "((SELECT ",
        "\\",
        "'",
        "\"",
        "`",
        "--",
        "-- ",
        "#",
        "--\n",
        ";",
        "; ",
        "SELECT 1;",
        "EXPLAIN ",
        "EXPLAIN ANALYZE ",
        "WITH ",
        "WITH a AS (",
        "PREPARE s FROM '",
        "kill ",
        "EXECUTE IMMEDIATE \"",
        "SET STATEMENT a=1 FOR ",
        "BEGIN ",
        "@",
        "@@",
        "@@a.",
        "a.",
        "CREATE ",
        "SET ",
        "=",
        ",",
        "0",
        "SELECT 1 /*! ; SELECT 2 */* ' */ ; '",
        "REPLACE ",
    ] {
        for (before, after) in
            [("", ""), ("SELECT \"", "\""), ("SELECT '", "'; KILL 5"), ("SELECT 1 /*!99999 */;", ";")]
        {
            let text = format!("{before}{}{after}", piece.repeat((1 << 18) / piece.len()));
            let text = text.as_bytes();
            let began = std::time::Instant::now();
            for escapes in [Escapes::Backslash, Escapes::None] {
                let statement = classify_with(text, escapes);
                assert!(parts(text, escapes).count() <= text.len());
                let _ = crate::killing(text, escapes, &|_| None);
                let _ = crate::effect_on_transaction(text, statement);
                let _ = crate::reads_apart(text, statement);
                let _ = crate::is_read(text, statement, |_| true);
            }
            for plain_backslash in [false, true] {
                let _ =
                    crate::reads_surely(text, crate::Writing { charset: Some("utf8mb4"), plain_backslash });
            }
            let _ = crate::charset_matters(text, "gbk");
            let _ = crate::set::parse(text);
            crate::annotations(text).count();
            let _ = crate::lock_calls(text);
            assert!(began.elapsed().as_secs() < 10, "{before}{piece}..{after}: {:?}", began.elapsed());
        }
    }
}

#[test]
fn a_user_variable_that_only_some_servers_set_is_in_doubt() {
    for query in ["/*M!100100 SET @a = 'x' */", "/*!80000 SET sql_mode = '', @a = 1 */;"] {
        let statement = classify(query.as_bytes());
        assert_eq!(statement.kind, Kind::Call, "{query}");
        assert!(statement.flags.contains(Flags::UNSURE), "{query}");
    }
    assert_eq!(classify(b"/*!80000 SET SESSION information_schema_stats_expiry = 0 */").kind, Kind::Set);
}
