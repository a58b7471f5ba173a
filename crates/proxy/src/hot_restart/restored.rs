//! What is known about a connection of the former process, and whether the next process can continue it.

use std::sync::atomic::Ordering::Relaxed;

use narrows_wire::Capabilities;
use narrows_wire::auth::Nonce;

use super::slot_table::{AREA, BYTES, INSERTED, MOST_RUNS, NOWHERE, ONE_TRY, Phase, SLOT, Slot, TRIES};
use super::socket_info::ByteCounts;

/// The greeting that a client received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentGreeting {
    /// The connection id.
    pub id: u32,
    /// The nonce.
    pub nonce: Nonce,
    /// The capabilities that were offered.
    pub offered: Capabilities,
}

/// How much of the output the client has already received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The client has received none of it, so it must be sent.
    Wanted,
    /// The client has received all of it, until the end of the login.
    AllButTheEnd,
    /// The client has received this many bytes.
    Had(u64),
}

/// How the former process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It was killed from outside.
    Killed,
    /// It crashed, possibly because of a command, so no command runs again.
    Itself,
}

/// Why a connection cannot be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// It runs a command that may not run again, or has something tied to the former process: a transaction, a prepared
    /// statement, TLS.
    Tied,
    /// The client has received part of an answer.
    HalfAnswered,
    /// It is unknown what the client has sent or received.
    Uncounted,
    /// Its command may have crashed the former process, or was in progress when too many processes were killed.
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

/// A client connection that the next process continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredClient {
    /// `None` if no greeting was sent yet.
    pub sent_greeting: Option<SentGreeting>,
    /// The length of the greeting in bytes.
    pub(super) greeting: u32,
    /// What the client sent to log in.
    pub login: Vec<u8>,
    /// How much of the answer it has received.
    pub output: Output,
    pub(super) read: u64,
    pub(super) written: u64,
    /// In how many processes before this one the command or the login was in progress ([`TRIES`]).
    pub(super) tried: u32,
    /// The session; `None` if the client was logging in.
    pub session: Option<RestoredSession>,
}

/// A session that the next process continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSession {
    /// Its serialized state.
    pub state: Vec<u8>,
    /// Status flags of the last answer.
    pub status: u16,
    /// What the client has sent without receiving an answer.
    pub pending: Vec<u8>,
    /// Whether `LAST_INSERT_ID()` may differ from 0.
    pub inserted: bool,
    /// Whether statements have run whose effects later statements may query.
    pub used: bool,
}

impl RestoredClient {
    /// A connection on which nothing was sent or received.
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

    /// Whether the client is waiting for something that may have crashed the former process.
    pub(super) fn is_under_way(&self) -> bool {
        match &self.session {
            Some(session) => !session.pending.is_empty(),
            None => !self.login.is_empty(),
        }
    }

    /// The client of a slot. `area` has the bytes of its current command that were read, if there is one; `counts` are
    /// the kernel's byte counts.
    ///
    /// # Errors
    /// If the client cannot be continued: its connection is closed.
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
        // A command that follows a complete answer was not in progress before.
        let is_next = slot.phase == Phase::Answered && !runs_again;
        let tried = if is_next { 0 } else { slot.flags & TRIES };
        let most = if runs_again { MOST_RUNS } else { TRIES };
        restored.tried = tried + ONE_TRY;
        let may_run = cause == Cause::Killed && restored.tried < most;
        may_run.then_some(restored).ok_or(Loss::Suspect)
    }
}

/// The contents of a slot that nobody changes any more.
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
        // SAFETY: the array is as long as a slot, and any bytes are a valid slot, because it consists of numbers.
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

    /// Whether a read was in progress, and the client has received nothing of its result. Even if the result was complete,
    /// the read can run again until the first byte is written.
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

    /// The session, whose next command begins at position `resume` in what the client has sent.
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

    /// The slot of a session: a greeting of 80 bytes, a login of 10, an OK packet of 11, and then a command of 5 bytes
    /// that was read.
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
        // SAFETY: a slot is that many initialised bytes, and nobody changes it at the same time.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(slot).cast::<u8>(), SLOT) };
        let mut area = [0; AREA];
        area[..9].copy_from_slice(b"DO 1;DO 2");
        RestoredClient::of(bytes, Some(&area), Some(ByteCounts { read, written }), cause)
    }

    fn pending(slot: &Slot, read: u64, written: u64) -> Option<Vec<u8>> {
        Some(restored(slot, read, written, KILLED).ok()?.session?.pending)
    }

    #[test]
    fn an_idle_session_continues_with_what_was_read() {
        let slot = slot(Phase::Idle, 0);
        assert_eq!(pending(slot, 15, 91), Some(b"DO 1;".to_vec()));
        // The process was killed before it recorded what it had read.
        assert_eq!(pending(slot, 10, 91), Some(Vec::new()));
        assert_eq!(pending(slot, 19, 91), Some(b"DO 1;DO 2".to_vec()));
        assert_eq!(pending(slot, 9, 91), None);
        assert_eq!(pending(slot, 10 + AREA as u64 + 1, 91), None);
        // The client has received something that was not recorded.
        assert_eq!(pending(slot, 10, 92), None);
        let whole = restored(slot, 15, 91, KILLED).unwrap();
        assert_eq!(
            (whole.output, whole.login.len(), whole.sent_greeting.unwrap().id),
            (Output::AllButTheEnd, 10, 7)
        );
    }

    #[test]
    fn what_may_have_crashed_the_process_does_not_run_again() {
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
            // Part of the result is written, and that is recorded.
            slot.written.store(92, Relaxed);
            assert_eq!(pending(slot, 15, 92), None, "{phase:?}");
        }
        for phase in [Phase::Busy, Phase::Writing] {
            let slot = slot(phase, 0);
            slot.before.store(91, Relaxed);
            assert_eq!(pending(slot, 15, 91), None, "{phase:?}");
        }
        // The command was running in too many processes that were killed.
        let tried = |times| {
            let slot = slot(Phase::Answered, times * ONE_TRY);
            slot.before.store(91, Relaxed);
            pending(slot, 15, 91).is_some()
        };
        assert_eq!([0, 1, 2].map(tried), [true, true, false]);
    }

    #[test]
    fn a_client_continues_after_a_whole_answer_or_before_its_first_byte() {
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
    fn a_login_continues_after_the_last_byte_that_the_client_received() {
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
            // Small numbers pass more of the checks.
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
