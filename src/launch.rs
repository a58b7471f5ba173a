//! What a serving process must know before it reads anything: from the command line, and from the top of the
//! configuration file.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use narrows_control::config::bootstrap::FleetSettings;
use narrows_control::config_file::{self, LoadedFile};
use narrows_control::control::Monitoring;
use narrows_control::store::{Opening, Start};
use serde::{Deserialize, Serialize};

use crate::flags::Run;
use crate::log::Log;

/// What to serve, from which files, and how to end. The supervisor passes it to each of its worker processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launch {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Folder for everything that is written.
    pub datadir: PathBuf,
    /// Whether neither a flag nor the file names the folder.
    #[serde(skip)]
    is_default: bool,
    /// Log file; `None`: standard error.
    pub log: Option<PathBuf>,
    /// Whether the log is JSON.
    #[serde(default)]
    log_is_json: bool,
    /// File that holds the process id.
    pub pidfile: Option<PathBuf>,
    /// Whether the stored configuration is set aside.
    pub initial: bool,
    /// Whether the file is merged over the stored configuration.
    pub reload: bool,
    uuid: Option<String>,
    no_monitor: bool,
    drain_timeout_s: u32,
    /// How many heartbeats a worker process may miss; 0: any number.
    #[serde(default)]
    pub missing_heartbeats: u32,
    #[serde(default)]
    fleet: Option<FleetSettings>,
    /// Remarks on the top of the file, to be logged once there is a log.
    #[serde(skip)]
    pub remarks: Vec<String>,
}

impl Launch {
    /// Reads `flags` and the top of the file.
    ///
    /// # Errors
    /// A configuration that cannot be started.
    pub fn read(flags: &Run) -> anyhow::Result<Launch> {
        let file = flags.config.clone().or_else(config_file::find);
        let loaded = match &file {
            Some(path) => load(path)?,
            None => LoadedFile::default(),
        };
        let remarks = loaded.at_the_top_without_effect().map(ToString::to_string).collect();
        let mut bootstrap = loaded.bootstrap;
        let datadir = flags.datadir.clone().or(bootstrap.datadir);
        let is_default = datadir.is_none();
        let datadir = datadir.unwrap_or_else(|| default_datadir(file.as_deref()));
        bootstrap.datadir = Some(datadir.clone());
        let mut fleet = bootstrap.fleet.take();
        for (_, file) in fleet.iter_mut().flat_map(FleetSettings::files) {
            *file = file.take().map(|path| bootstrap.resolve(&path));
        }
        let errorlog = bootstrap.errorlog.as_ref().filter(|_| !flags.foreground);
        Ok(Launch {
            log: errorlog.map(|path| bootstrap.resolve(path)),
            log_is_json: bootstrap.log_is_json,
            pidfile: bootstrap.pidfile.as_ref().map(|path| bootstrap.resolve(path)),
            datadir,
            is_default,
            file,
            initial: flags.start() == Start::Initial,
            reload: flags.start() == Start::Reload,
            uuid: flags.uuid.clone().or(bootstrap.uuid),
            no_monitor: flags.no_monitor,
            drain_timeout_s: bootstrap.drain_timeout,
            missing_heartbeats: bootstrap.restart_on_missing_heartbeats,
            fleet,
            remarks,
        })
    }

    /// Opens the log.
    ///
    /// # Errors
    /// See [`Log::open`].
    pub fn open_log(&self) -> anyhow::Result<Log> {
        Log::open(self.log.as_deref(), self.log_is_json)
    }

    /// Makes sure that the data folder exists. The default one is created; a configured one that does not exist may be
    /// a typing error.
    ///
    /// # Errors
    /// A folder that does not exist, or that cannot be created.
    pub fn make_datadir(&self) -> anyhow::Result<()> {
        let datadir = self.datadir.display();
        if self.is_default {
            return self.make_new_datadir();
        }
        ensure!(
            self.datadir.is_dir(),
            "the data folder {datadir} does not exist: create it with mkdir -p -m 700 {datadir}"
        );
        Ok(())
    }

    /// Creates the data folder, readable for its owner only, if it does not exist.
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn make_new_datadir(&self) -> anyhow::Result<()> {
        let create = DirBuilder::new().recursive(true).mode(0o700).create(&self.datadir);
        create.with_context(|| format!("creating the data folder {}", self.datadir.display()))
    }

    /// The options for a later process: flags that set the stored configuration aside have already been applied.
    pub fn again(&self) -> Launch {
        Launch { initial: false, reload: false, ..self.clone() }
    }

    /// Options for opening the store.
    pub fn opening(&self) -> Opening<'_> {
        let start = match (self.initial, self.reload) {
            (true, _) => Start::Initial,
            (_, true) => Start::Reload,
            _ => Start::Usual,
        };
        Opening { datadir: &self.datadir, file: self.file.as_deref(), start, uuid: self.uuid.as_deref() }
    }

    /// Whether servers are monitored.
    pub fn monitoring(&self) -> Monitoring {
        if self.no_monitor { Monitoring::Off } else { Monitoring::On }
    }

    /// The fleet that this Narrows belongs to.
    pub fn fleet(&self) -> Option<FleetSettings> {
        self.fleet.clone()
    }

    /// The time that clients have to disconnect.
    pub fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout_s.into())
    }
}

/// The data folder if none is configured: the package's for the package's configuration file, otherwise a folder in the
/// current directory.
fn default_datadir(file: Option<&Path>) -> PathBuf {
    let is_packaged = file.is_some_and(|file| file.starts_with("/etc/narrows"));
    PathBuf::from(if is_packaged { "/var/lib/narrows" } else { "narrows-data" })
}

/// Reads a whole configuration file.
///
/// # Errors
/// All errors in the file.
pub fn load(path: &Path) -> anyhow::Result<LoadedFile> {
    config_file::load(path).map_err(|diagnostics| {
        let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the configuration cannot be started\n{}", lines.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datadir(file: Option<&str>) -> PathBuf {
        default_datadir(file.map(Path::new))
    }

    #[test]
    fn the_data_folder_is_that_of_the_package_or_one_of_its_own() {
        assert_eq!(datadir(Some("/etc/narrows/narrows.toml")), Path::new("/var/lib/narrows"));
        for file in [None, Some("narrows.toml"), Some("/etc/proxysql.cnf"), Some("/etc/narrows.toml")] {
            assert_eq!(datadir(file), Path::new("narrows-data"), "{file:?}");
        }
    }
}
