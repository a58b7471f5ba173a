//! What is kept of the answers of servers, and for how long.

use super::*;
use crate::rows::user;
use crate::rt::block_on;
use crate::snapshot::{Rows, Snapshot};

fn template(name: &str) -> Arc<Account> {
    let rows = Rows { users: vec![user(name, "")], ..Rows::default() };
    Arc::clone(&Snapshot::compile(rows, 1, None).unwrap().users[name.as_bytes()])
}

fn variables() -> Variables {
    Variables { passthrough_auth_recheck: Duration::from_secs(3600), ..Variables::default() }
}

fn standing(found: &FoundAccounts, variables: &Variables, password: &str) -> String {
    let standing = found.standing(variables, ("app", &template("app")), &Password::new(password.as_bytes()));
    format!("{standing:?}").chars().take_while(|it| it.is_alphabetic()).collect()
}

fn confirm(found: &FoundAccounts, variables: &Variables, password: &str) -> (Arc<Account>, bool) {
    let (template, password) = (template("app"), Password::new(password.as_bytes()));
    let asked = found.to_ask(("app", &template), &found.standing(variables, ("app", &template), &password));
    found.confirmed(variables, (&asked, &template), &password)
}

#[test]
fn two_passwords_are_kept_until_a_server_refuses_them() {
    let (found, variables) = (FoundAccounts::default(), variables());
    assert!(confirm(&found, &variables, "one").1, "that is news");
    assert!(!confirm(&found, &variables, "one").1);
    confirm(&found, &variables, "two");
    let now = |it| standing(&found, &variables, it);
    assert_eq!(["one", "two", "three"].map(now), ["Confirmed", "Confirmed", "Unknown"]);
    confirm(&found, &variables, "three");
    assert_eq!(["one", "two", "three"].map(now), ["Unknown", "Confirmed", "Confirmed"]);
    found.refused(&variables, "app", "a", &Password::new(b"three"));
    assert_eq!(now("three"), "Refused");
    assert_eq!(found.limit(&variables, "app", "a"), None, "it was good before");
    assert!(found.list(&variables)[0].is_refused);
    confirm(&found, &variables, "three");
    assert_eq!(now("three"), "Confirmed", "the server has changed its mind");
    found.forget(Some("app"));
    assert_eq!(now("three"), "Unknown");
}

#[test]
fn a_refusal_elsewhere_and_time_make_a_server_be_asked_again() {
    let (found, mut variables) = (FoundAccounts::default(), variables());
    let (account, _) = confirm(&found, &variables, "one");
    account.refuse();
    assert_eq!(standing(&found, &variables, "one"), "Doubtful");
    confirm(&found, &variables, "one");
    assert_eq!(standing(&found, &variables, "one"), "Confirmed");
    variables.passthrough_auth_recheck = Duration::ZERO;
    assert_eq!(standing(&found, &variables, "one"), "Old");
    variables.passthrough_auth_cache_ttl = Duration::from_nanos(1);
    let kept = found.credentials(&variables, "app");
    assert!(kept.len() == 1 && standing(&found, &variables, "one") == "Unknown", "it is too old");
}

#[test]
fn who_has_another_password_or_one_that_was_refused_shares_nothing() {
    let (found, mut variables) = (FoundAccounts::default(), variables());
    let of = |password, variables: &Variables| confirm(&found, variables, password).0;
    let first = of("one", &variables);
    variables.passthrough_auth_recheck = Duration::ZERO;
    assert!(of("one", &variables).is_confirmed_like(&first), "it was only confirmed once more");
    let second = of("two", &variables);
    assert!(!second.is_confirmed_like(&first), "the account may be another one");
    found.refused(&variables, "app", "a", &Password::new(b"two"));
    let third = of("two", &variables);
    assert!(!third.is_confirmed_like(&second), "it may have been dropped, and created again");
    third.refuse();
    assert!(!of("two", &variables).is_confirmed_like(&third));
    assert!(Arc::ptr_eq(&third.connections, &first.connections), "all are clients of one name");
}

#[test]
fn one_login_at_a_time_asks_about_a_name_and_so_many_ask_a_hostgroup() {
    let found = FoundAccounts::default();
    block_on(async {
        let first = found.gate("app").await;
        let waits = crate::rt::timeout(Duration::from_millis(20), found.gate("app")).await;
        assert!(waits.is_err(), "one that gives up leaves the gate as it is");
        drop(found.gate("other").await);
        drop(first);
        drop(found.gate("app").await);
    })
    .unwrap();
    assert_eq!(found.with(|state| state.gates.len()), 0);
    let variables = Variables { passthrough_auth_max_inflight_probes: 1, ..variables() };
    let first = found.ask(&variables, HostgroupId(0));
    assert!(first.is_some() && found.ask(&variables, HostgroupId(0)).is_none());
    assert!(found.ask(&variables, HostgroupId(1)).is_some());
    drop(first);
    assert!(found.ask(&variables, HostgroupId(0)).is_some());
}
