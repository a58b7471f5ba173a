//! What is found, by what nodes say and by time.

use super::*;

fn node(name: &str) -> Address {
    Address { hostname: name.to_owned(), port: 3306 }
}

fn roster(members: &[&str], own: Option<&str>) -> Roster {
    Roster {
        members: Some(members.iter().map(|name| node(name)).collect()),
        own: own.map(node),
        writer: None,
    }
}

/// What is found after these nodes have said this, if `a` is configured.
fn after(before: &Found, said: &[(&str, Roster, bool)], now: Instant) -> Found {
    let names: Vec<Address> = said.iter().map(|(name, ..)| node(name)).collect();
    let rosters = names.iter().zip(said).map(|(name, (_, roster, is_believed))| (name, roster, *is_believed));
    before.after(&Statements { configured: BTreeSet::from([node("a")]), rosters: rosters.collect() }, now)
}

fn names(found: &Found) -> Vec<String> {
    let name = |(address, presence): (&Address, Presence)| match presence {
        Presence::Named => address.hostname.clone(),
        Presence::Missing(_) => format!("-{}", address.hostname),
    };
    found.nodes().map(name).collect()
}

#[test]
fn who_is_named_by_a_node_that_works_is_found_and_who_is_configured_is_not() {
    let now = Instant::now();
    let empty = Found::default();
    let found = after(&empty, &[("a", roster(&["a", "b", "c"], None), true)], now);
    assert_eq!(names(&found), ["b", "c"]);
    assert_eq!(names(&after(&empty, &[("a", roster(&["b"], None), false)], now)), [""; 0], "it is out");
    let alias = roster(&["10.0.0.1", "b"], Some("10.0.0.1"));
    assert_eq!(names(&after(&empty, &[("a", alias.clone(), true)], now)), ["b"], "it is a by another name");
    assert_eq!(names(&after(&found, &[("a", alias, false)], now)), ["b", "c"], "nobody can tell");
    let both = [("a", roster(&["b"], None), true), ("b", roster(&["b", "d"], None), true)];
    assert_eq!(names(&after(&empty, &both, now)), ["b", "d"], "a node that was found names others");
}

#[test]
fn who_is_no_longer_named_goes_after_a_while_and_who_is_named_again_stays() {
    let start = Instant::now();
    let found = after(&Found::default(), &[("a", roster(&["b", "c"], None), true)], start);
    let without = [("a", roster(&["b"], None), true)];
    let missing = after(&found, &without, start);
    assert_eq!(names(&missing), ["b", "-c"]);
    assert_eq!(missing.again(), Some(start + FAREWELL));
    assert_eq!(missing.arrivals(&found).collect::<Vec<_>>(), [(node("c"), Arrival::Left)]);
    let later = start + FAREWELL - Duration::from_secs(1);
    assert_eq!(names(&after(&missing, &without, later)), ["b", "-c"]);
    let back = after(&missing, &[("a", roster(&["b", "c"], None), true)], later);
    assert_eq!(back.arrivals(&missing).collect::<Vec<_>>(), [(node("c"), Arrival::Came)]);
    assert_eq!(names(&after(&missing, &without, start + FAREWELL)), ["b"]);
}

#[test]
fn a_node_that_names_a_thousand_others_finds_some_and_displaces_none() {
    let now = Instant::now();
    let found = after(&Found::default(), &[("a", roster(&["zz"], None), true)], now);
    let many: Vec<String> = (0..1000).map(|number| format!("n{number}")).chain(["zz".to_owned()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let after = after(&found, &[("a", roster(&many, None), true)], now);
    assert_eq!((after.nodes().count(), after.left_out), (MOST_FOUND, 1001 - MOST_FOUND));
    assert_eq!(after.presence(&node("zz")), Some(Presence::Named));
}

#[test]
fn only_names_of_hosts_are_taken() {
    let long = "x".repeat(254);
    for text in ["", "a b", "a\nb", "a'b", "a;b", "a/b", "a..b", "é", "\u{7}", long.as_str()] {
        assert!(!is_host_name(text), "{text:?}");
    }
    for text in ["a", "db-1.example.org", "10.0.0.1", "fd00::1", "a_b"] {
        assert!(is_host_name(text), "{text:?}");
    }
    assert_eq!(
        read_address("[fd00::1]:3307").map(|it| (it.hostname, it.port)),
        Some(("fd00::1".to_owned(), 3307))
    );
    assert_eq!(read_address("db1:3306"), Some(node("db1")));
    for text in ["AUTO", "", "db1", "db1:", "db1:0", "db1:99999", ":3306", "a b:3306"] {
        assert_eq!(read_address(text), None, "{text:?}");
    }
}
