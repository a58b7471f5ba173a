//! `LOAD ... TO RUNTIME`: applies the configuration from memory, all of it or nothing.

use std::sync::Arc;

use narrows_proxy::snapshot::{Rows, ServerRow, Snapshot};

use super::Runtime;
use super::keys::ExpiryWarnings;
use super::remarks::{remark, with_warnings};
use crate::admin::reply::Reply;
use crate::config_file::checks::known_passwords;
use crate::config_file::together::Together;
use crate::monitor::placement::Placement;
use crate::schema::Module;
use crate::store::{Answer, Candidate, Refusal, Store, Warning};
use crate::tls::KeyFile;
use crate::tokens;
use crate::variables::Values;
use crate::versions::{ConfigDocument, VersionOrigin};

/// Whether rows and values that cannot be applied are left out, as a LOAD does, or refuse the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// They are left out, with a warning.
    LeaveOut,
    /// Nothing is applied.
    NothingLeftOut,
}

/// A configuration that can be put into force.
pub(super) struct Prepared {
    modules: Vec<Module>,
    rows: Rows,
    servers: Vec<ServerRow>,
    placement: Placement,
    snapshot: Arc<Snapshot>,
    /// The files of other keys and certificates, if they are others.
    key_files: Option<Vec<KeyFile>>,
    warnings: Vec<Warning>,
}

impl Runtime {
    /// Applies a module from memory: all of it or nothing.
    pub fn load(&mut self, store: &mut Store, module: Module, origin: &VersionOrigin) -> Reply {
        match store.candidate(&[module]) {
            Ok(candidate) => self.adopt(store, candidate, origin),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Applies one user from memory.
    pub fn load_user(&mut self, store: &mut Store, name: &str, origin: &VersionOrigin) -> Reply {
        match store.candidate_user(name) {
            Ok(candidate) => self.adopt(store, candidate, origin),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Makes `document` the configuration, in memory, on disk and for what runs: all of it or nothing.
    ///
    /// # Errors
    /// Why it cannot be applied.
    pub fn apply(
        &mut self,
        store: &mut Store,
        document: &ConfigDocument,
        (origin, strictness): (&VersionOrigin, Strictness),
    ) -> Result<Answer, Refusal> {
        let changed = store.change(document, origin, |store, candidate| {
            if strictness == Strictness::NothingLeftOut {
                let left_out = candidate.left_out().next().map(|warning| warning.message.clone());
                if let Some(reason) = left_out.or_else(|| self.obstacles(&candidate.variables).pop()) {
                    return Err(Refusal::admin(format!(
                        "nothing is applied, because not everything can be: {reason}"
                    )));
                }
            }
            self.prepare(store, candidate)
        })?;
        Ok(self.put_loaded_into_force(store, changed.prepared, changed.answer))
    }

    /// Why the interfaces for administrators could not listen where these variables say.
    pub(super) fn obstacles(&self, variables: &Values) -> Vec<String> {
        [self.listeners.obstacles(variables), self.http.obstacles(variables)].concat()
    }

    /// Applies a candidate, and records it in the store.
    fn adopt(&mut self, store: &mut Store, candidate: Candidate, origin: &VersionOrigin) -> Reply {
        let adopted = self
            .prepare(store, &candidate)
            .and_then(|prepared| store.adopt(candidate, origin).map(|answer| (prepared, answer)));
        match adopted {
            Ok((prepared, answer)) => Reply::Answer(self.put_loaded_into_force(store, prepared, answer)),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Compiles a candidate.
    pub(super) fn prepare(&mut self, store: &Store, candidate: &Candidate) -> Result<Prepared, Refusal> {
        let mut warnings = Vec::new();
        self.fetch_secrets(candidate)?;
        let mut rows = candidate.rows.clone();
        self.secrets.resolve(&mut rows);
        let keys = self.keys_for(store, candidate, &mut warnings);
        rows.tls = keys.as_ref().map_or_else(|| self.rows.tls.clone(), |(tls, _)| tls.clone());
        let key_files = keys.map(|(_, files)| files);
        rows.issuers = self.tokens.issuers(&rows.token_issuers);
        if candidate.modules().contains(&Module::MysqlUsers) {
            warnings.extend(rows.token_issuers.iter().filter_map(tokens::doubt).map(remark));
        }
        let (before, settings) = (store.variables().for_monitor(), candidate.variables.for_monitor());
        let modules = candidate.modules().to_vec();
        let has_servers = modules.contains(&Module::MysqlServers);
        let (running, placement) = self.servers.placed(has_servers, &rows, &before, &settings);
        let servers = running.servers.clone();
        let snapshot = self.plane.compile(running).map_err(Refusal::admin)?;
        Ok(Prepared { modules, rows, servers, placement, snapshot, key_files, warnings })
    }

    /// Applies what the store has accepted.
    fn put_loaded_into_force(&mut self, store: &mut Store, prepared: Prepared, answer: Answer) -> Answer {
        let Prepared { modules, rows, servers, placement, snapshot, key_files, mut warnings } = prepared;
        if let (true, Some(plane)) = (modules.contains(&Module::MysqlServers), self.plane.running()) {
            plane.end_shuns();
        }
        self.plane.put_into_force(snapshot);
        self.tokens.follow(&rows.issuers);
        self.rows = rows;
        if let Some(files) = key_files {
            self.key_files = files;
            self.expiry = ExpiryWarnings::default();
        }
        self.follow(store, servers, placement);
        self.servers.follow_writers(&self.rows);
        let together = Together::of_rows(&self.rows, store.variables());
        warnings.extend(together.said_of(&modules).into_iter().map(remark));
        for module in modules {
            match module {
                Module::MysqlServers => self.servers.version += 1,
                Module::AdminVariables => {
                    warnings.extend(self.follow_admin_variables(store).into_iter().map(remark));
                }
                Module::MysqlVariables => self.announce_to_listeners(store),
                Module::Scheduler => warnings.extend(self.schedule(store).into_iter().map(remark)),
                _ => {}
            }
        }
        self.announce_secrets(store);
        self.keep_what_runs(store);
        let answer = with_warnings(answer, warnings);
        log_warnings(&answer);
        answer
    }

    /// Applies the variables of administrators; returns remarks.
    fn follow_admin_variables(&mut self, store: &Store) -> Vec<String> {
        let mut remarks = self.listeners.follow(store);
        remarks.extend(self.http.follow(store));
        remarks.extend(self.set_log_levels(store));
        remarks.extend(known_passwords(store.variables()).into_iter().map(|problem| problem.to_string()));
        self.announce_to_listeners(store);
        // What cannot be run has been reported when it was loaded.
        let _ = self.schedule(store);
        remarks
    }

    /// Records what has been applied, and updates the monitor.
    pub(super) fn follow(&mut self, store: &mut Store, servers: Vec<ServerRow>, placement: Placement) {
        self.servers.follow(servers, placement);
        if self.servers.monitor.is_some() {
            store.show_servers(&self.servers.placed_rows());
        }
        self.announce_latencies(&self.servers.latencies_us);
        self.announce_lags();
        self.announce_plan(store);
    }

    /// Applies the current variables, keys and certificates to the interfaces for administrators.
    pub(super) fn announce_to_listeners(&self, store: &Store) {
        self.listeners.announce(store, &self.secrets, self.rows.tls.clone());
        self.http.announce(store, &self.secrets, self.rows.tls.clone());
    }
}

/// Also logs the warnings of a LOAD: what it left out, and what has no effect.
fn log_warnings(answer: &Answer) {
    let Answer::Done { warnings, .. } = answer else { return };
    for warning in warnings.iter().take(MOST_LOGGED) {
        tracing::warn!("{}", warning.message);
    }
    if warnings.len() > MOST_LOGGED {
        tracing::warn!(more = warnings.len() - MOST_LOGGED, "there are more warnings; see SHOW WARNINGS");
    }
}

/// How many warnings of one LOAD are logged: a completely wrong rule set has thousands.
const MOST_LOGGED: usize = 50;
