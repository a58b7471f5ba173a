//! Versions of the configuration: what has changed, what is not loaded or not saved, and the way back.

use super::change_rows::lines;
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::unquoted;
use crate::calendar::date_and_time;
use crate::runtime::Strictness;
use crate::store::{Answer, Refusal, VersionRow};
use crate::versions::{ConfigDocument, RowChange, VersionSource, changes};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "SHOW NARROWS CHANGES",
        who: Who::Admin,
        run: |parts, _| Some(history(parts)),
        doc: "The latest versions of the configuration: who has made each, and what is different.",
    },
    Verb {
        pattern: "SHOW NARROWS CHANGES OF VERSION <version>",
        who: Who::Admin,
        run: |parts, call| Some(of_version(parts, call.word(0))),
        doc: "What one version has changed, column by column.",
    },
    Verb {
        pattern: "SHOW NARROWS CHANGES FROM <version> TO <version>",
        who: Who::Admin,
        run: |parts, call| Some(between(parts, call.word(0), call.word(1))),
        doc: "How two versions differ, column by column.",
    },
    Verb {
        pattern: "SHOW NARROWS DRIFT",
        who: Who::Admin,
        run: |parts, _| Some(drift(parts).unwrap_or_else(Reply::Refused)),
        doc: "Rows in memory that were never loaded to runtime, and rows that run and were never saved to disk.",
    },
    Verb {
        pattern: "NARROWS ROLLBACK TO <version>",
        who: Who::Admin,
        run: |parts, call| Some(rollback(parts, call, "")),
        doc: "Makes an earlier version the configuration: in memory, on disk and for what runs, all of it or nothing. Edits in memory are lost.",
    },
    Verb {
        pattern: "NARROWS ROLLBACK TO <version> COMMENT <comment...>",
        who: Who::Admin,
        run: |parts, call| Some(rollback(parts, call, &unquoted(call.word(1)))),
        doc: "The same, with a comment for the new version.",
    },
];

fn history(parts: &mut Parts<'_>) -> Reply {
    let columns =
        ["version", "time", "username", "client", "source", "command", "comment", "changes", "is_current"];
    let current = parts.store.version();
    let rows = match parts.store.latest_versions(MOST_SHOWN) {
        Ok(rows) => rows,
        Err(refusal) => return Reply::Refused(refusal),
    };
    let row = |row: VersionRow| {
        vec![
            row.version.to_string(),
            date_and_time(row.epoch),
            row.username,
            row.client,
            row.source,
            row.command,
            row.comment,
            row.changes,
            i32::from(row.version == current).to_string(),
        ]
    };
    Reply::rows(columns, rows.into_iter().map(row).collect())
}

fn of_version(parts: &mut Parts<'_>, version: &str) -> Reply {
    let previous = version.parse::<i64>().map_or(String::new(), |version| (version - 1).to_string());
    match (document(parts, &previous), document(parts, version)) {
        (_, Err(reply)) => reply,
        (Ok((_, before)), Ok((_, after))) => shown(&changes(&before, &after)),
        (Err(_), Ok((1, after))) => shown(&changes(&ConfigDocument::of_defaults(), &after)),
        (Err(_), Ok((number, _))) => Reply::error(format!(
            "version {}, before version {number}, is not kept any more: SHOW NARROWS CHANGES FROM .. TO .. compares two that are",
            number - 1
        )),
    }
}

fn between(parts: &mut Parts<'_>, from: &str, to: &str) -> Reply {
    match (document(parts, from), document(parts, to)) {
        (Ok((_, before)), Ok((_, after))) => shown(&changes(&before, &after)),
        (Err(reply), _) | (_, Err(reply)) => reply,
    }
}

/// What a version holds, and its number.
fn document(parts: &mut Parts<'_>, version: &str) -> Result<(i64, ConfigDocument), Reply> {
    let number: i64 =
        version.parse().map_err(|_| Reply::error(format!("{version} is no version: expected a number")))?;
    match parts.store.version_document(number).map_err(Reply::Refused)? {
        Some((document, unknown)) => {
            for name in unknown {
                tracing::warn!(version = number, name, "this program does not have it, and leaves it out");
            }
            Ok((number, document))
        }
        None => Err(Reply::error(format!(
            "there is no version {number}: SHOW NARROWS CHANGES has those that are kept"
        ))),
    }
}

/// Changes as rows: one for each column that differs.
fn shown(changes: &[RowChange]) -> Reply {
    let columns = ["table", "key", "change", "column", "before", "after"];
    Reply::optional_rows(columns, changes.iter().flat_map(lines).collect())
}

/// What is in memory but does not run, and what runs but is not on disk.
fn drift(parts: &mut Parts<'_>) -> Result<Reply, Refusal> {
    let columns = ["drift", "table", "key", "change", "column", "before", "after"];
    let drift = parts.store.drift()?;
    let kinds = [("not loaded", &drift.not_loaded), ("not saved", &drift.not_saved)];
    let rows = kinds.iter().flat_map(|(kind, changes)| {
        let all = changes.iter().flat_map(lines);
        all.map(|line| [vec![Some((*kind).to_owned())], line].concat())
    });
    Ok(Reply::optional_rows(columns, rows.collect()))
}

fn rollback(parts: &mut Parts<'_>, call: &Call<'_>, comment: &str) -> Reply {
    if parts.store.is_read_only() {
        return Reply::error("admin-read_only is true: nothing can be changed");
    }
    let origin = call.origin(VersionSource::Rollback, comment);
    let wanted = |parts: &mut Parts<'_>| document(parts, call.word(0)).map(|(_, document)| document);
    if let Some(reply) = super::fleet::change(parts, call, &origin, wanted) {
        return reply;
    }
    let (version, document) = match document(parts, call.word(0)) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    // A version that once ran is applied as it was then.
    match parts.runtime.apply(parts.store, &document, (&origin, Strictness::LeaveOut)) {
        Ok(Answer::Done { warnings, .. }) => {
            let now = parts.store.version();
            let info = format!("version {version} is in force again, as version {now}");
            Reply::Answer(Answer::Done { affected: 0, info, warnings })
        }
        Ok(rows) => Reply::Answer(rows),
        Err(refusal) => Reply::Refused(refusal),
    }
}

/// How many versions SHOW NARROWS CHANGES has.
const MOST_SHOWN: u32 = 100;
