//! When servers have changed: their states over a day as a picture, and the changes as tables.

use super::grid::{Grid, Head, prose, state};
use super::history::look;
use super::html::Html;
use super::layout::ConsolePage;
use super::timeline;
use super::viewer::{Listing, Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let states = viewer.figures(STATES).await?;
    let checks = viewer.figures(CHECKS).await?;
    look(viewer.console).await;
    let mut contents = Html::of("<h2>States during the last day</h2>\n");
    contents.push(&timeline::chart(&states)).push(&changes(&states));
    contents.raw(
        "<p class=\"remark\">From samples, by default one a minute (admin-stats_mysql_connection_pool); ",
    );
    contents.raw("a state that was shorter may be missing. Times are in UTC.</p>\n");
    contents.raw("<h2>What the monitor saw</h2>\n").push(&seen(&checks)).push(&counts(viewer));
    Ok(ConsolePage { title: "Topology", path: "/console/topology", contents, refresh_s: 5, acts: false })
}

/// The changes of states, the latest first.
fn changes(states: &Listing) -> Html {
    let heads = [
        Head::text("Time"),
        Head::text("Server"),
        Head::number("Hostgroup"),
        Head::text("State"),
        Head::text("Before"),
    ];
    let mut grid = Grid::new("Changes of states, the latest first", heads);
    for row in states.rows.iter().rev().take(MOST_SHOWN) {
        let before = match row.is_null(6) {
            true => Html::of("first sample"),
            false => state(&row.text(6)),
        };
        grid.row([
            Html::text_of(&row.text(7)),
            Html::text_of(&format!("{}:{}", row.text(2), row.text(3))),
            Html::text_of(&row.text(1)),
            state(&row.text(4)),
            before,
        ]);
    }
    grid.into_html()
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
/// before, and the time as text.
const STATES: &str = "SELECT timestamp, hostgroup, srv_host, srv_port, status, last, before, DATETIME(timestamp, 'unixepoch') FROM \
    (SELECT timestamp, hostgroup, srv_host, srv_port, status, \
        MAX(timestamp) OVER (PARTITION BY hostgroup, srv_host, srv_port) AS last, \
        LAG(status) OVER (PARTITION BY hostgroup, srv_host, srv_port ORDER BY timestamp) AS before \
        FROM stats_history.history_stats_mysql_connection_pool WHERE timestamp > STRFTIME('%s', 'now') - 86400) \
    WHERE before IS NULL OR before <> status ORDER BY timestamp, hostgroup, srv_host, srv_port LIMIT 2000";

/// A row for each time that a check has another kind of result than before.
const CHECKS: &str = "SELECT DATETIME(at / 1000000, 'unixepoch'), hostname, port, kind, result FROM \
    (SELECT at, hostname, port, kind, result, LAG(result) OVER (PARTITION BY kind, hostname, port ORDER BY at) AS before FROM \
        (SELECT time_start_us AS at, hostname, port, 'read_only' AS kind, \
            CASE WHEN error IS NOT NULL THEN 'fails: ' || SUBSTR(error, 1, 300) WHEN read_only = 0 THEN 'may be written to' \
            ELSE 'read-only' END AS result FROM monitor.mysql_server_read_only_log \
        UNION ALL SELECT time_start_us, hostname, port, 'ping', \
            CASE WHEN ping_error IS NOT NULL THEN 'fails: ' || SUBSTR(ping_error, 1, 300) ELSE 'answers' END \
            FROM monitor.mysql_server_ping_log)) \
    WHERE before IS NULL OR before <> result ORDER BY at DESC LIMIT 200";

const MOST_SHOWN: usize = 200;
