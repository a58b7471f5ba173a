//! States, and what brings a connection from one to another.

use super::*;

#[test]
fn equal_states_need_nothing() {
    let state = SessionState::after_login("utf8mb4", None);
    assert!(state.difference(&state.clone(), true).is_empty());
}

#[test]
fn one_set_statement_brings_all_variables() {
    let mut wanted = SessionState::default();
    wanted.set_text("sql_mode", b"ANSI_QUOTES");
    wanted.set_text("max_execution_time", b"100");
    wanted.schema = Some(b"db1".as_slice().into());
    let mut found = SessionState::default();
    found.set_text("time_zone", b"+02:00");
    let difference = wanted.difference(&found, false);
    let set = "SET max_execution_time=100, sql_mode='ANSI_QUOTES', time_zone=DEFAULT";
    assert_eq!(difference.set.as_deref(), Some(set));
    assert_eq!(difference.schema.as_deref(), Some(b"db1".as_slice()));
}

#[test]
fn the_connection_charset_and_its_collation_are_one_thing() {
    let mut wanted = SessionState::after_login("utf8mb4", Some("utf8mb4_bin"));
    let found = SessionState::after_login("utf8mb4", None);
    assert_eq!(
        wanted.difference(&found, false).set.as_deref(),
        Some("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    );
    wanted.set_names("utf8mb4", None);
    assert!(wanted.difference(&found, false).is_empty());
}

#[test]
fn the_collation_of_results_is_that_of_set_names_alone() {
    let mut wanted = SessionState::after_login("utf8mb4", None);
    wanted.set_text("collation_connection", b"utf8mb4_bin");
    let set = wanted.difference(&SessionState::after_login("latin1", None), false).set;
    assert_eq!(set.as_deref(), Some("SET NAMES utf8mb4, collation_connection='utf8mb4_bin'"));
    wanted.set_names("utf8mb4", Some("utf8mb4_bin"));
    wanted.set_text("character_set_client", b"latin1");
    let set = wanted.difference(&SessionState::after_login("utf8mb4", None), false).set;
    let expected = "SET NAMES utf8mb4 COLLATE utf8mb4_bin, character_set_client='latin1'";
    assert_eq!(set.as_deref(), Some(expected));
}

#[test]
fn what_a_character_set_means_is_not_left_to_the_client_before() {
    let mut found = SessionState::after_login("latin1", None);
    found.set_text("default_collation_for_utf8mb4", b"utf8mb4_general_ci");
    let set = SessionState::after_login("utf8mb4", None).difference(&found, false).set;
    let expected = "SET character_set_results='utf8mb4', character_set_client='utf8mb4', \
                    character_set_connection='utf8mb4', default_collation_for_utf8mb4=DEFAULT";
    assert_eq!(set.as_deref(), Some(expected));
    found.set_text("character_set_results", b"utf8mb4");
    assert_eq!(found.collation_of_names().as_deref(), Some("utf8mb4_general_ci"));
    // MySQL 9.7 asks for it in SET NAMES only.
    found.set_text("character_set_connection", b"utf8mb4");
    assert_eq!(found.literal("collation_connection"), Some("'utf8mb4'"));
}

#[test]
fn a_servers_character_set_and_its_collation_are_one_thing() {
    let mut wanted = SessionState::default();
    wanted.set_text("collation_server", b"latin1_german1_ci");
    wanted.set_text("character_set_server", b"latin1");
    let set = wanted.difference(&SessionState::default(), false).set;
    assert_eq!(set.as_deref(), Some("SET character_set_server='latin1'"));
    wanted.set_schema_collation_to_that_of_the_server();
    assert_eq!(wanted.assignment(SCHEMA_COLLATION), Some("character_set_database='latin1'"));
}

#[test]
fn what_servers_set_along_with_another_variable_is_set_behind_it() {
    let (mut wanted, mut found) = (SessionState::default(), SessionState::default());
    wanted.set_text("max_join_size", b"1000");
    for state in [&mut wanted, &mut found] {
        state.set_text("sql_big_selects", b"ON");
    }
    let set = wanted.difference(&found, false).set;
    assert_eq!(set.as_deref(), Some("SET max_join_size=1000, sql_big_selects='ON'"));
    assert_eq!(found.difference(&found.clone(), false).set, None);
}

#[test]
fn checks_are_switched_on_again_where_default_would_switch_them_off() {
    let mut found = SessionState::default();
    found.set_text("foreign_key_checks", b"OFF");
    let set = SessionState::default().difference(&found, false).set;
    assert_eq!(set.as_deref(), Some("SET foreign_key_checks=@@global.foreign_key_checks"));
}

#[test]
fn null_is_not_assigned_to_a_variable_that_had_a_value() {
    let (mut wanted, mut found) = (SessionState::default(), SessionState::default());
    wanted.set_user_variable("b", "NULL");
    assert_eq!(wanted.difference(&found, true).set.as_deref(), Some("SET @`b`=NULL"));
    found.set_user_variable("b", "1.5");
    assert!(wanted.difference(&found, true).reset);
    found = SessionState::default();
    found.set_user_variable("b", "NULL");
    assert!(wanted.difference(&found, true).is_empty());
    wanted.set_user_variable("b", "7");
    assert_eq!(wanted.difference(&found, true).set.as_deref(), Some("SET @`b`=7"));
}

#[test]
fn without_a_schema_its_collation_is_that_of_the_server() {
    let mut found = SessionState::default();
    found.set_text("character_set_database", b"koi8r");
    let difference = SessionState::default().difference(&found, false);
    let set = "SET character_set_database=@@global.character_set_database";
    assert_eq!((difference.set.as_deref(), difference.schema), (Some(set), None));
}

#[test]
fn a_reset_leaves_no_character_set_that_is_known() {
    let found = SessionState::after_login("utf8mb4", None).after_reset();
    assert!(SessionState::after_login("utf8mb4", None).difference(&found, false).set.is_some());
    let set = SessionState::default().difference(&found, false).set;
    assert!(set.is_some_and(|set| set.contains("character_set_results=DEFAULT")));
    let schema: Box<[u8]> = b"one".as_slice().into();
    let state = SessionState { schema: Some(schema.clone()), ..SessionState::default() };
    assert_eq!(state.difference(&state.after_reset(), false).schema, Some(schema));
}

#[test]
fn a_variable_that_becomes_null_keeps_its_type() {
    let mut state = SessionState::default();
    state.set_user_variable("n", "1.50");
    state.set_user_variable("n", "NULL");
    state.set_user_variable("n", "NULL");
    let set = state.difference(&SessionState::default(), true).set;
    assert_eq!(set.as_deref(), Some("SET @`n`=1.50, @`n`=NULL"));
}

#[test]
fn a_new_schema_takes_its_collation_with_it() {
    let state = |schema: &[u8]| {
        let mut state = SessionState { schema: Some(schema.into()), ..SessionState::default() };
        state.set_literal(SCHEMA_COLLATION, "@@global.collation_database");
        state
    };
    let difference = state(b"one").difference(&state(b"two"), false);
    assert_eq!(difference.set.as_deref(), Some("SET collation_database=@@global.collation_database"));
    assert_eq!(state(b"one").difference(&state(b"one"), false), Difference::default());
}

#[test]
fn null_is_not_an_empty_text() {
    let mut wanted = SessionState::default();
    wanted.set_literal("enforce_storage_engine", "NULL");
    wanted.set_text("sql_mode", b"");
    assert_eq!(
        wanted.difference(&SessionState::default(), false).set.as_deref(),
        Some("SET enforce_storage_engine=NULL, sql_mode=x''")
    );
}

#[test]
fn the_name_of_a_schema_is_sent_in_its_own_character_set() {
    let mut wanted = SessionState::after_login("latin1", None);
    let found = SessionState::after_login("latin1", None);
    for (schema, charset) in [
        (b"plain".as_slice(), None),
        ("caf\u{e9}".as_bytes(), Some("SET character_set_client=utf8mb4")),
        (b"caf\xe9", Some("SET character_set_client='latin1'")),
    ] {
        wanted.schema = Some(schema.into());
        let difference = wanted.difference(&found, false);
        assert_eq!(difference.set_first.as_deref(), charset);
        assert_eq!(difference.set.as_deref(), charset.map(|_| "SET NAMES latin1"));
    }
}

#[test]
fn a_user_variable_has_the_type_of_its_literal() {
    let state = |literal: &str| {
        let mut state = SessionState::default();
        state.set_user_variable("a", literal);
        state
    };
    let all = ["1", "1.5", "1e3", "18446744073709551615", "NULL", "_utf8mb4 'a'", "_latin1 'a'"];
    for one in all {
        for other in all {
            let alike = state(one).resolves_programs_like(&state(other));
            assert_eq!(alike, one == other, "{one} {other}");
        }
        assert!(!state(one).resolves_programs_like(&SessionState::default()), "{one}");
        assert!(SessionState::default().resolves_programs_like(&state(one)), "{one}");
    }
    assert!(state("1").resolves_programs_like(&state("2")));
    assert!(state("_utf8mb4 'a'").resolves_programs_like(&state("_utf8mb4 'b'")));
}

#[test]
fn a_program_is_resolved_with_what_some_variables_say_when_it_runs_first() {
    let state = |name: &str, literal: &str| {
        let mut state = SessionState::default();
        state.set_literal(name, literal);
        state
    };
    for (name, literal, is_kept) in [
        ("lc_time_names", "'de_DE'", true),
        ("div_precision_increment", "2", true),
        ("nobody_knows", "1", true),
        ("sql_mode", "'ANSI'", false),
        ("time_zone", "'+05:00'", false),
        ("wait_timeout", "5", false),
    ] {
        let (set, default) = (state(name, literal), SessionState::default());
        assert_eq!(set.resolves_programs_like(&default), !is_kept, "{name}");
        assert_eq!(default.resolves_programs_like(&set), !is_kept, "{name}");
    }
}

#[test]
fn user_variables_count_only_when_they_are_read() {
    let mut wanted = SessionState::default();
    wanted.set_user_variable("a", "1");
    let mut found = SessionState::default();
    found.set_user_variable("b", "'x'");
    assert!(wanted.difference(&found, false).is_empty());
    assert!(wanted.difference(&found, true).reset, "b must go");
    assert_eq!(wanted.difference(&SessionState::default(), true).set.as_deref(), Some("SET @`a`=1"));
}

#[test]
fn text_keeps_the_collation_it_was_sent_in() {
    let state = SessionState::after_login("latin1", Some("latin1_bin"));
    let literal = state.text_literal(b"it's", Family::MariaDb).unwrap();
    assert_eq!(literal, "_latin1 'it''s' COLLATE latin1_bin");
    let state = SessionState::after_login("utf8mb4", None);
    assert_eq!(state.text_literal(b"x", Family::MySql).unwrap(), "_utf8mb4 'x'");
    assert_eq!(SessionState::default().text_literal(b"x", Family::MySql), None);
}

#[test]
fn a_schema_can_only_be_left_by_a_new_login() {
    let found = SessionState { schema: Some(b"db1".as_slice().into()), ..SessionState::default() };
    assert!(SessionState::default().difference(&found, false).schema_must_go);
}

#[test]
fn quotes_what_a_server_reports() {
    assert_eq!(quoted(b"it's"), "'it''s'");
    assert_eq!(quoted(b"a\\b"), "0x615C62");
    assert_eq!(quoted("\u{e9}'".as_bytes()), "0xC3A927");
    for (value, literal) in [
        ("12", "12"),
        ("0.5", "0.5"),
        ("1.2.3", "'1.2.3'"),
        (".", "'.'"),
        ("5.", "'5.'"),
        ("", "''"),
        ("1e5", "'1e5'"),
    ] {
        let mut state = SessionState::default();
        state.set_text("a", value.as_bytes());
        assert_eq!(state.literal("a"), Some(literal), "{value}");
    }
}

#[test]
fn carries_only_what_is_a_variable() {
    let state = SessionState::default();
    for (name, value) in [
        ("sql_mode", &b"it's; DROP \\"[..]),
        ("validate_password.policy", b"1"),
        ("collation_connection", b"utf8mb4_bin"),
        ("character_set_results", b""),
    ] {
        assert!(state.can_carry(name, value), "{name}");
    }
    let (long, many) = (format!("a{}", "b".repeat(128)), vec![b'x'; MOST_BYTES]);
    for (name, value) in [
        ("", &b"1"[..]),
        ("a=1, b", b"1"),
        ("a b", b"1"),
        ("`a`", b"1"),
        ("@a", b"1"),
        ("global.general_log", b"1"),
        ("a.b.c", b"1"),
        ("a.", b"1"),
        (".a", b"1"),
        ("1a", b"1"),
        ("caf\u{e9}", b"1"),
        (&long, b"1"),
        ("a", &many),
        ("collation_connection", b"utf8mb4_bin, @@global.general_log=1"),
        ("character_set_client", b"utf8'"),
        ("default_collation_for_utf8mb4", b"a b"),
    ] {
        assert!(!state.can_carry(name, value), "{name}");
    }
    let mut full = SessionState::default();
    for number in 0..64 {
        full.set_user_variable(&format!("v{number}"), &"x".repeat(1_000));
    }
    assert!(!full.has_room(2_000) && full.has_room(100));
}

#[test]
fn ascii_text_is_not_carried_where_it_has_other_bytes() {
    for name in ["utf16_general_ci", "utf16", "ucs2_bin", "utf16le_bin", "utf32_general_ci", "swe7_bin"] {
        let mut state = SessionState::default();
        state.set_text("collation_connection", name.as_bytes());
        for family in [Family::MySql, Family::MariaDb] {
            assert_eq!(state.text_literal(b"abc", family), None, "{name}");
        }
    }
}
