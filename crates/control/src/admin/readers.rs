//! The thread that executes the SQL of statistics users, one statement after another, each on a copy of the figures:
//! the control thread, and with it full users and the monitor's findings, does not wait for it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::question::{Question, Taken};
use super::reply::Reply;
use super::request::Request;
use crate::store::Answer;

/// A question and its sender.
#[derive(Debug)]
pub struct Job {
    /// The question.
    pub question: Question,
    /// The statement, with its sender.
    pub request: Request,
}

/// What the thread sends back to the control thread.
#[derive(Debug)]
pub enum Returned {
    /// The statement, which SQLite accepts: it may reset figures.
    Checked(Request),
    /// Figures that were reset for a statement that has not returned them.
    NotTold(Taken),
}

/// Starts the thread; it ends when the returned sender is dropped.
///
/// # Errors
/// If the thread cannot be started.
pub fn start<M: From<Returned> + Send + 'static>(control: Sender<M>) -> io::Result<Sender<Job>> {
    let (jobs, mailbox) = channel();
    std::thread::Builder::new().name("figures".to_owned()).spawn(move || run(&mailbox, &control))?;
    Ok(jobs)
}

fn run<M: From<Returned>>(mailbox: &Receiver<Job>, control: &Sender<M>) {
    for Job { question, mut request } in mailbox {
        let outcome = match question {
            Question::Check { snapshot, text } => match snapshot.check(&text, &request.abandoned) {
                Ok(()) => {
                    request.caller.is_checked = true;
                    // A control thread that has ended has no sessions either.
                    let _ = control.send(Returned::Checked(request).into());
                    continue;
                }
                Err(refusal) => Err(refusal),
            },
            Question::Answer { snapshot, text, taken, warnings } => {
                let mut outcome = snapshot.sql(&text, &request.abandoned);
                if let Ok(Answer::Rows(set)) = &mut outcome {
                    set.warnings = warnings;
                }
                match &outcome {
                    Ok(_) => taken.told(),
                    Err(_) => drop(control.send(Returned::NotTold(taken).into())),
                }
                outcome
            }
        };
        let reply = Reply::from(outcome);
        request.caller.keep_warnings(&reply);
        // A session that has ended needs no answer.
        let _ = request.reply.send((request.caller, reply));
    }
}
