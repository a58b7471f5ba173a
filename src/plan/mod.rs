//! `narrows plan` and `narrows apply`: what a configuration file would change in a running Narrows, and exactly that change.
//!
//! The file is read here, and sent to the admin port as JSON: it need not be on the machine of that Narrows.

mod saved;
mod shown;

use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use narrows_control::monitor::plan::Address;
use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::rt;

use crate::init::address;
use crate::init::visit::{Credentials, Visit, VisitError};
use crate::instance::Instance;
use crate::password::Password;
use saved::Saved;

/// The admin port, and as whom.
#[derive(Debug, clap::Args)]
pub struct PortArgs {
    /// The admin port: a name or an address with a port (6032), or the path of a Unix socket
    #[arg(value_name = "HOST:PORT", value_parser = to_administrators, conflicts_with_all = ["config", "datadir"])]
    address: Option<Address>,
    #[command(flatten)]
    place: Instance,
    /// An administrator's account
    #[arg(short = 'u', long, value_name = "NAME", default_value = "admin")]
    user: String,
    #[command(flatten)]
    password: Password,
}

/// What to plan, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct PlanArgs {
    /// The configuration file: narrows.toml or proxysql.cnf
    file: PathBuf,
    #[command(flatten)]
    port: PortArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also save the plan, for `narrows apply`; it contains the passwords of the file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Return 2 if anything would change
    #[arg(long)]
    exit_code: bool,
}

/// What to apply, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ApplyArgs {
    /// A plan that `narrows plan --out` has saved, or a configuration file
    file: PathBuf,
    #[command(flatten)]
    port: PortArgs,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Do not ask
    #[arg(short = 'y', long)]
    yes: bool,
}

/// Shows what a file would change.
///
/// # Errors
/// A file that cannot be used; no login; a configuration that Narrows refuses.
pub fn plan(args: PlanArgs) -> anyhow::Result<ExitCode> {
    let document = Saved::of_configuration(&args.file)?;
    let plan = args.port.reach()?.plan(&document)?;
    if let Some(out) = &args.out {
        document.with_token(&plan).write(out)?;
    }
    let text = if args.json { shown::json(&plan) } else { shown::text(&plan) };
    crate::print_lines(&text)?;
    let changes = args.exit_code && shown::changes_anything(&plan);
    Ok(if changes { ExitCode::from(WOULD_CHANGE) } else { ExitCode::SUCCESS })
}

/// Applies a plan, or a file after showing what it changes.
///
/// # Errors
/// The same; something has changed since the plan was made; nobody says yes.
pub fn apply(args: ApplyArgs) -> anyhow::Result<ExitCode> {
    let document = Saved::read(&args.file)?;
    let port = args.port.reach()?;
    let plan = port.plan(&document)?;
    let token =
        shown::token(&plan).context("the answer has no plan: this is not the admin port of a Narrows")?;
    match document.token() {
        Some(saved) => {
            ensure!(saved == token, "the configuration has changed since the plan was made: make another one")
        }
        None => crate::print_lines(&shown::text(&plan))?,
    }
    if !shown::changes_anything(&plan) {
        return Ok(ExitCode::SUCCESS);
    }
    if document.token().is_none() && !args.yes {
        ensure!(stdin().is_terminal(), "nobody can be asked here: give --yes, or a plan that was saved");
        ensure!(says_yes()?, "nothing was changed");
    }
    let said = port.apply(&token, &args.comment)?;
    crate::print_lines(&said)?;
    Ok(ExitCode::SUCCESS)
}

fn says_yes() -> anyhow::Result<bool> {
    print!("Apply it? [y/N] ");
    stdout().flush()?;
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()))
}

impl PortArgs {
    fn reach(self) -> anyhow::Result<Reached> {
        let password = self.password.read()?.unwrap_or_else(|| self.user.clone());
        let address = match self.address {
            Some(address) => address,
            None => crate::ping::configured(self.place, true)?,
        };
        Ok(Reached { address, account: Credentials { username: self.user, password } })
    }
}

/// An admin port that can be asked.
struct Reached {
    address: Address,
    account: Credentials,
}

impl Reached {
    fn plan(&self, document: &Saved) -> anyhow::Result<Table> {
        let json = document.configuration().to_string().replace('\'', "''");
        self.ask(&[format!("NARROWS PLAN CONFIGURATION '{json}'")])
    }

    /// Applies a plan; returns the message for the user.
    fn apply(&self, token: &str, comment: &str) -> anyhow::Result<String> {
        let comment = comment.replace('\'', "''");
        let apply = format!("NARROWS APPLY PLAN '{token}' COMMENT '{comment}'");
        let warnings = self.ask(&[apply, "SHOW WARNINGS".to_owned()])?;
        let warnings = warnings.rows.iter().filter_map(|row| row.get(2).cloned().flatten());
        let warnings: String = warnings.map(|message| format!("Warning: {message}\n")).collect();
        let history = self.ask(&["SHOW NARROWS CHANGES".to_owned()])?;
        let newest = history.rows.first().and_then(|row| row.first().cloned().flatten());
        Ok(format!("{warnings}version {} is in force\n", newest.unwrap_or_default()))
    }

    /// Runs statements one after another; returns the answer to the last one.
    fn ask(&self, statements: &[String]) -> anyhow::Result<Table> {
        rt::block_on(async {
            let visit = Visit::begin(&self.address, &self.account).await?;
            let mut answer = None;
            for statement in statements {
                answer =
                    Some(visit.ask_within(statement, PATIENCE).await.map_err(|error| self.told(&error))?);
            }
            visit.end().await;
            answer.context("nothing was asked")
        })?
    }

    fn told(&self, error: &BackendError) -> anyhow::Error {
        match error {
            BackendError::Server(error) => anyhow::anyhow!("{}", error.message),
            error => VisitError::new(&self.address, &self.account.username, error).into(),
        }
    }
}

fn to_administrators(text: &str) -> Result<Address, String> {
    address::parse_with(text, 6032)
}

/// How long an answer may take: ten thousand rules and a hundred thousand digests take a few seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `--exit-code` returns if anything would change.
const WOULD_CHANGE: u8 = 2;

const AFTER_HELP: &str = "\
Without an address it asks the Narrows of the data folder, as `narrows ping` finds it. Without a password, the password is the name of
the user, as in a new Narrows. Sections and variables that the file does not have stay as they are.";
