//! Tokens of Kubernetes service accounts, which an API server verifies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use narrows_testkit::{
    HttpsFake, Login, NarrowsConfig, RawClient, TempFolder, TokenKey, WebReply, wait_until,
};

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

/// What the API server says of a forged token.
fn denied() -> WebReply {
    let denied = r#"{"status":{"authenticated":false,"error":"token has been invalidated"}}"#;
    WebReply::Answer(201, denied.to_owned())
}

#[test]
fn a_token_that_was_refused_a_moment_ago_is_not_asked_about_again() {
    let stand = stand("tok_again");
    stand.issuer.answer(|_| denied());
    let token = stand.key.token(&claims("anything", ""));
    for _ in 0..20 {
        assert_eq!(stand.refused("tok_again", &token).code, 1045);
    }
    assert_eq!((stand.issuer.requests(), stand.figure("refused")), (1, "20".to_owned()));
    stand.issuer.answer(|_| reviewed("narrows"));
    wait_until("it is asked about again", || stand.log_in("tok_again", &token).is_ok());
    assert_eq!(stand.issuer.requests(), 2);
}

/// Forged tokens come from the Unix socket, one after the other by 40 clients. Others come over TLS.
#[test]
fn forged_tokens_make_few_questions_and_hold_nobody_up() {
    let (user, began) = ("tok_flood", Instant::now());
    let stand = stand(user);
    let good: Vec<String> =
        (0..30).map(|number| stand.key.token(&claims(&format!("good{number}"), ""))).collect();
    let known = good.clone();
    stand.issuer.answer(move |body| match known.iter().any(|token| body.contains(token.as_str())) {
        true => reviewed("narrows"),
        false => denied(),
    });
    let (is_over, tls) = (AtomicBool::new(false), stand.tls());
    let forged = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let number = forged.fetch_add(1, Ordering::SeqCst);
                    let token = stand.key.token(&claims(&format!("forged{number}"), ""));
                    let code = stand.refused(user, &token).code;
                    assert!([1045, 9001].contains(&code), "{code}");
                }
            });
        }
        let slower = |line: &str| line.contains("many tokens are refused") && line.contains("localhost");
        wait_until("credit is short", || stand.narrows.log().lines().any(slower));
        for token in &good {
            let login = Login::new(user, token);
            let mut client = RawClient::open_tls(&stand.narrows.endpoint(), &tls, &login);
            assert_eq!(user_at(&mut client), "tok_flood@%");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let most = good.len() + 100 + (began.elapsed().as_millis() / 100) as usize + 1;
    let (asked, forged) = (stand.issuer.requests(), forged.into_inner());
    println!("{asked} questions, at most {most}, for {forged} forged tokens");
    assert!(asked <= most && asked >= good.len() + 100, "{asked}");
}

#[test]
fn who_is_not_accepted_is_refused_with_the_reason_in_the_log() {
    let stand = stand("tok_denied");
    let token = stand.key.token(&claims("anything", ""));
    let other_user = r#"{"status":{"authenticated":true,"audiences":["narrows"],"user":{"username":"system:serviceaccount:other:api"}}}"#;
    let answers = [
        (denied(), 1045, "token has been invalidated"),
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
        // Those about tokens that were good before have the other places.
        wait_until("questions are asked", || most.load(Ordering::SeqCst) >= 12);
        assert_eq!(stand.narrows.client().query("SELECT 1").cell().as_deref(), Some("1"));
        assert_eq!(stand.narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
        assert_eq!(most.load(Ordering::SeqCst), 12);
    });
}
