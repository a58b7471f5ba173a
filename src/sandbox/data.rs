//! Folders of a sandbox: the template from which data folders are copied, ports, and the removal of leftovers.
//!
//! MySQL needs four seconds to initialise a data folder, a copy a fraction of a second, so the first sandbox of a
//! server version stores a template in the user's cache folder.

use std::fs::{self, File};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::program::{Program, run_as_root};
use super::record::{Flavour, Record, temporary_folders, temporary_root};

/// A fresh folder for a sandbox that is removed when it stops.
pub fn create_temporary_folder() -> anyhow::Result<PathBuf> {
    let root = create_temporary_root()?;
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    loop {
        let dir = root.join(format!("{:06x}", random() & 0xff_ffff));
        match private.create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", dir.display())),
        }
    }
}

fn create_temporary_root() -> anyhow::Result<PathBuf> {
    let root = temporary_root();
    let mut private = fs::DirBuilder::new();
    private.mode(0o700).recursive(true);
    private.create(&root).with_context(|| format!("cannot create {}", root.display()))?;
    Ok(root)
}

/// Makes a sandbox in a given folder discoverable without its name, as temporary ones are, by adding a link to their
/// folder.
pub fn make_known(dir: &Path) -> anyhow::Result<()> {
    create_temporary_root()?;
    let link = link_to(dir);
    match symlink(dir, &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot create {}", link.display()))
        }
        _ => Ok(()),
    }
}

/// Removes the link again.
pub fn forget(dir: &Path) {
    // If this fails, the next sweep removes it.
    let _ = fs::remove_file(link_to(dir));
}

fn link_to(dir: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    temporary_root().join(format!("{:016x}", hasher.finish()))
}

/// Removes temporary sandboxes whose servers are gone, which a killed process left.
pub fn sweep_temporary_folders() {
    for dir in temporary_folders() {
        let abandoned = match Record::read(&dir) {
            Ok(record) => !record.is_running(),
            // A link points to a record, or to where one was.
            Err(_) if dir.is_symlink() => true,
            // Without a record, it may just be starting.
            Err(_) => age(&dir).is_some_and(|age| age > STARTS_WITHIN),
        };
        if abandoned {
            // Another sandbox may be sweeping too; anything left is swept next time. For a link, only the link is
            // removed.
            let _ = fs::remove_dir_all(&dir);
        }
    }
}

fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// Puts a fresh data folder at `data`, unless there is one from an earlier run.
pub fn create_data_folder(program: &Program, data: &Path) -> anyhow::Result<()> {
    if data.join("mysql").is_dir() {
        return Ok(());
    }
    let template = template(program)?;
    copy_folder(&template, data)
        .with_context(|| format!("cannot copy {} to {}", template.display(), data.display()))
}

/// The template of this server version, created by the first process that needs it.
fn template(program: &Program) -> anyhow::Result<PathBuf> {
    let family = match program.flavour {
        Flavour::MariaDb => "mariadb",
        Flavour::MySql => "mysql",
    };
    let folder = cache_folder().join(format!("{family}-{}", program.version));
    let data = folder.join("data");
    if data.is_dir() {
        return Ok(data);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if !data.is_dir() {
        let unfinished = folder.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        initialise(program, &unfinished, &folder.join("initialise.log"))?;
        fs::rename(&unfinished, &data)?;
    }
    Ok(data)
}

fn initialise(program: &Program, data: &Path, log: &Path) -> anyhow::Result<()> {
    let datadir = format!("--datadir={}", data.display());
    let mut command = match program.flavour {
        Flavour::MariaDb => {
            let mut command = Command::new(install_program(program)?);
            command.args(["--no-defaults", &datadir, "--auth-root-authentication-method=normal"]);
            command.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=32M"]);
            command
        }
        Flavour::MySql => {
            let mut command = Command::new(&program.path);
            command.args([
                "--no-defaults",
                &datadir,
                "--initialize-insecure",
                "--innodb-redo-log-capacity=64M",
            ]);
            command
        }
    };
    let output = File::create(log)?;
    command.args(run_as_root()).stdout(output.try_clone()?).stderr(output);
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("initialising a data folder failed:\n{}", last_lines(log));
    }
    // Copies must not share a server id: each server generates its own if it finds none.
    match fs::remove_file(data.join("auto.cnf")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// `mariadb-install-db`, next to the server or where packages install it.
fn install_program(program: &Program) -> anyhow::Result<PathBuf> {
    let beside = program.path.parent().into_iter().flat_map(|folder| {
        let prefix = folder.parent().unwrap_or(folder);
        [folder.to_owned(), prefix.join("bin"), prefix.join("scripts")]
    });
    let names = ["mariadb-install-db", "mysql_install_db"];
    beside
        .chain([PathBuf::from("/usr/bin")])
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
        .context("mariadb-install-db is missing; on Debian it is in the package mariadb-server")
}

/// The end of a log, for an error message.
pub fn last_lines(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn cache_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache
        .or_else(home)
        .map_or_else(|| temporary_root().with_extension("cache"), |cache| cache.join("narrows-sandbox"))
}

/// `count` ports on which nobody listens: from `base` upwards, or anywhere below the kernel's range for outgoing
/// connections.
pub fn free_ports(base: Option<u16>, count: u16) -> anyhow::Result<Vec<u16>> {
    if let Some(base) = base {
        let end = base.checked_add(count).context("the ports of the replicas would exceed 65535")?;
        return match (base..end).find(|&port| !is_free(port)) {
            Some(taken) => bail!("port {taken} is taken"),
            None => Ok((base..end).collect()),
        };
    }
    let mut ports = Vec::new();
    for _ in 0..10_000 {
        if ports.len() == usize::from(count) {
            return Ok(ports);
        }
        let port = 20_000 + (random() % 12_000) as u16;
        if !ports.contains(&port) && is_free(port) {
            ports.push(port);
        }
    }
    bail!("no free ports between 20000 and 32000")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A random number, good enough for names and ports: `RandomState` is seeded by the system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A sandbox writes its record within this time; it usually takes seconds.
const STARTS_WITHIN: Duration = Duration::from_secs(600);
