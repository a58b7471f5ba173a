//! What is to be done with a statement: what the rules say of it, then its own comment, then the firewall; and where
//! it goes, if nobody says.

use std::sync::Arc;
use std::time::Duration;

use narrows_sql::set::{Assignment, Scope, Value};
use narrows_sql::{
    DigestOptions, Doubt, Escapes, Flags, Kind, Scratch, Statement, Writing, digest_text, is_read,
    reads_apart, reads_surely,
};
use narrows_wire::Status;

use super::Session;
use super::effects::expected;
use super::relay::HoldBack;
use crate::mirror::{Copy, offer};
use crate::rt::{Instant, nanoseconds};
use crate::rules::{Hint, Memory, Passage, Question, Sender, Verdict, annotate, digest_of};
use crate::snapshot::{Account, HostgroupId, Snapshot, Variables};
use crate::state::SessionState;

/// What was said of a statement.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// Its text, as the rules have rewritten it.
    pub(super) rewritten: Option<Vec<u8>>,
    /// Its digest, where anybody has asked for it or digests are counted.
    pub(super) digest: Option<Digest>,
    /// The digest does not say all of the statement; known where the firewall wants to know.
    pub(super) cut: bool,
    /// The firewall lets it through.
    pub(super) passes: bool,
}

/// The digest of a statement as the client sent it.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    /// Hash of its text.
    pub(super) hash: u64,
    /// Its text, where the statement was rewritten; else it is made of the statement when it is wanted.
    pub(super) text: Option<Box<[u8]>>,
}

/// How a statement is to be run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Orders {
    /// Time after which it is killed; `None`, which a timeout of 0 means too: `default_query_timeout`.
    pub(super) timeout: Option<Duration>,
    /// Time to wait before.
    pub(super) delay: Duration,
    /// How often it may run again where its server failed and nothing can have happened; `None`:
    /// `query_retries_on_failure`.
    pub(super) retries: Option<u32>,
    /// It runs on a connection that is opened for it.
    pub(super) new_connection: bool,
    /// It does not tie its session to a connection by what it does to variables.
    pub(super) keeps_multiplexing: bool,
    /// The query log is told of it.
    pub(super) logged: bool,
    /// It was taken for a read: where it runs if its server thinks otherwise.
    pub(super) writer: Option<HostgroupId>,
    /// It is a read away from where the session writes: it may run outside of the transaction that it would begin where
    /// the session has autocommit off.
    pub(super) may_run_apart: bool,
    /// It does.
    pub(super) apart: bool,
    /// Errors that lead to its being run again.
    pub(super) hold_back: HoldBack,
    /// Its answer may be kept and given again.
    pub(super) caching: Option<Caching>,
}

/// How an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caching {
    /// For how long.
    pub(super) ttl: Duration,
    /// Even if it has no rows.
    pub(super) without_rows: bool,
}

impl Caching {
    /// What rules and variables say.
    fn of(variables: &Variables, verdict: &Verdict) -> Option<Caching> {
        let ttl = verdict.cache_ttl.filter(|ttl| *ttl > 0 && variables.query_cache_size > 0)?;
        let without_rows = verdict.cache_empty_result.unwrap_or(variables.query_cache_stores_empty_result);
        Some(Caching { ttl: Duration::from_millis(ttl.into()), without_rows })
    }
}

impl Orders {
    /// What a statement is, once it goes where only reads go: all that it calls was declared to have no effect.
    pub(super) fn read(&self, statement: Statement) -> Statement {
        match self.writer {
            Some(_) => {
                let calls = Flags::FUNCTION_CALL_UNKNOWN | Flags::SERVER_FUNCTION;
                Statement { flags: statement.flags.without(calls), ..statement }
            }
            None => statement,
        }
    }
}

impl Session {
    /// Asks the rules, the comment and the firewall about `text`. The walk over the rules begins with `flag_in`.
    pub(super) fn judge(
        &self,
        snapshot: &Snapshot,
        statement: &Statement,
        text: &[u8],
        flag_in: u32,
    ) -> Judgement {
        let variables = &snapshot.variables;
        let guarded = variables.firewall_whitelist_enabled;
        let mut judgement = Judgement {
            passes: true,
            verdict: Verdict { flag_out: flag_in, ..Verdict::default() },
            ..Judgement::default()
        };
        let began = variables.stats_time_query_processor.then(Instant::now);
        if guarded || !snapshot.rules.is_empty() {
            let mut scratch = self.worker.scratch.borrow_mut();
            let wanted = variables.query_digests && (guarded || snapshot.rules.needs_digest());
            let digest =
                wanted.then(|| digest_of(digest_text(text, &digest_options(variables), &mut scratch)));
            let question = self.question(text, digest, flag_in);
            let memory = &mut self.worker.rules.borrow_mut();
            (judgement.verdict, judgement.rewritten) = snapshot.rules.apply(&question, memory);
            let rewritten = judgement.rewritten.is_some();
            judgement.digest =
                digest.map(|(text, hash)| Digest { hash, text: rewritten.then(|| text.into()) });
            judgement.cut = scratch.is_cut();
        }
        if judgement.digest.is_none() {
            judgement.digest = self.digest(text, variables).map(|hash| Digest { hash, text: None });
        }
        if let Some(began) = began {
            self.worker.counters.borrow_mut().rules_time_ns += nanoseconds(began.elapsed());
        }
        if variables.query_digests && statement.flags.contains(Flags::COMMENT) {
            annotate(&mut judgement.verdict, text, |key, value, hint| self.note_hint(key, value, hint));
        }
        if guarded {
            judgement.passes = self.passes_firewall(snapshot, statement, text, &judgement);
        }
        judgement
    }

    /// What the rules are asked about `text`.
    fn question<'q>(&'q self, text: &'q [u8], digest: Option<(&'q [u8], u64)>, flag_in: u32) -> Question<'q> {
        Question {
            username: &self.want.account.row.username,
            schemaname: self.data.state.schema.as_deref().unwrap_or_default(),
            client_addr: &self.handle.peer.0,
            proxy_addr: &self.client.local.0,
            proxy_port: self.client.local.1,
            flag_in,
            statement: text,
            digest,
        }
    }

    /// Counts a hint that is ignored, unless the comment is for somebody else; the log has one line a minute.
    fn note_hint(&self, key: &[u8], value: &[u8], hint: Hint) {
        let Some(why) = hint.why_ignored().filter(|_| hint != Hint::Unknown) else { return };
        self.worker.counters.borrow_mut().hints_ignored += 1;
        if let Some(untold) = self.worker.ignored_hints.due(Instant::now()) {
            let username = &self.want.account.row.username;
            let (hint, value) = (key.escape_ascii(), value.get(..64).unwrap_or(value).escape_ascii());
            tracing::warn!(user = username, client = self.handle.peer.0, %hint, %value, why, untold, "hint ignored");
        }
    }

    /// Whether the firewall lets a statement through. What a proxy of ProxySQL's kind answers itself is not asked about.
    fn passes_firewall(
        &self,
        snapshot: &Snapshot,
        statement: &Statement,
        text: &[u8],
        judgement: &Judgement,
    ) -> bool {
        let mut doubt = None;
        let mut is_in_doubt = || {
            doubt = doubt_of(&self.data.state, self.data.status, statement, (text, judgement.cut));
            doubt
        };
        if is_housekeeping(statement, text) && is_in_doubt().is_none() {
            return true;
        }
        let passage = snapshot.firewall.ask(self.sender(judgement), is_in_doubt);
        self.note_passage(passage, judgement, doubt)
    }

    /// Whether the firewall lets a command through that no list can name.
    pub(super) fn may_send_unlisted(&self, snapshot: &Snapshot) -> bool {
        if !snapshot.variables.firewall_whitelist_enabled {
            return true;
        }
        let judgement = Judgement::default();
        let passage = snapshot.firewall.ask(self.sender(&judgement), || None);
        self.note_passage(passage, &judgement, Some(Doubt::NoText))
    }

    fn sender<'s>(&'s self, judgement: &Judgement) -> Sender<'s> {
        Sender {
            username: &self.want.account.row.username,
            client_addr: &self.handle.peer.0,
            schemaname: self.data.state.schema.as_deref().unwrap_or_default(),
            flag: judgement.verdict.flag_out,
            digest: judgement.digest.as_ref().map(|digest| digest.hash),
        }
    }

    /// Counts and logs what the firewall says; whether the statement passes.
    fn note_passage(&self, passage: Passage, judgement: &Judgement, doubt: Option<Doubt>) -> bool {
        let mut counters = self.worker.counters.borrow_mut();
        match passage {
            Passage::Free => return true,
            Passage::Noted => counters.firewall_noted += 1,
            Passage::Refused => counters.firewall_refused += 1,
        }
        let sender = self.sender(judgement);
        tracing::warn!(
            target: "narrows_proxy::firewall",
            user = sender.username,
            client = sender.client_addr,
            schema = %sender.schemaname.escape_ascii(),
            digest = format_args!("0x{:016X}", sender.digest.unwrap_or_default()),
            refused = passage == Passage::Refused,
            doubt = doubt.map(tracing::field::display),
            "statement is not in the whitelist"
        );
        passage == Passage::Noted
    }

    /// Where a statement goes, and how it is run there: to what it asks about, as [`destination`] says, as a read if it
    /// is one and reads are split off, or else to the user's own hostgroup.
    pub(super) fn route(
        &self,
        snapshot: &Snapshot,
        statement: &Statement,
        text: &[u8],
        verdict: &Verdict,
    ) -> (HostgroupId, Orders) {
        let variables = &snapshot.variables;
        let delay = verdict.delay.map_or(Duration::ZERO, |delay| Duration::from_millis(delay.into()));
        let mut orders = Orders {
            timeout: verdict.timeout.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.into())),
            delay: delay.max(variables.default_query_delay),
            retries: verdict.retries,
            new_connection: verdict.create_new_connection,
            keeps_multiplexing: verdict.multiplex == Some(2),
            logged: is_logged(variables, verdict),
            writer: None,
            may_run_apart: false,
            apart: false,
            hold_back: HoldBack::default(),
            caching: Caching::of(variables, verdict),
        };
        let own = self.want.account.row.default_hostgroup;
        let hostgroup = match verdict.destination_hostgroup {
            _ if let Some(wanted) = self.data.information.wanted_hostgroup(statement) => wanted,
            Some(ruled) => {
                let question = self.question(text, None, 0);
                let memory = &mut self.worker.rules.borrow_mut();
                destination(snapshot, memory, statement, &question, ruled, own).0
            }
            None => match self.reader(snapshot, statement, text) {
                Some(reader) => {
                    orders.writer = Some(own);
                    reader
                }
                None => own,
            },
        };
        if !self.data.status.contains(Status::AUTOCOMMIT) {
            orders.may_run_apart = !variables.enforce_autocommit_on_reads
                && (hostgroup != own || snapshot.readers.values().any(|reader| *reader == own))
                && ends_as_read(&self.data.state, self.data.status, statement, text)
                && reads_apart(text, *statement);
        }
        (hostgroup, orders)
    }

    /// Has a copy run: where the rules say, or those of the chain that the copy begins in. It is never refused, answered
    /// or mirrored again.
    pub(super) fn mirror(&self, snapshot: &Snapshot, statement: &Statement, text: &[u8], verdict: &Verdict) {
        let chain = verdict.mirror_flag_out.map(|flag| self.judge(snapshot, statement, text, flag));
        let (chosen, rewritten) = match chain {
            Some(judgement) => (judgement.verdict.destination_hostgroup, judgement.rewritten),
            None => (None, None),
        };
        let own = self.want.account.row.default_hostgroup;
        let copy = Copy {
            want: self.want.clone(),
            state: Arc::clone(&self.data.state),
            hostgroup: chosen.or(verdict.mirror_hostgroup).unwrap_or(own),
            text: rewritten.unwrap_or_else(|| text.to_vec()),
            exit: expected(statement, text).exit(),
        };
        offer(&self.worker, &snapshot.variables, copy);
    }

    /// Turns multiplexing off or on for what follows, as the rules say.
    pub(super) fn set_multiplexing(&mut self, verdict: &Verdict) {
        match verdict.multiplex {
            Some(0) => self.binding.multiplexing_off = true,
            Some(1) => self.binding.multiplexing_off = false,
            _ => {}
        }
    }

    /// The hostgroup of replicas that a statement may be read from.
    fn reader(&self, snapshot: &Snapshot, statement: &Statement, text: &[u8]) -> Option<HostgroupId> {
        let alone = self.binding.pinned.is_none()
            && self.data.status.contains(Status::AUTOCOMMIT)
            && !self.data.status.contains(Status::IN_TRANS);
        alone.then(|| {
            reader(snapshot, &self.want.account, (&self.data.state, self.data.status), statement, text)
        })?
    }
}

/// Where the statement of `question` goes that rules send to `ruled`, and why.
///
/// A `SELECT` that leaves something behind on its connection goes to the user's own hostgroup whatever the rules say:
/// what it leaves would tie the whole session to a server meant for reads. A text that begins with a read and goes on with
/// something else goes where the rules send that.
pub(crate) fn destination(
    snapshot: &Snapshot,
    memory: &mut Memory,
    statement: &Statement,
    question: &Question,
    ruled: HostgroupId,
    own: HostgroupId,
) -> (HostgroupId, &'static str) {
    if statement.kind != Kind::Select {
        return (ruled, "the rules say so");
    }
    if statement.flags.contains(Flags::MULTI)
        && let Some(part) = first_write(question.statement)
    {
        let hostgroup = ask_again(snapshot, memory, question, part).unwrap_or(own);
        return (hostgroup, "the rules say so of its first statement that is no read");
    }
    if leaves_something(statement) {
        return (
            own,
            "the user's own: a SELECT that takes a lock or sets a variable does not follow the rules",
        );
    }
    (ruled, "the rules say so")
}

/// Whether a `SELECT` leaves a lock or a variable behind on its connection.
fn leaves_something(statement: &Statement) -> bool {
    let leaves = Flags::GET_LOCK | Flags::ASSIGNS_USER_VARIABLE | Flags::INTO_VARIABLE;
    statement.flags.intersects(leaves)
}

/// The first statement of a text that does more than read. `None` if all of it reads.
fn first_write(text: &[u8]) -> Option<&[u8]> {
    let writes = |statement: &Statement| match statement.kind {
        Kind::Select => leaves_something(statement) || statement.flags.contains(Flags::WRITING_CTE),
        Kind::Show | Kind::ShowWarnings | Kind::GetDiagnostics | Kind::Explain | Kind::Use => false,
        _ => true,
    };
    let mut parts = narrows_sql::parts(text, Escapes::Backslash);
    parts.find(|(_, statement)| writes(statement)).map(|(part, _)| part)
}

/// Where the rules send a part of a text. A `SELECT` that leaves something goes to the user's own hostgroup, as it does alone.
fn ask_again(
    snapshot: &Snapshot,
    memory: &mut Memory,
    question: &Question,
    part: &[u8],
) -> Option<HostgroupId> {
    if narrows_sql::classify(part).kind == Kind::Select {
        return None;
    }
    let variables = &snapshot.variables;
    let mut scratch = Scratch::new();
    let digest = variables
        .query_digests
        .then(|| digest_of(digest_text(part, &digest_options(variables), &mut scratch)));
    let asked = Question { statement: part, digest, ..*question };
    snapshot.rules.apply(&asked, memory).0.destination_hostgroup
}

/// The hostgroup of replicas that a statement may be read from, outside of transactions and with nothing pinned.
pub(crate) fn reader(
    snapshot: &Snapshot,
    account: &Account,
    (state, status): (&SessionState, Status),
    statement: &Statement,
    text: &[u8],
) -> Option<HostgroupId> {
    if !account.split.on.unwrap_or(snapshot.variables.auto_read_write_split) || statement.kind != Kind::Select
    {
        return None;
    }
    let own = account.row.default_hostgroup;
    let reader = account.split.reader.or_else(|| snapshot.readers.get(&own).copied())?;
    let hostgroup = snapshot.hostgroups.get(&reader)?;
    let safe = &snapshot.variables.auto_read_write_split_functions;
    let may = hostgroup.servers.iter().any(|server| hostgroup.may_use(server))
        && reads_as_written(state, status, statement, text)
        && is_read(text, *statement, |name| safe.iter().any(|safe| safe == name));
    may.then_some(reader)
}

/// Whether the server takes strings to end where we do, and names nothing by the current schema that belongs to one
/// server.
fn reads_as_written(state: &SessionState, status: Status, statement: &Statement, text: &[u8]) -> bool {
    let own_schemas: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];
    let schema = state.schema.as_deref().unwrap_or_default();
    !own_schemas.iter().any(|own| own.eq_ignore_ascii_case(schema))
        && ends_as_read(state, status, statement, text)
}

/// Whether the server takes strings to end where we do.
fn ends_as_read(state: &SessionState, status: Status, statement: &Statement, text: &[u8]) -> bool {
    // With ANSI_QUOTES a backslash in double quotes is a letter, with NO_BACKSLASH_ESCAPES everywhere.
    if statement.flags.contains(Flags::ESCAPED_QUOTE)
        && (status.contains(Status::NO_BACKSLASH_ESCAPES) || text.windows(2).any(|pair| pair == b"\\\""))
    {
        return false;
    }
    // In these character sets a backslash or a quote may be the second half of a letter.
    let charset = state.literal("character_set_client").map(|literal| literal.trim_matches('\''));
    text.is_ascii() || !charset.is_some_and(|charset| TRICKY_CHARSETS.contains(&charset))
}

/// Why servers may run something else than what the digest of a statement says; `cut`: something of it is not in the digest.
pub(crate) fn doubt_of(
    state: &SessionState,
    status: Status,
    statement: &Statement,
    (text, cut): (&[u8], bool),
) -> Option<Doubt> {
    if cut || statement.flags.intersects(Flags::UNTERMINATED | Flags::UNSURE) {
        // Unless the text says more exactly what is wrong with it.
        return Some(reads_surely(text, writing(state, status)).err().unwrap_or(Doubt::Cut));
    }
    reads_surely(text, writing(state, status)).err()
}

/// How a session's texts are written.
fn writing(state: &SessionState, status: Status) -> Writing<'_> {
    Writing {
        charset: state.literal("character_set_client").map(|literal| literal.trim_matches('\'')),
        plain_backslash: status.contains(Status::NO_BACKSLASH_ESCAPES),
    }
}

/// Whether the query log is told of a statement.
pub(super) fn is_logged(variables: &Variables, verdict: &Verdict) -> bool {
    !variables.eventslog_filename.is_empty() && verdict.log.unwrap_or(variables.eventslog_default_log)
}

/// What is done to a session and to nothing else, or ends what was allowed to begin: `USE`, `SET NAMES`,
/// `SET autocommit`, `COMMIT`, `ROLLBACK`.
pub(crate) fn is_housekeeping(statement: &Statement, text: &[u8]) -> bool {
    if statement.flags.contains(Flags::MULTI) {
        return false;
    }
    match statement.kind {
        Kind::Use | Kind::Commit | Kind::Rollback => true,
        Kind::Set => narrows_sql::set::parse(text).is_ok_and(|assignments| {
            assignments.iter().all(|assignment| match assignment {
                Assignment::Names { .. } => true,
                Assignment::System { scope: Scope::Session, name, value } => {
                    name == "autocommit" && !matches!(value, Value::Expression(_))
                }
                _ => false,
            })
        }),
        _ => false,
    }
}

/// How digests are made.
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

/// Character sets whose letters may contain an ASCII byte.
const TRICKY_CHARSETS: [&str; 5] = ["big5", "gbk", "gb18030", "sjis", "cp932"];
