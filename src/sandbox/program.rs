//! Finding the server program, and the options with which a sandbox's server runs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::record::{Flavour, Form, Server};

/// Whether the servers end together with this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The kernel ends a server when the process that started it is gone.
    Attached,
    /// A server keeps running in its own session.
    Detached,
}

/// A server program that can be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Which family it belongs to.
    pub flavour: Flavour,
    /// Its version as `major.minor.patch`.
    pub version: String,
}

impl Program {
    /// Finds a program for servers that form this, as [`Program::find`] does.
    pub fn for_form(form: Form, wanted: Option<&Path>) -> anyhow::Result<Program> {
        let (flavour, name, what) = match form {
            Form::Replication => return Program::find(wanted),
            Form::Galera => (Flavour::MariaDb, "mariadbd", "a Galera cluster needs MariaDB"),
            Form::GroupReplication => (Flavour::MySql, "mysqld", "Group Replication needs MySQL"),
        };
        let program = Program::find(Some(wanted.unwrap_or(Path::new(name))))?;
        if program.flavour != flavour {
            bail!("{what}, and {} is another server; name one with --server", program.path.display());
        }
        Ok(program)
    }

    /// Finds the program given by `wanted`: a name, an executable, or a folder that contains one. If none is given,
    /// MariaDB is tried first.
    pub fn find(wanted: Option<&Path>) -> anyhow::Result<Program> {
        let path = match wanted {
            None => on_path("mariadbd").or_else(|| on_path("mysqld")).context(
                "neither mariadbd nor mysqld is installed; on Debian: apt-get install mariadb-server",
            )?,
            Some(folder) if folder.is_dir() => {
                in_folder(folder).with_context(|| format!("no mariadbd or mysqld in {}", folder.display()))?
            }
            Some(name) if name.components().count() == 1 && !name.exists() => {
                let name = name.to_string_lossy();
                on_path(&name).with_context(|| format!("no {name} on PATH"))?
            }
            Some(path) => path.to_owned(),
        };
        Program::identify(path)
    }

    /// The program at `path`, as it describes itself. If it does not run because its libraries are in the tree into
    /// which it was unpacked, that tree's launcher is used, if there is one: `bin/mysqld` above `usr/sbin/mysqld`.
    pub fn identify(path: PathBuf) -> anyhow::Result<Program> {
        Program::of(path.clone()).or_else(|error| {
            let name = path.file_name().unwrap_or_default();
            // From its folder up to the top of the tree, but no further: a program in `/bin` is a different one.
            let folders = path.ancestors().skip(1).take(3).filter(|folder| folder.parent().is_some());
            let launchers = folders.map(|folder| folder.join("bin").join(name));
            let mut launchers = launchers.filter(|launcher| *launcher != path && launcher.is_file());
            launchers.find_map(|launcher| Program::of(launcher).ok()).ok_or(error)
        })
    }

    fn of(path: PathBuf) -> anyhow::Result<Program> {
        let output = Command::new(&path)
            .args(["--no-defaults", "--version"])
            .output()
            .with_context(|| format!("cannot run {}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(version) = version_in(&text) else {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().or(text.lines().next()).unwrap_or("nothing").trim();
            bail!("{} does not run ({}): its output is {said:?}", path.display(), output.status)
        };
        let flavour = if text.contains("MariaDB") { Flavour::MariaDb } else { Flavour::MySql };
        Ok(Program { path, flavour, version })
    }

    /// `[major, minor, patch]`, for comparisons.
    pub fn version_numbers(&self) -> Vec<u32> {
        self.version.split('.').filter_map(|number| number.parse().ok()).collect()
    }

    /// The full command line for `server`, the program first.
    pub fn command_line(&self, server: &Server, form: Form, extra: &[String]) -> Vec<String> {
        let data = server.data.display();
        let mut line = vec![self.path.display().to_string(), "--no-defaults".to_owned()];
        line.extend(run_as_root());
        line.extend([
            format!("--datadir={data}"),
            format!("--port={}", server.port),
            format!("--socket={}", server.socket.display()),
            format!("--pid-file={data}/server.pid"),
            format!("--log-error={}", server.log.display()),
            format!("--server-id={}", server.server_id),
            format!("--report-port={}", server.port),
        ]);
        line.extend(COMMON_OPTIONS.iter().map(|&option| option.to_owned()));
        let of_flavour = match self.flavour {
            Flavour::MariaDb => MARIADB_OPTIONS,
            Flavour::MySql => MYSQL_OPTIONS,
        };
        line.extend(of_flavour.iter().map(|&option| option.to_owned()));
        if server.is_replica() && form == Form::Replication {
            line.push("--read-only=1".to_owned());
            if self.flavour == Flavour::MySql {
                line.push("--super-read-only=1".to_owned());
            }
        }
        line.extend_from_slice(extra);
        line
    }
}

/// Starts a server. Must be called on the main thread: the kernel ties an attached server's lifetime to the thread.
pub fn spawn(line: &[String], lifetime: Lifetime) -> anyhow::Result<Child> {
    let (program, options) = line.split_first().context("a command line without a program")?;
    let mut command = Command::new(program);
    command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let parent = rustix::process::getpid();
    let prepare = move || {
        // Outside the terminal's process group, so that Ctrl-C only reaches `narrows`.
        rustix::process::setsid()?;
        if lifetime == Lifetime::Attached {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(std::io::Error::other("the parent has already ended"));
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls, and allocates at most the error that ends the
    // child.
    unsafe { command.pre_exec(prepare) };
    command.spawn().with_context(|| format!("cannot start {program}"))
}

/// The option without which a server refuses to run as root; nothing for other users.
pub fn run_as_root() -> Option<String> {
    rustix::process::geteuid().is_root().then(|| "--user=root".to_owned())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers in sbin, which is not on the PATH of an ordinary user.
    let fixed = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from);
    std::env::split_paths(&path).chain(fixed).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    // `bin` first: a tree unpacked by scripts/install-mysql9.sh has launchers there.
    let places = ["bin", "sbin", "usr/bin", "usr/sbin", ""].map(|place| folder.join(place));
    let names = ["mariadbd", "mysqld"];
    places.iter().flat_map(|place| names.map(|name| place.join(name))).find(|file| file.is_file())
}

/// The version in the output of `--version`: the word after `Ver`, up to the first character that is not part of it.
fn version_in(text: &str) -> Option<String> {
    let word = text.split_whitespace().skip_while(|word| *word != "Ver").nth(1)?;
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    (end > 0).then(|| word[..end].to_owned())
}

/// Loopback only, GTID replication, no durability, small buffers.
const COMMON_OPTIONS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--report-host=127.0.0.1",
    "--skip-name-resolve",
    "--log-bin=binlog",
    "--relay-log=relay",
    "--binlog-format=ROW",
    "--log-bin-trust-function-creators=1",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--max-connections=1000",
    "--max-allowed-packet=256M",
    "--character-set-server=utf8mb4",
    "--local-infile=1",
    "--secure-file-priv=",
    "--event-scheduler=OFF",
];

const MARIADB_OPTIONS: &[&str] = &[
    "--log-slave-updates=1",
    "--gtid-strict-mode=1",
    "--innodb-log-file-size=32M",
    "--innodb-doublewrite=0",
];

const MYSQL_OPTIONS: &[&str] = &[
    "--log-replica-updates=1",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--innodb-redo-log-capacity=64M",
    "--innodb-doublewrite=OFF",
    "--mysqlx=OFF",
];

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn reads_the_version_of_both_families() {
        let mariadb = "mariadbd  Ver 10.11.11-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(version_in(mariadb).as_deref(), Some("10.11.11"));
        let mysql = "/usr/sbin/mysqld  Ver 9.7.0 for Linux on x86_64 (Debian)";
        assert_eq!(version_in(mysql).as_deref(), Some("9.7.0"));
        assert_eq!(version_in("something else"), None);
    }
}
