//! `narrows check`: what is wrong with configuration files, for people, for programs (`--json`) and as a gate (the exit
//! status). What a file means, and what is a mistake, is decided in `narrows_control::config_file`.

mod connect;
mod finding;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use narrows_control::config_file::{self, ExaminedFile};
use narrows_control::json_schema;

use crate::print_lines;
use finding::{Finding, FindingSeverity};

/// Which files to check, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct CheckArgs {
    /// narrows.toml or proxysql.cnf, of which the content decides; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    files: Vec<PathBuf>,
    /// Exit with status 1 if there are warnings, too
    #[arg(long)]
    strict: bool,
    /// Print everything as one JSON array, with an object for each error and warning
    #[arg(long)]
    json: bool,
    /// Try all servers and accounts of the files, with at most 5 seconds for each connection
    ///
    /// The account of the monitor makes the checks that the monitor would make, and each account in mysql_users whose
    /// password is in clear text logs in to a server of its hostgroup. What is not tried is a note.
    #[arg(long)]
    connect: bool,
    /// Print the JSON Schema of narrows.toml instead, for editors and generators
    #[arg(long, conflicts_with_all = ["files", "strict", "json", "connect"])]
    schema: bool,
}

const EXIT_STATUS: &str = "\
Exit status: 0 if every file can be started (with --connect: and everything that was tried works), 1 if there are errors
(with --strict: or warnings), 2 if the command line is wrong.";

/// The name of standard input, as an argument and in findings.
const STANDARD_INPUT: (&str, &str) = ("-", "<stdin>");

/// The exit status if the command line is wrong, as clap has it.
const WRONG_USAGE: u8 = 2;

/// Checks files, and prints what is wrong with them.
///
/// # Errors
/// If the findings cannot be printed.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.schema {
        print_lines(&json_schema::text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_standard_input = |file: &&PathBuf| file.as_os_str() == STANDARD_INPUT.0;
    if args.files.iter().filter(is_standard_input).count() > 1 {
        eprintln!("error: standard input can only be read once: `-` is given more than once");
        return Ok(ExitCode::from(WRONG_USAGE));
    }
    let checked: anyhow::Result<Vec<Checked>> =
        args.files.iter().map(|file| Checked::of(file, args.connect)).collect();
    let checked = checked?;
    let text = if args.json { json(&checked)? } else { checked.iter().map(Checked::text).collect() };
    print_lines(&text)?;
    let counts = |severity| checked.iter().any(|file| file.count(severity) > 0);
    let fails = counts(FindingSeverity::Error) || (args.strict && counts(FindingSeverity::Warning));
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All findings as one JSON document.
fn json(checked: &[Checked]) -> anyhow::Result<String> {
    let findings: Vec<&Finding> = checked.iter().flat_map(|file| &file.findings).collect();
    let text = serde_json::to_string_pretty(&findings).context("writing JSON")?;
    Ok(text + "\n")
}

/// A checked file.
struct Checked {
    /// Its name.
    name: String,
    /// Whether it can be started.
    is_valid: bool,
    findings: Vec<Finding>,
}

impl Checked {
    fn of(file: &Path, connects: bool) -> anyhow::Result<Checked> {
        let (name, ExaminedFile { diagnostics, loaded }) = examine(file);
        let mut findings: Vec<Finding> = diagnostics.iter().map(Finding::from).collect();
        match &loaded {
            Some((loaded, places)) if connects => findings.extend(connect::findings(loaded, places)?),
            None if connects => findings.push(connect::nothing_tried(&name)),
            _ => {}
        }
        Ok(Checked { name, is_valid: loaded.is_some(), findings })
    }

    fn count(&self, severity: FindingSeverity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// A line for each finding, then whether the file can be started.
    fn text(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        let outcome = if self.is_valid { "can be started" } else { "cannot be started" };
        let errors = crate::counted(self.count(FindingSeverity::Error), "error");
        let warnings = crate::counted(self.count(FindingSeverity::Warning), "warning");
        text.push_str(&format!("{}: {outcome}: {errors}, {warnings}\n", self.name));
        text
    }
}

/// Reads a file, or standard input; returns its name too.
fn examine(file: &Path) -> (String, ExaminedFile) {
    let (argument, name) = STANDARD_INPUT;
    if file.as_os_str() != argument {
        return (file.display().to_string(), config_file::examine_file(file));
    }
    let read = config_file::read_bounded(io::stdin().lock());
    (name.to_owned(), config_file::examine_bytes(Path::new(name), read))
}
