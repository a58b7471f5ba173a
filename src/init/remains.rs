//! What must not remain if the program ends early, by an error or by a signal: unfinished files, a temporary folder, a
//! process, and a terminal that shows nothing.
//!
//! Everything is created while the list is locked, so that a signal finds either nothing or something listed.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use narrows_proxy::rt;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, Termios, tcsetattr};

use crate::signals::{self, Signals};

#[derive(Default)]
struct Remains {
    paths: Vec<PathBuf>,
    process: Option<u32>,
    terminal: Option<Termios>,
}

static REMAINS: Mutex<Option<Remains>> = Mutex::new(None);

/// From now on a signal removes what remains before it ends the program. Must be called before there is a second thread.
///
/// # Errors
/// No thread.
pub fn removed_on_signals() -> anyhow::Result<()> {
    signals::block();
    let wait = || {
        let received = rt::block_on(async {
            match Signals::take() {
                Ok(signals) => signals.next().await,
                Err(_) => std::future::pending().await,
            }
        });
        if let Ok(received) = received {
            // The lock is held until the end, so that nothing new is created.
            let mut guard = lock();
            remove(guard.get_or_insert_default());
            received.die();
        }
    };
    std::thread::Builder::new().spawn(wait).context("starting a thread")?;
    Ok(())
}

fn lock() -> MutexGuard<'static, Option<Remains>> {
    REMAINS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(remains: &mut Remains) {
    if let Some(terminal) = remains.terminal.take() {
        restore(&terminal);
    }
    if let Some(pid) = remains.process.take().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // The child has not been waited for, so the number is still its own.
        let _ = kill_process(pid, Signal::KILL);
    }
    remains.paths.drain(..).for_each(|path| remove_path(&path));
}

fn remove_path(path: &Path) {
    // What cannot be removed is left to its owner.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

fn restore(terminal: &Termios) {
    // The terminal may be gone.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
    println!();
}

/// A file or a folder that is removed in the end.
#[derive(Debug)]
pub struct Passing(PathBuf);

impl Passing {
    /// Creates what is at `path` with `make`.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn create<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Passing, T)> {
        let mut guard = lock();
        let made = make(path)?;
        guard.get_or_insert_default().paths.push(path.to_owned());
        Ok((Passing(path.to_owned()), made))
    }

    /// Creates a folder in the system's temporary folder that only its owner can read.
    ///
    /// # Errors
    /// A temporary folder that cannot be written to.
    pub fn folder() -> anyhow::Result<Passing> {
        let place = std::env::temp_dir();
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let free = (0..100).find_map(|number| {
            let path = place.join(format!("{FOLDER}{}-{number}", std::process::id()));
            match Passing::create(&path, make) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made),
            }
        });
        let made = free.with_context(|| format!("{} is full of other folders", place.display()))?;
        let (folder, ()) = made.with_context(|| format!("creating a folder in {}", place.display()))?;
        guard_folder(folder.path())?;
        Ok(folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Renames it, or fails and leaves it; from then on it is no longer removed.
    ///
    /// # Errors
    /// Those of `rename`.
    pub fn keep(self, rename: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let guard = lock();
        let outcome = rename(&self.0);
        drop(guard);
        // If it was renamed, there is nothing left under this name.
        outcome
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let mut guard = lock();
        remove_path(&self.0);
        guard.get_or_insert_default().paths.retain(|path| *path != self.0);
    }
}

/// Starts a process that removes the folder when this program has ended, even if it is killed.
fn guard_folder(folder: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.arg("remove-at-end").arg(folder).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("starting the process that removes the temporary folder")?;
    // Its standard input ends with this program.
    std::mem::forget(child.stdin.take());
    Ok(())
}

/// Waits until the program that has started this one has ended, and removes the temporary folder that it may have left.
///
/// # Errors
/// It is not such a folder.
pub fn remove_at_end(folder: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    anyhow::ensure!(name.starts_with(FOLDER), "{} is not a folder of narrows init", folder.display());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // A process that writes to it may take a moment to end.
    for _ in 0..50 {
        remove_path(folder);
        if !folder.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What the names of temporary folders begin with.
const FOLDER: &str = "narrows-init-";

/// A process that is ended in the end. There is one at a time.
#[derive(Debug)]
pub struct PassingProcess(Child);

impl PassingProcess {
    /// Starts it. Must be called on the main thread: the kernel ties the child's life to the thread.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<PassingProcess> {
        let parent = rustix::process::getpid();
        let prepare = move || {
            // If this program is killed, nothing else ends the child.
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            match rustix::process::getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::Error::other("the parent has already ended")),
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and allocates at most the error that ends
        // the child.
        unsafe { command.pre_exec(prepare) };
        let mut guard = lock();
        let child = command.spawn()?;
        guard.get_or_insert_default().process = Some(child.id());
        Ok(PassingProcess(child))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for PassingProcess {
    fn drop(&mut self) {
        let ask = Pid::from_raw(self.0.id().cast_signed()).filter(|_| !self.has_ended());
        if let Some(pid) = ask {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + TIME_TO_END;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut guard = lock();
        // Both fail if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
        guard.get_or_insert_default().process = None;
    }
}

/// A terminal that does not show what is typed, until this is dropped.
#[derive(Debug)]
pub struct Hidden(());

impl Hidden {
    /// Stops showing what is typed.
    ///
    /// # Errors
    /// Standard input is no terminal.
    pub fn begin() -> io::Result<Hidden> {
        let mut guard = lock();
        let before = rustix::termios::tcgetattr(io::stdin())?;
        let mut without = before.clone();
        without.local_modes.remove(rustix::termios::LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &without)?;
        guard.get_or_insert_default().terminal = Some(before);
        Ok(Hidden(()))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(terminal) = lock().as_mut().and_then(|remains| remains.terminal.take()) {
            restore(&terminal);
        }
    }
}

/// How long a process has to end when it is asked to.
const TIME_TO_END: Duration = Duration::from_secs(3);
