//! Finds replicas: what a server lists, and otherwise who reads its binary log.

use std::collections::BTreeSet;

use narrows_control::monitor::plan::Address;
use narrows_proxy::backend::Table;

use super::address;
use super::facts::{Facts, first_of};
use super::survey::{MOST_SERVERS, as_seen_from_here, ask_all};
use super::trust::{Sorted, Trust};
use super::visit::{Credentials, Visit, VisitError};

/// A replica that a server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    server_id: String,
    /// `report_host`; empty if the replica was not given one.
    host: String,
    port: u16,
}

/// Adds all replicas of the servers that are known, and theirs.
pub async fn below(
    mut known: Vec<Facts>,
    access: (&Credentials, &Trust),
    remarks: &mut Vec<String>,
) -> anyhow::Result<Vec<Facts>> {
    let mut next = 0;
    while let Some(source) = known.get(next).cloned() {
        next += 1;
        if known.len() >= MOST_SERVERS {
            remarks.push(format!("Only the first {MOST_SERVERS} servers are used."));
            break;
        }
        of_one(&source, &mut known, access, remarks).await?;
    }
    Ok(known)
}

/// Adds the replicas of one server.
async fn of_one(
    source: &Facts,
    known: &mut Vec<Facts>,
    (account, trust): (&Credentials, &Trust),
    remarks: &mut Vec<String>,
) -> anyhow::Result<()> {
    let failed = |error| VisitError::new(&source.address, &account.username, &error);
    let visit = Visit::begin(&source.address, account).await?;
    let listed = first_of(&visit, &["SHOW REPLICAS", "SHOW SLAVE HOSTS"]).await.map_err(failed)?;
    let readers = first_of(&visit, &[READERS]).await.map_err(failed)?;
    visit.end().await;
    let is_listed = listed.is_ok();
    let listed: Vec<Listed> = listed.iter().flat_map(|table| listed_in(table, source)).collect();
    let readers: Vec<String> = readers
        .iter()
        .flat_map(|table| table.rows.iter().filter_map(|row| row.first().cloned().flatten()))
        .collect();
    let candidates = candidates(source, &listed, &readers);
    let is_new = |address: &Address| !known.iter().any(|facts| facts.address == *address);
    let Sorted { trusted, others } = trust.sort(candidates.into_iter().filter(is_new).collect())?;
    let mut failures = Vec::new();
    for (address, answer) in ask_all(trusted, account).await {
        match answer {
            Err(error) => failures.push((address, error)),
            Ok(facts) if known.iter().any(|other| other.identity == facts.identity) => {}
            Ok(facts) if is_replica_of(&facts, source, &listed) => known.push(facts),
            Ok(_) => {}
        }
    }
    if !others.is_empty() {
        remarks.push(format!("Replicas of {} may be left out: {}.", source.address, Trust::advice(&others)));
    }
    if others.is_empty() || !failures.is_empty() {
        remarks.extend(missing(source, known, &listed, readers.len(), &failures));
    }
    if !is_listed && readers.is_empty() && source.sources.is_ok() {
        remarks.push(format!(
            "'{}' may not see whether {} has replicas: those that it may have are not used. GRANT {}, PROCESS ON *.* lets it see them.",
            account.username,
            source.address,
            if source.is_mariadb { "REPLICATION MASTER ADMIN" } else { "REPLICATION SLAVE" }
        ));
    }
    Ok(())
}

/// The rows of `SHOW REPLICAS`.
fn listed_in(table: &Table, source: &Facts) -> Vec<Listed> {
    let cell = |row: usize, name: &str| {
        table
            .column(name)
            .and_then(|mut column| column.nth(row).flatten().map(str::to_owned))
            .unwrap_or_default()
    };
    let listed = |row: usize| Listed {
        server_id: cell(row, "Server_Id"),
        host: cell(row, "Host"),
        port: cell(row, "Port").parse().unwrap_or(source.address.port),
    };
    (0..table.rows.len()).map(listed).collect()
}

/// Where replicas may be: the listed hosts, and the hosts that read the binary log with the ports that the list has.
fn candidates(source: &Facts, listed: &[Listed], readers: &[String]) -> Vec<Address> {
    let mut found: Vec<Address> = Vec::new();
    // Whether there is room for more: a list that is a lie has thousands of hosts, each with thousands of ports.
    let mut add = |hostname: &str, port: u16| {
        let address = as_seen_from_here(source, &Address { hostname: hostname.to_owned(), port });
        if let Some(address) = address.filter(|it| *it != source.address && !found.contains(it)) {
            found.push(address);
        }
        found.len() < MOST_SERVERS
    };
    let mut has_room = listed.iter().filter(|one| !one.host.is_empty()).all(|one| add(&one.host, one.port));
    let hosts: BTreeSet<&str> = readers.iter().map(|reader| host_of(reader)).collect();
    let mut ports: BTreeSet<u16> = listed.iter().map(|one| one.port).collect();
    if ports.is_empty() {
        ports.insert(source.address.port);
    }
    for host in hosts.into_iter().filter(|host| address::is_host(host)) {
        has_room = has_room && ports.iter().all(|port| add(host, *port));
    }
    found
}

/// The host of a client in the process list, which has its port too.
fn host_of(client: &str) -> &str {
    match client.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host.trim_matches(['[', ']']),
        _ => client,
    }
}

/// Whether a server that was found is a replica of `source`, and not just any server on the same host.
fn is_replica_of(facts: &Facts, source: &Facts, listed: &[Listed]) -> bool {
    let is_listed = || listed.iter().any(|one| one.server_id == facts.server_id);
    match facts.source() {
        Some(of) if of.server_id.is_empty() => is_listed(),
        Some(of) => of.server_id == source.server_id,
        // The account may not see what it replicates from.
        None => facts.sources.is_err() && is_listed(),
    }
}

/// Replicas that are listed or connected, and were not found.
fn missing(
    source: &Facts,
    known: &[Facts],
    listed: &[Listed],
    readers: usize,
    failures: &[(Address, VisitError)],
) -> Vec<String> {
    let is_known = |one: &&Listed| known.iter().any(|facts| facts.server_id == one.server_id);
    let lost: Vec<&Listed> = listed.iter().filter(|one| !is_known(one)).collect();
    let found = known.iter().filter(|facts| is_replica_of(facts, source, listed)).count();
    if lost.is_empty() && (!listed.is_empty() || readers <= found) {
        return Vec::new();
    }
    if failures.is_empty() {
        return vec![format!(
            "{} has a replica whose address it does not know: set report_host on the replica, and run this again to have it used.",
            source.address
        )];
    }
    failures
        .iter()
        .map(|(_, error)| format!("A replica of {} is left out: {error}.", source.address))
        .collect()
}

/// The clients that read the binary log. Only those with the privilege PROCESS see them.
const READERS: &str = "SELECT host FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::facts::Cluster;

    fn server(hostname: &str, port: u16) -> Facts {
        Facts {
            address: Address { hostname: hostname.to_owned(), port },
            identity: format!("{hostname}:{port}"),
            server_id: "1".to_owned(),
            is_mariadb: true,
            version: "10.11.2-MariaDB".to_owned(),
            is_read_only: false,
            max_connections: 100,
            is_encrypted: false,
            offers_tls: false,
            sources: Ok(Vec::new()),
            cluster: Cluster::None,
        }
    }

    fn listed(server_id: &str, host: &str, port: u16) -> Listed {
        Listed { server_id: server_id.to_owned(), host: host.to_owned(), port }
    }

    fn found(source: &Facts, listed: &[Listed], readers: &[&str]) -> Vec<String> {
        let readers: Vec<String> = readers.iter().map(ToString::to_string).collect();
        candidates(source, listed, &readers).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_replica_is_looked_for_where_it_is_listed_and_where_it_connects_from() {
        let source = server("db1", 3306);
        assert_eq!(found(&source, &[listed("2", "db2", 3307)], &[]), ["db2:3307"]);
        assert_eq!(found(&source, &[listed("2", "", 3307)], &["10.0.0.2:51234"]), ["10.0.0.2:3307"]);
        assert_eq!(found(&source, &[], &["10.0.0.2:51234", "10.0.0.2:51300"]), ["10.0.0.2:3306"]);
        assert!(found(&source, &[], &[]).is_empty());
    }

    #[test]
    fn the_loopback_of_another_machine_is_that_machine() {
        let source = server("10.0.0.1", 3306);
        assert_eq!(
            found(&source, &[listed("2", "127.0.0.1", 3307)], &["localhost:40000"]),
            ["10.0.0.1:3307"]
        );
        assert_eq!(found(&server("127.0.0.1", 1), &[listed("2", "127.0.0.1", 2)], &[]), ["127.0.0.1:2"]);
    }

    #[test]
    fn what_is_no_host_with_a_port_is_not_looked_for() {
        let source = server("127.0.0.1", 3306);
        for odd in ["/tmp/evil.sock", "a b; rm -rf /", "x$(id)", "\u{1b}[2J"] {
            assert!(found(&source, &[listed("2", odd, 3307)], &[odd]).is_empty(), "{odd:?}");
        }
        assert!(found(&source, &[listed("2", "db2", 0)], &[]).is_empty());
    }

    #[test]
    fn ten_thousand_replicas_are_a_few_candidates_at_once() {
        let ports = 1..=10_000_u16;
        let many: Vec<Listed> =
            ports.map(|port| listed("2", if port > 60 { "" } else { "db2" }, port)).collect();
        let readers: Vec<String> = (0..5_000).map(|host| format!("h{host}:1")).collect();
        let readers: Vec<&str> = readers.iter().map(String::as_str).collect();
        let source = server("db1", 3306);
        let begun = std::time::Instant::now();
        let found = found(&source, &many, &readers);
        assert_eq!(found.len(), MOST_SERVERS);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_client_of_the_process_list_has_a_port_or_none() {
        assert_eq!((host_of("10.0.0.1:5"), host_of("db2"), host_of("[::1]:5")), ("10.0.0.1", "db2", "::1"));
    }
}
