//! The figures of one moment, read from the metrics.

use std::time::Instant;

/// Counters and gauges at one moment.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Statements so far.
    pub statements: f64,
    /// Slow statements so far.
    pub slow: f64,
    /// Bytes to and from clients so far.
    pub bytes: f64,
    /// Lookups in the query cache so far.
    pub lookups: f64,
    /// Those that were found.
    pub hits: f64,
    /// Errors so far, of servers and of Narrows itself.
    pub errors: f64,
    /// Clients.
    pub clients: f64,
    /// Connections to servers.
    pub connections: f64,
    /// How many statements took at most so many seconds.
    durations: Buckets,
    /// The same for how long statements waited for a connection, by hostgroup.
    waits: Vec<(i64, Buckets)>,
    /// How often the monitor has found a change of a server: its name, the change, how often.
    pub changes: Vec<(String, String, String)>,
}

/// How many took at most so many seconds.
type Buckets = Vec<(f64, f64)>;

impl Sample {
    /// Reads the text format of Prometheus; metrics that are not there are 0.
    pub fn read(text: &str, at: Instant) -> Sample {
        let mut sample = Sample {
            at,
            statements: 0.0,
            slow: 0.0,
            bytes: 0.0,
            lookups: 0.0,
            hits: 0.0,
            errors: 0.0,
            clients: 0.0,
            connections: 0.0,
            durations: Vec::new(),
            waits: Vec::new(),
            changes: Vec::new(),
        };
        text.lines().filter(|line| !line.starts_with('#')).for_each(|line| sample.take(line));
        for buckets in
            std::iter::once(&mut sample.durations).chain(sample.waits.iter_mut().map(|(_, buckets)| buckets))
        {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        sample.waits.sort_by_key(|(hostgroup, _)| *hostgroup);
        sample
    }

    fn take(&mut self, line: &str) {
        let Some((series, value)) = line.rsplit_once(' ') else { return };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let number = value.parse::<f64>().unwrap_or(0.0);
        match name {
            "proxysql_questions_total" => self.statements += number,
            "proxysql_slow_queries_total" => self.slow += number,
            "proxysql_queries_frontends_bytes_total" => self.bytes += number,
            "proxysql_query_cache_count_get_total" => {
                self.lookups += number;
                if label(labels, "status").as_deref() == Some("ok") {
                    self.hits += number;
                }
            }
            "proxysql_mysql_error_total" | "proxysql_generated_error_packets_total" => self.errors += number,
            "proxysql_client_connections_connected" => self.clients += number,
            "proxysql_server_connections_connected" => self.connections += number,
            "narrows_statement_duration_seconds_bucket" => add(&mut self.durations, labels, number),
            "narrows_connection_wait_duration_seconds_bucket" => self.add_wait(labels, number),
            "narrows_server_changes_total" if self.changes.len() < MOST_CHANGES => {
                let [server, change] =
                    ["endpoint", "change"].map(|name| label(labels, name).unwrap_or_default());
                self.changes.push((server, change, value.to_owned()));
            }
            _ => {}
        }
    }

    fn add_wait(&mut self, labels: &str, count: f64) {
        let hostgroup = label(labels, "hostgroup").and_then(|hostgroup| hostgroup.parse().ok());
        let Some(hostgroup) = hostgroup else { return };
        let place = match self.waits.iter().position(|(found, _)| *found == hostgroup) {
            Some(place) => place,
            None if self.waits.len() >= MOST_HOSTGROUPS => return,
            None => {
                self.waits.push((hostgroup, Buckets::new()));
                self.waits.len() - 1
            }
        };
        if let Some((_, buckets)) = self.waits.get_mut(place) {
            add(buckets, labels, count);
        }
    }

    /// How many seconds that share of the statements since `earlier` took at most; `None` if there were none.
    pub fn quantile_since(&self, earlier: &Sample, share: f64) -> Option<f64> {
        quantile(&since(&self.durations, &earlier.durations), share)
    }

    /// The waits for a connection since the start, by hostgroup.
    pub fn waits(&self) -> impl Iterator<Item = (i64, Waits)> {
        self.waits.iter().map(|(hostgroup, buckets)| (*hostgroup, Waits(buckets.clone())))
    }

    /// How many waits for a connection to that hostgroup there were since `earlier`.
    pub fn waits_since(&self, earlier: &Sample, hostgroup: i64) -> f64 {
        let all = |sample: &Sample| {
            let found = sample.waits.iter().find(|(found, _)| *found == hostgroup);
            found.and_then(|(_, buckets)| buckets.last()).map_or(0.0, |(_, count)| *count)
        };
        (all(self) - all(earlier)).max(0.0)
    }
}

/// The waits for a connection by duration.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits(Buckets);

impl Waits {
    /// How many there were.
    pub fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// How many seconds that share of them took at most; `None` if there were none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        quantile(&self.0, share)
    }

    /// How many were above the limit before and up to each limit in seconds, which is infinite for the last one.
    pub fn by_duration(&self) -> Vec<(f64, f64)> {
        let mut before = 0.0;
        let each = self.0.iter().map(|(limit, count)| {
            let here = (count - before).max(0.0);
            before = *count;
            (*limit, here)
        });
        each.collect()
    }
}

/// Adds a bucket of a series to that of all.
fn add(buckets: &mut Buckets, labels: &str, count: f64) {
    let Some(bound) = label(labels, "le").and_then(|bound| bound.parse::<f64>().ok()) else { return };
    let is_full = buckets.len() >= MOST_BUCKETS;
    match buckets.iter_mut().find(|(found, _)| found.total_cmp(&bound).is_eq()) {
        Some((_, sum)) => *sum += count,
        None if is_full => {}
        None => buckets.push((bound, count)),
    }
}

/// What was added to buckets.
fn since(now: &Buckets, earlier: &Buckets) -> Buckets {
    let before = |bound: f64| {
        let found = earlier.iter().find(|(found, _)| found.total_cmp(&bound).is_eq());
        found.map_or(0.0, |(_, count)| *count)
    };
    now.iter().map(|(bound, count)| (*bound, (count - before(*bound)).max(0.0))).collect()
}

fn quantile(buckets: &Buckets, share: f64) -> Option<f64> {
    let wanted = buckets.last().map(|(_, all)| all * share).filter(|wanted| *wanted > 0.0)?;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= wanted {
            // Of those beyond the last bound nothing else is known.
            let is_known = bound.is_finite() && *count > below;
            return Some(if is_known {
                low + (bound - low) * (wanted - below) / (count - below)
            } else {
                low
            });
        }
        (low, below) = (*bound, *count);
    }
    None
}

/// The value of a label in what follows the brace.
fn label(labels: &str, wanted: &str) -> Option<String> {
    let mut rest = labels;
    while let Some((name, behind)) = rest.split_once("=\"") {
        let (mut value, mut escape, mut end) = (String::new(), false, behind.len());
        for (at, c) in behind.char_indices() {
            match (escape, c) {
                (true, 'n') => value.push('\n'),
                (true, c) => value.push(c),
                (false, '\\') => {}
                (false, '"') => {
                    end = at + 1;
                    break;
                }
                (false, c) => value.push(c),
            }
            escape = !escape && c == '\\';
        }
        if name.trim_start_matches([',', ' ']) == wanted {
            return Some(value);
        }
        rest = behind.get(end..)?;
    }
    None
}

/// Changes of servers that are kept.
const MOST_CHANGES: usize = 500;

/// Hostgroups whose waits are kept.
const MOST_HOSTGROUPS: usize = 200;

/// Far more than histograms have.
const MOST_BUCKETS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        "# HELP proxysql_questions_total Statements.\n# TYPE proxysql_questions_total counter\n",
        "proxysql_questions_total 7\nproxysql_client_connections_connected 3\n",
        "proxysql_queries_frontends_bytes_total{traffic_flow=\"sent\"} 10\n",
        "proxysql_queries_frontends_bytes_total{traffic_flow=\"received\"} 5\n",
        "proxysql_query_cache_count_get_total{status=\"ok\"} 1\nproxysql_query_cache_count_get_total{status=\"err\"} 3\n",
        "narrows_server_changes_total{endpoint=\"a\\\"b:1\",change=\"reader\"} 2\n",
        "narrows_statement_duration_seconds_bucket{hostgroup=\"0\",le=\"0.001\"} 10\n",
        "narrows_statement_duration_seconds_bucket{hostgroup=\"0\",le=\"0.01\"} 20\n",
        "narrows_statement_duration_seconds_bucket{hostgroup=\"0\",le=\"+Inf\"} 20\n",
        "narrows_statement_duration_seconds_bucket{hostgroup=\"1\",le=\"0.001\"} 0\n",
        "narrows_statement_duration_seconds_bucket{hostgroup=\"1\",le=\"+Inf\"} 1\n",
        "narrows_connection_wait_duration_seconds_bucket{hostgroup=\"1\",le=\"0.001\"} 3\n",
        "narrows_connection_wait_duration_seconds_bucket{hostgroup=\"1\",le=\"+Inf\"} 4\n",
        "narrows_connection_wait_duration_seconds_bucket{hostgroup=\"0\",le=\"+Inf\"} 0\n",
    );

    #[test]
    fn figures_are_read() {
        let sample = Sample::read(TEXT, Instant::now());
        assert_eq!((sample.statements, sample.clients, sample.bytes), (7.0, 3.0, 15.0));
        assert_eq!((sample.lookups, sample.hits), (4.0, 1.0));
        assert_eq!(sample.changes, [("a\"b:1".to_owned(), "reader".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn waits_are_those_of_each_hostgroup() {
        let (now, empty) = (Sample::read(TEXT, Instant::now()), Sample::read("", Instant::now()));
        let waits: Vec<(i64, Waits)> = now.waits().collect();
        let [(0, none), (1, some)] = waits.as_slice() else { panic!("{waits:?}") };
        assert_eq!((none.count(), none.quantile(0.5)), (0.0, None));
        assert_eq!(some.by_duration(), [(0.001, 3.0), (f64::INFINITY, 1.0)]);
        assert_eq!((some.count(), some.quantile(0.99)), (4.0, Some(0.001)));
        assert_eq!(
            (now.waits_since(&empty, 1), now.waits_since(&now, 1), now.waits_since(&empty, 7)),
            (4.0, 0.0, 0.0)
        );
    }

    #[test]
    fn quantiles_lie_within_the_buckets() {
        let (now, empty) = (Sample::read(TEXT, Instant::now()), Sample::read("", Instant::now()));
        let quantile = |share| now.quantile_since(&empty, share).unwrap();
        assert!((quantile(0.25) - 0.000_525).abs() < 1e-9, "{}", quantile(0.25));
        assert!(quantile(0.9) > 0.001 && quantile(0.9) < 0.01);
        assert!((quantile(1.0) - 0.01).abs() < 1e-9);
        assert_eq!(now.quantile_since(&now, 0.5), None);
        assert_eq!(empty.quantile_since(&empty, 0.5), None);
    }
}
