//! Files that are replaced as a whole: a reader finds either the old or the new content, never a part, even if the disk
//! is full or the machine crashes. And marks of files, by which a change is noticed.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Replaces the content of `path` by `content`. An existing file keeps its mode and owner, a new one gets `mode`; for a
/// symbolic link, its target is replaced.
///
/// # Errors
/// The file system's error; the old content is then unchanged.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        // A pipe or a terminal has no content to lose. One that nobody reads is an error, since a wait would have no end.
        return OpenOptions::new().write(true).custom_flags(NONBLOCK).open(&path)?.write_all(content);
    }
    let beside = beside(&path)?;
    let written = write(&beside, content, mode).and_then(|()| {
        if let Some(before) = before {
            // Only root may change the owner of a file; otherwise the mode decides who can read it.
            let _ = chown(&beside, Some(before.uid()), Some(before.gid()));
            fs::set_permissions(&beside, fs::Permissions::from_mode(before.mode() & 0o7777))?;
        }
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written?;
    // The name is on disk once its folder is synced. If the folder cannot be opened for reading, nothing more can be
    // done.
    match path.parent().map(fs::File::open) {
        Some(Ok(folder)) => folder.sync_all(),
        _ => Ok(()),
    }
}

/// What a file has. A pipe or a device, which could keep the reader waiting, is none, and neither is one that is longer than
/// `most_bytes`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn read_small(path: &Path, most_bytes: usize) -> Result<Vec<u8>, String> {
    let in_words = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).map_err(in_words)?;
    if !file.metadata().map_err(in_words)?.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::with_capacity(most_bytes + 1);
    file.take(most_bytes as u64 + 1).read_to_end(&mut bytes).map_err(in_words)?;
    if bytes.len() <= most_bytes { Ok(bytes) } else { Err(format!("has more than {most_bytes} bytes")) }
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// `O_NONBLOCK` of Linux on all processors but MIPS, Alpha, PA-RISC and SPARC; see open(2).
const NONBLOCK: i32 = 0o4000;

/// A name in the same folder that is unique to this process.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(beside))
}

/// What tells whether a file is another one than before: also if a link on the way to it leads elsewhere, as in the mounted
/// folders of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileMark {
    /// The mark of the file or folder at `path`; `None` if there is none.
    pub fn of(path: &Path) -> Option<FileMark> {
        let found = fs::metadata(path).ok()?;
        Some(FileMark {
            place: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_gets_the_mode_and_one_that_is_there_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, b"one", 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two", 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o640));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&path, "one").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"two", 0o600).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn what_cannot_be_replaced_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(replace(&folder.path().join("missing").join("a"), b"x", 0o600).is_err());
        fs::write(&path, "one").unwrap();
        // The name of the new file is taken by a folder.
        fs::create_dir(beside(&path).unwrap()).unwrap();
        assert!(replace(&path, b"two", 0o600).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }
}
