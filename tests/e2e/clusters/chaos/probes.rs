//! Clients that write to each node directly, all the time: they know when a cluster can be written to, without Narrows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, RawClient};

/// Running probes.
pub struct Probes(Arc<Shared>);

struct Shared {
    is_over: AtomicBool,
    /// Writes that succeeded: their node, and when they began and ended.
    done: Mutex<Vec<(usize, Instant, Instant)>>,
}

impl Probes {
    /// Begins to write to the nodes with these sockets, each a row of its own; where there is a condition, only if it holds.
    pub fn start(sockets: Vec<PathBuf>, condition: &'static str) -> Probes {
        let shared = Arc::new(Shared { is_over: AtomicBool::new(false), done: Mutex::default() });
        for (node, socket) in sockets.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.probe(node, &Endpoint::Unix(socket), condition));
        }
        Probes(shared)
    }

    /// When a write that began after `since` first succeeded on a node other than `but`.
    pub fn first_success(&self, since: Instant, but: Option<usize>) -> Option<Instant> {
        let done = self.0.done.lock().expect("no panic while held");
        let fits = done.iter().filter(|(node, begun, _)| *begun >= since && Some(*node) != but);
        fits.map(|(_, _, ended)| *ended).min()
    }

    /// Forgets what was before an event.
    pub fn forget(&self) {
        self.0.done.lock().expect("no panic while held").clear();
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn probe(&self, node: usize, endpoint: &Endpoint, condition: &str) {
        let mut place = None;
        for number in 0_u64.. {
            std::thread::sleep(PACE);
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut client) = place.take().or_else(|| come(endpoint)) else { continue };
            let begun = Instant::now();
            let answer =
                client.query(format!("REPLACE INTO chaos.probes SELECT {node}, {number} {condition}"));
            if answer.lost.is_some() {
                continue;
            }
            if answer.ok().is_some_and(|ok| ok.affected_rows > 0) {
                self.done.lock().expect("no panic while held").push((node, begun, Instant::now()));
            }
            place = Some(client);
        }
    }
}

/// A client of a node, if it accepts one.
fn come(endpoint: &Endpoint) -> Option<RawClient> {
    let mut client = RawClient::try_connect(endpoint).ok()?;
    client.set_patience(PATIENCE);
    client.login(&Login::new("app", "app")).ok()?;
    Some(client)
}

/// Between two writes.
const PACE: Duration = Duration::from_millis(20);

/// How long an answer is waited for: a node may be stopped.
const PATIENCE: Duration = Duration::from_secs(1);
