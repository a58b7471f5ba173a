//! `LOAD ... TO RUNTIME`: applies the configuration from memory, all of it or nothing.

use std::sync::Arc;

use narrows_proxy::snapshot::{Rows, ServerRow, Snapshot};
use narrows_proxy::tls::SharedTls;

use super::Runtime;
use crate::admin::reply::Reply;
use crate::config_file::checks::known_passwords;
use crate::config_file::together::Together;
use crate::monitor::placement::Placement;
use crate::schema::Module;
use crate::store::{Answer, Candidate, Refusal, Store, Warning};
use crate::tls;
use crate::variables::{Special, VARIABLES, Values};
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
        let mut rows = candidate.rows.clone();
        rows.tls = self.tls_for(store, candidate, &mut warnings);
        let (before, settings) = (store.variables().for_monitor(), candidate.variables.for_monitor());
        let modules = candidate.modules().to_vec();
        let has_servers = modules.contains(&Module::MysqlServers);
        let (running, placement) = self.servers.placed(has_servers, &rows, &before, &settings);
        let servers = running.servers.clone();
        let snapshot = self.plane.compile(running).map_err(Refusal::admin)?;
        Ok(Prepared { modules, rows, servers, placement, snapshot, warnings })
    }

    /// Applies what the store has accepted.
    fn put_loaded_into_force(&mut self, store: &mut Store, prepared: Prepared, answer: Answer) -> Answer {
        let Prepared { modules, rows, servers, placement, snapshot, mut warnings } = prepared;
        if let (true, Some(plane)) = (modules.contains(&Module::MysqlServers), self.plane.running()) {
            plane.end_shuns();
        }
        self.plane.put_into_force(snapshot);
        self.rows = rows;
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

    /// Keys and certificates for a candidate: the current ones, unless their sources have changed.
    fn tls_for(&self, store: &Store, candidate: &Candidate, warnings: &mut Vec<Warning>) -> SharedTls {
        let old = self.rows.tls.clone();
        let (now, then) = (store.variables(), &candidate.variables);
        let mut of_tls = VARIABLES.iter().filter(|variable| variable.special == Some(Special::ForTls));
        let changed = of_tls.any(|variable| now.value(variable.name) != then.value(variable.name))
            || candidate.rows.ssl_params != self.rows.ssl_params;
        if !changed {
            return old;
        }
        match tls::load(&self.datadir, then, &candidate.rows.ssl_params) {
            Ok(loaded) => {
                warnings.extend(loaded.remarks.into_iter().map(remark));
                loaded.tls
            }
            Err(error) => {
                warnings.push(remark(format!("keys and certificates are unchanged: {error}")));
                old
            }
        }
    }

    /// Applies the current variables, keys and certificates to the interfaces for administrators.
    fn announce_to_listeners(&self, store: &Store) {
        self.listeners.announce(store, self.rows.tls.clone());
        self.http.announce(store, self.rows.tls.clone());
    }

    /// `PROXYSQL RELOAD TLS`
    pub fn reload_tls(&mut self, store: &Store) -> Reply {
        match tls::load(&self.datadir, store.variables(), &self.rows.ssl_params) {
            Ok(loaded) => {
                self.rows.tls = loaded.tls;
                self.plane.replace_tls(self.rows.tls.clone());
                self.announce_to_listeners(store);
                self.announce_plan(store);
                let warnings = loaded.remarks.into_iter().map(remark).collect();
                Reply::Answer(with_warnings(Answer::done(0), warnings))
            }
            Err(error) => Reply::error(error),
        }
    }
}

fn with_warnings(answer: Answer, more: Vec<Warning>) -> Answer {
    match answer {
        Answer::Done { affected, info, mut warnings } => {
            warnings.extend(more);
            Answer::Done { affected, info, warnings }
        }
        rows => rows,
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

fn remark(message: String) -> Warning {
    Warning { code: 1105, message }
}
