//! Cursors of the server: the connection is their client's while they are open, and no longer.

use super::statement::cell;
use super::{Statement, on_each};

const ROWS: &str = "SELECT v FROM t ORDER BY id";

#[test]
fn the_connection_is_free_when_the_last_row_was_fetched() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let rows = Statement::prepare(&mut one, ROWS);
        for _ in 0..2 {
            assert!(rows.open_cursor(&mut one, &[]).error().is_none());
            assert_eq!(rows.fetch(&mut one, 2), Ok(vec!["one".to_owned(), "two".to_owned()]));
            assert_eq!(rows.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
            // There is no other connection: this one must be free.
            assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"));
            let error = rows.fetch(&mut one, 1).expect_err("it is at its end");
            assert_eq!(error.code, 1421);
            assert!(error.message.starts_with("The statement (1) has no open cursor"), "{error:?}");
        }
    });
}

#[test]
fn the_connection_is_free_when_the_cursor_is_given_up() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let rows = Statement::prepare(&mut one, ROWS);
        let mut free = || assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"));
        rows.open_cursor(&mut one, &[]);
        assert!(rows.reset(&mut one).error().is_none());
        free();
        rows.open_cursor(&mut one, &[]);
        rows.fetch(&mut one, 1).expect("a row");
        rows.close(&mut one);
        free();
        let rows = Statement::prepare(&mut one, ROWS);
        rows.open_cursor(&mut one, &[]);
        drop(one);
        free();
    });
}

#[test]
fn cursors_of_several_statements_are_open_at_once() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let (left, right) = (Statement::prepare(&mut one, ROWS), Statement::prepare(&mut one, ROWS));
        left.open_cursor(&mut one, &[]);
        right.open_cursor(&mut one, &[]);
        assert_eq!(left.fetch(&mut one, 1), Ok(vec!["one".to_owned()]));
        assert_eq!(right.fetch(&mut one, 2), Ok(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(left.fetch(&mut one, 1), Ok(vec!["two".to_owned()]));
        let by_other = Statement::prepare(&mut other, ROWS);
        by_other.open_cursor(&mut other, &[]);
        assert_eq!(by_other.fetch(&mut other, 1), Ok(vec!["one".to_owned()]));
        assert_eq!(right.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
        assert_eq!(left.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
    });
}

#[test]
fn one_clients_cursor_leaves_nothing_behind_for_another() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT v FROM t WHERE id = 1";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        for _ in 0..3 {
            by_one.open_cursor(&mut one, &[]);
            assert_eq!(by_one.fetch(&mut one, 5), Ok(vec!["one".to_owned()]));
            assert_eq!(cell(&by_other.execute(&mut other, &[])), "one");
        }
    });
}
