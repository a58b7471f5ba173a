//! `--connect`: tries the servers and accounts of a file, and says what was not tried.

use std::time::Duration;

use anyhow::Context;
use narrows_control::config_file::{LoadedFile, Places};
use narrows_control::monitor::plan::MonitorLogin;
use narrows_control::monitor::trial::{self, TrialOutcome, TrialResult, TrialRow};
use narrows_control::secrets::{self, SecretPlace, Secrets};
use narrows_control::tls;

use super::finding::{Finding, FindingSeverity};

/// How long a server, and then a login, may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What fails when the servers and accounts of a file are tried.
///
/// # Errors
/// If nothing can be tried, for example for want of threads.
pub fn findings(loaded: &LoadedFile, places: &Places) -> anyhow::Result<Vec<Finding>> {
    let settings = loaded.variables.for_monitor();
    let mut secrets = Secrets::default();
    // What cannot be looked up without a program is a finding of the check itself.
    let all = secrets::in_force(&loaded.rows.users, &loaded.variables);
    secrets.fetch(&all.into_iter().filter(|place| !place.is_program()).collect::<Vec<_>>());
    let failed = programs(loaded, &mut secrets, places);
    let mut rows = loaded.rows.clone();
    secrets.resolve(&mut rows);
    let access = MonitorLogin {
        username: settings.username.clone(),
        password: secrets.value(&settings.password).unwrap_or_default().to_owned(),
        tokens: secrets::tokens(&settings.password),
        tls: tls::towards_servers(&loaded.variables, &loaded.rows.ssl_params, &secrets),
        may_ask_for_key: loaded.rows.variables.get_server_public_key,
    };
    let results = trial::try_all(&rows, settings, access, LIMIT).context("trying to connect")?;
    Ok(failed.into_iter().chain(results.into_iter().map(|result| finding(result, places))).collect())
}

/// Runs the programs that passwords come from, and says which of them fail, and why.
fn programs(loaded: &LoadedFile, secrets: &mut Secrets, places: &Places) -> Vec<Finding> {
    let users = loaded.rows.users.iter().enumerate().flat_map(|(index, row)| {
        let of_user = secrets::in_users(std::slice::from_ref(row)).into_iter();
        of_user.map(move |place| (Some(TrialRow::User(index)), place))
    });
    let of_fleet = loaded
        .bootstrap
        .fleet
        .iter()
        .map(|fleet| SecretPlace { name: "fleet.password".to_owned(), text: fleet.password.clone() });
    let others = secrets::in_variables(&loaded.variables, "").into_iter().chain(of_fleet);
    let all = users.chain(others.map(|place| (None, place)));
    let programs: Vec<_> = all.filter(|(_, place)| place.is_program()).collect();
    let faults = secrets.fetch(&programs.iter().map(|(_, place)| place.clone()).collect::<Vec<_>>());
    let failed = programs.into_iter().filter_map(|(row, place)| {
        let message = faults.iter().find(|fault| fault.starts_with(&format!("{}: ", place.name)))?.clone();
        let outcome = TrialOutcome::Failed;
        let at = row.unwrap_or(TrialRow::Monitor);
        let found = finding(TrialResult { row: at, subject: place.name, outcome, message }, places);
        // Only rows of accounts have a place here.
        Some(if row.is_some() { found } else { Finding { line: None, column: None, ..found } })
    });
    failed.collect()
}

/// That a file with errors is not tried.
pub fn nothing_tried(file: &str) -> Finding {
    Finding {
        file: file.to_owned(),
        line: None,
        column: None,
        severity: FindingSeverity::Note,
        key: None,
        message: "servers and accounts are not tried: the file has errors".to_owned(),
    }
}

fn finding(result: TrialResult, places: &Places) -> Finding {
    let (file, line, column) = places.of(result.row);
    Finding {
        file: file.display().to_string(),
        line: (line > 0).then_some(line),
        column: (line > 0).then_some(column),
        severity: match result.outcome {
            TrialOutcome::Failed => FindingSeverity::Error,
            TrialOutcome::NotTried => FindingSeverity::Note,
        },
        key: Some(result.subject),
        message: result.message,
    }
}
