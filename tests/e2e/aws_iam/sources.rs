//! Where keys come from: files, the services of instances and containers, and STS; and services that hang or lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_testkit::{WebReply, WebRequest, serve_web, serve_web_tls, wait_until};

use super::*;

const NOT_FOUND: (u16, &str) = (404, "no such path");

fn reply((status, body): (u16, &str)) -> WebReply {
    WebReply::Answer(status, body.to_owned())
}

/// A metadata service of an instance: it wants a session, and has a key until then.
pub(super) fn instance(keys: impl Fn() -> String + Send + Sync + 'static) -> u16 {
    const ROLES: &str = "GET /latest/meta-data/iam/security-credentials/";
    serve_web(move |request: &WebRequest| {
        let has_session = request.headers.contains("x-aws-ec2-metadata-token: session of tests");
        match request.line.as_str() {
            "PUT /latest/api/token" if request.headers.contains("x-aws-ec2-metadata-token-ttl-seconds: ") => {
                reply((200, "session of tests"))
            }
            ROLES if has_session => reply((200, "narrows-role\n")),
            line if has_session && line == format!("{ROLES}narrows-role") => reply((200, &keys())),
            _ => reply((401, "")),
        }
    })
}

/// The scene with the metadata service at that port.
pub(super) fn at_instance(scene: &Scene, port: u16) -> NarrowsConfig {
    scene
        .config()
        .environment("AWS_EC2_METADATA_DISABLED", "false")
        .environment("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("http://127.0.0.1:{port}"))
}

fn works(scene: &Scene, config: &NarrowsConfig, source: &str) {
    let narrows = start(config);
    assert_eq!(app(&narrows).query("DO 1").error(), None, "{source}");
    assert_eq!(credentials(&narrows, "source"), source);
    assert!(scene.rds.attempts().iter().all(|attempt| attempt.refused.is_empty()));
    nothing_is_shown(&narrows);
}

#[test]
fn keys_of_a_profile_are_used() {
    let scene = Scene::new();
    std::fs::create_dir(scene.folder.file(".aws")).expect("a new folder");
    let profile = format!(
        "[default]\naws_access_key_id = other\n[tests]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n\
         aws_session_token = {SESSION}\n"
    );
    std::fs::write(scene.folder.file(".aws").join("credentials"), profile).expect("a new folder");
    works(&scene, &scene.config().environment("AWS_PROFILE", "tests"), "profile tests");
}

#[test]
fn keys_of_an_instance_are_used() {
    let scene = Scene::new();
    let port = instance(|| handed_out(KEY, now() + 3_600));
    let source = format!("instance metadata service http://127.0.0.1:{port}");
    works(&scene, &at_instance(&scene, port), &source);
}

/// As EKS Pod Identity: the token for the service is in a file.
#[test]
fn keys_of_a_container_are_used() {
    let scene = Scene::new();
    let port = serve_web(|request: &WebRequest| {
        let has_token = request.headers.lines().any(|line| line == "authorization: token of the pod");
        match request.line.as_str() {
            "GET /v1/credentials" if has_token => reply((200, &handed_out(KEY, now() + 3_600))),
            _ => reply(NOT_FOUND),
        }
    });
    std::fs::write(scene.folder.file("token"), "token of the pod\n").expect("its folder");
    let uri = format!("http://127.0.0.1:{port}/v1/credentials");
    let config = scene.config().environment("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri).environment(
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        &scene.folder.file("token").display().to_string(),
    );
    works(&scene, &config, &format!("container service {uri}"));
}

/// As IRSA: STS exchanges the token of a service account, over TLS.
#[test]
fn keys_of_a_web_identity_are_used() {
    let scene = Scene::new();
    let certificate = scene.authority.issue("sts", &["127.0.0.1"], Validity::Current);
    let port = serve_web_tls(&certificate, |request: &WebRequest| {
        let expected = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fapp&\
                        RoleSessionName=narrows&WebIdentityToken=e.y.J%2B";
        if request.line != "POST /" || request.body != expected {
            return reply(NOT_FOUND);
        }
        let (expires, id) = (date(now() + 3_600), KEY);
        reply((
            200,
            &format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{id}</AccessKeyId>\
                 <SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>{SESSION}</SessionToken><Expiration>{expires}\
                 </Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        ))
    });
    std::fs::write(scene.folder.file("identity"), "e.y.J+").expect("its folder");
    let sts = format!("https://127.0.0.1:{port}");
    let config = scene
        .config()
        .environment("AWS_WEB_IDENTITY_TOKEN_FILE", &scene.folder.file("identity").display().to_string())
        .environment("AWS_ROLE_ARN", "arn:aws:iam::1:role/app")
        .environment("AWS_ENDPOINT_URL_STS", &sts);
    let ca = scene.folder.file("ca.pem").display().to_string();
    works(&scene, &config.clone().environment("AWS_CA_BUNDLE", &ca), &format!("web identity at {sts}"));
    // Somebody who is not STS does not get the token of the service account.
    let narrows = start(&config);
    let parts = [&*format!("web identity at {sts}: "), "certificate"];
    reason_is_in_the_log_alone(&narrows, &mut app(&narrows), &parts);
}

/// Each of them is the only source: a statement ends with its reason, in time.
#[test]
fn a_source_that_hangs_or_lies_is_named_with_its_reason() {
    let lies: [(WebReply, &str); 9] = [
        (WebReply::Hang, "no answer within 5 s"),
        (WebReply::Endless, "its answer has more than 65536 bytes, or ends too early"),
        (reply((500, SECRET)), "HTTP status 500"),
        (reply((200, "<html>")), "its answer is no JSON"),
        (
            reply((200, r#"{"Code":"AssumeRoleUnauthorizedAccess"}"#)),
            "its answer has the code AssumeRoleUnauthorizedAccess",
        ),
        (reply((200, r#"{"AccessKeyId":"A"}"#)), "its answer has no SecretAccessKey"),
        (reply((200, &handed_out("no\\nkey", now() + 60))), "its answer is wrong: the access key ID is none"),
        (reply((200, &handed_out(KEY, 1_440_938_160))), "expired at 2015-08-30 12:36:00 UTC, and it is 20"),
        (reply((200, &handed_out(KEY, now()).replace("Z\"}", "\"}"))), "no date"),
    ];
    for (lie, why) in lies {
        let scene = Scene::new();
        let port = serve_web(move |_: &WebRequest| lie.clone());
        let uri = format!("http://127.0.0.1:{port}/keys");
        let config = scene.config().environment("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri);
        let config = config.variable("connect_timeout_server_max", "20000");
        let narrows = start(&config);
        let source = format!("container service {uri}: ");
        reason_is_in_the_log_alone(&narrows, &mut app(&narrows), &[&source, why]);
        assert_eq!(scene.rds.connections(), 0);
        assert!(credentials(&narrows, "last_error").contains(why), "{why}");
        let logged =
            |line: &str| line.contains("there are no AWS credentials for IAM tokens") && line.contains(why);
        narrows.wait_for_log(0, logged);
        nothing_is_shown(&narrows);
    }
}

#[test]
fn nothing_at_all_says_what_was_looked_for() {
    let scene = Scene::new();
    let narrows = start(&scene.config());
    let why = "there are no AWS credentials: not in the environment, in no profile";
    reason_is_in_the_log_alone(&narrows, &mut app(&narrows), &[why]);
}

/// It fails, is tried again, and serves as soon as the source has keys.
#[test]
fn a_source_that_comes_up_later_is_used() {
    let scene = Scene::new();
    let is_up = Arc::new(AtomicBool::new(false));
    let port = instance({
        let is_up = Arc::clone(&is_up);
        move || if is_up.load(Ordering::SeqCst) { handed_out(KEY, now() + 3_600) } else { "{}".to_owned() }
    });
    let narrows = start(&at_instance(&scene, port));
    let mut client = app(&narrows);
    reason_is_in_the_log_alone(&narrows, &mut client, &["its answer has no AccessKeyId"]);
    is_up.store(true, Ordering::SeqCst);
    wait_until("it has keys", || client.query("DO 1").error().is_none());
    assert_eq!(credentials(&narrows, "last_error"), "");
}
