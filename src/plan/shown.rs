//! A plan as people and programs read it. Its rows are those of `NARROWS PLAN`.

use std::fmt::Write;

use narrows_proxy::backend::Table;
use serde_json::{Map, Value as Json};

/// A row: part, subject, name, what, column, before, after, count.
type Row = Vec<Option<String>>;

fn cell(row: &Row, place: usize) -> &str {
    row.get(place).and_then(Option::as_deref).unwrap_or_default()
}

fn of_part<'a>(plan: &'a Table, part: &'a str) -> impl Iterator<Item = &'a Row> {
    plan.rows.iter().filter(move |row| cell(row, 0) == part)
}

/// The token of a plan; `None`: it is none.
pub fn token(plan: &Table) -> Option<String> {
    let row = of_part(plan, "plan").find(|row| cell(row, 3) == "token")?;
    Some(cell(row, 1).to_owned())
}

/// Since when its statements are counted.
fn counted_since(plan: &Table) -> &str {
    of_part(plan, "plan").find(|row| cell(row, 3).starts_with("statements")).map_or("", |row| cell(row, 1))
}

/// Whether applying it changes anything: what runs, or edits in memory.
pub fn changes_anything(plan: &Table) -> bool {
    ["change", "lost edit"].into_iter().any(|part| of_part(plan, part).next().is_some())
}

/// The plan for programs: an array of objects for each part, with the columns as keys.
pub fn json(plan: &Table) -> String {
    let mut parts: Map<String, Json> = Map::new();
    for row in &plan.rows {
        let cells = plan.columns.iter().zip(row).skip(1);
        let object: Map<String, Json> =
            cells.filter_map(|(name, cell)| Some((name.clone(), Json::String(cell.clone()?)))).collect();
        let part = parts.entry(cell(row, 0).to_owned()).or_insert_with(|| Json::Array(Vec::new()));
        if let Json::Array(rows) = part {
            rows.push(Json::Object(object));
        }
    }
    format!("{}\n", Json::Object(parts))
}

/// The plan for people.
pub fn text(plan: &Table) -> String {
    let mut text = String::new();
    for (part, title) in PARTS {
        let rows: Vec<&Row> = of_part(plan, part).collect();
        if rows.is_empty() {
            continue;
        }
        match part {
            "statement" => writeln!(text, "{title} (counted since {})", counted_since(plan)),
            _ => writeln!(text, "{title}"),
        }
        .expect("writing to a String cannot fail");
        let mut last = None;
        for row in rows {
            // One line for a row, and one for each of its columns.
            let this = Some(head(part, row));
            if this != last {
                let _ = writeln!(text, "{}", this.as_deref().unwrap_or_default());
                last = this;
            }
            if let Some(line) = detail(part, row) {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    if text.is_empty() {
        return "Nothing would change.\n".to_owned();
    }
    text
}

fn head(part: &str, row: &Row) -> String {
    let (subject, name, what) = (cell(row, 1), cell(row, 2), cell(row, 3));
    match part {
        "statement" => format!("  {subject} ({} times): {name}", cell(row, 7)),
        "warning" => format!("  {what}"),
        "server" => format!("  {subject}, {} connections in use: {what}", cell(row, 7)),
        "client" => format!("  {subject}, {} clients logged in: {what}", cell(row, 7)),
        _ if subject == "global_variables" => format!("  {} {name}", sign(what)),
        _ => format!("  {} {subject} {name}", sign(what)),
    }
}

fn sign(what: &str) -> char {
    match what {
        "added" => '+',
        "removed" => '-',
        _ => '~',
    }
}

fn detail(part: &str, row: &Row) -> Option<String> {
    let value = |place: usize| row.get(place).and_then(Option::as_deref).unwrap_or("NULL");
    match part {
        "statement" if cell(row, 3).starts_with("depends") => Some(format!("{} {}", cell(row, 3), value(6))),
        "statement" => Some(format!("{}: {} -> {}", cell(row, 3), value(5), value(6))),
        "warning" | "server" | "client" => None,
        _ if cell(row, 4).is_empty() => None,
        _ => Some(format!("{}: {} -> {}", cell(row, 4), value(5), value(6))),
    }
}

/// The parts that people read, with their titles.
const PARTS: [(&str, &str); 6] = [
    ("change", "Changes to what runs:"),
    ("lost edit", "Edits in memory that were never loaded and would be lost:"),
    ("warning", "Warnings:"),
    ("statement", "Statements that would be handled differently:"),
    ("server", "Servers in use:"),
    ("client", "Accounts in use:"),
];
