//! `COM_QUERY`: read the statement, ask the rules, route it.

use narrows_sql::{Flags, KillTarget, Kind, Statement};
use narrows_wire::query::attributes_length;
use narrows_wire::{Capabilities, Command, Errno, Malformed};

use super::errors::malformed;
use super::job::Job;
use super::job::NOWHERE;
use super::kill::Kills;
use super::outcome::Yield;
use super::request::Request;
use super::{End, Session};
use crate::route::{Digest, Route, Ruled, Step, is_logged, read_otherwise};
use crate::worker::LocalSnapshot;

/// What happens to a text.
enum Next {
    /// It runs, once these sessions and statements are killed.
    Run(Vec<KillTarget>, Job),
    /// Narrows answers.
    Ok(String),
    Refuse(Errno, String),
    Kill(KillTarget),
    /// `PROXYSQL INTERNAL`, after that many bytes of query attributes.
    Internal(usize),
}

impl Session {
    /// `COM_QUERY`.
    pub(super) async fn query(&mut self, request: &mut Request) -> Result<(), End> {
        let next = self.decide(request);
        match next.unwrap_or_else(|why| Next::Refuse(Errno::MALFORMED_PACKET, malformed(why))) {
            Next::Run(first, mut job) => {
                if !first.is_empty() {
                    self.note_tie();
                    if !Box::pin(self.kill_first(&first)).await? {
                        return Ok(());
                    }
                }
                self.show_statement(request.behind(job.attributes));
                self.execute(request, &mut job).await
            }
            Next::Kill(target) => {
                self.note_tie();
                self.kill(target).await
            }
            Next::Internal(attributes) => Box::pin(self.internal(request, attributes)).await,
            Next::Ok(text) => self.reply_ok(&text).await,
            Next::Refuse(errno, text) => {
                self.discard(request).await?;
                self.reply_error_at(request.answer(), errno, &text).await
            }
        }
    }

    /// Reads the statement, asks the rules, and routes it.
    fn decide(&mut self, request: &mut Request) -> Result<Next, Malformed> {
        let snapshot = self.snapshot();
        let attributes = match self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            true => attributes_length(request.argument())?,
            false => 0,
        };
        let mut statement = self.inspect(request.behind(attributes), request.whole);
        if statement.kind == Kind::Proxy
            && narrows_sql::internal_command(request.behind(attributes)).is_some()
        {
            return Ok(Next::Internal(attributes));
        }
        let mut ruled = self.rule_text(&snapshot, &statement, request, attributes);
        if let Some(text) = ruled.rewritten.take().filter(|text| request.takes_text(text)) {
            statement = self.inspect(&text, true);
            request.replace_argument(attributes, &text);
        }
        let text = request.behind(attributes);
        let mut route = self.route(&snapshot, (Step::Query, &statement, text), &ruled);
        let mut first = Vec::new();
        if let Route::Run(..) = route {
            match self.read_kills(&statement, text, request.whole) {
                Kills::Nobody => {}
                Kills::Alone(target) => {
                    self.note_answered(&snapshot, (&statement, text), &ruled, None);
                    return Ok(Next::Kill(target));
                }
                Kills::Refused(errno, text) => route = Route::Refuse(errno, text.to_owned()),
                Kills::First(targets, rest) => {
                    statement = self.inspect(&rest, true);
                    let digest = self.digest(&rest, &snapshot.variables);
                    ruled.digest = digest.map(|hash| Digest { hash, text: None });
                    request.replace_argument(attributes, &rest);
                    route = self.route(&snapshot, (Step::Query, &statement, &rest), &ruled);
                    first = targets;
                }
            }
        }
        let text = request.behind(attributes);
        Ok(match route {
            Route::Ok(answer) => {
                self.note_answered(&snapshot, (&statement, text), &ruled, None);
                Next::Ok(answer)
            }
            Route::Refuse(errno, answer) => {
                self.note_answered(&snapshot, (&statement, text), &ruled, Some(errno));
                Next::Refuse(errno, answer)
            }
            Route::Run(hostgroup, _, options) => {
                self.set_multiplexing(&ruled.output);
                let mut job = Job::new(Command::Query, options.read(statement), request.whole);
                (job.hostgroup, job.options) = (hostgroup, options);
                (job.digest, job.attributes) = (ruled.digest, attributes);
                Next::Run(first, job)
            }
        })
    }

    /// Asks the rules about a text, chooses the chain of the next statement, and runs a copy if it is mirrored.
    fn rule_text(
        &mut self,
        snapshot: &LocalSnapshot,
        statement: &Statement,
        request: &Request,
        attributes: usize,
    ) -> Ruled {
        let text = request.behind(attributes);
        let flag_in = std::mem::take(&mut self.data.next_flag_in);
        let ruled = self.ask_rules(snapshot, statement, text, flag_in);
        self.data.next_flag_in = ruled.output.next_query_flag_in.unwrap_or_default();
        let kills = statement.flags.intersects(Flags::KILL);
        if ruled.passes() && ruled.output.is_mirrored() && request.whole && !kills {
            self.note_tie();
            self.mirror(snapshot, statement, text, &ruled.output);
        }
        ruled
    }

    /// Counts and logs a text that Narrows answers: with OK, or with this error.
    fn note_answered(
        &mut self,
        snapshot: &LocalSnapshot,
        (statement, text): (&Statement, &[u8]),
        ruled: &Ruled,
        error: Option<Errno>,
    ) {
        self.count_statement((statement, ruled.digest.as_ref()), text, NOWHERE, Yield::default());
        if is_logged(&snapshot.variables, &ruled.output) {
            self.record_answered(Command::Query, text, error);
        }
    }

    /// What a statement is. Of one that is not `whole` the rest is not known.
    fn inspect(&self, text: &[u8], whole: bool) -> Statement {
        let mut statement = self.in_doubt(text, narrows_sql::classify(text));
        if !whole {
            statement.flags |= Flags::UNTERMINATED;
        }
        statement
    }

    /// What a text is that was read as `statement`, if settings of the session may have the server read it in another way.
    pub(super) fn in_doubt(&self, text: &[u8], statement: Statement) -> Statement {
        let escaped = statement.flags.contains(Flags::ESCAPED_QUOTE);
        if !escaped && text.is_ascii() {
            return statement;
        }
        read_otherwise(&self.data.state, self.data.status, text, statement)
    }

    /// Reads the rest of a long command and forgets it.
    pub(super) async fn discard(&self, request: &mut Request) -> Result<(), End> {
        if request.whole {
            return Ok(());
        }
        self.skip(request).await
    }
}
