//! What the checks of many clusters cost: the CPU of all processes of Narrows, without any client. The nodes are one other
//! process, which answers as healthy nodes of Galera do.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::process::{Cpu, Process, free_address};

/// Options of `clusters`.
#[derive(Debug, Args)]
pub struct ClustersFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Clusters.
    #[arg(long, default_value_t = 200)]
    clusters: u16,
    /// Nodes of each.
    #[arg(long, default_value_t = 5)]
    nodes: u16,
    /// Milliseconds between two checks of a node; several, for one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [5_000, 1_000])]
    intervals: Vec<u32>,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Seconds before it.
    #[arg(long, default_value_t = 10.0)]
    warm_up: f64,
}

/// Measures, and prints the figures.
pub fn run(flags: &ClustersFlags) -> io::Result<()> {
    // Every address of 127.0.0.0/8 leads there: each is a node.
    let server = ["mock-server", "--listen", "0.0.0.0:0"].map(str::to_owned);
    let (_nodes, address) = Process::start_own(None, &server)?;
    let port = address.rsplit_once(':').map_or("3306", |(_, port)| port);
    println!("{} clusters of {} nodes, {} s each, no clients", flags.clusters, flags.nodes, flags.seconds);
    for interval in &flags.intervals {
        let folder = tempfile::tempdir()?;
        let narrows = start(flags, *interval, port, folder.path())?;
        std::thread::sleep(Duration::from_secs_f64(flags.warm_up));
        let before = narrows.cpu()?;
        std::thread::sleep(Duration::from_secs_f64(flags.seconds));
        let Cpu { used, .. } = narrows.cpu()?.since(before);
        let share = used.as_secs_f64() / flags.seconds;
        let checks = f64::from(flags.clusters) * f64::from(flags.nodes) * 1_000.0 / f64::from(*interval);
        println!(
            "checks every {interval} ms: {:.2} % of a core; {checks:.0} checks a second of nodes, {:.0} us for each",
            share * 100.0,
            share * 1e6 / checks,
        );
    }
    Ok(())
}

/// Starts Narrows as a user does, with its supervisor and its monitor.
fn start(flags: &ClustersFlags, interval: u32, port: &str, folder: &Path) -> io::Result<Process> {
    let (listen, admin) = (free_address()?, free_address()?);
    let mut text = format!(
        "[admin_variables]\nmysql_ifaces = \"{admin}\"\n\n[mysql_variables]\ninterfaces = \"{listen}\"\n\
         monitor_galera_healthcheck_interval = {interval}\n\n\
         [[mysql_users]]\nusername = \"bench\"\npassword = \"bench\"\ndefault_hostgroup = 1\n\n"
    );
    for cluster in 0..flags.clusters {
        let first = 1 + u32::from(cluster) * 4;
        let row = format!(
            "[[mysql_galera_hostgroups]]\nwriter_hostgroup = {first}\nbackup_writer_hostgroup = {}\n\
             reader_hostgroup = {}\noffline_hostgroup = {}\nwriter_is_also_reader = 2\n\n",
            first + 1,
            first + 2,
            first + 3
        );
        text += &row;
        for node in 0..flags.nodes {
            let host = Ipv4Addr::from_bits(
                FIRST_NODE + u32::from(cluster) * u32::from(flags.nodes) + u32::from(node),
            );
            let row =
                format!("[[mysql_servers]]\nhostgroup = {first}\naddress = \"{host}\"\nport = {port}\n\n");
            write!(text, "{row}").expect("writing to a String cannot fail");
        }
    }
    let (file, data) = (folder.join("narrows.toml"), folder.join("data"));
    fs::write(&file, text)?;
    fs::create_dir_all(&data)?;
    let paths = [data.display().to_string(), file.display().to_string()];
    let arguments = ["-f", "--initial", "-D", &paths[0], "-c", &paths[1]].map(str::to_owned);
    let log = folder.join("log");
    let mut process = Process::start("narrows", None, &flags.narrows, &arguments, &log)?;
    process.wait_for_port(listen, &log)?;
    process.worker_process()?;
    Ok(process)
}

/// 127.1.0.0
const FIRST_NODE: u32 = 127 << 24 | 1 << 16;
