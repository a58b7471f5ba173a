//! What the command line of `narrows import` says.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use narrows_control::monitor::plan::Address;

use super::admin_port::Layer;
use crate::init::address;
use crate::init::dialogue::Dialogue;
use crate::init::screen::Screen;
use crate::init::visit::Credentials;
use crate::instance::Instance;
use crate::password::Password;

/// Imports ProxySQL's configuration, and says what becomes of it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ImportArgs {
    /// proxysql.db or proxysql.cnf, of which the content decides; it is only read
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub file: Option<PathBuf>,
    /// Admin port of a running ProxySQL, which is only read: a name or an address with a port (6032)
    #[arg(long, value_name = "HOST:PORT", value_parser = admin_address)]
    pub from: Option<Address>,
    /// Administrator's account there
    #[arg(long, value_name = "NAME", default_value = "admin", requires = "from")]
    user: String,
    /// On a terminal it is asked for if it is not given.
    #[command(flatten)]
    password: Password,
    /// Read what runs there, which leaves out inactive rows, and not what is in memory
    #[arg(long, requires = "from")]
    runtime: bool,
    /// Folder in which narrows.db is created
    #[command(flatten)]
    place: Instance,
    /// Write a narrows.toml instead of a narrows.db
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with_all = ["config", "datadir"])]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Only report: nothing is written
    #[arg(long, conflicts_with_all = ["config", "datadir", "output"])]
    report: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where a configuration is imported to.
#[derive(Debug)]
pub enum Target {
    /// Nothing is written.
    Nothing,
    /// A narrows.db in this folder.
    Folder(PathBuf),
    /// A narrows.toml.
    File,
}

impl ImportArgs {
    /// What the report calls the source.
    pub fn source_name(&self) -> String {
        match (&self.from, &self.file) {
            (Some(address), _) => address.to_string(),
            (None, file) => file.as_deref().map(|file| file.display().to_string()).unwrap_or_default(),
        }
    }

    /// Options that have no effect together.
    ///
    /// # Errors
    /// A password, and nobody to give it to.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.from.is_some() || !self.password.is_given(), "a password is for --from HOST:PORT");
        Ok(())
    }

    /// Where to import to; creates the data folder.
    ///
    /// # Errors
    /// A data folder that cannot be created.
    pub fn target(self) -> anyhow::Result<Target> {
        match (self.report, self.output) {
            (true, _) => Ok(Target::Nothing),
            (false, Some(_)) => Ok(Target::File),
            (false, None) => Ok(Target::Folder(self.place.new_datadir()?)),
        }
    }

    /// Which tables are read.
    pub fn layer(&self) -> Layer {
        if self.runtime { Layer::Runtime } else { Layer::Memory }
    }

    /// The administrator's account.
    ///
    /// # Errors
    /// No password, and no terminal to ask for it.
    pub fn account(&self) -> anyhow::Result<Credentials> {
        let password = match self.password.read()? {
            Some(password) => password,
            None => self.asked_for()?,
        };
        Ok(Credentials { username: self.user.clone(), password })
    }

    fn asked_for(&self) -> anyhow::Result<String> {
        if self.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!(
                "the password of '{}' is missing: give --password, --password-env or --password-file",
                self.user
            );
        }
        Dialogue { screen: Screen::new() }.password(&format!("Password of '{}'", self.user))
    }
}

fn admin_address(text: &str) -> Result<Address, String> {
    address::parse_with(text, ADMIN_PORT)
}

/// ProxySQL's usual admin port.
const ADMIN_PORT: u16 = 6032;

const AFTER_HELP: &str = "\
  narrows import --from 127.0.0.1:6032 --report          what would become of a running ProxySQL's configuration
  narrows import proxysql.db -D /var/lib/narrows         a narrows.db, with which `narrows -f -D` starts
  narrows import proxysql.cnf --output narrows.toml      a configuration file
The report has no passwords; what is written has, and only its owner can read it.";
