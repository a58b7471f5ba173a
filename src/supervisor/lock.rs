//! One Narrows per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};

/// Held for as long as the process lives: the kernel releases it, however the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, but never read")] Option<File>);

impl Lock {
    /// Takes the lock of `datadir`.
    ///
    /// # Errors
    /// If another process holds it.
    pub fn take(datadir: &Path) -> anyhow::Result<Lock> {
        let path = datadir.join("narrows.lock");
        let opened =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            // The databases cannot be written either, and the code that opens them has a better error message.
            Err(error)
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                return Ok(Lock(None));
            }
            Err(error) => return Err(error).with_context(|| format!("opening {}", path.display())),
        };
        let locked = file.try_lock();
        let mut pid = String::new();
        // Empty if the other process has only just started: then its id is unknown.
        let _ = file.read_to_string(&mut pid);
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{}: another Narrows uses this folder, process {}", path.display(), pid.trim());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        // After an upgrade the file already has this id, so that a disk that is full by now does not matter.
        let own = format!("{}\n", std::process::id());
        if pid != own {
            file.set_len(0)
                .and_then(|()| file.write_all_at(own.as_bytes(), 0))
                .context("writing the lock file")?;
        }
        Ok(Lock(Some(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_process_s_and_free_when_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        let refusal = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(
            refusal.ends_with(&format!("another Narrows uses this folder, process {}", std::process::id()))
        );
        drop(lock);
        Lock::take(folder.path()).unwrap();
    }
}
