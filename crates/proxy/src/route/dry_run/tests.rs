//! Dry runs of random rules, compared with a configuration in which the same rules are in force.

use narrows_sql::Scratch;
use narrows_wire::Status;

use super::*;
use crate::rows::{server, user};
use crate::rules::{Activity, OwnedClient};
use crate::snapshot::{FastRoutingRow, ReplicationHostgroupRow, Rows, RuleRow, Snapshot, UserRow};
use crate::state::SessionState;

const TEXTS: &[&str] = &[
    "SELECT n FROM t",
    "SELECT n FROM t FOR UPDATE",
    "SELECT n FROM orders WHERE id = 5",
    "SELECT GET_LOCK('a', 0)",
    "SELECT 1; UPDATE t SET n = 1",
    "SELECT 1; SELECT 2",
    "UPDATE orders SET n = 1",
    "/* hostgroup=3 */ SELECT n FROM t",
    "/* cache_ttl=50 */ SELECT n FROM orders",
    "INSERT INTO old_t VALUES ('\\'')",
    "KILL 5",
    "LOAD DATA LOCAL INFILE 'f' INTO TABLE t",
    "",
];

fn one<T: Clone>(from: &[T]) -> T {
    from[rand::random_range(0..from.len())].clone()
}

fn maybe<T: Clone>(from: &[T]) -> Option<T> {
    (rand::random_range(0..6) == 0).then(|| one(from))
}

fn random_rule(rule_id: i64) -> RuleRow {
    let text = |text: &str| text.to_owned();
    let patterns = ["^SELECT", "orders", "UPDATE", "old_(\\w+)", "t$"].map(text);
    let hostgroups = [0, 1, 2, 3].map(HostgroupId);
    let mut row = RuleRow {
        rule_id,
        active: one(&[Activity::InForce, Activity::InForce, Activity::DryRun]),
        flag_in: maybe(&[1]).unwrap_or_default(),
        match_digest: maybe(&patterns),
        match_pattern: maybe(&patterns),
        re_modifiers: text("CASELESS"),
        flag_out: maybe(&[0, 1]),
        destination_hostgroup: maybe(&hostgroups),
        cache_ttl: maybe(&[50, 60]),
        cache_empty_result: maybe(&[true, false]),
        timeout: maybe(&[0, 100]),
        retries: maybe(&[0, 3]),
        delay: maybe(&[0, 7]),
        mirror_hostgroup: maybe(&hostgroups),
        mirror_flag_out: maybe(&[1]),
        error_msg: maybe(&[text("no"), text("never")]),
        ok_msg: maybe(&[text("done"), text("fine")]),
        multiplex: maybe(&[0, 1, 2]),
        gtid_from_hostgroup: maybe(&hostgroups),
        log: maybe(&[true, false]),
        apply: rand::random_range(0..4) == 0,
        attributes: maybe(&[text(r#"{"share":50}"#), text(r#"{"causal_reads":"user"}"#)])
            .unwrap_or_default()
            .into(),
        ..RuleRow::default()
    };
    if row.match_pattern.is_some() {
        row.replace_pattern = maybe(&[text("SELECT 9 FROM orders"), text("new_\\1")]);
    }
    row
}

/// A writer (0) with readers (1), and two others.
fn rows(rules: Vec<RuleRow>) -> Rows {
    let user = UserRow { default_schema: "shop".to_owned(), max_connections: 10, ..user("app", "") };
    let mut rows = Rows {
        servers: (0..4).map(|hostgroup| server(hostgroup, "server", 3306)).collect(),
        users: vec![user],
        replication_hostgroups: vec![ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(0),
            reader_hostgroup: HostgroupId(1),
            check_type: "read_only".to_owned(),
            comment: String::new(),
        }],
        fast_routing: vec![FastRoutingRow {
            username: "app".to_owned(),
            schemaname: "shop".to_owned(),
            flag_in: 1,
            destination_hostgroup: HostgroupId(2),
            ..FastRoutingRow::default()
        }],
        rules,
        ..Rows::default()
    };
    rows.variables.auto_read_write_split = rand::random();
    rows.variables.query_cache_size = 1 << 20;
    rows.variables.eventslog_filename = "queries".to_owned();
    rows
}

/// What happens to a statement, told without [`Decision`]; `memory` counts hits.
fn told(asking: &Asking<'_>, memory: &mut Memory, step: Step, text: &str) -> (Ruled, String) {
    let statement = narrows_sql::classify(text.as_bytes());
    let tools = (&mut *memory, &mut Scratch::new());
    let ruled = asking.ask_rules(tools, (&statement, text.as_bytes()), None, 0, |_, _, _| {});
    let runs = ruled.rewritten.clone().unwrap_or_else(|| text.as_bytes().to_vec());
    let statement = if ruled.rewritten.is_some() { narrows_sql::classify(&runs) } else { statement };
    let output = ruled.output;
    let route = match asking.route(memory, (step, &statement, &runs), &ruled, None) {
        Route::Ok(text) => format!("OK {text}"),
        Route::Refuse(errno, text) => format!("{} {text}", errno.number),
        Route::Run(hostgroup, _, options) => format!("{hostgroup} {:?} {options:?}", output.multiplex),
    };
    let mirror = (step == Step::Query).then_some((output.mirror_hostgroup, output.mirror_flag_out));
    let rewritten = ruled.rewritten.as_deref().map(String::from_utf8_lossy);
    let log = is_logged(&asking.snapshot.variables, &output);
    let told = format!("{route} {mirror:?} {rewritten:?} log {log}");
    (ruled, told)
}

#[test]
fn what_a_dry_run_tells_is_what_happens_when_its_rules_are_in_force() {
    let (mut differences, mut equal) = (0, 0);
    for _ in 0..400 {
        let rules: Vec<RuleRow> = (0..rand::random_range(1..12)).map(random_rule).collect();
        let rows = rows(rules);
        let mut later = rows.clone();
        later.rules.iter_mut().for_each(|row| row.active = Activity::InForce);
        let now = Snapshot::compile(rows, 1, None).unwrap();
        let later = Snapshot::compile(later, 1, None).unwrap();
        let dry_run = now.dry_run.as_deref();
        let state = SessionState::after_login("utf8mb4", None);
        let client = OwnedClient {
            username: "app".to_owned(),
            schemaname: b"shop".to_vec(),
            session: Some(rand::random_range(0..1_000)),
            ..OwnedClient::default()
        };
        let asking = |snapshot, rules| Asking {
            snapshot,
            rules,
            account: &now.users[b"app".as_slice()],
            client: client.as_client(),
            state: &state,
            status: Status::AUTOCOMMIT,
            is_pinned: false,
        };
        let (present, candidate) = (asking(&now, &now.rules), asking(&later, &later.rules));
        let (mut memory, mut later_memory) = (Memory::default(), Memory::default());
        let mut dry_run_memory = DryRunMemory::default();
        for _ in 0..20 {
            let (step, text) = (one(&[Step::Query, Step::Query, Step::Prepare, Step::Execute]), one(TEXTS));
            let (ruled, told_now) = told(&present, &mut memory, step, text);
            let (_, told_later) = told(&candidate, &mut later_memory, step, text);
            let Some(dry_run) = dry_run else {
                assert_eq!(told_now, told_later);
                continue;
            };
            let hits: Vec<_> = memory.hits(&now.rules).collect();
            let (other, _) = told(&asking(&now, dry_run), &mut dry_run_memory.rules, step, text);
            let statement = narrows_sql::classify(text.as_bytes());
            let may = may_differ(&statement, (&now.rules, &ruled), (dry_run, &other));
            let command = (step, &statement, text.as_bytes());
            let found =
                DryRunDifference::of(&present, dry_run, &mut dry_run_memory, command, [&ruled, &other], None);
            let texts = found.map(|found| found.texts([&now.rules, dry_run]));
            let why = || {
                format!(
                    "{text}: {texts:?}\n{told_now}\n{told_later}\n{:#?}",
                    later.rules.rows().collect::<Vec<_>>()
                )
            };
            assert_eq!(found.is_some(), told_now != told_later, "{}", why());
            assert!(may || found.is_none(), "{}", why());
            assert_eq!(
                memory.hits(&now.rules).collect::<Vec<_>>(),
                hits,
                "no hit of a rule in force is counted"
            );
            match (found, &texts) {
                (Some(found), Some([one, other])) => {
                    differences += 1;
                    assert_ne!(one, other, "{}", why());
                    let [hostgroup, other] = found.hostgroups().map(|hostgroup| format!("{hostgroup} "));
                    assert!(hostgroup == "-1 " || told_now.starts_with(&hostgroup), "{}", why());
                    assert!(other == "-1 " || told_later.starts_with(&other), "{}", why());
                }
                _ => equal += 1,
            }
        }
    }
    assert!(differences > 500 && equal > 500, "{differences} differences, {equal} equal");
}
