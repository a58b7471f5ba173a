//! Many clients that run the same statement at the same time.

use std::time::Duration;

use narrows_testkit::{Conversation, FakeMysql, Login, Move, Narrows, RawClient, command, wait_until};

use super::{caching, executions, figure, hits, start};

const SLOW: &str = "SELECT slow";
const TTL: Duration = Duration::from_millis(3_000);

fn clients(narrows: &Narrows, count: usize) -> Vec<RawClient> {
    (0..count).map(|_| narrows.client()).collect()
}

fn ask(client: &mut RawClient) {
    client.send_command(command::QUERY, SLOW.as_bytes()).expect("send");
}

fn cell(client: &mut RawClient) -> Option<String> {
    client.answer(command::QUERY).cell()
}

#[test]
fn a_thousand_clients_that_want_what_has_expired_cost_one_execution() {
    let slow = Move::Take(Duration::from_millis(100));
    let server = FakeMysql::start(Conversation::new().on(SLOW, &[slow, Move::rows("c", &["answer"])]));
    let narrows = start(&caching(server.port(), TTL.as_millis() as u32).variable("threads", "4"));
    let mut clients = clients(&narrows, 1_000);
    assert_eq!(clients[0].query(SLOW).cell().as_deref(), Some("answer"));
    // The test waits for time to pass.
    std::thread::sleep(TTL);

    clients.iter_mut().for_each(ask);
    for client in &mut clients {
        assert_eq!(cell(client).as_deref(), Some("answer"));
    }

    assert_eq!(executions(&server, SLOW), 2, "the first one, and one for a thousand");
    assert_eq!(hits(&narrows), 999);
}

/// A server that answers the slow statement when the test lets it, and some clients that want its answer: the first one
/// has made the server run it.
struct Queue {
    server: FakeMysql,
    narrows: Narrows,
    first: RawClient,
    others: Vec<RawClient>,
}

impl Queue {
    fn start() -> Queue {
        Queue::where_the_server(&[Move::Wait, Move::rows("c", &["answer"])])
    }

    fn where_the_server(moves: &[Move]) -> Queue {
        let server = FakeMysql::start(Conversation::new().on(SLOW, moves));
        let narrows = start(&caching(server.port(), 60_000));
        let mut first = narrows.client();
        let mut others = clients(&narrows, 5);
        ask(&mut first);
        server.wait_for(SLOW);
        others.iter_mut().for_each(ask);
        wait_until("all others wait", || figure(&narrows, "Query_Cache_count_GET") == 6);
        Queue { server, narrows, first, others }
    }

    fn wait_for_executions(&self, count: usize) {
        wait_until("another one runs it", || executions(&self.server, SLOW) == count);
    }

    /// The first one has abandoned its statement: one of the others makes the server run it again, for all of them.
    fn another_one_runs_it(&mut self) {
        self.wait_for_executions(2);
        self.server.release();
        self.server.release();
        self.all_others_are_answered();
        assert_eq!(executions(&self.server, SLOW), 2);
    }

    fn all_others_are_answered(&mut self) {
        for client in &mut self.others {
            assert_eq!(cell(client).as_deref(), Some("answer"));
        }
    }
}

#[test]
fn when_the_one_that_runs_the_statement_vanishes_another_one_does() {
    let mut queue = Queue::start();
    queue.first.vanish();
    queue.first = queue.narrows.client();
    queue.another_one_runs_it();
}

#[test]
fn when_the_one_that_runs_the_statement_is_killed_another_one_does() {
    let mut queue = Queue::start();
    let running = "SELECT SessionID FROM stats_mysql_processlist WHERE command='Query'";
    let id = queue.narrows.admin().query(running).cell().expect("the one that runs");
    queue.narrows.admin().query(format!("KILL CONNECTION {id}")).ok().expect("killed");
    queue.another_one_runs_it();
}

#[test]
fn one_that_waits_can_be_killed_and_go_away_like_any_other() {
    let mut queue = Queue::start();
    let waiting =
        "SELECT SessionID FROM stats_mysql_processlist WHERE command='Cache' ORDER BY SessionID LIMIT 1";
    let id = queue.narrows.admin().query(waiting).cell().expect("one that waits");
    queue.narrows.admin().query(format!("KILL QUERY {id}")).ok().expect("killed");
    queue.others.pop().expect("one of them").vanish();
    wait_until("it has disconnected", || figure(&queue.narrows, "Client_Connections_connected") == 5);

    queue.server.release();

    assert_eq!(cell(&mut queue.first).as_deref(), Some("answer"));
    let answers: Vec<_> = queue.others.iter_mut().map(|client| client.answer(command::QUERY)).collect();
    let errors: Vec<u16> =
        answers.iter().filter_map(|answer| answer.error()).map(|error| error.code).collect();
    assert_eq!(errors, [1317], "one was interrupted: {answers:?}");
    assert_eq!(executions(&queue.server, SLOW), 1);
}

#[test]
fn a_statement_that_fails_is_run_once_more_and_then_by_everybody() {
    let mut queue = Queue::where_the_server(&[Move::Wait, Move::error(1146, "42S02", "no such table")]);
    for _ in 0..6 {
        queue.server.release();
    }
    for client in queue.others.iter_mut().chain([&mut queue.first]) {
        assert_eq!(client.answer(command::QUERY).error().map(|error| error.code), Some(1146));
    }
    assert_eq!(executions(&queue.server, SLOW), 6, "errors are not shared");
    assert_eq!((hits(&queue.narrows), figure(&queue.narrows, "Query_Cache_Entries")), (0, 0));
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let long = "x".repeat(60_000);
    let cells: Vec<&str> = std::iter::repeat_n(long.as_str(), 500).collect();
    let server = FakeMysql::start(Conversation::new().on(SLOW, &[Move::rows("c", &cells)]));
    let narrows = start(&caching(server.port(), 60_000).variable("threshold_resultset_size", "100000000"));
    let mut lazy = narrows.client();
    ask(&mut lazy);
    server.wait_for(SLOW);
    let mut other = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));

    assert_eq!(other.query(SLOW).text_rows().len(), 500);

    assert_eq!(lazy.answer(command::QUERY).text_rows().len(), 500);
}
