//! Who waits for a connection, in order of arrival.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::Group;
use crate::rt::Notify;

/// The queue of one hostgroup on one worker, oldest first.
#[derive(Default)]
pub(super) struct Waiters(RefCell<VecDeque<Rc<Waiter>>>);

struct Waiter {
    /// When its search began, in ns since the process started.
    since: u64,
    notify: Notify,
}

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The number of waiters.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Tells the waiter at the front to look again.
    pub(super) fn poke(&self) {
        if let Some(first) = self.0.borrow().front() {
            first.notify.notify_one();
        }
    }

    /// When the search of the one at the front began, in ns since the process started.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.borrow().front().map(|waiter| waiter.since)
    }
}

/// A place in the queue; dropping it leaves the queue and makes the next one look.
pub(super) struct Place {
    group: Rc<Group>,
    worker: usize,
    waiter: Rc<Waiter>,
}

impl Place {
    /// Joins the queue, after everybody whose search began earlier.
    pub(super) fn join(group: Rc<Group>, worker: usize, since: u64) -> Place {
        let waiter = Rc::new(Waiter { since, notify: Notify::new() });
        {
            let mut queue = group.waiters.0.borrow_mut();
            let place = queue.partition_point(|other| other.since <= since);
            queue.insert(place, Rc::clone(&waiter));
        }
        group.demand.set_oldest_waiter(worker, group.waiters.oldest());
        Place { group, worker, waiter }
    }

    /// Whether it is at the front.
    pub(super) fn is_first(&self) -> bool {
        self.group.waiters.0.borrow().front().is_some_and(|first| Rc::ptr_eq(first, &self.waiter))
    }

    /// Waits until it should look again.
    pub(super) async fn poked(&self) {
        self.waiter.notify.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.waiters.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.waiter));
        self.group.demand.set_oldest_waiter(self.worker, self.group.waiters.oldest());
        self.group.waiters.poke();
    }
}
