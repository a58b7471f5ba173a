//! Reports to the supervisor, for as long as the process lives, that all threads that serve clients make progress.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narrows_proxy::server::Pulse;
use tracing::warn;

use crate::last_words;
use crate::line::Line;
use crate::supervisor::channel::ToSupervisor;

/// The pulse that is monitored; copies monitor the same one.
#[derive(Debug, Clone, Default)]
pub struct Heart(Arc<Mutex<Option<Pulse>>>);

impl Heart {
    /// Monitors this pulse from now on; `None` if nothing runs that could hang (`PROXYSQL STOP`).
    pub fn follow(&self, pulse: Option<Pulse>) {
        *self.lock() = pulse;
    }

    /// Whether nothing runs.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_none()
    }

    /// Starts to report.
    pub fn begin(&self, line: Arc<Line>) {
        let heart = self.clone();
        let tell = move || {
            loop {
                std::thread::sleep(HEARTBEAT);
                let late = heart.lock().as_mut().map(Pulse::late).unwrap_or_default();
                if late.is_empty() {
                    line.tell(&ToSupervisor::Alive);
                }
                last_words::suspect(late.first().and_then(|worker| thread_of(*worker)));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("pulse".to_owned()).spawn(tell) {
            warn!(%error, "no heartbeats: if this process hangs, the supervisor will not notice");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pulse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel's id of a worker's thread, found by its name.
fn thread_of(worker: usize) -> Option<i32> {
    let name = format!("worker-{worker}\n");
    let mut tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let task =
        tasks.find(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it == name))?;
    task.file_name().to_str()?.parse().ok()
}

/// How often the supervisor receives a heartbeat: a few times in each of its intervals.
const HEARTBEAT: Duration = Duration::from_secs(1);
