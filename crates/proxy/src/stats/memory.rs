//! Memory usage by purpose.

use std::mem::size_of;

use super::MemoryFigures;
use super::heap::Heap;
use crate::backend::BYTES_OF_ENTRY;
use crate::backend::{Backend, Login};
use crate::session::Session;
use crate::snapshot::{Account, Snapshot};
use crate::worker::{Handle, Worker};

impl MemoryFigures {
    /// The figures that the kernel reports for this process; zeros for those that it does not report.
    pub(super) fn of_process() -> MemoryFigures {
        let heap = Heap::now();
        let [resident, virtual_size, anonymous] = bytes_of_status(["VmRSS", "VmSize", "RssAnon"]);
        let (allocated, mapped) = (heap.in_use, heap.mapped);
        MemoryFigures { resident, allocated, mapped, virtual_size, anonymous, ..MemoryFigures::default() }
    }

    /// Resident anonymous memory of this process in bytes. Does not ask the allocator, which takes long after a peak.
    pub(super) fn anonymous_of_process() -> u64 {
        let [anonymous] = bytes_of_status(["RssAnon"]);
        anonymous
    }

    /// Adds the figures of a worker.
    pub(super) fn add(&mut self, worker: &MemoryFigures) {
        self.digests += worker.digests;
        self.statements += worker.statements;
        self.statements_of_backends += worker.statements_of_backends;
        self.worker_stacks += worker.worker_stacks;
        self.client_buffers += worker.client_buffers;
        self.backend_buffers += worker.backend_buffers;
        self.buffers_spare += worker.buffers_spare;
        self.sessions += worker.sessions;
        self.idle_backends += worker.idle_backends;
    }
}

impl Worker {
    /// The figures of this worker.
    pub(super) fn memory(&self) -> MemoryFigures {
        let (client_buffers, backend_buffers) = self.buffers.in_use();
        let prepared = self.prepared.all();
        let backends: u64 = prepared.iter().map(|prepared| u64::from(prepared.servers())).sum();
        MemoryFigures {
            statements: prepared.iter().map(|prepared| prepared.bytes() as u64).sum(),
            statements_of_backends: backends * BYTES_OF_ENTRY,
            digests: self.figures.digests.borrow().bytes() as u64,
            worker_stacks: WORKER_STACK,
            client_buffers,
            backend_buffers,
            buffers_spare: self.buffers.spare(),
            sessions: self.sessions_in_all() as u64 * SESSION_BYTES as u64,
            idle_backends: self.pool.idle() as u64 * (size_of::<Backend>() + size_of::<Login>()) as u64,
            ..MemoryFigures::default()
        }
    }
}

/// The size of the accounts in bytes, including names and passwords.
pub(super) fn of_accounts(snapshot: &Snapshot) -> u64 {
    let bytes = |account: &Account| {
        let row = &account.row;
        size_of::<Account>()
            + 2 * row.username.len()
            + 2 * row.password.len()
            + row.attributes.text().len()
            + row.comment.len()
    };
    snapshot.users.values().map(|account| bytes(account) as u64).sum()
}

/// The size of a session itself; its task and the state that it shares with others come on top.
pub(super) const SESSION_BYTES: usize = size_of::<Session>() + size_of::<Handle>();

/// The stack of a thread, as reserved by the standard library.
const WORKER_STACK: u64 = 2 << 20;

/// Sizes in bytes that the kernel reports for this process under these names; zeros for those that it does not report.
fn bytes_of_status<const N: usize>(names: [&str; N]) -> [u64; N] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    names.map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.unwrap_or_default() * 1024
    })
}
