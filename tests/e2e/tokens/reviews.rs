//! Tokens of Kubernetes service accounts, which an API server verifies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_testkit::{HttpsFake, NarrowsConfig, TempFolder, TokenKey, WebReply, wait_until};

use super::{Stand, account, attributes, claims, user_at};
use crate::support::start;

const USERNAME: &str = "system:serviceaccount:shop:api";

/// The answer to a review.
fn reviewed(audience: &str) -> WebReply {
    let user = format!(r#"{{"username":"{USERNAME}","uid":"1","groups":["system:serviceaccounts"]}}"#);
    WebReply::Answer(
        201,
        format!(r#"{{"status":{{"authenticated":true,"user":{user},"audiences":["{audience}"]}}}}"#),
    )
}

/// A Narrows that asks an API server, whose account `user` is for the service account.
fn stand(user: &str) -> Stand {
    let (key, folder) = (TokenKey::p256("cluster"), TempFolder::new("reviews"));
    let issuer = HttpsFake::start(|_| reviewed("narrows"));
    std::fs::write(folder.file("ca.pem"), issuer.authority()).expect("written");
    std::fs::write(folder.file("token"), "own-token-of-narrows\n").expect("written");
    let [ca, token] = ["ca.pem", "token"].map(|name| folder.file(name).display().to_string());
    let json = format!(r#"{{"ca":"{ca}","token_file":"{token}","api_server":"{}"}}"#, issuer.address());
    let row = format!("name=\"idp\" jwks=\"kubernetes:\" audience=\"narrows\" {}", attributes(&json));
    let demand = format!(r#"{{"token":{{"issuer":"idp","claims":{{"username":"{USERNAME}"}}}}}}"#);
    let config = NarrowsConfig::new()
        .server(0, account(user, "").port(), "")
        .user(user, "", &attributes(&demand))
        .user("sbtest", "sbtest", "")
        .row("narrows_token_issuers", &row);
    Stand { narrows: start(&config), key, issuer, folder }
}

#[test]
fn a_service_account_is_let_in_and_remembered_for_a_moment() {
    let stand = stand("tok_pod");
    let token = stand.key.token(&claims("anything", ""));
    for _ in 0..50 {
        let mut client = stand.log_in("tok_pod", &token).expect("the API server accepts it");
        assert_eq!(user_at(&mut client), "tok_pod@%");
    }
    assert_eq!(stand.issuer.requests(), 1);
    let other = stand.key.token(&claims("another", ""));
    stand.log_in("tok_pod", &other).expect("the API server accepts it");
    assert_eq!((stand.issuer.requests(), stand.figure("fetches")), (2, "2".to_owned()));
}

#[test]
fn what_the_api_server_is_sent_is_a_review_with_the_token_and_the_audience() {
    let stand = stand("tok_sent");
    let token = stand.key.token(&claims("anything", ""));
    let (sent, bodies) = std::sync::mpsc::channel();
    let sent = std::sync::Mutex::new(sent);
    stand.issuer.answer(move |body| {
        sent.lock().expect("not poisoned").send(body.to_owned()).expect("received");
        reviewed("narrows")
    });
    stand.log_in("tok_sent", &token).expect("the API server accepts it");
    let expected = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"audiences":["narrows"],"token":"{token}"}}}}"#
    );
    assert_eq!(bodies.recv().expect("a body"), expected);
    assert!(!stand.narrows.log().contains("own-token-of-narrows"));
}

#[test]
fn who_is_not_accepted_is_refused_and_asked_about_again() {
    let stand = stand("tok_denied");
    let token = stand.key.token(&claims("anything", ""));
    let other_user = r#"{"status":{"authenticated":true,"audiences":["narrows"],"user":{"username":"system:serviceaccount:other:api"}}}"#;
    let denied = r#"{"status":{"authenticated":false,"error":"token has been invalidated"}}"#;
    let answers = [
        (WebReply::Answer(201, denied.to_owned()), 1045, "token has been invalidated"),
        (WebReply::Answer(201, other_user.to_owned()), 1045, "a claim does not match"),
        (reviewed("another"), 1045, "is not for the audience"),
        (WebReply::Answer(201, "{}".to_owned()), 1045, "it is not authenticated"),
        (WebReply::Answer(403, String::new()), 9001, "system:auth-delegator"),
        (WebReply::Answer(200, "<html>".to_owned()), 9001, "has sent no JSON"),
        (WebReply::Hang, 9001, "no answer within 4 s"),
        (WebReply::Endless, 9001, "more than 262144 bytes"),
    ];
    for (index, (reply, code, why)) in answers.into_iter().enumerate() {
        stand.issuer.answer(move |_| reply.clone());
        // What was accepted once is remembered.
        let token = stand.key.token(&claims(&format!("{index}"), ""));
        let error = stand.refused("tok_denied", &token);
        assert_eq!(error.code, code, "{why}: {error:?}");
        stand.narrows.wait_for_log(0, |line| line.contains(why));
    }
    stand.issuer.answer(|_| reviewed("narrows"));
    stand.log_in("tok_denied", &token).expect("the API server answers again");
}

#[test]
fn an_api_server_that_hangs_has_few_questions_and_holds_nobody_else_up() {
    let stand = stand("tok_hang");
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, peak) = (Arc::clone(&now), Arc::clone(&most));
    stand.issuer.answer(move |_| {
        peak.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        WebReply::Hang
    });
    std::thread::scope(|scope| {
        for number in 0..40 {
            let (stand, token) = (&stand, stand.key.token(&claims(&format!("{number}"), "")));
            scope.spawn(move || assert_eq!(stand.refused("tok_hang", &token).code, 9001));
        }
        wait_until("questions are asked", || most.load(Ordering::SeqCst) >= 16);
        assert_eq!(stand.narrows.client().query("SELECT 1").cell().as_deref(), Some("1"));
        assert_eq!(stand.narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
        assert!(most.load(Ordering::SeqCst) <= 16);
    });
}
