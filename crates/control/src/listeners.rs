//! The listening sockets of an interface, and the tasks that accept on them: which ones there are follows the variables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;

use narrows_proxy::rt::{BoundListener, JoinHandle, Listener, spawn_local};

/// The interfaces to listen on.
#[derive(Debug, Default)]
pub struct Interfaces {
    /// All of them, as configured.
    pub wanted: Vec<String>,
    /// Bound listeners for those that were not listened on before.
    pub new: Vec<(String, BoundListener)>,
}

impl Interfaces {
    /// Binds those of `wanted` that are not among `current`; returns with them why others cannot be bound. `variable` is
    /// where they are configured.
    pub fn bind(
        wanted: Vec<String>,
        current: &[String],
        variable: &str,
        bind: impl Fn(&str) -> io::Result<BoundListener>,
    ) -> (Interfaces, Vec<String>) {
        let (mut interfaces, mut remarks) = (Interfaces::default(), Vec::new());
        for interface in wanted {
            if !current.contains(&interface) {
                match bind(&interface) {
                    Ok(listener) => interfaces.new.push((interface.clone(), listener)),
                    Err(error) => {
                        remarks.push(format!("cannot listen on {interface} ({variable}): {error}"));
                        continue;
                    }
                }
            }
            interfaces.wanted.push(interface);
        }
        (interfaces, remarks)
    }

    /// Why those of `wanted` that are not among `current` cannot be listened on. They are bound for a moment; Unix sockets,
    /// which another program may have, are not.
    pub fn obstacles(wanted: &[String], current: &[String], variable: &str) -> Vec<String> {
        let new = wanted.iter().filter(|interface| !current.contains(interface) && !interface.contains('/'));
        let obstacle = |interface: &String| {
            let error = TcpListener::bind(interface).err()?;
            Some(format!("cannot listen on {interface} ({variable}): {error}"))
        };
        new.filter_map(obstacle).collect()
    }
}

/// The tasks that accept, by interface.
#[derive(Debug, Default)]
pub struct Listeners(RefCell<HashMap<String, JoinHandle<()>>>);

impl Listeners {
    /// Listens on exactly these interfaces from now on: `accept` makes the task of a new listener.
    pub fn follow<F>(&self, interfaces: Interfaces, accept: impl Fn(Listener) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let Interfaces { wanted, new } = interfaces;
        self.0.borrow_mut().retain(|interface, task| {
            let stays = wanted.contains(interface);
            if !stays {
                task.abort();
            }
            stays
        });
        for (interface, listener) in new {
            match listener.attach() {
                Ok(listener) => {
                    let task = spawn_local(accept(listener));
                    if let Some(old) = self.0.borrow_mut().insert(interface, task) {
                        old.abort();
                    }
                }
                Err(error) => tracing::error!(%error, interface, "cannot accept connections"),
            }
        }
    }
}
