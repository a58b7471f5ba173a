//! Keys that end: renewed before, kept as long as they are valid, and said when they are not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use narrows_testkit::wait_until;

use super::sources::{at_instance, instance};
use super::*;

/// Each key is valid for a few seconds, and the server does not take it afterwards.
#[test]
fn keys_are_renewed_without_a_failed_statement() {
    const LIFETIME_S: i64 = 8;
    let scene = Arc::new(Scene::new());
    let (count, server) = (AtomicUsize::new(0), Arc::clone(&scene));
    let port = instance(move || {
        let id = format!("ASIA{}", count.fetch_add(1, Ordering::SeqCst));
        let until = now() + LIFETIME_S;
        server.rds.know(key(&id, Some(until)));
        handed_out(&id, until)
    });
    let narrows = start(&at_instance(&scene, port));
    let mut client = app(&narrows);
    let (mut statements, mut used) = (0, BTreeSet::new());
    wait_until("three keys were used, and a hundred tokens", || {
        assert_eq!(client.query("DO 1").error(), None, "after {statements} statements");
        statements += 1;
        let mut attempts = scene.rds.attempts();
        let many = attempts.len() > 100;
        used.extend(attempts.pop().map(|attempt| attempt.key));
        used.len() >= 3 && many
    });
    let attempts = scene.rds.attempts();
    assert!(attempts.iter().all(|attempt| attempt.refused.is_empty()));
    println!("{statements} statements, {} tokens of {} keys", attempts.len(), used.len());
    nothing_is_shown(&narrows);
}

#[test]
fn keys_stay_in_use_while_they_cannot_be_renewed_and_their_end_is_said() {
    let scene = Arc::new(Scene::new());
    let is_down = Arc::new(AtomicBool::new(false));
    let port = instance({
        let (is_down, scene) = (Arc::clone(&is_down), Arc::clone(&scene));
        move || {
            if is_down.load(Ordering::SeqCst) {
                return r#"{"Code":"Failed"}"#.to_owned();
            }
            let until = now() + 8;
            scene.rds.know(key("ASIASHORT", Some(until)));
            handed_out("ASIASHORT", until)
        }
    });
    let narrows = start(&at_instance(&scene, port));
    let mut client = app(&narrows);
    assert_eq!(client.query("DO 1").error(), None);
    is_down.store(true, Ordering::SeqCst);
    let why = "its answer has the code Failed";
    wait_until("a renewal fails", || credentials(&narrows, "last_error").contains(why));
    assert_eq!(client.query("DO 1").error(), None, "the keys before are still valid");
    let kept = |line: &str| line.contains("AWS credentials cannot be renewed, and those before are in use: ");
    narrows.wait_for_log(0, |line| kept(line) && line.contains(why));
    wait_until("the keys have ended", || client.query("DO 1").error().is_some());
    let parts = ["the AWS credentials expired at 20", " UTC: instance metadata service", why];
    reason_is_in_the_log_alone(&narrows, &mut client, &parts);
    assert_eq!(narrows.log().lines().filter(|line| kept(line)).count(), 1, "it is logged once");
    let refused: Vec<_> = scene.rds.attempts().into_iter().filter(|it| !it.refused.is_empty()).collect();
    assert_eq!(refused, [], "no server has got a token that was over");
    is_down.store(false, Ordering::SeqCst);
    wait_until("they are renewed", || client.query("DO 1").error().is_none());
    narrows.wait_for_log(0, |line| {
        line.contains("AWS credentials for IAM tokens") && line.contains("ASIASHORT")
    });
}
