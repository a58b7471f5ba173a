//! How many statements servers have to hold, and what Narrows keeps of closed ones.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, RawClient, ServerOptions, command};

use super::statement::cell;
use super::{Scene, Statement, Value};

fn echo(number: usize) -> String {
    format!("SELECT CONCAT('{number}:', ?)")
}

/// Executes statements in turn, so that the next one needed is always the least recently used.
fn take_turns(client: &mut RawClient, statements: &[Statement], rounds: usize) {
    for round in 0..rounds {
        for (number, statement) in statements.iter().enumerate() {
            let answer = statement.execute(client, &[Value::Integer(round as i64)]);
            assert_eq!(cell(&answer), format!("{number}:{round}"));
        }
    }
}

#[test]
fn the_texts_of_one_clients_statements_are_bounded() {
    let scene = Scene::start(Flavour::MariaDb, 1, &[("max_stmts_bytes_per_client", "1048576")]);
    let (mut one, mut other) = (scene.client(), scene.client());
    let long = |number: usize| format!("SELECT '{number}' /* {} */", "x".repeat(400_000));
    let first = Statement::prepare(&mut one, &long(1));
    let second = Statement::prepare(&mut one, &long(2));
    let refused = Statement::try_prepare(&mut one, &long(3)).expect_err("one too many");
    assert_eq!((refused.code, refused.state.as_str()), (1461, "42000"), "{refused:?}");
    assert!(refused.message.contains("mysql-max_stmts_bytes_per_client"), "{refused:?}");
    assert_eq!(cell(&second.execute(&mut one, &[])), "2", "existing ones still work");
    Statement::prepare(&mut other, &long(3)).close(&mut other);

    first.close(&mut one);
    let third = Statement::prepare(&mut one, &long(3));
    assert_eq!(cell(&third.execute(&mut one, &[])), "3", "a closed one makes room");
    assert_eq!(one.command(command::RESET_CONNECTION, &[]).error(), None);
    let all: Vec<Statement> = (4..6).map(|number| Statement::prepare(&mut one, &long(number))).collect();
    assert_eq!(cell(&all[1].execute(&mut one, &[])), "5", "a reset closes all");
}

#[test]
fn a_connection_has_no_more_statements_than_it_may_have() {
    for (flavour, most) in Flavour::both().into_iter().flat_map(|flavour| [(flavour, 1), (flavour, 3)]) {
        let scene = Scene::start(flavour, 1, &[("max_stmts_per_connection", &most.to_string())]);
        let (mut one, mut other) = (scene.client(), scene.client());
        let statements: Vec<Statement> =
            (0..8).map(|number| Statement::prepare(&mut one, &echo(number))).collect();
        assert!(scene.statements() <= most, "{} while preparing", scene.statements());
        take_turns(&mut one, &statements, 3);
        let by_other: Vec<Statement> =
            (0..8).map(|number| Statement::prepare(&mut other, &echo(number))).collect();
        take_turns(&mut other, &by_other, 2);
        take_turns(&mut one, &statements, 2);
        assert!(scene.statements() <= most, "{} while executing", scene.statements());
    }
}

#[test]
fn the_servers_own_limit_is_no_error_for_clients() {
    for flavour in Flavour::both() {
        let options = ServerOptions::new(flavour).option("--max-prepared-stmt-count=6");
        let scene = Scene::start_with(options, flavour, 4, &[("max_stmts_per_connection", "100")]);
        let mut clients: Vec<RawClient> = (0..4).map(|_| scene.client()).collect();
        // All four connections are used at once, and then idle.
        for client in &mut clients {
            client.query("BEGIN");
        }
        for client in &mut clients {
            client.query("COMMIT");
        }
        let prepared: Vec<Vec<Statement>> = clients
            .iter_mut()
            .map(|client| (0..10).map(|number| Statement::prepare(client, &echo(number))).collect())
            .collect();
        for _ in 0..3 {
            for (client, statements) in clients.iter_mut().zip(&prepared) {
                take_turns(client, statements, 1);
            }
        }
        assert!(scene.statements() <= 6, "{}", scene.statements());
        // Statements that others have prepared there count as well.
        let mut foreign = scene.server.root();
        let mut taken = 0;
        while Statement::try_prepare(&mut foreign, "SELECT 1").is_ok() && taken < 5 {
            taken += 1;
        }
        for (client, statements) in clients.iter_mut().zip(&prepared) {
            take_turns(client, statements, 1);
        }
    }
}

#[test]
fn the_servers_limit_is_an_error_when_nothing_can_be_closed() {
    for flavour in Flavour::both() {
        let options = ServerOptions::new(flavour).option("--max-prepared-stmt-count=1");
        let scene = Scene::start_with(options, flavour, 1, &[]);
        let mut foreign = scene.server.root();
        let kept = Statement::prepare(&mut foreign, "SELECT 1");
        let mut client = scene.client();
        let error = Statement::try_prepare(&mut client, "SELECT 2").expect_err("there is no room");
        assert_eq!(error.code, 1461);
        kept.close(&mut foreign);
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(error) = Statement::try_prepare(&mut client, "SELECT 2") {
            assert!(Instant::now() < deadline, "{error:?}");
        }
    }
}

/// `NARROWS_STATEMENTS` is the number of statements.
#[test]
fn nothing_is_kept_of_statements_that_were_closed() {
    let count = std::env::var("NARROWS_STATEMENTS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(40_000);
    let mut scene = Scene::start(Flavour::MariaDb, 2, &[("max_stmts_per_connection", "20")]);
    let mut client = scene.client();
    let mut prepare_and_close = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let statement = Statement::prepare(&mut client, &echo(number));
            if number % 10 == 0 {
                statement.execute(&mut client, &[Value::Integer(1)]);
            }
            statement.close(&mut client);
        }
    };
    prepare_and_close(0..1_000);
    let before = scene.narrows.process().resident_bytes();
    prepare_and_close(1_000..count);
    let after = scene.narrows.process().resident_bytes();
    println!(
        "{count} statements: {before} bytes before, {after} after; the server has {}",
        scene.statements()
    );
    // Allocators keep a little; a hundred bytes for each statement would be far more.
    assert!(after < before + (2 << 20) + count as u64 * 8, "{before} bytes before, {after} after");
    assert!(scene.statements() <= 40, "{} on the server", scene.statements());
}

/// `NARROWS_STATEMENT_CLIENTS` is the number of clients.
#[test]
fn however_many_clients_prepare_the_same_the_server_has_it_once_for_each_connection() {
    let clients = std::env::var("NARROWS_STATEMENT_CLIENTS").ok().and_then(|text| text.parse().ok());
    let clients: usize = clients.unwrap_or(300);
    let variables = [("max_stmts_per_connection", "100"), ("max_connections", "100000")];
    let mut scene = Scene::start(Flavour::MariaDb, 4, &variables);
    let before = scene.narrows.process().resident_bytes();
    let mut clients: Vec<RawClient> = (0..clients).map(|_| scene.client()).collect();
    let mut prepared = Vec::new();
    std::thread::scope(|scope| {
        let share = clients.len().div_ceil(4);
        let threads: Vec<_> = clients
            .chunks_mut(share)
            .map(|clients| {
                scope.spawn(move || {
                    let of_client = |client: &mut RawClient| {
                        (0..50).map(|number| Statement::prepare(client, &echo(number))).collect::<Vec<_>>()
                    };
                    clients.iter_mut().map(of_client).collect::<Vec<_>>()
                })
            })
            .collect();
        for thread in threads {
            prepared.extend(thread.join().expect("every statement can be prepared"));
        }
    });
    for (client, statements) in clients.iter_mut().zip(&prepared) {
        let number = client as *const RawClient as usize % 50;
        let answer = statements[number].execute(client, &[Value::Integer(1)]);
        assert_eq!(cell(&answer), format!("{number}:1"));
    }
    let each = scene.narrows.process().resident_bytes().saturating_sub(before) / clients.len() as u64;
    println!(
        "{} clients with 50 statements: {each} bytes each; the server has {}",
        clients.len(),
        scene.statements()
    );
    assert!(scene.statements() <= 4 * 50, "{} on the server", scene.statements());
}
