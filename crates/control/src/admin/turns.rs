//! Whose statement is answered next. One statement of full users and one of statistics users are answered at a time:
//! accounts take turns, however many statements each of them has waiting.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use narrows_proxy::rt::oneshot;

/// The turns of all sessions.
#[derive(Debug, Default)]
pub struct Turns(RefCell<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Whether it is somebody's turn.
    taken: bool,
    accounts: Accounts,
}

/// Accounts with waiting statements, the next one at the front.
#[derive(Debug, Default)]
struct Accounts(VecDeque<(String, VecDeque<oneshot::Sender<Turn>>)>);

/// The right to have one statement answered; it passes to the next one when dropped.
#[derive(Debug)]
pub struct Turn(Rc<Turns>);

impl Turns {
    /// Waits for a turn of the given account.
    pub async fn take(self: &Rc<Turns>, user: &str) -> Turn {
        let turn = {
            let mut waiting = self.0.borrow_mut();
            if !std::mem::replace(&mut waiting.taken, true) {
                return Turn(Rc::clone(self));
            }
            let (sender, turn) = oneshot::channel();
            waiting.accounts.add(user, sender);
            turn
        };
        turn.await.expect("every waiting statement gets a turn")
    }

    fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let waiting = &mut *self.0.borrow_mut();
        let next = waiting.accounts.next();
        waiting.taken = next.is_some();
        next
    }
}

impl Accounts {
    fn add(&mut self, user: &str, sender: oneshot::Sender<Turn>) {
        match self.0.iter_mut().find(|(name, _)| name == user) {
            Some((_, senders)) => senders.push_back(sender),
            None => self.0.push_back((user.to_owned(), VecDeque::from([sender]))),
        }
    }

    /// The first statement with a waiting client of the first account, which then moves to the end.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some((user, mut senders)) = self.0.pop_front() {
            let next = std::iter::from_fn(|| senders.pop_front()).find(|sender| !sender.is_closed());
            if !senders.is_empty() {
                self.0.push_back((user, senders));
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // No client stops waiting in between: everything runs on one thread.
            let _ = next.send(Turn(Rc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use narrows_proxy::rt::{block_on, spawn_local};

    use super::*;

    /// The order in which waiting statements get their turn.
    fn order(statements: &[&'static str]) -> Vec<&'static str> {
        let order = Rc::new(RefCell::new(Vec::new()));
        block_on(async {
            let turns = Rc::new(Turns::default());
            let first = turns.take("first").await;
            let mut tasks = Vec::new();
            for user in statements.iter().copied() {
                let (turns, order) = (Rc::clone(&turns), Rc::clone(&order));
                let waits = spawn_local(async move {
                    let turn = turns.take(user).await;
                    order.borrow_mut().push(user);
                    drop(turn);
                });
                tasks.push(waits);
            }
            have_them_wait().await;
            drop(first);
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
        order.take()
    }

    /// Returns when every task started before has run.
    async fn have_them_wait() {
        let (last, done) = oneshot::channel();
        spawn_local(async move { last.send(()) });
        done.await.unwrap();
    }

    #[test]
    fn accounts_take_turns() {
        assert_eq!(order(&["a", "a", "a", "b", "c", "b"]), ["a", "b", "c", "a", "b", "a"]);
    }

    #[test]
    fn who_waits_no_longer_is_passed_over() {
        block_on(async {
            let turns = Rc::new(Turns::default());
            let first = turns.take("root").await;
            let gone = spawn_local({
                let turns = Rc::clone(&turns);
                async move { drop(turns.take("gone").await) }
            });
            have_them_wait().await;
            gone.abort();
            let _ = gone.await;
            drop(first);
            drop(turns.take("here").await);
        })
        .unwrap();
    }
}
