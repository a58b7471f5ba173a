//! Answers built in advance: the mock server copies them and computes nothing.
//!
//! An answer depends on three bits of its connection ([`Variant`]), so there are eight sets of them. A large result is
//! one block of rows written over and over: sequence numbers repeat every 256 packets, so a block whose number of equal
//! rows is a multiple of 256 can be started at any row and repeated forever.

use crate::codec::{HEADER, put_lenenc_string, put_packet};

/// Status flags, by their names in the manual.
const STATUS_IN_TRANS: u16 = 1;
const STATUS_AUTOCOMMIT: u16 = 2;
const STATUS_SESSION_STATE_CHANGED: u16 = 1 << 14;

/// Bytes of the string in a point select's row: sysbench's column `c`.
const POINT_BYTES: usize = 120;
/// Bytes of a row of a large result, header included.
pub const ROW_BYTES: usize = 200;
/// Rows of the repeated block: 200 KB, which stay in the second-level cache and are enough for one write.
const BLOCK_ROWS: usize = 4 * 256;

/// The properties of a connection that its answers depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variant {
    /// Results end with an OK packet and have no EOF after the columns.
    pub deprecate_eof: bool,
    /// `SET autocommit=0` was received.
    pub autocommit_off: bool,
    /// A transaction is open.
    pub in_transaction: bool,
}

impl Variant {
    /// The status flags of an answer.
    pub fn status(self) -> u16 {
        let autocommit = if self.autocommit_off { 0 } else { STATUS_AUTOCOMMIT };
        let transaction = if self.in_transaction { STATUS_IN_TRANS } else { 0 };
        autocommit | transaction
    }

    fn index(self) -> usize {
        usize::from(self.deprecate_eof)
            | usize::from(self.autocommit_off) << 1
            | usize::from(self.in_transaction) << 2
    }

    fn from_index(index: usize) -> Variant {
        Variant {
            deprecate_eof: index & 1 != 0,
            autocommit_off: index & 2 != 0,
            in_transaction: index & 4 != 0,
        }
    }
}

/// The answers of one [`Variant`].
#[derive(Debug)]
pub struct Set {
    /// OK.
    pub ok: Vec<u8>,
    /// The end of a result without the result: the answer to COM_SET_OPTION.
    pub end: Vec<u8>,
    /// The point select: one row of one string.
    pub point: Vec<u8>,
    /// The same as the answer to COM_STMT_EXECUTE.
    pub point_binary: Vec<u8>,
    /// The answer to COM_STMT_PREPARE: one parameter, one column.
    pub prepared: Vec<u8>,
    /// Any other `SELECT` or `SHOW`: one row, `1`.
    pub small: Vec<u8>,
    /// A healthy node of a Galera cluster.
    pub node: Vec<u8>,
    /// What precedes the rows of a large result.
    pub rows_head: Vec<u8>,
    /// Sequence number of the first of those rows.
    pub first_row: u8,
}

/// All the answers.
#[derive(Debug)]
pub struct Answers {
    sets: Vec<Set>,
    block: Vec<u8>,
}

impl Answers {
    /// Builds them.
    pub fn new() -> Answers {
        let mut block = Vec::with_capacity(BLOCK_ROWS * ROW_BYTES);
        for row in 0..BLOCK_ROWS {
            let sequence = (row % 256) as u8;
            put_packet(&mut block, sequence, |out| put_lenenc_string(out, &[b'r'; ROW_BYTES - HEADER - 1]));
        }
        Answers { sets: (0..8).map(|index| Set::new(Variant::from_index(index))).collect(), block }
    }

    /// The answers for connections of this variant.
    pub fn of(&self, variant: Variant) -> &Set {
        &self.sets[variant.index()]
    }

    /// The rows from byte `position` of the endless repetition to the end of the block.
    pub fn block_from(&self, position: usize) -> &[u8] {
        &self.block[position % self.block.len()..]
    }
}

impl Set {
    fn new(variant: Variant) -> Set {
        let mut ok = Vec::new();
        put_packet(&mut ok, 1, |out| write_ok(out, variant.status()));
        let mut end = Vec::new();
        put_end(&mut end, 1, variant);
        let (mut rows_head, first_row) = head(variant, "rows");
        rows_head.shrink_to_fit();
        Set {
            ok,
            end,
            point: one_row(variant, &[], &[b'c'; POINT_BYTES]),
            // The row's header, and no column that is NULL.
            point_binary: one_row(variant, &[0, 0], &[b'c'; POINT_BYTES]),
            prepared: prepared(variant),
            small: one_row(variant, &[], b"1"),
            node: node(variant),
            rows_head,
            first_row,
        }
    }
}

fn one_row(variant: Variant, row_head: &[u8], value: &[u8]) -> Vec<u8> {
    let (mut bytes, sequence) = head(variant, "sbtest1");
    put_packet(&mut bytes, sequence, |out| {
        out.extend_from_slice(row_head);
        put_lenenc_string(out, value);
    });
    put_end(&mut bytes, sequence.wrapping_add(1), variant);
    bytes
}

/// The status and the variables of a healthy node of a Galera cluster, each a row of two columns.
fn node(variant: Variant) -> Vec<u8> {
    const VALUES: [(&str, &str); 10] = [
        ("WSREP_LOCAL_STATE", "4"),
        ("WSREP_CLUSTER_STATUS", "Primary"),
        ("WSREP_LOCAL_RECV_QUEUE", "0"),
        ("WSREP_CLUSTER_SIZE", "5"),
        ("WSREP_CLUSTER_CONF_ID", "5"),
        ("WSREP_CLUSTER_STATE_UUID", "3c8f9a52-7b1e-4d0a-9c55-6d7f0e2b1a44"),
        ("WSREP_DESYNC", "OFF"),
        ("WSREP_REJECT_QUERIES", "NONE"),
        ("WSREP_SST_DONOR_REJECTS_QUERIES", "OFF"),
        ("READ_ONLY", "OFF"),
    ];
    let mut bytes = Vec::new();
    put_packet(&mut bytes, 1, |out| out.push(2));
    let mut sequence = 2;
    for _ in 0..2 {
        put_packet(&mut bytes, sequence, |out| write_column(out, "GLOBAL_STATUS"));
        sequence += 1;
    }
    if !variant.deprecate_eof {
        put_end(&mut bytes, sequence, variant);
        sequence += 1;
    }
    for (name, value) in VALUES {
        put_packet(&mut bytes, sequence, |out| {
            put_lenenc_string(out, name.as_bytes());
            put_lenenc_string(out, value.as_bytes());
        });
        sequence += 1;
    }
    put_end(&mut bytes, sequence, variant);
    bytes
}

fn prepared(variant: Variant) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Statement 1, one column, one parameter, no warnings.
    put_packet(&mut bytes, 1, |out| out.extend_from_slice(&[0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]));
    let mut sequence = 2;
    for table in ["", "sbtest1"] {
        put_packet(&mut bytes, sequence, |out| write_column(out, table));
        sequence += 1;
        if !variant.deprecate_eof {
            put_end(&mut bytes, sequence, variant);
            sequence += 1;
        }
    }
    bytes
}

/// Column count, one column and, if the variant has it, the EOF after it; and the next sequence number.
fn head(variant: Variant, table: &str) -> (Vec<u8>, u8) {
    let mut bytes = Vec::new();
    put_packet(&mut bytes, 1, |out| out.push(1));
    put_packet(&mut bytes, 2, |out| write_column(out, table));
    if variant.deprecate_eof {
        return (bytes, 3);
    }
    put_end(&mut bytes, 3, variant);
    (bytes, 4)
}

fn write_column(out: &mut Vec<u8>, table: &str) {
    for text in ["def", "sbtest", table, table, "c", "c"] {
        put_lenenc_string(out, text.as_bytes());
    }
    out.push(0x0C);
    out.extend_from_slice(&45u16.to_le_bytes());
    out.extend_from_slice(&800u32.to_le_bytes());
    // Type VAR_STRING, flags NOT_NULL, no decimals, filler.
    out.extend_from_slice(&[0xFD, 1, 0, 0, 0, 0]);
}

/// Appends the packet that ends a list: EOF, or an OK packet with the same first byte.
pub fn put_end(out: &mut Vec<u8>, sequence: u8, variant: Variant) {
    let status = variant.status().to_le_bytes();
    put_packet(out, sequence, |out| {
        if variant.deprecate_eof {
            out.extend_from_slice(&[0xFE, 0, 0, status[0], status[1], 0, 0]);
        } else {
            out.extend_from_slice(&[0xFE, 0, 0, status[0], status[1]]);
        }
    });
}

/// Writes the payload of an OK that changed nothing. Its empty text takes no bytes, with SESSION_TRACK or without.
pub fn write_ok(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(&[0, 0, 0]);
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// Writes the payload of an OK that reports a new default schema in the format of SESSION_TRACK.
pub fn write_ok_schema(out: &mut Vec<u8>, status: u16, schema: &[u8]) {
    const TRACK_SCHEMA: u8 = 1;
    write_ok(out, status | STATUS_SESSION_STATE_CHANGED);
    let mut name = Vec::new();
    put_lenenc_string(&mut name, schema);
    let mut report = vec![TRACK_SCHEMA];
    put_lenenc_string(&mut report, &name);
    out.push(0);
    put_lenenc_string(out, &report);
}
