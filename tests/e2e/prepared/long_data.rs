//! Parameters that are sent in parts, and executions longer than a packet.

use narrows_testkit::{Flavour, ServerOptions, command};

use super::statement::cell;
use super::{Scene, Statement, Value, on_each};

const MEASURE: &str = "SELECT CONCAT(LENGTH(?), ' ', SHA2(?, 256))";

#[test]
fn parts_reach_the_execution_they_belong_to() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT CONCAT(?, '-', ?)";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        let both = [Value::Text("x"), Value::Sent];
        by_one.send(&mut one, 1, b"first, ");
        by_other.send(&mut other, 1, b"the other's");
        by_one.send(&mut one, 1, b"second");
        assert_eq!(cell(&by_other.execute(&mut other, &both)), "x-the other's");
        assert_eq!(cell(&by_one.execute(&mut one, &both)), "x-first, second");
        by_one.send(&mut one, 1, b"given up");
        assert!(by_one.reset(&mut one).error().is_none());
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Text("a"), Value::Text("b")])), "a-b");
        by_one.send(&mut one, 0, b"given up too");
        by_one.close(&mut one);
        // Both connections are free again.
        scene.client().query("BEGIN");
        assert_eq!(one.query("SELECT 1").cell().as_deref(), Some("1"));
    });
}

#[test]
fn a_part_for_a_parameter_that_is_not_there_harms_nobody_else() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT CONCAT('<', ?, '>')";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        by_one.send(&mut one, 9, b"nowhere");
        // MariaDB reports this, MySQL does not.
        by_one.execute(&mut one, &[Value::Text("a")]);
        by_one.reset(&mut one);
        assert_eq!(cell(&by_other.execute(&mut other, &[Value::Text("b")])), "<b>");
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Text("a")])), "<a>");
        let unknown = Statement { id: 99, columns: 1 };
        unknown.send(&mut one, 0, b"nobody's");
        assert_eq!(one.query("SELECT 1").cell().as_deref(), Some("1"), "it has no answer");
    });
}

#[test]
fn parts_are_not_taken_by_the_types_of_another_client() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT CONCAT('<', ?, '>')";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Integer(7)])), "<7>");
        by_other.send(&mut other, 0, b"text");
        assert_eq!(cell(&by_other.execute(&mut other, &[Value::Sent])), "<text>");
        assert_eq!(cell(&by_one.execute_again(&mut one, &[Value::Integer(8)])), "<8>");
    });
}

#[test]
fn megabytes_in_parts_and_in_one_piece() {
    for flavour in Flavour::both() {
        let options = ServerOptions::new(flavour).option("--max-allowed-packet=256M");
        let scene = Scene::start_with(options, flavour, 1, &[]);
        let (mut one, mut other) = (scene.client(), scene.client());
        let by_one = Statement::prepare(&mut one, MEASURE);
        let by_other = Statement::prepare(&mut other, MEASURE);
        let part = vec![b'x'; 3 << 20];
        for parameter in [0, 1] {
            by_one.send(&mut one, parameter, &part);
            by_one.send(&mut one, parameter, &part);
        }
        let whole = "x".repeat(6 << 20);
        let measured = cell(&by_one.execute(&mut one, &[Value::Sent, Value::Sent]));
        assert!(measured.starts_with("6291456 "), "{measured}");
        let piece = by_one.execute(&mut one, &[Value::Text(&whole), Value::Text(&whole)]);
        assert_eq!(cell(&piece), measured);
        // Around the length at which a second packet is needed, which the inserted types change.
        for length in [0xFF_FFFF - 30, 0xFF_FFFF - 20, 0xFF_FFFF - 12, 20 << 20] {
            let text = "y".repeat(length);
            assert!(by_one.execute(&mut one, &[Value::Text(""), Value::Text(&text)]).error().is_none());
            by_other.execute(&mut other, &[Value::Integer(1), Value::Integer(2)]);
            let again = by_one.execute_again(&mut one, &[Value::Text(&text), Value::Text("")]);
            assert!(cell(&again).starts_with(&format!("{length} ")), "{flavour:?} {length}");
        }
        assert!(one.command(command::PING, b"").error().is_none());
    }
}

#[test]
fn a_statement_too_long_to_be_read_is_executed_where_it_was_prepared() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = format!("SELECT CONCAT('{}', LENGTH('{}'))", "a", "z".repeat(2 << 20));
        let statement = Statement::prepare(&mut one, &text);
        other.query("SELECT 1");
        for _ in 0..3 {
            assert_eq!(cell(&statement.execute(&mut one, &[])), "a2097152");
            other.query("SELECT 1");
        }
        statement.close(&mut one);
    });
}

#[test]
fn nothing_stays_held_for_a_number_that_others_have_too() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let first = Statement::prepare(&mut one, "SELECT CONCAT('<', ?, '>')");
        let same = Statement::prepare(&mut one, "SELECT CONCAT('<', ?, '>')");
        assert_eq!(cell(&first.execute(&mut one, &[Value::Bytes("c")])), "<c>");
        first.send(&mut one, 0, b"a");
        assert_eq!(cell(&same.execute(&mut one, &[Value::Bytes("b")])), "<b>");
        first.send(&mut one, 0, b"a");
        assert_eq!(cell(&first.execute(&mut one, &[Value::Sent])), "<aa>");

        let others = Statement::prepare(&mut other, "SELECT 'mine'");
        assert_eq!(others.id, first.id);
        assert_eq!(cell(&others.execute(&mut other, &[])), "mine");
    });
}
