//! Servers that cannot be asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, RealServer, ServerOptions};

use super::{config, log_in, refusal};
use crate::support::start;

#[test]
fn who_is_known_goes_on_while_the_server_is_down_and_others_are_told_what_cannot_be_asked() {
    for flavour in Flavour::both() {
        let mut server = ServerOptions::new(flavour).account("pt_known", "one").start();
        let config = config(server.port()).variable("passthrough_auth_recheck_ms", "100");
        let narrows = start(&config.variable("connect_timeout_server", "500"));
        log_in(&narrows, "pt_known", "one").expect("it exists");
        server.kill();
        let (code, text) = refusal(&narrows, "pt_other", "one");
        assert_eq!(code, 9001, "{flavour:?} {text}");
        let told =
            "The password of 'pt_other' cannot be checked by hostgroup 0: no server answers within 500 ms";
        assert!(text.starts_with(told) && !text.contains("127.0.0.1"), "{flavour:?} {text}");
        log_in(&narrows, "pt_known", "one").expect("its password is known");
        assert_eq!(refusal(&narrows, "pt_known", "two").0, 9001, "{flavour:?}");
        server.restart();
        log_in(&narrows, "pt_other", "one").expect_err("the server says no");
        log_in(&narrows, "pt_known", "one").expect("the server says so");
    }
}

/// Eight clients log in for five seconds to a server that is there, and sixteen to one that is not.
#[test]
fn a_thousand_logins_a_second_go_on_while_another_server_is_down() {
    let server = RealServer::shared(Flavour::MariaDb);
    let mut gone = ServerOptions::new(Flavour::MariaDb).account("pt_gone", "one").start();
    let accounts: Vec<String> =
        (0..20).map(|it| format!("CREATE USER IF NOT EXISTS pt_up{it}@'%' IDENTIFIED BY 'one'")).collect();
    server.execute(&accounts.iter().map(String::as_str).collect::<Vec<_>>());
    let like = r#"attributes="{\"usernames_like\":\"pt_gone%\"}" default_hostgroup=7"#;
    let config = config(server.port()).variable("passthrough_auth_recheck_ms", "1000");
    let narrows = start(&config.server(7, gone.port(), "").user("gone", "", like));
    log_in(&narrows, "pt_gone", "one").expect("it exists");
    for number in 0..20 {
        log_in(&narrows, &format!("pt_up{number}"), "one").expect("it exists");
    }
    gone.kill();
    narrows.admin().query("SET mysql-connect_timeout_server = 1000");
    narrows.admin().query("LOAD MYSQL VARIABLES TO RUNTIME");
    let (up, known, told) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let ends = began + Duration::from_secs(5);
    std::thread::scope(|scope| {
        let (up, known, told, narrows) = (&up, &known, &told, &narrows);
        for thread in 0..24 {
            scope.spawn(move || {
                let mut number = thread;
                while Instant::now() < ends {
                    number += 1;
                    match thread % 3 {
                        0 => {
                            log_in(narrows, &format!("pt_up{}", number % 20), "one")
                                .expect("its server is there");
                            up.fetch_add(1, Ordering::Relaxed);
                        }
                        1 => {
                            log_in(narrows, "pt_gone", "one").expect("it is known");
                            known.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            let (code, text) = refusal(narrows, &format!("pt_gone{number}"), "one");
                            assert!(code == 9001 && text.contains("hostgroup 7"), "{code} {text}");
                            told.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let (up, known, told) = (count(&up), count(&known), count(&told));
    println!(
        "in {:?}: {up} logins to the server that is there, {known} known ones, {told} got the error",
        began.elapsed()
    );
    assert!(up > 8 && known > 8 && told > 8, "{up} {known} {told}");
}
