//! A session's statements before the rules, the firewall and [`route`](crate::route).

use std::sync::Arc;

use narrows_sql::Statement;

use super::Session;
use super::effects::expected;
use crate::mirror::{Copy, offer};
use crate::route::{Asking, Digest, Route, Ruled, Step};
use crate::rt::{Instant, nanoseconds};
use crate::rules::{Client, Hint, Passage, Verdict};
use crate::snapshot::Snapshot;

impl Session {
    /// What the way of a statement depends on in this session.
    fn asking<'s>(&'s self, snapshot: &'s Snapshot) -> Asking<'s> {
        Asking {
            snapshot,
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
        }
    }

    /// Asks the rules, the comment and the firewall about `text`. The walk over the rules starts with `flag_in`.
    pub(super) fn ask_rules(
        &self,
        snapshot: &Snapshot,
        statement: &Statement,
        text: &[u8],
        flag_in: u32,
    ) -> Ruled {
        let began = snapshot.variables.stats_time_query_processor.then(Instant::now);
        let asking = self.asking(snapshot);
        let mut ruled = {
            let tools = (&mut *self.worker.rules.borrow_mut(), &mut *self.worker.scratch.borrow_mut());
            let note = |key: &[u8], value: &[u8], hint| self.note_hint(key, value, hint);
            asking.ask_rules(tools, (statement, text), flag_in, note)
        };
        if ruled.digest.is_none() {
            ruled.digest = self.digest(text, &snapshot.variables).map(|hash| Digest { hash, text: None });
        }
        if let Some(began) = began {
            self.worker.counters.borrow_mut().rules_time_ns += nanoseconds(began.elapsed());
        }
        self.note_passage(&asking, &ruled);
        ruled
    }

    /// What happens to a statement of which the rules say `ruled`.
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

    /// Whether the firewall lets a command through that no list can name.
    pub(super) fn may_send_unlisted(&self, snapshot: &Snapshot) -> bool {
        let asking = self.asking(snapshot);
        let ruled = asking.ask_unlisted();
        self.note_passage(&asking, &ruled);
        ruled.passes()
    }

    /// Counts and logs what the firewall says.
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

    /// Runs a copy: where the rules say, or those of the chain that the copy starts in. It is never refused, answered
    /// or mirrored again.
    pub(super) fn mirror(&self, snapshot: &Snapshot, statement: &Statement, text: &[u8], output: &Verdict) {
        let chain = output.mirror_flag_out.map(|flag| self.ask_rules(snapshot, statement, text, flag));
        let (chosen, rewritten) = match chain {
            Some(ruled) => (ruled.output.destination_hostgroup, ruled.rewritten),
            None => (None, None),
        };
        let own = self.want.account.row.default_hostgroup;
        let copy = Copy {
            want: self.want.clone(),
            state: Arc::clone(&self.data.state),
            hostgroup: chosen.or(output.mirror_hostgroup).unwrap_or(own),
            text: rewritten.unwrap_or_else(|| text.to_vec()),
            exit: expected(statement, text).exit(),
        };
        offer(&self.worker.mirror, &snapshot.variables, copy);
    }

    /// Turns multiplexing off or on for what follows, as the rules say.
    pub(super) fn set_multiplexing(&mut self, output: &Verdict) {
        match output.multiplex {
            Some(0) => self.binding.multiplexing_off = true,
            Some(1) => self.binding.multiplexing_off = false,
            _ => {}
        }
    }
}

/// What of a client may change from one statement to the next: what the rules have said holds while it is the same.
pub(super) fn changing<'c>(client: &Client<'c>) -> &'c [u8] {
    let Client { username: _, schemaname, client_addr: _, proxy_addr: _, proxy_port: _ } = client;
    schemaname
}
