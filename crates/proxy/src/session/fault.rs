//! A fault that tests ask for: a panic, an abort, or a thread that hangs, while a statement holds a backend connection. Debug
//! builds only, and only where `NARROWS_INJECT_PANIC` is set when Narrows starts.

/// When the panic comes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    /// The statement has its connection, and is not sent yet.
    Before,
    /// The answer has come; what it did is not taken note of yet.
    Behind,
}

/// Panics where the statement says so.
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
        Moment::Behind => b"/* panic behind */",
    };
    assert!(!text.ends_with(word), "injected by a test");
}

/// A release has no faults but its own.
#[cfg(not(debug_assertions))]
pub(super) fn inject(_: Moment, _: &[u8]) {}
