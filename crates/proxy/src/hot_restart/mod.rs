//! Client connections that outlive the process which serves them.
//!
//! Beside a worker process stands its *keeper*, a process that shares its table of open files: when the worker process is
//! killed, its sockets stay open. What the next process must know to go on with them is in the [`SlotTable`], memory that both
//! processes share: a [`Slot`] for each client connection, in which the data plane notes as it goes what it has said and
//! heard (`tracked.rs`). The slots and the sockets are sent to the next process (`transfer.rs`), which decides what can honestly
//! be gone on with (`restored.rs`): a login, a session that was idle, a read of whose answer the client has seen nothing.
//!
//! No step of this may be half done when the process is killed. How many bytes were read and written the kernel knows best
//! (`socket_info.rs`); bytes are read into the shared memory, so that none is ever anywhere else; and what a write will have led
//! to is noted before it.

mod restored;
mod slot_table;
mod socket_info;
mod tracked;
mod transfer;

pub use restored::{Cause, Loss, Output, RestoredClient, RestoredSession, SentGreeting};
pub use slot_table::{Slot, SlotTable, slot_table, use_slot_table};
pub(crate) use tracked::Run;
pub use tracked::{SlotGuard, TrackedSocket};
pub use transfer::{Received, ReceivedClient, TransferHeader, receive_clients, send_clients};
