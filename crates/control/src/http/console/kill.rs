//! Ending a session: a page that asks, and the statement.

use super::fields::Fields;
use super::html::Html;
use super::layout::{ConsolePage, for_administrators, notice};
use super::viewer::{Trouble, Viewer};

/// The page that asks whether to end a session.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>, fields: &Fields) -> Result<ConsolePage, Trouble> {
    let contents = match (viewer.is_admin(), fields.value("session").parse::<u32>()) {
        (false, _) => for_administrators("Ending a session"),
        (true, Err(_)) => notice("The number of a session is missing."),
        (true, Ok(session)) => form(viewer, session).await?,
    };
    Ok(ConsolePage { title: "End a session", path: "/console/sessions", contents, refresh_s: 0, acts: true })
}

async fn form(viewer: &Viewer<'_>, session: u32) -> Result<Html, Trouble> {
    let statement = format!(
        "SELECT user, cli_host || ':' || cli_port, command, SUBSTR(info, 1, 500) FROM stats_mysql_processlist WHERE SessionID = {session}"
    );
    let found = viewer.figures(&statement).await?;
    let Some(row) = found.rows.first() else { return Ok(notice(&format!("There is no session {session}."))) };
    let mut html = Html::of("<dl class=\"facts\">\n");
    let labels = ["User", "Client", "Command", "Statement"];
    for (place, label) in labels.into_iter().enumerate() {
        html.raw("<div><dt>")
            .raw(label)
            .raw("</dt><dd><code>")
            .text(&row.text(place))
            .raw("</code></dd></div>\n");
    }
    html.raw("</dl>\n<form method=\"post\" action=\"/console/kill\">\n");
    html.raw("<input type=\"hidden\" name=\"session\" value=\"").text(&session.to_string()).raw("\">\n");
    html.raw("<p>Its transaction is rolled back.</p>\n<button>End session ").text(&session.to_string());
    html.raw("</button> <a href=\"/console/sessions\">Back to the sessions</a>\n</form>\n");
    Ok(html)
}

/// Ends the session of a form; returns the page to show then.
///
/// # Errors
/// If there is no such session, or Narrows does not answer.
pub async fn act(viewer: &Viewer<'_>, fields: &Fields) -> Result<String, Trouble> {
    let session = fields.value("session").parse::<u32>();
    let session = session.map_err(|_| Trouble::Refused("The number of a session is missing".to_owned()))?;
    viewer.administration(&format!("KILL {session}")).await?;
    Ok(format!("/console/sessions?killed={session}"))
}
