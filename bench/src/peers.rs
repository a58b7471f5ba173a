//! The parties of a comparison: how each is configured and started. Each is a row of [`PEERS`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::{Process, find_program, free_address};
use crate::socket::Address;

/// The account configured in proxies that authenticate their clients.
#[derive(Debug, Clone)]
pub struct Account {
    /// Name.
    pub user: String,
    /// Password, in clear text.
    pub password: String,
}

/// The servers that the peers connect to.
#[derive(Debug)]
pub struct Setup<'s> {
    /// `IP:PORT` of the primary, or the only server.
    pub primary: String,
    /// `IP:PORT` of servers for reads; empty: the primary reads too.
    pub replicas: Vec<String>,
    /// Account on all of them.
    pub account: Account,
    /// For configurations and logs.
    pub folder: &'s Path,
    /// The proxy's core; `None`: the kernel chooses.
    pub core: Option<usize>,
    /// The Narrows binary.
    pub narrows: &'s Path,
    /// Narrows' query rules that precede the two of the read/write split.
    pub rules: Rules,
    /// Narrows' `max_stmts_per_connection`; `None`: the default.
    pub max_stmts: Option<u32>,
    /// Another Narrows binary, to compare with.
    pub baseline: Option<&'s Path>,
    /// The shell command of another proxy.
    pub other: Option<&'s str>,
    /// Narrows runs under callgrind, which writes to files of this name with a number.
    pub counted: Option<&'s Path>,
    /// `mysql_variables` of Narrows, as lines of its file.
    pub variables: &'s [String],
}

/// Query rules that change nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// This many rules with `match_digest`.
    pub digests: usize,
    /// This many rules with `match_pattern`.
    pub patterns: usize,
    /// A dry run of a rule that would send reads to this hostgroup; the rules in force send them to 1.
    pub dry_run: Option<i32>,
}

impl Rules {
    /// The rows of a `narrows.toml`.
    fn toml(self) -> String {
        let rule = |id: usize, column: &str| {
            format!(
                "[[mysql_query_rules]]\nrule_id = {id}\n\
                 {column} = \"^SELECT .* FROM nothing_{id:06} WHERE .*$\"\ndestination_hostgroup = 0\napply = 1\n\n"
            )
        };
        let digests = (0..self.digests).map(|id| rule(id, "match_digest"));
        let patterns = (0..self.patterns).map(|id| rule(self.digests + id, "match_pattern"));
        let dry_run = self.dry_run.map(|hostgroup| {
            format!(
                "[[mysql_query_rules]]\nrule_id = 900000\nactive = 2\nmatch_digest = \"^SELECT\"\n\
                 destination_hostgroup = {hostgroup}\napply = 1\n\n"
            )
        });
        digests.chain(patterns).chain(dry_run).collect()
    }
}

/// One path from the load generator to the server.
#[derive(Debug)]
pub struct Peer {
    /// Its name in options and tables.
    pub name: &'static str,
    /// How it is set up, in one line for the reader of a table.
    pub terms: &'static str,
    /// Starts it and waits until it serves.
    pub start: fn(&Setup) -> io::Result<Running>,
}

/// A peer that serves.
#[derive(Debug)]
pub struct Running {
    /// Where the load goes.
    pub address: Address,
    /// The Unix socket where it listens too.
    pub socket: Option<Address>,
    /// The address of its admin interface.
    pub admin: Option<Address>,
    /// The process whose CPU is measured; `None` if there is no proxy.
    pub process: Option<Process>,
}

/// All peers, in the order of the tables.
pub const PEERS: &[Peer] = &[
    Peer {
        name: DIRECT,
        terms: "no proxy; shares the load's core, so only its latency says something",
        start: direct,
    },
    Peer { name: FORWARDER, terms: "finds packet ends, nothing else; one thread, epoll", start: forwarder },
    Peer { name: HAPROXY, terms: "mode tcp, 1 thread, TCP keepalive, no log, no splicing", start: haproxy },
    Peer {
        name: NARROWS,
        terms: "1 thread, one user, the two rules of the read/write split",
        start: narrows,
    },
    Peer { name: BASELINE, terms: "the same with another binary, of --baseline", start: baseline },
    Peer { name: OTHER, terms: "any proxy, by the command of --peer-cmd", start: other },
    Peer { name: FAST_FORWARD, terms: "narrows with a user that has fast_forward", start: fast_forward },
    Peer { name: CACHED, terms: "narrows with every SELECT cached for an hour", start: cached },
];

/// The direct path, without a proxy.
pub const DIRECT: &str = "direct";
/// The minimum cost: [`crate::forward`].
pub const FORWARDER: &str = "forwarder";
/// The peer to beat.
pub const HAPROXY: &str = "haproxy";
/// This project.
pub const NARROWS: &str = "narrows";
/// Another version of this project.
pub const BASELINE: &str = "baseline";
/// Any other proxy.
pub const OTHER: &str = "other";
/// This project, forwarding bytes without looking at them.
pub const FAST_FORWARD: &str = "fastforward";
/// This project, answering from its cache.
pub const CACHED: &str = "cached";

/// The peers of a comma-separated list, in the order of the table.
pub fn choose(list: &[String]) -> io::Result<Vec<&'static Peer>> {
    if let Some(unknown) = list.iter().find(|name| PEERS.iter().all(|peer| peer.name != name.as_str())) {
        let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        return Err(io::Error::other(format!(
            "unknown peer {unknown:?}; the peers are {}",
            known.join(", ")
        )));
    }
    Ok(PEERS.iter().filter(|peer| list.iter().any(|name| name == peer.name)).collect())
}

fn direct(setup: &Setup) -> io::Result<Running> {
    Ok(Running { address: parse(&setup.primary)?, socket: None, admin: None, process: None })
}

fn forwarder(setup: &Setup) -> io::Result<Running> {
    let arguments = ["forward", "--backend", &setup.primary].map(str::to_owned);
    let (process, address) = Process::start_own(setup.core, &arguments)?;
    Ok(Running { address: parse(&address)?, socket: None, admin: None, process: Some(process) })
}

fn haproxy(setup: &Setup) -> io::Result<Running> {
    let program =
        find_program("haproxy").ok_or_else(|| io::Error::other("not installed: apt-get install haproxy"))?;
    let primary = &setup.primary;
    serve(setup, HAPROXY, "haproxy.cfg", &program, |listen, socket| {
        format!(
            "global\n    nbthread 1\n    maxconn 8000\n\
             defaults\n    mode tcp\n    option tcpka\n    timeout connect 5s\n    timeout client 1h\n    \
             timeout server 1h\n    maxconn 8000\n\
             listen mysql\n    bind {listen}\n    bind unix@{socket}\n    server primary {primary}\n"
        )
    })
}

/// Narrows with one user.
pub fn narrows(setup: &Setup) -> io::Result<Running> {
    start_narrows(setup, (NARROWS, setup.narrows), Columns::default())
}

fn other(setup: &Setup) -> io::Result<Running> {
    let command = setup.other.ok_or_else(|| io::Error::other("which one? --peer-cmd COMMAND"))?;
    let listen = free_address()?;
    let command = command.replace("{listen}", &listen.to_string()).replace("{server}", &setup.primary);
    let log = log_file(setup, OTHER);
    let arguments = ["-c".to_owned(), format!("exec {command}")];
    let mut process = Process::start(OTHER, setup.core, Path::new("/bin/sh"), &arguments, &log)?;
    process.wait_for_port(listen, &log)?;
    Ok(Running { address: Address::Tcp(listen), socket: None, admin: None, process: Some(process) })
}

fn baseline(setup: &Setup) -> io::Result<Running> {
    let binary = setup.baseline.ok_or_else(|| io::Error::other("which one? --baseline FILE"))?;
    start_narrows(setup, (BASELINE, binary), Columns::default())
}

fn fast_forward(setup: &Setup) -> io::Result<Running> {
    start_narrows(setup, (FAST_FORWARD, setup.narrows), Columns { user: "fast_forward = 1\n", rule: "" })
}

fn cached(setup: &Setup) -> io::Result<Running> {
    start_narrows(setup, (CACHED, setup.narrows), Columns { user: "", rule: "cache_ttl = 3600000\n" })
}

/// What distinguishes the variants of Narrows: columns of the user, and of the rules of the read/write split.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    user: &'static str,
    rule: &'static str,
}

fn start_narrows(setup: &Setup, (name, binary): (&str, &Path), columns: Columns) -> io::Result<Running> {
    if !binary.is_file() {
        let path = binary.display();
        return Err(io::Error::other(format!(
            "no binary at {path}: cargo build --release, or --narrows FILE"
        )));
    }
    let admin = free_address()?;
    let mut running = serve(setup, name, &format!("{name}.toml"), binary, |listen, socket| {
        narrows_toml(setup, &format!("{listen};{socket}"), &admin.to_string(), columns)
    })?;
    if let Some(process) = &mut running.process {
        process.wait_for_port(admin, &log_file(setup, name))?;
    }
    Ok(Running { admin: Some(Address::Tcp(admin)), ..running })
}

/// Writes a configuration, starts a program with it and waits until it accepts connections.
fn serve(
    setup: &Setup,
    name: &str,
    file: &str,
    program: &Path,
    configuration: impl FnOnce(&str, &str) -> String,
) -> io::Result<Running> {
    let listen = free_address()?;
    let file = setup.folder.join(file);
    let socket = setup.folder.join(format!("{name}.sock"));
    fs::write(&file, configuration(&listen.to_string(), &socket.display().to_string()))?;
    let data = setup.folder.join(format!("{name}-data"));
    fs::create_dir_all(&data)?;
    let (file, data) = (file.display().to_string(), data.display().to_string());
    let mut program = program.to_owned();
    let mut arguments: Vec<String> = match name {
        NARROWS | BASELINE | FAST_FORWARD | CACHED => {
            let flags = ["-f", "-n", "--no-supervisor", "--initial", "-D", &data, "-c", &file];
            flags.map(str::to_owned).to_vec()
        }
        _ => vec!["-db".into(), "-f".into(), file],
    };
    let log = log_file(setup, name);
    if let Some(dumps) = setup.counted {
        let file = format!("--callgrind-out-file={}", dumps.display());
        let counted =
            ["--tool=callgrind", &file, "--compress-strings=no", "--compress-pos=no"].map(str::to_owned);
        arguments.splice(0..0, counted.into_iter().chain([program.display().to_string()]));
        program = find_program("valgrind").ok_or_else(no_valgrind)?;
    }
    let mut process = Process::start(name, setup.core, &program, &arguments, &log)?;
    process.wait_for_port(listen, &log)?;
    let socket = Some(Address::Unix(socket));
    Ok(Running { address: Address::Tcp(listen), socket, admin: None, process: Some(process) })
}

/// The error where valgrind is missing.
pub fn no_valgrind() -> io::Error {
    io::Error::other("not installed: apt-get install valgrind")
}

fn log_file(setup: &Setup, name: &str) -> PathBuf {
    setup.folder.join(format!("{name}.log"))
}

/// Writers in hostgroup 0, readers in 1.
fn narrows_toml(setup: &Setup, listen: &str, admin: &str, columns: Columns) -> String {
    let Account { user, password } = &setup.account;
    let readers =
        if setup.replicas.is_empty() { std::slice::from_ref(&setup.primary) } else { &setup.replicas };
    let mut servers = vec![(0, &setup.primary)];
    servers.extend(readers.iter().map(|reader| (1, reader)));
    let mut text = format!(
        "[admin_variables]\nmysql_ifaces = \"{admin}\"\n\n\
         [mysql_variables]\ninterfaces = \"{listen}\"\nthreads = 1\n"
    );
    if let Some(most) = setup.max_stmts {
        text += &format!("max_stmts_per_connection = {most}\n");
    }
    setup.variables.iter().for_each(|line| text += &format!("{line}\n"));
    text.push('\n');
    for (hostgroup, server) in servers {
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "3306"));
        text += &format!(
            "[[mysql_servers]]\nhostgroup = {hostgroup}\naddress = \"{host}\"\nport = {port}\n\
             max_connections = 1000\n\n"
        );
    }
    text += &format!(
        "[[mysql_users]]\nusername = \"{user}\"\npassword = \"{password}\"\ndefault_hostgroup = 0\n\
         {}\n",
        columns.user
    );
    text += &setup.rules.toml();
    for (rule, pattern, hostgroup) in [(900_001, "^SELECT.*FOR UPDATE", 0), (900_002, "^SELECT", 1)] {
        text += &format!(
            "[[mysql_query_rules]]\nrule_id = {rule}\nmatch_digest = \"{pattern}\"\n\
             destination_hostgroup = {hostgroup}\n{}apply = 1\n\n",
            columns.rule
        );
    }
    text
}

fn parse(address: &str) -> io::Result<Address> {
    address.parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choosing_keeps_the_order_of_the_table_and_names_what_is_unknown() {
        let names = |list: &[&str]| {
            choose(&list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .map(|peers| peers.iter().map(|peer| peer.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[NARROWS, DIRECT]).unwrap(), [DIRECT, NARROWS]);
        assert!(names(&["haprxy"]).unwrap_err().to_string().contains("haproxy"));
    }

    #[test]
    fn readers_are_the_replicas_or_else_the_primary() {
        let mut setup = Setup {
            primary: "127.0.0.1:3306".to_owned(),
            replicas: Vec::new(),
            account: Account { user: "app".to_owned(), password: "x".to_owned() },
            folder: Path::new("/nowhere"),
            core: None,
            narrows: Path::new("/nowhere/narrows"),
            rules: Rules::default(),
            max_stmts: None,
            baseline: None,
            other: None,
            counted: None,
            variables: &[],
        };
        let alone = narrows_toml(&setup, "127.0.0.1:1", "127.0.0.1:2", Columns::default());
        assert!(alone.contains("hostgroup = 1\naddress = \"127.0.0.1\"\nport = 3306\n"));
        setup.replicas = vec!["127.0.0.1:3307".to_owned(), "127.0.0.1:3308".to_owned()];
        let split = narrows_toml(&setup, "127.0.0.1:1", "127.0.0.1:2", Columns::default());
        assert_eq!(split.matches("hostgroup = 1\naddress").count(), 2);
        assert!(!split.contains("hostgroup = 1\naddress = \"127.0.0.1\"\nport = 3306\n"));
    }
}
