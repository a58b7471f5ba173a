//! The allocator's memory: how much of it is in use, and how free memory is returned to the system.
//!
//! glibc keeps memory that is freed in the middle of a heap forever, and only returns it on request. A request takes
//! some milliseconds after a peak and costs statements nothing, so it is made if much memory has been free for a while.

use std::time::Duration;

use super::MemoryFigures;
use crate::rt::Instant;

/// The memory of the allocator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heap {
    /// Bytes that are allocated.
    pub in_use: u64,
    /// Bytes of address space that it has obtained from the system.
    pub mapped: u64,
}

impl Heap {
    /// The current values; zeros if the allocator does not report them.
    pub fn now() -> Heap {
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: takes no arguments, and locks what it reads.
            let info = unsafe { libc::mallinfo2() };
            Heap { in_use: (info.uordblks + info.hblkhd) as u64, mapped: (info.arena + info.hblkhd) as u64 }
        }
        #[cfg(not(target_env = "gnu"))]
        {
            Heap::default()
        }
    }
}

/// Limits the freed memory that the allocator keeps at the end of each heap, and makes large pieces mappings of their
/// own, which are returned when they are freed. glibc raises both limits by itself, up to 64 MiB, once a large piece
/// has been freed, and [`trim`] does not reach the ends of heaps other than the first. Must be called at the start of a
/// process, before its threads.
pub fn bound_what_is_kept() {
    #[cfg(target_env = "gnu")]
    for (bound, bytes) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, KEPT_AT_END)] {
        // SAFETY: sets a parameter of the allocator, which locks it.
        if unsafe { libc::mallopt(bound, bytes) } == 0 {
            tracing::warn!(bytes, "cannot limit the free memory that the allocator keeps");
        }
    }
}

/// Returns free memory to the system.
fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called at any time from any thread; the function locks what it changes.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Watches how much resident memory is not in use, and returns to the system what is no longer needed.
#[derive(Debug, Default)]
pub struct Trimmer {
    /// The unused memory at the last look.
    last: u64,
    /// The memory that could not be returned: a trim without effect left it. Each of its pages contains something in
    /// use.
    left: u64,
    /// When the next attempt to return it is due. Pieces in use come and go, and the figures need not show that.
    retry: Option<Retry>,
    /// The resident memory at the last look.
    seen: u64,
    /// The number of looks that are skipped as long as that value stays.
    rests: u32,
}

/// The next attempt to return memory that a trim could not return.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    /// The pause between the previous trim and this one.
    pause: Duration,
}

impl Trimmer {
    /// Looks at the memory, and trims it if much has been free at two looks in a row.
    pub fn look(&mut self) {
        let now = Instant::now();
        let resident = MemoryFigures::anonymous_of_process;
        let before = resident();
        if self.may_rest(before) && !self.may_retry(now) {
            return;
        }
        let free = self.last;
        if self.is_due(Heap::now().in_use, before, now) {
            trim();
            let after = resident();
            self.trimmed(before, after, Heap::now().in_use, now);
        } else if self.last.abs_diff(free) < NOTHING_NEW {
            self.rests = RESTS;
        }
    }

    /// Whether this look may be skipped. After a peak the allocator goes through 100,000 free pieces to find out what
    /// is in use: 150 ms in which threads that allocate must wait.
    fn may_rest(&mut self, resident: u64) -> bool {
        let is_new = resident.abs_diff(self.seen) >= NOTHING_NEW;
        self.seen = resident;
        self.rests = if is_new { 0 } else { self.rests.saturating_sub(1) };
        self.rests > 0
    }

    /// Records the effect of a trim. Memory that was freed during the trim is still there, and the next trim can return
    /// it: only a trim without effect shows what cannot be returned. That is tried again after increasing pauses.
    fn trimmed(&mut self, before: u64, after: u64, in_use: u64, now: Instant) {
        self.last = after.saturating_sub(in_use);
        if before.saturating_sub(after) >= WORTH_IT {
            self.retry = None;
            return;
        }
        self.left = self.last;
        let pause = self.retry.map_or(FIRST_RETRY, |retry| (retry.pause * 2).min(LAST_RETRY));
        self.retry = Some(Retry { at: now + pause, pause });
    }

    fn may_retry(&self, now: Instant) -> bool {
        self.retry.is_some_and(|retry| now >= retry.at)
    }

    fn is_due(&mut self, in_use: u64, resident: u64, now: Instant) -> bool {
        let free = resident.saturating_sub(in_use);
        let lasting = free.min(self.last);
        self.last = free;
        self.left = self.left.min(free);
        let left = if self.may_retry(now) { 0 } else { self.left };
        let is_due = lasting > left + WORTH_IT.max(in_use / 8);
        if !is_due && left == 0 {
            // All of the memory that could not be returned is gone.
            self.retry = None;
        }
        is_due
    }
}

/// From this size in bytes a piece is a mapping of its own. Buffers through which data is relayed are larger, and are
/// reused; other large pieces are commands, and answers in the cache.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 256 << 10;

/// Free bytes at the end of a heap that are kept for the next allocation.
#[cfg(target_env = "gnu")]
const KEPT_AT_END: libc::c_int = 2 << 20;

/// Less free memory than this is not worth a trim: a busy process frees that much and needs it again within seconds.
const WORTH_IT: u64 = 4 << 20;

/// The pause between a trim without effect and the next one: first, and at most. A trim without effect takes some
/// milliseconds.
const FIRST_RETRY: Duration = Duration::from_secs(15);
const LAST_RETRY: Duration = Duration::from_secs(600);

/// Differences up to this size are ignored.
const NOTHING_NEW: u64 = 1 << 20;

/// The number of looks that are skipped after two have seen the same. Memory that is freed in the meantime is returned
/// after the next two looks.
const RESTS: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn trims_what_has_been_free_for_a_while_and_can_be_given_back() {
        let now = Instant::now();
        let mut trimmer = Trimmer { last: 3 * MIB, left: 3 * MIB, ..Trimmer::default() };
        assert!(!trimmer.is_due(30 * MIB, 33 * MIB, now), "nothing is free");
        assert!(!trimmer.is_due(300 * MIB, 304 * MIB, now), "all of a peak is in use");
        assert!(!trimmer.is_due(30 * MIB, 310 * MIB, now), "it may be needed again at once");
        assert!(trimmer.is_due(30 * MIB, 310 * MIB, now));
        trimmer.left = 40 * MIB;
        assert!(
            !trimmer.is_due(30 * MIB, 70 * MIB, now) && !trimmer.is_due(30 * MIB, 70 * MIB, now),
            "it stays"
        );
    }

    #[test]
    fn looks_seldom_where_nothing_changes() {
        let mut trimmer = Trimmer { seen: 70 * MIB, rests: RESTS, ..Trimmer::default() };
        let rested = (0..10).take_while(|_| trimmer.may_rest(70 * MIB)).count();
        assert_eq!(rested, 5);
        trimmer.rests = RESTS;
        assert!(!trimmer.may_rest(90 * MIB), "a peak is looked at");
    }

    #[test]
    fn trims_again_what_was_freed_during_a_trim() {
        let now = Instant::now();
        let mut trimmer = Trimmer { last: 3 * MIB, left: 3 * MIB, ..Trimmer::default() };
        assert!(!trimmer.is_due(130 * MIB, 310 * MIB, now) && trimmer.is_due(130 * MIB, 310 * MIB, now));
        // Of 130 MiB that were in use, 100 MiB are free at its end.
        trimmer.trimmed(310 * MIB, 134 * MIB, 30 * MIB, now);
        assert!(trimmer.is_due(30 * MIB, 134 * MIB, now));
        trimmer.trimmed(134 * MIB, 50 * MIB, 30 * MIB, now);
        assert!(trimmer.is_due(30 * MIB, 50 * MIB, now));
        trimmer.trimmed(50 * MIB, 50 * MIB, 30 * MIB, now);
        assert!(!trimmer.is_due(30 * MIB, 50 * MIB, now), "it stays");
    }

    #[test]
    fn tries_again_what_could_not_be_given_back() {
        let start = Instant::now();
        let mut trimmer = Trimmer { last: 90 * MIB, ..Trimmer::default() };
        assert!(trimmer.is_due(30 * MIB, 120 * MIB, start));
        trimmer.trimmed(120 * MIB, 120 * MIB, 30 * MIB, start);
        assert!(!trimmer.is_due(30 * MIB, 120 * MIB, start + FIRST_RETRY / 2), "it has just been tried");
        let second = start + FIRST_RETRY;
        assert!(trimmer.is_due(30 * MIB, 120 * MIB, second));
        trimmer.trimmed(120 * MIB, 119 * MIB, 30 * MIB, second);
        assert!(!trimmer.is_due(30 * MIB, 119 * MIB, second + FIRST_RETRY), "the pause is longer");
        let third = second + FIRST_RETRY * 2;
        assert!(trimmer.is_due(30 * MIB, 119 * MIB, third));
        trimmer.trimmed(119 * MIB, 40 * MIB, 30 * MIB, third);
        assert!(trimmer.retry.is_none(), "it is given back");
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn tells_what_is_allocated() {
        let shows = |_| {
            let before = Heap::now().in_use;
            let kept = vec![1_u8; 64 << 20];
            let with = Heap::now().in_use;
            drop(kept);
            with >= before + (60 << 20)
        };
        // Other tests return memory at the same time.
        assert!((0..50).any(shows));
    }
}
