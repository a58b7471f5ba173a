//! What one process has left to the next of a connection, and whether that can honestly be gone on with.

use std::sync::atomic::Ordering::Relaxed;

use narrows_wire::Capabilities;
use narrows_wire::auth::Nonce;

use super::slot_table::{AREA, BYTES, INSERTED, MOST_RUNS, NOWHERE, ONE_TRY, Phase, SLOT, Slot, TRIES};
use super::socket_info::ByteCounts;

/// What a client was greeted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentGreeting {
    /// What Narrows calls the connection.
    pub id: u32,
    /// The challenge.
    pub nonce: Nonce,
    /// What was offered.
    pub offered: Capabilities,
}

/// What the client has had of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Nothing: it is to be sent.
    Wanted,
    /// All of it, until the login is through.
    AllButTheEnd,
    /// So many bytes of it.
    Had(u64),
}

/// How the former process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Somebody has killed it.
    Killed,
    /// It may have been a command that did it: none runs again.
    Itself,
}

/// Why nobody can go on with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// A command runs that may not run again, or something is tied to the former process: a transaction, a prepared statement, TLS.
    Tied,
    /// The client has a part of an answer.
    HalfAnswered,
    /// What the client has sent, or has had, is not known.
    Uncounted,
    /// Its command may be what the former process has died of, or was under way in too many processes that were killed.
    Suspect,
    /// The socket cannot be used.
    Socket,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str(match self {
            Loss::Tied => "tied to the process",
            Loss::HalfAnswered => "answered in part",
            Loss::Uncounted => "not counted",
            Loss::Suspect => "suspect",
            Loss::Socket => "no socket",
        })
    }
}

/// A connection that is gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredClient {
    /// `None`: it was not greeted yet.
    pub sent_greeting: Option<SentGreeting>,
    /// Bytes of the greeting.
    pub(super) greeting: u32,
    /// What the client has sent to log in.
    pub login: Vec<u8>,
    /// What it has had of the answer.
    pub output: Output,
    pub(super) read: u64,
    pub(super) written: u64,
    /// What is under way was under way in so many other processes before ([`TRIES`]).
    pub(super) tried: u32,
    /// The session; `None`: the client was logging in.
    pub session: Option<RestoredSession>,
}

/// A session that is gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSession {
    /// Its state, as it was written down.
    pub state: Vec<u8>,
    /// Status flags of the last answer.
    pub status: u16,
    /// What the client has sent and was not answered.
    pub pending: Vec<u8>,
    /// Whether `LAST_INSERT_ID()` may be another than 0.
    pub inserted: bool,
    /// Whether statements have run, which others may ask about.
    pub used: bool,
}

impl RestoredClient {
    /// A connection of which nothing was said or heard.
    pub fn fresh() -> RestoredClient {
        RestoredClient {
            sent_greeting: None,
            greeting: 0,
            login: Vec::new(),
            output: Output::Wanted,
            read: 0,
            written: 0,
            tried: 0,
            session: None,
        }
    }

    /// Whether the client waits for something that the former process may have died of.
    pub(super) fn is_under_way(&self) -> bool {
        match &self.session {
            Some(session) => !session.pending.is_empty(),
            None => !self.login.is_empty(),
        }
    }

    /// What is to become of a connection of which this is known. `area` is what was read of the command at hand, where there is
    /// one.
    ///
    /// # Errors
    /// It cannot be gone on with, and is closed.
    pub fn of(
        slot: &[u8],
        area: Option<&[u8]>,
        counts: Option<ByteCounts>,
        cause: Cause,
    ) -> Result<RestoredClient, Loss> {
        let slot = View::of(slot).ok_or(Loss::Uncounted)?;
        let counts = match counts {
            Some(counts) => counts,
            None if slot.transfers == 0 => ByteCounts { read: slot.read, written: slot.written },
            None => return Err(Loss::Uncounted),
        };
        let runs_again = slot.may_run_again(counts);
        let session = |resume| slot.session(counts, resume, area).ok_or(Loss::Uncounted);
        let mut restored = match slot.phase {
            Phase::Login => slot.login(counts).ok_or(Loss::HalfAnswered)?,
            Phase::Idle if counts.written == slot.written => session(slot.resume)?,
            _ if runs_again => session(slot.resume)?,
            Phase::Answered if counts.written == slot.mark => session(slot.next)?,
            Phase::Lost | Phase::Busy | Phase::Writing => return Err(Loss::Tied),
            Phase::Idle | Phase::Running | Phase::Answering | Phase::Answered => {
                return Err(Loss::HalfAnswered);
            }
        };
        if !restored.is_under_way() {
            return Ok(restored);
        }
        // What comes after an answer was not under way before.
        let is_next = slot.phase == Phase::Answered && !runs_again;
        let tried = if is_next { 0 } else { slot.flags & TRIES };
        let most = if runs_again { MOST_RUNS } else { TRIES };
        restored.tried = tried + ONE_TRY;
        let may_run = cause == Cause::Killed && restored.tried < most;
        may_run.then_some(restored).ok_or(Loss::Suspect)
    }
}

/// A slot that nobody changes any more.
struct View {
    phase: Phase,
    flags: u32,
    id: u32,
    read: u64,
    written: u64,
    before: u64,
    mark: u64,
    resume: u64,
    next: u64,
    base: u64,
    offered: u64,
    greeting: u32,
    login: u32,
    state: u32,
    status: u32,
    transfers: u32,
    nonce: Nonce,
    bytes: Vec<u8>,
}

impl View {
    fn of(bytes: &[u8]) -> Option<View> {
        let bytes: &[u8; SLOT] = bytes.try_into().ok()?;
        // SAFETY: there are as many bytes as a slot has, and any bytes are a slot: it has numbers only.
        let slot: Slot = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        Some(View {
            phase: slot.phase(),
            flags: slot.flags(),
            id: slot.id.load(Relaxed),
            read: slot.read.load(Relaxed),
            written: slot.written.load(Relaxed),
            before: slot.before.load(Relaxed),
            mark: slot.mark.load(Relaxed),
            resume: slot.resume.load(Relaxed),
            next: slot.next.load(Relaxed),
            base: if slot.area.load(Relaxed) == 0 { NOWHERE } else { slot.base.load(Relaxed) },
            offered: slot.offered.load(Relaxed),
            greeting: slot.greeting.load(Relaxed),
            login: slot.login.load(Relaxed),
            state: slot.state.load(Relaxed),
            status: slot.status.load(Relaxed),
            transfers: slot.transfers.load(Relaxed),
            nonce: slot.nonce.into_inner(),
            bytes: slot.bytes.into_inner().to_vec(),
        })
    }

    /// Whether a read was under way of whose answer the client has nothing. It may have been ready, even announced: until its first
    /// byte is written the read can run once more.
    fn may_run_again(&self, counts: ByteCounts) -> bool {
        matches!(self.phase, Phase::Running | Phase::Answering | Phase::Answered)
            && counts.written == self.before
    }

    fn sent_greeting(&self) -> SentGreeting {
        SentGreeting { id: self.id, nonce: self.nonce, offered: Capabilities(self.offered) }
    }

    fn login(&self, counts: ByteCounts) -> Option<RestoredClient> {
        let read = usize::try_from(counts.read).ok().filter(|read| *read <= BYTES)?;
        let login = self.bytes.get(..read)?.to_vec();
        let begun = RestoredClient { login, read: counts.read, ..RestoredClient::fresh() };
        if counts.written == 0 {
            return Some(begun);
        }
        let had = counts.written.checked_sub(self.greeting.into()).filter(|_| self.greeting > 0)?;
        Some(RestoredClient {
            sent_greeting: Some(self.sent_greeting()),
            greeting: self.greeting,
            output: if had == 0 { Output::Wanted } else { Output::Had(had) },
            written: counts.written,
            ..begun
        })
    }

    /// A session whose next command begins after so many bytes.
    fn session(&self, counts: ByteCounts, resume: u64, area: Option<&[u8]>) -> Option<RestoredClient> {
        let place = |position: u64| usize::try_from(position.checked_sub(self.base)?).ok();
        let pending = match counts.read.checked_sub(resume)? {
            0 => Vec::new(),
            _ => area?.get(place(resume)?..place(counts.read)?)?.to_vec(),
        };
        debug_assert!(pending.len() <= AREA);
        let login = self.login as usize;
        let session = RestoredSession {
            state: self.bytes.get(login..login + self.state as usize)?.to_vec(),
            status: u16::try_from(self.status).ok()?,
            pending,
            inserted: self.flags & INSERTED != 0,
            used: resume > u64::from(self.login),
        };
        Some(RestoredClient {
            sent_greeting: Some(self.sent_greeting()),
            greeting: self.greeting,
            login: self.bytes.get(..login).filter(|login| !login.is_empty())?.to_vec(),
            output: Output::AllButTheEnd,
            read: counts.read,
            written: counts.written,
            tried: 0,
            session: Some(session),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot_table::SlotTable;
    use super::*;
    use std::sync::atomic::AtomicU32;

    const KILLED: Cause = Cause::Killed;

    /// A slot of a session that has logged in with 10 bytes, after a greeting of 80, and was told OK in 11 more; a command
    /// of 5 bytes was read after that.
    fn slot(phase: Phase, flags: u32) -> &'static Slot {
        static NEXT: AtomicU32 = AtomicU32::new(3);
        let number = NEXT.fetch_add(1, Relaxed);
        let slot_table = SlotTable::new(64).unwrap();
        let slot = slot_table.slot(i32::try_from(number).unwrap()).unwrap();
        for (place, value) in [(&slot.read, 15), (&slot.written, 91), (&slot.resume, 10), (&slot.next, 15)] {
            place.store(value, Relaxed);
        }
        for (place, value) in [(&slot.id, 7), (&slot.greeting, 80), (&slot.login, 10), (&slot.status, 2)] {
            place.store(value, Relaxed);
        }
        slot.base.store(10, Relaxed);
        slot.area.store(1, Relaxed);
        slot.enter(phase, flags);
        slot
    }

    fn restored(slot: &Slot, read: u64, written: u64, cause: Cause) -> Result<RestoredClient, Loss> {
        // SAFETY: a slot is so many initialised bytes, and nobody changes it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(slot).cast::<u8>(), SLOT) };
        let mut area = [0; AREA];
        area[..9].copy_from_slice(b"DO 1;DO 2");
        RestoredClient::of(bytes, Some(&area), Some(ByteCounts { read, written }), cause)
    }

    fn pending(slot: &Slot, read: u64, written: u64) -> Option<Vec<u8>> {
        Some(restored(slot, read, written, KILLED).ok()?.session?.pending)
    }

    #[test]
    fn an_idle_session_goes_on_with_what_was_read() {
        let slot = slot(Phase::Idle, 0);
        assert_eq!(pending(slot, 15, 91), Some(b"DO 1;".to_vec()));
        // The process was killed before it took note of what it had read, or of less than that.
        assert_eq!(pending(slot, 10, 91), Some(Vec::new()));
        assert_eq!(pending(slot, 19, 91), Some(b"DO 1;DO 2".to_vec()));
        assert_eq!(pending(slot, 9, 91), None);
        assert_eq!(pending(slot, 10 + AREA as u64 + 1, 91), None);
        // The client has something that nobody has taken note of.
        assert_eq!(pending(slot, 10, 92), None);
        let whole = restored(slot, 15, 91, KILLED).unwrap();
        assert_eq!(
            (whole.output, whole.login.len(), whole.sent_greeting.unwrap().id),
            (Output::AllButTheEnd, 10, 7)
        );
    }

    #[test]
    fn what_may_have_been_the_cause_does_not_run_again() {
        let idle = slot(Phase::Idle, 0);
        assert_eq!(restored(idle, 15, 91, Cause::Itself), Err(Loss::Suspect));
        assert!(restored(idle, 10, 91, Cause::Itself).is_ok());
        let tried = |phase, times| {
            let slot = slot(phase, times * ONE_TRY);
            slot.before.store(91, Relaxed);
            pending(slot, 15, 91).is_some()
        };
        assert_eq!([0, 1, 2, 3].map(|times| tried(Phase::Running, times)), [true, true, false, false]);
        assert!(tried(Phase::Idle, 3) && !tried(Phase::Idle, 15));
    }

    #[test]
    fn a_read_runs_again_as_long_as_nothing_of_its_answer_is_written() {
        for phase in [Phase::Running, Phase::Answering, Phase::Answered] {
            let slot = slot(phase, 0);
            slot.mark.store(100, Relaxed);
            slot.before.store(91, Relaxed);
            assert_eq!(pending(slot, 15, 91), Some(b"DO 1;".to_vec()), "{phase:?}");
            assert_eq!(pending(slot, 15, 92), None, "{phase:?}");
            // A part of it is written, and that is noted.
            slot.written.store(92, Relaxed);
            assert_eq!(pending(slot, 15, 92), None, "{phase:?}");
        }
        for phase in [Phase::Busy, Phase::Writing] {
            let slot = slot(phase, 0);
            slot.before.store(91, Relaxed);
            assert_eq!(pending(slot, 15, 91), None, "{phase:?}");
        }
        // It has run too often when processes were killed.
        let tried = |times| {
            let slot = slot(Phase::Answered, times * ONE_TRY);
            slot.before.store(91, Relaxed);
            pending(slot, 15, 91).is_some()
        };
        assert_eq!([0, 1, 2].map(tried), [true, true, false]);
    }

    #[test]
    fn an_answer_is_whole_or_was_not_begun() {
        let running = slot(Phase::Running, 0);
        running.before.store(91, Relaxed);
        assert_eq!(pending(running, 15, 91), Some(b"DO 1;".to_vec()));
        assert_eq!(pending(running, 15, 92), None);
        let answered = slot(Phase::Answered, 0);
        answered.mark.store(100, Relaxed);
        assert_eq!(pending(answered, 15, 91), None);
        assert_eq!(pending(answered, 15, 95), None);
        assert_eq!(pending(answered, 15, 100), Some(Vec::new()));
        assert_eq!(pending(answered, 19, 100), Some(b"DO 2".to_vec()));
        for phase in [Phase::Lost, Phase::Busy, Phase::Writing, Phase::Answering] {
            assert_eq!(pending(slot(phase, 0), 15, 91), None, "{phase:?}");
        }
    }

    #[test]
    fn a_login_goes_on_where_the_client_was_told_last() {
        let login = slot(Phase::Login, 0);
        let output = |written| Some(restored(login, 15, written, KILLED).ok()?.output);
        assert_eq!(output(0), Some(Output::Wanted));
        assert_eq!(output(79), None);
        assert_eq!(output(80), Some(Output::Wanted));
        assert_eq!(output(91), Some(Output::Had(11)));
        assert!(restored(login, 0, 80, Cause::Itself).is_ok());
        assert_eq!(restored(login, 15, 80, Cause::Itself), Err(Loss::Suspect));
        assert_eq!(restored(login, 10_000, 80, KILLED), Err(Loss::HalfAnswered));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..SLOT).map(|_| random()).collect();
            // Small numbers come further.
            for number in bytes[8..120].chunks_exact_mut(4) {
                number[1..].fill(0);
            }
            let counts = ByteCounts { read: random().into(), written: random().into() };
            let _ = RestoredClient::of(&bytes, Some(&[0; AREA]), Some(counts), KILLED);
            let _ = RestoredClient::of(&bytes, None, None, KILLED);
        }
        assert_eq!(RestoredClient::of(&[0; SLOT - 1], None, None, KILLED), Err(Loss::Uncounted));
    }
}
