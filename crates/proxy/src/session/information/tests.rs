//! What a session knows about earlier statements as connections are leased and given back, without a connection.

use std::cell::Cell;

use narrows_sql::classify;
use narrows_wire::{Command, Errno};

use super::*;
use crate::backend::InsertId;

const HERE: fn(Place) -> bool = |_| true;
const ELSEWHERE: fn(Place) -> bool = |_| false;

fn place(serial: u64) -> Place {
    Place { last_use: Use::of_test(serial), hostgroup: HostgroupId(serial as i32) }
}

/// A session after these statements, each with its outcome, on one connection.
fn after(statements: &[(&str, Outcome)]) -> Information {
    let mut information = Information::default();
    for (text, outcome) in statements {
        let (statement, text) = (classify(text.as_bytes()), text.as_bytes());
        let on_connection = (&mut false, &Cell::new(false));
        information.conditions.note(
            (Command::Query, &statement, text),
            Family::MySql,
            outcome,
            on_connection,
        );
        information.last = Last::Here;
        information.note_results((Command::Query, &statement, text), outcome);
        information.note_found_rows((Command::Query, &statement, text), Family::MySql, outcome);
    }
    information
}

fn rows(rows: u64) -> Outcome {
    Outcome { rows: Some(rows), ..Outcome::default() }
}

fn ok(affected_rows: u64) -> Outcome {
    Outcome { affected_rows: Some(affected_rows), ..Outcome::default() }
}

fn inserted(id: u64) -> Outcome {
    Outcome { last_insert_id: id, ..ok(1) }
}

fn insert(information: &mut Information, id: u64) {
    let text = b"INSERT INTO t VALUES ()";
    information.note_results((Command::Query, &classify(text), text), &inserted(id));
}

fn wanted(information: &Information, text: &str) -> Option<Place> {
    information.wanted(&classify(text.as_bytes()), text.as_bytes())
}

#[test]
fn what_the_protocol_tells_needs_no_connection() {
    let mut information = after(&[("SELECT n FROM t", rows(3))]);
    assert!(matches!(information.found_rows, FoundRows::Known { rows: 3, by_last: true }));
    assert_eq!(information.row_count, -1);
    assert!(information.leave(place(1), true).is_none());
    assert_eq!(information.last, Last::Left(place(1)));
    assert!(!information.meet(ELSEWHERE));
    assert!(matches!(information.found_rows, FoundRows::Known { rows: 3, .. }));
}

#[test]
fn a_value_is_stale_once_a_statement_did_not_set_it() {
    let information = after(&[("SELECT n FROM t", rows(3)), ("UPDATE t SET n = 1", ok(2))]);
    // MySQL's UPDATE sets it to the rows that matched, and the info text of this OK packet has no such number.
    assert!(information.found_rows.is_stale());
    assert_eq!(information.row_count, 2);
}

#[test]
fn what_only_a_connection_knows_is_left_there_and_found_again() {
    let mut information = after(&[("SELECT SQL_CALC_FOUND_ROWS n FROM t LIMIT 1", rows(1))]);
    assert!(matches!(information.found_rows, FoundRows::Here));
    let _on_connection = information.leave(place(1), true).expect("it is asked of the connection");
    assert!(matches!(information.found_rows, FoundRows::Left(_)));
    assert_eq!(wanted(&information, "SELECT FOUND_ROWS()"), Some(place(1)));
    assert!(information.meet(HERE));
    assert!(matches!(information.found_rows, FoundRows::Here));
    assert_eq!(information.last, Last::Here);
}

#[test]
fn another_connection_does_not_know() {
    let mut information = after(&[("SELECT SQL_CALC_FOUND_ROWS n FROM t LIMIT 1", rows(1))]);
    information.leave(place(1), true);
    assert!(!information.meet(ELSEWHERE));
    assert!(matches!(information.found_rows, FoundRows::Left(_)));
    assert_eq!(information.last, Last::Left(place(1)));
    assert!(information.known_here().is_empty());
}

#[test]
fn what_was_collected_is_no_longer_with_the_connection() {
    let mut information = after(&[("INSERT INTO t VALUES ()", inserted(7))]);
    let uncollected = information.leave(place(1), true).expect("the id may be asked");
    // It is delivered when it is collected, and when the connection is closed.
    drop(uncollected);
    information.meet(HERE);
    assert!(!information.insert_id.is_here());
    assert_eq!(information.last, Last::Here);
}

#[test]
fn ids_that_were_named_may_be_with_several_connections() {
    let mut information = after(&[("INSERT INTO t VALUES ()", inserted(7))]);
    information.leave(place(1), true);
    information.meet(ELSEWHERE);
    insert(&mut information, 5);
    information.leave(place(2), true);
    assert_eq!(wanted(&information, "SELECT LAST_INSERT_ID()"), Some(place(2)));
    let decided = [InsertId::Unchanged, InsertId::Is(7)];
    let [first, second] = information.insert_id.left() else { panic!("two connections") };
    let decided = [second, first].into_iter().zip(decided).map(|(it, answer)| it.decided_by(Some(answer)));
    let decided: Vec<_> = decided.collect();
    assert_eq!(decided, [None, Some(7)], "5 was given explicitly");
    assert_eq!(information.insert_id.settle(Some(7)), 7);
    assert!(information.insert_id.left().is_empty());
}

#[test]
fn an_answer_that_is_lost_is_the_id_that_was_named_last() {
    let mut information = after(&[("INSERT INTO t VALUES ()", inserted(7))]);
    information.leave(place(1), true);
    assert_eq!(information.insert_id.left()[0].decided_by(None), Some(7));
    // What is named on another connection later is no answer of that one.
    information.meet(ELSEWHERE);
    insert(&mut information, 100);
    information.leave(place(2), true);
    let [lost, other] = information.insert_id.left() else { panic!("two connections") };
    assert_eq!((other.decided_by(Some(InsertId::Unchanged)), lost.decided_by(None)), (None, Some(7)));
}

#[test]
fn reading_an_id_ties_later_statements_to_no_connection() {
    for text in ["SHOW VARIABLES", "SELECT @@identity", "SELECT @@last_insert_id"] {
        let mut information = after(&[(text, rows(1))]);
        information.leave(place(1), true);
        assert_eq!(wanted(&information, "SHOW VARIABLES"), None, "{text}");
    }
    let mut information = after(&[("SELECT LAST_INSERT_ID(5)", rows(1))]);
    information.leave(place(1), true);
    assert_eq!(wanted(&information, "SHOW VARIABLES"), Some(place(1)));
}

#[test]
fn a_client_that_inserts_and_never_asks_does_not_grow() {
    let mut information = Information::default();
    for number in 1..100 {
        insert(&mut information, number);
        information.leave(place(number), true);
        information.meet(ELSEWHERE);
    }
    assert_eq!(information.insert_id.left().len(), 8);
}

#[test]
fn warnings_stay_with_their_connection_only_if_they_outlast_its_return() {
    let warned = || Outcome { warnings: 2, ..ok(1) };
    let mut information = after(&[("INSERT INTO t VALUES ('x')", warned())]);
    assert!(information.conditions.are_here());
    information.leave(place(1), true);
    assert_eq!(wanted(&information, "SHOW WARNINGS"), Some(place(1)));
    let mut information = after(&[("INSERT INTO t VALUES ('x')", warned())]);
    information.leave(place(1), false);
    assert!(information.conditions.left().is_none());
    assert_eq!(information.conditions.warnings, 2);
}

#[test]
fn an_error_of_our_own_has_no_connection() {
    let mut information = after(&[("SELECT n FROM t", rows(3))]);
    information.note_own_error(Errno::NOT_ALLOWED_COMMAND, "no", true);
    assert!(information.conditions.own().is_some_and(|row| row.starts_with(b"\x05Error")));
    assert_eq!((information.conditions.warnings, information.conditions.errors), (1, 1));
    assert_eq!(information.last, Last::Nobody);
    information.note_own_error(Errno::NOT_ALLOWED_COMMAND, "no", false);
    assert_eq!(information.conditions.own(), Some(&b""[..]));
}

#[test]
fn several_statements_are_not_what_the_first_of_them_is() {
    let diagnostics = "GET DIAGNOSTICS @a = NUMBER";
    let asked = || Outcome { warnings: 1, ..ok(0) };
    let row_count = |text, outcome| after(&[("DELETE FROM t", ok(2)), (text, outcome)]).row_count;
    assert_eq!(row_count(diagnostics, ok(0)), 2);
    assert_eq!(row_count(diagnostics, asked()), -1, "there is no such condition");
    assert_eq!(row_count("GET DIAGNOSTICS @a = NUMBER; SELECT 1", rows(1)), -1);
    // A routine may answer with several results.
    let outcome = Outcome { warnings_before: vec![0, 0, 0], ..ok(0) };
    assert!(after(&[("SELECT 1; CALL p(); SELECT 2", outcome)]).conditions.are_here());
}

#[test]
fn an_option_is_a_statement_without_rows() {
    let mut information = after(&[("DELETE FROM t", ok(2))]);
    information.note_option();
    assert_eq!((information.row_count, information.last), (-1, Last::Nobody));
}

#[test]
fn a_lost_connection_takes_what_only_it_knew() {
    let calculated = ("SELECT SQL_CALC_FOUND_ROWS n FROM t LIMIT 1", Outcome { warnings: 1, ..rows(1) });
    let mut information = after(&[("INSERT INTO t VALUES ()", inserted(7)), calculated]);
    information.forget_here();
    assert!(information.known_here().is_empty());
    assert!(matches!(information.found_rows, FoundRows::Unknown));
    assert_eq!((information.last, information.insert_id.settle(None)), (Last::Nobody, 7));
}

#[test]
fn found_rows_outlast_a_reset_and_nothing_else_does() {
    let mut information = after(&[("INSERT INTO t VALUES ()", inserted(7)), ("SELECT n FROM t", rows(3))]);
    information.start_over(None);
    assert!(matches!(information.found_rows, FoundRows::Known { rows: 3, by_last: false }));
    assert!(!information.insert_id.may_be_set());
    assert_eq!((information.row_count, information.last), (0, Last::Nobody));
}

#[test]
fn a_question_for_what_another_process_knew_is_refused_once_or_until_the_next_id() {
    let mut information = Information::resumed(true, true);
    assert!(information.has_lost() && information.insert_id.may_be_set());
    assert!(information.asks_for_lost(&classify(b"SELECT ROW_COUNT()")));
    assert!(!information.asks_for_lost(&classify(b"SELECT ROW_COUNT()")), "the last statement is this one");
    assert!(information.asks_for_lost(&classify(b"SELECT LAST_INSERT_ID()")));
    assert!(!information.asks_for_lost(&classify(b"SELECT 1")));
}

#[test]
fn a_statement_that_may_change_something_goes_where_it_is_sent() {
    let mut information = after(&[("SELECT SQL_CALC_FOUND_ROWS n FROM t LIMIT 1", rows(1))]);
    information.leave(place(4), true);
    let goes = |text: &str| information.wanted_hostgroup(&classify(text.as_bytes()));
    assert_eq!(goes("SELECT FOUND_ROWS()"), Some(HostgroupId(4)));
    assert_eq!(goes("INSERT INTO t SELECT FOUND_ROWS()"), None);
    assert_eq!(goes("SELECT FOUND_ROWS() FROM t FOR UPDATE"), None);
}
