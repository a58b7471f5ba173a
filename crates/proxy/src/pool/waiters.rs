//! Who waits for a connection, in order of arrival.
//!
//! One whose statement may only go to some of the servers does not hold up the others: once it has seen that there is nothing
//! for it, it lets those after it go first, until the next change.

use std::cell::{Cell, RefCell};
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
    /// It lets those after it go first.
    lets_pass: Cell<bool>,
}

impl Waiters {
    /// Whether the next connection is for somebody who waits.
    pub(super) fn is_anyone_next(&self) -> bool {
        let queue = self.0.borrow();
        // Hardly ever does anybody wait.
        !queue.is_empty() && queue.iter().any(|waiter| !waiter.lets_pass.get())
    }

    /// The number of waiters.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Tells the waiter at the front to look again, and before it those who let it pass.
    pub(super) fn poke(&self) {
        let queue = self.0.borrow();
        if queue.is_empty() {
            return;
        }
        for waiter in queue.iter() {
            waiter.notify.notify_one();
            if !waiter.lets_pass.replace(false) {
                break;
            }
        }
    }

    /// When the search of the one began whom the next connection is for, in ns since the process started.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.borrow().iter().find(|waiter| !waiter.lets_pass.get()).map(|waiter| waiter.since)
    }

    /// When the search of the one at the front began, and whether others may pass it.
    pub(super) fn longest(&self) -> Option<u64> {
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
        let waiter = Rc::new(Waiter { since, notify: Notify::new(), lets_pass: Cell::new(false) });
        {
            let mut queue = group.waiters.0.borrow_mut();
            let place = queue.partition_point(|other| other.since <= since);
            queue.insert(place, Rc::clone(&waiter));
        }
        group.demand.set_oldest_waiter(worker, group.waiters.oldest());
        Place { group, worker, waiter }
    }

    /// Whether it is at the front, or all before it let it pass.
    pub(super) fn is_first(&self) -> bool {
        let queue = self.group.waiters.0.borrow();
        let mut before = queue.iter().take_while(|other| !Rc::ptr_eq(other, &self.waiter));
        before.all(|other| other.lets_pass.get())
    }

    /// Lets those after it go first: what there is now is not for it.
    pub(super) fn let_pass(&self) {
        if self.waiter.lets_pass.replace(true) {
            return;
        }
        self.group.demand.set_oldest_waiter(self.worker, self.group.waiters.oldest());
        let queue = self.group.waiters.0.borrow();
        if let Some(next) = queue.iter().find(|other| !other.lets_pass.get()) {
            next.notify.notify_one();
        }
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
