//! What a connection still keeps for its last client, and how that client gets it when somebody else leases the
//! connection.
//!
//! `LAST_INSERT_ID()` and the warnings of a statement live on the connection that ran it. They are rarely read, and
//! mostly at once, while nobody else has used the connection. So nothing is fetched in advance: the next client that
//! leases the connection fetches them first, in the round trip that aligns the connection, and passes them to the
//! client they belong to. In the same round trip it replaces them on the connection by the values of a new session, so
//! that no statement of another client, whatever it asks, ever finds them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use narrows_wire::charset::Family;
use narrows_wire::frame::MAX_PAYLOAD;
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Reader, Tracker};

use super::ask::{AnswerLimit, LONGEST_ANSWER, cell_bytes};
use super::{Backend, BackendError, InsertIdBefore, Login};
use crate::buffer::Buffer;
use crate::packets::{payload, read_packet};
use crate::rt::{Notify, timeout};

/// On the connection: what it keeps, and for which client.
#[derive(Debug)]
pub struct Uncollected {
    owner: Weak<DiagnosticsReceiver>,
    kinds: Kinds,
    /// `LAST_INSERT_ID()` may differ from 0, whether or not its owner will ask for it.
    sets_insert_id: bool,
    /// There may be warnings and errors, whether or not its owner will ask for them.
    has_conditions: bool,
}

/// What may be read later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// `LAST_INSERT_ID()`.
    pub insert_id: bool,
    /// `SHOW WARNINGS`.
    pub diagnostics: bool,
    /// `FOUND_ROWS()` of a statement whose answer does not show it.
    pub found_rows: bool,
}

/// With the client: what others have fetched for it.
#[derive(Debug, Default)]
pub struct DiagnosticsReceiver {
    /// Its owner waits for it.
    is_asked_for: AtomicBool,
    /// Where the connection is: 0 on the worker of its owner, or else one more than the worker's number.
    place: AtomicUsize,
    collected: OnceLock<Collected>,
    arrived: Notify,
}

/// What was fetched. `None` if it was not requested, or lost with the connection.
#[derive(Debug, Default)]
pub struct Collected {
    /// `LAST_INSERT_ID()`.
    pub insert_id: InsertId,
    /// `FOUND_ROWS()`.
    pub found_rows: Option<u64>,
    /// The rows of `SHOW WARNINGS`, one packet's payload each, its columns' definitions before them.
    pub warnings: Option<ResultSet>,
}

/// A connection's value of `LAST_INSERT_ID()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InsertId {
    /// It was not read, or is lost.
    #[default]
    Lost,
    /// This.
    Is(u64),
    /// The 0 from before the client used the connection: the client has not set it there.
    Unchanged,
}

/// What is asked of a connection, and cleared on it, before another client uses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    asked: Kinds,
    clears_insert_id: bool,
    clears_conditions: bool,
}

/// Clears a server's warnings. MariaDB does so only for statements that read a table.
pub const CLEAR_CONDITIONS: &str = "DO (SELECT 1 FROM (SELECT 1) t)";

/// A result set as received.
#[derive(Debug, Default)]
pub struct ResultSet {
    /// Payloads of the column definitions.
    pub columns: Vec<Vec<u8>>,
    /// Payloads of the rows.
    pub rows: Vec<Vec<u8>>,
}

impl Kinds {
    /// Whether there is nothing to fetch.
    pub fn is_empty(self) -> bool {
        self == Kinds::default()
    }
}

impl Uncollected {
    /// What the connection keeps for the client that has `receiver`.
    pub fn new(receiver: &Arc<DiagnosticsReceiver>, kinds: Kinds) -> Uncollected {
        Uncollected {
            owner: Arc::downgrade(receiver),
            kinds,
            sets_insert_id: kinds.insert_id,
            has_conditions: kinds.diagnostics,
        }
    }

    /// Nothing that anybody will ask for.
    fn of_nobody() -> Uncollected {
        Uncollected {
            owner: Weak::new(),
            kinds: Kinds::default(),
            sets_insert_id: false,
            has_conditions: false,
        }
    }

    /// The client that it is kept for has the connection again, and takes these back. The rest is only cleared.
    pub fn without(self, taken: Kinds) -> Option<Uncollected> {
        let sets_insert_id = self.sets_insert_id && !taken.insert_id;
        let has_conditions = self.has_conditions && !taken.diagnostics;
        (sets_insert_id || has_conditions).then(|| Uncollected {
            owner: Weak::new(),
            kinds: Kinds::default(),
            sets_insert_id,
            has_conditions,
        })
    }

    /// What is kept later is cleared with it.
    pub fn includes(&mut self, earlier: &Uncollected) {
        self.sets_insert_id |= earlier.sets_insert_id;
        self.has_conditions |= earlier.has_conditions;
    }

    /// Whether `LAST_INSERT_ID()` may differ from 0.
    pub fn sets_insert_id(&self) -> bool {
        self.sets_insert_id
    }

    /// Whether `receiver` is its receiver.
    pub fn is_of(&self, receiver: &Arc<DiagnosticsReceiver>) -> bool {
        std::ptr::eq(self.owner.as_ptr(), Arc::as_ptr(receiver))
    }

    /// Whether anything must be cleared for the next client.
    pub fn is_clean(&self) -> bool {
        !self.sets_insert_id && !self.has_conditions
    }

    /// Whether its owner is still connected.
    pub fn is_wanted(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// The connection goes to another worker.
    pub fn moves_to(&self, worker: usize) {
        if let Some(receiver) = self.owner.upgrade() {
            receiver.place.store(worker + 1, Ordering::SeqCst);
        }
    }

    /// Whether its owner waits for it.
    pub fn is_asked_for(&self) -> bool {
        self.owner.upgrade().is_some_and(|receiver| receiver.is_asked_for.load(Ordering::SeqCst))
    }
}

impl Drop for Uncollected {
    /// What a closed connection kept is lost; its owner must not wait for it.
    fn drop(&mut self) {
        if let Some(receiver) = self.owner.upgrade() {
            receiver.deliver(Collected::default());
        }
    }
}

impl DiagnosticsReceiver {
    /// Its owner, on worker `own`, waits for it: the worker that must be notified of that, once; the client that has
    /// the connection after that knows it from here.
    pub fn ask(&self, own: usize) -> Option<usize> {
        // First this and then the place; who moves the connection does it the other way round. One of the two sees the other.
        if self.is_asked_for.swap(true, Ordering::SeqCst) {
            return None;
        }
        Some(self.place.load(Ordering::SeqCst).checked_sub(1).unwrap_or(own))
    }

    fn deliver(&self, collected: Collected) {
        // Only the first one counts: an `Uncollected` is dropped after its answers were delivered.
        let _ = self.collected.set(collected);
        self.arrived.notify_one();
    }

    /// The values, if they have arrived.
    pub fn arrived(&self) -> Option<&Collected> {
        self.collected.get()
    }

    /// Whether the values have arrived.
    pub fn has_arrived(&self) -> bool {
        self.arrived().is_some()
    }

    /// Waits until the values have arrived; `None` after `limit`.
    pub async fn collected(&self, limit: Duration) -> Option<&Collected> {
        if self.collected.get().is_none() {
            // Whether they arrived in time is checked below.
            let _ = timeout(limit, self.arrived.notified()).await;
        }
        self.collected.get()
    }
}

impl Backend {
    /// What is sent to a connection for its next client: the queries for what it keeps, and the statements that clear it.
    fn departure(uncollected: &Uncollected) -> Departure {
        let asked = if uncollected.is_wanted() { uncollected.kinds } else { Kinds::default() };
        Departure {
            asked,
            clears_insert_id: uncollected.sets_insert_id && !asked.insert_id,
            clears_conditions: uncollected.has_conditions,
        }
    }

    /// Appends them. Warnings come first, because the other queries clear them; `FOUND_ROWS()` and `LAST_INSERT_ID()` survive
    /// `SHOW WARNINGS`.
    pub(super) fn put_departure(&self, out: &mut Vec<u8>, uncollected: &Uncollected) -> Departure {
        let departure = Backend::departure(uncollected);
        if departure.asked.diagnostics {
            self.put_query(out, "SHOW WARNINGS");
        }
        if departure.asked.found_rows {
            self.put_query(out, one_row("FOUND_ROWS()"));
        }
        if departure.asked.insert_id {
            self.put_query(out, one_row("LAST_INSERT_ID(), LAST_INSERT_ID(0)"));
        }
        if departure.clears_insert_id {
            // Unlike an assignment, it is not reported as a change of the session.
            self.put_query(out, "DO LAST_INSERT_ID(0)");
        }
        if departure.clears_conditions {
            self.put_query(out, CLEAR_CONDITIONS);
        }
        departure
    }

    /// Reads the answers, and passes them to the owner of what was kept.
    pub(super) async fn deliver_answers(
        &mut self,
        buffer: &mut Buffer,
        departure: Departure,
        uncollected: Uncollected,
    ) -> Result<(), BackendError> {
        let mut collected = Collected::default();
        if departure.asked.diagnostics {
            collected.warnings = Some(self.result_set(buffer).await?);
        }
        if departure.asked.found_rows {
            collected.found_rows = number(&self.result_set(buffer).await?);
        }
        if departure.asked.insert_id {
            let now = number(&self.result_set(buffer).await?);
            collected.insert_id = match now {
                // No insert generates it.
                Some(0) if self.login.insert_id_before == InsertIdBefore::Zero => InsertId::Unchanged,
                Some(now) => InsertId::Is(now),
                // Then it has not been cleared, either.
                None => return Err(narrows_wire::Malformed("no row with LAST_INSERT_ID()").into()),
            };
        }
        if departure.clears_insert_id {
            self.answer(buffer).await?;
        }
        if departure.clears_conditions {
            self.answer(buffer).await?;
            self.login.has_conditions = false;
        }
        if uncollected.sets_insert_id {
            self.login.insert_id_before = InsertIdBefore::Zero;
            self.login.has_insert_id = false;
        }
        if let Some(receiver) = uncollected.owner.upgrade() {
            receiver.deliver(collected);
        }
        Ok(())
    }

    /// Reads one result set that is small by its nature.
    pub(super) async fn result_set(&self, buffer: &mut Buffer) -> Result<ResultSet, BackendError> {
        self.bounded_result_set(buffer, &LONGEST_ANSWER).await
    }

    /// The same, if the answer has no more bytes than that.
    pub(super) async fn bounded_result_set(
        &self,
        buffer: &mut Buffer,
        most: &AnswerLimit,
    ) -> Result<ResultSet, BackendError> {
        let deprecate_eof = self.login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut tracker = Tracker::new(Expect::Result, deprecate_eof);
        let mut set = ResultSet::default();
        let (mut in_rows, mut bytes) = (false, 0);
        while !tracker.is_done() {
            // Packet by packet, so that each skipped packet is one definition or one row.
            let header = read_packet(&self.stream, buffer, MAX_PAYLOAD).await?;
            let length = header.packet_length();
            let walk = tracker.walk(buffer.filled_mut().get_mut(..length).unwrap_or_default())?;
            match walk.next {
                Next::Err { .. } => {
                    self.answer(buffer).await?;
                }
                Next::PrepareOk { .. } | Next::Text { .. } | Next::LocalInfile { .. } => {
                    return Err(narrows_wire::Malformed("not a result set").into());
                }
                Next::Ok { .. } => self.login.note_news(payload(buffer, header))?,
                Next::More { .. } | Next::ColumnsEnd { .. } | Next::Eof { .. } => {}
            }
            bytes += length;
            if bytes > most.bytes {
                return Err(narrows_wire::Malformed(most.error).into());
            }
            if walk.passed > 0 {
                let list = if in_rows { &mut set.rows } else { &mut set.columns };
                list.push(payload(buffer, header).to_vec());
            }
            in_rows |= matches!(walk.next, Next::ColumnsEnd { .. });
            buffer.consume(length);
        }
        // The column count came first and is not a definition.
        set.columns.drain(..1.min(set.columns.len()));
        Ok(set)
    }
}

impl Login {
    /// The connection leaves its client: what must be cleared before another one has it is marked, also what its client does
    /// not need.
    #[inline]
    pub fn mark_leftovers(&mut self) {
        if self.has_insert_id || self.has_conditions {
            let uncollected = self.uncollected.get_or_insert_with(Uncollected::of_nobody);
            uncollected.sets_insert_id |= self.has_insert_id;
            uncollected.has_conditions |= self.has_conditions;
        }
    }
}

impl Backend {
    /// The value of `LAST_INSERT_ID()` here.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn insert_id(&self, limit: Duration) -> Result<Option<u64>, BackendError> {
        self.number("LAST_INSERT_ID()", limit).await
    }

    /// Errors of the last statement.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn error_count(&self, limit: Duration) -> Result<Option<u64>, BackendError> {
        self.number("@@error_count", limit).await
    }

    /// Whether a role may be active that a login does not set: MariaDB keeps roles across `COM_CHANGE_USER`.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn may_have_role(&self, limit: Duration) -> Result<bool, BackendError> {
        match self.login.family {
            Family::MySql => Ok(false),
            Family::MariaDb => Ok(self.number("CURRENT_ROLE() IS NOT NULL", limit).await? != Some(0)),
        }
    }

    /// The server's `max_prepared_stmt_count`.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn prepared_limit(&self, limit: Duration) -> Result<Option<u64>, BackendError> {
        self.number("@@GLOBAL.max_prepared_stmt_count", limit).await
    }

    /// Runs statements for what they leave, and drops their answers, which may be errors.
    ///
    /// # Errors
    /// If the connection is lost, or there is no answer within `limit`.
    pub async fn prepare_values(&self, statements: &[String], limit: Duration) -> Result<(), BackendError> {
        let mut out = Vec::with_capacity(256);
        for statement in statements {
            self.put_query(&mut out, statement);
        }
        let run = async {
            self.stream.write_all(&out).await?;
            let mut buffer = Buffer::default();
            for _ in statements {
                match self.result_set(&mut buffer).await {
                    Ok(_) | Err(BackendError::Server(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        timeout(limit, run).await.unwrap_or(Err(BackendError::Timeout))
    }

    async fn number(&self, expression: &str, limit: Duration) -> Result<Option<u64>, BackendError> {
        Ok(number(&self.answer_to(&one_row(expression), limit, &LONGEST_ANSWER).await?))
    }

    /// What `SHOW WARNINGS` shows here.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn warnings(&self, limit: Duration) -> Result<ResultSet, BackendError> {
        self.answer_to("SHOW WARNINGS", limit, &LONGEST_ANSWER).await
    }

    /// The session's schema; empty: it has none.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn schema(&self, limit: Duration) -> Result<Vec<u8>, BackendError> {
        let set = self.answer_to(&one_row("CAST(DATABASE() AS BINARY)"), limit, &LONGEST_ANSWER).await?;
        let row = set.rows.first().ok_or(narrows_wire::Malformed("no row with DATABASE()"))?;
        if row.is_empty() {
            return Ok(Vec::new());
        }
        Ok(cell_bytes(&mut Reader::new(row))?.unwrap_or_default().to_vec())
    }

    /// The session's values of some variables; `None`: NULL.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub async fn variables(
        &self,
        names: &[String],
        limit: Duration,
    ) -> Result<Vec<(String, Option<Vec<u8>>)>, BackendError> {
        // Whatever the character sets of the session: a binary string is not converted to that of results, and a number is
        // written in that of the connection.
        let column = |name: &String| format!("CAST(CONVERT(@@session.{name} USING utf8mb4) AS BINARY)");
        let columns: Vec<String> = names.iter().map(column).collect();
        let set = self.answer_to(&one_row(&columns.join(", ")), limit, &LONGEST_ANSWER).await?;
        // A server that tells nothing leaves them unknown.
        let Some(row) = set.rows.first() else { return Ok(Vec::new()) };
        let mut reader = Reader::new(row);
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            values.push((name.clone(), cell_bytes(&mut reader)?.map(<[u8]>::to_vec)));
        }
        Ok(values)
    }
}

/// A question of our own with one row for an answer, whatever the session has set that is asked: a limit of its own is not that of
/// `sql_select_limit`. Text must be cast, so that it is not converted to the session's character set.
pub(super) fn one_row(expressions: &str) -> String {
    format!("SELECT {expressions} LIMIT 1")
}

/// The number in the only row of a result set.
fn number(set: &ResultSet) -> Option<u64> {
    let row = set.rows.first()?;
    let text = Reader::new(row).lenenc_bytes().ok()?;
    // In a character set of two bytes or four, MariaDB writes numbers with bytes of zero between their digits.
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_keeps_is_asked_for_once_where_the_connection_is() {
        let own = 3;
        let left_here = DiagnosticsReceiver::default();
        assert_eq!([left_here.ask(own), left_here.ask(own)], [Some(own), None]);
        let lent = Arc::new(DiagnosticsReceiver::default());
        let uncollected = Uncollected::new(&lent, Kinds { insert_id: true, ..Kinds::default() });
        uncollected.moves_to(0);
        assert_eq!([lent.ask(own), lent.ask(own)], [Some(0), None]);
    }

    #[test]
    fn who_gets_a_connection_knows_that_its_owner_waits() {
        let receiver = Arc::new(DiagnosticsReceiver::default());
        let uncollected = Uncollected::new(&receiver, Kinds::default());
        assert!(!uncollected.is_asked_for());
        // The message goes to worker 0, which has lent the connection by then.
        assert_eq!(receiver.ask(0), Some(0));
        uncollected.moves_to(1);
        assert!(uncollected.is_asked_for());
        drop(receiver);
        assert!(!uncollected.is_asked_for(), "nobody waits any more");
    }
}
