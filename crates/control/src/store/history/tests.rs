//! Aggregates and intervals of traffic, with times that the tests choose.

use super::*;
use crate::schema::traffic::{Counters, Gauges};
use crate::store::tests::Fixture;

/// 2024-02-29 00:00:00 UTC.
const LEAP_DAY: i64 = 1_709_164_800;

const SECONDS_OF_DAY: i64 = 86_400;

impl Fixture {
    /// Makes aggregates until all are up to date at `now`; returns the number of steps.
    fn aggregate_all(&mut self, now: i64) -> usize {
        let mut steps = 0;
        for aggregate in AGGREGATES {
            loop {
                steps += 1;
                if self.store.aggregate(aggregate, now).unwrap() == Progress::Done {
                    break;
                }
                assert!(steps < 1_000);
            }
        }
        steps
    }

    fn cpu_sample(&mut self, at: i64, ticks: i64) {
        self.done(&format!("INSERT OR REPLACE INTO stats_history.system_cpu VALUES ({at}, {ticks}, 1)"));
    }

    fn cpu(&mut self, table: &str) -> Vec<[i64; 2]> {
        let rows =
            self.rows(&format!("SELECT timestamp, tms_utime FROM stats_history.{table} ORDER BY timestamp"));
        rows.into_iter().map(|row| [row[0].parse().unwrap(), row[1].parse().unwrap()]).collect()
    }

    fn count(&mut self, condition: &str) -> i64 {
        self.rows(&format!("SELECT COUNT(*) FROM stats_history.{condition}"))[0][0].parse().unwrap()
    }
}

#[test]
fn counters_are_maxima_gauges_averages_and_cpu_times_sums() {
    let mut fixture = Fixture::new();
    for (at, counter, gauge) in [(10, 5, 1), (70, 9, 4), (3_599, 7, 5), (3_600, 100, 100)] {
        let at = LEAP_DAY + at;
        let counters = vec![counter.to_string(); 6].join(", ");
        fixture.done(&format!(
            "INSERT INTO stats_history.mysql_connections VALUES ({at}, {counter}, {gauge}, {counter}, {counter}, \
             {gauge}, {counter}, {counters})"
        ));
        fixture.done(&format!(
            "INSERT INTO stats_history.mysql_query_cache VALUES ({at}, {counters}, {gauge}, {gauge})"
        ));
        fixture.done(&format!(
            "INSERT INTO stats_history.system_memory VALUES ({at}, {gauge}, {gauge}, 3, 3, 0, 0)"
        ));
        fixture.cpu_sample(at, counter);
    }
    // The second hour still runs.
    fixture.aggregate_all(LEAP_DAY + 7_199);
    let begin = LEAP_DAY.to_string();
    let cells = |gauges: &[usize], length: usize| {
        let cell = |column| if gauges.contains(&column) { "3" } else { "9" }.to_owned();
        let mut row = vec![begin.clone()];
        row.extend((1..length).map(cell));
        row
    };
    let expected = cells(&[2, 5], 13);
    assert_eq!(fixture.rows("SELECT * FROM stats_history.mysql_connections_hour"), [expected]);
    let expected = cells(&[7, 8], 9);
    assert_eq!(fixture.rows("SELECT * FROM stats_history.mysql_query_cache_hour"), [expected]);
    let memory = fixture.rows("SELECT * FROM stats_history.system_memory_hour");
    assert_eq!(memory, [[&*begin, "3", "3", "3", "3", "0", "0"]]);
    assert_eq!(fixture.cpu("system_cpu_hour"), [[LEAP_DAY, 21]]);
    assert_eq!(fixture.rows("SELECT * FROM stats_history.system_cpu_day"), [[""; 0]; 0]);
}

#[test]
fn days_end_at_midnight_in_any_month() {
    let mut fixture = Fixture::new();
    let march = LEAP_DAY + SECONDS_OF_DAY;
    for hour in -30..30 {
        fixture.cpu_sample(march + hour * 3_600, 1);
        fixture.cpu_sample(march + hour * 3_600 + 3_599, 1);
    }
    fixture.aggregate_all(march + SECONDS_OF_DAY);
    let days = [[LEAP_DAY - SECONDS_OF_DAY, 12], [LEAP_DAY, 48], [march, 48]];
    assert_eq!(fixture.cpu("system_cpu_day"), days);
    let dates = "SELECT date(timestamp, 'unixepoch') FROM stats_history.system_cpu_day";
    assert_eq!(fixture.rows(dates), [["2024-02-28"], ["2024-02-29"], ["2024-03-01"]]);
    fixture.aggregate_all(march + SECONDS_OF_DAY);
    assert_eq!(fixture.cpu("system_cpu_day"), days, "nothing is counted twice");
}

#[test]
fn what_is_missing_is_made_in_short_steps() {
    let mut fixture = Fixture::new();
    for hour in 0..168 {
        fixture.cpu_sample(LEAP_DAY + hour * 3_600 + 60, hour);
    }
    let now = LEAP_DAY + 168 * 3_600;
    let cpu = AGGREGATES.iter().find(|aggregate| aggregate.target == "system_cpu_hour").unwrap();
    assert_eq!(fixture.store.aggregate(cpu, now), Ok(Progress::More));
    assert_eq!(fixture.count("system_cpu_hour"), 6);
    let steps = fixture.aggregate_all(now);
    assert_eq!(fixture.count("system_cpu_hour"), 168);
    assert_eq!(fixture.count("system_cpu_day"), 7);
    assert_eq!(steps, 27 + AGGREGATES.len() - 1);
    // Samples stop for some days, and begin again.
    fixture.cpu_sample(now + 5 * SECONDS_OF_DAY, 1);
    fixture.aggregate_all(now + 6 * SECONDS_OF_DAY);
    assert_eq!((fixture.count("system_cpu_hour"), fixture.count("system_cpu_day")), (169, 8));
}

#[test]
fn a_clock_that_was_set_back_adds_to_the_hour_that_it_repeats() {
    let mut fixture = Fixture::new();
    fixture.cpu_sample(LEAP_DAY + 10, 1);
    fixture.cpu_sample(LEAP_DAY + 3_610, 1);
    fixture.aggregate_all(LEAP_DAY + 7_200);
    assert_eq!(fixture.cpu("system_cpu_hour"), [[LEAP_DAY, 1], [LEAP_DAY + 3_600, 1]]);
    fixture.aggregate_all(LEAP_DAY + 1_800);
    fixture.cpu_sample(LEAP_DAY + 1_800, 5);
    fixture.aggregate_all(LEAP_DAY + 3_600);
    fixture.cpu_sample(LEAP_DAY + 5_400, 7);
    fixture.aggregate_all(LEAP_DAY + 7_200);
    assert_eq!(fixture.cpu("system_cpu_hour"), [[LEAP_DAY, 6], [LEAP_DAY + 3_600, 8]]);
}

#[test]
fn a_clock_that_was_in_the_future_stops_nothing() {
    let mut fixture = Fixture::new();
    let future = LEAP_DAY + 1_000 * SECONDS_OF_DAY;
    fixture.cpu_sample(LEAP_DAY + 10, 1);
    fixture.aggregate_all(LEAP_DAY + 3_600);
    fixture.cpu_sample(future, 50);
    fixture.aggregate_all(future + SECONDS_OF_DAY);
    for hour in 1..3 {
        fixture.cpu_sample(LEAP_DAY + hour * 3_600, 1);
        fixture.aggregate_all(LEAP_DAY + (hour + 1) * 3_600);
    }
    let hours = fixture.cpu("system_cpu_hour");
    assert_eq!(hours, [[LEAP_DAY, 1], [LEAP_DAY + 3_600, 1], [LEAP_DAY + 7_200, 1], [future, 50]]);
    assert_eq!(fixture.count("system_cpu WHERE timestamp < 1709164900"), 1, "samples stay");
}

#[test]
fn rows_that_are_too_old_are_deleted_a_few_at_a_time() {
    let mut fixture = Fixture::new();
    for minute in 0..100 {
        fixture.cpu_sample(LEAP_DAY + minute * 60, 1);
    }
    let row = |at| vec![Value::Integer(at), Value::Integer(1), Value::Integer(1)];
    let now = LEAP_DAY + 8 * SECONDS_OF_DAY;
    fixture.store.append("stats_history.system_cpu", vec![row(now)], LEAP_DAY + SECONDS_OF_DAY).unwrap();
    assert_eq!(fixture.count("system_cpu"), 97);
    assert_eq!(fixture.cpu("system_cpu")[0][0], LEAP_DAY + 240);
    fixture.store.append("stats_history.system_cpu", vec![row(now)], LEAP_DAY).unwrap();
    assert_eq!(fixture.count("system_cpu"), 97);
}

/// Intervals of ten seconds from `first` on.
fn intervals(first: i64, count: i64) -> Vec<Traffic> {
    let interval = |number: i64| Traffic {
        timestamp: first + number * 10,
        interval_ms: 10_000,
        counters: Counters { statements: 10, ..Counters::default() },
        average: Gauges { clients_connected: 3, ..Gauges::default() },
        highest: Gauges { clients_connected: 3, ..Gauges::default() },
        latencies: std::array::from_fn(|bucket| if bucket == 1 { 10 } else { 0 }),
    };
    (0..count).map(interval).collect()
}

#[test]
fn five_minutes_are_summed_when_they_are_over() {
    let mut fixture = Fixture::new();
    let now = LEAP_DAY + 590;
    fixture.store.add_traffic(&intervals(LEAP_DAY, 59), now, now).unwrap();
    let read = "SELECT timestamp, interval_ms, statements, clients_connected, clients_connected_max, latency_p50_us, \
                latency_p99_us, latency_counts FROM stats_history.narrows_traffic_5m";
    let counts = "[0,300,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]";
    let first = |at: i64| {
        [&*at.to_string(), "300000", "300", "3", "3", "175", "248", counts].map(str::to_owned).to_vec()
    };
    assert_eq!(fixture.rows(read), [first(LEAP_DAY)]);
    // A restart: the rest comes from another process.
    fixture.store.add_traffic(&intervals(LEAP_DAY + 590, 2), LEAP_DAY + 610, LEAP_DAY + 620).unwrap();
    assert_eq!(fixture.rows(read), [first(LEAP_DAY), first(LEAP_DAY + 300)]);
    fixture.store.add_traffic(&[], LEAP_DAY + 610, LEAP_DAY + 620).unwrap();
    assert_eq!(fixture.count("narrows_traffic_5m"), 2);
    assert_eq!(fixture.count("narrows_traffic_10s"), 61);
}

#[test]
fn intervals_without_statements_have_no_latency() {
    let mut fixture = Fixture::new();
    let row = Traffic { timestamp: LEAP_DAY, ..Traffic::default() };
    fixture.store.add_traffic(&[row], LEAP_DAY, LEAP_DAY).unwrap();
    let read = "SELECT statements, latency_p99_us FROM stats_history.narrows_traffic_10s";
    assert_eq!(fixture.rows(read), [["0", "NULL"]]);
}

#[test]
fn intervals_are_bounded_in_time_and_number() {
    let mut fixture = Fixture::new();
    let next = |fixture: &mut Fixture, at: i64| {
        fixture.store.add_traffic(&intervals(at, 6), at + 60, at + 60).unwrap();
    };
    let begin = LEAP_DAY + SECONDS_OF_DAY;
    fixture.store.add_traffic(&intervals(LEAP_DAY, 8_640), begin, begin).unwrap();
    for minute in 0..60 {
        next(&mut fixture, begin + minute * 60);
    }
    assert_eq!(fixture.count("narrows_traffic_10s"), 8_640);
    assert_eq!(fixture.count(&format!("narrows_traffic_10s WHERE timestamp < {}", LEAP_DAY + 3_600)), 0);
    // A clock in the future, for three minutes.
    let future = begin + 1_000 * SECONDS_OF_DAY;
    (0..3).for_each(|minute| next(&mut fixture, future + minute * 60));
    assert!(fixture.count(&format!("narrows_traffic_10s WHERE timestamp < {begin}")) > 8_000 - 360);
    for minute in 60..120 {
        next(&mut fixture, begin + minute * 60);
    }
    assert_eq!(fixture.count(&format!("narrows_traffic_10s WHERE timestamp >= {future}")), 0);
    assert!(fixture.count("narrows_traffic_10s") <= 8_640);
    assert_eq!(fixture.count(&format!("narrows_traffic_5m WHERE timestamp >= {begin}")), 24);
}
