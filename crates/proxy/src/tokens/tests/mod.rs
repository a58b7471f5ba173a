//! Tokens of the RFCs, of keys made here, and of forgers.

mod logins;
mod published;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::keys::SignatureCheck;
use super::*;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that signs, and its public half as a JWK.
enum Signer {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    fn rsa() -> Signer {
        Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    fn p256() -> Signer {
        Signer::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn p384() -> Signer {
        Signer::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap())
    }

    fn ed25519() -> Signer {
        Signer::Ed(Ed25519KeyPair::generate().unwrap())
    }

    fn public(&self, kid: &str) -> Value {
        match self {
            Signer::Rsa(pair) => {
                // SEQUENCE { INTEGER n, INTEGER 65537 } in DER.
                let der = pair.public_key().as_ref();
                let (n, e) = (&der[9..9 + 256], &der[der.len() - 3..]);
                json!({ "kty": "RSA", "kid": kid, "n": encoded(n), "e": encoded(e) })
            }
            Signer::Ec(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({ "kty": "EC", "crv": curve, "kid": kid, "x": encoded(x), "y": encoded(y) })
            }
            Signer::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encoded(pair.public_key().as_ref()) })
            }
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding = match algorithm {
                    "RS256" => &RSA_PKCS1_SHA256,
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    _ => &RSA_PSS_SHA512,
                };
                pair.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Signer::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Signer::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with these claims.
    fn token(&self, algorithm: &str, kid: Option<&str>, claims: &Value) -> String {
        let mut header = json!({ "alg": algorithm, "typ": "JWT" });
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", encoded(signature))
    }
}

fn key_set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

#[test]
fn a_token_has_the_signature_of_a_key_that_is_made_for_its_algorithm() {
    let (rsa, p256, p384, ed) = (Signer::rsa(), Signer::p256(), Signer::p384(), Signer::ed25519());
    let keys = key_set(&[rsa.public("r"), p256.public("2"), p384.public("3"), ed.public("e")]);
    let mut cases: Vec<(&Signer, &str, &str)> =
        vec![(&p256, "ES256", "2"), (&p384, "ES384", "3"), (&ed, "EdDSA", "e")];
    cases.extend(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"].map(|name| (&rsa, name, "r")));
    for (signer, algorithm, kid) in cases {
        for named in [Some(kid), None] {
            let token = signer.token(algorithm, named, &json!({}));
            let check = |token: &str| keys.check(&jws::Jws::parse(token.as_bytes()).unwrap());
            assert_eq!(check(&token), SignatureCheck::Right, "{algorithm}");
            // Another payload, a shorter signature, none, and the name of another key.
            let parts: Vec<&str> = token.split('.').collect();
            let other = encoded(json!({ "sub": "root" }).to_string());
            let bad = named.map_or(SignatureCheck::UnknownKey, |_| SignatureCheck::Wrong);
            assert_eq!(check(&format!("{}.{other}.{}", parts[0], parts[2])), bad, "{algorithm}");
            assert_eq!(check(&format!("{}.{}.{}", parts[0], parts[1], encoded([0; 64]))), bad);
            assert_eq!(check(&format!("{}.{}.", parts[0], parts[1])), bad);
        }
        let misnamed = signer.token(algorithm, Some("x"), &json!({}));
        let misnamed = jws::Jws::parse(misnamed.as_bytes()).unwrap();
        assert_eq!(keys.check(&misnamed), SignatureCheck::UnknownKey);
    }
}

#[test]
fn a_key_verifies_nothing_that_it_is_not_for() {
    let rsa = Signer::rsa();
    let token = rsa.token("RS256", Some("k"), &json!({}));
    let token = jws::Jws::parse(token.as_bytes()).unwrap();
    for (name, value) in [("alg", "PS256"), ("alg", "RS512")] {
        let mut key = rsa.public("k");
        key[name] = value.into();
        assert_eq!(key_set(&[key]).check(&token), SignatureCheck::Wrong, "{name} {value}");
    }
    for (name, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["encrypt"])),
        ("kty", json!("oct")),
        ("alg", json!("RSA-OAEP")),
        ("e", json!("")),
        ("e", json!(encoded([255; 9]))),
        ("n", json!(encoded([255; 128]))),
        ("n", json!(encoded([255; 1025]))),
        ("n", json!("!")),
    ] {
        let mut key = rsa.public("k");
        key[name] = value.clone();
        let set = json!({ "keys": [key, Signer::p256().public("other")] });
        let set = KeySet::parse(set.to_string().as_bytes()).unwrap();
        assert_eq!((set.len(), set.left_out), (1, 1), "{name} {value}");
        assert_eq!(set.check(&token), SignatureCheck::UnknownKey, "{name} {value}");
    }
}

#[test]
fn a_key_set_that_is_none_says_what_is_wrong() {
    let many = json!({ "keys": vec![json!({}); 101] }).to_string();
    let long = format!("{}{}", " ".repeat(keys::LONGEST_KEY_SET), r#"{"keys":[]}"#);
    for (text, why) in [
        ("", "no JSON"),
        ("<html>", "no JSON"),
        ("[]", "no list"),
        (r#"{"keys":{}}"#, "no list"),
        (r#"{"keys":[]}"#, "no key that can verify"),
        (r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#, "no key that can verify"),
        (&many, "more than 100 keys"),
        (&long, "more than 262144 bytes"),
        (&"[".repeat(100_000), "no JSON"),
    ] {
        let error = KeySet::parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let header = encoded(r#"{"alg":"RS256"}"#);
    let claims = encoded("{}");
    for token in [
        String::new(),
        "secret".to_owned(),
        "..".to_owned(),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.a.b"),
        format!("{header}.{claims}.!"),
        format!("{header}.{claims}.YQ=="),
        format!("{header}.{}.YQ", encoded("[]")),
        format!("{}.{claims}.YQ", encoded("{")),
        format!("{}.{claims}.YQ", encoded(r#"{"alg":"RS256","crit":["exp"]}"#)),
        format!("{header}.{}.YQ", "a".repeat(jws::LONGEST_TOKEN)),
        format!("{header}.{}.YQ", encoded("[".repeat(10_000))),
    ] {
        assert!(matches!(jws::Jws::parse(token.as_bytes()), Err(TokenRefusal::NoToken(_))), "{token}");
    }
}
