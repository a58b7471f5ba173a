//! The places of HTTP clients: a bounded number, which clients that ask nothing cannot keep from others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use narrows_proxy::rt::Notify;

/// All places.
pub struct HttpPlaces {
    most: usize,
    taken: Cell<usize>,
    /// Clients of which no request is being answered; first the one for which that is true for longest.
    quiet: RefCell<BTreeMap<u64, Rc<Notify>>>,
    next: Cell<u64>,
    changed: Notify,
}

/// The place of one client, which is free again when this is dropped.
pub struct HttpPlace {
    places: Rc<HttpPlaces>,
    /// Its number among the quiet ones; `None`: it is not one of them.
    number: Cell<Option<u64>>,
    lost: Rc<Notify>,
}

impl HttpPlaces {
    /// That many places.
    pub fn new(most: usize) -> Rc<HttpPlaces> {
        Rc::new(HttpPlaces {
            most,
            taken: Cell::new(0),
            quiet: RefCell::default(),
            next: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Takes a place. If none is free, the client that has been quiet for longest loses its own; this waits as long as
    /// all of them are being answered.
    pub async fn take(self: &Rc<HttpPlaces>) -> HttpPlace {
        while self.taken.get() >= self.most {
            let longest = self.quiet.borrow_mut().pop_first();
            if let Some((_, lost)) = longest {
                lost.notify_one();
            }
            self.changed.notified().await;
        }
        self.taken.set(self.taken.get() + 1);
        let place =
            HttpPlace { places: Rc::clone(self), number: Cell::new(None), lost: Rc::new(Notify::new()) };
        place.answered();
        place
    }
}

impl HttpPlace {
    /// Returns when another client needs the place.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// A request has come: the place cannot be lost until it has been answered.
    pub fn answering(&self) {
        if let Some(number) = self.number.take() {
            self.places.quiet.borrow_mut().remove(&number);
        }
    }

    /// There is no request.
    pub fn answered(&self) {
        let number = self.places.next.get();
        self.places.next.set(number + 1);
        self.number.set(Some(number));
        self.places.quiet.borrow_mut().insert(number, Rc::clone(&self.lost));
        self.places.changed.notify_waiters();
    }
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        self.answering();
        self.places.taken.set(self.places.taken.get() - 1);
        self.places.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn taken(places: &Rc<HttpPlaces>) -> HttpPlace {
        match now(places.take()) {
            Poll::Ready(place) => place,
            Poll::Pending => panic!("no place is free"),
        }
    }

    #[test]
    fn the_client_that_is_quiet_for_longest_makes_room() {
        let places = HttpPlaces::new(2);
        let (first, second) = (taken(&places), taken(&places));
        first.answering();
        first.answered();
        let mut next = pin!(places.take());
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(now(second.lost()).is_ready() && now(first.lost()).is_pending());
        drop(second);
        let Poll::Ready(third) = next.as_mut().poll(&mut context) else { panic!("a place is free") };
        // Requests are answered before anybody else comes.
        first.answering();
        third.answering();
        let mut next = pin!(places.take());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(now(first.lost()).is_pending() && now(third.lost()).is_pending());
        third.answered();
        assert!(next.as_mut().poll(&mut context).is_pending() && now(third.lost()).is_ready());
        drop((first, third));
        assert!(next.as_mut().poll(&mut context).is_ready());
    }
}
