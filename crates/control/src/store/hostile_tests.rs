//! Statements of statistics users that take as much as they can: each ends, and about when it should.

use std::time::{Duration, Instant};

use super::tests::Fixture;
use super::*;

/// The answer to one of these statements with a limit of 50 ms, and how long it took.
fn run(fixture: &mut Fixture, text: &str) -> (String, Duration) {
    let mut snapshot = fixture.store.snapshot(text).unwrap();
    snapshot.limits.time = Duration::from_millis(50);
    let start = Instant::now();
    let said = match snapshot.sql(text, &Abandoned::default()) {
        Ok(_) => "an answer".to_owned(),
        Err(refusal) => refusal.message.replace("ProxySQL Admin Error: ", ""),
    };
    (said, start.elapsed())
}

/// A `SELECT` of `expression` so many times that the clock is not checked in between.
fn often(expression: &str) -> String {
    format!("SELECT {}", vec![expression; 1_900].join(", "))
}

const TEXT: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 100000), o(t) AS \
                    (SELECT '{' || group_concat('\"' || i || '\":1') || '}' FROM n)";

#[test]
fn whatever_takes_long_is_ended_or_refused() {
    let mut fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)";
    let statements = [
        format!("{endless} SELECT MAX(i) FROM n"),
        format!("{endless} SELECT random() FROM n ORDER BY 1"),
        format!("{endless} SELECT hex(randomblob(400000)) FROM n ORDER BY 1 COLLATE NOCASE"),
        format!("{endless} SELECT group_concat(hex(randomblob(400000))) FROM n"),
        format!("{endless} SELECT sum(length(hex(randomblob(1000000)))) FROM n"),
        format!("{endless} SELECT group_concat(hex(randomblob(1000))) OVER (ROWS 100 PRECEDING) FROM n"),
        format!("{endless} SELECT i, zeroblob(1000000) FROM n"),
        "SELECT instr(zeroblob(2000000), zeroblob(1000000)||x'01')".to_owned(),
        "SELECT replace(zeroblob(2000000), zeroblob(1000000)||x'01', 'x')".to_owned(),
        "SELECT length(trim(printf('%1000000d', 1), hex(randomblob(400000))||' '))".to_owned(),
        "SELECT printf('%1000000d', 1) LIKE '%' || printf('%4000d', 2)".to_owned(),
        "SELECT printf('%1000000d', 1) GLOB '*' || printf('%4000d', 2)".to_owned(),
        "SELECT zeroblob(20000000)".to_owned(),
        often("hex(zeroblob(1000000))"),
        often("instr(zeroblob(8000), zeroblob(4000)||x'01')"),
        often("printf('%100000d', 1) LIKE '%' || printf('%600d', 2)"),
        format!("{TEXT} SELECT length(json_patch(t, t)) FROM o"),
        format!("{TEXT} SELECT length(json_pretty(t, t)) FROM o"),
        format!("{TEXT} SELECT json_extract(t, '$.a', '$.b', '$.c') FROM o"),
        format!("{TEXT} SELECT COUNT(*) FROM o, json_each(t), json_tree(t)"),
        format!("SELECT printf('{}')", "%s".repeat(500_000)),
        format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(100_000)),
        format!("SELECT 1 IN ({}1)", "1,".repeat(100_000)),
    ];
    for text in &statements {
        let (said, took) = run(&mut fixture, text);
        println!("{took:?}: {said}: {}", text.chars().take(100).collect::<String>());
        assert!(took < Duration::from_secs(30), "{took:?}: {text}");
    }
}

#[test]
fn a_statement_that_doubles_while_it_is_compiled_is_ended() {
    let mut fixture = Fixture::new();
    for levels in [5, 9, 20, 60] {
        let mut text = "WITH a0 AS (SELECT 1 AS x)".to_owned();
        for level in 1..=levels {
            text.push_str(&format!(", a{level} AS (SELECT p.x FROM a{0} p, a{0} q)", level - 1));
        }
        text.push_str(&format!(" SELECT COUNT(*) FROM a{levels}"));
        let before = sqlite_bytes();
        let (said, took) = run(&mut fixture, &text);
        println!("{levels}: {took:?}: {said}, {} bytes", sqlite_bytes().saturating_sub(before));
        assert!(took < Duration::from_secs(30), "{levels}: {took:?}");
    }
}

#[test]
fn what_users_of_statistics_may_take_of_memory_is_a_part_of_what_there_is() {
    let mut fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)";
    let sort = format!("{endless} SELECT hex(randomblob(500000)) FROM n ORDER BY 1");
    let mut snapshot = fixture.store.snapshot(&sort).unwrap();
    snapshot.limits.time = Duration::from_secs(3_600);
    let refusal = snapshot.sql(&sort, &Abandoned::default()).unwrap_err();
    assert!(refusal.message.contains("exceeds its memory limit"), "{refusal}");
}

#[test]
fn what_nobody_waits_for_ends() {
    let mut fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT MAX(i) FROM n";
    let mut snapshot = fixture.store.snapshot(endless).unwrap();
    snapshot.limits.time = Duration::from_secs(3_600);
    let abandoned = Abandoned::default();
    abandoned.set();
    assert!(snapshot.sql(endless, &abandoned).is_err());
}

#[test]
fn a_snapshot_that_is_read_keeps_no_sample_and_no_record_waiting() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO stats_history.system_cpu VALUES (1, 2, 3)");
    let text = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT MAX(i+tms_utime) FROM system_cpu CROSS JOIN n";
    let mut snapshot = fixture.store.snapshot(text).unwrap();
    snapshot.limits.time = Duration::from_secs(3_600);
    let abandoned = Abandoned::default();
    let reads = std::thread::spawn({
        let abandoned = abandoned.clone();
        move || snapshot.sql(text, &abandoned).unwrap_err()
    });
    let sample = |fixture: &mut Fixture| {
        fixture.store.append("stats_history.system_cpu", vec![vec![Value::Integer(2); 3]], 0)
    };
    // It is locked while it is opened, and then while the statement reads: this is reported at once each time.
    let (start, mut locked) = (Instant::now(), 0);
    while locked < 100 {
        locked = match sample(&mut fixture) {
            Ok(()) => 0,
            Err(refusal) => {
                assert!(refusal.is_locked(), "{refusal}");
                locked + 1
            }
        };
        fixture.store.refill("stats.stats_mysql_global", Vec::new()).unwrap();
        assert!(start.elapsed() < Duration::from_secs(60), "{locked} times");
    }
    abandoned.set();
    reads.join().unwrap();
    sample(&mut fixture).unwrap();
}

/// Functions whose duration is proportional to the length of their arguments or result. A function added by a later
/// SQLite must be examined before it is added here, or to one of the lists in `bounded.rs` and `guard.rs`.
const QUICK: &str = "-> ->> abs avg bm25 caching_sha2_password changes char coalesce concat concat_ws count cume_dist current_date \
    current_time current_timestamp date datetime dense_rank first_value format from_unixtime fts5 fts5_get_locale \
    fts5_insttoken fts5_locale fts5_source_id group_concat hex highlight if ifnull iif json json_array \
    json_array_length json_error_position json_extract json_group_array json_group_object json_object json_quote \
    json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object jsonb_object \
    julianday lag last_insert_rowid last_value lead length likelihood likely lower match matchinfo max min \
    mysql_native_password narrows_is_operator narrows_row_after narrows_row_before narrows_row_gone nth_value ntile nullif octet_length offsets optimize percent_rank printf quote random \
    randomblob rank round row_number rtreedepth rtreenode sign snippet soundex sqlite_compileoption_get \
    sqlite_compileoption_used sqlite_source_id sqlite_version strftime string_agg substr substring subtype sum \
    time timediff total total_changes typeof unhex unicode unistr unistr_quote unixepoch unlikely upper zeroblob";

#[test]
fn how_long_a_function_takes_is_known_of_each() {
    let fixture = Fixture::new();
    let connection = &fixture.store.all.connection;
    let mut statement = connection.prepare("SELECT DISTINCT name FROM pragma_function_list").unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let quick: Vec<&str> = QUICK.split(' ').collect();
    let is_known = |name: &str| quick.contains(&name) || guard::is_denied(name) || bounded::is_bounded(name);
    let mut unknown: Vec<String> =
        names.map(|name| name.unwrap().to_ascii_lowercase()).filter(|name| !is_known(name)).collect();
    unknown.sort();
    assert_eq!(unknown, Vec::<String>::new());
}
