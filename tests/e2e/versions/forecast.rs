//! What a plan says of statements, compared with what happens to the same statements before and after it is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use narrows_testkit::{Conversation, FakeMysql, Login, Move, NarrowsConfig, RawClient};

use super::{apply, number, plan};
use crate::chaos::random::Random;
use crate::support::start;

/// The hostgroups that ran a statement, by digest, account and schema.
type Ran = BTreeMap<String, BTreeSet<String>>;

const USERS: u64 = 3;
const SCHEMAS: u64 = 3;
const TABLES: u64 = 40;
const HOSTGROUPS: u64 = 5;

fn rules(random: &mut Random) -> String {
    let mut rules = Vec::new();
    for id in 1..=random.below(12) + 1 {
        let mut rule = format!("rule_id={id} active=1");
        let mut add = |column: &str, value: String| rule.push_str(&format!(" {column}={value}"));
        match random.below(6) {
            0 => add("username", format!("\"user{}\"", random.below(USERS))),
            1 => add("schemaname", format!("\"schema{}\"", random.below(SCHEMAS))),
            2 => add("match_pattern", format!("\"table{}[0-9]? WHERE id = 1\"", random.below(4))),
            3 => add("negate_match_pattern", "1".to_owned()),
            4 => add("flagOUT", random.below(3).to_string()),
            _ => {}
        }
        add("match_digest", format!("\"table{}\"", random.below(TABLES)));
        add("flagIN", (random.below(4) / 3).to_string());
        match random.below(8) {
            0 => add("error_msg", "\"not here\"".to_owned()),
            1 => add("OK_msg", "\"done\"".to_owned()),
            _ => add("destination_hostgroup", random.below(HOSTGROUPS).to_string()),
        }
        add("apply", random.below(2).to_string());
        rules.push(format!("{{ {rule} }}"));
    }
    format!("mysql_query_rules = ( {} )\n", rules.join(", "))
}

/// Runs every statement of a list, each by the client of its account.
fn run(clients: &mut [RawClient], statements: &[(usize, String)]) {
    for (client, statement) in statements {
        clients[*client].query(statement);
    }
}

fn ran(admin: &mut RawClient) -> Ran {
    let rows = admin
        .query("SELECT digest, username, schemaname, hostgroup FROM stats_mysql_query_digest_reset")
        .text_rows();
    let mut ran = Ran::new();
    for row in rows {
        let [digest, user, schema, hostgroup] =
            [0, 1, 2, 3].map(|column| row[column].clone().unwrap_or_default());
        ran.entry(format!("{digest} {user}@{schema}")).or_default().insert(hostgroup);
    }
    ran
}

#[test]
fn a_plan_names_every_statement_that_will_run_elsewhere_and_no_other() {
    let mut random = Random::new("versions::forecast");
    let (most, rounds) = (number("NARROWS_STATEMENTS").unwrap_or(8_000), 8);
    let server = FakeMysql::start(Conversation::new().deciding(|_| Some(vec![Move::ok()])));
    let mut config = NarrowsConfig::new();
    for hostgroup in 0..HOSTGROUPS {
        config = config.server(hostgroup as i32, server.port(), "");
    }
    for user in 0..USERS {
        config = config.user(&format!("user{user}"), "x", &format!("default_hostgroup={user}"));
    }
    let narrows = start(&config);
    let who = (0..USERS).flat_map(|user| (0..SCHEMAS).map(move |schema| (user, schema)));
    let mut clients: Vec<RawClient> = who
        .map(|(user, schema)| {
            let login = Login::new(&format!("user{user}"), "x").schema(&format!("schema{schema}"));
            RawClient::open(&narrows.endpoint(), &login)
        })
        .collect();
    let count = clients.len() as u64;
    let statements: Vec<(usize, String)> = (0..most / rounds / 2)
        .map(|_| {
            let (table, id) = (random.below(TABLES), random.below(3));
            (random.below(count) as usize, format!("SELECT a FROM table{table} WHERE id = {id}"))
        })
        .collect();
    let mut admin = narrows.admin();
    let (mut moved, mut uncertain) = (0, 0);
    for round in 0..rounds {
        ran(&mut admin);
        run(&mut clients, &statements);
        let path = narrows.folder().join("wanted.cnf");
        let wanted = rules(&mut random);
        fs::write(&path, &wanted).unwrap();
        let (token, rows) = plan(&mut admin, &format!("NARROWS PLAN FILE '{}'", path.display()));
        let before = ran(&mut admin);
        apply(&mut admin, &token);
        run(&mut clients, &statements);
        let after = ran(&mut admin);
        let of = |fits: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            let rows = rows.iter().filter(|row| row[0].as_deref() == Some("statement"));
            let rows = rows.filter(|row| row[3].as_deref().is_some_and(fits));
            rows.filter_map(|row| row[1].clone()).collect()
        };
        let depends = of(&|what| what.starts_with("depends"));
        let told = of(&|what| ["hostgroup", "answer"].contains(&what));
        let differ: BTreeSet<String> = before
            .iter()
            .filter(|(key, ran)| after.get(*key) != Some(ran))
            .map(|(key, _)| key.clone())
            .collect();
        let missed: Vec<&String> =
            differ.iter().filter(|key| !told.contains(*key) && !depends.contains(*key)).collect();
        assert_eq!(missed, Vec::<&String>::new(), "round {round}: missed with\n{wanted}");
        // One answer of Narrows and another one are the same for the digests.
        let hostgroups = of(&|what| what == "hostgroup");
        let invented: Vec<&String> =
            hostgroups.iter().filter(|key| !differ.contains(*key) && !depends.contains(*key)).collect();
        assert_eq!(invented, Vec::<&String>::new(), "round {round}: invented with\n{wanted}");
        moved += differ.len();
        uncertain += depends.len();
    }
    assert!(moved > 0);
    println!(
        "{} statements: {moved} digests have moved, 0 missed, 0 invented; {uncertain} depend on the text and are said to",
        statements.len() as u64 * rounds * 2
    );
}
