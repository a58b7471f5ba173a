//! The narrows.toml of a proposal, with comments for the person who will change it.

use std::fmt::Write;

use narrows_control::monitor::cluster::ClusterKind;
use narrows_control::store::toml_string as quoted;

use super::accounts::AppAccount;
use super::proposal::{BACKUP_WRITERS, Listeners, OFFLINE, Proposal, READERS, ServerLine, WRITERS};

/// The text of the file, for these listeners and accounts.
pub fn text(proposal: &Proposal, listeners: &Listeners, accounts: &[AppAccount]) -> String {
    let mut text = String::from(HEAD);
    variables(&mut text, proposal, listeners);
    if proposal.follows_read_only {
        add(
            &mut text,
            &[
                "",
                "# The monitor moves servers between these two by their read_only, so a failover is followed.",
                "[[mysql_replication_hostgroups]]",
                &format!("writer_hostgroup = {WRITERS}"),
                &format!("reader_hostgroup = {READERS}"),
            ],
        );
    }
    if let Some(kind) = proposal.cluster {
        cluster(&mut text, kind);
    }
    proposal.servers.iter().for_each(|line| server(&mut text, line, proposal));
    accounts.iter().for_each(|one| account(&mut text, one, proposal));
    text
}

fn cluster(text: &mut String, kind: ClusterKind) {
    add(
        text,
        &[
            "",
            "# The monitor asks the nodes what they can be, and puts each into the hostgroup of its role: one is written to, the",
            "# others are read, and what has left the cluster, or is about to, gets nothing. docs/clusters.md has the rules.",
            &format!("[[{}]]", kind.table()),
            &format!("writer_hostgroup = {WRITERS}"),
            &format!("backup_writer_hostgroup = {BACKUP_WRITERS}"),
            &format!("reader_hostgroup = {READERS}"),
            &format!("offline_hostgroup = {OFFLINE}"),
            "max_writers = 1",
            "writer_is_also_reader = 2 # nodes that could be written to, and are not, are read",
        ],
    );
}

fn variables(text: &mut String, proposal: &Proposal, listeners: &Listeners) {
    let monitor = &proposal.monitor.login;
    add(
        text,
        &[
            "[admin_variables]",
            "# This account may connect from this machine only.",
            &format!("admin_credentials = {}", quoted(&format!("admin:{}", proposal.admin_password))),
            &format!("mysql_ifaces = {}", quoted(&listeners.administrators)),
            "",
            "[mysql_variables]",
            "# 0.0.0.0 in place of the address admits clients on other machines.",
            &format!("interfaces = {}", quoted(&listeners.clients)),
            "# Drivers choose their statements by the version in the greeting.",
            &format!("server_version = {}", quoted(&proposal.greeting_version)),
            "# The account that checks the servers.",
            &format!("monitor_username = {}", quoted(&monitor.username)),
            &format!("monitor_password = {}", quoted(&monitor.password)),
        ],
    );
    split(text, proposal);
    if proposal.follows_read_only {
        add(text, &["# Reads are left to the replicas.", "monitor_writer_is_also_reader = false"]);
    }
    if proposal.asks_for_keys {
        add(
            text,
            &[
                "# A server on another machine does not offer TLS, and caching_sha2_password then needs its RSA key. Someone in",
                "# between could send another key and read passwords: better switch TLS on there, set use_ssl, and remove this.",
                "get_server_public_key = true",
            ],
        );
    }
}

fn split(text: &mut String, proposal: &Proposal) {
    if proposal.splits && proposal.cluster.is_some() {
        add(
            text,
            &[
                "# Statements that are certain to be reads go to the other nodes, as long as one is online; everything else, and",
                "# everything in a transaction, goes to the node for writes. Others may apply a write a moment later: a client that must",
                "# read what it has just written does so in a transaction. docs/query-rules.md says what is certain, and how rules",
                "# override it.",
                "auto_read_write_split = true",
            ],
        );
    } else if proposal.splits {
        add(
            text,
            &[
                "# Statements that are certain to be reads go to the replicas, as long as one is online; everything else, and",
                "# everything in a transaction, goes to the primary. Replicas may lag: a client that must read what it has just",
                "# written does so in a transaction. docs/query-rules.md says what is certain, and how rules override it.",
                "auto_read_write_split = true",
            ],
        );
    }
}

fn server(text: &mut String, line: &ServerLine, proposal: &Proposal) {
    let facts = &line.facts;
    let (kept, all) = (facts.max_connections.saturating_sub(line.max_connections), facts.max_connections);
    let role = match (line.hostgroup, line.is_used) {
        _ if proposal.cluster.is_some() => "a node",
        (READERS, true) => "a replica",
        (READERS, false) => "a replica that is late on purpose, and therefore gets no reads",
        _ => "the server for writes",
    };
    add(
        text,
        &[
            "",
            &format!("# {}: {role}.", facts.software()),
            "[[mysql_servers]]",
            &format!("hostgroup_id = {}", line.hostgroup),
            &format!("hostname = {}", quoted(&facts.address.hostname)),
            &format!("port = {}", facts.address.port),
            &format!("max_connections = {} # of {all}: {kept} are left to others", line.max_connections),
        ],
    );
    if !line.is_used {
        add(text, &["status = \"OFFLINE_SOFT\""]);
    }
    if line.max_replication_lag > 0 {
        let lag = line.max_replication_lag;
        add(text, &[&format!("max_replication_lag = {lag} # seconds; if it is later, it gets no reads")]);
    }
    if facts.is_encrypted {
        add(text, &["use_ssl = true # mysql-ssl_p2s_ca names the authority to verify its certificate with"]);
    }
}

fn account(text: &mut String, account: &AppAccount, proposal: &Proposal) {
    let form = match account.password {
        Some(_) => "Its password on the servers too",
        None => "The hash that the servers have",
    };
    add(
        text,
        &[
            "",
            "[[mysql_users]]",
            &format!("username = {}", quoted(&account.username)),
            &format!("password = {} # {form}.", quoted(&account.stored)),
            &format!("default_hostgroup = {WRITERS}"),
        ],
    );
    if proposal.splits && !proposal.follows_read_only && proposal.cluster.is_none() {
        let attributes = format!("{{\"reader_hostgroup\":{READERS}}}");
        add(text, &[&format!("attributes = {} # where its reads go", quoted(&attributes))]);
    }
}

fn add(text: &mut String, lines: &[&str]) {
    for line in lines {
        writeln!(text, "{line}").expect("writing to a String cannot fail");
    }
}

const HEAD: &str = "\
# Written by narrows init. It has passwords: keep it readable for its owner only.
#
# Check it after a change with: narrows check FILE
# Narrows reads it at the first start; later, what administrators have saved in the data folder takes precedence, unless
# narrows is started with --initial (the file alone) or --reload (the file over what is saved).

";
