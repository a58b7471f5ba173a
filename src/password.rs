//! The options with which a password is given: as text, in an environment variable, or in a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The password of the account in `--user`.
#[derive(Debug, clap::Args)]
pub struct Password {
    /// Its password
    #[arg(id = "password", long = "password", value_name = "TEXT")]
    text: Option<String>,
    /// Environment variable that has its password
    #[arg(id = "password_env", long = "password-env", value_name = "VARIABLE", conflicts_with = "password")]
    variable: Option<String>,
    /// File whose first line is its password
    #[arg(id = "password_file", long = "password-file", value_name = "FILE", conflicts_with_all = ["password", "password_env"])]
    file: Option<PathBuf>,
}

impl Password {
    /// Whether one is given.
    pub fn is_given(&self) -> bool {
        self.text.is_some() || self.variable.is_some() || self.file.is_some()
    }

    /// The password; `None` if none is given.
    ///
    /// # Errors
    /// A variable or a file that cannot be read.
    pub fn read(&self) -> anyhow::Result<Option<String>> {
        Ok(match (&self.text, &self.variable, &self.file) {
            (Some(text), ..) => Some(text.clone()),
            (_, Some(variable), _) => Some(from_environment(variable)?),
            (.., Some(file)) => Some(from_file(file)?),
            _ => None,
        })
    }
}

/// The password in an environment variable.
///
/// # Errors
/// There is no such variable.
pub fn from_environment(variable: &str) -> anyhow::Result<String> {
    match std::env::var(variable) {
        Ok(password) => Ok(password),
        Err(_) => bail!("the environment variable {variable} is not set: export it, or use another option"),
    }
}

/// The password in the first line of a file.
///
/// # Errors
/// The file cannot be read.
pub fn from_file(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(LONGEST_FILE).read_to_string(&mut text))
        .with_context(|| format!("the password cannot be read from {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The most bytes that are read of a file with a password in its first line.
const LONGEST_FILE: u64 = 1 << 16;
