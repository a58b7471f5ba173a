//! Plans: what another configuration would change, found out without changing anything, and then exactly that change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use narrows_proxy::snapshot::{HostgroupId, Rows, ServerRow, ServerStatus, Snapshot, UserRow};
use narrows_proxy::stats::{DigestLine, Forecast, ServerLine, Take, UserLine, forecast, wait};

use super::load::Strictness;
use super::{Runtime, as_known, secrets};
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
    /// Since when these were counted, in seconds since 1970: an hour, unless the process is younger.
    pub counted_since: i64,
    /// Servers that clients use, and what would become of these connections.
    pub servers: Vec<ServerEffect>,
    /// Accounts with clients, and what would become of these.
    pub clients: Vec<ClientEffect>,
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

/// What would become of the clients of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEffect {
    /// The account.
    pub username: String,
    /// Its clients that are logged in, now.
    pub clients: u32,
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
        let in_use = self.in_use();
        let now = Instant::now();
        self.hour.note(&in_use.digests, now);
        let objection = store.refuse_not_owner(&whole).err();
        let monitoring = if self.servers.monitor.is_some() { Monitoring::On } else { Monitoring::Off };
        let before = self.snapshot();
        let users_before = store.rows().users;
        let (warnings, mut moved, servers, clients) = store.attempt(&whole, |_, candidate| {
            let (tls, issuers) = (self.rows.tls.clone(), self.rows.issuers.clone());
            let rows = Rows { tls, issuers, ..candidate.rows.clone() };
            let rows = as_known(&rows, &candidate.variables, &self.servers.known, monitoring);
            let servers = server_effects(&in_use.servers, &rows.servers);
            let clients = client_effects(&in_use.users, &users_before, &rows.users);
            let together = Together::of_rows(&rows, &candidate.variables);
            let warnings = candidate.warnings.iter().map(|warning| warning.message.clone());
            let warnings = warnings.chain(secrets::obstacles(candidate));
            let warnings = objection.map(|refusal| refusal.message).into_iter().chain(warnings);
            let warnings = warnings.chain(together.said_of(candidate.modules()));
            let warnings = warnings.chain(self.obstacles(&candidate.variables)).collect();
            let after = Snapshot::compile(rows, 1, None).map_err(Refusal::admin)?;
            let moved = before.map(|before| forecast(before, &after, &in_use.digests)).unwrap_or_default();
            Ok((warnings, moved, servers, clients))
        })?;
        for moved in &mut moved {
            moved.count = self.hour.count((&moved.username, &moved.schemaname, moved.digest), now);
        }
        moved.sort_by_key(|moved| Reverse(moved.count));
        self.plans.keep(token.clone(), whole.clone());
        Ok(ChangePlan {
            token,
            version: store.version(),
            changes: changes(store.current(), &whole),
            lost: lost_edits(store.current(), &whole, &memory),
            warnings,
            moved,
            counted_since: self.counted_since(now),
            servers,
            clients,
        })
    }

    /// What is in use now.
    fn in_use(&self) -> InUse {
        let Some(observer) = self.observer() else { return InUse::default() };
        InUse {
            digests: wait(observer.digests(Take::Copy)),
            servers: wait(observer.connection_pool(Take::Copy)),
            users: wait(observer.users()),
        }
    }

    /// What the plan of that token would make the configuration.
    ///
    /// # Errors
    /// There is no such plan, or something has changed since it was made.
    pub fn planned(&self, store: &mut Store, wanted: &str) -> Result<ConfigDocument, Refusal> {
        let Some(document) = self.plans.find(wanted).cloned() else {
            return Err(Refusal::admin(format!("there is no plan {wanted}: NARROWS PLAN makes one")));
        };
        if token(store, &document)? != wanted {
            return Err(Refusal::admin(format!(
                "the configuration has changed since plan {wanted} was made: make another one"
            )));
        }
        Ok(document)
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
        let document = self.planned(store, wanted)?;
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

/// What is in use when a plan is made.
#[derive(Default)]
struct InUse {
    digests: Vec<DigestLine>,
    servers: Vec<ServerLine>,
    users: Vec<UserLine>,
}

/// Edits in memory that never ran, and that the plan does not have.
fn lost_edits(running: &ConfigDocument, wanted: &ConfigDocument, memory: &ConfigDocument) -> Vec<RowChange> {
    let edited = changes(running, memory);
    let is_edited =
        |change: &RowChange| edited.iter().any(|it| it.table == change.table && it.key == change.key);
    changes(wanted, memory).into_iter().filter(is_edited).collect()
}

/// Names a plan: what is wanted, and all that it was made from.
fn token(store: &mut Store, wanted: &ConfigDocument) -> Result<String, Refusal> {
    let (memory, disk) = (store.document(Database::Main)?, store.document(Database::Disk)?);
    let current = store.current();
    let of = |layer: &ConfigDocument| if layer == current { String::new() } else { layer.checksum() };
    let parts = format!("{} {} {} {}", store.version(), wanted.checksum(), of(&memory), of(&disk));
    Ok(checksum(parts.as_bytes()).chars().take(TOKEN_LENGTH).collect())
}

/// Accounts that have clients, and whose clients could not log in again as they have.
fn client_effects(lines: &[UserLine], before: &[UserRow], after: &[UserRow]) -> Vec<ClientEffect> {
    let active =
        |rows: &[UserRow], name: &str| rows.iter().find(|row| row.active && row.username == name).cloned();
    let effects = |line: &UserLine| -> Vec<ClientEffect> {
        let effect =
            |what: String| ClientEffect { username: line.username.clone(), clients: line.connections, what };
        let Some(row) = active(after, &line.username) else {
            return vec![effect(
                "the account would be gone: they stay logged in, and new logins fail".to_owned(),
            )];
        };
        let mut effects = Vec::new();
        if active(before, &line.username).is_some_and(|before| !takes_password_of(&row, &before)) {
            let what = "the account would have another password: they stay logged in, and new logins need it";
            effects.push(effect(what.to_owned()));
        }
        if line.connections > row.max_connections {
            effects.push(effect(format!(
                "max_connections would be {}: they stay logged in, and new logins fail until fewer are",
                row.max_connections
            )));
        }
        effects
    };
    lines.iter().filter(|line| line.connections > 0).flat_map(effects).collect()
}

/// Whether clients with the password of `before` can log in to `after`.
fn takes_password_of(after: &UserRow, before: &UserRow) -> bool {
    let second = after.attributes.get("additional_password").and_then(|value| value.as_str());
    after.password == before.password || second == Some(before.password.as_str())
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
    let of_servers = lines.iter().filter(|line| line.used > 0).filter_map(effect);
    of_servers.chain(empty_hostgroups(lines, after)).collect()
}

/// Hostgroups with a server that takes statements, and that would have none.
fn empty_hostgroups(lines: &[ServerLine], after: &[ServerRow]) -> Vec<ServerEffect> {
    use ServerStatus::{Gone, Leaving, OfflineHard, OfflineSoft};
    let takes = |status: ServerStatus| !matches!(status, OfflineSoft | Leaving | OfflineHard | Gone);
    let mut used: BTreeMap<HostgroupId, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| takes(line.status)) {
        *used.entry(line.hostgroup).or_default() += line.used;
    }
    used.retain(|hostgroup, _| !after.iter().any(|row| row.hostgroup == *hostgroup && takes(row.status)));
    let effect = |(hostgroup, used): (HostgroupId, u64)| ServerEffect {
        server: format!("hostgroup {hostgroup}"),
        used,
        what: "it would have no server that takes statements".to_owned(),
    };
    used.into_iter().map(effect).collect()
}
