//! The memory of all Narrows processes: now, at its peak, and whether it returns to what it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, Narrows, RawClient, workers_and_keepers};

/// Samples the memory for as long as it lives.
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// How many processes there are while none starts or ends.
    usual: usize,
}

struct Shared {
    supervisor: u32,
    folder: PathBuf,
    admin: Endpoint,
    peak: AtomicU64,
    stop: AtomicBool,
}

/// The memory before, during and after something, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub before: u64,
    pub peak: u64,
    pub after: u64,
    /// How long it took to return to what it was before.
    pub settled: Option<Duration>,
}

impl Meter {
    /// Starts sampling.
    pub fn start(narrows: &mut Narrows, workers_and_keepers: usize) -> Meter {
        let shared = Arc::new(Shared {
            supervisor: narrows.process().pid(),
            folder: narrows.folder().to_owned(),
            admin: narrows.admin_endpoint(),
            peak: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !seen.stop.load(Ordering::SeqCst) {
                seen.peak.fetch_max(seen.resident(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Meter { shared, thread: Some(thread), usual: workers_and_keepers + 1 }
    }

    /// Starts a period: the memory must return to its current value.
    pub fn begin(&self) -> Memory {
        let before = self.shared.resident();
        self.shared.peak.store(before, Ordering::SeqCst);
        Memory { before, ..Memory::default() }
    }

    /// Ends the period, and reads the current value.
    pub fn end(&self, memory: &mut Memory) {
        memory.after = self.shared.resident();
        memory.peak = self.shared.peak.load(Ordering::SeqCst).max(memory.after);
    }

    /// Waits until the memory has returned to what it was; returns an error if it does not.
    pub fn settle(&self, memory: &mut Memory) -> Result<(), String> {
        let begun = Instant::now();
        while self.shared.pids().len() != self.usual || self.shared.resident() > bound(memory.before) {
            if begun.elapsed() > GIVEN_BACK_WITHIN {
                self.end(memory);
                let [before, peak, after] =
                    [memory.before, memory.peak, memory.after].map(|bytes| bytes >> 20);
                let all = self.shared.tell();
                return Err(format!(
                    "{before} MiB in memory became {peak} and are {after} after a minute: {all}"
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        memory.settled = Some(begun.elapsed());
        self.end(memory);
        Ok(())
    }

    /// Waits until there are as many processes as before; returns an error if there are too many or too few.
    pub fn wait_for_processes(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.shared.pids().len() != self.usual {
            if begun.elapsed() > GIVEN_BACK_WITHIN {
                return Err(format!(
                    "after a minute there are not {} processes: {}",
                    self.usual,
                    self.shared.tell()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // It cannot panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// All Narrows processes.
    fn pids(&self) -> Vec<u32> {
        let mut pids = workers_and_keepers(&self.folder);
        pids.push(self.supervisor);
        pids
    }

    /// Resident memory without file pages: the system reclaims pages of the program file when it needs them.
    fn resident(&self) -> u64 {
        self.pids().iter().map(|pid| field(*pid, "RssAnon:") + field(*pid, "RssShmem:")).sum()
    }

    /// The memory of each process, for a message.
    fn tell(&self) -> String {
        let of = |pid: &u32| {
            let mib = |name| field(*pid, name) >> 20;
            let name = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
            let name = name.unwrap_or_default();
            format!("{pid} {}: {} MiB, {} anonymous", name.trim(), mib("VmRSS:"), mib("RssAnon:"))
        };
        let processes = self.pids().iter().map(of).collect::<Vec<String>>().join("; ");
        format!("{processes}; {}", self.metrics())
    }

    /// What Narrows reports about its memory.
    fn metrics(&self) -> String {
        let mut admin = RawClient::open(&self.admin, &Login::new("admin", "admin"));
        let rows = admin.query("SELECT Variable_Name, Variable_Value FROM stats_memory_metrics").text_rows();
        let cell = |cell: Option<String>| cell.unwrap_or_default();
        let line = |row: Vec<Option<String>>| row.into_iter().map(cell).collect::<Vec<String>>().join(" ");
        rows.into_iter().map(line).collect::<Vec<String>>().join(", ")
    }
}

/// What may remain: as much as before plus a fifth, or the size of a cache or two in each process.
fn bound(before: u64) -> u64 {
    before + (before / 5).max(TOLERANCE)
}

fn field(pid: u32, name: &str) -> u64 {
    // A process that has ended has none.
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

const TOLERANCE: u64 = 8 << 20;

/// Memory may be returned gradually.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(60);
