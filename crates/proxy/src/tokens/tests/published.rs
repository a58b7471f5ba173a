//! The tokens and keys that RFC 7515, RFC 7519 and RFC 8037 print.

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::super::jws::{Algorithm, Jws};
use super::*;

const PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// RFC 7515, A.2.
const RSA_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

/// RFC 7515, A.3.
const EC_SIGNATURE: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// RFC 8037, A.2 and A.4.
const ED_KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const ED_TOKEN: [&str; 3] = [
    "eyJhbGciOiJFZERTQSJ9",
    "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
];

fn keys() -> KeySet {
    key_set(&[
        json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB" }),
        json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": ED_KEY }),
    ])
}

#[test]
fn signatures_of_rfc_7515_are_those_of_its_keys() {
    for (header, algorithm, signature) in [
        ("eyJhbGciOiJSUzI1NiJ9", Algorithm::Rs256, RSA_SIGNATURE),
        ("eyJhbGciOiJFUzI1NiJ9", Algorithm::Es256, EC_SIGNATURE),
    ] {
        let token = format!("{header}.{PAYLOAD}.{signature}");
        let token = Jws::parse(token.as_bytes()).unwrap();
        assert_eq!(token.algorithm, algorithm);
        assert_eq!(token.claims.get("iss"), Some(&Value::from("joe")));
        assert_eq!(token.claims.get("exp"), Some(&Value::from(1_300_819_380)));
        assert_eq!(keys().check(&token), SignatureCheck::Right);
    }
}

#[test]
fn the_signature_of_rfc_8037_is_that_of_its_key() {
    let [header, payload, signature] = ED_TOKEN;
    let signed = format!("{header}.{payload}");
    let mut token = Jws {
        algorithm: Algorithm::EdDsa,
        kid: None,
        signed: signed.as_bytes(),
        signature: Zeroizing::new(URL_SAFE_NO_PAD.decode(signature).unwrap()),
        claims: Map::new(),
    };
    assert_eq!(keys().check(&token), SignatureCheck::Right);
    token.signature[0] ^= 1;
    assert_ne!(keys().check(&token), SignatureCheck::Right);
    // Its payload is no object of JSON, so it is no token of a login.
    let whole = ED_TOKEN.join(".");
    assert!(matches!(Jws::parse(whole.as_bytes()), Err(TokenRefusal::NoToken(_))));
}

#[test]
fn tokens_without_a_signature_or_with_a_shared_key_are_refused() {
    // RFC 7515, A.1 and A.5 (RFC 7519, 3.1 and 6.1), and A.4.
    for (header, signature, named) in [
        ("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "HS256"),
        ("eyJhbGciOiJub25lIn0", "", "none"),
        ("eyJhbGciOiJFUzUxMiJ9", "AdwMgeerwtHoh", "ES512"),
    ] {
        let token = format!("{header}.{PAYLOAD}.{signature}");
        let refusal = Jws::parse(token.as_bytes()).err();
        assert_eq!(refusal, Some(TokenRefusal::Algorithm(Excerpt::of(named))));
    }
}
