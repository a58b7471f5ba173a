//! `COM_STMT_SEND_LONG_DATA`: a parameter in parts, streamed to the server.
//!
//! The parts stay on one connection until the execution, and the client keeps that connection. The command has no answer:
//! errors are returned when the statement is executed, as servers do.

use std::rc::Rc;

use narrows_wire::response::Expect;
use narrows_wire::{Command, Errno};

use super::super::errors::killed;
use super::super::information::Last;
use super::super::lease::Leased;
use super::super::outcome::Broken;
use super::super::request::Request;
use super::super::upload::Upload;
use super::super::{End, PinReason, Session};
use super::Ready;
use crate::pool::Lease;
use crate::route::{Route, Step};

impl Session {
    /// Sends part of a parameter to the connection that will execute the statement.
    pub(in super::super) async fn long_data(&mut self, request: &mut Request) -> Result<(), End> {
        let done = self.part_of_parameter(request).await;
        self.keep_current();
        done
    }

    async fn part_of_parameter(&mut self, request: &mut Request) -> Result<(), End> {
        let Some(statement) = self.open_statement(request) else { return self.skip(request).await };
        if let Some([low, high]) = request.argument_after(4).first_chunk()
            && u16::from_le_bytes([*low, *high]) >= statement.params.get()
        {
            statement.has_wrong_part.set(true);
        }
        if statement.failed.borrow().is_some() || statement.has_wrong_part.get() {
            return self.skip(request).await;
        }
        statement.has_long_data.set(true);
        statement.note_state(&self.data.state, self.handle.id);
        let snapshot = self.snapshot();
        let prepared = &statement.prepared;
        let ruled = self.rule(&snapshot, &statement);
        let route = self.route(&snapshot, (Step::Execute, &prepared.statement, &prepared.text), &ruled);
        // A statement that Narrows answers itself is not executed on a server.
        let Route::Run(hostgroup, ..) = route else { return self.skip(request).await };
        let command = Command::StmtSendLongData;
        let mut job = self.held_job(request, command, hostgroup, Expect::Result, Rc::clone(&statement));
        if let Some(failed) = Box::pin(self.take_in(request)).await? {
            statement.failed.replace(Some(failed));
            return self.skip(request).await;
        }
        self.choose_kept(&job, &statement.prepared.text);
        for _ in 0..2 {
            let was_pinned = self.binding.pinned.is_some();
            let leased = match self.lease(&snapshot, request, &mut job, None).await? {
                Ok(leased) => leased,
                Err(no_lease) if was_pinned => return Err(End::ErrorSent(no_lease.into_reply().1)),
                Err(error) => {
                    statement.failed.replace(Some(error.into_reply()));
                    return self.skip(request).await;
                }
            };
            let Leased { mut backend, mut pins, pinned, .. } = leased;
            let before = pins.reasons();
            let sent = match self.bring_statement(&mut backend, request, &job).await {
                Ok(Ready::Refused(error)) => {
                    statement.failed.replace(Some(error.into_reply()));
                    self.data.information.last = Last::Nobody;
                    self.keep_or_return(backend, pins, before, &job);
                    return self.skip(request).await;
                }
                Ok(_) => self.send_part(request, &backend).await,
                Err(broken) => Err(broken),
            };
            let sent = match sent {
                Ok(sent) => sent,
                Err(Broken::Session(end)) => return Err(end),
                Err(Broken::Cut { timed_out, .. }) if !pinned => {
                    statement.failed.replace(Some(killed(timed_out)));
                    return self.skip(request).await;
                }
                Err(_) => false,
            };
            if sent {
                pins.hold(statement.id, PinReason::LONG_DATA);
                self.keep_or_return(backend, pins, before, &job);
                return Ok(());
            }
            if pinned || !request.whole {
                return Err(End::ErrorSent("backend connection lost".to_owned()));
            }
        }
        let text = "Lost connection to MySQL server while a parameter was sent".to_owned();
        statement.failed.replace(Some((Errno::SERVER_LOST, text)));
        self.skip(request).await
    }

    /// Sends the command; returns whether all of it was sent.
    async fn send_part(&self, request: &mut Request, backend: &Lease) -> Result<bool, Broken> {
        if request.whole {
            self.write_command(backend, request, None).await?;
            return Ok(true);
        }
        Ok(self.upload(request, backend).await? == Upload::Sent)
    }
}
