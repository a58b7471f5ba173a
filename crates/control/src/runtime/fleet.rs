//! The fleet that this Narrows belongs to, as its control thread has it: what is applied, what has drifted, and what an
//! administrator has proposed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use narrows_proxy::snapshot::Rows;
use narrows_wire::auth::client_side::Stored;

use super::Runtime;
use super::fleet_questions::Questions;
use super::fleet_trial::{lacks, needed};
use super::load::Strictness;
use crate::admin::settings::is_local_only;
use crate::fleet::{
    Audience, FiguresWish, Fleet, FleetFigures, FleetOrder, FleetVersion, FleetView, FleetWish, LocalStatus,
    NodeReport, Proposal, TakenBack, TrialDuty, shared, unusable,
};
use crate::monitor::plan::MonitorLogin;
use crate::store::{Refusal, Store};
use crate::tls::towards_anybody;
use crate::versions::{
    ConfigDocument, FleetMark, FleetPlace, RowChange, VersionId, VersionOrigin, VersionSource, changes,
    summary,
};

/// This member of a fleet.
pub struct FleetMember {
    thread: Fleet,
    /// The version of the fleet that runs here, and what it holds; `None`: none, or it is not known any more.
    applied: Option<(FleetPlace, ConfigDocument)>,
    /// What runs differently, and in which version of the own history that was found.
    drift: RefCell<Option<(i64, Arc<Vec<RowChange>>)>>,
    /// The status that the thread has received last, and when.
    told: Option<(LocalStatus, Instant)>,
    /// What was loaded first since a version on trial was applied; empty: nothing.
    loaded: String,
    /// The changes that administrators wait for.
    pending: Vec<PendingChange>,
    reports: Questions<Result<Vec<NodeReport>, String>>,
    taken_back: Questions<Result<Vec<TakenBack>, String>>,
    figures: Questions<FleetFigures>,
}

/// A change that an administrator has proposed.
struct PendingChange {
    /// When the command arrived.
    since: Instant,
    /// The id of the version.
    id: VersionId,
    /// The whole configuration that is wanted here, with what is this member's own.
    document: ConfigDocument,
    outcome: Receiver<Result<FleetMark, String>>,
    /// What has become of it, a version or none, and since when that is known.
    end: Option<(Result<FleetMark, String>, Instant)>,
}

/// How far a change has come.
#[derive(Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// It is not known yet.
    Waits,
    /// It is that version of the fleet, which runs here.
    InForce(FleetMark),
    /// It is that version of the fleet, which does not run here, and why.
    NotHere(FleetMark, String),
    /// It is no version.
    Refused(String),
}

impl FleetMember {
    /// The version of the fleet that was applied last, and what it holds.
    pub fn applied(store: &mut Store) -> Option<(FleetPlace, ConfigDocument)> {
        let (place, local) = store.fleet_place().ok().flatten()?;
        let (document, _) = store.version_document(local).ok().flatten()?;
        Some((place, shared(&document)))
    }

    /// The member that `thread` serves, and that runs what was `applied`.
    pub fn new(thread: Fleet, applied: Option<(FleetPlace, ConfigDocument)>) -> FleetMember {
        FleetMember {
            thread,
            applied,
            drift: RefCell::default(),
            told: None,
            loaded: String::new(),
            pending: Vec::new(),
            reports: Questions::default(),
            taken_back: Questions::default(),
            figures: Questions::default(),
        }
    }

    /// Its name.
    pub fn node(&self) -> &str {
        self.thread.node()
    }

    /// How the fleet is.
    pub fn view(&self) -> FleetView {
        self.thread.view()
    }

    /// What runs differently than in the version of the fleet.
    pub fn drift(&self, store: &Store) -> Arc<Vec<RowChange>> {
        let Some((_, document)) = &self.applied else { return Arc::default() };
        let version = store.version();
        let mut known = self.drift.borrow_mut();
        if let Some((_, drift)) = known.as_ref().filter(|(of, _)| *of == version && version > 0) {
            return Arc::clone(drift);
        }
        let drift = Arc::new(changes(document, &shared(store.current())));
        *known = Some((version, Arc::clone(&drift)));
        drift
    }

    /// The reports of all members; `None`: they are not known yet. `since` is when they were asked for.
    pub fn reports(&mut self, since: Instant) -> Option<Result<Vec<NodeReport>, String>> {
        let ask = |to| self.thread.send(FleetOrder::Members(to));
        Some(self.reports.answer(since, LONGEST_ASKED, ask)?.unwrap_or_else(|| Err(BUSY.to_owned())))
    }

    /// The versions that were taken back last; `None`: they are not known yet. `since` is when they were asked for.
    pub fn taken_back(&mut self, since: Instant) -> Option<Result<Vec<TakenBack>, String>> {
        let ask = |to| self.thread.send(FleetOrder::TakenBack(to));
        Some(self.taken_back.answer(since, LONGEST_ASKED, ask)?.unwrap_or_else(|| Err(BUSY.to_owned())))
    }

    /// What the other members say of these tables, of which each is named with its columns; `None`: it is not known yet. `since` is
    /// when they were asked for.
    pub fn figures(
        &mut self,
        since: Instant,
        tables: &[(&'static str, Vec<&'static str>)],
        access: impl FnOnce() -> Result<MonitorLogin, String>,
    ) -> Option<FleetFigures> {
        let ask = |outcome| {
            let wish = FiguresWish { tables: tables.to_vec(), access: access(), outcome };
            self.thread.send(FleetOrder::Figures(Box::new(wish)));
        };
        let busy = || FleetFigures {
            warnings: vec![format!("no other member was asked: {BUSY}")],
            ..FleetFigures::default()
        };
        Some(self.figures.answer(since, LONGEST_FIGURES, ask)?.unwrap_or_else(busy))
    }
}

impl Runtime {
    /// This member of a fleet; `None`: it belongs to none.
    pub fn fleet(&self) -> Option<&FleetMember> {
        self.fleet.as_ref()
    }

    /// The same, to be asked.
    pub fn fleet_mut(&mut self) -> Option<&mut FleetMember> {
        self.fleet.as_mut()
    }

    /// Makes this a member of a fleet.
    pub fn join(&mut self, member: FleetMember) {
        self.fleet = Some(member);
    }

    /// How this member logs in to others, to read their statistics: as the first account of `admin-stats_credentials` that can.
    ///
    /// # Errors
    /// There is none.
    pub fn access_to_members(&self, store: &Store) -> Result<MonitorLogin, String> {
        let listed = store.variable("admin-stats_credentials").unwrap_or_default();
        let accounts = listed.split(';').filter_map(|account| account.split_once(':'));
        let usable = |(_, password): &(&str, &str)| {
            matches!(Stored::parse(password.as_bytes()), Stored::Clear(_)) && !password.is_empty()
        };
        let usable: Vec<_> = accounts.filter(usable).collect();
        // One that is known everywhere is good for members on the same machine only.
        let chosen = usable.iter().find(|(name, _)| !is_local_only(name.as_bytes())).or(usable.first());
        let Some((name, password)) = chosen else {
            return Err("admin-stats_credentials has no account with a password in clear text".to_owned());
        };
        Ok(MonitorLogin {
            username: (*name).to_owned(),
            password: (*password).to_owned(),
            tokens: None,
            tls: towards_anybody(),
            may_ask_for_key: false,
        })
    }

    /// Tells the fleet how it is here, if that has changed. `obstacle` says why no clients can be served.
    pub fn tell_fleet(&mut self, store: &Store, obstacle: impl FnOnce(&Runtime) -> Option<String>) {
        let is_due = |member: &FleetMember| match &member.told {
            Some((status, at)) => at.elapsed() >= TELL || status.local_version != store.version(),
            None => true,
        };
        if !self.fleet.as_ref().is_some_and(is_due) {
            return;
        }
        let not_ready = obstacle(self).unwrap_or_default();
        let Some(member) = &mut self.fleet else { return };
        let drift = member.drift(store);
        let is_on_trial = member.applied.as_ref().is_some_and(|(place, _)| place.mark.is_on_trial);
        if is_on_trial && member.loaded.is_empty() && !drift.is_empty() {
            member.loaded = summary(&drift);
        }
        let status = LocalStatus {
            local_version: store.version(),
            drift: drift.len() as u64,
            loaded: member.loaded.clone(),
            not_ready,
            listening: self.listeners.addresses().to_vec(),
            is_encrypted: self.rows.tls.0.clients.is_some(),
            modules: store.modules_in_force(),
        };
        if member.told.as_ref().is_none_or(|(told, _)| *told != status) {
            member.thread.send(FleetOrder::Status(status.clone()));
        }
        member.told = Some((status, Instant::now()));
    }

    /// Makes a version of the fleet the configuration.
    pub fn serve_fleet(&mut self, store: &mut Store, wish: FleetWish) {
        let FleetWish { place, version, done } = wish;
        let applied = self.apply_of_fleet(store, place, *version);
        // A thread that has ended needs no answer.
        let _ = done.send(applied.map_err(|refusal| refusal.to_string()));
    }

    fn apply_of_fleet(
        &mut self,
        store: &mut Store,
        place: FleetPlace,
        version: FleetVersion,
    ) -> Result<Option<TrialDuty>, Refusal> {
        let mark = place.mark;
        let pending = self.fleet.iter().flat_map(|member| &member.pending);
        let own = pending.filter(|pending| pending.id == version.id).map(|pending| &pending.document).next();
        let whole = version.document.over(own.unwrap_or_else(|| store.current()));
        let before = mark.is_on_trial.then(|| self.rows.clone());
        let what = if mark.is_on_trial { ", on trial" } else { "" };
        let FleetVersion { node, user, client, command, comment, document, .. } = version;
        let origin = VersionOrigin {
            user,
            client,
            source: VersionSource::Fleet,
            command: format!(
                "version {} of the fleet ({}){what}, made on {node}: {command}",
                mark.version,
                mark.id.short()
            ),
            comment,
            fleet: Some(place.clone()),
        };
        self.apply(store, &whole, (&origin, Strictness::NothingLeftOut))?;
        if let Some(member) = &mut self.fleet {
            member.applied = Some((place, document));
            member.drift.take();
            member.loaded.clear();
        }
        Ok(before.map(|before| self.duty(store, &before)))
    }

    /// What this member has to prove about the version that it has just taken in the place of `before`.
    fn duty(&self, store: &Store, before: &Rows) -> TrialDuty {
        TrialDuty {
            local_version: store.version(),
            lacks: lacks(before, &self.rows),
            needs_servers: !before.servers.is_empty() || !self.rows.servers.is_empty(),
            hostgroups: needed(&self.rows),
            access: self.access_of_monitor(&store.variables().for_monitor()),
        }
    }

    /// Proposes a configuration as the next version of the fleet.
    ///
    /// # Errors
    /// Why it cannot be one; then nothing changes.
    pub fn propose(
        &mut self,
        store: &mut Store,
        document: &ConfigDocument,
        (origin, audience, since): (&VersionOrigin, Audience, Instant),
    ) -> Result<(), Refusal> {
        self.examine(store, document)?;
        let Some(member) = &mut self.fleet else {
            return Err(Refusal::admin("this Narrows belongs to no fleet"));
        };
        let view = member.view();
        if let Some(rival) = view.rival {
            return Err(Refusal::admin(rival));
        }
        if let Some(trouble) = view.trouble {
            return Err(Refusal::admin(format!("{}; nothing has changed", unusable(&trouble))));
        }
        if matches!(audience, Audience::Trial(_)) && view.seen.head.is_none() {
            return Err(Refusal::admin("the fleet has no version yet that members could go back to"));
        }
        if member.pending.iter_mut().any(|pending| pending.end().is_none()) {
            return Err(Refusal::admin("another change is on its way to the fleet"));
        }
        member.pending.retain_mut(|pending| !pending.is_forgotten());
        let base = view.member.running.as_ref();
        let version = FleetVersion::new(member.node(), base, origin, document);
        let (to, outcome) = channel();
        let (id, base) = (version.id, base.map(|place| place.mark.id));
        member.thread.send(FleetOrder::Propose(Box::new(Proposal { version, base, audience, outcome: to })));
        let document = document.clone();
        member.pending.push(PendingChange { since, id, document, outcome, end: None });
        Ok(())
    }

    /// Fails if a configuration could not be applied here, and changes nothing.
    fn examine(&mut self, store: &mut Store, document: &ConfigDocument) -> Result<(), Refusal> {
        store.attempt(document, |store, candidate| {
            if let Some(warning) = candidate.left_out().next() {
                return Err(Refusal::admin(&warning.message));
            }
            self.prepare(store, candidate).map(drop)
        })
    }

    /// How far the change has come that was proposed at `since`; `None`: there is none.
    pub fn proposed(&mut self, since: Instant) -> Option<ChangeState> {
        let member = self.fleet.as_mut()?;
        let view = member.view();
        let index = member.pending.iter().position(|pending| pending.since == since)?;
        let state = member.pending[index].state(&view);
        if state != ChangeState::Waits {
            member.pending.remove(index);
        }
        Some(state)
    }
}

impl PendingChange {
    /// What has become of it; `None`: that is not known yet.
    fn end(&mut self) -> Option<&(Result<FleetMark, String>, Instant)> {
        if self.end.is_none() {
            let end = match self.outcome.try_recv() {
                Ok(end) => Some(end),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err("the thread of the fleet has ended".to_owned())),
            };
            self.end = end.map(|end| (end, Instant::now()));
        }
        self.end.as_ref()
    }

    /// Whether its end is known for so long that nobody can wait for it any more.
    fn is_forgotten(&mut self) -> bool {
        self.end().is_some_and(|(_, at)| at.elapsed() > LONGEST_APPLY * 2)
    }

    fn state(&mut self, view: &FleetView) -> ChangeState {
        let (mark, at) = match self.end() {
            None => return ChangeState::Waits,
            Some((Err(reason), _)) => return ChangeState::Refused(reason.clone()),
            Some((Ok(mark), at)) => (*mark, *at),
        };
        let member = &view.member;
        let is_in_force = |place: &FleetPlace| !place.mark.is_on_trial && place.includes(mark.id);
        if member.running.as_ref().is_some_and(is_in_force) {
            return ChangeState::InForce(mark);
        }
        match (&member.refused, &member.mismatch) {
            (Some(refused), _) if refused.id == mark.id => ChangeState::NotHere(mark, refused.reason.clone()),
            _ if at.elapsed() < LONGEST_APPLY => ChangeState::Waits,
            (_, Some(mismatch)) => ChangeState::NotHere(mark, mismatch.reason.clone()),
            _ => ChangeState::NotHere(mark, "it was not applied yet".to_owned()),
        }
    }
}

/// How often the thread of the fleet receives how it is here.
const TELL: Duration = Duration::from_secs(1);

/// How long an administrator waits for the reports of members.
const LONGEST_ASKED: Duration = Duration::from_secs(3);

/// The same for figures of members: etcd is asked, and then each of them for a second, 200 at the same time.
const LONGEST_FIGURES: Duration = Duration::from_secs(10);

/// Why a question has no answer.
const BUSY: &str = "the thread of the fleet is busy";

/// How long an administrator waits for a version to be applied here.
const LONGEST_APPLY: Duration = Duration::from_secs(10);
