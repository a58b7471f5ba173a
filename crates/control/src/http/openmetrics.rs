//! The OpenMetrics format, version 1.0, which Prometheus asks for first. It differs from the text format of Prometheus in what
//! precedes the time series, and in its last line.

use std::collections::HashSet;
use std::fmt::Write;

/// Whether an `Accept` header names the format.
pub fn is_accepted(header: &[u8]) -> bool {
    header.windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME))
}

/// The same metrics as `text`, which is in the text format of Prometheus.
///
/// A counter has no `_total` here where its type is named. One whose name does not end with that, or would be the name of
/// another metric, is of an unknown type.
pub fn from_text(text: &str) -> String {
    let others = text.lines().filter_map(type_of).filter(|(_, kind)| *kind != "counter");
    let others: HashSet<&str> = others.map(|(name, _)| name).collect();
    let mut page = String::with_capacity(text.len() + text.len() / 8);
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = type_of(line) {
            let short = name.strip_suffix("_total").filter(|short| !others.contains(short));
            match (kind, short) {
                ("counter", Some(short)) => head(&mut page, short, kind, help),
                ("counter" | "untyped", _) => head(&mut page, name, "unknown", help),
                _ => head(&mut page, name, kind, help),
            }
        } else {
            page.push_str(line);
            page.push('\n');
        }
    }
    page.push_str("# EOF\n");
    page
}

/// The name and the type in a line that has them.
fn type_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# TYPE ")?.split_once(' ')
}

/// What precedes the time series of a metric.
fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let mut write =
        |text: std::fmt::Arguments<'_>| page.write_fmt(text).expect("writing to a String cannot fail");
    write(format_args!("# TYPE {name} {kind}\n"));
    let unit = UNITS.into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')));
    if let Some(unit) = unit {
        write(format_args!("# UNIT {name} {unit}\n"));
    }
    write(format_args!("# HELP {name} {help}\n"));
}

/// The type of an answer in this format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NAME: &[u8] = b"application/openmetrics-text";

/// The units that names end with.
const UNITS: [&str; 3] = ["seconds", "milliseconds", "bytes"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_the_same_with_other_heads() {
        let text = concat!(
            "# HELP a_seconds_total How long.\n# TYPE a_seconds_total counter\na_seconds_total 7\n",
            "# HELP b_bytes How much.\n# TYPE b_bytes gauge\nb_bytes{x=\"y\"} 1\n",
            "# HELP c Which.\n# TYPE c untyped\nc 1\n# HELP d How many.\n# TYPE d counter\nd 1\n",
            "# HELP b_bytes_total All.\n# TYPE b_bytes_total counter\nb_bytes_total 1\n",
        );
        let wanted = concat!(
            "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds How long.\na_seconds_total 7\n",
            "# TYPE b_bytes gauge\n# UNIT b_bytes bytes\n# HELP b_bytes How much.\nb_bytes{x=\"y\"} 1\n",
            "# TYPE c unknown\n# HELP c Which.\nc 1\n# TYPE d unknown\n# HELP d How many.\nd 1\n",
            "# TYPE b_bytes_total unknown\n# HELP b_bytes_total All.\nb_bytes_total 1\n# EOF\n",
        );
        assert_eq!(from_text(text), wanted);
        let prometheus = b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert!(is_accepted(prometheus) && !is_accepted(b"*/*") && !is_accepted(b"text/plain"));
    }
}
