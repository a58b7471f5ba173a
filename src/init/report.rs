//! What `narrows init` prints.

use std::path::Path;

use super::address;
use super::destination::Destination;
use super::facts::Facts;
use super::monitor_account::{MonitorAccount, MonitorState};
use super::proposal::{Proposal, READERS, WRITERS};
use super::screen::{Screen, shell_word};
use super::topology::{Relation, Topology};
use super::trial::Proof;

/// The servers that were found.
pub fn servers(screen: Screen, topology: &Topology) {
    screen.heading("Servers");
    let width = topology.servers().map(|facts| facts.address.to_string().len()).max().unwrap_or(0).max(7);
    screen.line(&format!(
        "  {:<width$}  {:<8}  {:<16}  {:<9}  {:<8}  {:>11}  TLS",
        "address", "role", "version", "read_only", "lag", "connections"
    ));
    for facts in topology.servers() {
        let is_primary = facts.identity == topology.primary.identity;
        let role = match (is_primary, topology.relation) {
            (_, Relation::Alone) => "alone",
            (_, Relation::Cluster(_)) => "node",
            (true, _) => "primary",
            (false, _) => "replica",
        };
        let lag = match facts.source() {
            None => "-".to_owned(),
            Some(source) => source.lag_s.map_or_else(|| "stopped".to_owned(), |lag| format!("{lag} s")),
        };
        let tls = match (facts.offers_tls, facts.is_encrypted) {
            (_, true) => "used",
            (true, false) => "offered",
            _ => "no",
        };
        screen.line(&format!(
            "  {:<width$}  {role:<8}  {:<16}  {:<9}  {lag:<8}  {:>11}  {tls}",
            facts.address.to_string(),
            facts.software(),
            if facts.is_read_only { "ON" } else { "OFF" },
            facts.max_connections,
        ));
    }
    for facts in topology.servers() {
        if let Some(source) = facts.source().filter(|source| source.lag_s.is_none()) {
            let error = if source.error.is_empty() { "it was stopped" } else { &source.error };
            let address = &facts.address;
            screen.remark(&format!(
                "{address} does not replicate ({error}): START REPLICA there, or it gets no reads."
            ));
        }
    }
    let is_open = |facts: &&Facts| !facts.is_encrypted && !address::is_local(&facts.address);
    for facts in topology.servers().filter(is_open) {
        let why =
            if facts.offers_tls { "the TLS that it offers does not work" } else { "it does not offer TLS" };
        screen.remark(&format!("connections to {} are not encrypted: {why}.", facts.address));
    }
    topology.remarks.iter().for_each(|remark| screen.remark(remark));
}

/// What the file will say.
pub fn proposal(screen: Screen, proposal: &Proposal) {
    screen.heading("Configuration");
    for hostgroup in proposal.hostgroups() {
        let servers = proposal.servers.iter().filter(|line| line.hostgroup == hostgroup);
        let servers: Vec<String> = servers
            .map(|line| {
                let reserve = if line.is_used { "" } else { ", not in use" };
                format!("{} (up to {} connections{reserve})", line.facts.address, line.max_connections)
            })
            .collect();
        let purpose = match (hostgroup, proposal.splits) {
            _ if proposal.cluster.is_some() => "the nodes, until the monitor has asked them for their roles",
            (READERS, true) => "reads",
            (READERS, false) => "replicas, without traffic of their own",
            (_, true) => "everything that is not certain to be a read",
            (_, false) => "everything",
        };
        screen.line(&format!("  hostgroup {hostgroup}: {purpose}: {}", servers.join(", ")));
    }
    if proposal.cluster.is_some() {
        screen.line(&format!(
            "  roles: one node in hostgroup {WRITERS} is written to, those in {READERS} are read, one that leaves the cluster gets nothing"
        ));
    }
    if proposal.splits {
        screen.line(
            "  read/write split: mysql-auto_read_write_split, which sends to replicas only what is certain to be a read; rules that match",
        );
        screen.line(
            "  ^SELECT would also send reads that lock or write. Replicas may lag: what must be read as just written belongs in a transaction.",
        );
    }
    if proposal.follows_read_only {
        screen.line("  failover: followed by read_only; Narrows promotes nothing itself");
    }
    if proposal.cluster.is_some() {
        screen.line("  failover: another node is written to when the one in use no longer can be");
    }
    for account in &proposal.accounts {
        let what = match account.password {
            Some(_) => "with its password",
            None => "with the hash that the servers have; its password was not tried",
        };
        screen.line(&format!("  account '{}': {what}", account.username));
    }
}

/// Whether the monitor's account works.
pub fn monitor(screen: Screen, monitor: &MonitorAccount) {
    let name = &monitor.login.username;
    match &monitor.state {
        MonitorState::Works => screen.line(&format!("  monitor: '{name}' exists and works")),
        MonitorState::Created => screen.line(&format!("  monitor: '{name}' was created on the primary")),
        MonitorState::Missing(why, statements) => {
            screen.remark(&format!(
                "{why} Until it works, Narrows does not notice failovers and lag. {}",
                if statements.is_empty() { "" } else { "Run on the primary:" }
            ));
            statements.iter().for_each(|statement| screen.line(&format!("  {statement};")));
        }
    }
}

/// What was proved.
pub fn proof(screen: Screen, proposal: &Proposal, proof: &Proof, destination: &Destination) {
    screen.heading("Tried");
    let answers: Vec<String> = proof
        .answers
        .iter()
        .map(|(hostgroup, server)| format!("hostgroup {hostgroup} on {server}"))
        .collect();
    let name = &proof.username;
    screen.line(&format!(
        "  Narrows ran with this configuration, and '{name}' ran a statement in {}.",
        answers.join(" and in ")
    ));
    if !proof.is_of_the_file {
        screen.remark(&format!(
            "the accounts in the file could not be tried, because their passwords are unknown; '{name}' is not in the file."
        ));
    }
    if let Some(hostgroup) = proposal.hostgroups().into_iter().find(|it| !proposal.serves(*it)) {
        screen.remark(&format!(
            "no server of hostgroup {hostgroup} can serve now, so it was not tried; until one can, reads go to the primary."
        ));
    }
    screen.line(&format!("  It was written to {}, readable for you only.", destination.path.display()));
}

/// The lines to type now.
pub fn next(screen: Screen, proposal: &Proposal, file: &Path, is_stored: bool) {
    let client = if proposal.servers.iter().any(|line| line.facts.is_mariadb) { "mariadb" } else { "mysql" };
    let connect = |address: &str, user: &str| {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "6033"));
        let host = match host.trim_matches(['[', ']']) {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        format!("{client} -h{host} -P{port} -u{} -p", shell_word(user))
    };
    let user = proposal.accounts.first().map_or("NAME", |account| &account.username);
    let initial = if is_stored { " --initial" } else { "" };
    screen.heading("Now start it, and connect to it");
    screen.line(&format!("  narrows -f -c {}{initial}", shell_word(&file.display().to_string())));
    screen.line(&format!("  {}", connect(&proposal.listeners.clients, user)));
    let admin = connect(&proposal.listeners.administrators, "admin");
    screen.line(&format!("  {admin}   # its password is in the file, as admin_credentials"));
    if is_stored {
        screen.remark(
            "the data folder has a configuration, which would take precedence: --initial sets it aside.",
        );
    }
    debug_assert!(proposal.servers.iter().any(|line| line.hostgroup == WRITERS));
}
