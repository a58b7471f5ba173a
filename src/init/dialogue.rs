//! Questions on a terminal: each answer is checked at once, and asked for again if it is wrong.

use std::fmt::Display;
use std::io::IsTerminal;

use anyhow::{bail, ensure};

use super::remains::Hidden;
use super::screen::Screen;
use crate::one_line::printable;

/// The user, on a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Dialogue {
    /// Where questions are shown.
    pub screen: Screen,
}

impl Dialogue {
    /// With the user at the terminal.
    ///
    /// # Errors
    /// There is no terminal.
    pub fn on_terminal(screen: Screen) -> anyhow::Result<Dialogue> {
        ensure!(
            std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
            "there is no terminal for questions: give --yes, --server, --user and a password (see narrows init --help)"
        );
        Ok(Dialogue { screen })
    }

    /// Asks until `read` accepts the answer. An empty answer means the default, if there is one.
    ///
    /// # Errors
    /// The end of the input.
    pub fn ask<T, E: Display>(
        self,
        question: &str,
        default: &str,
        mut read: impl FnMut(&str) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        loop {
            let hint = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            self.screen.print(&printable(&format!("{question}{hint}: ")));
            let answer = line()?;
            let answer = if answer.is_empty() { default } else { &answer };
            match read(answer) {
                Ok(value) => return Ok(value),
                Err(error) => self.screen.refusal(&error.to_string()),
            }
        }
    }

    /// Asks for a password, which is not shown.
    ///
    /// # Errors
    /// The end of the input.
    pub fn password(self, question: &str) -> anyhow::Result<String> {
        // First, so that an answer that comes at once is not shown either.
        let _hidden = Hidden::begin()?;
        self.screen.print(&printable(&format!("{question}: ")));
        line_as_typed()
    }

    /// Asks for yes or no.
    ///
    /// # Errors
    /// The end of the input.
    pub fn agrees(self, question: &str, default: bool) -> anyhow::Result<bool> {
        self.ask(question, if default { "Y/n" } else { "y/N" }, |answer| {
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => Ok(true),
                "n" | "no" => Ok(false),
                "y/n" => Ok(default),
                _ => Err("answer y or n"),
            }
        })
    }
}

fn line() -> anyhow::Result<String> {
    Ok(line_as_typed()?.trim().to_owned())
}

/// A line without its end; a password may have blanks.
fn line_as_typed() -> anyhow::Result<String> {
    let mut text = String::new();
    if std::io::stdin().read_line(&mut text)? == 0 {
        bail!("the input has ended, and nothing was written");
    }
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
