//! Questions to the thread of the fleet, for whose answers statements of administrators wait.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Questions of one kind.
pub struct Questions<T>(Vec<(Instant, Receiver<T>)>);

impl<T> Default for Questions<T> {
    fn default() -> Questions<T> {
        Questions(Vec::new())
    }
}

impl<T> Questions<T> {
    /// The answer for the statement that arrived at `since`, which is asked for once; `None`: there is none yet, `Some(None)`: it has
    /// taken longer than `limit`. An answer is given once.
    pub fn answer(
        &mut self,
        since: Instant,
        limit: Duration,
        ask: impl FnOnce(Sender<T>),
    ) -> Option<Option<T>> {
        // Statements whose sessions have ended are not asked again.
        self.0.retain(|(of, _)| *of == since || of.elapsed() < limit);
        let is_late = since.elapsed() >= limit;
        let Some(at) = self.0.iter().position(|(of, _)| *of == since) else {
            if is_late {
                return Some(None);
            }
            if self.0.len() < MOST {
                let (to, answer) = channel();
                ask(to);
                self.0.push((since, answer));
            }
            return None;
        };
        let answer = match self.0[at].1.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) if !is_late => return None,
            Err(_) => None,
        };
        self.0.remove(at);
        Some(answer)
    }
}

/// The most questions that wait; further statements wait for their turn. The rows of a fleet take up to 64 MiB each.
const MOST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_gets_its_own_answer_and_no_more_are_asked_than_may_wait() {
        let (mut questions, mut asked) = (Questions::default(), Vec::new());
        let long = Duration::from_secs(3_600);
        let began = Instant::now();
        let at = |number: u64| began + Duration::from_nanos(number);
        let mut answer = |number: u64| questions.answer(at(number), long, |to: Sender<u64>| asked.push(to));
        assert!((0..6).all(|number| answer(number).is_none()));
        assert!((0..6).all(|number| answer(number).is_none()));
        assert_eq!(asked.len(), MOST);
        asked[1].send(11).unwrap();
        asked[0].send(10).unwrap();
        let mut get = |number: u64| questions.answer(at(number), long, |to| asked.push(to));
        assert_eq!((get(0), get(1), get(2)), (Some(Some(10)), Some(Some(11)), None));
        assert_eq!(get(4), None);
        assert_eq!(asked.len(), MOST + 1);
    }

    #[test]
    fn an_answer_that_is_late_or_never_comes_is_none() {
        let mut questions: Questions<u64> = Questions::default();
        let since = Instant::now();
        assert_eq!(questions.answer(since, Duration::from_secs(60), drop), None);
        assert_eq!(questions.answer(since, Duration::from_secs(60), drop), Some(None));
        assert_eq!(questions.answer(since, Duration::ZERO, |_| panic!("it is late")), Some(None));
    }
}
