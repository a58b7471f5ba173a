//! PLAN and APPLY: what another configuration would change, and exactly that change.

use std::path::Path;

use narrows_proxy::stats::{Fate, Forecast};

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::calendar::date_and_time;
use crate::runtime::{ChangePlan, ClientEffect, ServerEffect};
use crate::schema::Database;
use crate::store::{Answer, Refusal, Store};
use crate::versions::{ConfigDocument, VersionSource};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "NARROWS PLAN",
        who: Who::Admin,
        run: |parts, _| Some(of_memory(parts).unwrap_or_else(Reply::Refused)),
        doc: "What would change if all of memory were loaded to runtime and saved to disk: rows, statements that would go elsewhere, servers. Changes nothing.",
    },
    Verb {
        pattern: "NARROWS PLAN FILE <path>",
        who: Who::Admin,
        run: |parts, call| Some(of_file(parts, &unquoted(call.word(0)))),
        doc: "The same for a configuration file; sections and variables that it does not have stay as they are.",
    },
    Verb {
        pattern: "NARROWS PLAN CONFIGURATION <json...>",
        who: Who::Admin,
        run: |parts, call| Some(of_json(parts, &unquoted(call.word(0)))),
        doc: "The same for a configuration as JSON: what `narrows plan` sends.",
    },
    Verb {
        pattern: "NARROWS APPLY PLAN <token>",
        who: Who::Admin,
        run: |parts, call| Some(apply(parts, call, "")),
        doc: "Applies exactly that plan: in memory, on disk and for what runs, all of it or nothing. Refused if anything has changed since.",
    },
    Verb {
        pattern: "NARROWS APPLY PLAN <token> COMMENT <comment...>",
        who: Who::Admin,
        run: |parts, call| Some(apply(parts, call, &unquoted(call.word(1)))),
        doc: "The same, with a comment for the new version.",
    },
];

fn of_memory(parts: &mut Parts<'_>) -> Result<Reply, Refusal> {
    let memory = parts.store.document(Database::Main)?;
    planned(parts, &memory)
}

fn of_file(parts: &mut Parts<'_>, path: &str) -> Reply {
    // Reading a pipe or a device may take forever, and all administrators would wait.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Reply::error(format!("{path} is no regular file"));
    }
    match Store::document_to_plan(Path::new(path)) {
        Ok(document) => planned(parts, &document).unwrap_or_else(Reply::Refused),
        Err(error) => Reply::error(format!("{path}: {error}")),
    }
}

fn of_json(parts: &mut Parts<'_>, json: &str) -> Reply {
    match ConfigDocument::from_json(json.as_bytes()) {
        Ok((_, unknown)) if !unknown.is_empty() => {
            Reply::error(format!("this program does not have {}", unknown.join(", ")))
        }
        Ok((document, _)) => planned(parts, &document).unwrap_or_else(Reply::Refused),
        Err(error) => Reply::error(format!("the configuration cannot be read: {error}")),
    }
}

fn apply(parts: &mut Parts<'_>, call: &Call<'_>, comment: &str) -> Reply {
    if parts.store.is_read_only() {
        return Reply::error("admin-read_only is true: nothing can be changed");
    }
    let token = unquoted(call.word(0));
    let origin = call.origin(VersionSource::Apply, comment);
    let planned = |parts: &mut Parts<'_>| parts.runtime.planned(parts.store, &token).map_err(Reply::Refused);
    if let Some(reply) = super::fleet::change(parts, call, &origin, planned) {
        return reply;
    }
    let before = parts.store.version();
    match parts.runtime.apply_plan(parts.store, &token, &origin) {
        Ok(Answer::Done { warnings, .. }) => {
            let info = match parts.store.version() {
                version if version == before => format!("nothing has changed: version {version} runs"),
                version => format!("version {version} is in force"),
            };
            Reply::Answer(Answer::Done { affected: 0, info, warnings })
        }
        Ok(rows) => Reply::Answer(rows),
        Err(refusal) => Reply::Refused(refusal),
    }
}

fn planned(parts: &mut Parts<'_>, document: &ConfigDocument) -> Result<Reply, Refusal> {
    let plan = parts.runtime.plan(parts.store, document)?;
    let columns = ["part", "subject", "name", "what", "column", "before", "after", "count"];
    Ok(Reply::optional_rows(columns, rows(&plan)))
}

type Row = Vec<Option<String>>;

/// One thing that happens to a statement, as text; `None`: it does not.
type Facet = fn(&Fate) -> Option<String>;

/// The plan as rows: its token first, then what it changes, and then what follows from that.
fn rows(plan: &ChangePlan) -> Vec<Row> {
    let text = |text: &str| Some(text.to_owned());
    let mut rows = vec![
        vec![text("plan"), text(&plan.token), None, text("token"), None, None, None, None],
        vec![
            text("plan"),
            Some(plan.version.to_string()),
            None,
            text("version that runs"),
            None,
            None,
            None,
            None,
        ],
    ];
    let since = text(&date_and_time(plan.counted_since));
    rows.push(vec![text("plan"), since, None, text("statements are counted since"), None, None, None, None]);
    for (part, changes) in [("change", &plan.changes), ("lost edit", &plan.lost)] {
        let lines = changes.iter().flat_map(super::change_rows::lines);
        rows.extend(lines.map(|line| [vec![text(part)], line, vec![None]].concat()));
    }
    for warning in plan.warnings.iter().take(MOST_WARNINGS) {
        rows.push(vec![text("warning"), None, None, text(warning), None, None, None, None]);
    }
    rows.extend(plan.moved.iter().flat_map(statement));
    let server = |effect: &ServerEffect| {
        let used = Some(effect.used.to_string());
        vec![text("server"), text(&effect.server), None, text(&effect.what), None, None, None, used]
    };
    rows.extend(plan.servers.iter().map(server));
    let client = |effect: &ClientEffect| {
        let clients = Some(effect.clients.to_string());
        vec![text("client"), text(&effect.username), None, text(&effect.what), None, None, None, clients]
    };
    rows.extend(plan.clients.iter().map(client));
    rows
}

/// One row for each thing that would be different for a statement.
fn statement(moved: &Forecast) -> Vec<Row> {
    let text = |text: &str| Some(text.to_owned());
    let row = |what: &str, [before, after]: [Option<String>; 2]| {
        let of = format!("0x{:016X} {}@{}", moved.digest, moved.username, moved.schemaname);
        let count = Some(moved.count.to_string());
        vec![text("statement"), Some(of), text(&moved.digest_text), text(what), None, before, after, count]
    };
    let facets: [(&str, Facet); 7] = [
        ("hostgroup", |fate| fate.hostgroup.map(|hostgroup| hostgroup.to_string())),
        ("answer", |fate| fate.answer.clone()),
        ("cache_ttl", |fate| fate.cache_ttl.map(|ttl| ttl.to_string())),
        ("rewritten by rules", |fate| some_list(&fate.rewritten_by)),
        ("mirror_hostgroup", |fate| fate.mirror_hostgroup.map(|hostgroup| hostgroup.to_string())),
        ("timeout", |fate| fate.timeout.map(|ms| ms.to_string())),
        ("delay", |fate| fate.delay.map(|ms| ms.to_string())),
    ];
    let differs = facets.into_iter().map(|(what, of)| (what, [of(&moved.before), of(&moved.after)]));
    let mut rows: Vec<Row> = differs
        .filter(|(_, [before, after])| before != after)
        .map(|(what, values)| row(what, values))
        .collect();
    if let Some(rules) = some_list(&moved.depends_on) {
        rows.push(row("depends on the text or the client: rules", [None, Some(rules)]));
    }
    rows
}

fn some_list(ids: &[i64]) -> Option<String> {
    (!ids.is_empty()).then(|| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// How many warnings are shown; a completely wrong set of rules has thousands.
const MOST_WARNINGS: usize = 100;
