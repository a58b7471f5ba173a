//! Tables that change between preparing and executing.

use super::statement::cell;
use super::{Statement, on_each};

#[test]
fn a_change_of_columns_shows_in_the_next_execution() {
    on_each(2, |scene| {
        scene.server.execute(&["CREATE TABLE one.d (v VARCHAR(10))", "INSERT INTO one.d VALUES ('x')"]);
        let (mut one, mut other) = (scene.client(), scene.client());
        let all = Statement::prepare(&mut one, "SELECT * FROM d");
        let by_other = Statement::prepare(&mut other, "SELECT * FROM d");
        assert_eq!((all.columns, cell(&all.execute(&mut one, &[]))), (1, "x".to_owned()));
        scene.server.execute(&["ALTER TABLE one.d ADD w VARCHAR(10) DEFAULT 'y' FIRST"]);
        for (client, statement) in [(&mut one, all), (&mut other, by_other)] {
            let answer = statement.execute(client, &[]);
            assert_eq!((answer.columns().len(), cell(&answer)), (2, "y".to_owned()));
        }
        scene.cut();
        let answer = all.execute(&mut one, &[]);
        assert_eq!((answer.columns().len(), cell(&answer)), (2, "y".to_owned()));
        assert_eq!(Statement::prepare(&mut one, "SELECT * FROM d").columns, 2, "as it is now");
        scene.server.execute(&["DROP TABLE one.d"]);
        for _ in 0..2 {
            assert_eq!(all.execute(&mut one, &[]).error().map(|error| error.code), Some(1146));
            // Also if it must be prepared first.
            scene.cut();
        }
        assert_eq!(one.query("SELECT 1").cell().as_deref(), Some("1"));
        assert_eq!(Statement::try_prepare(&mut one, "SELECT * FROM d").err().map(|it| it.code), Some(1146));
        scene.server.execute(&["CREATE TABLE one.d (v VARCHAR(10))", "INSERT INTO one.d VALUES ('back')"]);
        assert_eq!(cell(&all.execute(&mut one, &[])), "back");
    });
}

#[test]
fn a_temporary_table_is_its_clients_also_in_shared_statements() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT v FROM t WHERE id = 1";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        one.query("CREATE TEMPORARY TABLE t (id INT, v VARCHAR(10))");
        one.query("INSERT INTO t VALUES (1, 'mine')");
        for _ in 0..3 {
            assert_eq!(cell(&by_one.execute(&mut one, &[])), "mine");
            assert_eq!(cell(&by_other.execute(&mut other, &[])), "one");
        }
        one.query("DROP TEMPORARY TABLE t");
        for _ in 0..3 {
            assert_eq!(cell(&by_one.execute(&mut one, &[])), "one");
            assert_eq!(cell(&by_other.execute(&mut other, &[])), "one");
        }
    });
}

#[test]
fn administrators_see_the_columns_of_a_statement_as_they_are_and_what_statements_take() {
    on_each(2, |scene| {
        scene.server.execute(&["CREATE TABLE one.seen (v VARCHAR(10))", "INSERT INTO one.seen VALUES ('x')"]);
        let mut admin = scene.narrows.admin();
        let mut columns = || {
            let asked =
                "SELECT num_columns FROM stats_mysql_prepared_statements_info WHERE query LIKE '%seen'";
            admin.query(asked).cell()
        };
        let mut one = scene.client();
        let all = Statement::prepare(&mut one, "SELECT * FROM seen");
        assert_eq!(columns().as_deref(), Some("1"));
        scene.server.execute(&["ALTER TABLE one.seen ADD w VARCHAR(10) DEFAULT 'y'"]);
        assert!(all.execute(&mut one, &[]).error().is_none());
        assert_eq!(columns().as_deref(), Some("2"), "{:?}", scene.flavour);
        let mut bytes = |name: &str| {
            let asked =
                format!("SELECT Variable_Value FROM stats_memory_metrics WHERE Variable_Name = '{name}'");
            admin.query(asked).cell().and_then(|value| value.parse::<u64>().ok()).expect("a figure")
        };
        let before = bytes("prepare_statement_metadata_memory");
        assert!(before > 0 && bytes("prepare_statement_backend_memory") > 0);
        let comment = "x".repeat(10_000);
        Statement::prepare(&mut one, &format!("SELECT v /* {comment} */ FROM seen"));
        assert!(bytes("prepare_statement_metadata_memory") >= before + 10_000);
    });
}
