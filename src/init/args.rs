//! What the command line of `narrows init` says.

use std::path::PathBuf;

use anyhow::ensure;
use narrows_control::monitor::plan::Address;

use super::address;
use crate::password::{Password, from_environment, from_file};

/// Finds out what servers there are and writes the narrows.toml that fits them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct InitArgs {
    /// Ask nothing: what is not given here has its default
    #[arg(long, requires = "server", requires = "user")]
    pub yes: bool,
    /// One of the servers, whichever: a name or an address with a port (3306), or the path of a Unix socket; may be repeated
    ///
    /// The first one is examined for the others. The account's password is only sent to machines that are given here,
    /// unless you agree to others on the terminal, or give --trust-discovered.
    #[arg(long, value_name = "HOST:PORT", value_parser = address::parse)]
    pub server: Vec<Address>,
    /// Log in, with the same account, to every other server that the servers name
    ///
    /// Who may register a replica at the primary (REPLICATION SLAVE) can name a machine of their own and so learn the password.
    #[arg(long)]
    pub trust_discovered: bool,
    /// Account with which all servers are examined; it should see replication and may read mysql.user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    #[command(flatten)]
    pub password: Password,
    /// Account of an application, which will connect to Narrows; may be repeated
    ///
    /// Its password is that of the option with the same position among the --app-password options. Without a password,
    /// the hash that the servers have is used. If there is no --app-user, it is the account of --user.
    #[arg(long, value_name = "NAME")]
    pub app_user: Vec<String>,
    /// The password of an application's account; may be repeated
    #[arg(long, value_name = "TEXT", requires = "app_user")]
    app_password: Vec<String>,
    /// Environment variable that has the password of an application's account; may be repeated
    #[arg(long, value_name = "VARIABLE", requires = "app_user", conflicts_with = "app_password")]
    app_password_env: Vec<String>,
    /// File whose first line is the password of an application's account; may be repeated
    #[arg(long, value_name = "FILE", requires = "app_user", conflicts_with_all = ["app_password", "app_password_env"])]
    app_password_file: Vec<PathBuf>,
    /// Account with which Narrows checks the servers
    #[arg(long, value_name = "NAME", default_value = "monitor")]
    pub monitor_user: String,
    /// Its password; if it is not given and the account has to be created, one is generated
    #[arg(long, value_name = "TEXT")]
    pub monitor_password: Option<String>,
    /// Create that account on the primary if it does not exist
    #[arg(long)]
    pub create_monitor: bool,
    /// Send everything to the primary, also reads
    #[arg(long)]
    pub no_split: bool,
    /// Address that Narrows listens on for clients; the default is the first free one from 127.0.0.1:6033
    #[arg(long, value_name = "ADDRESS", value_parser = address::listener)]
    pub listen: Option<String>,
    /// Address that Narrows listens on for administrators; the default is the first free one from 127.0.0.1:6032
    #[arg(long, value_name = "ADDRESS", value_parser = address::listener)]
    pub admin_listen: Option<String>,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

impl InitArgs {
    /// The accounts of applications, each with its password if one is given.
    ///
    /// # Errors
    /// A variable or a file that cannot be read; more passwords than accounts.
    pub fn applications(&self) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let mut passwords = self.app_password.clone();
        for variable in &self.app_password_env {
            passwords.push(from_environment(variable)?);
        }
        for file in &self.app_password_file {
            passwords.push(from_file(file)?);
        }
        let (accounts, given) = (self.app_user.len(), passwords.len());
        ensure!(
            given <= accounts,
            "{given} passwords are given for {accounts} --app-user: give each its own"
        );
        let mut passwords = passwords.into_iter();
        Ok(self.app_user.iter().map(|name| (name.clone(), passwords.next())).collect())
    }
}

const AFTER_HELP: &str = "\
On a terminal it asks for everything that is not given. A script gives --yes, --server and --user, and a password:
  narrows init --yes --server db1:3306 --user root --password-env DB_PASSWORD --app-user app --app-password-env APP_PASSWORD
It reads from the servers, and changes nothing there except to create the monitor's account if that is agreed to.";
