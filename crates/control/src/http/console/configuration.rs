//! What differs between the layers of the configuration: memory, runtime and disk. No passwords are shown.

use super::difference::{Compared, Other, pairs, statement};
use super::grid::{Grid, Head, code};
use super::html::Html;
use super::layout::{ConsolePage, for_administrators, notice};
use super::viewer::{Trouble, Viewer};

/// The page.
///
/// # Errors
/// If Narrows does not answer.
pub async fn page(viewer: &Viewer<'_>) -> Result<ConsolePage, Trouble> {
    let mut contents = Html::default();
    let refresh_s = match viewer.is_admin() {
        true => {
            contents = layers(viewer).await?;
            10
        }
        false => {
            contents.push(&for_administrators("The configuration"));
            0
        }
    };
    Ok(ConsolePage {
        title: "Configuration",
        path: "/console/configuration",
        contents,
        refresh_s,
        acts: false,
    })
}

async fn layers(viewer: &Viewer<'_>) -> Result<Html, Trouble> {
    let mut html = Html::of(
        "<p>Edits of tables have no effect until LOAD … TO RUNTIME, and are lost at the next start without SAVE … TO DISK.</p>\n",
    );
    for compared in TABLES {
        html.raw("<h2>").raw(compared.label).raw("</h2>\n");
        html.push(&difference(viewer, compared, Other::Runtime).await?);
        html.push(&difference(viewer, compared, Other::Disk).await?);
    }
    html.raw("<p class=\"remark\">At most a hundred rows each. The monitor moves servers between hostgroups at runtime, ");
    html.raw("and changes their states; passwords are compared and not shown.</p>\n");
    Ok(html)
}

async fn difference(viewer: &Viewer<'_>, compared: &Compared, other: Other) -> Result<Html, Trouble> {
    let caption = format!("{}: memory and {}", compared.label, other.name());
    let found = match viewer.administration(&statement(compared, other)).await {
        Ok(found) => found.unwrap_or_default(),
        Err(Trouble::Refused(reason)) => return Ok(notice(&format!("{caption}: {reason}"))),
        Err(trouble) => return Err(trouble),
    };
    let mut html = Html::default();
    if found.rows.is_empty() {
        html.raw("<p class=\"none\"><span class=\"good\" aria-hidden=\"true\">● </span>").text(&caption);
        html.raw(" are the same.</p>\n");
        return Ok(html);
    }
    let there = match other {
        Other::Runtime => Head::text("In the runtime"),
        Other::Disk => Head::text("On disk"),
    };
    let heads = [Head::text("Row"), Head::text("Column"), Head::text("In memory"), there];
    let mut grid = Grid::new(caption, heads);
    for pair in pairs(&found) {
        grid.row([
            Html::text_of(&pair.row),
            Html::text_of(&pair.column),
            code(&pair.in_memory),
            code(&pair.in_other),
        ]);
    }
    let command = match other {
        Other::Runtime => format!("LOAD {} TO RUNTIME", compared.module),
        Other::Disk => format!("SAVE {} TO DISK", compared.module),
    };
    html.push(&grid.into_html());
    html.raw("<p class=\"remark\">").push(&code(&command)).raw(" makes them the same.</p>\n");
    Ok(html)
}

/// What is compared.
const TABLES: &[Compared] = &[
    Compared {
        label: "Servers",
        table: "mysql_servers",
        key: "hostgroup_id, hostname, port",
        columns: "status, weight, compression, max_connections, max_replication_lag, use_ssl, max_latency_ms, comment",
        rows: "1",
        runs: "1",
        module: "MYSQL SERVERS",
    },
    Compared {
        label: "Users",
        table: "mysql_users",
        key: "username",
        columns: "password, active, use_ssl, default_hostgroup, default_schema, transaction_persistent, fast_forward, max_connections, attributes, comment",
        rows: "1",
        runs: "active = 1",
        module: "MYSQL USERS",
    },
    Compared {
        label: "Query rules",
        table: "mysql_query_rules",
        key: "rule_id",
        columns: "active, username, schemaname, flagIN, client_addr, digest, match_digest, match_pattern, negate_match_pattern, re_modifiers, flagOUT, replace_pattern, destination_hostgroup, cache_ttl, timeout, retries, delay, mirror_hostgroup, error_msg, OK_msg, multiplex, log, apply, attributes, comment",
        rows: "1",
        runs: "active <> 0",
        module: "MYSQL QUERY RULES",
    },
    Compared {
        label: "Variables of the data plane",
        table: "global_variables",
        key: "variable_name",
        columns: "variable_value",
        rows: "variable_name LIKE 'mysql-%'",
        runs: "variable_name LIKE 'mysql-%'",
        module: "MYSQL VARIABLES",
    },
    Compared {
        label: "Variables of the admin interface",
        table: "global_variables",
        key: "variable_name",
        columns: "variable_value",
        rows: "variable_name LIKE 'admin-%'",
        runs: "variable_name LIKE 'admin-%'",
        module: "ADMIN VARIABLES",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_asked_for() {
        for compared in TABLES {
            for other in [Other::Runtime, Other::Disk] {
                let statement = statement(compared, other);
                let shown = statement.split(" FROM (SELECT").next().unwrap();
                assert!(!shown.contains("SUBSTR(COALESCE(password"), "{shown}");
            }
        }
    }
}
