//! `COM_QUERY`: classifies the statement, applies the rules, and routes it. Prepared statements use the same functions.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::{Dialect, Flags, KillTarget, Kind, Statement, digest_text, is_token_query};
use narrows_wire::charset::Family;
use narrows_wire::query::attributes_length;
use narrows_wire::{Capabilities, Command, Errno, Malformed};

use super::effects::expected;
use super::errors::malformed;
use super::job::{Job, NOWHERE};
use super::outcome::Yield;
use super::request::Request;
use super::{End, Session};
use crate::backend::dialect;
use crate::client;
use crate::mirror::{Copy, offer};
use crate::pool::Exit;
use crate::recent_texts::{ReadText, TextDigest};
use crate::route::{Asking, Digest, Kills, Route, Ruled, Step, digest_options, is_logged, read_otherwise};
use crate::rt::{Instant, nanoseconds};
use crate::rules::{Client, Hint, Passage, RuleOutput, digest_of};
use crate::snapshot::{Snapshot, Variables};
use crate::worker::LocalSnapshot;

/// What happens to a text.
#[expect(clippy::large_enum_variant, reason = "nearly every text runs")]
enum Next {
    /// It runs, after these sessions and statements are killed.
    Run(Vec<KillTarget>, Job),
    /// Narrows kills a session or its statement.
    Kill(KillTarget, Box<Job>),
    /// Narrows answers with OK.
    Ok(String),
    Refuse(Errno, String),
    /// `PROXYSQL INTERNAL`, or the question for the token, after that many bytes of query attributes.
    Internal(usize),
}

impl Session {
    /// `COM_QUERY`.
    pub(super) async fn query(&mut self, request: &mut Request) -> Result<(), End> {
        let next = self.decide(request);
        match next.unwrap_or_else(|why| Next::Refuse(Errno::MALFORMED_PACKET, malformed(why))) {
            Next::Run(first, mut job) => {
                if !first.is_empty()
                    && let Err(errno) = Box::pin(self.kill_all(&first)).await?
                {
                    self.note_killed(request, &job, Some(errno));
                    return Ok(());
                }
                self.show_statement(request.argument_after(job.attributes));
                self.execute(request, &mut job).await
            }
            Next::Kill(target, job) => {
                let killed = Box::pin(self.kill(target)).await;
                let error = killed.as_ref().map_or(Some(Errno::QUERY_INTERRUPTED), |killed| killed.err());
                self.note_killed(request, &job, error);
                killed.map(drop)
            }
            Next::Internal(attributes) => Box::pin(self.internal(request, attributes)).await,
            Next::Ok(text) => self.reply_ok(&text).await,
            Next::Refuse(errno, text) => {
                self.discard(request).await?;
                self.reply_error_at(request.answer(), errno, &text).await
            }
        }
    }

    /// Classifies the statement, applies the rules, and routes it.
    fn decide(&mut self, request: &mut Request) -> Result<Next, Malformed> {
        let snapshot = self.snapshot();
        let attributes = match self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            true => attributes_length(request.argument())?,
            false => 0,
        };
        let text = request.argument_after(attributes);
        let recent = self.recent(text, request.whole, &snapshot.variables);
        let mut statement = match &recent {
            Some(recent) => self.in_doubt(text, recent.statement),
            None => self.inspect(text, request.whole),
        };
        if is_for_narrows(&statement, text) {
            return Ok(Next::Internal(attributes));
        }
        let known = recent.as_ref().and_then(|recent| recent.digest.as_ref());
        let flag_in = std::mem::take(&mut self.data.next_flag_in);
        let mut ruled = self.ask_rules(&snapshot, &statement, text, known, flag_in);
        self.data.next_flag_in = ruled.output.next_query_flag_in.unwrap_or_default();
        if snapshot.dry_run.is_some() {
            self.dry_run_text(&snapshot, (&statement, text), known, (flag_in, &ruled));
        }
        if ruled.output.is_mirrored() && request.whole {
            self.mirror(&snapshot, &statement, text, &ruled);
        }
        if let Some(text) = ruled.rewritten.take().filter(|text| request.takes_text(text)) {
            statement = self.inspect(&text, true);
            request.replace_argument(attributes, &text);
        }
        let text = request.argument_after(attributes);
        let mut route = self.route(&snapshot, (Step::Query, &statement, text), &ruled);
        let mut first = Vec::new();
        // Its text has no KILL.
        if let Route::Run(..) = route
            && !statement.is_plain()
        {
            match self.asking(&snapshot).kills(self.handle.id, (&statement, text), request.whole) {
                Kills::Nobody => {}
                Kills::Alone(target) => {
                    let mut job = Job::new(Command::Query, statement, request.whole);
                    job.options.recorded.is_logged = is_logged(&snapshot.variables, &ruled.output);
                    (job.digest, job.attributes) = (ruled.digest, attributes);
                    return Ok(Next::Kill(target, Box::new(job)));
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
        let text = request.argument_after(attributes);
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

    /// Counts and logs a text with a kill, after it was carried out or has failed.
    fn note_killed(&mut self, request: &Request, job: &Job, error: Option<Errno>) {
        let text = request.argument_after(job.attributes);
        self.count_statement((&job.statement, job.digest.as_ref()), text, NOWHERE, Yield::default());
        if job.options.recorded.is_logged {
            self.record_answered(Command::Query, text, error);
        }
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

    /// What was remembered about a text that was sent before.
    fn recent(&self, text: &[u8], whole: bool, variables: &Variables) -> Option<Rc<ReadText>> {
        let read = || {
            let mut scratch = self.worker.scratch.borrow_mut();
            let digest = variables.query_digests.then(|| {
                let (text, hash) = digest_of(digest_text(text, &digest_options(variables), &mut scratch));
                (Box::from(text), hash)
            });
            let digest = digest.map(|(text, hash)| TextDigest { text, hash, is_cut: scratch.is_cut() });
            ReadText { statement: narrows_sql::classify(text), digest }
        };
        let longest = variables.query_digests_max_query_length;
        whole.then(|| self.worker.recent_texts.get(text, longest, read)).flatten()
    }

    /// Classifies a statement. If it is not `whole`, the rest of it is unknown.
    fn inspect(&self, text: &[u8], whole: bool) -> Statement {
        let mut statement = self.in_doubt(text, narrows_sql::classify(text));
        if !whole {
            statement.flags |= Flags::UNTERMINATED;
        }
        statement
    }

    /// Classifies a text again if settings of the session may make the server read it differently.
    pub(super) fn in_doubt(&self, text: &[u8], statement: Statement) -> Statement {
        let escaped = statement.flags.contains(Flags::ESCAPED_QUOTE);
        if !escaped && text.is_ascii() {
            return statement;
        }
        read_otherwise(&self.data.state, self.data.status, text, statement)
    }

    /// Reads and discards the rest of a long command.
    pub(super) async fn discard(&self, request: &mut Request) -> Result<(), End> {
        if request.whole {
            return Ok(());
        }
        self.skip(request).await
    }

    /// The properties of the session on which routing depends.
    pub(super) fn asking<'s>(&'s self, snapshot: &'s Snapshot) -> Asking<'s> {
        Asking {
            snapshot,
            rules: &snapshot.rules,
            account: &self.want.account,
            client: self.rule_client(),
            state: &self.data.state,
            status: self.data.status,
            is_pinned: self.binding.pinned.is_some(),
        }
    }

    /// The client, as rules see it.
    pub(super) fn rule_client(&self) -> Client<'_> {
        Client {
            username: &self.want.account.row.username,
            schemaname: self.data.state.schema.as_deref().unwrap_or_default(),
            client_addr: &self.handle.peer.0,
            proxy_addr: &self.client.local.0,
            proxy_port: &self.client.local.1,
            session: Some(self.handle.id),
        }
    }

    /// Applies the rules, the hints and the firewall to `text`. The walk over the rules starts with `flag_in`; `known` is the
    /// digest of the text, if it was already computed.
    pub(super) fn ask_rules(
        &self,
        snapshot: &Snapshot,
        statement: &Statement,
        text: &[u8],
        known: Option<&TextDigest>,
        flag_in: u32,
    ) -> Ruled {
        let began = snapshot.variables.stats_time_query_processor.then(Instant::now);
        let asking = self.asking(snapshot);
        let mut ruled = {
            let tools = (&mut *self.worker.rules.borrow_mut(), &mut *self.worker.scratch.borrow_mut());
            let note = |key: &[u8], value: &[u8], hint| self.note_hint(key, value, hint);
            asking.ask_rules(tools, (statement, text), known, flag_in, note)
        };
        if ruled.digest.is_none() {
            let hash = known.map_or_else(|| self.digest(text, &snapshot.variables), |known| Some(known.hash));
            ruled.digest = hash.map(|hash| Digest { hash, text: None });
        }
        if let Some(began) = began {
            self.worker.counters.borrow_mut().rules_time_ns += nanoseconds(began.elapsed());
        }
        self.note_passage(&asking, &ruled);
        ruled
    }

    /// Routes a statement with the rules' output.
    pub(super) fn route(
        &self,
        snapshot: &Snapshot,
        (step, statement, text): (Step, &Statement, &[u8]),
        ruled: &Ruled,
    ) -> Route {
        let wanted = self.data.information.wanted_hostgroup(statement);
        let memory = &mut self.worker.rules.borrow_mut();
        self.asking(snapshot).route(memory, (step, statement, text), ruled, wanted)
    }

    /// Counts a hint that is ignored, unless the comment is not meant for Narrows; logs at most one line per minute.
    fn note_hint(&self, key: &[u8], value: &[u8], hint: Hint) {
        let Some(why) = hint.why_ignored().filter(|_| hint != Hint::Unknown) else { return };
        self.worker.counters.borrow_mut().hints_ignored += 1;
        if let Some(suppressed) = self.worker.ignored_hints.due(Instant::now()) {
            let username = &self.want.account.row.username;
            let (hint, value) = (key.escape_ascii(), value.get(..64).unwrap_or(value).escape_ascii());
            tracing::warn!(user = username, client = self.handle.peer.0, %hint, %value, why, suppressed, "hint ignored");
        }
    }

    /// Whether the firewall allows a command that no whitelist can contain.
    pub(super) fn may_send_unlisted(&self, snapshot: &Snapshot) -> bool {
        let asking = self.asking(snapshot);
        let ruled = asking.ask_unlisted();
        self.note_passage(&asking, &ruled);
        ruled.passes()
    }

    /// Counts and logs what the firewall decides.
    fn note_passage(&self, asking: &Asking<'_>, ruled: &Ruled) {
        let mut counters = self.worker.counters.borrow_mut();
        match ruled.passage {
            Passage::Free => return,
            Passage::Noted => counters.firewall_noted += 1,
            Passage::Refused => counters.firewall_refused += 1,
        }
        let sender = asking.sender(ruled);
        tracing::warn!(
            target: "narrows_proxy::firewall",
            user = sender.username,
            client = sender.client_addr,
            schema = %sender.schemaname.escape_ascii(),
            digest = format_args!("0x{:016X}", sender.digest.unwrap_or_default()),
            refused = ruled.passage == Passage::Refused,
            doubt = ruled.doubt.map(tracing::field::display),
            "statement is not in the whitelist"
        );
    }

    /// Runs a copy of a mirrored text in the hostgroup of the rules, or of the rules for `mirror_flagOUT`. A copy is never
    /// refused, answered or mirrored again.
    fn mirror(&self, snapshot: &Snapshot, statement: &Statement, text: &[u8], ruled: &Ruled) {
        if !ruled.passes() || statement.flags.intersects(Flags::KILL) {
            return;
        }
        self.note_tie();
        let output = &ruled.output;
        let chain = output.mirror_flag_out.map(|flag| self.ask_rules(snapshot, statement, text, None, flag));
        let (chosen, rewritten) = match chain {
            Some(ruled) => (ruled.output.destination_hostgroup, ruled.rewritten),
            None => (None, None),
        };
        let own = self.want.account.row.default_hostgroup;
        let hostgroup = chosen.or(output.mirror_hostgroup).unwrap_or(own);
        let family = client::family_of(snapshot, hostgroup);
        // What the copy leaves follows from its own text.
        let exit = match &rewritten {
            Some(text) => exit_of_copy(narrows_sql::classify(text), text, family),
            None => exit_of_copy(*statement, text, family),
        };
        let copy = Copy {
            want: self.want.clone(),
            state: Arc::clone(&self.data.state),
            hostgroup,
            text: rewritten.unwrap_or_else(|| text.to_vec()),
            exit,
        };
        offer(&self.worker.mirror, &snapshot.variables, copy);
    }

    /// Turns multiplexing off or on for later statements, as the rules say.
    pub(super) fn set_multiplexing(&mut self, output: &RuleOutput) {
        match output.multiplex {
            Some(0) => self.binding.multiplexing_off = true,
            Some(1) => self.binding.multiplexing_off = false,
            _ => {}
        }
    }
}

/// What brings a connection back into a known state after a copy, whose answer nobody reads. `None`: no server of the hostgroup
/// has been seen.
fn exit_of_copy(statement: Statement, text: &[u8], family: Option<Family>) -> Exit {
    let statement = match family {
        Some(family) => statement.on(dialect(family)),
        None => statement.on(Dialect::MySql).on(Dialect::MariaDb),
    };
    // A reset keeps the schema.
    match statement.may_change_schema() || !statement.is_certain(text) {
        true => Exit::Close,
        false => expected(&statement, text, family.unwrap_or(Family::MySql)).exit(),
    }
}

/// Whether a statement asks Narrows itself.
fn is_for_narrows(statement: &Statement, text: &[u8]) -> bool {
    match statement.kind {
        Kind::Proxy => narrows_sql::internal_command(text).is_some(),
        Kind::Select => statement.flags.intersects(Flags::SYSTEM_VARIABLE) && is_token_query(text),
        _ => false,
    }
}

/// The property of a client that may change between statements. The remembered output of the rules holds while it is the
/// same.
pub(super) fn changing<'c>(client: &Client<'c>) -> &'c [u8] {
    let Client { username: _, schemaname, client_addr: _, proxy_addr: _, proxy_port: _, session: _ } = client;
    schemaname
}
