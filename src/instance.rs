//! The options that name a Narrows: by its configuration file, or by its data folder.

use std::path::PathBuf;

use narrows_control::store::Listening;

use crate::flags::Run;
use crate::launch::{Launch, load};

/// Which running Narrows is meant.
#[derive(Debug, clap::Args)]
pub struct Instance {
    /// Its configuration file
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Its data folder; overrides `datadir` in the file
    #[arg(short = 'D', short_alias = 'd', long, alias = "directory", value_name = "DIR")]
    datadir: Option<PathBuf>,
}

impl Instance {
    /// Its data folder, determined in the same way as when it was started.
    ///
    /// # Errors
    /// A configuration that cannot be started.
    pub fn datadir(self) -> anyhow::Result<PathBuf> {
        match self.datadir {
            Some(datadir) => Ok(datadir),
            None => Ok(self.launch()?.datadir),
        }
    }

    /// The data folder of a Narrows that has not been started yet.
    ///
    /// # Errors
    /// A configuration that cannot be started; a folder that cannot be created.
    pub fn new_datadir(self) -> anyhow::Result<PathBuf> {
        let launch = self.launch()?;
        launch.make_new_datadir()?;
        Ok(launch.datadir)
    }

    /// Where it listens: what is saved in its data folder, or in its file if nothing is saved yet.
    ///
    /// # Errors
    /// A configuration that cannot be started; a database that cannot be read.
    pub fn listening(self) -> anyhow::Result<Listening> {
        let launch = self.launch()?;
        let file = launch.file.as_deref().map(load).transpose()?;
        Ok(Listening::read(&launch.datadir, &file.unwrap_or_default().variables)?)
    }

    fn launch(self) -> anyhow::Result<Launch> {
        Launch::read(&Run { config: self.config, datadir: self.datadir, ..Run::default() })
    }
}
