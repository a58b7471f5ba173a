//! Where keys come from: how often they are fetched, what a new one takes, and what happens if they do not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{Login, RawClient, TokenKey, WebReply, jwk_set, wait_until};

use super::{Stand, claims, configured, row, user_at};

#[test]
fn ten_thousand_logins_with_one_token_fetch_the_keys_once() {
    let stand = Stand::of("tok_many");
    let token = stand.good("tok_many");
    for _ in 0..500 {
        stand.log_in("tok_many", &token).expect("a good token");
    }
    let mut client = stand.log_in("tok_many", &token).expect("a good token");
    for _ in 0..9_500 {
        client.change_user(&Login::new("tok_many", &token)).expect("a good token");
    }
    assert_eq!(stand.figure("accepted"), "10001");
    assert_eq!(stand.issuer.requests(), 1);
}

#[test]
fn a_new_key_is_used_at_once_and_no_login_fails() {
    let stand = Stand::of("tok_rotated");
    let (user, new) = ("tok_rotated", TokenKey::p256("two"));
    let is_over = Arc::new(AtomicBool::new(false));
    let logins = Arc::new(AtomicUsize::new(0));
    let old = stand.good(user);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    stand.log_in(user, &old).expect("the old key is still there");
                    logins.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        wait_until("clients log in", || logins.load(Ordering::SeqCst) > 20);
        let both = jwk_set(&[&stand.key, &new]);
        stand.issuer.answer(move |_| WebReply::Answer(200, both.clone()));
        let mut client =
            stand.log_in(user, &new.token(&claims(user, ""))).expect("the login waits for the key");
        assert_eq!(user_at(&mut client), "tok_rotated@%");
        let more = logins.load(Ordering::SeqCst) + 20;
        wait_until("clients log in", || logins.load(Ordering::SeqCst) > more);
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!((stand.figure("refused"), stand.issuer.requests()), ("0".to_owned(), 2));
}

#[test]
fn a_key_that_is_not_in_the_next_set_is_taken_back_at_once() {
    let stand = Stand::of("tok_back");
    let (user, new) = ("tok_back", TokenKey::p256("two"));
    let mut session = stand.log_in(user, &stand.good(user)).expect("the only key");
    let keys = jwk_set(&[&new]);
    stand.issuer.answer(move |_| WebReply::Answer(200, keys.clone()));
    stand.log_in(user, &new.token(&claims(user, ""))).expect("the login makes it fetch the keys");
    assert_eq!(stand.issuer.requests(), 2);
    assert_eq!(stand.refused(user, &stand.good(user)).code, 1045);
    stand.narrows.wait_for_log(0, |line| line.contains("unknown key: "));
    assert_eq!(user_at(&mut session), "tok_back@%", "who is logged in stays");
    // The issuer was asked for the key before that was said.
    assert_eq!((stand.issuer.requests(), stand.figure("public_keys")), (3, "1".to_owned()));
}

#[test]
fn strangers_with_unknown_keys_do_not_make_it_ask_for_each() {
    let stand = Stand::of("tok_strangers");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let forged = TokenKey::p256(&format!("k{number}")).token(&claims("tok_strangers", ""));
            let stand = &stand;
            scope.spawn(move || assert_eq!(stand.refused("tok_strangers", &forged).code, 1045));
        }
    });
    let most = 2 + began.elapsed().as_secs() as usize / 3;
    assert!(stand.issuer.requests() <= most, "{} requests", stand.issuer.requests());
    assert!(stand.narrows.log().contains("unknown key"));
}

#[test]
fn an_issuer_that_hangs_or_sends_garbage_changes_nothing_for_known_keys() {
    let stand = configured(("tok_garbage", ""), "", r#","refresh_s":10"#, |config| config);
    let (user, stranger) = ("tok_garbage", TokenKey::p256("two").token(&claims("tok_garbage", "")));
    stand.log_in(user, &stand.good(user)).expect("a good token");
    for (reply, why) in [
        (WebReply::Endless, "more than 262144 bytes"),
        (WebReply::Answer(200, "<html>".to_owned()), "it is no JSON"),
        (WebReply::Answer(200, r#"{"keys":[]}"#.to_owned()), "it has no key"),
        (WebReply::Answer(302, String::new()), "HTTP status 302"),
        (WebReply::Hang, "no answer within 4 s"),
    ] {
        stand.issuer.answer(move |_| reply.clone());
        // The unknown key leads to a fetch.
        assert_eq!(stand.refused(user, &stranger).code, 1045);
        wait_until(why, || stand.figure("last_error").contains(why));
        let mut client = stand.log_in(user, &stand.good(user)).expect("the keys before stay");
        assert_eq!(user_at(&mut client), "tok_garbage@%");
    }
    assert!(stand.narrows.log().contains("those before stay in force"));
    assert!(stand.narrows.resident_bytes() < 1 << 30);
    let keys = jwk_set(&[&stand.key]);
    stand.issuer.answer(move |_| WebReply::Answer(200, keys.clone()));
    wait_until("the keys come again", || stand.figure("last_error").is_empty());
}

#[test]
fn without_keys_a_login_ends_in_time_and_is_not_held_against_the_client() {
    let lockout = r#","failed_login_attempts":1"#;
    let stand = configured(("tok_without", ""), lockout, "", |config| config);
    stand.issuer.answer(|_| WebReply::Hang);
    let mut admin = stand.narrows.admin();
    // Another row, about which nothing is known yet.
    let other = "UPDATE narrows_token_issuers SET audience = 'narrows', comment = 'x', username_claim = 'sub', jwks = jwks || '/new'";
    for statement in [other, "LOAD MYSQL USERS TO RUNTIME"] {
        let began = Instant::now();
        assert_eq!(admin.query(statement).error(), None);
        assert!(began.elapsed() < Duration::from_secs(3), "administrators do not wait for the issuer");
    }
    let token = stand.good("tok_without");
    let error = stand.refused("tok_without", &token);
    assert_eq!(error.code, 9001, "{error:?}");
    assert_eq!(error.message, "The token of 'tok_without' cannot be verified: its issuer cannot be reached");
    let keys = jwk_set(&[&stand.key]);
    stand.issuer.answer(move |_| WebReply::Answer(200, keys.clone()));
    wait_until("the login succeeds", || stand.log_in("tok_without", &token).is_ok());
}

#[test]
fn keys_in_a_file_are_read_again_when_kubernetes_exchanges_its_folder() {
    let stand = Stand::of("tok_file");
    let (user, new) = ("tok_file", TokenKey::p256("two"));
    let at = |name: &str| stand.folder.file(name);
    for (version, key) in [("..1", &stand.key), ("..2", &new)] {
        std::fs::create_dir(at(version)).expect("a folder");
        std::fs::write(at(version).join("keys"), jwk_set(&[key])).expect("written");
    }
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, at("new")).expect("a link");
        std::fs::rename(at("new"), at(name)).expect("exchanged");
    };
    link("..1", "..data");
    link("..data/keys", "keys");
    let mut admin = stand.narrows.admin();
    for statement in [
        format!("UPDATE narrows_token_issuers SET jwks = 'file:{}'", at("keys").display()),
        "LOAD MYSQL USERS TO RUNTIME".to_owned(),
    ] {
        assert_eq!(admin.query(statement).error(), None);
    }
    let mut client = RawClient::connect(&stand.socket());
    client.login(&Login::new(user, &stand.good(user))).expect("the key in the file");
    link("..2", "..data");
    wait_until("the other key is read", || stand.log_in(user, &new.token(&claims(user, ""))).is_ok());
    assert_eq!(stand.refused(user, &stand.good(user)).code, 1045, "the key before is gone");
    assert!(row(&stand.folder, "x", "").contains("idp"));
}
