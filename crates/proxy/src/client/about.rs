//! A client's connection attributes (`program_name`, `_pid`, ...), as sent to servers.
//!
//! Servers show them in `performance_schema.session_connect_attrs`. A shared connection has the attributes of the
//! client for which it was opened or, after a `COM_CHANGE_USER`, logged in again.

use std::sync::{Arc, OnceLock};

use narrows_wire::handshake::ConnectAttributes;

/// The attributes that servers receive for a client that has sent `attributes`: Narrows' own first, because servers
/// truncate at the end; then those of the client, as long as they fit. Pairs without a name, pairs that are not UTF-8,
/// and everything after a pair that cannot be parsed are left out: the server could not parse them either, or might see
/// different pairs.
pub fn about(attributes: &ConnectAttributes) -> Arc<ConnectAttributes> {
    if attributes.is_empty() {
        return nobody();
    }
    let mut about = ConnectAttributes::default();
    for (name, value) in PROXY {
        about.push(name, value);
    }
    if !attributes.iter().any(|(name, _)| name == PROGRAM_NAME.0) {
        about.push(PROGRAM_NAME.0, PROGRAM_NAME.1);
    }
    let is_ours = |name: &[u8]| PROXY.iter().any(|(ours, _)| *ours == name);
    for (name, value) in attributes.iter().filter(|(name, _)| !name.is_empty() && !is_ours(name)) {
        let is_text = str::from_utf8(name).is_ok() && str::from_utf8(value).is_ok();
        // A pair has two lengths of at most three bytes each: no pair that fits here has longer ones.
        if is_text && about.len() + name.len() + value.len() + 6 <= MOST {
            about.push(name, value);
        }
    }
    Arc::new(about)
}

/// The attributes of Narrows' own connections, and of clients without attributes.
pub fn nobody() -> Arc<ConnectAttributes> {
    static NOBODY: OnceLock<Arc<ConnectAttributes>> = OnceLock::new();
    let make = || {
        let mut about = ConnectAttributes::default();
        for (name, value) in PROXY.into_iter().chain([PROGRAM_NAME]) {
            about.push(name, value);
        }
        Arc::new(about)
    };
    Arc::clone(NOBODY.get_or_init(make))
}

/// Narrows' own attributes, which override the client's values for these names.
const PROXY: [(&[u8], &[u8]); 2] =
    [(b"_proxy_name", b"narrows"), (b"_proxy_version", env!("CARGO_PKG_VERSION").as_bytes())];

/// The program name if the client does not send one.
const PROGRAM_NAME: (&[u8], &[u8]) = (b"program_name", b"narrows");

/// The maximum size in bytes of one client's attributes: eight times what MySQL keeps per session by default
/// (`performance_schema_session_connect_attrs_size`).
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&[u8], &[u8])]) -> Vec<(String, String)> {
        let mut attributes = ConnectAttributes::default();
        for (name, value) in pairs {
            assert!(attributes.push(name, value));
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("only text is passed on");
        about(&attributes).iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn names(pairs: &[(&[u8], &[u8])]) -> Vec<String> {
        told(pairs).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_client_is_named_after_narrows() {
        let pairs = told(&[(b"program_name", b"shop"), (b"_pid", b"17")]);
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let version = env!("CARGO_PKG_VERSION");
        let wanted = [
            ("_proxy_name", "narrows"),
            ("_proxy_version", version),
            ("program_name", "shop"),
            ("_pid", "17"),
        ];
        assert_eq!(pairs, wanted);
    }

    #[test]
    fn narrows_stands_in_for_a_program_without_a_name() {
        assert_eq!(names(&[]), ["_proxy_name", "_proxy_version", "program_name"]);
        assert_eq!(names(&[(b"_pid", b"17")]), ["_proxy_name", "_proxy_version", "program_name", "_pid"]);
    }

    #[test]
    fn a_client_does_not_speak_for_narrows() {
        let pairs = told(&[(b"_proxy_name", b"another"), (b"program_name", b"shop")]);
        assert_eq!(pairs.iter().filter(|(name, _)| name == "_proxy_name").count(), 1);
        assert_eq!(pairs[0].1, "narrows");
    }

    #[test]
    fn what_is_no_text_or_has_no_name_is_left_out() {
        let pairs: [(&[u8], &[u8]); 4] = [(b"", b"a"), (b"b", b"\xFF"), (b"\xFF", b"c"), (b"d", b"")];
        assert_eq!(names(&pairs)[3..], ["d"]);
    }

    #[test]
    fn what_a_session_keeps_is_bounded() {
        let long = [b'x'; 5000];
        let pairs: [(&[u8], &[u8]); 3] = [(b"a", &long[..4000]), (b"b", &long), (b"c", b"short")];
        assert_eq!(names(&pairs)[3..], ["a", "c"]);
        let many: Vec<_> = std::iter::repeat_n((&b"name"[..], &b"value"[..]), 5000).collect();
        assert!(names(&many).len() < MOST / 11);
    }
}
