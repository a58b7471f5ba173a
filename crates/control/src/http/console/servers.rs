//! The servers: their state and the reason for it, their use, lag and pings.

use std::collections::HashMap;

use super::grid::{Grid, Head, prose, state};
use super::html::Html;
use super::layout::{ConsolePage, for_administrators};
use super::units::{bytes, grouped, microseconds};
use super::viewer::{Listing, Trouble, Viewer};
use crate::calendar::date_and_time;

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let pool = viewer.figures(POOL).await?;
    let status = viewer.figures("SHOW NARROWS STATUS").await?;
    let lag = by_server(&viewer.figures(LAG).await?);
    let mut contents = in_use(&pool, &reasons(&status), &lag);
    match viewer.administration(CONFIGURED).await? {
        Some(servers) => contents.push(&configured(&servers)),
        None => contents.push(&for_administrators("Weights and limits")),
    };
    contents.push(&checks(&status));
    Ok(ConsolePage { title: "Servers", path: "/console/servers", contents, refresh_s: 1, acts: false })
}

fn in_use(pool: &Listing, reasons: &Reasons, lag: &HashMap<String, String>) -> Html {
    let heads = [
        Head::text("Server"),
        Head::number("Hostgroup"),
        Head::text("State"),
        Head::text("Reason"),
        Head::number("Used"),
        Head::number("Free"),
        Head::number("Connects"),
        Head::number("Failed"),
        Head::number("Statements"),
        Head::number("Sent"),
        Head::number("Received"),
        Head::number("Ping"),
        Head::text("Lag"),
    ];
    let mut grid = Grid::new("Servers in use", heads);
    for row in &pool.rows {
        let name = format!("{}:{}", row.text(1), row.text(2));
        let reason = reasons.get(&format!("{}_{name}", row.text(0))).map_or("", |(_, reason)| reason);
        let lag = lag.get(&name).map_or("not known", String::as_str);
        let mut cells =
            vec![Html::text_of(&name), Html::text_of(&row.text(0)), state(&row.text(3)), prose(reason)];
        cells.extend((4..=8).map(|place| Html::text_of(&grouped(&row.text(place)))));
        let size = |place| bytes(row.text(place).parse().unwrap_or(0.0));
        cells.extend([size(9), size(10), microseconds(&row.text(11))].iter().map(|text| Html::text_of(text)));
        cells.push(prose(lag));
        grid.row(cells);
    }
    grid.into_html()
}

fn configured(servers: &Listing) -> Html {
    let heads = [
        Head::text("Server"),
        Head::number("Hostgroup"),
        Head::text("State"),
        Head::number("Weight"),
        Head::number("Most connections"),
        Head::number("Most lag in s"),
        Head::text("Comment"),
    ];
    let mut grid = Grid::new("Weights and limits", heads);
    for row in &servers.rows {
        let mut cells = vec![
            Html::text_of(&format!("{}:{}", row.text(1), row.text(2))),
            Html::text_of(&row.text(0)),
            state(&row.text(3)),
        ];
        cells.extend((4..=6).map(|place| Html::text_of(&row.text(place))));
        cells.push(prose(&row.text(7)));
        grid.row(cells);
    }
    grid.into_html()
}

/// States with their reasons, by hostgroup and server.
pub type Reasons = HashMap<String, (String, String)>;

/// Those in `SHOW NARROWS STATUS`.
pub fn reasons(status: &Listing) -> Reasons {
    let rows = status.rows.iter().filter_map(|row| {
        let (name, value) = (row.text(0), row.text(1));
        let server = name.strip_prefix("Narrows_server_")?;
        let (state, _) = value.split_once(';')?;
        let (state, reason) = state.split_once(" (")?;
        let reason = reason.strip_suffix(')').unwrap_or(reason);
        Some((server.to_owned(), (state.to_owned(), reason.to_owned())))
    });
    rows.collect()
}

/// The monitor's checks that fail.
fn checks(status: &Listing) -> Html {
    let mut grid = Grid::new("Checks of the monitor", [Head::text("Check"), Head::text("Result")]);
    for row in &status.rows {
        let (name, value) = (row.text(0), row.text(1));
        if let Some(rest) = name.strip_prefix("Narrows_monitor") {
            let check = if rest.is_empty() { "all" } else { rest.trim_start_matches('_') };
            grid.row([Html::text_of(check), prose(&with_date(&value))]);
        }
    }
    grid.into_html()
}

/// A result whose Unix time is written as a date in UTC.
fn with_date(result: &str) -> String {
    let date = || {
        let (before, rest) = result.split_once(" since ")?;
        let (seconds, after) = rest.split_once(' ')?;
        Some(format!("{before} since {} UTC {after}", date_and_time(seconds.parse().ok()?)))
    };
    date().unwrap_or_else(|| result.to_owned())
}

/// The latest lag of each server.
fn by_server(lag: &Listing) -> HashMap<String, String> {
    let rows = lag.rows.iter().map(|row| {
        let told = match (row.text(3).is_empty(), row.is_null(2)) {
            (false, _) => format!("check fails: {}", row.text(3)),
            (true, true) => "none: not a replica, or unknown".to_owned(),
            (true, false) => format!("{} s", row.text(2)),
        };
        (format!("{}:{}", row.text(0), row.text(1)), told)
    });
    rows.collect()
}

const POOL: &str = "SELECT hostgroup, srv_host, srv_port, status, ConnUsed, ConnFree, ConnOK, ConnERR, Queries, \
    Bytes_data_sent, Bytes_data_recv, Latency_us FROM stats_mysql_connection_pool ORDER BY hostgroup, srv_host, srv_port LIMIT 1000";

const LAG: &str = "SELECT hostname, port, repl_lag, error, MAX(time_start_us) FROM monitor.mysql_server_replication_lag_log \
    GROUP BY hostname, port LIMIT 1000";

const CONFIGURED: &str = "SELECT hostgroup_id, hostname, port, status, weight, max_connections, max_replication_lag, comment \
    FROM runtime_mysql_servers ORDER BY hostgroup_id, hostname, port LIMIT 1000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_results_are_dates() {
        let dated = with_date("fails since 1709210096 (3 times): refused since 1");
        assert_eq!(dated, "fails since 2024-02-29 12:34:56 UTC (3 times): refused since 1");
        for other in ["all checks succeed", "fails since now (1 time)", "x since 1"] {
            assert_eq!(with_date(other), other);
        }
    }
}
