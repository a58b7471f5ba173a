//! Which node was the writer when, as Narrows has logged it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A node that was the writer for a time; without an end, it still is.
#[derive(Debug, Clone)]
pub struct Tenure {
    pub node: usize,
    pub from: Instant,
    pub to: Option<Instant>,
}

/// Reads the log as it is written, and notes when its lines came.
pub struct Tenures(Arc<Shared>);

struct Shared {
    is_over: AtomicBool,
    /// The addresses of the nodes, as the log has them.
    nodes: Vec<String>,
    tenures: Mutex<Vec<Tenure>>,
}

impl Tenures {
    /// Begins to read; `writer` is the writer now.
    pub fn follow(log: PathBuf, nodes: Vec<String>, writer: usize) -> Tenures {
        let first = Tenure { node: writer, from: Instant::now(), to: None };
        let shared =
            Arc::new(Shared { is_over: AtomicBool::new(false), nodes, tenures: Mutex::new(vec![first]) });
        let mut log = File::open(log).expect("Narrows has a log");
        log.seek(SeekFrom::End(0)).expect("a file");
        let reader = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut rest = String::new();
            while !reader.is_over.load(Ordering::Relaxed) {
                // A character may be written in two parts; then the rest of it is read with the next line.
                let _ = log.read_to_string(&mut rest);
                let (whole, part) = rest.rsplit_once('\n').unwrap_or(("", &rest));
                whole.lines().for_each(|line| reader.take(line));
                rest = part.to_owned();
                std::thread::sleep(PACE);
            }
        });
        Tenures(shared)
    }

    /// All so far.
    pub fn all(&self) -> Vec<Tenure> {
        self.0.tenures.lock().expect("no panic while held").clone()
    }
}

impl Drop for Tenures {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn take(&self, line: &str) {
        let node = |name: &str| line.contains(&format!("server={name} "));
        let Some(node) = self.nodes.iter().position(|name| node(name)) else { return };
        let is = |field: &str| line.contains(&format!(" {field}=\"writer\""));
        let now = Instant::now();
        let mut tenures = self.tenures.lock().expect("no panic while held");
        if is("to") {
            tenures.push(Tenure { node, from: now, to: None });
        } else if is("from")
            && let Some(tenure) = tenures.iter_mut().rev().find(|it| it.node == node && it.to.is_none())
        {
            tenure.to = Some(now);
        }
    }
}

/// Between two looks at the log.
const PACE: Duration = Duration::from_millis(5);
