//! Runs a statement of our own and returns its answer as a table, for the monitor. Client data does not pass through
//! here.

use std::time::Duration;

use narrows_wire::frame::put_encoded;
use narrows_wire::{Command, Malformed, Reader};

use super::{Backend, BackendError, ResultSet};
use crate::buffer::Buffer;
use crate::rt::timeout;

/// A small result set, as text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Table {
    /// The names of its columns; none if the answer was not a result set.
    pub columns: Vec<String>,
    /// Its rows; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Backend {
    /// Runs `statement` and reads its whole answer, of at most 64 MiB.
    ///
    /// # Errors
    /// The server's; after any other error the connection cannot be used any more.
    pub async fn ask(&self, statement: &str, limit: Duration) -> Result<Table, BackendError> {
        self.table_of(statement, limit, &LONGEST_ANSWER).await
    }

    /// The same for an answer of at most 1 MiB: hundreds of rows, which is more than any check is meant to get.
    ///
    /// # Errors
    /// As [`Backend::ask`].
    pub async fn ask_briefly(&self, statement: &str, limit: Duration) -> Result<Table, BackendError> {
        self.table_of(statement, limit, &LONGEST_OF_CHECK).await
    }

    /// The same for an answer of at most so many bytes.
    ///
    /// # Errors
    /// As [`Backend::ask`].
    pub async fn ask_within(
        &self,
        statement: &str,
        limit: Duration,
        bytes: usize,
    ) -> Result<Table, BackendError> {
        let most = AnswerLimit { bytes, error: "a longer answer than it may have" };
        self.table_of(statement, limit, &most).await
    }

    /// The answer to a question of our own, whose form is that of the server.
    pub(super) async fn answer_to(
        &self,
        statement: &str,
        limit: Duration,
        most: &AnswerLimit,
    ) -> Result<ResultSet, BackendError> {
        let mut out = Vec::with_capacity(statement.len() + 8);
        self.put_query(&mut out, statement);
        let ask = async {
            self.stream.write_all(&out).await?;
            self.bounded_result_set(&mut Buffer::default(), most).await
        };
        timeout(limit, ask).await.unwrap_or(Err(BackendError::Timeout))
    }

    async fn table_of(
        &self,
        statement: &str,
        limit: Duration,
        most: &AnswerLimit,
    ) -> Result<Table, BackendError> {
        let set = self.answer_to(statement, limit, most).await?;
        Ok(Table::decode(&set)?)
    }

    /// Sends COM_QUIT and closes the connection, so that the server does not count it as aborted.
    pub async fn quit(self) {
        let mut out = Vec::with_capacity(8);
        put_encoded(&mut out, &mut 0, |out| out.push(Command::Quit.code()));
        // It does not matter if the server is already gone.
        let _ = timeout(GOODBYE, self.stream.write_all(&out)).await;
    }
}

impl Table {
    /// Whether the answer is no: exactly 0 or OFF.
    pub fn says_no(&self) -> bool {
        let value = self.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
        matches!(value, Some("0" | "OFF"))
    }

    fn decode(set: &ResultSet) -> Result<Table, Malformed> {
        let columns = set.columns.iter().map(|definition| column_name(definition));
        let columns: Vec<String> = columns.collect::<Result<_, _>>()?;
        let row = |payload: &Vec<u8>| {
            let mut reader = Reader::new(payload);
            columns.iter().map(|_| cell(&mut reader)).collect::<Result<Vec<_>, _>>()
        };
        let rows = set.rows.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Table { columns, rows })
    }

    /// The values of the column with that name, row by row; `None` if there is no such column.
    pub fn column(&self, name: &str) -> Option<impl Iterator<Item = Option<&str>>> {
        let at = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
        Some(self.rows.iter().map(move |row| row.get(at)?.as_deref()))
    }
}

/// The fifth part of a definition, after catalog, schema and the table's two names (manual: `ColumnDefinition41`).
fn column_name(definition: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(definition);
    for _ in 0..4 {
        reader.lenenc_bytes()?;
    }
    Ok(String::from_utf8_lossy(reader.lenenc_bytes()?).into_owned())
}

pub(super) fn cell(reader: &mut Reader<'_>) -> Result<Option<String>, Malformed> {
    Ok(cell_bytes(reader)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// The next cell of a row; `None`: NULL.
pub(super) fn cell_bytes<'r>(reader: &mut Reader<'r>) -> Result<Option<&'r [u8]>, Malformed> {
    if reader.peek() == Some(NULL) {
        reader.u8()?;
        return Ok(None);
    }
    reader.lenenc_bytes().map(Some)
}

/// Represents NULL in a row of the text protocol.
const NULL: u8 = 0xFB;

/// How much is read of an answer to a question of our own.
pub(super) struct AnswerLimit {
    /// The most bytes.
    pub(super) bytes: usize,
    /// What is wrong with more.
    pub(super) error: &'static str,
}

/// 65,535 warnings, the most that a server keeps, are shorter, and so are the tables of any configuration.
pub(super) const LONGEST_ANSWER: AnswerLimit =
    AnswerLimit { bytes: 64 << 20, error: "more than 64 MiB where a short answer was expected" };

/// Of an answer to a check.
pub(super) const LONGEST_OF_CHECK: AnswerLimit =
    AnswerLimit { bytes: 1 << 20, error: "more than 1 MiB where a short answer was expected" };

/// How long sending COM_QUIT may take: the socket buffer is empty.
const GOODBYE: Duration = Duration::from_millis(100);
