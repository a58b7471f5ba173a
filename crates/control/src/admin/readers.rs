//! The thread that carries out the SQL of users of statistics, one statement after the other, each on a copy of the figures: the
//! control thread, and with it full users and what the monitor has found, waits for none of them.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Request;
use super::answer::Reply;
use super::stats::Taken;
use crate::control::Message;
use crate::store::Snapshot;

/// What is to be done with a statement.
#[derive(Debug)]
pub enum Question {
    /// Whether SQLite takes it: figures begin again by it. It goes back to the control thread then.
    Check {
        /// What it reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
    },
    /// Its answer.
    Answer {
        /// What it reads.
        snapshot: Snapshot,
        /// The statement.
        text: String,
        /// The figures that begin again by it.
        taken: Taken,
    },
}

/// A question and who asks.
#[derive(Debug)]
pub struct Job {
    /// The question.
    pub question: Question,
    /// Who asks.
    pub request: Request,
}

/// Starts the thread; it ends when the sender is gone.
///
/// # Errors
/// When it cannot be started.
pub fn start(control: Sender<Message>) -> io::Result<Sender<Job>> {
    let (jobs, mailbox) = channel();
    std::thread::Builder::new().name("figures".to_owned()).spawn(move || run(&mailbox, &control))?;
    Ok(jobs)
}

fn run(mailbox: &Receiver<Job>, control: &Sender<Message>) {
    for Job { question, mut request } in mailbox {
        let outcome = match question {
            Question::Check { snapshot, text } => match snapshot.check(&text, &request.abandoned) {
                Ok(()) => {
                    request.caller.is_checked = true;
                    // A control thread that has ended has no sessions either.
                    let _ = control.send(Message::Statement(request));
                    continue;
                }
                Err(refusal) => Err(refusal),
            },
            Question::Answer { snapshot, text, taken } => {
                let outcome = snapshot.sql(&text, &request.abandoned);
                match &outcome {
                    Ok(_) => taken.told(),
                    Err(_) => drop(control.send(Message::GiveBack(taken))),
                }
                outcome
            }
        };
        // A session that has ended needs no answer.
        let _ = request.reply.send((request.caller, Reply::from(outcome)));
    }
}
