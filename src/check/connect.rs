//! `--connect`: tries the servers and accounts of a file, and says what was not tried.

use std::time::Duration;

use anyhow::Context;
use narrows_control::config_file::{LoadedFile, Places};
use narrows_control::monitor::plan::MonitorLogin;
use narrows_control::monitor::trial::{self, TrialOutcome, TrialResult};
use narrows_control::secrets::{self, Secrets};
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
    // What cannot be looked up is a finding of the check itself.
    let mut secrets = Secrets::default();
    secrets.fetch(&secrets::in_force(&loaded.rows.users, &loaded.variables));
    let mut rows = loaded.rows.clone();
    secrets.resolve(&mut rows);
    let access = MonitorLogin {
        username: settings.username.clone(),
        password: secrets.value(&settings.password).unwrap_or_default().to_owned(),
        tls: tls::towards_servers(&loaded.variables, &loaded.rows.ssl_params, &secrets),
        may_ask_for_key: loaded.rows.variables.get_server_public_key,
    };
    let results = trial::try_all(&rows, settings, access, LIMIT).context("trying to connect")?;
    Ok(results.into_iter().map(|result| finding(result, places)).collect())
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
