//! The clients' sessions: all, those that wait, and those that keep a connection.

use super::fields::Fields;
use super::grid::{Grid, Head, code, prose};
use super::html::Html;
use super::layout::{ConsolePage, notice};
use super::recent::look;
use super::statements::sql_text;
use super::units::grouped;
use super::viewer::{Listing, Trouble, Viewer};
use super::waits;

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>, fields: &Fields) -> Result<ConsolePage, Trouble> {
    let wanted = fields.value("q");
    let Some(statement) = question(wanted) else {
        let contents = notice("A NUL character is in no session.");
        return Ok(ConsolePage { title: "Sessions", path: PATH, contents, refresh_s: 0, acts: false });
    };
    let mut contents = Html::default();
    if let Ok(session) = fields.value("killed").parse::<u32>() {
        contents.push(&notice(&format!("Session {session} was ended.")));
    }
    contents.push(&filter(wanted));
    let (waiting, sessions) = (viewer.figures(WAITING).await?, viewer.figures(&statement).await?);
    contents.push(&grid(viewer, "Waiting for a connection", &waiting));
    look(viewer.console).await;
    contents.push(&waits::grid(viewer));
    contents.push(&pins(&viewer.figures("SHOW PINS").await?));
    contents.push(&grid(viewer, "Sessions", &sessions));
    contents.raw("<p class=\"remark\">At most 200 sessions, the longest statements first.</p>\n");
    Ok(ConsolePage { title: "Sessions", path: PATH, contents, refresh_s: 1, acts: false })
}

/// The sessions with that text in one of their columns; `None` if it has a NUL.
fn question(wanted: &str) -> Option<String> {
    let condition = match wanted {
        "" => "1".to_owned(),
        wanted => format!("INSTR(LOWER({SEARCHED}), LOWER({})) > 0", sql_text(wanted)?),
    };
    Some(format!(
        "SELECT {COLUMNS} FROM stats_mysql_processlist WHERE {condition} ORDER BY {ORDER} LIMIT 200"
    ))
}

fn filter(wanted: &str) -> Html {
    let mut html = Html::of("<form method=\"get\" action=\"/console/sessions\" role=\"search\">\n");
    html.raw("<label for=\"q\">User, schema, address, server, command or statement has</label>\n");
    html.raw("<input id=\"q\" name=\"q\" type=\"search\" maxlength=\"200\" value=\"")
        .text(wanted)
        .raw("\">\n");
    html.raw("<button>Show</button>\n</form>\n");
    html
}

fn grid(viewer: &Viewer<'_>, caption: &str, sessions: &Listing) -> Html {
    let mut heads = vec![
        Head::number("Session"),
        Head::text("User"),
        Head::text("Schema"),
        Head::text("Client"),
        Head::number("Hostgroup"),
        Head::text("Server"),
        Head::text("Command"),
        Head::number("Time in ms"),
        Head::text("Statement"),
    ];
    if viewer.is_admin() {
        heads.push(Head::text("Action"));
    }
    let mut grid = Grid::new(caption, heads);
    for row in &sessions.rows {
        let mut cells: Vec<Html> = (0..=6).map(|place| Html::text_of(&row.text(place))).collect();
        cells.push(Html::text_of(&grouped(&row.text(7))));
        cells.extend([code(&row.text(8)), end(&row.text(0))]);
        grid.row(cells);
    }
    grid.into_html()
}

/// A link to the page that asks whether to end a session.
fn end(session: &str) -> Html {
    let mut html = Html::of("<a href=\"/console/kill?session=");
    html.text(session).raw("\" aria-label=\"End session ").text(session).raw("\">End…</a>");
    html
}

fn pins(pins: &Listing) -> Html {
    let heads = [
        Head::number("Session"),
        Head::text("User"),
        Head::text("Client"),
        Head::text("Server"),
        Head::text("Reason"),
        Head::number("Age in ms"),
        Head::text("Statement"),
    ];
    let mut grid = Grid::new("Keeping a connection", heads);
    for row in pins.rows.iter().take(200) {
        grid.row([
            Html::text_of(&row.text(0)),
            Html::text_of(&row.text(1)),
            Html::text_of(&row.text(3)),
            Html::text_of(&format!("{}:{}", row.text(5), row.text(6))),
            prose(&row.text(7)),
            Html::text_of(&grouped(&row.text(8))),
            code(&row.text(10)),
        ]);
    }
    grid.into_html()
}

const PATH: &str = "/console/sessions";

const COLUMNS: &str = "SessionID, user, db, cli_host || ':' || cli_port, hostgroup, srv_host || ':' || srv_port, command, \
    time_ms, SUBSTR(info, 1, 500)";

/// The sessions that do something first.
const ORDER: &str = "command = 'Sleep', time_ms DESC, SessionID";

const SEARCHED: &str = "SessionID || ' ' || user || ' ' || db || ' ' || cli_host || ':' || cli_port || ' ' || \
    COALESCE(srv_host || ':' || srv_port, '') || ' ' || command || ' ' || COALESCE(SUBSTR(info, 1, 2000), '')";

const WAITING: &str = "SELECT SessionID, user, db, cli_host || ':' || cli_port, hostgroup, srv_host || ':' || srv_port, command, \
    time_ms, SUBSTR(info, 1, 500) FROM stats_mysql_processlist WHERE command = 'Connect' ORDER BY time_ms DESC LIMIT 100";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::statement::names;

    #[test]
    fn a_text_to_search_for_stays_one() {
        let plain = names(&question("x").unwrap());
        for hostile in
            ["' OR 1=1 --", "\\' UNION SELECT 1", "x'; DROP TABLE a; --", "stats_mysql_errors_reset", "%"]
        {
            assert_eq!(names(&question(hostile).unwrap()), plain, "{hostile}");
        }
        assert!(question("a\0").is_none());
        assert!(!filter("\"><script>").into_string().contains("<script"));
    }
}
