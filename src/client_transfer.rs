//! The clients of a worker process that died, as its keeper sends them to this process.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use narrows_proxy::hot_restart::{Cause, Loss, Received, SlotTable, receive_clients, slot_table};
use narrows_proxy::server::ClientReceiver;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tracing::{info, warn};

use crate::line::PendingTransfer;

/// The clients to expect.
pub struct ClientTransfer {
    way: OwnedFd,
    cause: Cause,
    /// Whether its first packet was received, by this process or an earlier one.
    is_begun: bool,
    begun: Instant,
    taken: Taken,
}

/// The outcome for the clients.
#[derive(Default)]
struct Taken {
    kept: usize,
    /// How many were closed, by reason.
    closed: BTreeMap<Loss, usize>,
    /// Whether all clients have been received.
    is_all: bool,
}

impl ClientTransfer {
    /// Waits for the keeper's first message.
    pub fn begin(pending: PendingTransfer, receiver: &ClientReceiver) -> ClientTransfer {
        let PendingTransfer { way, was_killed, is_begun } = pending;
        let cause = if was_killed { Cause::Killed } else { Cause::Itself };
        let mut transfer =
            ClientTransfer { way, cause, is_begun, begun: Instant::now(), taken: Taken::default() };
        let limit = set_socket_timeout(&transfer.way, Timeout::Recv, Some(FIRST_WORD));
        if let Err(error) = limit {
            warn!(%error, "cannot set a timeout");
        }
        transfer.receive(receiver, false);
        transfer
    }

    /// Continues with every client that arrives.
    pub fn take(mut self, receiver: &ClientReceiver) {
        // The keeper ends in time by itself; this timeout is for one that was stopped.
        let _ = set_socket_timeout(&self.way, Timeout::Recv, Some(LAST_WORD));
        while !self.taken.is_all {
            self.receive(receiver, true);
        }
        if !self.is_begun {
            warn!("no keeper held the clients of the former process: all of them are closed");
            return;
        }
        let Taken { kept, closed, .. } = self.taken;
        let why =
            closed.iter().filter(|(_, count)| **count > 0).map(|(loss, count)| format!("{loss}: {count}"));
        let why = why.collect::<Vec<String>>().join(", ");
        let closed = closed.values().sum::<usize>();
        let took_ms = self.begun.elapsed().as_millis();
        info!(kept, closed, why, took_ms, "the clients of the former process continue");
    }

    fn receive(&mut self, receiver: &ClientReceiver, is_last: bool) {
        match receive_clients(self.way.as_fd(), self.cause) {
            Ok(Received::Header(header)) => {
                self.is_begun = true;
                receiver.begin_ids_at(header.next_id);
                *self.taken.closed.entry(Loss::Tied).or_default() += header.lost as usize;
            }
            Ok(Received::Clients(clients)) => {
                for client in clients {
                    match receiver.take(client) {
                        Ok(()) => self.taken.kept += 1,
                        Err(loss) => *self.taken.closed.entry(loss).or_default() += 1,
                    }
                }
                slot_table().iter().for_each(SlotTable::settle_pending);
            }
            Ok(Received::End) => self.taken.is_all = true,
            // A keeper that waits for a CPU arrives later; `take` limits how much later.
            Err(error) if error.kind() == ErrorKind::WouldBlock && !self.is_begun && !is_last => {}
            Err(error) => {
                warn!(%error, "the clients of the former process cannot be received");
                self.taken.is_all = true;
            }
        }
    }
}

/// A keeper has nothing else to do; on a busy machine it may have to wait for a CPU.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// Longer than the total time that a keeper has.
const LAST_WORD: Duration = Duration::from_secs(31);
