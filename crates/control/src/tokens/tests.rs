//! What a login hears that asks for keys.

use std::path::Path;
use std::sync::Arc;

use narrows_proxy::rt::{self, oneshot};
use narrows_proxy::snapshot::TokenIssuerRow;
use narrows_proxy::tokens::{Issuer, IssuerQuestion, IssuerSettings, KeysQuestion};

use super::kept::KeptIssuers;

/// The public key of RFC 7517, appendix A.1.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
    "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

/// The issuer of a row of that name, whose keys are in a file.
fn issuer(file: &Path) -> Arc<Issuer> {
    let row = TokenIssuerRow {
        name: "idp".to_owned(),
        active: true,
        issuer: "https://idp".to_owned(),
        jwks: format!("file:{}", file.display()),
        audience: "narrows".to_owned(),
        username_claim: "sub".to_owned(),
        attributes: String::new(),
        comment: String::new(),
    };
    let (questions, _) = rt::mailbox();
    Arc::new(Issuer::new(IssuerSettings::of(&row).unwrap(), questions))
}

/// A LOAD has replaced the row, and a login with the new one is earlier than the order to keep its keys.
#[test]
fn a_login_hears_of_the_keys_of_its_own_issuer_and_not_of_those_of_the_same_name_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, KEYS).unwrap();
    rt::block_on(async {
        let mut kept = KeptIssuers::default();
        for issuer in [issuer(&file), issuer(&file)] {
            let (answer, answered) = oneshot::channel();
            let question = KeysQuestion { found_none: true, answer };
            kept.answer(IssuerQuestion::Keys(Arc::clone(&issuer), question));
            answered.await.unwrap();
            assert!(issuer.keys().is_some());
        }
    })
    .unwrap();
}

#[test]
fn a_login_that_is_late_for_the_first_keys_hears_of_them_and_one_that_wants_newer_ones_makes_a_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, KEYS).unwrap();
    let issuer = issuer(&file);
    rt::block_on(async {
        let mut kept = KeptIssuers::default();
        let mut ask = |found_none: bool| {
            let (answer, answered) = oneshot::channel();
            kept.answer(IssuerQuestion::Keys(Arc::clone(&issuer), KeysQuestion { found_none, answer }));
            answered
        };
        ask(true).await.unwrap();
        assert_eq!(issuer.figures().fetches, 1);
        for _ in 0..100 {
            ask(true).await.unwrap();
        }
        assert_eq!(issuer.figures().fetches, 1);
        ask(false).await.unwrap();
        assert_eq!(issuer.figures().fetches, 2);
    })
    .unwrap();
}
