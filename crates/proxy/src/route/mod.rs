//! Where a statement goes, and how it runs: one decision for `COM_QUERY`, `COM_STMT_PREPARE`, `COM_STMT_EXECUTE` and
//! `EXPLAIN ROUTE`.
//!
//! [`Asking::ask_rules`] asks the query rules, then the statement's own comment, then the firewall. [`Asking::route`]
//! turns that into an answer, a refusal, or a hostgroup with options. Nothing here has a socket or a session.

mod causal;
mod destination;
mod doubt;
mod dry_run;
mod kills;
#[cfg(test)]
mod tests;

use std::time::Duration;

use narrows_sql::{
    DigestOptions, Doubt, Escapes, Flags, Kind, Scratch, Statement, defines_program, digest_text, reads_apart,
};
use narrows_wire::{Errno, Status};

use crate::lag::LagLimit;
use crate::query_log;
use crate::recent_texts::TextDigest;
use crate::rules::{
    Client, Hint, Memory, Passage, Query, Question, RuleOutput, RuleSet, Sender, annotate, digest_of,
};
use crate::snapshot::{Account, HostgroupId, Snapshot, Variables};
use crate::state::SessionState;

pub(crate) use causal::Causal;
pub(crate) use doubt::read_otherwise;
pub(crate) use dry_run::{DryRunDifference, DryRunMemory, may_differ};
pub(crate) use kills::Kills;

use destination::{destination, ends_as_read, reader};
use doubt::{doubt_of, is_housekeeping};

/// Who sends a statement: its session, as far as the route depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// The rules that are asked: those in force, or those of a dry run.
    pub(crate) rules: &'a RuleSet,
    pub(crate) account: &'a Account,
    /// The client, as rules see it.
    pub(crate) client: Client<'a>,
    pub(crate) state: &'a SessionState,
    /// Status flags of the last answer.
    pub(crate) status: Status,
    /// The session keeps a backend connection.
    pub(crate) is_pinned: bool,
}

/// What the rules, the statement's comment and the firewall say of a statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ruled {
    pub(crate) output: RuleOutput,
    /// Its text, as the rules have rewritten it.
    pub(crate) rewritten: Option<Vec<u8>>,
    /// Its digest, if the rules or the firewall have asked for it.
    pub(crate) digest: Option<Digest>,
    /// What the firewall says.
    pub(crate) passage: Passage,
    /// Why the firewall does not use the digest.
    pub(crate) doubt: Option<Doubt>,
}

/// The digest of a statement as the client sent it.
#[derive(Debug, Clone)]
pub(crate) struct Digest {
    /// Hash of its text.
    pub(crate) hash: u64,
    /// Its text, if the statement was rewritten; otherwise it is computed from the statement when needed.
    pub(crate) text: Option<Box<[u8]>>,
}

/// The command of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `COM_QUERY`.
    Query,
    /// `COM_STMT_PREPARE`: the rules that answer with OK wait for the execution.
    Prepare,
    /// `COM_STMT_EXECUTE` and similar.
    Execute,
}

/// What happens to a statement.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// Narrows answers OK with this text.
    Ok(String),
    /// Narrows answers with this error.
    Refuse(Errno, String),
    /// It runs on a server of this hostgroup, for this reason.
    Run(HostgroupId, &'static str, Options),
}

/// How a statement runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Time after which it is killed; `None`, which a timeout of 0 means too: `default_query_timeout`.
    pub(crate) timeout: Option<Duration>,
    /// Time to wait before it runs.
    pub(crate) delay: Duration,
    /// How often it may run again if its server failed and nothing can have happened; `None`:
    /// `query_retries_on_failure`.
    pub(crate) retries: Option<u32>,
    /// It runs on a connection that is opened for it.
    pub(crate) new_connection: bool,
    /// How far behind its server may be.
    pub(crate) lag: Option<LagLimit>,
    /// It does not pin its session to a connection by what it does to variables.
    pub(crate) keeps_multiplexing: bool,
    /// What is recorded about it.
    pub(crate) recorded: Recording,
    /// It was classified as a read: where it runs if its server refuses it as a write.
    pub(crate) writer: Option<HostgroupId>,
    /// It is a read away from where the session writes: it may run outside of the transaction that it would start if
    /// the session has autocommit off.
    pub(crate) may_run_apart: bool,
    /// Its answer may be cached.
    pub(crate) caching: Option<Caching>,
    /// What rules and hints say of the writes that it must see.
    pub(crate) causal: Causal,
    /// A transaction that it begins is run again after its server was lost.
    pub(crate) replay: bool,
}

/// What is recorded about a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Recording {
    /// It may be chosen for the query log.
    pub(crate) is_logged: bool,
    /// It may be chosen for a trace.
    pub(crate) is_traced: bool,
}

/// How an answer is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caching {
    /// For how long.
    pub(crate) ttl: Duration,
    /// Even if it has no rows.
    pub(crate) without_rows: bool,
}

impl Ruled {
    /// Whether the firewall allows the statement.
    pub(crate) fn passes(&self) -> bool {
        self.passage != Passage::Refused
    }
}

impl<'a> Asking<'a> {
    /// Asks the rules, the comment and the firewall about `text`, which was read as `statement`. The walk over the rules
    /// starts with `flag_in`; `note` gets each hint of the comment. `known` is the digest of `text`, if it was computed before.
    pub(crate) fn ask_rules(
        &self,
        (memory, scratch): (&mut Memory, &mut Scratch),
        (statement, text): (&Statement, &[u8]),
        known: Option<&TextDigest>,
        flag_in: u32,
        note: impl FnMut(&[u8], &[u8], Hint),
    ) -> Ruled {
        let (variables, rules) = (&self.snapshot.variables, self.rules);
        let guarded = variables.firewall_whitelist_enabled;
        let mut ruled =
            Ruled { output: RuleOutput { flag_out: flag_in, ..RuleOutput::default() }, ..Ruled::default() };
        let mut is_cut = false;
        if guarded || !rules.is_empty() {
            let wanted = variables.query_digests && (guarded || rules.needs_digest());
            let digest = wanted.then(|| match known {
                Some(known) => (&*known.text, known.hash),
                None => digest_of(digest_text(text, &digest_options(variables), scratch)),
            });
            (ruled.output, ruled.rewritten) = rules.apply(&self.question(text, digest, flag_in), memory);
            let rewritten = ruled.rewritten.is_some();
            ruled.digest = digest.map(|(text, hash)| Digest { hash, text: rewritten.then(|| text.into()) });
            is_cut = known.map_or_else(|| scratch.is_cut(), |known| known.is_cut);
        }
        if variables.query_digests && statement.flags.contains(Flags::COMMENT) {
            annotate(&mut ruled.output, text, note);
        }
        if guarded {
            self.ask_firewall(&mut ruled, statement, (text, is_cut));
        }
        ruled
    }

    /// The firewall is not asked about statements that ProxySQL answers itself. `is_cut`: the digest does not represent
    /// the whole statement.
    fn ask_firewall(&self, ruled: &mut Ruled, statement: &Statement, text: (&[u8], bool)) {
        let mut doubt = None;
        let mut is_in_doubt = || {
            doubt = doubt_of(self.state, self.status, statement, text);
            doubt
        };
        if is_housekeeping(statement, text.0) && is_in_doubt().is_none() {
            return;
        }
        ruled.passage = self.snapshot.firewall.ask(self.sender(ruled), is_in_doubt);
        ruled.doubt = doubt;
    }

    /// What the firewall decides on a command that no whitelist can contain.
    pub(crate) fn ask_unlisted(&self) -> Ruled {
        let mut ruled = Ruled::default();
        if self.snapshot.variables.firewall_whitelist_enabled {
            ruled.passage = self.snapshot.firewall.ask(self.sender(&ruled), || None);
            ruled.doubt = Some(Doubt::NoText);
        }
        ruled
    }

    /// The sender, for the firewall.
    pub(crate) fn sender(&self, ruled: &Ruled) -> Sender<'a> {
        Sender {
            username: self.client.username,
            client_addr: self.client.client_addr,
            schemaname: self.client.schemaname,
            flag: ruled.output.flag_out,
            digest: ruled.digest.as_ref().map(|digest| digest.hash),
        }
    }

    /// The question to the rules about `text`.
    fn question<'q>(&self, text: &'q [u8], digest: Option<(&'q [u8], u64)>, flag_in: u32) -> Question<'q>
    where
        'a: 'q,
    {
        Question { client: self.client, query: Query { flag_in, statement: text, digest } }
    }

    /// What happens to a statement for which the rules say `ruled`. `wanted`: the hostgroup of the connection with the
    /// information about earlier statements that this one reads.
    pub(crate) fn route(
        &self,
        memory: &mut Memory,
        (step, statement, text): (Step, &Statement, &[u8]),
        ruled: &Ruled,
        wanted: Option<HostgroupId>,
    ) -> Route {
        if let Some(answer) = self.answered(step, statement, text, ruled) {
            return answer;
        }
        let Snapshot { variables, readers, .. } = self.snapshot;
        let mut options = Options::of(variables, self.account, &ruled.output);
        let own = self.account.row.default_hostgroup;
        let (hostgroup, why) = if let Some(wanted) = wanted {
            (wanted, "it asks about an earlier statement, which ran there")
        } else if let Some(ruled) = ruled.output.destination_hostgroup {
            destination(self, memory, (statement, text), ruled, own)
        } else if let Some(reader) = reader(self, statement, (text, ruled.output.lag)) {
            options.writer = Some(own);
            (reader, "a read, split off by mysql-auto_read_write_split")
        } else {
            (own, "the user's own: no rule says anything else")
        };
        if !self.status.contains(Status::AUTOCOMMIT) {
            options.may_run_apart = !variables.enforce_autocommit_on_reads
                && (hostgroup != own || readers.values().any(|reader| *reader == own))
                && ends_as_read(self.state, self.status, statement, text)
                && reads_apart(text, *statement);
        }
        Route::Run(hostgroup, why, options)
    }

    /// What the rules, the firewall and a few settings answer. ARCHITECTURE.md lists what else Narrows answers itself.
    fn answered(&self, step: Step, statement: &Statement, text: &[u8], ruled: &Ruled) -> Option<Route> {
        let (variables, rules) = (&self.snapshot.variables, self.rules);
        let refused = |text: &str| Some(Route::Refuse(Errno::NOT_ALLOWED_COMMAND, text.to_owned()));
        match (step, &ruled.output) {
            (Step::Query | Step::Execute, RuleOutput { ok_msg: Some(rule), .. }) => {
                return Some(Route::Ok(rules.ok_msg(*rule).to_owned()));
            }
            (_, RuleOutput { error_msg: Some(rule), .. }) => return refused(rules.error_msg(*rule)),
            _ if !ruled.passes() => return refused(&variables.firewall_whitelist_errormsg),
            _ => {}
        }
        if step == Step::Query
            && statement.kind == Kind::LoadDataLocal
            && !variables.enable_load_data_local_infile
        {
            let errno = Errno { number: 1047, sqlstate: *b"HY000" };
            return Some(Route::Refuse(errno, "Unsupported 'LOAD DATA LOCAL INFILE' command".to_owned()));
        }
        // It would refer to the server's connections. Drivers fall back to text, where the ids are ours.
        let prepares_kill = step == Step::Prepare
            && statement.flags.intersects(Flags::KILL)
            && !defines_program(text, Escapes::Backslash);
        prepares_kill.then(|| Route::Refuse(PREPARED_KILL.0, PREPARED_KILL.1.to_owned()))
    }
}

impl Options {
    /// What rules and variables say.
    fn of(variables: &Variables, account: &Account, output: &RuleOutput) -> Options {
        let delay = output.delay.map_or(Duration::ZERO, |delay| Duration::from_millis(delay.into()));
        Options {
            timeout: output.timeout.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.into())),
            delay: delay.max(variables.default_query_delay),
            retries: output.retries,
            new_connection: output.create_new_connection,
            lag: output.lag,
            keeps_multiplexing: output.multiplex == Some(2),
            recorded: Recording { is_logged: is_logged(variables, output), is_traced: is_traced(variables) },
            writer: None,
            may_run_apart: false,
            caching: Caching::of(variables, output),
            causal: Causal::of(output),
            replay: replays(variables, account, output).0,
        }
    }

    /// The classification of a statement that goes where only reads go: everything it calls was declared to have no
    /// effect.
    pub(crate) fn read(&self, statement: Statement) -> Statement {
        match self.writer {
            Some(_) => {
                let calls = Flags::FUNCTION_CALL_UNKNOWN | Flags::SERVER_FUNCTION;
                Statement { flags: statement.flags.without(calls), ..statement }
            }
            None => statement,
        }
    }
}

impl Caching {
    /// What rules and variables say.
    fn of(variables: &Variables, output: &RuleOutput) -> Option<Caching> {
        let ttl = output.cache_ttl.filter(|ttl| *ttl > 0 && variables.query_cache_size > 0)?;
        let without_rows = output.cache_empty_result.unwrap_or(variables.query_cache_stores_empty_result);
        Some(Caching { ttl: Duration::from_millis(ttl.into()), without_rows })
    }
}

/// Whether the query log gets an entry for a statement.
pub(crate) fn is_logged(variables: &Variables, output: &RuleOutput) -> bool {
    output.log.unwrap_or(variables.eventslog_default_log) && query_log::is_wanted(variables)
}

/// Whether a transaction that the statement begins is run again after its server was lost, and what says so.
pub(crate) fn replays(variables: &Variables, account: &Account, output: &RuleOutput) -> (bool, &'static str) {
    match (output.transaction_replay, account.transaction_replay) {
        (Some(on), _) => (on, "a rule"),
        (None, Some(on)) => (on, "the account"),
        (None, None) => (variables.transaction_replay, "mysql-transaction_replay"),
    }
}

/// Whether statements may be traced.
fn is_traced(variables: &Variables) -> bool {
    !variables.otlp_endpoint.is_empty()
}

/// How digests are computed.
pub(crate) fn digest_options(variables: &Variables) -> DigestOptions {
    DigestOptions {
        max_query_length: variables.query_digests_max_query_length,
        max_digest_length: variables.query_digests_max_digest_length,
        grouping_limit: variables.query_digests_grouping_limit,
        groups_grouping_limit: variables.query_digests_groups_grouping_limit,
        lowercase: variables.query_digests_lowercase,
        replace_null: variables.query_digests_replace_null,
        no_digits: variables.query_digests_no_digits,
        keep_comment: variables.query_digests_keep_comment,
    }
}

/// For a `KILL` in a prepared statement.
const PREPARED_KILL: (Errno, &str) = (
    Errno { number: 1295, sqlstate: *b"HY000" },
    "KILL is not supported in the prepared statement protocol: Narrows has its own connection ids, which it must see in the text",
);
