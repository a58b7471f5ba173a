//! The thread that notices when files change: those that passwords are in, and those of keys and certificates. It also runs
//! the programs that passwords come from again.
//!
//! A file counts as changed when it has been the same for one [`PAUSE`]: a file that is still being written is not read. A
//! look costs one `stat`, and follows links, so the exchange of the folder that Kubernetes mounts is noticed too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::read;
use super::reference::Reference;
use crate::files::FileMark;

/// The time between two looks at a file.
const PAUSE: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// The references of passwords.
    pub references: Vec<String>,
    /// The time between two runs of a program; `None`: it is not run again.
    pub interval: Option<Duration>,
    /// The files of keys and certificates, as they were when they were read.
    pub keys: Vec<(PathBuf, Option<FileMark>)>,
}

/// What has changed.
pub struct Renewal {
    /// References, each with its value or the reason why there is none.
    pub secrets: Vec<(String, Result<Zeroizing<String>, String>)>,
    /// Whether a file of keys and certificates is another one.
    pub has_other_keys: bool,
    /// Receives a message when this has been processed; the thread waits for it, so no more than one renewal exists.
    pub taken: Sender<()>,
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").field("has_other_keys", &self.has_other_keys).finish_non_exhaustive()
    }
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SecretWatch {
    orders: Sender<Followed>,
}

impl SecretWatch {
    /// Starts the thread; it reports to `control`.
    ///
    /// # Errors
    /// If there are no more threads.
    pub fn start<M: From<Renewal> + Send + 'static>(control: Sender<M>) -> io::Result<SecretWatch> {
        let (orders, received) = channel();
        let send = move |renewal: Renewal| control.send(renewal.into()).is_ok();
        std::thread::Builder::new().name("secrets".to_owned()).spawn(move || run(&received, send))?;
        Ok(SecretWatch { orders })
    }

    /// Watches this from now on, and nothing else.
    pub fn follow(&self, followed: Followed) {
        // A thread that has ended watches nothing.
        let _ = self.orders.send(followed);
    }
}

fn run(orders: &Receiver<Followed>, send: impl Fn(Renewal) -> bool) {
    let mut watched = Watched::default();
    loop {
        match orders.recv_timeout(PAUSE) {
            Ok(followed) => watched.follow(followed, Instant::now()),
            Err(RecvTimeoutError::Timeout) => {
                let has_other_keys = watched.look_at_keys();
                let secrets = watched.look_at_secrets(Instant::now());
                if secrets.is_empty() && !has_other_keys {
                    continue;
                }
                let (taken, processed) = channel();
                if !send(Renewal { secrets, has_other_keys, taken }) {
                    return;
                }
                // It is dropped with the control thread.
                let _ = processed.recv();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What the thread knows.
#[derive(Default)]
struct Watched {
    /// The references to files, with what was seen there.
    files: BTreeMap<String, Seen>,
    /// The references to programs, with the time of the next run.
    programs: BTreeMap<String, Instant>,
    /// The programs that failed when they were last run.
    failed: HashSet<String>,
    interval: Option<Duration>,
    keys: HashMap<PathBuf, Seen>,
}

/// The marks of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Of the file that was read last; `None`: none has been.
    read: Option<Option<FileMark>>,
    /// Of the last look.
    last: Option<FileMark>,
}

impl Seen {
    /// Whether the file has changed and stays as it is now.
    fn has_changed(&mut self, now: Option<FileMark>) -> bool {
        let is_settled = self.last == now;
        self.last = now;
        let has_changed = is_settled && self.read != Some(now);
        if has_changed {
            self.read = Some(now);
        }
        has_changed
    }
}

impl Watched {
    fn follow(&mut self, followed: Followed, now: Instant) {
        let Followed { references, interval, keys } = followed;
        let (files, programs) = (std::mem::take(&mut self.files), std::mem::take(&mut self.programs));
        for reference in references {
            match Reference::parse(&reference) {
                Some(Ok(Reference::File(path))) => {
                    // It may have changed since it was read: it is read once more.
                    let new = || Seen { read: None, last: FileMark::of(path) };
                    let seen = files.get(&reference).copied().unwrap_or_else(new);
                    self.files.insert(reference, seen);
                }
                Some(Ok(Reference::Program(_))) => {
                    let known = programs.get(&reference).copied().filter(|_| self.interval == interval);
                    if let Some(due) = known.or_else(|| Some(now + interval?)) {
                        self.programs.insert(reference, due);
                    }
                }
                _ => {}
            }
        }
        self.interval = interval;
        let seen = |(path, mark): (PathBuf, Option<FileMark>)| (path, Seen { read: Some(mark), last: mark });
        self.keys = keys.into_iter().map(seen).collect();
    }

    fn look_at_keys(&mut self) -> bool {
        let changed = self.keys.iter_mut().filter_map(|(path, seen)| {
            let now = FileMark::of(path);
            seen.has_changed(now).then_some(())
        });
        changed.count() > 0
    }

    /// The passwords whose files have changed, and those whose programs were due.
    fn look_at_secrets(&mut self, now: Instant) -> Vec<(String, Result<Zeroizing<String>, String>)> {
        let mut found = Vec::new();
        for (reference, seen) in &mut self.files {
            let Some(Ok(Reference::File(path))) = Reference::parse(reference) else { continue };
            if seen.has_changed(FileMark::of(path)) {
                found.push((reference.clone(), read::read(reference)));
            }
        }
        let due: Vec<&str> =
            self.programs.iter().filter(|(_, due)| **due <= now).map(|(text, _)| text.as_str()).collect();
        let results: Vec<_> = due.iter().map(|text| (*text).to_owned()).zip(read::all(&due)).collect();
        for (reference, result) in results {
            if let (Some(due), Some(interval)) = (self.programs.get_mut(&reference), self.interval) {
                *due = now + interval;
            }
            // That a program still fails has been said.
            let is_news = match &result {
                Ok(_) => {
                    self.failed.remove(&reference);
                    true
                }
                Err(_) => self.failed.insert(reference.clone()),
            };
            if is_news {
                found.push((reference, result));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn values(found: Vec<(String, Result<Zeroizing<String>, String>)>) -> Vec<Result<String, String>> {
        found.into_iter().map(|(_, value)| value.map(|value| value.to_string())).collect()
    }

    fn watched(references: &[String], interval: Option<Duration>) -> Watched {
        let mut watched = Watched::default();
        let references = references.to_vec();
        watched.follow(Followed { references, interval, keys: Vec::new() }, Instant::now());
        watched
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "one\n").unwrap();
        let mut watched = watched(&[format!("file:{}", path.display())], None);
        let mut look = || values(watched.look_at_secrets(Instant::now()));
        assert_eq!(look(), [Ok("one".to_owned())], "it is read once more after it was read by a LOAD");
        assert!(look().is_empty());
        fs::write(&path, "half").unwrap();
        assert!(look().is_empty(), "it may still be written");
        fs::write(&path, "half and half").unwrap();
        assert!(look().is_empty());
        assert_eq!(look(), [Ok("half and half".to_owned())]);
        fs::remove_file(&path).unwrap();
        assert!(look().is_empty());
        assert!(look()[0].as_ref().is_err_and(|why| why.ends_with("is not there")));
        assert!(look().is_empty(), "it is said once");
    }

    #[test]
    fn the_exchange_of_a_mounted_folder_is_a_change_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, password) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("password"), password).unwrap();
        }
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, at("new")).unwrap();
            fs::rename(at("new"), at(name)).unwrap();
        };
        link("..1", "..data");
        link("..data/password", "password");
        let mut watched = watched(&[format!("file:{}", at("password").display())], None);
        let mut look = || values(watched.look_at_secrets(Instant::now()));
        assert_eq!(look(), [Ok("one".to_owned())]);
        link("..2", "..data");
        assert!(look().is_empty());
        assert_eq!(look(), [Ok("two".to_owned())]);
    }

    #[test]
    fn a_program_runs_again_at_its_interval_and_a_failure_is_said_once() {
        let interval = Duration::from_secs(60);
        let mut watched = watched(&["exec:/bin/false".to_owned()], Some(interval));
        let mut look = |later: Duration| values(watched.look_at_secrets(Instant::now() + later));
        assert!(look(Duration::ZERO).is_empty());
        assert_eq!(look(interval * 2).len(), 1);
        assert!(look(interval * 3).is_empty() && look(interval * 6).is_empty());
    }

    #[test]
    fn keys_are_compared_with_those_that_were_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "one").unwrap();
        let mut watched = Watched::default();
        let keys = vec![(path.clone(), FileMark::of(&path))];
        watched.follow(Followed { keys, ..Followed::default() }, Instant::now());
        assert!(!watched.look_at_keys());
        fs::write(&path, "another").unwrap();
        assert!(!watched.look_at_keys());
        assert!(watched.look_at_keys());
        assert!(!watched.look_at_keys());
    }
}
