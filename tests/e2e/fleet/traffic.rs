//! Clients of a member, who must not notice what happens to its fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use narrows_testkit::{Endpoint, Login, RawClient};

/// A client that asks all the time.
pub struct Asker {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    /// Whether its member may be gone.
    is_excused: AtomicBool,
    answers: AtomicU64,
    failures: AtomicU64,
}

impl Asker {
    pub fn of(endpoint: Endpoint) -> Asker {
        let state = Arc::new(State::default());
        let also = Arc::clone(&state);
        let thread = std::thread::spawn(move || also.ask(&endpoint));
        Asker { state, thread: Some(thread) }
    }

    /// Whether failures count now: they do not while the member is killed.
    pub fn excuse(&self, is_excused: bool) {
        self.state.is_excused.store(is_excused, Ordering::SeqCst);
    }

    /// Answers, and failures that count.
    pub fn figures(&self) -> (u64, u64) {
        (self.state.answers.load(Ordering::SeqCst), self.state.failures.load(Ordering::SeqCst))
    }
}

impl State {
    fn ask(&self, endpoint: &Endpoint) {
        let mut client: Option<RawClient> = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let was_excused = self.is_excused.load(Ordering::SeqCst);
            let is_answered = client.as_mut().is_some_and(answers) || {
                client = connect(endpoint);
                // What breaks with a killed member is tried once more.
                client.as_mut().is_some_and(answers)
            };
            if is_answered {
                self.answers.fetch_add(1, Ordering::SeqCst);
            } else if !was_excused && !self.is_excused.load(Ordering::SeqCst) {
                self.failures.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn connect(endpoint: &Endpoint) -> Option<RawClient> {
    let mut client = RawClient::try_connect(endpoint).ok()?;
    client.login(&Login::new("sbtest", "sbtest")).ok()?;
    Some(client)
}

fn answers(client: &mut RawClient) -> bool {
    let answer = client.query("SELECT 1");
    answer.error().is_none() && answer.cell().as_deref() == Some("1")
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
