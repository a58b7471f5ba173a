//! The query rules that run, and how often each has matched.

use std::collections::HashMap;

use super::grid::{Grid, Head, code, prose};
use super::html::Html;
use super::layout::{ConsolePage, for_administrators};
use super::units::grouped;
use super::viewer::{Listing, Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let hits = viewer.figures(HITS).await?;
    let contents = match viewer.administration(RULES).await? {
        Some(rules) => with_hits(&rules, &hits),
        None => {
            let mut contents = only_hits(&hits);
            contents.push(&for_administrators("The rules themselves"));
            contents
        }
    };
    Ok(ConsolePage { title: "Rules", path: "/console/rules", contents, refresh_s: 5, acts: false })
}

fn with_hits(rules: &Listing, hits: &Listing) -> Html {
    let hits: HashMap<String, String> =
        hits.rows.iter().map(|row| (row.text(0).into_owned(), row.text(1).into_owned())).collect();
    let heads = [
        Head::number("Rule"),
        Head::number("Hits"),
        Head::text("Conditions"),
        Head::text("Actions"),
        Head::text("Apply"),
        Head::text("Comment"),
    ];
    let mut grid = Grid::new("Query rules in effect", heads);
    for row in &rules.rows {
        let named: Vec<(&str, String)> = rules
            .columns
            .iter()
            .zip(row.texts())
            .enumerate()
            .filter(|(place, _)| !row.is_null(*place))
            .map(|(_, (name, value))| (name.as_str(), value.into_owned()))
            .collect();
        let value = |wanted: &str| {
            named.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| value.as_str())
        };
        grid.row([
            Html::text_of(value("rule_id")),
            Html::text_of(&grouped(hits.get(value("rule_id")).map_or("0", String::as_str))),
            parts(&named, CONDITIONS),
            parts(&named, ACTIONS),
            Html::of(if value("apply") == "1" { "yes: no further rule" } else { "no" }),
            prose(value("comment")),
        ]);
    }
    grid.into_html()
}

/// The columns that say something, each with its value.
fn parts(named: &[(&str, String)], wanted: &[&str]) -> Html {
    let mut html = Html::default();
    for (name, value) in named {
        let says_nothing = value.is_empty() || ORDINARY.contains(&(*name, value.as_str()));
        if wanted.contains(name) && !says_nothing {
            html.raw("<span class=\"part\">").text(name).raw(" ").push(&code(value)).raw("</span> ");
        }
    }
    html
}

fn only_hits(hits: &Listing) -> Html {
    let mut grid = Grid::new("Hits of query rules", [Head::number("Rule"), Head::number("Hits")]);
    for row in &hits.rows {
        grid.row([Html::text_of(&row.text(0)), Html::text_of(&grouped(&row.text(1)))]);
    }
    grid.into_html()
}

const HITS: &str = "SELECT rule_id, hits FROM stats_mysql_query_rules ORDER BY rule_id LIMIT 1000";

const RULES: &str = "SELECT * FROM runtime_mysql_query_rules ORDER BY rule_id LIMIT 1000";

const CONDITIONS: &[&str] = &[
    "flagIN",
    "username",
    "schemaname",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "negate_match_pattern",
    "re_modifiers",
];

const ACTIONS: &[&str] = &[
    "active",
    "flagOUT",
    "replace_pattern",
    "destination_hostgroup",
    "cache_ttl",
    "cache_empty_result",
    "timeout",
    "retries",
    "delay",
    "next_query_flagIN",
    "mirror_flagOUT",
    "mirror_hostgroup",
    "error_msg",
    "OK_msg",
    "multiplex",
    "log",
];

/// Values that rules have unless something else is set.
const ORDINARY: &[(&str, &str)] =
    &[("active", "1"), ("flagIN", "0"), ("negate_match_pattern", "0"), ("re_modifiers", "CASELESS")];
