//! Client connections that outlive the process that serves them.
//!
//! Each worker process has a *keeper*, a process that shares its table of open files: if the worker process is killed,
//! its sockets stay open. The [`SlotTable`] is memory that both processes share, with a [`Slot`] for each client
//! connection. While the data plane serves a client, it records in the slot what the next process needs to know
//! (`tracked.rs`). After the worker process has ended, the keeper sends the slots and the sockets to the next process
//! (`transfer.rs`), which decides which clients it can continue with (`restored.rs`): those that were logging in, idle
//! sessions, and those that were waiting for a read and have received nothing of its result.
//!
//! The process may be killed between any two instructions, so no state may be half recorded. The kernel knows how many
//! bytes were read and written (`socket_info.rs`); bytes are read directly into the shared memory, so that they are never
//! anywhere else; and the effect of a write is recorded before the write.

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
