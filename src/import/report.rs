//! What is printed: for people, or as JSON.

use std::path::PathBuf;

use anyhow::Context;
use narrows_control::store::ImportReport;
use serde::Serialize;

use crate::init::screen::{Screen, shell_word};
use crate::{counted, print_lines};

/// What was written.
#[derive(Debug)]
pub enum Written {
    /// Nothing.
    Nothing,
    /// A narrows.db in this folder.
    Folder(PathBuf),
    /// This narrows.toml.
    File(PathBuf),
}

/// The report as a JSON object.
#[derive(Serialize)]
struct Json<'a> {
    /// The file or the address.
    source: &'a str,
    carried_over: Vec<Table>,
    not_carried_over: &'a [String],
    differs: &'a [String],
    without_effect: &'a [String],
    mistakes: &'a [String],
    /// The file that was written; `null` if none was.
    written: Option<String>,
}

#[derive(Serialize)]
struct Table {
    table: &'static str,
    rows: u64,
}

/// Prints the report.
///
/// # Errors
/// If it cannot be printed.
pub fn print(source: &str, report: &ImportReport, written: &Written, json: bool) -> anyhow::Result<()> {
    if json {
        return print_lines(&as_json(source, report, written)?);
    }
    let screen = Screen::new();
    screen.line(&format!("Carried over from {source}:"));
    if report.carried_over.is_empty() {
        screen.line("  nothing: it has no rows");
    }
    for (table, rows) in &report.carried_over {
        screen.line(&format!("  {table}: {}", counted(usize::try_from(*rows)?, "row")));
    }
    for (heading, sentences) in [
        ("Not carried over:", &report.left_out),
        ("Works differently in Narrows:", &report.differs),
        ("Carried over, and does nothing in Narrows:", &report.without_effect),
        ("Probably a mistake:", &report.mistakes),
    ] {
        if !sentences.is_empty() {
            screen.heading(heading);
        }
        sentences.iter().for_each(|sentence| screen.line(&format!("  {sentence}")));
    }
    screen.line("");
    match written {
        Written::Nothing => screen.line("Nothing was written."),
        Written::Folder(folder) => {
            let folder = folder.display().to_string();
            screen.line(&format!("{folder}/narrows.db was written. Start Narrows with it:"));
            screen.line(&format!("  narrows -f -D {}", shell_word(&folder)));
        }
        Written::File(file) => {
            let file = file.display().to_string();
            screen.line(&format!("{file} was written, readable for you only. Start Narrows with it:"));
            screen.line(&format!("  narrows -f -c {}", shell_word(&file)));
        }
    }
    Ok(())
}

fn as_json(source: &str, report: &ImportReport, written: &Written) -> anyhow::Result<String> {
    let json = Json {
        source,
        carried_over: report.carried_over.iter().map(|(table, rows)| Table { table, rows: *rows }).collect(),
        not_carried_over: &report.left_out,
        differs: &report.differs,
        without_effect: &report.without_effect,
        mistakes: &report.mistakes,
        written: match written {
            Written::Nothing => None,
            Written::Folder(folder) => Some(folder.join("narrows.db").display().to_string()),
            Written::File(file) => Some(file.display().to_string()),
        },
    };
    let text = serde_json::to_string_pretty(&json).context("writing JSON")?;
    // JSON escapes control characters up to 31 only, and terminals obey others too.
    let is_odd = |c: char| c.is_control() && c != '\n';
    let shown = |c: char| if is_odd(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Ok(text.chars().map(shown).collect::<String>() + "\n")
}
