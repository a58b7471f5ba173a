//! A configuration on its way to a Narrows, from a configuration file or from a saved plan.

use std::path::Path;

use anyhow::{Context, Error, bail};
use narrows_control::config_file;
use narrows_control::files;
use narrows_control::store::{OpenError, Store};
use narrows_control::versions::ConfigDocument;
use narrows_proxy::backend::Table;
use serde_json::{Value as Json, json};

use super::shown;

/// A configuration, and the plan that was made of it.
pub struct Saved {
    configuration: Json,
    token: Option<String>,
}

impl Saved {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A file that cannot be started with, or has names that Narrows does not have.
    pub fn of_configuration(path: &Path) -> anyhow::Result<Saved> {
        Saved::of_document(path, Store::document_to_plan(path))
    }

    fn of_document(path: &Path, document: Result<ConfigDocument, OpenError>) -> anyhow::Result<Saved> {
        match document {
            Ok(document) => {
                Ok(Saved { configuration: serde_json::from_slice(&document.to_json())?, token: None })
            }
            Err(OpenError::File(diagnostics)) => {
                let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
                bail!("{}", lines.join("\n"))
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Reads a saved plan, or a configuration file.
    ///
    /// # Errors
    /// A file that is neither.
    pub fn read(path: &Path) -> anyhow::Result<Saved> {
        // Once: it may be a pipe.
        let text = config_file::read_file(path).map_err(Error::msg);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        match serde_json::from_str::<Json>(&text) {
            Ok(plan) => {
                let token = plan["token"].as_str().map(str::to_owned);
                let token =
                    token.with_context(|| format!("{} is no plan: it has no token", path.display()))?;
                Ok(Saved { configuration: plan["configuration"].clone(), token: Some(token) })
            }
            Err(_) => Saved::of_document(path, Store::document_of_text_to_plan(path, &text)),
        }
    }

    /// The same with the token of a plan.
    pub fn with_token(&self, plan: &Table) -> Saved {
        Saved { configuration: self.configuration.clone(), token: shown::token(plan) }
    }

    /// Writes it, for its owner only: passwords are in it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let plan = json!({ "token": self.token, "configuration": self.configuration });
        files::replace(path, format!("{plan}\n").as_bytes(), 0o600)
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The configuration.
    pub fn configuration(&self) -> &Json {
        &self.configuration
    }

    /// The token of the plan that was made of it.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}
