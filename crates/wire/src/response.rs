//! Where the answer to a command ends, found without decoding rows.
//!
//! A [`Tracker`] walks the packet headers of one response. Columns and rows are skipped; the packets that matter (OK,
//! ERR, EOF, a request for a local file) are shown to the caller in full. It reads from a buffer that the caller owns
//! and never holds bytes itself.
//!
//! ```text
//!            OK, ERR, EOF ────────────────────────────────► Done
//! First ──┬─ 0xFB ── LocalInfile (client sends the file) ─► First
//!         ├─ PREPARE_OK ── Definitions{params} ── Definitions{columns} ─► Done
//!         └─ column count ── Definitions ── [EOF] ── Rows ── OK/EOF ──┬─► Done
//!    ▲                                                                │
//!    └───────────────────────── SERVER_MORE_RESULTS_EXISTS ───────────┘
//! ```

use crate::codec::{Malformed, Reader};
use crate::frame::{HEADER_LENGTH, Header, MAX_PAYLOAD};
use crate::packet::{Eof, Err, Ok, Status};

/// The form of response that a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// OK, ERR, a request for a local file, or result sets: `COM_QUERY`, `COM_STMT_EXECUTE` and most others.
    Result,
    /// The same for a `COM_STMT_EXECUTE` that asks for a cursor. Elsewhere the cursor flag means nothing: MariaDB sets
    /// it while a stored procedure has a cursor open.
    Cursor,
    /// Column definitions up to an EOF: `COM_FIELD_LIST`.
    Fields,
    /// One packet of text: `COM_STATISTICS`.
    Text,
    /// `COM_STMT_PREPARE`.
    Prepare,
    /// Rows up to an EOF: `COM_STMT_FETCH`.
    Rows,
}

/// How far [`Tracker::walk`] got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Bytes at the front of the buffer that are columns, rows or counts: to be passed on unchanged.
    pub passed: usize,
    /// What comes after them.
    pub next: Next,
}

/// What comes after the skipped bytes. A `length` includes the packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// An incomplete packet, or nothing: at least `need` bytes must follow the skipped ones to continue.
    More {
        /// Bytes, including the header.
        need: usize,
    },
    /// The end of column definitions. `length` is 0 if the capability omits the EOF packet.
    ColumnsEnd {
        /// Bytes of the EOF packet.
        length: usize,
    },
    /// An OK packet: of a statement without rows, or the end of rows with `CLIENT_DEPRECATE_EOF`.
    Ok {
        /// Bytes of the packet.
        length: usize,
    },
    /// An EOF packet that ends rows, or answers a command.
    Eof {
        /// Bytes of the packet.
        length: usize,
    },
    /// An ERR packet; it ends the response.
    Err {
        /// Bytes of the packet.
        length: usize,
    },
    /// The server asks for a file from the client; its answer follows the file.
    LocalInfile {
        /// Bytes of the packet.
        length: usize,
    },
    /// The first packet of an answer to `COM_STMT_PREPARE`.
    PrepareOk {
        /// Bytes of the packet.
        length: usize,
    },
    /// A packet of text: the whole answer to `COM_STATISTICS`.
    Text {
        /// Bytes of the packet.
        length: usize,
    },
}

impl Next {
    /// Bytes of the packet that is shown, with its header; 0 if there is none.
    pub fn length(self) -> usize {
        match self {
            Next::More { .. } => 0,
            Next::ColumnsEnd { length }
            | Next::Ok { length }
            | Next::Eof { length }
            | Next::Err { length }
            | Next::LocalInfile { length }
            | Next::PrepareOk { length }
            | Next::Text { length } => length,
        }
    }
}

/// Finds the end of one response; see the diagram above.
#[derive(Debug, Clone)]
pub struct Tracker {
    state: State,
    expect: Expect,
    /// Whether the connection uses `CLIENT_DEPRECATE_EOF`.
    deprecate_eof: bool,
    /// Bytes of the packet being skipped that have not arrived in the buffer yet.
    skip: usize,
    /// The next packet continues the one being skipped.
    continued: bool,
    /// Added to the sequence number of every packet that is skipped.
    shift: u8,
    /// The number of the next packet, if packets are renumbered; see [`Tracker::numbered_from`].
    next: Option<u8>,
    rows: u64,
    /// Columns of the last result that has any.
    columns: u64,
    /// The EOF after the columns announced another result: MySQL does not repeat this after the rows of a procedure's
    /// OUT parameters.
    more_announced: bool,
    /// Sequence number, including the shift, of the last packet skipped or shown.
    sequence: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    /// `left` definitions follow; after them `then` more (columns after parameters), or rows.
    Definitions {
        left: u64,
        then: Then,
    },
    DefinitionsEnd {
        then: Then,
    },
    Rows,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Rows,
    Definitions(u64),
    Done,
}

impl Tracker {
    /// A tracker for one response on a connection with or without `CLIENT_DEPRECATE_EOF`.
    pub fn new(expect: Expect, deprecate_eof: bool) -> Tracker {
        let state = match expect {
            Expect::Fields | Expect::Rows => State::Rows,
            Expect::Result | Expect::Cursor | Expect::Text | Expect::Prepare => State::First,
        };
        Tracker {
            state,
            expect,
            deprecate_eof,
            skip: 0,
            continued: false,
            shift: 0,
            next: None,
            rows: 0,
            columns: 0,
            more_announced: false,
            sequence: 0,
        }
    }

    /// Whether the response is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done && self.skip == 0 && !self.continued
    }

    /// Rows skipped since the tracker was made, over all results.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Columns of the last result that has any; 0 if none has.
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// Sequence number of the last packet, as the receiver sees it.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Whether the last packet was skipped to its end.
    pub fn is_between_packets(&self) -> bool {
        self.skip == 0 && !self.continued
    }

    /// Renumbers packets, the first one with `first`: with the compressed protocol, the numbers of the packets inside its
    /// frames mean nothing. Servers give a packet that of the frame which happened to be sent last.
    #[must_use]
    pub fn numbered_from(mut self, first: u8) -> Tracker {
        self.next = Some(first);
        self
    }

    /// A tracker at the same place that changes no sequence numbers.
    #[must_use]
    pub fn looking_ahead(&self) -> Tracker {
        Tracker { shift: 0, next: None, ..self.clone() }
    }

    /// What is added to the sequence number of every packet skipped, and to that of the packet shown last.
    pub fn shift(&self) -> u8 {
        self.shift
    }

    /// Changes that shift after a packet was inserted (1) or left out (255).
    pub fn add_shift(&mut self, amount: u8) {
        self.shift = self.shift.wrapping_add(amount);
        self.next = self.next.map(|next| next.wrapping_add(amount));
    }

    /// A packet of our own was inserted after the last one.
    pub fn inserted(&mut self) {
        self.add_shift(1);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The packet that was shown is left out.
    pub fn omitted(&mut self) {
        self.add_shift(u8::MAX);
        self.sequence = self.sequence.wrapping_sub(1);
    }

    /// The receiver has sent packets itself, up to this number.
    pub fn continue_after(&mut self, sequence: u8) {
        self.next = self.next.map(|_| sequence.wrapping_add(1));
    }

    /// Walks over `buffer`, which begins where the last walk ended: after the skipped bytes and after the packet that
    /// it showed. Sequence numbers of skipped packets are shifted in place.
    pub fn walk(&mut self, buffer: &mut [u8]) -> Result<Walk, Malformed> {
        let mut passed = 0;
        loop {
            if self.skip > 0 {
                let step = self.skip.min(buffer.len() - passed);
                passed += step;
                self.skip -= step;
                if self.skip > 0 {
                    return Result::Ok(Walk { passed, next: Next::More { need: 1 } });
                }
            }
            if let State::DefinitionsEnd { then } = self.state
                && self.deprecate_eof
                && !self.continued
            {
                self.enter(then);
                return Result::Ok(Walk { passed, next: Next::ColumnsEnd { length: 0 } });
            }
            let rest = buffer.get_mut(passed..).unwrap_or_default();
            let Some(header) = Header::decode(rest) else {
                return Result::Ok(Walk { passed, next: Next::More { need: HEADER_LENGTH + 1 } });
            };
            if self.continued {
                self.pass(header, rest);
                continue;
            }
            if self.state == State::Done {
                return Result::Err(Malformed("bytes after the end of a response"));
            }
            let first = rest.get(HEADER_LENGTH).copied();
            if first.is_none() && header.length > 0 {
                return Result::Ok(Walk { passed, next: Next::More { need: HEADER_LENGTH + 1 } });
            }
            let Some(first) = first.filter(|_| header.length > 0) else {
                return Result::Err(Malformed("empty packet in a response"));
            };
            if self.is_bulk(first, header) {
                match &mut self.state {
                    State::Rows => self.rows += 1,
                    State::Definitions { left, then } => {
                        *left -= 1;
                        if *left == 0 {
                            self.state = State::DefinitionsEnd { then: *then };
                        }
                    }
                    _ => {}
                }
                self.pass(header, rest);
                continue;
            }
            let Some(packet) = rest.get(..header.packet_length()) else {
                return Result::Ok(Walk { passed, next: Next::More { need: header.packet_length() } });
            };
            let payload = packet.get(HEADER_LENGTH..).unwrap_or_default();
            match self.special(first, payload)? {
                Some(next) => {
                    self.number(header.sequence);
                    return Result::Ok(Walk { passed, next });
                }
                None => self.pass(header, rest),
            }
        }
    }

    /// Whether the packet is a definition or a row, judged by its first byte and length.
    #[inline]
    fn is_bulk(&self, first: u8, header: Header) -> bool {
        match self.state {
            State::Rows => match first {
                Err::HEADER => false,
                // A row may begin with 0xFE too: a value of 16 MiB or more, which fills its packet.
                Eof::HEADER if self.deprecate_eof => header.length == MAX_PAYLOAD,
                Eof::HEADER => header.length >= 9,
                _ => true,
            },
            State::Definitions { .. } => first != Err::HEADER,
            State::First | State::DefinitionsEnd { .. } | State::Done => false,
        }
    }

    /// Skips one packet whose header is at the front of `rest`.
    #[inline]
    fn pass(&mut self, header: Header, rest: &mut [u8]) {
        self.number(header.sequence);
        if self.shift != 0
            && let Some(sequence) = rest.get_mut(HEADER_LENGTH - 1)
        {
            *sequence = self.sequence;
        }
        self.skip = header.packet_length();
        self.continued = header.length == MAX_PAYLOAD;
    }

    /// Gives the packet with this sequence number the one that the receiver sees.
    #[inline]
    fn number(&mut self, sequence: u8) {
        if let Some(next) = &mut self.next {
            self.shift = next.wrapping_sub(sequence);
            *next = next.wrapping_add(1);
        }
        self.sequence = sequence.wrapping_add(self.shift);
    }

    /// Decides on a complete packet that is not bulk; `None` for a column count, which is skipped.
    fn special(&mut self, first: u8, payload: &[u8]) -> Result<Option<Next>, Malformed> {
        let length = HEADER_LENGTH + payload.len();
        if first == Err::HEADER {
            self.state = State::Done;
            return Result::Ok(Some(Next::Err { length }));
        }
        match (self.state, self.expect) {
            (State::First, Expect::Text) => {
                self.state = State::Done;
                Result::Ok(Some(Next::Text { length }))
            }
            (State::First, Expect::Prepare) => self.prepare_ok(payload).map(Some),
            (State::First, _) => self.first(first, payload),
            (State::DefinitionsEnd { then }, _) => {
                let eof = Eof::decode(payload)?;
                // A cursor's rows are fetched by later commands.
                self.more_announced = eof.status.contains(Status::OUT_PARAMETERS_AND_MORE);
                let opened = self.expect == Expect::Cursor && eof.status.contains(Status::CURSOR_EXISTS);
                self.enter(if opened { Then::Done } else { then });
                Result::Ok(Some(if opened { Next::Eof { length } } else { Next::ColumnsEnd { length } }))
            }
            (State::Rows, _) if self.deprecate_eof => self.ok(payload).map(Some),
            (State::Rows, _) => {
                let eof = Eof::decode(payload)?;
                self.end_of_result(eof.status);
                Result::Ok(Some(Next::Eof { length }))
            }
            (State::Definitions { .. } | State::Done, _) => {
                Result::Err(Malformed("unexpected packet in a response"))
            }
        }
    }

    /// The first packet of a result.
    fn first(&mut self, first: u8, payload: &[u8]) -> Result<Option<Next>, Malformed> {
        let length = HEADER_LENGTH + payload.len();
        match first {
            Ok::HEADER => self.ok(payload).map(Some),
            0xFB => Result::Ok(Some(Next::LocalInfile { length })),
            // An OK packet takes the place of the EOF packet.
            Eof::HEADER if self.deprecate_eof => self.ok(payload).map(Some),
            Eof::HEADER if payload.len() < 9 => {
                self.end_of_result(Eof::decode(payload)?.status);
                Result::Ok(Some(Next::Eof { length }))
            }
            _ => {
                let columns = Reader::new(payload).lenenc_int()?;
                if columns == 0 {
                    return Result::Err(Malformed("a result set without columns"));
                }
                self.columns = columns;
                self.state = State::Definitions { left: columns, then: Then::Rows };
                Result::Ok(None)
            }
        }
    }

    /// An OK packet, which ends a result.
    fn ok(&mut self, payload: &[u8]) -> Result<Next, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        reader.lenenc_int()?;
        reader.lenenc_int()?;
        self.end_of_result(Status(reader.u16()?));
        Result::Ok(Next::Ok { length: HEADER_LENGTH + payload.len() })
    }

    fn prepare_ok(&mut self, payload: &[u8]) -> Result<Next, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        reader.u32()?;
        let columns: u64 = reader.u16()?.into();
        let params: u64 = reader.u16()?.into();
        let columns = if columns == 0 { Then::Done } else { Then::Definitions(columns) };
        self.enter(if params == 0 { columns } else { Then::Definitions(params) });
        if params > 0
            && let State::Definitions { then, .. } = &mut self.state
        {
            *then = columns;
        }
        Result::Ok(Next::PrepareOk { length: HEADER_LENGTH + payload.len() })
    }

    fn end_of_result(&mut self, status: Status) {
        let several = matches!(self.expect, Expect::Result | Expect::Cursor);
        let announced = std::mem::take(&mut self.more_announced);
        let more = several && (announced || status.contains(Status::MORE_RESULTS_EXISTS));
        self.state = if more { State::First } else { State::Done };
    }

    fn enter(&mut self, then: Then) {
        self.state = match then {
            Then::Rows => State::Rows,
            Then::Definitions(left) => State::Definitions { left, then: Then::Done },
            Then::Done => State::Done,
        };
    }
}

#[cfg(test)]
mod tests;
