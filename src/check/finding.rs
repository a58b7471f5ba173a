//! One finding of a check: for people as a line, for programs as a JSON object.

use std::fmt;

use narrows_control::config::diagnostic::{Diagnostic, Severity};
use serde::Serialize;

use crate::one_line::printable;

/// Something that was found.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The line, counted from 1, if it is about a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in characters, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// How serious it is.
    pub severity: FindingSeverity,
    /// The setting, row or section that it is about, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was found.
    pub message: String,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// The check fails.
    Error,
    /// Probably a mistake: the check fails with `--strict`.
    Warning,
    /// Something that was not tried.
    Note,
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Finding {
        let (line, column) = (diagnostic.line, diagnostic.column);
        Finding {
            file: diagnostic.file.display().to_string(),
            line: (line > 0).then_some(line),
            column: (line > 0).then_some(column),
            severity: match diagnostic.severity() {
                Severity::Error => FindingSeverity::Error,
                Severity::Warning => FindingSeverity::Warning,
            },
            key: diagnostic.problem.subject(),
            message: diagnostic.problem.to_string(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", printable(&self.file))?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}:")?;
        }
        let severity = match self.severity {
            FindingSeverity::Error => "error",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Note => "note",
        };
        write!(f, " {severity}: {}", printable(&self.message))
    }
}
