//! Where a statement goes, and why: `EXPLAIN ROUTE`.

use super::fields::Fields;
use super::grid::{Grid, Head, code, prose};
use super::html::Html;
use super::layout::{ConsolePage, for_administrators, notice};
use super::statements::explain_route;
use super::viewer::{Listing, Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>, fields: &Fields) -> Result<ConsolePage, Trouble> {
    let contents = match viewer.is_admin() {
        true => asked(viewer, fields).await?,
        false => for_administrators("Where a statement goes"),
    };
    Ok(ConsolePage { title: "Route", path: "/console/route", contents, refresh_s: 0, acts: false })
}

async fn asked(viewer: &Viewer<'_>, fields: &Fields) -> Result<Html, Trouble> {
    let [statement, user, schema] = ["statement", "user", "schema"].map(|name| fields.value(name));
    let mut html = form(statement, user, schema);
    if statement.trim().is_empty() {
        return Ok(html);
    }
    let Some(question) = explain_route(statement, user, schema) else {
        html.push(&notice("A statement has no NUL characters."));
        return Ok(html);
    };
    match viewer.administration(&question).await {
        Ok(route) => html.push(&steps(&route.unwrap_or_default())),
        Err(Trouble::Refused(reason)) => html.push(&notice(&reason)),
        Err(trouble) => return Err(trouble),
    };
    Ok(html)
}

fn form(statement: &str, user: &str, schema: &str) -> Html {
    let mut html = Html::of("<form method=\"get\" action=\"/console/route\">\n");
    html.raw("<p><label for=\"statement\">Statement</label>\n");
    html.raw("<textarea id=\"statement\" name=\"statement\" rows=\"5\" maxlength=\"3000\" required>\n");
    html.text(statement).raw("</textarea></p>\n");
    html.raw("<p><label for=\"user\">User; may be empty if there is only one</label>\n");
    html.raw("<input id=\"user\" name=\"user\" maxlength=\"128\" autocomplete=\"off\" value=\"").text(user);
    html.raw("\"></p>\n<p><label for=\"schema\">Schema</label>\n");
    html.raw("<input id=\"schema\" name=\"schema\" maxlength=\"128\" autocomplete=\"off\" value=\"")
        .text(schema);
    html.raw("\"></p>\n<p><button>Explain</button> The statement is not run.</p>\n</form>\n");
    html
}

fn steps(route: &Listing) -> Html {
    let heads = [Head::number("Step"), Head::text("What"), Head::text("Value"), Head::text("Why")];
    let mut grid = Grid::new("The way of the statement", heads);
    for row in &route.rows {
        grid.row([
            Html::text_of(&row.text(0)),
            Html::text_of(&row.text(1)),
            code(&row.text(2)),
            prose(&row.text(3)),
        ]);
    }
    grid.into_html()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_in_the_form_again() {
        let html = form("</textarea><script>", "\"><b>", "'").into_string();
        assert!(html.contains("&lt;/textarea&gt;&lt;script&gt;"), "{html}");
        assert!(html.contains("value=\"&quot;&gt;&lt;b&gt;\"") && html.contains("value=\"&#39;\""), "{html}");
    }
}
