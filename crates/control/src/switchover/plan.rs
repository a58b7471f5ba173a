//! Whether a switchover can be made, and its statements in order. Pure: facts go in, a plan or the reason against it comes
//! out.

use std::time::Duration;

use narrows_proxy::snapshot::HostgroupId;
use narrows_wire::charset::Family;

use super::account::Trial;
use super::dialect::{Dialect, NewSource};
use super::facts::{Channel, Facts};
use crate::monitor::plan::Address;

/// A server and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairMember {
    /// Where it is.
    pub address: Address,
    /// What it says; or why it does not.
    pub facts: Result<Facts, String>,
}

/// What an administrator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The writer hostgroup.
    pub hostgroup: HostgroupId,
    /// How long clients may be held.
    pub within: Duration,
    /// How long clients wait for a server of the hostgroup at most.
    pub longest_wait: Duration,
    /// The account of replication, if the configuration has one.
    pub login: Option<(String, String)>,
}

/// What is known about the servers of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The primary.
    pub old: PairMember,
    /// The one that is to be primary.
    pub new: PairMember,
    /// The others.
    pub others: Vec<PairMember>,
    /// The account of replication that the new primary uses, with its password, if it could be read there.
    pub found_login: Option<(String, String)>,
    /// Whether the account that is chosen can log in to the new primary.
    pub trial: Trial,
}

/// A switchover that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchoverPlan {
    /// What is wanted.
    pub wish: Wish,
    /// The primary until now.
    pub old: ChangingServer,
    /// The primary from then on.
    pub new: ChangingServer,
    /// Where replicas are to replicate from, and how the old primary logs in there.
    pub source: NewSource,
    /// The replicas of the old primary, which become those of the new one.
    pub followers: Vec<(Address, Dialect)>,
    /// What an administrator should know.
    pub notes: Vec<String>,
}

/// A server whose role changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangingServer {
    /// Where it is.
    pub address: Address,
    /// How it spells its statements.
    pub dialect: Dialect,
    /// What makes it refuse or take writes as it does before the switchover.
    pub restore: &'static str,
}

/// A statement of a plan, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The server that gets it; `narrows`: none.
    pub server: String,
    /// The statement; passwords are not shown.
    pub statement: String,
}

impl SwitchoverPlan {
    /// The plan for these members.
    ///
    /// # Errors
    /// Why it cannot be made, for the administrator.
    pub fn new(wish: Wish, members: &Members) -> Result<SwitchoverPlan, String> {
        let (old, new) = (facts(&members.old)?, facts(&members.new)?);
        let (old_at, new_at) = (&members.old.address, &members.new.address);
        for (address, facts) in [(old_at, old), (new_at, new)] {
            check_member(address, facts)?;
        }
        if old.dialect.family() != new.dialect.family() {
            return Err(format!("{old_at} has version {} and {new_at} {}", old.version, new.version));
        }
        if old.read_only {
            return Err(format!("{old_at} is in the writer hostgroup, and is read-only"));
        }
        if let Some(channel) = old.channels.iter().find(|channel| channel.io_runs || channel.sql_runs) {
            return Err(format!("{old_at} replicates from {}: it is no primary", source_of(channel)));
        }
        let channel = check_replica((new_at, new), (old_at, old))?;
        let (mut followers, mut notes) = (Vec::new(), Vec::new());
        for other in &members.others {
            match follower(other, old) {
                Ok(Some(dialect)) => followers.push((other.address.clone(), dialect)),
                Ok(None) => {}
                Err(note) => notes.push(note),
            }
        }
        if wish.within > wish.longest_wait {
            notes.push(format!(
                "clients wait for {} ms at most, and the switchover may take {} ms: some may get error 9001",
                wish.longest_wait.as_millis(),
                wish.within.as_millis()
            ));
        }
        let login = wish.login.clone().or_else(|| members.found_login.clone());
        notes.extend(check_login(login.as_ref(), &members.trial, (old_at, old), new_at)?);
        let role = |address: &Address, facts: &Facts| ChangingServer {
            address: address.clone(),
            dialect: facts.dialect,
            restore: match (facts.read_only, facts.super_read_only) {
                (false, _) => facts.dialect.allow_writes(),
                (true, true) => facts.dialect.forbid_writes(),
                (true, false) => "SET GLOBAL read_only = 1",
            },
        };
        let source = source(new_at, new, channel, login);
        Ok(SwitchoverPlan { old: role(old_at, old), new: role(new_at, new), source, followers, notes, wish })
    }

    /// How the old primary replicates from the new one; with the position, if it is known already.
    pub fn demotion(&self, position: &str) -> Vec<String> {
        let dialect = self.old.dialect;
        let begin = dialect.begin_at(position).into_iter();
        begin.chain([dialect.change_source(&self.source), dialect.start().to_owned()]).collect()
    }

    /// What ends the replication of the new primary.
    pub fn promotion(&self) -> Vec<String> {
        let dialect = self.new.dialect;
        let own = [dialect.stop(), dialect.reset()];
        own.iter().chain(dialect.forget_what_is_for_good()).map(|statement| (*statement).to_owned()).collect()
    }

    /// What makes the old primary read-only after a restart, too.
    pub fn lasting(&self) -> &'static [&'static str] {
        self.old.dialect.forbid_writes_for_good()
    }

    /// How another replica follows. Its account of replication stays.
    pub fn following(&self, dialect: Dialect) -> Vec<String> {
        let source = NewSource { login: None, tls: None, asks_for_key: None, ..self.source.clone() };
        vec![dialect.stop().to_owned(), dialect.change_source(&source), dialect.start().to_owned()]
    }

    /// How long transactions that run may continue: the rest is for the servers.
    pub fn patience(&self) -> Duration {
        self.wish.within - (self.wish.within / 2).min(FOR_SERVERS)
    }

    /// Every statement, in order.
    pub fn lines(&self) -> Vec<Line> {
        let (old, new) = (self.old.address.to_string(), self.new.address.to_string());
        let hostgroup = self.wish.hostgroup;
        let position = format!("<position of {old}>");
        let patience = self.patience();
        let near = self.new.dialect.wait_for(&position.replace(' ', "_"), UNBRAKED);
        let mut lines = vec![
            Line::new(&old, self.old.dialect.position()),
            Line::new(&new, near),
            Line::new(
                "narrows",
                format!(
                    "HOLD HOSTGROUP {hostgroup}, until nothing runs there, for up to {} ms",
                    patience.as_millis()
                ),
            ),
            Line::new(&old, self.old.dialect.forbid_writes()),
            Line::new(&old, self.old.dialect.position()),
            Line::new(
                &new,
                self.new.dialect.wait_for(&position.replace(' ', "_"), self.wish.within - patience),
            ),
            Line::new(&new, self.new.dialect.allow_writes()),
            Line::new("narrows", format!("{new} is the writer of hostgroup {hostgroup}, {old} a reader")),
            Line::new("narrows", format!("RELEASE HOSTGROUP {hostgroup}")),
        ];
        lines.extend(self.promotion().iter().map(|statement| Line::new(&new, statement)));
        lines.extend(self.lasting().iter().map(|statement| Line::new(&old, *statement)));
        lines.extend(
            self.demotion(&position.replace(' ', "_"))
                .iter()
                .map(|statement| Line::new(&old, self.shown(statement))),
        );
        for (address, dialect) in &self.followers {
            lines.extend(
                self.following(*dialect).iter().map(|statement| Line::new(&address.to_string(), statement)),
            );
        }
        lines.extend(self.notes.iter().map(|note| Line::new("note", note)));
        lines
    }

    /// A statement without the password in it.
    pub fn shown(&self, statement: &str) -> String {
        match &self.source.login {
            Some((_, password)) if !password.is_empty() => {
                statement.replace(&super::dialect::quoted(password), "'***'")
            }
            _ => statement.to_owned(),
        }
    }
}

impl Line {
    fn new(server: &str, statement: impl Into<String>) -> Line {
        Line { server: server.to_owned(), statement: statement.into() }
    }
}

fn facts(member: &PairMember) -> Result<&Facts, String> {
    member.facts.as_ref().map_err(|error| format!("{} cannot be asked: {error}", member.address))
}

/// What every server whose role changes needs.
fn check_member(address: &Address, facts: &Facts) -> Result<(), String> {
    if !facts.log_bin || !facts.log_updates {
        return Err(format!(
            "{address} has no binary log with all that it replicates (log_bin, log_replica_updates)"
        ));
    }
    if !facts.has_gtids {
        return Err(format!("{address} has no GTIDs (gtid_mode); use NARROWS HOLD and a tool"));
    }
    let missing = facts.dialect.missing_privileges(&facts.grants);
    if !missing.is_empty() {
        return Err(format!("the account of the monitor lacks {} on {address}", missing.join(", ")));
    }
    Ok(())
}

/// That the server that is to be primary replicates from the primary, and that its lag is small.
fn check_replica<'a>(
    (new_at, new): (&Address, &'a Facts),
    (old_at, old): (&Address, &Facts),
) -> Result<&'a Channel, String> {
    let Some(channel) = new.channel_from(old) else {
        return Err(why_no_replica((new_at, new), (old_at, old)));
    };
    if new.channels.len() > 1 {
        return Err(format!(
            "{new_at} replicates from {} sources: use NARROWS HOLD and a tool",
            new.channels.len()
        ));
    }
    if channel.delay_s > 0 {
        return Err(format!(
            "{new_at} applies everything {} s late, because its replication is so configured ({}): set that to 0 first",
            channel.delay_s,
            new.dialect.delay()
        ));
    }
    if !channel.io_runs || !channel.sql_runs {
        let why = if channel.error.is_empty() { "it was stopped" } else { &channel.error };
        return Err(format!("the replication of {new_at} does not run: {why}"));
    }
    if !channel.uses_gtids {
        return Err(format!("{new_at} does not replicate by GTID; use NARROWS HOLD and a tool"));
    }
    match channel.behind_s {
        Some(lag) if Duration::from_secs(lag) <= CATCH_UP => Ok(channel),
        Some(lag) => {
            Err(format!("the lag of {new_at} is {lag} s: a switchover waits for {} s", CATCH_UP.as_secs()))
        }
        None => Err(format!("{new_at} does not know its lag")),
    }
}

/// Why a server is no replica of the primary.
fn why_no_replica((new_at, new): (&Address, &Facts), (old_at, old): (&Address, &Facts)) -> String {
    let Some(channel) = new.channels.first() else {
        return format!("{new_at} is no replica of {old_at}: it replicates nothing");
    };
    let (source, is_running) = (source_of(channel), channel.io_runs || channel.sql_runs);
    if matches!(channel.source_id.as_str(), "" | "0") {
        let why = match (channel.error.is_empty(), is_running) {
            (false, _) => channel.error.as_str(),
            (true, true) => "it says no reason",
            (true, false) => "its replication is stopped",
        };
        return format!("{new_at} is to replicate from {source}, and has not connected there: {why}");
    }
    let (theirs, ours, name) = match old.server_uuid.is_empty() {
        true => (&channel.source_id, &old.server_id, "server_id"),
        false => (&channel.source_uuid, &old.server_uuid, "server_uuid"),
    };
    format!(
        "{new_at} is no replica of {old_at}: it replicates from {source} with {name} {theirs}, and {name} of {old_at} is {ours}"
    )
}

/// That the old primary can log in to the new one, as far as that is known; returns what should be known about it.
fn check_login(
    login: Option<&(String, String)>,
    trial: &Trial,
    (old_at, old): (&Address, &Facts),
    new_at: &Address,
) -> Result<Option<String>, String> {
    const VARIABLES: &str = "mysql-switchover_replication_username and mysql-switchover_replication_password";
    let has_login = old.channels.iter().any(|channel| !channel.user.is_empty());
    match (login, trial) {
        (None, _) if !has_login => Err(format!(
            "nothing says how {old_at} is to log in to {new_at} as a replica: set {VARIABLES}, and load them"
        )),
        (Some((user, _)), Trial::Fails(why)) => Err(format!(
            "{old_at} could not replicate from {new_at} with the account {user}, which was tried: {why}. Set {VARIABLES}, and load \
             them; the account needs REPLICATION SLAVE"
        )),
        (_, Trial::Unknown(why)) => {
            Ok(Some(format!("whether {old_at} can log in to {new_at} as a replica is not known: {why}")))
        }
        _ => Ok(None),
    }
}

/// Whether another server follows the primary, with its dialect; or what should be known about it.
fn follower(other: &PairMember, old: &Facts) -> Result<Option<Dialect>, String> {
    let address = &other.address;
    let facts = match &other.facts {
        Ok(facts) => facts,
        Err(error) => {
            return Err(format!("{address} cannot be asked, and continues replicating as it does: {error}"));
        }
    };
    let Some(channel) = facts.channel_from(old) else { return Ok(None) };
    if facts.channels.len() > 1 || !channel.uses_gtids {
        return Err(format!(
            "{address} continues replicating from {}: it has several sources, or none by GTID",
            source_of(channel)
        ));
    }
    if !facts.dialect.missing_privileges(&facts.grants).is_empty() {
        return Err(format!(
            "{address} continues replicating as it does: the account of the monitor lacks privileges there"
        ));
    }
    Ok(Some(facts.dialect))
}

/// The new primary as a source. Replicas know it by its `report_host`, if it has one.
fn source(address: &Address, new: &Facts, channel: &Channel, login: Option<(String, String)>) -> NewSource {
    let (host, port) = match new.report_host.is_empty() {
        true => (address.hostname.clone(), address.port),
        false => (new.report_host.clone(), if new.report_port == 0 { address.port } else { new.report_port }),
    };
    let asks_for_key = (new.dialect.family() == Family::MySql).then_some(channel.asks_for_key);
    NewSource { host, port, login, tls: Some(channel.tls), asks_for_key }
}

fn source_of(channel: &Channel) -> String {
    format!("{}:{}", channel.source_host, channel.source_port)
}

/// How long the new primary may take to have all of the old one, while clients write: the usual limit for the lag of a replica that
/// reads are sent to (`mysql_servers.max_replication_lag`), and as long as an administrator waits for an answer.
pub const CATCH_UP: Duration = Duration::from_secs(30);

/// How long it may take by itself, before clients are braked.
pub const UNBRAKED: Duration = Duration::from_secs(5);

/// What servers get of the time at most: making one read-only, and having the other catch up.
const FOR_SERVERS: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
