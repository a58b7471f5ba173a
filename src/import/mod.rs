//! `narrows import`: the configuration of a ProxySQL as a narrows.db or a narrows.toml, with a report of what becomes of
//! it. The source is only read.

mod admin_port;
mod args;
mod report;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use narrows_control::config::diagnostic::Severity;
use narrows_control::config_file;
use narrows_control::store::{ImportReport, ImportSource, SourceTables, Store};

pub use args::ImportArgs;

use crate::init::destination::Destination;
use crate::init::remains;
use args::Target;
use report::Written;

/// Imports what `args` name.
///
/// # Errors
/// What prevents it; then nothing is written.
pub fn run(args: ImportArgs) -> anyhow::Result<()> {
    args.check()?;
    remains::removed_on_signals()?;
    let destination = args.output.clone().map(|path| Destination { path, replaces: args.force });
    destination.as_ref().map_or(Ok(()), Destination::check)?;
    let (source, json, tables) = (args.source_name(), args.json, tables(&args)?);
    let source_of = |path| ImportSource::File(path);
    let file = args.file.clone();
    let import = |folder: Option<&Path>| -> anyhow::Result<(Store, ImportReport)> {
        let source = match (&tables, &file) {
            (Some(tables), _) => ImportSource::Tables(tables),
            (None, Some(file)) => source_of(file.as_path()),
            (None, None) => bail!("there is nothing to import"),
        };
        Ok(Store::import(folder, source)?)
    };
    let (report, written) = match args.target()? {
        Target::Nothing => (import(None)?.1, Written::Nothing),
        Target::Folder(folder) => (import(Some(&folder))?.1, Written::Folder(folder)),
        Target::File => {
            let (mut store, mut report) = import(None)?;
            let (text, left_out) = store.toml_text()?;
            report.left_out.extend(left_out);
            let destination = destination.context("--output is missing")?;
            destination.write(&checked(&text)?)?;
            (report, Written::File(destination.path))
        }
    };
    report::print(&source, &report, &written, json)
}

/// The tables of the source; `None` if it is a configuration file.
fn tables(args: &ImportArgs) -> anyhow::Result<Option<SourceTables>> {
    if let Some(address) = &args.from {
        return admin_port::read(address, &args.account()?, args.layer()).map(Some);
    }
    let file = args.file.as_deref().context("name a file, or give --from")?;
    let cannot_be_used = || format!("{} cannot be used", file.display());
    if let Ok(found) = std::fs::metadata(file) {
        ensure!(found.is_file(), "{} is not a regular file", file.display());
    }
    if !is_database(file).with_context(cannot_be_used)? {
        return Ok(None);
    }
    SourceTables::of_database(file).map(Some).with_context(cannot_be_used)
}

/// Whether it is a database, by its first bytes; an empty file is what its name says.
fn is_database(file: &Path) -> std::io::Result<bool> {
    let mut first = Vec::new();
    File::open(file)?.take(SQLITE.len() as u64).read_to_end(&mut first)?;
    Ok(first == SQLITE || file.extension().is_some_and(|extension| extension == "db"))
}

/// What the file of a database begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The text of a narrows.toml, which Narrows can start with.
fn checked(text: &str) -> anyhow::Result<String> {
    let text = format!("{HEAD}{text}");
    let no_other_files = |_: &Path| Err("there are no other files".to_owned());
    if let Err(diagnostics) = config_file::read(Path::new("narrows.toml"), &text, &no_other_files) {
        let errors = diagnostics.iter().filter(|it| it.severity() == Severity::Error);
        let lines: Vec<String> = errors.map(|it| it.problem.to_string()).collect();
        bail!("Narrows could not be started with the file: {}", lines.join("; "));
    }
    Ok(text)
}

const HEAD: &str = "\
# Written by narrows import. It has passwords: keep it readable for its owner only.
# What is not here has the default of Narrows. Check it after a change with: narrows check FILE

";
