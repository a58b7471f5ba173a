//! The query cache, and the errors that servers have returned.

use super::grid::{Grid, Head, code};
use super::html::Html;
use super::layout::ConsolePage;
use super::units::{bytes, grouped, share};
use super::viewer::{Listing, Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let (cache, errors) = (viewer.figures(CACHE).await?, viewer.figures(ERRORS).await?);
    let mut contents = Html::of("<h2>Query cache</h2>\n");
    contents.push(&cached(&cache)).raw("<h2>Errors of servers</h2>\n").push(&returned(&errors));
    contents.raw("<p class=\"remark\">The 200 latest, in UTC.</p>\n");
    Ok(ConsolePage {
        title: "Cache and errors",
        path: "/console/errors",
        contents,
        refresh_s: 1,
        acts: false,
    })
}

fn cached(cache: &Listing) -> Html {
    let figure = |name: &str| -> f64 {
        let row = cache.rows.iter().find(|row| row.text(0) == name);
        row.and_then(|row| row.text(1).parse().ok()).unwrap_or(0.0)
    };
    let count = |name: &str| grouped(&format!("{:.0}", figure(name)));
    let lookups = figure("Query_Cache_count_GET");
    let hits = match lookups > 0.0 {
        true => share(figure("Query_Cache_count_GET_OK") / lookups),
        false => "no lookups".to_owned(),
    };
    let facts = [
        ("Lookups", count("Query_Cache_count_GET")),
        ("Found", hits),
        ("Answers stored", count("Query_Cache_count_SET")),
        ("Answers in the cache", count("Query_Cache_Entries")),
        ("Answers removed", count("Query_Cache_Purged")),
        ("Memory", bytes(figure("Query_Cache_Memory_bytes"))),
        ("Read from it", bytes(figure("Query_Cache_bytes_OUT"))),
        ("Written to it", bytes(figure("Query_Cache_bytes_IN"))),
    ];
    let mut grid = Grid::new("Query cache since the start", [Head::text("Figure"), Head::number("Value")]);
    for (label, value) in &facts {
        grid.texts([*label, value.as_str()]);
    }
    grid.into_html()
}

fn returned(errors: &Listing) -> Html {
    let heads = [
        Head::text("Last seen"),
        Head::number("Error"),
        Head::number("Count"),
        Head::text("Server"),
        Head::number("Hostgroup"),
        Head::text("User"),
        Head::text("Schema"),
        Head::text("Client"),
        Head::text("First seen"),
        Head::text("Text"),
    ];
    let mut grid = Grid::new("Errors", heads);
    for row in &errors.rows {
        let mut cells: Vec<Html> = (0..=8).map(|place| Html::text_of(&row.text(place))).collect();
        cells.push(code(&row.text(9)));
        grid.row(cells);
    }
    grid.into_html()
}

const CACHE: &str =
    "SELECT Variable_Name, Variable_Value FROM stats_mysql_global WHERE Variable_Name LIKE 'Query_Cache%'";

const ERRORS: &str = "SELECT DATETIME(last_seen, 'unixepoch'), errno, count_star, hostname || ':' || port, hostgroup, username, \
    schemaname, client_address, DATETIME(first_seen, 'unixepoch'), SUBSTR(last_error, 1, 500) FROM stats_mysql_errors \
    ORDER BY last_seen DESC LIMIT 200";
