//! How long answers are valid, and how they are refreshed and removed.

use std::time::Duration;

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig, command, wait_until};

use super::{caching, executions, figure, hits, start};

const WHO: &str = "SELECT who";

fn server() -> FakeMysql {
    FakeMysql::start(saying("one"))
}

fn saying(word: &str) -> Conversation {
    Conversation::new().on(WHO, &[Move::rows("who", &[word])])
}

#[test]
fn an_answer_is_given_again_until_its_time_is_over() {
    let server = server();
    let narrows = start(&caching(server.port(), 1_500));
    let mut client = narrows.client();
    assert_eq!(client.query(WHO).cell().as_deref(), Some("one"));
    server.say(saying("two"));
    assert_eq!(client.query(WHO).cell().as_deref(), Some("one"));
    wait_until("it has expired", || client.query(WHO).cell().as_deref() == Some("two"));
    assert_eq!(executions(&server, WHO), 2);
}

#[test]
fn a_comment_has_its_statement_cached_and_every_byte_of_it_counts() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut client = narrows.client();
    let (cached, other) = ("/* cache_ttl=60000 */ SELECT who", "/* cache_ttl=60000 */ SELECT  who");
    server.say(
        Conversation::new().on(cached, &[Move::rows("c", &["1"])]).on(other, &[Move::rows("c", &["2"])]),
    );
    for _ in 0..3 {
        assert_eq!(client.query(cached).cell().as_deref(), Some("1"));
        assert_eq!(client.query(other).cell().as_deref(), Some("2"));
    }
    assert_eq!((executions(&server, cached), executions(&server, other)), (1, 1));
}

#[test]
fn a_flush_forgets_everything_at_once() {
    let server = server();
    let narrows = start(&caching(server.port(), 3_600_000).variable("threads", "3"));
    let mut clients: Vec<_> = (0..6).map(|_| narrows.client()).collect();
    for _ in 0..2 {
        for client in &mut clients {
            assert_eq!(client.query(WHO).cell().as_deref(), Some("one"));
        }
    }
    server.say(saying("two"));
    assert_eq!(figure(&narrows, "Query_Cache_Entries"), 1);

    narrows.admin().query("PROXYSQL FLUSH QUERY CACHE").ok().expect("flushed");

    assert_eq!(
        (figure(&narrows, "Query_Cache_Entries"), figure(&narrows, "Query_Cache_Memory_bytes")),
        (0, 0)
    );
    for client in &mut clients {
        assert_eq!(client.query(WHO).cell().as_deref(), Some("two"));
    }
    assert_eq!(executions(&server, WHO), 2);
}

#[test]
fn what_was_asked_before_a_flush_is_not_kept() {
    let server = FakeMysql::start(Conversation::new().on(WHO, &[Move::Wait, Move::rows("who", &["one"])]));
    let narrows = start(&caching(server.port(), 3_600_000));
    let mut client = narrows.client();
    client.send_command(command::QUERY, WHO.as_bytes()).expect("send");
    server.wait_for(WHO);
    narrows.admin().query("PROXYSQL FLUSH QUERY CACHE").ok().expect("flushed");
    server.say(saying("two"));
    server.release();
    assert_eq!(client.answer(command::QUERY).cell().as_deref(), Some("one"));
    assert_eq!(client.query(WHO).cell().as_deref(), Some("two"));
}

#[test]
fn one_client_renews_what_is_getting_old_while_the_others_get_it() {
    let server = server();
    let config = caching(server.port(), 60_000).variable("query_cache_soft_ttl_pct", "1");
    let narrows = start(&config.variable("threads", "3"));
    let mut clients: Vec<_> = (0..9).map(|_| narrows.client()).collect();
    for client in &mut clients {
        assert_eq!(client.query(WHO).cell().as_deref(), Some("one"));
    }
    server.say(Conversation::new().on(WHO, &[Move::Wait, Move::rows("who", &["two"])]));
    let mut renewing = narrows.client();
    // From 600 ms on the first client refreshes it, and waits for the server.
    std::thread::sleep(Duration::from_millis(650));
    renewing.send_command(command::QUERY, WHO.as_bytes()).expect("send");
    wait_until("the server ran it again", || executions(&server, WHO) == 2);
    for client in &mut clients {
        assert_eq!(client.query(WHO).cell().as_deref(), Some("one"), "nobody else waits");
    }

    server.release();

    assert_eq!(renewing.answer(command::QUERY).cell().as_deref(), Some("two"));
    wait_until("everybody gets the new answer", || {
        clients.iter_mut().all(|client| client.query(WHO).cell().as_deref() == Some("two"))
    });
    assert_eq!(executions(&server, WHO), 2);
}

#[test]
fn figures_tell_of_reads_and_of_what_there_is() {
    let server = server();
    let narrows = start(&caching(server.port(), 60_000));
    let mut client = narrows.client();
    let lengths: Vec<usize> = (0..4)
        .map(|_| client.query(WHO).packets.iter().map(|packet| packet.payload.len() + 4).sum())
        .collect();
    client.query("DO 1");

    let of = |name: &str| figure(&narrows, &format!("Query_Cache_{name}"));
    assert_eq!((of("count_GET"), of("count_GET_OK"), of("count_SET"), of("Entries")), (4, 3, 1, 1));
    assert_eq!(of("bytes_OUT"), 3 * lengths[1] as u64);
    assert!(of("bytes_IN") > 0 && of("bytes_IN") <= lengths[0] as u64);
    assert!(of("Memory_bytes") > of("bytes_IN"));
    let digests = "SELECT hostgroup, count_star FROM stats_mysql_query_digest WHERE digest_text='SELECT who' \
                   ORDER BY hostgroup";
    let rows = narrows.admin().query(digests).text_rows();
    let told: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.as_deref().unwrap_or_default()).collect()).collect();
    assert_eq!(told, [["-1", "3"], ["0", "1"]]);
    let page = narrows.admin().query("SHOW PROMETHEUS METRICS").text_rows();
    let page = format!("{page:?}");
    for line in [
        "proxysql_query_cache_count_get_total{status=\\\\\\\"ok\\\\\\\"} 3",
        "proxysql_query_cache_count_get_total{status=\\\\\\\"err\\\\\\\"} 1",
        "proxysql_query_cache_count_set_total 1",
    ] {
        assert!(page.contains(&line.replace("\\\\\\\"", "\\\"")), "{line} in {page}");
    }
}

#[test]
fn a_cache_without_room_keeps_nothing_and_holds_nobody_up() {
    let server = server();
    let narrows = start(&caching(server.port(), 60_000).variable("query_cache_size_MB", "0"));
    let mut client = narrows.client();
    for _ in 0..3 {
        assert_eq!(client.query(WHO).cell().as_deref(), Some("one"));
    }
    assert_eq!((executions(&server, WHO), hits(&narrows)), (3, 0));
}
