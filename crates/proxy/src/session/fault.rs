//! Faults for tests: a panic, an abort, or a thread that hangs, while a statement holds a backend connection. Only in debug
//! builds, and only if `NARROWS_INJECT_PANIC` is set when Narrows starts. And a session that misses an effect of its statements:
//! `NARROWS_INJECT_FORGET` names a variable, or is `schema`.

/// When the fault happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    /// The statement has its connection, and is not sent yet.
    Before,
    /// The answer has arrived, and its effects are not applied yet.
    After,
}

/// Causes the fault that the statement asks for.
#[cfg(debug_assertions)]
pub(super) fn inject(moment: Moment, text: &[u8]) {
    use std::sync::OnceLock;
    static IS_WANTED: OnceLock<bool> = OnceLock::new();
    if !IS_WANTED.get_or_init(|| std::env::var_os("NARROWS_INJECT_PANIC").is_some()) {
        return;
    }
    if text.ends_with(b"/* abort */") {
        std::process::abort();
    }
    while text.ends_with(b"/* hang */") {
        std::thread::park();
    }
    let word: &[u8] = match moment {
        Moment::Before => b"/* panic before */",
        Moment::After => b"/* panic after */",
    };
    assert!(!text.ends_with(word), "injected by a test");
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub(super) fn inject(_: Moment, _: &[u8]) {}

/// Removes the changes of a session that the fault is to hide.
#[cfg(debug_assertions)]
pub(super) fn forget(changes: &mut Vec<super::effects::Change<'_>>) {
    use std::sync::OnceLock;
    static FORGOTTEN: OnceLock<Option<String>> = OnceLock::new();
    if let Some(name) = FORGOTTEN.get_or_init(|| std::env::var("NARROWS_INJECT_FORGET").ok()) {
        changes.retain(|change| !change.is_about(name));
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub(super) fn forget(_: &mut Vec<super::effects::Change<'_>>) {}
