//! The outcome of a statement.

use super::question::Question;
use crate::store::{Answer, Cell, Refusal, ResultSet};

/// The outcome of a statement.
#[derive(Debug)]
pub enum Reply {
    /// The statement succeeded.
    Answer(Answer),
    /// The statement failed.
    Refused(Refusal),
    /// There is no answer yet; try again after a moment.
    NotYet,
    /// The connection is closed without an answer.
    HangUp,
    /// Another thread answers, because it is the SQL of a statistics user.
    OnFigures(Box<Question>),
}

impl Reply {
    /// An OK without a result.
    pub fn ok() -> Reply {
        Reply::done(0, "")
    }

    /// An OK with the number of affected rows.
    pub fn done(affected: u64, info: &str) -> Reply {
        Reply::Answer(Answer::Done { affected, info: info.to_owned(), warnings: Vec::new() })
    }

    /// A result set of texts.
    pub fn rows<C: Into<String>>(columns: impl IntoIterator<Item = C>, rows: Vec<Vec<String>>) -> Reply {
        let row =
            |row: Vec<String>| -> Vec<Cell> { row.into_iter().map(|cell| Some(cell.into_bytes())).collect() };
        Reply::Answer(Answer::Rows(ResultSet {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().map(row).collect(),
            warnings: Vec::new(),
        }))
    }

    /// The same with cells that may be NULL.
    pub fn optional_rows<C: Into<String>>(
        columns: impl IntoIterator<Item = C>,
        rows: Vec<Vec<Option<String>>>,
    ) -> Reply {
        let row = |row: Vec<Option<String>>| -> Vec<Cell> {
            row.into_iter().map(|cell| cell.map(String::into_bytes)).collect()
        };
        Reply::Answer(Answer::Rows(ResultSet {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().map(row).collect(),
            warnings: Vec::new(),
        }))
    }

    /// The error of a command, in the form that ProxySQL uses.
    pub fn error(text: impl std::fmt::Display) -> Reply {
        Reply::refused(1045, "28000", format!("ProxySQL Admin Error: {text}"))
    }

    /// An error with this code and message.
    pub fn refused(code: u16, sqlstate: &'static str, message: String) -> Reply {
        Reply::Refused(Refusal { code, sqlstate, message })
    }
}

impl From<Result<Answer, Refusal>> for Reply {
    fn from(result: Result<Answer, Refusal>) -> Reply {
        match result {
            Result::Ok(answer) => Reply::Answer(answer),
            Err(refusal) => Reply::Refused(refusal),
        }
    }
}
