//! When servers have changed: their states over a day as a picture, and the changes as tables.

use std::collections::HashSet;

use super::grid::{Grid, Head, prose, state};
use super::html::Html;
use super::layout::ConsolePage;
use super::recent::look;
use super::servers::{Reasons, reasons};
use super::timeline;
use super::viewer::{ListedRow, Listing, Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let states = viewer.figures(STATES).await?;
    let checks = viewer.figures(CHECKS).await?;
    let now = reasons(&viewer.figures("SHOW NARROWS STATUS").await?);
    look(viewer.console).await;
    let mut contents = Html::of("<h2>States during the last day</h2>\n");
    contents.push(&timeline::chart(&states, &now)).push(&changes(&states, &checks, &now));
    contents.raw(
        "<p class=\"remark\">From samples, by default one a minute (admin-stats_mysql_connection_pool); ",
    );
    contents.raw("a state that was shorter may be missing. Times are in UTC.</p>\n");
    contents.raw("<h2>What the monitor saw</h2>\n").push(&seen(&checks)).push(&counts(viewer));
    Ok(ConsolePage { title: "Topology", path: "/console/topology", contents, refresh_s: 5, acts: false })
}

/// The changes of states, the latest first.
fn changes(states: &Listing, checks: &Listing, now: &Reasons) -> Html {
    let heads = [
        Head::text("Time"),
        Head::text("Server"),
        Head::number("Hostgroup"),
        Head::text("State"),
        Head::text("Before"),
        Head::text("Reason"),
    ];
    let mut told = HashSet::new();
    let mut grid = Grid::new("Changes of states, the latest first", heads);
    for row in states.rows.iter().rev().take(MOST_SHOWN) {
        let before = match row.is_null(6) {
            true => Html::of("first sample"),
            false => state(&row.text(6)),
        };
        let server = format!("{}:{}", row.text(2), row.text(3));
        let key = format!("{}_{server}", row.text(1));
        // Narrows says only why the present state is as it is.
        let is_latest = told.insert(key.clone());
        let known = now.get(&key).filter(|(state, _)| is_latest && *state == row.text(4));
        let reason = known.map_or_else(|| result_before(checks, row), |(_, reason)| reason.clone());
        grid.row([
            Html::text_of(&row.text(7)),
            Html::text_of(&server),
            Html::text_of(&row.text(1)),
            state(&row.text(4)),
            before,
            prose(&reason),
        ]);
    }
    grid.into_html()
}

/// What a check of the server found within the time in which it has changed; empty if nothing was found.
fn result_before(checks: &Listing, change: &ListedRow) -> String {
    let number = |row: &ListedRow, place| row.text(place).parse::<i64>().unwrap_or(0);
    let (until, since) = (number(change, 0), number(change, 8));
    let is_first = change.is_null(6);
    let found = checks.rows.iter().find(|row| {
        let at = number(row, 5);
        !is_first
            && row.text(1) == change.text(2)
            && row.text(2) == change.text(3)
            && at > since - 10
            && at <= until
    });
    found.map_or_else(String::new, |row| format!("{} {}", row.text(3), row.text(4)))
}

fn seen(checks: &Listing) -> Html {
    let heads = [Head::text("Time"), Head::text("Server"), Head::text("Check"), Head::text("Result")];
    let mut grid = Grid::new("Changes of results, the latest first", heads);
    for row in &checks.rows {
        let server = format!("{}:{}", row.text(1), row.text(2));
        grid.row([
            Html::text_of(&row.text(0)),
            Html::text_of(&server),
            Html::text_of(&row.text(3)),
            prose(&row.text(4)),
        ]);
    }
    grid.into_html()
}

fn counts(viewer: &Viewer<'_>) -> Html {
    let heads = [Head::text("Server"), Head::text("Change"), Head::number("Count")];
    let mut grid = Grid::new("Changes since the start", heads);
    for (server, change, count) in viewer.console.samples.last().map(|last| last.changes).unwrap_or_default()
    {
        grid.texts([server.as_str(), change.as_str(), count.as_str()]);
    }
    grid.into_html()
}

/// A row for each time that a state begins: when, hostgroup, server, port, state, time of the server's last sample, state
/// before, the time as text, and the time of the sample before.
const STATES: &str = "SELECT timestamp, hostgroup, srv_host, srv_port, status, last, before, DATETIME(timestamp, 'unixepoch'), earlier FROM \
    (SELECT timestamp, hostgroup, srv_host, srv_port, status, \
        MAX(timestamp) OVER (PARTITION BY hostgroup, srv_host, srv_port) AS last, \
        LAG(status) OVER (PARTITION BY hostgroup, srv_host, srv_port ORDER BY timestamp) AS before, \
        LAG(timestamp) OVER (PARTITION BY hostgroup, srv_host, srv_port ORDER BY timestamp) AS earlier \
        FROM stats_history.history_stats_mysql_connection_pool WHERE timestamp > STRFTIME('%s', 'now') - 86400) \
    WHERE before IS NULL OR before <> status ORDER BY timestamp, hostgroup, srv_host, srv_port LIMIT 2000";

/// A row for each time that a check has another kind of result than before.
const CHECKS: &str = "SELECT DATETIME(at / 1000000, 'unixepoch'), hostname, port, kind, result, at / 1000000 FROM \
    (SELECT at, hostname, port, kind, result, LAG(result) OVER (PARTITION BY kind, hostname, port ORDER BY at) AS before FROM \
        (SELECT time_start_us AS at, hostname, port, 'read_only' AS kind, \
            CASE WHEN error IS NOT NULL THEN 'fails: ' || SUBSTR(error, 1, 300) WHEN read_only = 0 THEN 'may be written to' \
            ELSE 'read-only' END AS result FROM monitor.mysql_server_read_only_log \
        UNION ALL SELECT time_start_us, hostname, port, 'ping', \
            CASE WHEN ping_error IS NOT NULL THEN 'fails: ' || SUBSTR(ping_error, 1, 300) ELSE 'answers' END \
            FROM monitor.mysql_server_ping_log)) \
    WHERE before IS NULL OR before <> result ORDER BY at DESC LIMIT 200";

const MOST_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_within_the_change_is_its_reason() {
        let row = |cells: &[&str]| ListedRow::of(cells.iter().map(|cell| Some((*cell).to_owned())).collect());
        let checks = |at: &str| {
            let row = row(&["", "a", "3306", "ping", "fails: refused", at]);
            Listing { columns: Vec::new(), rows: vec![row] }
        };
        let change = row(&["160", "0", "a", "3306", "SHUNNED", "160", "ONLINE", "", "100"]);
        assert_eq!(result_before(&checks("130"), &change), "ping fails: refused");
        assert_eq!(result_before(&checks("161"), &change), "");
        assert_eq!(result_before(&checks("60"), &change), "");
        let other = row(&["160", "0", "b", "3306", "SHUNNED", "160", "ONLINE", "", "100"]);
        assert_eq!(result_before(&checks("130"), &other), "");
    }
}
