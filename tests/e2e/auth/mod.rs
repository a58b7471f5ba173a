//! Who can log in, how, and what is visible of it: plugins, TLS, certificates, the PROXY protocol, compression.

mod about;
mod accounts;
mod collations;
mod compression;
mod flood;
mod kept_elsewhere;
mod marks;
pub(crate) mod matrix;
mod plugins;
mod proxy_protocol;
mod renewal;
mod secrets;
mod tls;

/// The password of these tests' accounts.
const PASSWORD: &str = "a secret of tests";

/// Its stored forms: as returned by MariaDB's PASSWORD(), and as MySQL stores it for `caching_sha2_password` (with a
/// salt of letters; those of servers contain any bytes).
const NATIVE_HASH: &str = "*A9256F0627DBE2B8439A2522EBA39624FD8A55B1";
const SHA2_HASH: &str = "$A$005$narrowsnarrowsnarrowHnFFdbbRY7cNOXHEUEDfTIxhepdyvocc5jnQAKLTUr2";
