//! How statements are distributed over the servers of a hostgroup.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig};

use crate::support::start;

const STATEMENT: &str = "SELECT who";

/// Three servers, of which the last takes this long for each statement.
fn servers(delay: Duration) -> [FakeMysql; 3] {
    let rows = || Move::rows("who", &["me"]);
    let quick = || FakeMysql::start(Conversation::new().on(STATEMENT, &[rows()]));
    let slow = Conversation::new().on(STATEMENT, &[Move::Take(delay), rows()]);
    [quick(), quick(), FakeMysql::start(slow)]
}

fn in_front_of(servers: &[FakeMysql; 3], weights: [u32; 3]) -> Narrows {
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "");
    for (server, weight) in servers.iter().zip(weights) {
        config = config.server(0, server.port(), &format!("weight={weight} max_connections=200"));
    }
    start(&config)
}

/// How many of `count` statements each server received, from this many clients.
fn spread(narrows: &Narrows, servers: &[FakeMysql; 3], clients: usize, count: usize) -> [usize; 3] {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = narrows.client();
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    assert_eq!(client.query(STATEMENT).cell().as_deref(), Some("me"));
                }
            });
        }
    });
    let had = |server: &FakeMysql| server.received().iter().filter(|it| it.body == STATEMENT).count();
    let had = [0, 1, 2].map(|index: usize| had(&servers[index]));
    println!("{clients} clients, {count} statements: {had:?}");
    assert_eq!(had.iter().sum::<usize>(), count);
    had
}

#[test]
fn weights_are_kept_to_in_the_long_run() {
    let servers = servers(Duration::ZERO);
    let weights = [1, 2, 7];
    let narrows = in_front_of(&servers, weights);
    let had = spread(&narrows, &servers, 16, 100_000);
    for (had, weight) in had.into_iter().zip(weights) {
        let wanted = weight as usize * 10_000;
        assert!(had.abs_diff(wanted) <= wanted / 50, "{had} of {wanted}");
    }
}

#[test]
fn a_slow_server_gets_little_of_the_work() {
    for (clients, count) in [(1, 6_000), (16, 20_000)] {
        let servers = servers(Duration::from_millis(50));
        let narrows = in_front_of(&servers, [1, 1, 1]);
        let had = spread(&narrows, &servers, clients, count);
        assert!(had[2] > 0, "it is tried");
        assert!(had[2] * 20 < count, "{had:?}");
    }
}

/// Servers that each take two milliseconds for a statement, with these weights and `max_connections`.
fn limited(of_each: [(u32, u32); 3], clients: usize, count: usize) -> [usize; 3] {
    let slow = || {
        let moves = [Move::Take(Duration::from_millis(2)), Move::rows("who", &["me"])];
        FakeMysql::start(Conversation::new().on(STATEMENT, &moves))
    };
    let servers = [slow(), slow(), slow()];
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "");
    for (server, (weight, most)) in servers.iter().zip(of_each) {
        config = config.server(0, server.port(), &format!("weight={weight} max_connections={most}"));
    }
    spread(&start(&config), &servers, clients, count)
}

#[test]
fn weights_are_kept_to_among_servers_that_have_connections_left() {
    let count = 40_000;
    let had = limited([(1, 200), (2, 200), (7, 2)], 16, count);
    // What two connections serve, compared with 16 in use elsewhere.
    assert!(had[2] < count / 4, "{had:?}");
    let wanted = (count - had[2]) / 3;
    assert!(had[0].abs_diff(wanted) <= wanted / 25, "{had:?}");
}

#[test]
fn servers_whose_connections_are_all_in_use_get_what_those_serve() {
    let count = 20_000;
    let had = limited([(1, 4), (2, 4), (7, 8)], 64, count);
    for (had, connections) in had.into_iter().zip([4, 4, 8]) {
        let wanted = count * connections / 16;
        assert!(had.abs_diff(wanted) <= wanted / 5, "{had}, {wanted} wanted");
    }
}
