//! Conversations with a server whose bytes are written out.

use super::*;
use crate::auth::caching_sha2;

const NONCE: Nonce = *b"aBcDeFgHiJkLmNoPqRsT";
const OTHER_NONCE: Nonce = *b"01234567890123456789";

fn exchange(announced: &str, secret: Secret, channel: Channel) -> (BackendExchange, FirstAnswer) {
    BackendExchange::new(&NONCE, announced.as_bytes(), secret, channel, true, [9; 20])
}

fn clear() -> Secret {
    Secret::clear(b"secret")
}

fn switch_to(plugin: &str) -> Vec<u8> {
    [b"\xFE", plugin.as_bytes(), b"\0", &OTHER_NONCE, b"\0"].concat()
}

#[test]
fn answers_natively_where_the_server_announces_nothing_we_would_answer_at_once() {
    for announced in ["mysql_native_password", "client_ed25519", "mysql_clear_password", ""] {
        let (_, first) = exchange(announced, clear(), Channel::Tls);
        let auth_response = native::scramble(b"secret", &NONCE);
        assert_eq!(first, FirstAnswer { plugin: "mysql_native_password", auth_response });
    }
}

#[test]
fn switch_is_answered_with_its_own_nonce() {
    let (mut exchange, _) = exchange("caching_sha2_password", clear(), Channel::Open);
    let step = exchange.feed(&switch_to("mysql_native_password"));
    assert_eq!(step, BackendStep::Send(native::scramble(b"secret", &OTHER_NONCE)));
    assert_eq!(exchange.nonce(), &OTHER_NONCE);
    assert_eq!(exchange.feed(&[0, 0, 0, 2, 0, 0, 0]), BackendStep::Ok);
}

#[test]
fn a_login_without_an_answer_fails_unless_the_server_asks() {
    let unanswered = || exchange("mysql_native_password", clear(), Channel::Unix).0.unanswered();
    let (mut asked, first) = unanswered();
    assert_eq!(first, FirstAnswer { plugin: "auth_socket", auth_response: Vec::new() });
    let step = asked.feed(&switch_to("mysql_native_password"));
    assert_eq!(step, BackendStep::Send(native::scramble(b"secret", &OTHER_NONCE)));
    assert_eq!(asked.feed(&[0, 0, 0, 2, 0, 0, 0]), BackendStep::Ok);
    let (mut never_asked, _) = unanswered();
    assert_eq!(never_asked.feed(&[0, 0, 0, 2, 0, 0, 0]), BackendStep::Failed(Failure::PasswordNotAsked));
}

#[test]
fn fast_path_waits_for_ok() {
    let (mut exchange, first) = exchange("caching_sha2_password", clear(), Channel::Open);
    assert_eq!(first.auth_response, caching_sha2::scramble(b"secret", &NONCE));
    assert_eq!(exchange.feed(&[1, 3]), BackendStep::Wait);
    assert_eq!(exchange.feed(&[0, 0, 0, 2, 0, 0, 0]), BackendStep::Ok);
}

#[test]
fn full_path_sends_the_password_over_a_secure_channel_only() {
    let (mut secure, _) = exchange("caching_sha2_password", clear(), Channel::Tls);
    assert_eq!(secure.feed(&[1, 4]), BackendStep::Send(b"secret\0".to_vec()));
    let (mut open, _) = exchange("caching_sha2_password", clear(), Channel::Open);
    assert_eq!(open.feed(&[1, 4]), BackendStep::Send(vec![2]));
    let step = open.feed(b"\x01no key at all");
    assert_eq!(step, BackendStep::Failed(Failure::PublicKey(Unusable::NotRsa)));
}

#[test]
fn clear_password_plugin_needs_a_secure_channel() {
    let request = b"\xFEmysql_clear_password\0";
    let (mut open, _) = exchange("mysql_native_password", clear(), Channel::Open);
    assert_eq!(open.feed(request), BackendStep::Failed(Failure::NeedsSecureChannel));
    let (mut unverified, _) = exchange("mysql_native_password", clear(), Channel::UnverifiedTls);
    assert_eq!(unverified.feed(request), BackendStep::Failed(Failure::NeedsVerifiedServer));
    let (mut secure, _) = exchange("mysql_native_password", clear(), Channel::Tls);
    assert_eq!(secure.feed(request), BackendStep::Send(b"secret\0".to_vec()));
}

#[test]
fn a_native_hash_answers_natively_and_nothing_else() {
    let secret = Secret::NativeStage1(native::stage1(b"secret").into());
    let (mut exchange, first) = exchange("caching_sha2_password", secret, Channel::Tls);
    assert_eq!(first.auth_response, native::scramble(b"secret", &NONCE));
    assert_eq!(
        exchange.feed(&switch_to("caching_sha2_password")),
        BackendStep::Failed(Failure::NeedsPassword("caching_sha2_password"))
    );
}

#[test]
fn a_refusal_of_the_server_ends_the_exchange() {
    let (mut exchange, _) = exchange("mysql_native_password", clear(), Channel::Open);
    assert_eq!(exchange.feed(b"\xFF\x15\x04#28000Access denied"), BackendStep::Failed(Failure::Server));
    assert!(matches!(exchange.feed(&[0]), BackendStep::Failed(Failure::Malformed(_))));
}

#[test]
fn a_server_that_makes_no_sense_is_left() {
    let senseless: [&[u8]; 6] =
        [b"", b"\x02", b"\x01", b"\x01\x04", b"\xFE", b"\xFEmysql_native_password\0short\0"];
    for payload in senseless {
        let (mut exchange, _) = exchange("mysql_native_password", clear(), Channel::Open);
        assert!(matches!(exchange.feed(payload), BackendStep::Failed(_)), "{payload:?}");
    }
    let (mut exchange, _) = exchange("mysql_native_password", clear(), Channel::Open);
    let steps: Vec<_> = (0..9).map(|_| exchange.feed(&switch_to("mysql_native_password"))).collect();
    assert!(matches!(steps.last(), Some(BackendStep::Failed(Failure::Malformed(_)))));
}

#[test]
fn an_unsupported_plugin_is_named() {
    let (mut exchange, _) = exchange("mysql_native_password", clear(), Channel::Open);
    let step = exchange.feed(&switch_to("sha256_password"));
    assert_eq!(step, BackendStep::Failed(Failure::UnsupportedPlugin("sha256_password".into())));
}

#[test]
fn signs_what_a_server_with_ed25519_sends() {
    let request = [&b"\xFEclient_ed25519\0"[..], &[7; 32]].concat();
    let (mut one, _) = exchange("mysql_native_password", clear(), Channel::Open);
    assert_eq!(
        one.feed(&request),
        BackendStep::Send(crate::auth::ed25519::sign(b"secret", &[7; 32]).to_vec())
    );
    let (mut short, _) = exchange("mysql_native_password", clear(), Channel::Open);
    assert!(matches!(short.feed(&request[..40]), BackendStep::Failed(Failure::Malformed(_))));
    let hash = Secret::NativeStage1(native::stage1(b"secret").into());
    let (mut hashed, _) = exchange("mysql_native_password", hash, Channel::Open);
    assert_eq!(hashed.feed(&request), BackendStep::Failed(Failure::NeedsPassword("client_ed25519")));
}

#[test]
fn a_key_is_asked_for_only_where_it_may_be() {
    let secret = clear();
    let (mut exchange, _) =
        BackendExchange::new(&NONCE, b"caching_sha2_password", secret, Channel::Open, false, [9; 20]);
    assert_eq!(exchange.feed(&[1, 4]), BackendStep::Failed(Failure::NeedsPublicKey));
}
