//! Several clients share one server statement.

use narrows_testkit::{Flavour, Login, RawClient, capability, command};

use super::statement::cell;
use super::{Scene, Statement, Value, on_each};

const ECHO: &str = "SELECT CONCAT('<', ?, '>')";

#[test]
fn clients_share_what_the_server_has_prepared() {
    on_each(1, |scene| {
        let mut clients: Vec<RawClient> = (0..20).map(|_| scene.client()).collect();
        let statements: Vec<Statement> =
            clients.iter_mut().map(|client| Statement::prepare(client, ECHO)).collect();
        for round in 0..3 {
            for (number, (client, statement)) in clients.iter_mut().zip(&statements).enumerate() {
                assert_eq!(statement.id, 1, "the client's own first");
                let text = format!("{round}.{number}");
                assert_eq!(cell(&statement.execute(client, &[Value::Text(&text)])), format!("<{text}>"));
            }
        }
        assert_eq!(scene.statements(), 1);
    });
}

#[test]
fn a_client_goes_by_the_types_that_it_has_bound() {
    on_each(1, |scene| {
        let (mut one, mut other, mut third) = (scene.client(), scene.client(), scene.client());
        let by_one = Statement::prepare(&mut one, ECHO);
        let by_other = Statement::prepare(&mut other, ECHO);
        let by_third = Statement::prepare(&mut third, ECHO);
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Integer(7)])), "<7>");
        assert_eq!(cell(&by_other.execute(&mut other, &[Value::Text("text")])), "<text>");
        for number in 0..3 {
            assert_eq!(
                cell(&by_one.execute_again(&mut one, &[Value::Integer(number)])),
                format!("<{number}>")
            );
            assert_eq!(cell(&by_other.execute_again(&mut other, &[Value::Text("again")])), "<again>");
        }
        // A client that has bound no types has none, whatever others have bound.
        let direct = missing_types(scene, &mut scene.server.root());
        let error = by_third.execute_again(&mut third, &[Value::Integer(1)]).error().expect("no types");
        assert_eq!((error.code, error.message), direct);
        assert_eq!(cell(&by_third.execute(&mut third, &[Value::Text("bound")])), "<bound>");
    });
}

/// The server's own answer to an execution without types.
fn missing_types(scene: &Scene, client: &mut RawClient) -> (u16, String) {
    client.query("USE one");
    let statement = Statement::prepare(client, ECHO);
    let error = statement.execute_again(client, &[Value::Integer(1)]).error();
    let error = error.unwrap_or_else(|| panic!("{:?} executes without types", scene.flavour));
    (error.code, error.message)
}

#[test]
fn what_one_client_binds_makes_nothing_of_anothers_strings() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let by_one = Statement::prepare(&mut one, "SELECT ?");
        let by_other = Statement::prepare(&mut other, "SELECT ?");
        for _ in 0..2 {
            // MySQL converts every string that follows a number into a number.
            assert!(by_one.execute(&mut one, &[Value::Integer(7)]).error().is_none());
            assert_eq!(cell(&by_other.execute(&mut other, &[Value::Text("text")])), "text");
        }
    });
}

#[test]
fn statements_outlive_their_connections() {
    on_each(2, |scene| {
        let mut client = scene.client();
        let statement = Statement::prepare(&mut client, "SELECT v FROM t WHERE id = ?");
        assert_eq!(cell(&statement.execute(&mut client, &[Value::Integer(1)])), "one");
        scene.cut();
        for id in [1, 2] {
            let wanted = ["one", "two"][id - 1];
            let answer = statement.execute_again(&mut client, &[Value::Integer(id as i64)]);
            assert_eq!(cell(&answer), wanted, "on a connection that has never seen it");
        }
    });
}

#[test]
fn a_statement_means_what_it_meant_when_it_was_prepared() {
    on_each(2, |scene| {
        let (mut client, mut busy) = (scene.client(), scene.client());
        let named = Statement::prepare(&mut client, "SELECT v FROM t WHERE id = 1");
        client.query("SET SESSION sql_mode = 'PIPES_AS_CONCAT'");
        let piped = Statement::prepare(&mut client, "SELECT 'a' || 'b'");
        client.query("SET SESSION sql_mode = ''");
        client.query("USE two");
        let elsewhere = Statement::prepare(&mut client, "SELECT v FROM t WHERE id = 1");
        for _ in 0..2 {
            assert_eq!(cell(&named.execute(&mut client, &[])), "one");
            assert_eq!(cell(&piped.execute(&mut client, &[])), "ab");
            assert_eq!(cell(&elsewhere.execute(&mut client, &[])), "other one");
            assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("two"));
            assert_eq!(client.query("SELECT @@sql_mode").cell().as_deref(), Some(""));
            // Another connection from here on, which has to prepare all of them.
            scene.cut();
            busy.query("SELECT 1");
        }
    });
}

#[test]
fn numbers_go_on_as_on_a_server() {
    on_each(1, |scene| {
        let mut client = scene.client();
        assert_eq!(Statement::prepare(&mut client, "SELECT 1").id, 1);
        assert!(Statement::try_prepare(&mut client, "SELEC 2").is_err());
        let third = Statement::prepare(&mut client, "SELECT '3'");
        assert_eq!(third.id, 3);
        third.close(&mut client);
        let error = third.execute(&mut client, &[]).error().expect("it is closed");
        assert_eq!(error.code, 1243);
        assert!(error.message.contains("handler (3)"), "{}", error.message);
        client.command(command::RESET_CONNECTION, b"");
        assert_eq!(Statement::prepare(&mut client, "SELECT 4").id, 4);
        let forgotten = Statement { id: 1, columns: 1 };
        assert_eq!(forgotten.execute(&mut client, &[]).error().map(|error| error.code), Some(1243));
    });
}

#[test]
fn what_a_prepared_statement_does_to_the_session_stays_with_its_client() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let set = Statement::prepare(&mut one, "SET @u = 'mine'");
        assert!(set.execute(&mut one, &[]).error().is_none());
        // One after the other: on MySQL, which keeps the types of user variables in it, such a statement ties its client to the
        // connection.
        for (client, value) in [(&mut one, "mine"), (&mut other, "")] {
            let read = Statement::prepare(client, "SELECT @u");
            assert_eq!(cell(&read.execute(client, &[])), value);
            read.close(client);
            client.command(command::RESET_CONNECTION, &[]);
        }
        let insert = Statement::prepare(&mut one, "INSERT INTO made (v) VALUES (?)");
        assert!(insert.execute(&mut one, &[Value::Integer(1)]).error().is_none());
        let id = Statement::prepare(&mut one, "SELECT CONCAT(LAST_INSERT_ID())");
        let id_of_other = Statement::prepare(&mut other, "SELECT CONCAT(LAST_INSERT_ID())");
        assert_eq!(cell(&id_of_other.execute(&mut other, &[])), "0");
        assert_eq!(cell(&id.execute(&mut one, &[])), "1");
        let own = Statement::prepare(&mut one, "SELECT CONCAT(CONNECTION_ID())");
        let greeted = one.greeting().expect("it was greeted").connection_id;
        assert_eq!(cell(&own.execute(&mut one, &[])), greeted.to_string());
    });
}

#[test]
fn transactions_of_prepared_statements_hold_their_connection() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let update = Statement::prepare(&mut one, "UPDATE t SET v = ? WHERE id = 1");
        let read = Statement::prepare(&mut other, "SELECT v FROM t WHERE id = 1");
        one.query("BEGIN");
        update.execute(&mut one, &[Value::Text("changed")]);
        assert_eq!(cell(&read.execute(&mut other, &[])), "one");
        one.query("ROLLBACK");
        assert_eq!(cell(&read.execute(&mut other, &[])), "one");
    });
}

#[test]
fn mariadb_clients_execute_the_statement_prepared_last() {
    let scene = Scene::start(Flavour::MariaDb, 1, &[]);
    let (mut client, mut other) = (scene.client(), scene.client());
    let last = Statement { id: u32::MAX, columns: 1 };
    for text in ["a", "b"] {
        // Both at once, before anything is answered.
        client.send_command(command::STMT_PREPARE, ECHO.as_bytes()).expect("connected");
        let execution = last.execution(0, &[Value::Text(text)], true);
        client.send_command(command::STMT_EXECUTE, &execution).expect("connected");
        let statement = Statement::read(client.answer(command::STMT_PREPARE)).expect("it is prepared");
        assert_eq!(cell(&client.answer(command::STMT_EXECUTE)), format!("<{text}>"));
        statement.close(&mut client);
        let own = Statement::prepare(&mut other, ECHO);
        assert_eq!(cell(&own.execute(&mut other, &[Value::Integer(1)])), "<1>");
    }
    assert!(Statement::try_prepare(&mut client, "SELEC 1").is_err());
    let error = last.execute(&mut client, &[Value::Integer(1)]).error().expect("nothing was prepared");
    assert_eq!(error.code, 1243);
}

#[test]
fn mariadb_executes_for_many_rows_at_once() {
    let scene = Scene::start(Flavour::MariaDb, 1, &[]);
    // What the server can do is known from the first connection to it.
    scene.client().query("SELECT 1");
    let login = Login::new("sbtest", "sbtest").schema("one").extended(capability::EXTENDED_STMT_BULK);
    let client = || RawClient::open(&scene.narrows.endpoint(), &login);
    let (mut one, mut other) = (client(), client());
    let text = "INSERT INTO t (id, v) VALUES (?, ?)";
    let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
    // The types, then each value after an indicator that says that there is one.
    let rows = |numbers: std::ops::Range<i64>, types: bool| {
        let mut body = by_one.id.to_le_bytes().to_vec();
        body.extend(if types { 128_u16 } else { 0 }.to_le_bytes());
        if types {
            body.extend([8, 0, 253, 0]);
        }
        for number in numbers {
            body.push(0);
            body.extend(number.to_le_bytes());
            body.extend([0, 4]);
            body.extend(b"bulk");
        }
        body
    };
    let bulk = |client: &mut RawClient, body: &[u8]| {
        client.send_command(0xFA, body).expect("connected");
        client.read().expect("an answer").payload[0]
    };
    assert_eq!(bulk(&mut one, &rows(100..200, true)), 0);
    let answer = by_other.execute(&mut other, &[Value::Text("500"), Value::Integer(5)]);
    assert!(answer.error().is_none(), "{:?}", answer.error());
    assert_eq!(bulk(&mut one, &rows(200..300, false)), 0, "with the types that it bound before");
    let count = one.query("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM t WHERE v = 'bulk'");
    assert_eq!(count.cell().as_deref(), Some("200 39900"));
}
