/// A test that needs a panic in the middle of a session has this sent: it happens when a statement with this
/// comment has been written to a server.
pub(crate) const PANIC: &[u8] = b"/* panic */";

pub(super) fn panic_on_demand(written: &[u8]) {
    if written.windows(PANIC.len()).any(|part| part == PANIC) {
        panic!("as the statement demands");
    }
}
