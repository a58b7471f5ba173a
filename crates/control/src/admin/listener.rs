//! Where administrators come in: listeners, and how many may be there at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::reply::put_error;
use narrows_proxy::rt::{
    self, BoundListener, JoinHandle, Listener, MailboxReceiver, MailboxSender, sleep, spawn_local, timeout,
};
use narrows_proxy::stream::Stream;
use narrows_wire::Errno;

use super::session::Session;
use super::settings::Settings;
use crate::control::Message;

/// What the admin thread is told.
#[derive(Debug)]
pub enum Order {
    /// This is in force for what begins from now on.
    Settings(Box<Settings>),
    /// Listen where `wanted` says and nowhere else; `new` are those of them that are new.
    Listen {
        /// The interfaces, as they are configured.
        wanted: Vec<String>,
        /// Bound listeners by interface.
        new: Vec<(String, BoundListener)>,
    },
}

/// The way in for all sessions.
pub struct Door {
    /// Who answers statements.
    pub control: Sender<Message>,
    /// Makes logins of unknown users look like those of known ones.
    pub decoy_key: [u8; 32],
    settings: RefCell<Rc<Settings>>,
    sessions: Cell<usize>,
    next_id: Cell<u32>,
    listeners: RefCell<HashMap<String, JoinHandle<()>>>,
}

impl Door {
    /// What is in force.
    pub fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    fn obey(self: &Rc<Door>, order: Order) {
        match order {
            Order::Settings(settings) => drop(self.settings.replace(Rc::new(*settings))),
            Order::Listen { wanted, new } => {
                self.listeners.borrow_mut().retain(|interface, task| {
                    let stays = wanted.contains(interface);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for (interface, listener) in new {
                    match listener.attach() {
                        Ok(listener) => {
                            let task = spawn_local(Rc::clone(self).accept(listener));
                            if let Some(old) = self.listeners.borrow_mut().insert(interface, task) {
                                old.abort();
                            }
                        }
                        Err(error) => {
                            tracing::error!(%error, interface, "cannot accept administrators");
                        }
                    }
                }
            }
        }
    }

    async fn accept(self: Rc<Door>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(socket) => self.serve(socket.into()),
                Err(error) => {
                    // Out of descriptors, usually: others close theirs meanwhile.
                    tracing::warn!(%error, "cannot accept an administrator");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(self: &Rc<Door>, stream: Stream) {
        let door = Rc::clone(self);
        if door.sessions.get() >= MOST_SESSIONS {
            spawn_local(async move {
                let mut out = Vec::new();
                put_error(&mut out, &mut 0, Errno::CON_COUNT_ERROR, "Too many connections");
                // One that does not read it is closed all the same.
                let _ = timeout(REFUSAL_TIME, stream.write_all(&out)).await;
            });
            return;
        }
        let id = door.next_id.get();
        door.next_id.set(id.wrapping_add(1).max(FIRST_ID));
        let place = Place::take(&door);
        spawn_local(async move {
            let _place = place;
            // Boxed, so that an idle session's task does not keep the room that its login needed.
            if let Some(session) = Box::pin(Session::begin(door, id, stream)).await {
                session.run().await;
            }
        });
    }
}

/// A session's place in the count; given back when dropped.
struct Place(Rc<Door>);

impl Place {
    fn take(door: &Rc<Door>) -> Place {
        door.sessions.set(door.sessions.get() + 1);
        Place(Rc::clone(door))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.set(self.0.sessions.get() - 1);
    }
}

/// Starts the thread that serves administrators; it ends when the sender of orders is gone.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(settings: Settings, control: Sender<Message>) -> std::io::Result<MailboxSender<Order>> {
    let (orders, mailbox) = rt::mailbox();
    let serve = move || {
        if let Err(error) = rt::block_on(obey(settings, control, mailbox)) {
            tracing::error!(%error, "the admin interface cannot start");
        }
    };
    std::thread::Builder::new().name("admin".to_owned()).spawn(serve)?;
    Ok(orders)
}

async fn obey(settings: Settings, control: Sender<Message>, mut mailbox: MailboxReceiver<Order>) {
    let door = Rc::new(Door {
        control,
        decoy_key: rand::random(),
        settings: RefCell::new(Rc::new(settings)),
        sessions: Cell::new(0),
        next_id: Cell::new(FIRST_ID),
        listeners: RefCell::default(),
    });
    while let Some(order) = mailbox.recv().await {
        door.obey(order);
    }
}

/// Admin sessions at once, those included that have not logged in: far above what tools open, far below what would
/// take descriptors from clients.
const MOST_SESSIONS: usize = 1_000;

/// Numbers of admin sessions, which clients tell theirs by when they are interrupted (`KILL QUERY`), are none that the
/// sessions of clients get in the life of a process.
const FIRST_ID: u32 = 1 << 31;

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const REFUSAL_TIME: Duration = Duration::from_secs(2);
