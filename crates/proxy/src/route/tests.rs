//! One statement at each step and in each state of its session, under one configuration.

use std::sync::Arc;

use super::*;
use crate::rows::server;
use crate::rules::{Activity, OwnedClient};
use crate::snapshot::{ReplicationHostgroupRow, Rows, RuleRow, UserRow};

fn user(default_hostgroup: i32) -> UserRow {
    UserRow {
        default_hostgroup: HostgroupId(default_hostgroup),
        default_schema: "shop".to_owned(),
        max_connections: 10,
        ..crate::rows::user("app", "")
    }
}

fn rule(rule_id: i64, pattern: &str) -> RuleRow {
    RuleRow {
        rule_id,
        active: Activity::InForce,
        apply: true,
        re_modifiers: "CASELESS".to_owned(),
        match_pattern: Some(pattern.to_owned()),
        ..RuleRow::default()
    }
}

/// A writer (0), its readers (1), and rules that answer, refuse and send elsewhere.
fn snapshot() -> Snapshot {
    let mut rows = Rows {
        servers: vec![server(0, "writer", 3306), server(1, "reader", 3306), server(7, "archive", 3306)],
        users: vec![user(0)],
        replication_hostgroups: vec![ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(0),
            reader_hostgroup: HostgroupId(1),
            check_type: "read_only".to_owned(),
            comment: String::new(),
        }],
        rules: vec![
            RuleRow { ok_msg: Some("done".to_owned()), ..rule(1, "answered") },
            RuleRow { error_msg: Some("not here".to_owned()), ..rule(2, "refused") },
            RuleRow { destination_hostgroup: Some(HostgroupId(7)), ..rule(3, "archive") },
        ],
        ..Rows::default()
    };
    rows.variables.auto_read_write_split = true;
    rows.variables.enable_load_data_local_infile = false;
    Snapshot::compile(rows, 1, None).unwrap()
}

/// What happens to `text`, as text.
fn way(step: Step, text: &str, change: impl FnOnce(&mut Asking<'_>)) -> String {
    way_to(step, text, None, change)
}

fn way_to(
    step: Step,
    text: &str,
    wanted: Option<HostgroupId>,
    change: impl FnOnce(&mut Asking<'_>),
) -> String {
    let snapshot = snapshot();
    let mut state = SessionState::after_login("utf8mb4", None);
    state.schema = Some(b"shop".as_slice().into());
    let client = OwnedClient { username: "app".to_owned(), ..OwnedClient::default() };
    let mut asking = Asking {
        snapshot: &snapshot,
        rules: &snapshot.rules,
        account: &snapshot.users[b"app".as_slice()],
        client: client.as_client(),
        state: &state,
        status: Status::AUTOCOMMIT,
        is_pinned: false,
    };
    change(&mut asking);
    let (mut memory, mut scratch) = (Memory::default(), Scratch::new());
    let statement = narrows_sql::classify(text.as_bytes());
    let asked = (&statement, text.as_bytes());
    let ruled = asking.ask_rules((&mut memory, &mut scratch), asked, None, 0, |_, _, _| {});
    match asking.route(&mut memory, (step, &statement, text.as_bytes()), &ruled, wanted) {
        Route::Ok(text) => format!("OK {text}"),
        Route::Refuse(errno, text) => format!("{} {text}", errno.number),
        Route::Run(hostgroup, _, options) => {
            let writer = options.writer.map_or(String::new(), |writer| format!(" or {writer}"));
            format!("{hostgroup}{writer}{}", if options.may_run_apart { " apart" } else { "" })
        }
    }
}

#[test]
fn each_step_answers_what_is_its_own_to_answer() {
    let steps = [Step::Query, Step::Prepare, Step::Execute];
    for (text, expected) in [
        ("UPDATE answered SET n = 1", ["OK done", "0", "OK done"]),
        ("UPDATE refused SET n = 1", ["1148 not here"; 3]),
        ("UPDATE t SET n = 1", ["0"; 3]),
        ("UPDATE archive SET n = 1", ["7"; 3]),
        ("SELECT n FROM t", ["1 or 0"; 3]),
        ("SELECT n FROM archive", ["7"; 3]),
        ("SELECT n FROM t FOR UPDATE", ["0"; 3]),
        ("SELECT GET_LOCK('a', 0) FROM archive", ["0"; 3]),
    ] {
        assert_eq!(steps.map(|step| way(step, text, |_| {})), expected, "{text}");
    }
}

#[test]
fn a_file_is_refused_when_the_statement_is_sent_and_a_kill_when_it_is_prepared() {
    let text = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    assert!(way(Step::Query, text, |_| {}).starts_with("1047 "));
    assert_eq!(way(Step::Prepare, text, |_| {}), "0");
    assert!(way(Step::Prepare, "KILL 5", |_| {}).starts_with("1295 "));
}

#[test]
fn a_read_is_split_off_only_outside_of_transactions_and_with_nothing_pinned() {
    let text = "SELECT n FROM t";
    assert_eq!(way(Step::Query, text, |asking| asking.is_pinned = true), "0");
    let begun = Status::AUTOCOMMIT.union(Status::IN_TRANS);
    assert_eq!(way(Step::Query, text, |asking| asking.status = begun), "0");
    assert_eq!(way(Step::Query, text, |asking| asking.status = Status::default()), "0");
}

#[test]
fn with_autocommit_off_a_read_away_from_the_writer_may_run_apart() {
    let off = |text: &str| way(Step::Query, text, |asking| asking.status = Status::default());
    assert_eq!(off("SELECT n FROM archive"), "7 apart");
    assert_eq!(off("SELECT n FROM archive FOR UPDATE"), "7");
    assert_eq!(off("UPDATE archive SET n = 1"), "7");
}

#[test]
fn who_knows_what_is_asked_comes_before_the_rules() {
    let wanted = Some(HostgroupId(1));
    assert_eq!(way_to(Step::Query, "SELECT FOUND_ROWS() FROM archive", wanted, |_| {}), "1");
    assert_eq!(way_to(Step::Query, "SELECT FOUND_ROWS() FROM refused", wanted, |_| {}), "1148 not here");
}

#[test]
fn what_has_no_rows_for_the_cache_or_no_digest_has_options_all_the_same() {
    let variables = Variables { query_cache_size: 1, ..Variables::default() };
    let output = RuleOutput {
        cache_ttl: Some(500),
        timeout: Some(0),
        delay: Some(3),
        multiplex: Some(2),
        ..RuleOutput::default()
    };
    let account = Arc::clone(&snapshot().users[b"app".as_slice()]);
    let options = Options::of(&variables, &account, &output);
    assert_eq!(options.caching.map(|caching| caching.ttl), Some(Duration::from_millis(500)));
    assert_eq!((options.timeout, options.delay), (None, Duration::from_millis(3)));
    assert!(options.keeps_multiplexing);
    assert!(Options::of(&Variables::default(), &account, &RuleOutput::default()).caching.is_none());
}

#[test]
fn a_rule_says_before_the_account_and_the_variable_whether_a_transaction_is_run_again() {
    let snapshot = snapshot();
    for (rule, of_account, variable, expected) in [
        (None, None, false, (false, "mysql-transaction_replay")),
        (None, None, true, (true, "mysql-transaction_replay")),
        (None, Some(false), true, (false, "the account")),
        (Some(true), Some(false), false, (true, "a rule")),
        (Some(false), None, true, (false, "a rule")),
    ] {
        let variables = Variables { transaction_replay: variable, ..Variables::default() };
        let user = UserRow {
            attributes: of_account
                .map(|on| format!(r#"{{"transaction_replay":{on}}}"#))
                .unwrap_or_default()
                .into(),
            ..user(0)
        };
        let rows = Rows { users: vec![user], ..Rows::default() };
        let compiled = Snapshot::compile(rows, 1, Some(&snapshot)).unwrap();
        let output = RuleOutput { transaction_replay: rule, ..RuleOutput::default() };
        let account = &compiled.users[b"app".as_slice()];
        assert_eq!(replays(&variables, account, &output), expected, "{rule:?} {of_account:?} {variable}");
        assert_eq!(Options::of(&variables, account, &output).replay, expected.0);
    }
}
