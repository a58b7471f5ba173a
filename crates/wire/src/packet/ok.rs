//! The OK packet and the session state changes it may carry (manual: "OK_Packet", "Session State Information").

use super::Status;
use crate::Capabilities;
use crate::codec::{Malformed, Reader, put_lenenc_bytes, put_lenenc_int};

/// A statement succeeded; with `CLIENT_DEPRECATE_EOF` also the end of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ok<'a> {
    /// First byte: [`Ok::HEADER`], or [`Ok::END_OF_ROWS`] after rows.
    pub header: u8,
    /// Rows changed.
    pub affected_rows: u64,
    /// First generated value of an `AUTO_INCREMENT` column, or 0.
    pub last_insert_id: u64,
    /// Status of the session.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Human-readable text, such as `Rows matched: 1`.
    pub info: &'a [u8],
    /// Session state changes, still encoded; see [`Ok::changes`].
    pub session_state: &'a [u8],
}

impl<'a> Ok<'a> {
    /// First byte of an ordinary OK packet.
    pub const HEADER: u8 = 0x00;
    /// First byte of an OK packet that ends rows.
    pub const END_OF_ROWS: u8 = 0xFE;

    /// Reads the payload as it is written under `capabilities`.
    pub fn decode(payload: &'a [u8], capabilities: Capabilities) -> Result<Ok<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let header = reader.u8()?;
        if header != Self::HEADER && header != Self::END_OF_ROWS {
            return Err(Malformed("not an OK packet"));
        }
        let affected_rows = reader.lenenc_int()?;
        let last_insert_id = reader.lenenc_int()?;
        let status = Status(reader.u16()?);
        let warnings = reader.u16()?;
        let mut ok =
            Ok { header, affected_rows, last_insert_id, status, warnings, info: b"", session_state: b"" };
        if !reader.is_empty() {
            // Servers write the info with its length whatever the capabilities; only old ones write it without.
            let mut with_length = reader;
            ok.info = match with_length.lenenc_bytes() {
                Result::Ok(info) => {
                    reader = with_length;
                    info
                }
                Err(error) if capabilities.contains(Capabilities::SESSION_TRACK) => return Err(error),
                Err(_) => reader.rest(),
            };
        }
        let tracked = capabilities.contains(Capabilities::SESSION_TRACK);
        if tracked && status.contains(Status::SESSION_STATE_CHANGED) && !reader.is_empty() {
            ok.session_state = reader.lenenc_bytes()?;
        }
        Result::Ok(ok)
    }

    /// The same packet, without a borrow of its payload; `None` if it has texts or changes of the session, which most have not.
    #[must_use]
    pub fn without_texts(self) -> Option<Ok<'static>> {
        let Ok { header, affected_rows, last_insert_id, status, warnings, info, session_state } = self;
        let ok =
            Ok { header, affected_rows, last_insert_id, status, warnings, info: b"", session_state: b"" };
        (info.is_empty() && session_state.is_empty()).then_some(ok)
    }

    /// Where a payload has its status flags.
    pub fn status_at(payload: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(payload);
        reader.u8().ok()?;
        reader.lenenc_int().ok()?;
        reader.lenenc_int().ok()?;
        Some(payload.len() - reader.rest().len())
    }

    /// Appends the payload as it is written under `capabilities`.
    ///
    /// Without `CLIENT_SESSION_TRACK`, or with no change to report, the flag for changes is cleared.
    pub fn encode(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        let tracked = capabilities.contains(Capabilities::SESSION_TRACK) && !self.session_state.is_empty();
        let status = self.status.without(Status::SESSION_STATE_CHANGED);
        let status = if tracked { status.union(Status::SESSION_STATE_CHANGED) } else { status };
        out.push(self.header);
        put_lenenc_int(out, self.affected_rows);
        put_lenenc_int(out, self.last_insert_id);
        out.extend(status.0.to_le_bytes());
        out.extend(self.warnings.to_le_bytes());
        if tracked || !self.info.is_empty() {
            put_lenenc_bytes(out, self.info);
        }
        if tracked {
            put_lenenc_bytes(out, self.session_state);
        }
    }

    /// The session state changes, one by one.
    pub fn changes(&self) -> Changes<'a> {
        Changes::of(self.session_state)
    }
}

/// One session state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A system variable has a new value.
    SystemVariable {
        /// Its name.
        name: &'a [u8],
        /// Its value as `SHOW VARIABLES` shows it.
        value: &'a [u8],
    },
    /// The current schema has changed to this one.
    Schema(&'a [u8]),
    /// Some session state has changed (`session_track_state_change`).
    State,
    /// GTIDs, as text.
    Gtids(&'a [u8]),
    /// Statements that would recreate the open or next transaction.
    TransactionCharacteristics(&'a [u8]),
    /// Eight characters that describe what the transaction has done.
    TransactionState(&'a [u8]),
    /// A type that is not known here.
    Other {
        /// Its number.
        kind: u8,
    },
}

impl Change<'_> {
    /// Whether only the later one of the two is true.
    pub fn is_about_the_same(&self, other: &Change<'_>) -> bool {
        match (self, other) {
            (Change::SystemVariable { name: one, .. }, Change::SystemVariable { name: other, .. }) => {
                one == other
            }
            (Change::Other { kind: one }, Change::Other { kind: other }) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Appends the change as an OK packet carries it; Narrows only creates changes of schema.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Change::Schema(schema) = self {
            let mut data = Vec::with_capacity(schema.len() + 1);
            put_lenenc_bytes(&mut data, schema);
            out.push(1);
            put_lenenc_bytes(out, &data);
        }
    }
}

/// Iterator over the changes in one OK packet; it ends after an error.
#[derive(Debug, Clone)]
pub struct Changes<'a> {
    reader: Reader<'a>,
}

impl<'a> Changes<'a> {
    /// Those of an encoded list, as an OK packet has it.
    pub fn of(encoded: &'a [u8]) -> Changes<'a> {
        Changes { reader: Reader::new(encoded) }
    }

    fn take(&mut self) -> Result<(&'a [u8], Change<'a>), Malformed> {
        let whole = self.reader;
        let kind = self.reader.u8()?;
        let mut data = Reader::new(self.reader.lenenc_bytes()?);
        let encoded_length = whole.remaining() - self.reader.remaining();
        let encoded = Reader::clone(&whole).bytes(encoded_length)?;
        let change = match kind {
            0 => Change::SystemVariable { name: data.lenenc_bytes()?, value: data.lenenc_bytes()? },
            1 => Change::Schema(data.lenenc_bytes()?),
            2 => Change::State,
            3 => {
                data.u8()?;
                Change::Gtids(data.lenenc_bytes()?)
            }
            4 => Change::TransactionCharacteristics(data.lenenc_bytes()?),
            5 => Change::TransactionState(data.lenenc_bytes()?),
            kind => Change::Other { kind },
        };
        Result::Ok((encoded, change))
    }
}

impl<'a> Iterator for Changes<'a> {
    /// The change as encoded and as decoded.
    type Item = Result<(&'a [u8], Change<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.reader = Reader::new(b"");
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACKING: Capabilities = Capabilities::SESSION_TRACK;

    /// `USE db1` as MariaDB 10.11 answers it.
    const USE_DB1: &[u8] = b"\x00\x00\x00\x02\x40\x00\x00\x00\x06\x01\x04\x03db1";

    #[test]
    fn reads_a_change_of_schema() {
        let ok = Ok::decode(USE_DB1, TRACKING).unwrap();
        assert_eq!(ok.status, Status(0x4002));
        let changes: Vec<_> = ok.changes().map(|change| change.unwrap().1).collect();
        assert_eq!(changes, [Change::Schema(b"db1")]);
    }

    #[test]
    fn round_trips_under_the_same_capabilities() {
        let ok = Ok::decode(USE_DB1, TRACKING).unwrap();
        let mut out = Vec::new();
        ok.encode(&mut out, TRACKING);
        assert_eq!(out, USE_DB1);
    }

    #[test]
    fn leaves_changes_out_for_a_client_that_does_not_track() {
        let mut out = Vec::new();
        Ok::decode(USE_DB1, TRACKING).unwrap().encode(&mut out, Capabilities::NONE);
        assert_eq!(out, b"\x00\x00\x00\x02\x00\x00\x00");
    }

    #[test]
    fn a_lying_change_is_an_error_and_ends_the_iteration() {
        let ok = Ok { session_state: b"\x00\x09\x01a", ..Ok::decode(USE_DB1, TRACKING).unwrap() };
        let mut changes = ok.changes();
        assert!(changes.next().unwrap().is_err());
        assert!(changes.next().is_none());
    }
}
