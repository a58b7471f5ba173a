//! Executions of prepared statements: Narrows and the server read the same types.

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

/// The position of the byte that says whether types follow, in an execution with one parameter.
const BOUND: usize = 10;

#[test]
fn a_flag_for_types_that_is_neither_0_nor_1_reaches_no_server() {
    on_each(|scene| {
        let (mut one, by_one) = with_number(scene);
        let (mut other, by_other) = with_number(scene);
        for flag in [2, 0x7F, 0x80, 0xFF] {
            // MySQL reads the types, MariaDB does not.
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
        // The statement id is complete, but the types are not.
        for length in 4..BOUND + 3 {
            let error = one.command(command::STMT_EXECUTE, &body[..length]).error().expect("refused");
            assert_eq!((error.code, error.state.as_str()), (1835, "HY000"), "{length} bytes: {error:?}");
            assert!(error.message.starts_with("Malformed communication packet"), "{error:?}");
            assert_eq!(cell(&by_other.execute_again(&mut other, &[Value::Integer(7)])), "<7>");
        }
        assert_eq!(cell(&by_one.execute(&mut one, &[Value::Text("text")])), "<text>");
    });
}

/// What a session reports about warnings after statements of the binary protocol.
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
    // MySQL cannot prepare it.
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
            // The second one gets the connection of the first.
            assert_eq!(warnings_after(&mut scene.client()), wanted, "{:?}", scene.flavour);
        }
    });
}

/// A step of a session in the binary protocol.
enum Step {
    /// Prepares it in this slot.
    Prepare(usize, &'static str),
    /// Executes the statement in this slot.
    Execute(usize, &'static [Value<'static>]),
    /// Discards the parameter data sent.
    Reset(usize),
    /// Closes it; no answer follows.
    Close(usize),
    /// In the text protocol.
    Query(&'static str),
}

use Step::{Close, Execute, Prepare, Query, Reset};

/// Statements with warnings at PREPARE, at EXECUTE, at both; errors at either; and statements that keep those of the
/// statement before.
const STEPS: &[Step] = &[
    Query("SET sql_mode = ''"),
    Prepare(0, "INSERT INTO narrow VALUES (?)"),
    Execute(0, &[Value::Text("too long for it")]),
    Execute(0, &[Value::Text("fits")]),
    Prepare(1, "SELECT v + 0 FROM t WHERE id = ?"),
    Execute(0, &[Value::Text("again too long")]),
    Prepare(1, "SELECT v + 0 FROM t WHERE id = ?"),
    Execute(1, &[Value::Integer(1)]),
    Execute(1, &[Value::Integer(99)]),
    Execute(1, &[Value::Integer(2)]),
    Reset(1),
    Execute(1, &[Value::Integer(2)]),
    Close(1),
    // Both servers warn about it when they parse it; MySQL about SQL_CALC_FOUND_ROWS too.
    Prepare(2, "SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id = 1 LIMIT 1"),
    Execute(2, &[]),
    Prepare(3, "EXPLAIN SELECT * FROM t WHERE id = 1"),
    Execute(3, &[]),
    Prepare(4, "DROP TABLE IF EXISTS not_there, nor_there"),
    Execute(4, &[]),
    Prepare(5, "SELECT * FROM not_there"),
    Prepare(6, "INSERT INTO t VALUES (?, 'duplicate')"),
    Execute(6, &[Value::Integer(1)]),
    Prepare(7, "INSERT IGNORE INTO t VALUES (?, 'duplicate')"),
    Execute(7, &[Value::Integer(1)]),
    Execute(7, &[Value::Integer(1)]),
    Prepare(8, "DO 1"),
    Execute(8, &[]),
    Prepare(9, "SELECT 1 FROM t WHERE v = 1 AND id = 1"),
    Execute(9, &[]),
    Query("SELECT 1"),
    Execute(9, &[]),
    Query("DO 1"),
    Execute(7, &[Value::Integer(2)]),
    Close(7),
];

/// The answer to each step, and the warnings after it. `between` runs before they are read.
fn told_by_steps(client: &mut RawClient, question: &str, mut between: impl FnMut()) -> Vec<String> {
    let mut prepared: [Option<Statement>; 10] = [None; 10];
    let mut told = Vec::new();
    for (number, step) in STEPS.iter().enumerate() {
        let statement = |place: &usize| prepared[*place].expect("it was prepared");
        let said = match step {
            Prepare(place, text) => {
                let answer = client.command(command::STMT_PREPARE, text.as_bytes());
                // The count of warnings is the last field of the header.
                let head = answer.packets[0].payload.get(10..12).map(<[u8]>::to_vec);
                let read = Statement::read(answer);
                let said = format!("PREPARE {text}: {head:?} {:?}", read.as_ref().err());
                prepared[*place] = read.ok();
                said
            }
            Execute(place, values) => {
                let answer = statement(place).execute(client, values);
                let last = answer.packets.last().map(|packet| packet.payload.clone());
                // OK or EOF: status and warnings, but no ids.
                let warnings = answer.ok().map(|ok| ok.warnings);
                let end = last.filter(|last| last.first() == Some(&0xFE) && last.len() == 5);
                format!("EXECUTE {values:?}: {:?} {warnings:?} {end:?}", answer.error())
            }
            Reset(place) => format!("RESET: {:?}", statement(place).reset(client).error()),
            Close(place) => {
                statement(place).close(client);
                "CLOSE".to_owned()
            }
            Query(text) => format!("{text}: {:?}", client.query(text).error()),
        };
        between();
        let asked = client.query(question);
        told.push(format!("{number}: {said}; {question}: {:?} {:?}", asked.text_rows(), asked.error()));
    }
    told
}

#[test]
fn warnings_after_each_step_of_the_binary_protocol_are_those_of_the_server() {
    on_each(|scene| {
        scene.server.execute(&["CREATE TABLE one.narrow (v VARCHAR(4))"]);
        for question in ["SHOW WARNINGS", "SELECT @@warning_count, @@error_count", "SHOW COUNT(*) WARNINGS"] {
            let mut direct = scene.server.root();
            direct.query("USE one");
            let wanted = told_by_steps(&mut direct, question, || {});
            // The only server connection stays with the client, or serves another client before each query.
            for is_shared in [false, true] {
                let mut other = scene.client();
                let between = || {
                    if is_shared {
                        other.query("SELECT CAST('other' AS SIGNED), 1/0");
                    }
                };
                let ours = told_by_steps(&mut scene.client(), question, between);
                for (ours, wanted) in ours.iter().zip(&wanted) {
                    assert_eq!(ours, wanted, "{:?}, shared: {is_shared}", scene.flavour);
                }
            }
        }
    });
}
