//! The file to write: nothing but the whole text ever has its name.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::remains::Passing;

/// The file to write.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Its path.
    pub path: PathBuf,
    /// Whether it may replace a file.
    pub replaces: bool,
}

impl Destination {
    /// Makes sure that the file can be written.
    ///
    /// # Errors
    /// It exists, or its folder does not.
    pub fn check(&self) -> anyhow::Result<()> {
        let path = self.path.display();
        match self.path.symlink_metadata() {
            Ok(found) if found.is_dir() => bail!("{path} is a folder: name a file with --output"),
            Ok(found) if !found.is_file() => {
                bail!("{path} is not a regular file: name another one with --output")
            }
            Ok(_) if !self.replaces => {
                bail!("{path} exists: give another name with --output, or --force to replace it")
            }
            _ => {}
        }
        let folder = self.folder();
        if !folder.is_dir() {
            bail!("there is no folder {}: create it, or give another file with --output", folder.display());
        }
        Ok(())
    }

    /// Writes the file, readable for its owner only.
    ///
    /// # Errors
    /// A folder that cannot be written to; a file that has appeared in the meantime. No part of the file remains.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.path.display();
        let name = self.path.file_name().with_context(|| format!("{path} is not the name of a file"))?;
        let beside = format!(".{}.{}.new", name.to_string_lossy(), std::process::id());
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written =
            Passing::create(&self.folder().join(beside), create).and_then(|(unfinished, mut file)| {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                unfinished.keep(|unfinished| self.rename(unfinished))?;
                // The name is durable when the folder is.
                File::open(self.folder())?.sync_all()
            });
        match written {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{path} has been created in the meantime: give another name with --output")
            }
            written => written.with_context(|| format!("{path} cannot be written")),
        }
    }

    fn rename(&self, unfinished: &Path) -> io::Result<()> {
        if self.replaces {
            return std::fs::rename(unfinished, &self.path);
        }
        match renameat_with(CWD, unfinished, CWD, &self.path, RenameFlags::NOREPLACE) {
            // A file system without this kind of renaming; the name was free a moment ago.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !self.path.exists() => {
                std::fs::rename(unfinished, &self.path)
            }
            outcome => Ok(outcome?),
        }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_written_whole_and_replaced_only_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("narrows.toml");
        let mut destination = Destination { path: path.clone(), replaces: false };
        destination.check().expect("nothing is there");
        destination.write("one").expect("written");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert!(destination.check().is_err() && destination.write("two").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "one");
        destination.replaces = true;
        let device = Destination { path: "/dev/null".into(), replaces: true };
        assert!(device.check().is_err());
        destination.check().expect("it may be replaced");
        destination.write("two").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "two");
        let left = std::fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(left, 1, "no unfinished file is left");
    }
}
