//! Files and folders that a configuration names, as `narrows check` finds them: a start reports them when it opens them.
//!
//! They are looked for by the user who runs the check, on the machine where it runs.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use narrows_proxy::snapshot::{SslParamsRow, UserRow};

use super::sections::Sections;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::form;
use crate::config::schema::Placed;
use crate::config::tree::{Document, NodeValue, Position};
use crate::scheduler::why_not_run;
use crate::secrets::{self, SecretPlace};
use crate::tls;
use crate::variables::{Special, VARIABLES};

/// Reports files that are not there or cannot be read, and folders in which nothing can be written.
pub(super) fn check(document: &Document, sections: &Sections, report: &mut Problems) {
    at_the_top(document, sections, report);
    written_by_variables(sections, report);
    programs(document, sections, report);
    passwords(sections, report);
    for (row, reason) in tls::faults_toward_servers(&sections.variables, &rows(&sections.ssl_params)) {
        match row.and_then(|row| sections.ssl_params.get(row)) {
            Some(placed) => of_row(placed, reason, report),
            None => of_variables(sections, reason, report),
        }
    }
}

fn rows(placed: &[Placed<SslParamsRow>]) -> Vec<SslParamsRow> {
    placed.iter().map(|placed| placed.row.clone()).collect()
}

/// The data folder, and the folders of the files of keys at the top.
fn at_the_top(document: &Document, sections: &Sections, report: &mut Problems) {
    let at = |name: &str| {
        let entry = document.root.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
        entry.map_or(Position::default(), |entry| entry.node.at)
    };
    let top = &sections.bootstrap;
    let datadir = top.datadir.as_deref();
    if let Some(why) = datadir.and_then(why_no_folder) {
        report.add(at("datadir"), problem("datadir", datadir.unwrap_or(Path::new("")), why));
    }
    for (name, path) in [("errorlog", &top.errorlog), ("pidfile", &top.pidfile)] {
        let Some(path) = path else { continue };
        // The data folder has been reported, or is not known: the command line names it, or it is created.
        if path.is_absolute()
            && let Some(why) = why_not_written(path)
        {
            report.add(at(name), problem(name, path, why));
        } else if let Some(datadir) = datadir.filter(|datadir| datadir.is_dir())
            && let Some(why) = why_not_written(&datadir.join(path))
        {
            report.add(at(name), problem(name, &datadir.join(path), why));
        }
    }
}

/// Variables that are the beginnings of the names of files, or a file.
fn written_by_variables(sections: &Sections, report: &mut Problems) {
    let is_prefix = |special| special == Some(Special::FilePrefix);
    let prefixes = VARIABLES.iter().filter(|variable| is_prefix(variable.special)).map(|it| it.name);
    for name in prefixes.chain(["admin-ssl_keylog_file"]) {
        let text = sections.variables.value(name).map(ToString::to_string).unwrap_or_default();
        let path = Path::new(&text);
        // Relative ones are in the data folder.
        if path.is_absolute()
            && let Some(why) = why_not_written(path)
        {
            let at = sections.variable_at(name).unwrap_or_default();
            report.add(at, problem(name, path, why));
        }
    }
}

/// Passwords that are kept elsewhere, and are not found there. No program is run.
fn passwords(sections: &Sections, report: &mut Problems) {
    let of_users = |placed: &Placed<UserRow>| {
        let at = placed.at("password");
        secrets::in_users(std::slice::from_ref(&placed.row)).into_iter().map(move |place| (at, place))
    };
    let of_variables = secrets::in_variables(&sections.variables, "").into_iter().map(|place| {
        let name = place.name.split(' ').next().unwrap_or_default();
        (sections.variable_at(name).unwrap_or_default(), place)
    });
    let of_fleet = sections.fleet.iter().map(|placed| {
        let text = placed.row.password.clone();
        (placed.at("password"), SecretPlace { name: "fleet.password".to_owned(), text })
    });
    for (at, place) in sections.users.iter().flat_map(of_users).chain(of_variables).chain(of_fleet) {
        if let Some(reason) = secrets::obstacle(&place) {
            report.add(at, Problem::NotLookedUp { name: place.name, reason });
        }
    }
}

/// The programs of the scheduler.
fn programs(document: &Document, sections: &Sections, report: &mut Problems) {
    let datadir = sections.bootstrap.datadir.as_deref();
    let scheduler = document.root.iter().filter(|entry| entry.name == "scheduler");
    let rows = scheduler.filter_map(|entry| match &entry.node.value {
        NodeValue::List(rows) => Some(rows),
        _ => None,
    });
    for row in rows.flatten() {
        let NodeValue::Group(columns) = &row.value else { continue };
        let column = |name: &str| columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        let is_active = column("active").and_then(|column| form::text_of(&column.node.value));
        let Some(filename) = column("filename") else { continue };
        let Some(text) = form::text_of(&filename.node.value) else { continue };
        // The data folder may be one that the command line names, or that is created.
        let path = match (Path::new(&text), datadir) {
            (path, _) if path.is_absolute() => path.to_owned(),
            (path, Some(datadir)) => datadir.join(path),
            _ => continue,
        };
        if is_active.is_none_or(|text| text != "0" && text != "false")
            && let Some(why) = why_not_run(&path)
        {
            report.add(filename.node.at, problem("scheduler", &path, why.to_owned()));
        }
    }
}

/// A fault of the TLS settings in a row of `mysql_servers_ssl_params`.
fn of_row(placed: &Placed<SslParamsRow>, reason: String, report: &mut Problems) {
    let row = &placed.row;
    let columns = [
        ("ssl_ca", &row.ssl_ca),
        ("ssl_cert", &row.ssl_cert),
        ("ssl_key", &row.ssl_key),
        ("ssl_crl", &row.ssl_crl),
        ("ssl_capath", &row.ssl_capath),
        ("ssl_crlpath", &row.ssl_crlpath),
        ("ssl_cipher", &row.ssl_cipher),
        ("tls_version", &row.tls_version),
    ];
    let named = columns.iter().find(|(column, text)| is_about(&reason, column, text));
    let column = named.map_or("hostname", |(column, _)| column);
    let name = format!("mysql_servers_ssl_params {}:{}", row.hostname, row.port);
    report.add(placed.at(column), Problem::TlsTowardServers { name, reason });
}

/// A fault of the variables `mysql-ssl_p2s_*`.
fn of_variables(sections: &Sections, reason: String, report: &mut Problems) {
    let mut set = sections.variables_at.iter().filter(|(name, _)| name.starts_with("mysql-ssl_p2s_"));
    let is_named = |(name, _): &&(&str, Position)| {
        let text = sections.variables.value(name).map(ToString::to_string).unwrap_or_default();
        is_about(&reason, &name.replace("mysql-ssl_p2s_", "ssl_"), &text)
    };
    let named = set.clone().find(is_named).or_else(|| set.next());
    let (name, at) = named.map_or(("mysql-ssl_p2s_*", Position::default()), |(name, at)| (*name, *at));
    report.add(at, Problem::TlsTowardServers { name: name.to_owned(), reason });
}

/// Whether `reason` begins with the path that a setting names, or with the setting's own name.
fn is_about(reason: &str, name: &str, text: &str) -> bool {
    let begins_with = |part: &str| {
        let rest = reason.strip_prefix(part).filter(|_| !part.is_empty());
        rest.is_some_and(|rest| rest.starts_with([':', '/']))
    };
    begins_with(text) || begins_with(name)
}

pub(super) fn problem(name: &str, path: &Path, why: String) -> Problem {
    Problem::Path { name: name.to_owned(), path: path.display().to_string(), why }
}

/// Why a path is no folder with what is to be in it.
fn why_no_folder(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::read_dir(path).err().map(|error| reason(&error)),
        Ok(_) => Some("it is not a folder".to_owned()),
        Err(error) => Some(reason(&error)),
    }
}

/// Why a file cannot be written: its folder is not there, or it exists and refuses.
fn why_not_written(path: &Path) -> Option<String> {
    let parent = path.parent().map(PathBuf::from).unwrap_or_default();
    if let Err(error) = fs::metadata(&parent) {
        return Some(format!("its folder: {}", reason(&error)));
    }
    let exists = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let opened = exists.then(|| File::options().append(true).open(path));
    opened.and_then(Result::err).map(|error| reason(&error))
}

pub(super) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it is not there".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
