//! Executions of prepared statements: the types that Narrows takes them to bind are those that the server has taken.

use narrows_testkit::{Flavour, RawClient, command};

use crate::prepared::{Scene, Statement, Value, cell};

const ECHO: &str = "SELECT CONCAT('<', ?, '>')";

fn on_each(test: impl Fn(&Scene)) {
    for flavour in Flavour::both() {
        test(&Scene::start(flavour, 1, &[]));
    }
}

/// A client that has bound a number, and its statement.
fn with_number(scene: &Scene) -> (RawClient, Statement) {
    let mut client = scene.client();
    let statement = Statement::prepare(&mut client, ECHO);
    assert_eq!(cell(&statement.execute(&mut client, &[Value::Integer(5)])), "<5>");
    (client, statement)
}

/// Where the byte stands that says whether types follow, in an execution with one parameter.
const BOUND: usize = 10;

#[test]
fn a_flag_for_types_that_is_neither_0_nor_1_reaches_no_server() {
    on_each(|scene| {
        let (mut one, by_one) = with_number(scene);
        let (mut other, by_other) = with_number(scene);
        for flag in [2, 0x7F, 0x80, 0xFF] {
            // MySQL takes the types, MariaDB does not.
            let mut body = by_one.execution(0, &[Value::Text("4 bytes")], true);
            body[BOUND] = flag;
            let error = one.command(command::STMT_EXECUTE, &body).error().expect("refused");
            assert_eq!((error.code, error.state.as_str()), (1835, "HY000"), "{flag:#x}: {error:?}");
            assert_eq!(cell(&by_other.execute_again(&mut other, &[Value::Integer(7)])), "<7>", "{flag:#x}");
            assert_eq!(cell(&by_one.execute_again(&mut one, &[Value::Integer(8)])), "<8>", "{flag:#x}");
        }
    });
}

#[test]
fn an_execution_that_cannot_be_read_is_1835_and_reaches_no_server() {
    on_each(|scene| {
        let (mut one, by_one) = with_number(scene);
        let (mut other, by_other) = with_number(scene);
        let body = by_one.execution(0, &[Value::Text("text")], true);
        // The number of the statement is there, and the types are not all there.
        for length in 4..BOUND + 3 {
            let error = one.command(command::STMT_EXECUTE, &body[..length]).error().expect("refused");
            assert_eq!((error.code, error.state.as_str()), (1835, "HY000"), "{length} bytes: {error:?}");
            assert!(error.message.starts_with("Malformed communication packet"), "{error:?}");
            assert_eq!(cell(&by_other.execute_again(&mut other, &[Value::Integer(7)])), "<7>");
        }
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Text("text")])), "<text>");
    });
}

/// What a session says of warnings after statements of the binary protocol.
fn warnings_after(client: &mut RawClient) -> Vec<String> {
    let mut said = Vec::new();
    let mut ask = |client: &mut RawClient, after: &str| {
        let count = client.query("SELECT @@warning_count, @@error_count").text_rows();
        said.push(format!("count after {after}: {count:?}"));
    };
    let warns = Statement::prepare(client, "SELECT CAST('a' AS SIGNED)");
    ask(client, "PREPARE");
    assert!(warns.execute(client, &[]).error().is_none());
    ask(client, "EXECUTE");
    assert!(warns.execute(client, &[]).error().is_none());
    let shown = client.query("SHOW WARNINGS").text_rows();
    ask(client, "SHOW WARNINGS");
    // MySQL does not prepare it.
    let show = Statement::try_prepare(client, "SHOW WARNINGS").map_err(|error| error.code);
    ask(client, "PREPARE of SHOW WARNINGS");
    assert!(warns.execute(client, &[]).error().is_none());
    let rows = show.map(|show| {
        let executed = show.execute(client, &[]);
        executed.packets.iter().filter(|packet| packet.first() == 0).count()
    });
    ask(client, "EXECUTE of SHOW WARNINGS");
    let count =
        Statement::try_prepare(client, "SELECT CAST(@@warning_count AS CHAR)").map_err(|error| error.code);
    assert!(warns.execute(client, &[]).error().is_none());
    let counted = count.map(|count| cell(&count.execute(client, &[])));
    let failed = Statement::try_prepare(client, "SELECT * FROM nothing_there").is_err();
    let of_error = client.query("SHOW WARNINGS").text_rows();
    said.push(format!("{shown:?} {rows:?} {counted:?} {failed} {of_error:?}"));
    said
}

#[test]
fn warnings_of_the_binary_protocol_are_told_as_by_the_server() {
    on_each(|scene| {
        let mut direct = scene.server.root();
        direct.query("USE one");
        let wanted = warnings_after(&mut direct);
        for _ in 0..2 {
            // The second one has the connection of the first.
            assert_eq!(warnings_after(&mut scene.client()), wanted, "{:?}", scene.flavour);
        }
    });
}
