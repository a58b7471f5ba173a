//! Plans: what another configuration would change, found out without changing anything, and then exactly that change.

use std::cmp::Reverse;
use std::collections::VecDeque;

use narrows_proxy::snapshot::{Rows, ServerRow, ServerStatus, Snapshot};
use narrows_proxy::stats::{DigestLine, Forecast, ServerLine, Take, forecast, wait};

use super::load::Strictness;
use super::{Runtime, as_known};
use crate::config_file::together::Together;
use crate::monitor::Monitoring;
use crate::schema::Database;
use crate::store::{Answer, Refusal, Store};
use crate::versions::{ConfigDocument, RowChange, VersionOrigin, changes, checksum};

/// What another configuration would change.
#[derive(Debug)]
pub struct ChangePlan {
    /// Names the plan, and the state of everything that it was made from.
    pub token: String,
    /// The version that runs.
    pub version: i64,
    /// How what runs would change.
    pub changes: Vec<RowChange>,
    /// Edits in memory that were never loaded, and would be lost.
    pub lost: Vec<RowChange>,
    /// What would be left out or reset, has no effect, or is probably a mistake. If anything would be left out, the plan
    /// cannot be applied.
    pub warnings: Vec<String>,
    /// Statements with which something else would happen, the most frequent first.
    pub moved: Vec<Forecast>,
    /// Servers that clients use, and what would become of these connections.
    pub servers: Vec<ServerEffect>,
}

/// What would become of the connections to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEffect {
    /// `hostname:port` and the hostgroup.
    pub server: String,
    /// Connections in use, now.
    pub used: u64,
    /// What would become of them.
    pub what: String,
}

/// The latest plans, which can be applied.
#[derive(Debug, Default)]
pub(super) struct Plans(VecDeque<(String, ConfigDocument)>);

/// The length of a token, in characters.
const TOKEN_LENGTH: usize = 16;

/// How many plans can be applied: the latest ones.
const MOST_PLANS: usize = 8;

impl Runtime {
    /// What `document` would change, where it says something; nothing changes. The plan can be applied for as long as
    /// nothing else changes.
    ///
    /// # Errors
    /// A configuration that cannot be applied; SQLite's error.
    pub fn plan(&mut self, store: &mut Store, document: &ConfigDocument) -> Result<ChangePlan, Refusal> {
        let whole = document.over(store.current());
        let memory = store.document(Database::Main)?;
        let token = token(store, &whole)?;
        let observer = self.observer();
        let digests = observer.as_ref().map(|it| wait(it.digests(Take::Copy))).unwrap_or_default();
        let lines = observer.map(|it| wait(it.connection_pool(Take::Copy))).unwrap_or_default();
        let monitoring = if self.servers.monitor.is_some() { Monitoring::On } else { Monitoring::Off };
        let before = self.snapshot();
        let (warnings, moved, servers) = store.attempt(&whole, |_, candidate| {
            let rows = Rows { tls: self.rows.tls.clone(), ..candidate.rows.clone() };
            let rows = as_known(&rows, &candidate.variables, &self.servers.known, monitoring);
            let servers = server_effects(&lines, &rows.servers);
            let together = Together::of_rows(&rows, &candidate.variables);
            let warnings = candidate.warnings.iter().map(|warning| warning.message.clone());
            let warnings = warnings.chain(together.said_of(candidate.modules())).collect();
            let after = Snapshot::compile(rows, 1, None).map_err(Refusal::admin)?;
            let moved = before.map(|before| moved(before, &after, &digests)).unwrap_or_default();
            Ok((warnings, moved, servers))
        })?;
        self.plans.keep(token.clone(), whole.clone());
        let changes_of_running = changes(store.current(), &whole);
        // What memory has and the plan has not.
        let lost = changes(&whole, &memory);
        let edited = changes(store.current(), &memory);
        let is_edited =
            |change: &RowChange| edited.iter().any(|it| it.table == change.table && it.key == change.key);
        Ok(ChangePlan {
            token,
            version: store.version(),
            changes: changes_of_running,
            lost: lost.into_iter().filter(is_edited).collect(),
            warnings,
            moved,
            servers,
        })
    }

    /// Applies exactly the plan of that token.
    ///
    /// # Errors
    /// There is no such plan, something has changed since it was made, or it cannot be applied; then nothing changes.
    pub fn apply_plan(
        &mut self,
        store: &mut Store,
        wanted: &str,
        origin: &VersionOrigin,
    ) -> Result<Answer, Refusal> {
        let Some(document) = self.plans.find(wanted).cloned() else {
            return Err(Refusal::admin(format!("there is no plan {wanted}: NARROWS PLAN makes one")));
        };
        if token(store, &document)? != wanted {
            return Err(Refusal::admin(format!(
                "the configuration has changed since plan {wanted} was made: make another one"
            )));
        }
        self.apply(store, &document, (origin, Strictness::NothingLeftOut))
    }
}

impl Plans {
    fn keep(&mut self, token: String, document: ConfigDocument) {
        self.0.retain(|(known, _)| *known != token);
        self.0.push_back((token, document));
        if self.0.len() > MOST_PLANS {
            self.0.pop_front();
        }
    }

    fn find(&self, token: &str) -> Option<&ConfigDocument> {
        self.0.iter().find(|(known, _)| known == token).map(|(_, document)| document)
    }
}

/// Names a plan: what is wanted, and all that it was made from.
fn token(store: &mut Store, wanted: &ConfigDocument) -> Result<String, Refusal> {
    let (memory, disk) = (store.document(Database::Main)?, store.document(Database::Disk)?);
    let current = store.current();
    let of = |layer: &ConfigDocument| if layer == current { String::new() } else { layer.checksum() };
    let parts = format!("{} {} {} {}", store.version(), wanted.checksum(), of(&memory), of(&disk));
    Ok(checksum(parts.as_bytes()).chars().take(TOKEN_LENGTH).collect())
}

fn moved(before: &Snapshot, after: &Snapshot, digests: &[DigestLine]) -> Vec<Forecast> {
    let mut moved = forecast(before, after, digests);
    moved.sort_by_key(|moved| Reverse(moved.count));
    moved
}

/// Servers in use that would have fewer connections or none.
fn server_effects(lines: &[ServerLine], after: &[ServerRow]) -> Vec<ServerEffect> {
    let effect = |line: &ServerLine| {
        let row = after.iter().find(|row| {
            row.hostgroup == line.hostgroup && row.hostname == line.hostname && row.port == line.port
        });
        let what = match row {
            None => {
                "it leaves the hostgroup: transactions end first, and nothing new is sent to it".to_owned()
            }
            Some(row)
                if row.status == ServerStatus::OfflineHard && line.status != ServerStatus::OfflineHard =>
            {
                "it is taken offline at once: these connections are closed".to_owned()
            }
            Some(row)
                if row.status == ServerStatus::OfflineSoft && line.status != ServerStatus::OfflineSoft =>
            {
                "it is taken offline: transactions end first, and nothing new is sent to it".to_owned()
            }
            Some(row) if line.used > u64::from(row.max_connections) => {
                format!("max_connections would be {}: further statements wait", row.max_connections)
            }
            Some(_) => return None,
        };
        let server = format!("{}:{} in hostgroup {}", line.hostname, line.port, line.hostgroup);
        Some(ServerEffect { server, used: line.used, what })
    };
    lines.iter().filter(|line| line.used > 0).filter_map(effect).collect()
}
