//! Words that have a meaning anywhere in a statement, in their [`packed`] form.

use crate::token::packed;

pub(super) const AGAINST: u64 = packed(b"AGAINST");
pub(super) const AS: u64 = packed(b"AS");
pub(super) const CALL: u64 = packed(b"CALL");
pub(super) const COLUMNS: u64 = packed(b"COLUMNS");
pub(super) const CREATE: u64 = packed(b"CREATE");
pub(super) const DELETE: u64 = packed(b"DELETE");
pub(super) const DROP: u64 = packed(b"DROP");
pub(super) const DUMPFILE: u64 = packed(b"DUMPFILE");
pub(super) const EXISTS: u64 = packed(b"EXISTS");
pub(super) const EXECUTE: u64 = packed(b"EXECUTE");
pub(super) const FOR: u64 = packed(b"FOR");
pub(super) const FROM: u64 = packed(b"FROM");
pub(super) const IN: u64 = packed(b"IN");
pub(super) const INDEX: u64 = packed(b"INDEX");
pub(super) const INSERT: u64 = packed(b"INSERT");
pub(super) const INTO: u64 = packed(b"INTO");
pub(super) const KEY: u64 = packed(b"KEY");
pub(super) const KILL: u64 = packed(b"KILL");
pub(super) const LIMIT: u64 = packed(b"LIMIT");
pub(super) const LOCK: u64 = packed(b"LOCK");
pub(super) const NEXT: u64 = packed(b"NEXT");
pub(super) const OFFSET: u64 = packed(b"OFFSET");
pub(super) const OUTFILE: u64 = packed(b"OUTFILE");
pub(super) const PREPARE: u64 = packed(b"PREPARE");
pub(super) const PREVIOUS: u64 = packed(b"PREVIOUS");
pub(super) const REPLACE: u64 = packed(b"REPLACE");
pub(super) const SELECT: u64 = packed(b"SELECT");
pub(super) const SHARE: u64 = packed(b"SHARE");
pub(super) const TABLE: u64 = packed(b"TABLE");
pub(super) const UPDATE: u64 = packed(b"UPDATE");
pub(super) const VALUE: u64 = packed(b"VALUE");
pub(super) const WITH: u64 = packed(b"WITH");
