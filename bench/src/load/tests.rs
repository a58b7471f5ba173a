use std::time::Duration;

use super::*;
use crate::socket::Listener;
use crate::{forward, mock_server};

/// Binds a free port and serves it on a thread of its own.
fn serve(server: impl FnOnce(&mut Listener) -> io::Result<()> + Send + 'static) -> Address {
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let mut listener = Listener::bind(&any).unwrap();
    let address = listener.address(&any).unwrap();
    std::thread::spawn(move || server(&mut listener));
    address
}

fn plan(target: Address) -> Plan {
    Plan {
        target,
        user: "bench".to_owned(),
        password: "secret".to_owned(),
        schema: "sbtest".to_owned(),
        connections: 3,
        statement: "SELECT c FROM sbtest1 WHERE id=1".to_owned(),
        rows: 1,
        usage: Usage::Keep,
        deprecate_eof: true,
    }
}

fn measure(plan: Plan, queries: u64) -> Report {
    let mut generator = Generator::new(plan).unwrap();
    let report = generator.measure(Limit::Queries(queries)).unwrap();
    generator.finish().unwrap();
    report
}

#[test]
fn right_answers_count_once_each() {
    let report = measure(plan(serve(mock_server::serve)), 500);
    assert_eq!((report.errors, report.first_error), (0, None));
    assert_eq!(report.queries, report.rows);
    assert!((500..=502).contains(&report.queries), "{} answers", report.queries);
    assert!(report.p50_us <= report.p99_us && report.p99_us <= report.max_us);
}

#[test]
fn large_results_pass_the_forwarder_in_both_forms() {
    let mock = serve(mock_server::serve);
    for deprecate_eof in [true, false] {
        let mock = mock.clone();
        let target = serve(move |listener| forward::serve(listener, &mock));
        let statement = "SELECT c FROM rows LIMIT 30000".to_owned();
        let report = measure(Plan { statement, rows: 30_000, deprecate_eof, ..plan(target) }, 10);
        assert_eq!((report.errors, report.first_error), (0, None));
    }
}

#[test]
fn connections_of_one_query_log_in_each_time() {
    let report = measure(Plan { usage: Usage::Reconnect, ..plan(serve(mock_server::serve)) }, 50);
    assert_eq!((report.errors, report.first_error), (0, None));
    assert!(report.queries >= 50);
}

#[test]
fn wrong_row_counts_are_errors() {
    // With one connection, no answer comes before all have logged in.
    let report = measure(Plan { rows: 2, connections: 1, ..plan(serve(mock_server::serve)) }, 5);
    assert_eq!(report.queries, 0);
    assert_eq!(report.first_error.as_deref(), Some("1 rows instead of 2"));
}

#[test]
fn a_target_that_hangs_up_fails_the_start() {
    let target = serve(|listener| {
        let mut poll = Poll::new()?;
        poll.registry().register(listener, Token(0), Interest::READABLE)?;
        loop {
            poll.poll(&mut Events::with_capacity(16), None)?;
            while let Some(stream) = listener.accept()? {
                drop(stream);
            }
        }
    });
    let error = Generator::new(plan(target)).unwrap_err().to_string();
    assert!(error.contains("connections could not log in"), "{error}");
}

#[test]
fn unix_sockets_serve_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = Address::Unix(folder.path().join("mock.sock"));
    let mut listener = Listener::bind(&path).unwrap();
    std::thread::spawn(move || mock_server::serve(&mut listener));
    let mut generator = Generator::new(plan(path)).unwrap();
    generator.warm_up(Duration::from_millis(1)).unwrap();
    let report = generator.measure(Limit::Queries(20)).unwrap();
    assert_eq!(report.errors, 0);
}

#[test]
fn a_statement_is_prepared_once_and_executed_again_and_again() {
    for deprecate_eof in [true, false] {
        let statement = "SELECT c FROM sbtest1 WHERE id=?".to_owned();
        let target = serve(mock_server::serve);
        let report = measure(Plan { statement, usage: Usage::Execute, deprecate_eof, ..plan(target) }, 500);
        assert_eq!((report.errors, report.first_error), (0, None));
        assert_eq!(report.queries, report.rows);
    }
}

#[test]
fn the_number_at_the_end_of_a_statement_counts_up_in_its_digits() {
    let mut query = b"SELECT 2 WHERE id=0899".to_vec();
    super::count_up(&mut query);
    assert_eq!(query, b"SELECT 2 WHERE id=0900");
    let mut query = b"x=99".to_vec();
    super::count_up(&mut query);
    assert_eq!(query, b"x=00");
}
