//! A prepared statement of a raw client: the test chooses every field of its packets.

use narrows_testkit::{Answer, ErrorPacket, RawClient, command, writer};

/// The value of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Value<'v> {
    Integer(i64),
    Text(&'v str),
    /// The same, bound with the type of parameters sent in parts.
    Bytes(&'v str),
    /// It was sent in parts.
    Sent,
}

impl Value<'_> {
    fn kind(self) -> u8 {
        match self {
            Value::Integer(_) => 8,
            Value::Text(_) => 253,
            Value::Sent | Value::Bytes(_) => 252,
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Value::Sent => Vec::new(),
            Value::Integer(number) => number.to_le_bytes().to_vec(),
            Value::Text(text) | Value::Bytes(text) => writer::lenenc_bytes(text.as_bytes()),
        }
    }
}

/// A prepared statement.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    pub id: u32,
    pub columns: u16,
}

impl Statement {
    /// `COM_STMT_PREPARE`.
    pub fn prepare(client: &mut RawClient, text: &str) -> Statement {
        Statement::try_prepare(client, text).unwrap_or_else(|error| panic!("prepare {text}: {error:?}"))
    }

    pub fn try_prepare(client: &mut RawClient, text: &str) -> Result<Statement, ErrorPacket> {
        Statement::read(client.command(command::STMT_PREPARE, text.as_bytes()))
    }

    /// Reads the answer to a `COM_STMT_PREPARE`.
    pub fn read(answer: Answer) -> Result<Statement, ErrorPacket> {
        if let Some(error) = answer.error() {
            return Err(error);
        }
        let head = &answer.packets[0].payload;
        let id = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        Ok(Statement { id, columns: u16::from_le_bytes([head[5], head[6]]) })
    }

    /// `COM_STMT_EXECUTE` that binds the types of its parameters.
    pub fn execute(self, client: &mut RawClient, values: &[Value]) -> Answer {
        client.command(command::STMT_EXECUTE, &self.execution(0, values, true))
    }

    /// `COM_STMT_EXECUTE` that uses the types bound before.
    pub fn execute_again(self, client: &mut RawClient, values: &[Value]) -> Answer {
        client.command(command::STMT_EXECUTE, &self.execution(0, values, false))
    }

    /// `COM_STMT_EXECUTE` that asks for a cursor.
    pub fn open_cursor(self, client: &mut RawClient, values: &[Value]) -> Answer {
        client.command(command::STMT_EXECUTE, &self.execution(1, values, true))
    }

    /// The body of a `COM_STMT_EXECUTE`.
    pub fn execution(self, flags: u8, values: &[Value], bind: bool) -> Vec<u8> {
        let mut body = self.id.to_le_bytes().to_vec();
        body.push(flags);
        body.extend(1_u32.to_le_bytes());
        if values.is_empty() {
            return body;
        }
        // None is NULL.
        body.extend(vec![0; values.len().div_ceil(8)]);
        body.push(u8::from(bind));
        if bind {
            body.extend(values.iter().flat_map(|value| [value.kind(), 0]));
        }
        body.extend(values.iter().flat_map(|value| value.bytes()));
        body
    }

    /// `COM_STMT_FETCH`; the first cells of the rows.
    pub fn fetch(self, client: &mut RawClient, rows: u32) -> Result<Vec<String>, ErrorPacket> {
        let body = [self.id.to_le_bytes(), rows.to_le_bytes()].concat();
        let answer = client.command(command::STMT_FETCH, &body);
        match answer.error() {
            Some(error) => Err(error),
            None => {
                let rows = answer.packets.iter().filter(|packet| packet.payload.first() == Some(&0));
                Ok(rows.map(|packet| first_cell(&packet.payload, 1)).collect())
            }
        }
    }

    /// `COM_STMT_SEND_LONG_DATA`.
    pub fn send(self, client: &mut RawClient, parameter: u16, part: &[u8]) {
        let body = [&self.id.to_le_bytes()[..], &parameter.to_le_bytes(), part].concat();
        client.send_command(command::STMT_SEND_LONG_DATA, &body).expect("the client is connected");
    }

    /// `COM_STMT_RESET`.
    pub fn reset(self, client: &mut RawClient) -> Answer {
        client.command(command::STMT_RESET, &self.id.to_le_bytes())
    }

    /// `COM_STMT_CLOSE`.
    pub fn close(self, client: &mut RawClient) {
        client.send_command(command::STMT_CLOSE, &self.id.to_le_bytes()).expect("the client is connected");
    }
}

/// The only cell of the only row of an execution's answer, as a string.
///
/// # Panics
/// If the answer is an error, or has no such cell.
pub fn cell(answer: &Answer) -> String {
    assert!(answer.error().is_none(), "{:?}", answer.error());
    let columns = answer.columns().len();
    let rows: Vec<_> = answer.packets.iter().skip(1 + columns).filter(|it| it.first() == 0).collect();
    assert_eq!(rows.len(), 1, "one row: {answer:?}");
    first_cell(&rows[0].payload, columns)
}

/// The first cell of a row in binary form (manual: "Binary Protocol Resultset Row"), as a string; empty if it is NULL.
fn first_cell(row: &[u8], columns: usize) -> String {
    let nulls = (columns + 9) / 8;
    if row[1] & 0b100 != 0 {
        return String::new();
    }
    let mut cell = narrows_testkit::reader::Bytes::new(&row[1 + nulls..]);
    String::from_utf8_lossy(cell.lenenc_bytes().expect("a string")).into_owned()
}
