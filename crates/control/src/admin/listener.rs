//! Where administrators come in: listeners, and how many may be there at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::log_limit::Limiter;
use narrows_proxy::rt::{
    self, BoundListener, JoinHandle, Listener, MailboxReceiver, MailboxSender, sleep, spawn_local,
};
use narrows_proxy::stream::Stream;
use narrows_proxy::threads::Threads;

use super::budget::Budget;
use super::session::Session;
use super::settings::Settings;
use super::turns::Turns;
use super::visitors::Visitors;
use crate::control::Message;
use crate::store::Role;

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
    /// Where what takes long at a login is done.
    pub threads: Threads,
    settings: RefCell<Rc<Settings>>,
    /// Who is there.
    pub visitors: Rc<Visitors>,
    /// Whose statement is next of full users, and of those of statistics: neither wait for the others.
    turns: Rc<Turns>,
    turns_of_statistics: Rc<Turns>,
    /// Memory for answers.
    pub budget: Rc<Budget>,
    /// Keeps failed logins from filling the log.
    pub failed_logins: Rc<Limiter>,
    next_id: Cell<u32>,
    listeners: RefCell<HashMap<String, JoinHandle<()>>>,
}

impl Door {
    /// What is in force.
    pub fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// The turns of accounts of that role.
    pub fn turns(&self, role: Role) -> &Rc<Turns> {
        match role {
            Role::Admin => &self.turns,
            Role::Stats => &self.turns_of_statistics,
        }
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
        let id = door.next_id.get();
        door.next_id.set(id.wrapping_add(1).max(FIRST_ID));
        let host = stream.peer().0;
        let task = spawn_local(async move {
            // Boxed, so that an idle session's task does not keep the room that its login needed.
            let session = Box::pin(Session::begin(Rc::clone(&door), id, stream)).await;
            door.visitors.end(id);
            if let Some(session) = session {
                session.run().await;
            }
        });
        if let Some(client) = self.visitors.begin(id, host, task) {
            self.failed_logins.tell(|| {
                tracing::info!(client, "admin login failed: too many others are logging in");
            });
        }
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
        threads: Threads::for_logins(1),
        settings: RefCell::new(Rc::new(settings)),
        visitors: Rc::default(),
        turns: Rc::default(),
        turns_of_statistics: Rc::default(),
        budget: Rc::default(),
        failed_logins: Limiter::new(|left_out| {
            tracing::info!(left_out, "more admin logins have failed");
        }),
        next_id: Cell::new(FIRST_ID),
        listeners: RefCell::default(),
    });
    while let Some(order) = mailbox.recv().await {
        door.obey(order);
    }
}

/// Numbers of admin sessions, which clients tell theirs by when they are interrupted (`KILL QUERY`), are none that the
/// sessions of clients get in the life of a process.
const FIRST_ID: u32 = 1 << 31;

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
