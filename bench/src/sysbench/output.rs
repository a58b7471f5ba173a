//! What sysbench 1.0 prints at the end of a run.

/// The figures of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Transactions per second.
    pub transactions_per_second: f64,
    /// Statements, BEGIN and COMMIT included.
    pub queries: u64,
    /// Queries per second.
    pub queries_per_second: f64,
    /// 99th percentile of the latency of transactions.
    pub p99_ms: f64,
    /// Transactions that were started again after deadlocks or lock timeouts. Other errors end the run.
    pub errors: u64,
    /// Connections that were lost and reopened.
    pub reconnects: u64,
}

impl Outcome {
    /// Reads the summary; `None` if a line of it is missing.
    pub fn read(printed: &str) -> Option<Outcome> {
        let words = |label: &str| -> Option<Vec<&str>> {
            let line = printed.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
            Some(line.split_whitespace().map(|word| word.trim_matches(['(', ')'])).collect())
        };
        let queries = words("queries:")?;
        Some(Outcome {
            transactions_per_second: words("transactions:")?.get(1)?.parse().ok()?,
            queries: queries.first()?.parse().ok()?,
            queries_per_second: queries.get(1)?.parse().ok()?,
            p99_ms: words("99th percentile:")?.first()?.parse().ok()?,
            errors: words("ignored errors:")?.first()?.parse().ok()?,
            reconnects: words("reconnects:")?.first()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "
SQL statistics:
    queries performed:
        read:                            4100
        write:                           0
        other:                           600
        total:                           4700
    transactions:                        300    (149.21 per sec.)
    queries:                             4800   (2387.31 per sec.)
    ignored errors:                      2      (1.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

Latency (ms):
         min:                                    9.71
         99th percentile:                       36.89
         sum:                                 1999.90
";

    #[test]
    fn reads_the_summary() {
        let expected = Outcome {
            transactions_per_second: 149.21,
            queries: 4800,
            queries_per_second: 2387.31,
            p99_ms: 36.89,
            errors: 2,
            reconnects: 0,
        };
        assert_eq!(Outcome::read(PRINTED), Some(expected));
        assert_eq!(Outcome::read(&PRINTED.replace("reconnects:", "")), None);
    }
}
