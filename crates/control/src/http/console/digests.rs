//! What statements cost, by digest.

use super::fields::{Fields, encoded};
use super::grid::{Grid, Head, code};
use super::html::Html;
use super::layout::ConsolePage;
use super::units::{grouped, microseconds};
use super::viewer::{ListedRow, Listing, Trouble, Viewer};

/// A column to sort by.
struct Key {
    /// As it stands in the link, and in the statement.
    column: &'static str,
    label: &'static str,
    is_number: bool,
}

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>, fields: &Fields) -> Result<ConsolePage, Trouble> {
    let (column, order) = sorting(fields);
    let statement = format!(
        "SELECT SUBSTR(digest_text, 1, {LONGEST_TEXT}), username, schemaname, hostgroup, count_star, sum_time, \
         sum_time / MAX(count_star, 1) AS average, min_time, max_time, sum_rows_sent, sum_rows_affected, \
         DATETIME(last_seen, 'unixepoch') AS seen, digest, client_address FROM stats_mysql_query_digest \
         ORDER BY {column} {order}, digest LIMIT 100"
    );
    let digests = viewer.figures(&statement).await?;
    let mut contents = grid(viewer, &digests, column, order);
    contents.raw("<p class=\"remark\">The first hundred. Times are in UTC. ");
    contents.raw(
        "A placeholder stands for each value, so a route by a value may differ from that of the link.</p>\n",
    );
    Ok(ConsolePage { title: "Digests", path: "/console/digests", contents, refresh_s: 5, acts: false })
}

/// The column and the order that are asked for: one of those that exist.
fn sorting(fields: &Fields) -> (&'static str, &'static str) {
    let wanted = fields.value("sort");
    let column = KEYS.iter().map(|key| key.column).find(|column| *column == wanted).unwrap_or("sum_time");
    (column, if fields.value("order") == "asc" { "ASC" } else { "DESC" })
}

fn grid(viewer: &Viewer<'_>, digests: &Listing, column: &str, order: &str) -> Html {
    let mut heads: Vec<Head> = KEYS.iter().map(|key| head(key, column, order)).collect();
    heads.push(Head::text("Client"));
    heads.push(Head::text("Digest"));
    if viewer.is_admin() {
        heads.insert(1, Head::text("Route"));
    }
    let mut grid = Grid::new("Statements by digest", heads);
    for row in &digests.rows {
        let mut cells = vec![code(&row.text(0))];
        if viewer.is_admin() {
            cells.push(route(row));
        }
        cells.extend((1..=3).map(|place| Html::text_of(&row.text(place))));
        cells.push(Html::text_of(&grouped(&row.text(4))));
        cells.extend((5..=8).map(|place| Html::text_of(&microseconds(&row.text(place)))));
        cells.extend((9..=10).map(|place| Html::text_of(&grouped(&row.text(place)))));
        cells.extend([Html::text_of(&row.text(11)), Html::text_of(&row.text(13)), code(&row.text(12))]);
        grid.row(cells);
    }
    grid.into_html()
}

/// A head that sorts by its column, or the other way round if that is done already.
fn head(key: &Key, column: &str, order: &str) -> Head {
    let is_sorted = key.column == column;
    let next = if is_sorted && order == "DESC" { "asc" } else { "desc" };
    let mut label = Html::of("<a href=\"/console/digests?sort=");
    label.raw(key.column).raw("&amp;order=").raw(next).raw("\">").raw(key.label).raw("</a>");
    let sorted = match (is_sorted, order) {
        (false, _) => None,
        (true, "ASC") => Some("ascending"),
        (true, _) => Some("descending"),
    };
    let head = if key.is_number { Head::number(key.label) } else { Head::text(key.label) };
    head.sorting(label, sorted)
}

/// A link to the way of the statement.
fn route(row: &ListedRow) -> Html {
    let statement = row.text(0);
    let mut html = Html::default();
    if statement.chars().count() >= LONGEST_TEXT {
        html.raw("too long");
        return html;
    }
    let [statement, user, schema] = [0, 1, 2].map(|place| encoded(&row.text(place)));
    html.raw("<a href=\"/console/route?statement=").text(&statement).raw("&amp;user=").text(&user);
    html.raw("&amp;schema=").text(&schema).raw("\" aria-label=\"Route of digest ").text(&row.text(12));
    html.raw("\">Route</a>");
    html
}

#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key { column: "digest_text", label: "Statement", is_number: false },
    Key { column: "username", label: "User", is_number: false },
    Key { column: "schemaname", label: "Schema", is_number: false },
    Key { column: "hostgroup", label: "Hostgroup", is_number: true },
    Key { column: "count_star", label: "Count", is_number: true },
    Key { column: "sum_time", label: "Total time", is_number: true },
    Key { column: "average", label: "Average", is_number: true },
    Key { column: "min_time", label: "Least", is_number: true },
    Key { column: "max_time", label: "Most", is_number: true },
    Key { column: "sum_rows_sent", label: "Rows sent", is_number: true },
    Key { column: "sum_rows_affected", label: "Rows affected", is_number: true },
    Key { column: "last_seen", label: "Last seen", is_number: false },
];

/// Characters of a statement: its link must fit into a request.
const LONGEST_TEXT: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_columns_that_exist_are_sorted_by() {
        let sorting = |query| sorting(&Fields::read(query));
        assert_eq!(sorting(""), ("sum_time", "DESC"));
        assert_eq!(sorting("sort=count_star&order=asc"), ("count_star", "ASC"));
        for hostile in ["sort=1;DROP", "sort=sum_time,(SELECT 1)&order=asc--", "sort=%00&order=%27"] {
            assert_eq!(sorting(hostile).0, "sum_time");
        }
        assert_eq!(sorting("order=asc--").1, "DESC");
    }
}
