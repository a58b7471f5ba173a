//! The thread that serves HTTP, and its listeners.

use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::{self, Listener, MailboxReceiver, MailboxSender, sleep, spawn_local};

use super::connection;
use super::console::Console;
use super::places::HttpPlaces;
use super::server::Server;
use super::settings::HttpSettings;
use crate::admin::request::Request;
use crate::listeners::{Interfaces, Listeners};

/// Messages to the thread.
#[derive(Debug)]
pub enum HttpOrder {
    /// Use these settings from now on.
    Settings(Box<HttpSettings>),
    /// Listen on exactly these interfaces.
    Listen(Interfaces),
}

struct Entrance {
    console: Rc<Console>,
    places: Rc<HttpPlaces>,
    listeners: Listeners,
}

impl Entrance {
    fn obey(self: &Rc<Entrance>, order: HttpOrder) {
        match order {
            HttpOrder::Settings(settings) => self.console.server.set(*settings),
            HttpOrder::Listen(interfaces) => {
                self.listeners.follow(interfaces, |listener| Rc::clone(self).accept(listener));
            }
        }
    }

    /// One client waits for a place, and others in the kernel's queue, while all are taken by requests.
    async fn accept(self: Rc<Entrance>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(socket) => {
                    let place = self.places.take().await;
                    spawn_local(connection::serve(Rc::clone(&self.console), socket, place));
                }
                Err(error) => {
                    // Usually file descriptors have run out.
                    tracing::warn!(%error, "cannot accept an HTTP client");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Starts the thread, whose questions go to `control`; it ends when the returned sender is dropped.
///
/// # Errors
/// If the thread cannot be started.
pub fn start<M>(settings: HttpSettings, control: Sender<M>) -> std::io::Result<MailboxSender<HttpOrder>>
where
    M: From<Request> + Send + 'static,
{
    let (orders, mailbox) = rt::mailbox();
    let serve = move || {
        let statements = Box::new(move |request: Request| control.send(request.into()).is_ok());
        if let Err(error) = rt::block_on(obey(Server::new(settings, statements), mailbox)) {
            tracing::error!(%error, "the HTTP interface cannot start");
        }
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(serve)?;
    Ok(orders)
}

async fn obey(server: Server, mut mailbox: MailboxReceiver<HttpOrder>) {
    let entrance = Rc::new(Entrance {
        console: Console::new(Rc::new(server)),
        places: HttpPlaces::new(MOST_CLIENTS),
        listeners: Listeners::default(),
    });
    while let Some(order) = mailbox.recv().await {
        entrance.obey(order);
    }
}

/// Clients at a time. Each costs a file descriptor and some 30 KiB; scrapers and health checks are few.
const MOST_CLIENTS: usize = 64;

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
