//! What remains after all clients have disconnected: nothing, neither on the server nor on the backend connections that
//! the next clients get.

use narrows_testkit::{Endpoint, Flavour, Login, RawClient, RealServer, wait_until};

use super::observe;
use super::script::USERS;
use super::side::InitConnect;

/// Looks for leftovers; returns a line for each one found.
pub fn left_behind(
    narrows: &Endpoint,
    truth: &RealServer,
    twin: &RealServer,
    clients: usize,
    (variables, init_connect): (&str, Option<&InitConnect>),
) -> Vec<String> {
    // The server may still be cleaning up after the last client.
    wait_until("the locks of all clients are free", || locks_in_use(twin, clients) == 0);
    wait_until("no transaction is open", || twin.open_transactions() == 0);
    wait_until("no table is locked", || twin.rows("SHOW OPEN TABLES WHERE In_use > 0").is_empty());
    let mut found = Vec::new();
    let users: Vec<String> = USERS.iter().map(|user| format!("'{user}'")).collect();
    let connections = twin
        .rows(&format!("SELECT id FROM information_schema.processlist WHERE user IN ({})", users.join(", ")));
    if connections.len() > 2 {
        found.push(format!("{} backend connections, 2 are allowed", connections.len()));
    }
    let login = Login::new("ma", "ma").schema("common");
    let looks = looks(truth.flavour(), variables);
    let mut direct = RawClient::open(&Endpoint::Unix(truth.socket()), &login);
    if let Some(init) = init_connect {
        direct.query(init.of_narrows);
    }
    let expected = look(&mut direct, &looks);
    // Each holds one of the connections, so that both are checked.
    let mut fresh: Vec<RawClient> = (0..2).map(|_| RawClient::open(narrows, &login)).collect();
    for (number, client) in fresh.iter_mut().enumerate() {
        client.query(format!("DO GET_LOCK('held{number}', 5)"));
    }
    for (number, client) in fresh.iter_mut().enumerate() {
        let actual = look(client, &looks);
        for ((statement, expected), actual) in looks.iter().zip(&expected).zip(&actual) {
            let more: Vec<&String> = actual.iter().filter(|line| !expected.contains(line)).collect();
            if expected != actual {
                found.push(format!("connection {number}: {statement}: {more:?} of {} lines", actual.len()));
            }
        }
    }
    found
}

fn looks(flavour: Flavour, variables: &str) -> Vec<String> {
    let user_variables = match flavour {
        Flavour::MariaDb => "SELECT variable_name FROM information_schema.user_variables",
        Flavour::MySql9 => {
            "SELECT variable_name FROM performance_schema.user_variables_by_thread \
             WHERE thread_id = PS_CURRENT_THREAD_ID()"
        }
    };
    let statements = [
        user_variables,
        variables,
        "SELECT LAST_INSERT_ID(), @@in_transaction",
        "SELECT LAST_INSERT_ID()",
        "SELECT @a, @b, @c, @d, @x, @`odd name`",
        "SELECT * FROM common.tmp",
        "SELECT * FROM common.tmp2",
        "SELECT * FROM latin.tmp",
        "SELECT * FROM common.`odd tmp`",
        "SELECT * FROM common.second",
        "SELECT * FROM common.multi",
        "SELECT COUNT(*) FROM common.t",
        "EXECUTE plus",
        "EXECUTE left_open",
        "RELEASE SAVEPOINT one",
        "SHOW WARNINGS",
        "SELECT DATABASE()",
    ];
    statements.iter().map(|statement| (*statement).to_owned()).collect()
}

fn look(client: &mut RawClient, statements: &[String]) -> Vec<Vec<String>> {
    let capabilities = client.capabilities();
    statements.iter().map(|statement| observe::results(&client.query(statement), capabilities)).collect()
}

fn locks_in_use(server: &RealServer, clients: usize) -> usize {
    let names = (0..clients).flat_map(|client| [format!("lock{client}"), format!("lock{client}b")]);
    let asked: Vec<String> = names.map(|name| format!("(IS_FREE_LOCK('{name}') = 0)")).collect();
    let cell = server.rows(&format!("SELECT {}", asked.join(" + "))).remove(0).remove(0);
    cell.and_then(|text| text.parse().ok()).unwrap_or(0)
}
