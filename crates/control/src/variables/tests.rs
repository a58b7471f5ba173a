use narrows_proxy::snapshot::Variables;

use super::*;
use crate::config::tree;

fn text(text: &str) -> tree::NodeValue {
    tree::NodeValue::Text(text.to_owned())
}

fn named(name: &str) -> &'static Variable {
    Variable::named(name).expect("a variable of that name")
}

fn set_all(settings: &[(&str, &str)]) -> Values {
    let mut values = Values::default();
    for (name, value) in settings {
        values.set(named(name), &text(value)).expect("a valid value");
    }
    values
}

#[test]
fn every_default_is_a_valid_value() {
    for variable in VARIABLES.iter().filter(|variable| !matches!(variable.kind, Kind::Fixed { .. })) {
        let default = variable.default_value();
        assert_eq!(variable.parse(&text(&default.to_string())), Ok(default), "{}", variable.name);
    }
}

#[test]
fn names_are_unique_and_in_order_within_their_module() {
    for pair in VARIABLES.windows(2) {
        let [one, two] = [pair[0].name, pair[1].name].map(str::to_ascii_lowercase);
        assert!(one < two || (one.starts_with("mysql-") && two.starts_with("admin-")), "{one} {two}");
    }
}

#[test]
fn every_sentence_ends() {
    for variable in VARIABLES.iter() {
        assert!(variable.doc.ends_with(['.', ')']), "{}", variable.name);
    }
}

#[test]
fn defaults_give_the_data_plane_its_defaults() {
    assert_eq!(Values::default().for_data_plane(), Variables::default());
}

#[test]
fn values_out_of_range_name_the_range() {
    let variable = named("mysql-max_connections");
    for written in ["0", "1000001", "many", "", "9223372036854775808"] {
        let problem = variable.parse(&text(written)).expect_err("out of range");
        let message = format!("max_connections: expected an integer from 1 to 1000000, found {written:?}");
        assert_eq!(problem.to_string(), message);
    }
    assert_eq!(variable.parse(&text("1000000")), Ok(Value::Integer(1_000_000)));
}

#[test]
fn flags_are_read_in_every_spelling() {
    let variable = named("mysql-multiplexing");
    for (written, flag) in [("TRUE", true), ("1", true), ("False", false), ("0", false)] {
        assert_eq!(variable.parse(&text(written)), Ok(Value::Flag(flag)));
    }
    assert!(variable.parse(&text("yes")).is_err());
    assert!(variable.parse(&tree::NodeValue::Integer(2, "2".to_owned())).is_err());
}

#[test]
fn the_version_cannot_be_set() {
    let problem = named("admin-version").parse(&text("2.7.1")).expect_err("fixed");
    assert_eq!(problem.to_string(), "ignored: `version` cannot be set");
}

#[test]
fn collation_gives_way_to_the_character_set() {
    let cases = [
        ("utf8mb4", "utf8_general_ci", "utf8mb4_general_ci"),
        ("utf8mb4", "utf8mb4_unicode_ci", "utf8mb4_unicode_ci"),
        ("utf8mb3", "utf8_general_ci", "utf8_general_ci"),
        ("latin1", "utf8_general_ci", "latin1_swedish_ci"),
        ("binary", "utf8_general_ci", "binary"),
        ("latin1", "utf8mb4_bin", "latin1_swedish_ci"),
    ];
    for (charset, collation, expected) in cases {
        let values =
            set_all(&[("mysql-default_charset", charset), ("mysql-default_collation_connection", collation)]);
        assert_eq!(values.for_data_plane().default_collation_connection, expected);
    }
}

#[test]
fn a_collation_alone_brings_its_character_set() {
    let variables = set_all(&[("mysql-default_collation_connection", "utf8mb4_bin")]).for_data_plane();

    assert_eq!(variables.default_collation_connection, "utf8mb4_bin");
    assert_eq!(variables.default_charset, "utf8mb4");
}

#[test]
fn keepalive_is_off_when_either_variable_says_so() {
    assert_eq!(set_all(&[("mysql-use_tcp_keepalive", "0")]).for_data_plane().tcp_keepalive(), None);
    assert_eq!(set_all(&[("mysql-tcp_keepalive_time", "0")]).for_data_plane().tcp_keepalive(), None);
}

#[test]
fn interfaces_are_split_and_fall_back_to_the_default() {
    let of = |text| set_all(&[("mysql-interfaces", text)]).for_data_plane().interfaces;
    assert_eq!(of("127.0.0.1:3306; /tmp/n.sock;[::1]:3306"), ["127.0.0.1:3306", "/tmp/n.sock", "[::1]:3306"]);
    assert_eq!(of(""), ["0.0.0.0:6033"]);
}

#[test]
fn every_check_of_the_monitor_has_variables_for_its_times() {
    let settings = Values::default().for_monitor();
    // Those of Aurora are in the rows of the clusters.
    let of_variables = || crate::monitor::CHECKS.into_iter().filter(|check| check.name != "aurora");
    for check in of_variables() {
        let timing = settings.timing(check.name);
        assert!(!timing.interval.is_zero() && !timing.timeout.is_zero(), "{check:?}");
    }
    assert_eq!(settings.timings.len(), of_variables().count());
}
