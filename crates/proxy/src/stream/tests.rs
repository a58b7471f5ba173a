/// Tests that need a panic in the middle of a session send this comment: the panic happens when a statement with it has
/// been written to a server.
pub(crate) const PANIC: &[u8] = b"/* panic */";

pub(super) fn panic_on_demand(written: &[u8]) {
    if written.windows(PANIC.len()).any(|part| part == PANIC) {
        panic!("as the statement demands");
    }
}
