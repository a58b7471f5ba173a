//! Random pairs of configurations: a plan is applied and taken back, and every layer is what it would be if an operator had typed it.

use std::fs;

use super::generated::Generated;
use super::{all_layers, apply, differences, layers, newest_version, number, plan};
use crate::chaos::random::Random;
use crate::support::start;
use narrows_testkit::{Narrows, NarrowsConfig, RawClient};

#[test]
fn a_plan_gives_what_an_operator_would_have_typed_and_the_way_back_is_exact() {
    let pairs = number("NARROWS_CONFIG_PAIRS").unwrap_or(40);
    let mut random = Random::new("versions::random");
    let (narrows, typed) = (start(&NarrowsConfig::new()), start(&NarrowsConfig::new()));
    let (mut admin, mut other) = (narrows.admin(), typed.admin());
    enact(&mut admin, &narrows, &Generated::new(&mut random));
    for pair in 0..pairs {
        let what = format!("pair {pair}");
        let before = (all_layers(&mut admin), newest_version(&mut admin));
        let wanted = Generated::new(&mut random);
        let rows = enact(&mut admin, &narrows, &wanted);
        let after = (all_layers(&mut admin), newest_version(&mut admin));
        for statement in wanted.statements() {
            other.query(&statement).ok().expect(&statement);
        }
        // Where clients and administrators connect is each one's own.
        let own = |mut layers: super::Layers| {
            layers
                .values_mut()
                .for_each(|rows| rows.retain(|row| !row.contains("ifaces") && !row.contains("interfaces")));
            layers
        };
        let expected = own(all_layers(&mut other));
        assert_eq!(differences(&expected, &own(after.0.clone())), Vec::<String>::new(), "{what}");
        // The plan has named every row of memory that is another one now, and no other.
        let planned = rows.iter().filter(|row| row[0].as_deref() == Some("change")).count();
        let memory = |all: &super::Layers| -> super::Layers {
            all.iter()
                .filter(|(name, _)| name.starts_with("main."))
                .map(|(n, r)| (n.clone(), r.clone()))
                .collect()
        };
        let changed = differences(&memory(&before.0), &memory(&after.0)).len();
        assert_eq!(planned == 0, changed == 0, "{what}: {rows:?}");
        if planned == 0 {
            continue;
        }
        assert_eq!(after.1, before.1 + 1, "{what}");
        let statement = format!("NARROWS ROLLBACK TO {}", before.1);
        admin.query(&statement).ok().expect(&statement);
        assert_eq!(differences(&before.0, &all_layers(&mut admin)), Vec::<String>::new(), "{what}: back");
        let same = format!(
            "SELECT count(DISTINCT checksum) FROM disk.narrows_config_history WHERE version IN ({}, {})",
            before.1,
            after.1 + 1
        );
        assert_eq!(admin.query(&same).cell().as_deref(), Some("1"), "{what}: the history");
        // And on from there, half of the time.
        if pair % 2 == 0 {
            let forth = format!("NARROWS ROLLBACK TO {}", after.1);
            admin.query(&forth).ok().expect(&forth);
            assert_eq!(differences(&after.0, &all_layers(&mut admin)), Vec::<String>::new(), "{what}: forth");
        }
    }
    let drift = admin.query("SHOW NARROWS DRIFT").text_rows();
    assert_eq!(drift, Vec::<Vec<Option<String>>>::new());
    assert!(!layers(&mut admin, &["disk."]).is_empty());
    println!("{pairs} pairs, {} versions", newest_version(&mut admin));
}

/// Plans a configuration from a file, and applies it; returns the rows of the plan.
pub fn enact(admin: &mut RawClient, narrows: &Narrows, wanted: &Generated) -> Vec<Vec<Option<String>>> {
    let path = narrows.folder().join("wanted.cnf");
    fs::write(&path, wanted.file()).unwrap();
    let (token, rows) = plan(admin, &format!("NARROWS PLAN FILE '{}'", path.display()));
    apply(admin, &token);
    rows
}
