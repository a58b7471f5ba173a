//! The listeners for administrators, and how many may be connected at once.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::audit::AuditLog;
use narrows_proxy::rt::{self, Listener, MailboxReceiver, MailboxSender, sleep, spawn_local};
use narrows_proxy::stream::Stream;

use super::door::Door;
use super::request::Request;
use super::session::Session;
use super::settings::AdminSettings;
use crate::listeners::{Interfaces, Listeners};

/// Messages to the admin thread.
#[derive(Debug)]
pub enum Order {
    /// Use these settings for sessions that begin from now on.
    Settings(Box<AdminSettings>),
    /// Listen on exactly these interfaces.
    Listen(Interfaces),
}

/// The listeners, and the state shared by all sessions.
struct Entrance {
    door: Rc<Door>,
    next_id: Cell<u32>,
    listeners: Listeners,
}

impl Entrance {
    fn obey(self: &Rc<Entrance>, order: Order) {
        match order {
            Order::Settings(settings) => self.door.set(*settings),
            Order::Listen(interfaces) => {
                self.listeners.follow(interfaces, |listener| Rc::clone(self).accept(listener));
            }
        }
    }

    async fn accept(self: Rc<Entrance>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(socket) => self.serve(socket.into()),
                Err(error) => {
                    // Usually file descriptors have run out; other sessions will close theirs.
                    tracing::warn!(%error, "cannot accept an administrator");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(self: &Rc<Entrance>, stream: Stream) {
        let door = Rc::clone(&self.door);
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1).max(FIRST_ID));
        let host = stream.peer().0;
        let task = spawn_local(async move {
            // Boxed, so that an idle session's task does not keep the memory that its login needed.
            let session = Box::pin(Session::begin(Rc::clone(&door), id, stream)).await;
            door.visitors.end(id);
            if let Some(session) = session {
                session.run().await;
            }
        });
        if let Some(client) = self.door.visitors.begin(id, host, task) {
            self.door.failed_logins.tell(|| {
                tracing::info!(client, "admin login failed: too many others are logging in");
            });
        }
    }
}

/// Starts the thread that serves administrators, whose statements go to `control`, and their logins to `audit_log`; the
/// thread ends when the returned sender is dropped.
///
/// # Errors
/// If the thread cannot be started.
pub fn start<M>(
    settings: AdminSettings,
    audit_log: AuditLog,
    control: Sender<M>,
) -> std::io::Result<MailboxSender<Order>>
where
    M: From<Request> + Send + 'static,
{
    let (orders, mailbox) = rt::mailbox();
    let serve = move || {
        let statements = Box::new(move |request: Request| control.send(request.into()).is_ok());
        if let Err(error) = rt::block_on(obey(Door::new(settings, audit_log, statements), mailbox)) {
            tracing::error!(%error, "the admin interface cannot start");
        }
    };
    std::thread::Builder::new().name("admin".to_owned()).spawn(serve)?;
    Ok(orders)
}

async fn obey(door: Door, mut mailbox: MailboxReceiver<Order>) {
    let entrance = Rc::new(Entrance {
        door: Rc::new(door),
        next_id: Cell::new(FIRST_ID),
        listeners: Listeners::default(),
    });
    while let Some(order) = mailbox.recv().await {
        entrance.obey(order);
    }
}

/// The first id of an admin session, which a client needs to interrupt its statement (`KILL QUERY`). Client sessions
/// never reach it in the life of a process.
const FIRST_ID: u32 = 1 << 31;

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
