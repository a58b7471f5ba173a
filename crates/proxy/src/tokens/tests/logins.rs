//! Logins with tokens: what is asked of a token, and when somebody is asked about it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::auth::Password;
use serde_json::{Value, json};

use super::super::issuer::seconds_now;
use super::*;
use crate::rows::TokenIssuerRow;
use crate::rt::{MailboxReceiver, block_on, mailbox, spawn_local};

fn row(jwks: &str, attributes: &str) -> TokenIssuerRow {
    TokenIssuerRow {
        name: "idp".to_owned(),
        active: true,
        issuer: "https://idp".to_owned(),
        jwks: jwks.to_owned(),
        audience: "narrows".to_owned(),
        username_claim: "sub".to_owned(),
        attributes: attributes.to_owned(),
        comment: String::new(),
    }
}

/// The issuer of a row, alone, and the questions that logins ask.
fn issuers(row: &TokenIssuerRow) -> (Issuers, MailboxReceiver<IssuerQuestion>) {
    let (questions, asked) = mailbox();
    let issuer = Issuer::new(IssuerSettings::of(row).unwrap(), questions);
    ([(row.name.clone(), Arc::new(issuer))].into(), asked)
}

fn demands(json: &Value) -> TokenDemands {
    TokenDemands::parse(&json!({ "token": json })).unwrap()
}

fn claims() -> Value {
    let now = seconds_now();
    json!({ "iss": "https://idp", "aud": "narrows", "sub": "app", "exp": now + 600, "nbf": now - 600, "iat": now - 600 })
}

const LIMIT: Duration = Duration::from_secs(5);

fn login(issuers: &Issuers, demands: &TokenDemands, token: &str) -> Result<GoodToken, TokenRefusal> {
    block_on(verify(issuers, demands, ("app", &Password::new(token.as_bytes()), None), LIMIT)).unwrap()
}

#[test]
fn a_token_is_for_this_service_now_and_for_the_account() {
    let signer = Signer::p256();
    let (issuers, mut asked) = issuers(&row("https://idp/jwks", ""));
    issuers["idp"].fetched(Ok(key_set(&[signer.public("k")])));
    let app = demands(&json!({ "issuer": "idp" }));
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        login(&issuers, &app, &signer.token("ES256", Some("k"), &claims))
    };
    let now = seconds_now();
    assert_eq!(with("aud", json!("narrows")), Ok(GoodToken { lasts: None }));
    assert!(with("aud", json!(["other", "narrows"])).is_ok());
    assert!(with("exp", json!(now - 30)).is_ok(), "clocks may differ by a minute");
    assert!(with("nbf", json!(now as f64 + 30.5)).is_ok());
    let clocks = [
        with("exp", json!(now - 100)),
        with("exp", json!(0)),
        with("nbf", json!(now + 100)),
        with("iat", json!(now + 100)),
    ];
    let seconds = clocks.map(|outcome| match outcome.unwrap_err() {
        TokenRefusal::Expired { seconds } => seconds,
        TokenRefusal::NotYetValid { seconds } => seconds,
        other => panic!("{other}"),
    });
    assert!((100..110).contains(&seconds[0]) && seconds[1] >= now, "{seconds:?}");
    assert!((90..=100).contains(&seconds[2]) && (90..=100).contains(&seconds[3]), "{seconds:?}");
    for (name, value, why) in [
        ("exp", json!(null), "`exp` is missing"),
        ("exp", json!("soon"), "`exp` is missing"),
        ("exp", json!(-1), "`exp` is missing"),
        ("nbf", json!("now"), "`nbf` is missing"),
        ("aud", json!("other"), "wrong audience: \"\\\"other\\\"\""),
        ("aud", json!(null), "wrong audience"),
        ("aud", json!({ "narrows": 1 }), "wrong audience"),
        ("iss", json!("https://idp2"), "wrong issuer"),
        ("iss", json!(["https://idp"]), "wrong issuer"),
        ("sub", json!("root"), "does not match: \"sub is \\\"root\\\"\""),
        ("sub", json!("APP"), "does not match"),
        ("sub", json!(null), "does not match"),
    ] {
        let refusal = with(name, value.clone()).unwrap_err();
        assert!(refusal.to_string().contains(why), "{name} {value}: {refusal}");
        assert!(refusal.is_guess() && refusal.for_client().is_none(), "{refusal}");
    }
    assert!(asked.try_recv().is_err(), "a known key is enough");
    let figures = issuers["idp"].figures();
    assert_eq!((figures.accepted, figures.fetches), (4, 1));
}

#[test]
fn claims_decide_whose_accounts_a_token_is_for() {
    let signer = Signer::ed25519();
    let (issuers, _asked) = issuers(&row("https://idp/jwks", ""));
    issuers["idp"].fetched(Ok(key_set(&[signer.public("k")])));
    let mut claims = claims();
    claims["sub"] = "somebody".into();
    claims["groups"] = json!(["dev", "dba"]);
    claims["admin"] = json!(true);
    claims["kubernetes.io"] = json!({ "namespace": "shop", "pod": { "name": "a.b" } });
    let token = signer.token("EdDSA", None, &claims);
    for (demand, is_good) in [
        (json!({ "groups": "dba" }), true),
        (json!({ "groups": "db" }), false),
        (json!({ "groups": "dba", "sub": "somebody" }), true),
        (json!({ "groups": "dba", "sub": "somebody else" }), false),
        (json!({ "admin": true }), true),
        (json!({ "admin": "true" }), false),
        (json!({ "kubernetes.io.namespace": "shop" }), true),
        (json!({ "kubernetes.io.pod.name": "a.b" }), true),
        (json!({ "kubernetes.io.pod.uid": "a.b" }), false),
        (json!({ "kubernetes.io.namespace.name": "shop" }), false),
    ] {
        let one = demands(&json!({ "issuer": "idp", "claims": demand }));
        assert_eq!(login(&issuers, &one, &token).is_ok(), is_good, "{demand}");
    }
    let several = json!([{ "issuer": "other" }, { "issuer": "idp" }, { "issuer": "idp", "claims": { "groups": "dev" } }]);
    assert!(login(&issuers, &demands(&several), &token).is_ok());
    assert!(login(&issuers, &demands(&json!({ "issuer": "other" })), &token).is_err());
    assert!(login(&issuers, &demands(&json!("idp")), &token).is_err(), "an unreadable demand lets nobody in");
    let until = demands(&json!({ "issuer": "idp", "claims": { "groups": "dba" }, "until_expiry": true }));
    let lasts = login(&issuers, &until, &token).unwrap().lasts.unwrap();
    assert!((590..=600).contains(&lasts.as_secs()), "{lasts:?}");
}

#[test]
fn forgers_have_no_key_that_is_accepted() {
    let (rsa, other) = (Signer::rsa(), Signer::rsa());
    let (issuers, _asked) = issuers(&row("https://idp/jwks", r#"{"algorithms":["RS256"]}"#));
    let public = rsa.public("k");
    issuers["idp"].fetched(Ok(key_set(std::slice::from_ref(&public))));
    let app = demands(&json!({ "issuer": "idp" }));
    assert!(login(&issuers, &app, &rsa.token("RS256", Some("k"), &claims())).is_ok());
    let signed = |alg: &str| {
        let header = json!({ "alg": alg, "kid": "k" }).to_string();
        format!("{}.{}", encoded(header), encoded(claims().to_string()))
    };
    // The public key as the key of an HMAC, in the forms that libraries have taken for one.
    let n = URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let forms = [n, public.to_string().into_bytes(), public["n"].as_str().unwrap().as_bytes().to_vec()];
    let mut forged: Vec<String> = Vec::new();
    for form in &forms {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, form);
        for alg in ["HS256", "RS256"] {
            let signed = signed(alg);
            let tag = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
            forged.push(format!("{signed}.{}", encoded(tag)));
        }
    }
    for alg in ["none", "None", "NONE", "", "HS384"] {
        forged.push(format!("{}.", signed(alg)));
    }
    forged.push(other.token("RS256", Some("k"), &claims()));
    forged.push(rsa.token("PS256", Some("k"), &claims()));
    for token in forged {
        let refusal = login(&issuers, &app, &token).unwrap_err();
        let is_right = matches!(refusal, TokenRefusal::Algorithm(_) | TokenRefusal::Signature(_));
        assert!(is_right, "{refusal}");
    }
}

/// Answers each question with `keys`, and counts them.
fn answer(
    issuers: &Issuers,
    mut asked: MailboxReceiver<IssuerQuestion>,
    keys: Result<KeySet, String>,
) -> Rc<Cell<u32>> {
    let count = Rc::new(Cell::new(0));
    let (issuer, counted) = (Arc::clone(&issuers["idp"]), Rc::clone(&count));
    spawn_local(async move {
        while let Some(IssuerQuestion::Keys(_, question)) = asked.recv().await {
            counted.set(counted.get() + 1);
            issuer.fetched(keys.clone());
            let _ = question.answer.send(());
        }
    });
    count
}

#[test]
fn an_unknown_key_is_asked_for_and_a_known_one_is_not() {
    let (old, new) = (Signer::p256(), Signer::p384());
    let (issuers, asked) = issuers(&row("https://idp/jwks", ""));
    let app = demands(&json!({ "issuer": "idp" }));
    let both = key_set(&[old.public("old"), new.public("new")]);
    let tokens = [
        old.token("ES256", Some("old"), &claims()),
        new.token("ES384", Some("new"), &claims()),
        new.token("ES384", Some("newest"), &claims()),
    ]
    .map(|token| Password::new(token.as_bytes()));
    block_on(async {
        issuers["idp"].fetched(Ok(key_set(&[old.public("old")])));
        let count = answer(&issuers, asked, Ok(both));
        for _ in 0..1000 {
            verify(&issuers, &app, ("app", &tokens[0], None), LIMIT).await.unwrap();
        }
        assert_eq!(count.get(), 0);
        for _ in 0..1000 {
            verify(&issuers, &app, ("app", &tokens[1], None), LIMIT).await.unwrap();
        }
        assert_eq!(count.get(), 1, "the new key was asked for once");
        let refusal = verify(&issuers, &app, ("app", &tokens[2], None), LIMIT).await.unwrap_err();
        assert_eq!(refusal.to_string(), r#"unknown key: the issuer 'idp' has no key with kid "newest""#);
        assert!(refusal.is_guess());
    })
    .unwrap();
}

#[test]
fn an_issuer_that_says_nothing_is_no_fault_of_the_client() {
    let signer = Signer::p256();
    let token = Password::new(signer.token("ES256", Some("k"), &claims()).as_bytes());
    let app = demands(&json!({ "issuer": "idp" }));
    for jwks in ["https://idp/jwks", "kubernetes:"] {
        let (issuers, asked) = issuers(&row(jwks, ""));
        let limit = Duration::from_millis(20);
        let refusal = block_on(verify(&issuers, &app, ("app", &token, None), limit)).unwrap().unwrap_err();
        assert!(refusal.is_unavailable() && !refusal.is_guess(), "{refusal}");
        drop(asked);
        let refusal = block_on(verify(&issuers, &app, ("app", &token, None), LIMIT)).unwrap().unwrap_err();
        assert!(refusal.is_unavailable(), "{refusal}");
    }
    let (issuers, asked) = issuers(&row("https://idp/jwks", ""));
    block_on(async {
        answer(&issuers, asked, Err("HTTP status 500".to_owned()));
        let refusal = verify(&issuers, &app, ("app", &token, None), LIMIT).await.unwrap_err();
        assert_eq!(refusal.to_string(), "the issuer 'idp' cannot be reached: HTTP status 500");
        // What was there before stays.
        issuers["idp"].fetched(Ok(key_set(&[signer.public("k")])));
        issuers["idp"].fetched(Err("HTTP status 500".to_owned()));
        assert!(verify(&issuers, &app, ("app", &token, None), LIMIT).await.is_ok());
    })
    .unwrap();
}

#[test]
fn an_api_server_says_whose_a_token_is() {
    let signer = Signer::p256();
    let token = |claims: &Value| Password::new(signer.token("ES256", None, claims).as_bytes());
    let (issuers, mut asked) = issuers(&row("kubernetes:", ""));
    let shop =
        demands(&json!({ "issuer": "idp", "claims": { "username": "system:serviceaccount:shop:app" } }));
    block_on(async {
        spawn_local(async move {
            while let Some(IssuerQuestion::Review(_, question)) = asked.recv().await {
                let ReviewQuestion { token, answer, .. } = question;
                let is_forged = token.bytes().ends_with(b"A");
                let name = json!({ "username": "system:serviceaccount:shop:app", "groups": [] });
                let Value::Object(user) = name else { unreachable!() };
                let _ = answer.send(Ok(if is_forged { Err(Excerpt::of("invalid")) } else { Ok(user) }));
            }
        });
        // The claims of the token itself may say anything.
        let mut own = claims();
        own["username"] = "system:serviceaccount:kube-system:root".into();
        let good = loop {
            let token = token(&own);
            if !token.bytes().ends_with(b"A") {
                break token;
            }
        };
        assert!(verify(&issuers, &shop, ("app", &good, None), LIMIT).await.is_ok());
        let forged = [good.bytes(), b"AAAA"].concat();
        let refusal =
            verify(&issuers, &shop, ("app", &Password::new(&forged), None), LIMIT).await.unwrap_err();
        assert!(matches!(refusal, TokenRefusal::Review { .. }), "{refusal}");
        own["exp"] = 1.into();
        let refusal = verify(&issuers, &shop, ("app", &token(&own), None), LIMIT).await.unwrap_err();
        assert!(matches!(refusal, TokenRefusal::Expired { .. }), "nobody is asked: {refusal}");
    })
    .unwrap();
}

#[test]
fn rows_that_would_accept_too_much_cannot_be_used() {
    let fault = |change: &dyn Fn(&mut TokenIssuerRow)| {
        let mut row = row("https://idp/jwks", "");
        change(&mut row);
        IssuerSettings::of(&row).err().unwrap_or_default()
    };
    assert_eq!(fault(&|_| {}), "");
    assert_eq!(fault(&|row| row.jwks = "file:/keys.json".to_owned()), "");
    let of_pod = |row: &mut TokenIssuerRow| {
        row.jwks = "kubernetes:".to_owned();
        row.issuer.clear();
        row.audience.clear();
    };
    assert_eq!(fault(&of_pod), "");
    assert!(fault(&|row| row.issuer.clear()).starts_with("issuer is empty"));
    assert!(fault(&|row| row.audience.clear()).starts_with("audience is empty"));
    for jwks in ["", "idp", "ftp://idp", "file:keys.json", "kubernetes:x"] {
        assert!(fault(&|row| row.jwks = jwks.to_owned()).starts_with("jwks is"), "{jwks}");
    }
    for (attributes, why) in [
        ("[]", "expected a JSON object"),
        (r#"{"leeway":1}"#, r#"there is no "leeway""#),
        (r#"{"leeway_s":601}"#, "from 0 to 600"),
        (r#"{"refresh_s":9}"#, "from 10 to 86400"),
        (r#"{"algorithms":["HS256"]}"#, "expected a list of RS256"),
        (r#"{"algorithms":[]}"#, "expected a list of"),
        (r#"{"algorithms":["none"]}"#, "expected a list of"),
        (r#"{"ca":""}"#, "expected a text"),
        (r#"{"token_file":"/token"}"#, "for kubernetes: only"),
    ] {
        let said = fault(&|row| row.attributes = attributes.to_owned());
        assert!(said.contains(why), "{attributes}: {said}");
    }
}

#[test]
fn no_message_shows_more_than_the_beginning_of_what_a_token_says() {
    let long = Excerpt::of(&"x".repeat(5000)).to_string();
    assert!(long.len() < 120, "{long}");
    assert_eq!(Excerpt::of("a\n\u{1b}[31mb").to_string(), r#""a\n\u{1b}[31mb""#);
}
