//! A throw-away mariadbd, used if no server is given.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::{Account, Setup};
use crate::process::{Process, find_program, free_address};

/// How long a replica may take to receive the tables.
const REPLICA_PATIENCE: Duration = Duration::from_secs(120);

/// A server started by the bench; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _process: Process,
}

impl Server {
    /// Makes a data folder in `folder`, with the account and the schema, and starts a server on it.
    pub fn start(folder: &Path, account: &Account, schema: &str) -> io::Result<Server> {
        let data = folder.join("mariadb-data");
        let user = format!("--user={}", owner(folder)?);
        let installed = Command::new(program("mariadb-install-db")?)
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", &user])
            .arg(format!("--datadir={}", data.display()))
            .stdin(Stdio::null())
            .output()?;
        if !installed.status.success() {
            let printed = String::from_utf8_lossy(&installed.stderr).into_owned();
            return Err(io::Error::other(format!("mariadb-install-db: {}\n{printed}", installed.status)));
        }
        let Account { user: name, password } = account;
        let statements = folder.join("init.sql");
        fs::write(
            &statements,
            format!(
                "CREATE DATABASE {schema};\n\
                 CREATE USER '{name}'@'%' IDENTIFIED BY '{password}';\n\
                 GRANT ALL ON *.* TO '{name}'@'%';\n"
            ),
        )?;
        let address = free_address()?;
        let log = folder.join("mariadbd.log");
        let arguments = [
            "--no-defaults".to_owned(),
            user,
            format!("--datadir={}", data.display()),
            format!("--init-file={}", statements.display()),
            format!("--port={}", address.port()),
            format!("--bind-address={}", address.ip()),
            format!("--socket={}", folder.join("mariadbd.sock").display()),
            format!("--pid-file={}", folder.join("mariadbd.pid").display()),
            "--skip-name-resolve".to_owned(),
            "--max-connections=1000".to_owned(),
            // The bench measures proxies, not disks.
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
        ];
        let mut process = Process::start("mariadbd", None, &program("mariadbd")?, &arguments, &log)?;
        process.wait_for_port(address, &log)?;
        Ok(Server { address, _process: process })
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

/// Waits until the last table of a replica equals the primary's.
pub fn wait_for_copy(setup: &Setup, schema: &str, tables: usize, replica: &str) -> io::Result<()> {
    let checksum = |server: &str| -> io::Result<String> {
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "3306"));
        let output = Command::new(program("mariadb")?)
            .args(["--no-defaults", "-N", "-h", host, "-P", port, "-u", &setup.account.user])
            .arg(format!("-p{}", setup.account.password))
            .arg("-e")
            .arg(format!("CHECKSUM TABLE {schema}.sbtest{tables}"))
            .stdin(Stdio::null())
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let expected = checksum(&setup.primary)?;
    let deadline = Instant::now() + REPLICA_PATIENCE;
    while expected.trim().is_empty() || checksum(replica)? != expected {
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("replica {replica} does not receive the tables")));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn program(name: &str) -> io::Result<PathBuf> {
    find_program(name)
        .ok_or_else(|| io::Error::other(format!("{name} is missing: apt-get install mariadb-server")))
}

/// The account that owns our files; mariadbd only runs as root if it is named explicitly.
fn owner(folder: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let id = fs::metadata(folder)?.uid().to_string();
    let accounts = fs::read_to_string("/etc/passwd")?;
    let mut names = accounts.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    names.next().ok_or_else(|| io::Error::other(format!("no account has the id {id}")))
}
