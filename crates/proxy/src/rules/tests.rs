use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::*;
use crate::rows::HostgroupId;

fn question(statement: &'static str) -> Question<'static> {
    static CLIENT: LazyLock<OwnedClient> = LazyLock::new(|| OwnedClient {
        username: "app".to_owned(),
        schemaname: b"shop".to_vec(),
        client_addr: "10.1.2.3".to_owned(),
        proxy_port: 6033,
        ..OwnedClient::default()
    });
    let digest = Some((statement.as_bytes(), 0xAB));
    let query = Query { flag_in: 0, statement: statement.as_bytes(), digest };
    Question { client: CLIENT.as_client(), query }
}

/// The same question with another digest.
fn digested(statement: &'static str, digest: Option<(&'static [u8], u64)>) -> Question<'static> {
    let question = question(statement);
    Question { query: Query { digest, ..question.query }, ..question }
}

fn rule(rule_id: i64, destination: i32) -> RuleRow {
    RuleRow {
        rule_id,
        active: Activity::InForce,
        apply: true,
        re_modifiers: "CASELESS".to_owned(),
        destination_hostgroup: Some(HostgroupId(destination)),
        ..RuleRow::default()
    }
}

fn output(rules: &[RuleRow], statement: &'static str) -> (RuleOutput, Option<Vec<u8>>) {
    RuleSet::compile(rules, &[], 0).unwrap().apply(&question(statement), &mut Memory::default())
}

fn destination(rules: &[RuleRow], statement: &'static str) -> Option<i32> {
    output(rules, statement).0.destination_hostgroup.map(|group| group.0)
}

#[test]
fn the_classic_split_in_order_of_ids() {
    let mut lock = rule(1, 0);
    lock.match_digest = Some("^SELECT.*FOR UPDATE".to_owned());
    let mut read = rule(2, 1);
    read.match_digest = Some("^SELECT".to_owned());
    let rules = [read, lock];
    assert_eq!(destination(&rules, "select * from t"), Some(1));
    assert_eq!(destination(&rules, "SELECT * FROM t FOR UPDATE"), Some(0));
    assert_eq!(destination(&rules, "INSERT INTO t VALUES (?)"), None);
}

#[test]
fn every_condition_must_hold() {
    let mut only = rule(1, 7);
    only.username = Some("app".to_owned());
    only.schemaname = Some("shop".to_owned());
    only.client_addr = Some("10.1.%".to_owned());
    only.proxy_port = Some(6033);
    only.digest = Some("0xAB".to_owned());
    assert_eq!(destination(std::slice::from_ref(&only), "SELECT 1"), Some(7));
    only.schemaname = Some("Shop".to_owned());
    assert_eq!(destination(&[only], "SELECT 1"), None);
}

#[test]
fn a_flag_leads_to_the_rules_behind() {
    let mut first = rule(1, 1);
    (first.apply, first.flag_out) = (false, Some(5));
    let mut before = rule(2, 2);
    before.apply = false;
    let mut chained = rule(3, 3);
    chained.flag_in = 5;
    assert_eq!(destination(&[first, before, chained], "SELECT 1"), Some(3));
}

#[test]
fn negation_inverts_the_expressions() {
    let mut not = rule(1, 4);
    not.match_pattern = Some("^SELECT".to_owned());
    not.negate_match_pattern = true;
    assert_eq!(destination(std::slice::from_ref(&not), "SELECT 1"), None);
    assert_eq!(destination(&[not], "DELETE FROM t"), Some(4));
}

#[test]
fn an_expression_that_does_not_compile_names_its_rule_and_its_place() {
    let mut bad = rule(9, 0);
    bad.match_digest = Some("abc(".to_owned());
    let (rule_id, error) = RuleSet::compile(&[bad], &[], 0).unwrap_err();
    assert_eq!(rule_id, 9);
    assert!(error.to_string().starts_with("match_digest: at character 4: "), "{error}");
}

#[test]
fn later_rules_see_what_earlier_ones_have_rewritten() {
    let mut first = rule(1, 1);
    first.match_pattern = Some("old".to_owned());
    first.replace_pattern = Some("brand new".to_owned());
    first.apply = false;
    let mut second = rule(2, 2);
    second.match_pattern = Some("brand new".to_owned());
    let (output, rewritten) = output(&[first, second], "SELECT old");
    assert_eq!(output.destination_hostgroup, Some(HostgroupId(2)));
    assert_eq!(rewritten.as_deref(), Some(b"SELECT brand new".as_slice()));
}

#[test]
fn fast_routing_is_asked_behind_rules_unless_the_last_one_applies() {
    let row = FastRoutingRow {
        username: "app".to_owned(),
        schemaname: "shop".to_owned(),
        destination_hostgroup: HostgroupId(40),
        ..FastRoutingRow::default()
    };
    let ask = |rules: &[RuleRow]| {
        let set = RuleSet::compile(rules, std::slice::from_ref(&row), 0).unwrap();
        set.apply(&question("SELECT 1"), &mut Memory::default()).0.destination_hostgroup.map(|group| group.0)
    };
    assert_eq!(ask(&[]), Some(40));
    let mut other = rule(1, 1);
    other.match_digest = Some("^INSERT".to_owned());
    assert_eq!(ask(std::slice::from_ref(&other)), None);
    other.apply = false;
    assert_eq!(ask(std::slice::from_ref(&other)), Some(40));
    other.match_digest = None;
    assert_eq!(ask(&[other]), Some(40));
}

#[test]
fn hits_are_counted_by_rule() {
    let mut first = rule(5, 1);
    first.match_digest = Some("SELECT".to_owned());
    first.apply = false;
    let set = RuleSet::compile(&[first, rule(6, 2)], &[], 0).unwrap();
    let mut memory = Memory::default();
    for statement in ["SELECT 1", "SELECT 1", "DELETE"] {
        set.apply(&digested(statement, Some(digest_of(statement.as_bytes()))), &mut memory);
    }
    assert_eq!(memory.hits(&set).collect::<Vec<_>>(), [(5, 2), (6, 3)]);
    assert_eq!(memory.last_matched(&set).collect::<Vec<_>>(), [6]);
}

/// Evaluates every rule in turn, from its row.
struct Interpreter {
    rules: Vec<(RuleRow, Option<Regex>, Option<Regex>)>,
    iterations: u32,
}

impl Interpreter {
    fn new(rows: &[RuleRow], iterations: u32) -> Interpreter {
        let mut rows: Vec<RuleRow> =
            rows.iter().filter(|row| row.active == Activity::InForce).cloned().collect();
        rows.sort_by_key(|row| row.rule_id);
        let regex = |row: &RuleRow, pattern: &Option<String>| {
            let caseless = row.re_modifiers.contains("CASELESS");
            let build = |p: &String| RegexBuilder::new(p).unicode(false).case_insensitive(caseless).build();
            pattern.as_ref().map(|pattern| build(pattern).unwrap())
        };
        let rules = rows.into_iter().map(|row| {
            let (digest, pattern) = (regex(&row, &row.match_digest), regex(&row, &row.match_pattern));
            (row, digest, pattern)
        });
        Interpreter { rules: rules.collect(), iterations }
    }

    fn holds(
        &self,
        (row, digest, pattern): &(RuleRow, Option<Regex>, Option<Regex>),
        q: &Question<'_>,
        text: &[u8],
    ) -> bool {
        let negated = row.negate_match_pattern;
        row.is_for(&q.client)
            && q.query.digest.is_none_or(|(digest_text, hash)| {
                row.digest.as_deref().is_none_or(|wanted| wanted == format!("0x{hash:016X}"))
                    && digest.as_ref().is_none_or(|regex| regex.is_match(digest_text) != negated)
            })
            && pattern.as_ref().is_none_or(|regex| regex.is_match(text) != negated)
    }

    fn apply(&self, question: &Question<'_>) -> (Vec<i64>, Option<i32>, u32, Vec<u8>) {
        let (mut matched, mut destination, mut flag) = (Vec::new(), None, question.query.flag_in);
        let mut text = question.query.statement.to_vec();
        let mut iterations = self.iterations;
        'again: loop {
            for rule in &self.rules {
                let row = &rule.0;
                if row.flag_in != flag || !self.holds(rule, question, &text) {
                    continue;
                }
                matched.push(row.rule_id);
                destination = row.destination_hostgroup.map(|group| group.0).or(destination);
                if let (Some(to), Some(regex)) = (&row.replace_pattern, &rule.2) {
                    let to = regex::bytes::NoExpand(to.as_bytes());
                    let all = row.re_modifiers.contains("GLOBAL");
                    text = regex.replacen(&text, if all { 0 } else { 1 }, to).into_owned();
                }
                if row.apply {
                    break 'again;
                }
                if let Some(out) = row.flag_out {
                    flag = out;
                    if iterations > 0 {
                        iterations -= 1;
                        continue 'again;
                    }
                }
            }
            break;
        }
        (matched, destination, flag, text)
    }
}

const PATTERNS: &[&str] = &[
    "^SELECT",
    "FROM t1",
    "t[12]",
    "id = .",
    "^INSERT|^UPDATE",
    "(a|b)c",
    "x*",
    "FOR UPDATE$",
    r"\d+",
    "orders",
    "users",
    "select .* from users",
    "^$",
    "1",
    "(?i)T2",
    "o.*s",
];
const TEXTS: &[&str] = &[
    "SELECT 1",
    "select * from users where id = 1",
    "SELECT c FROM t1",
    "INSERT INTO t2 VALUES (1)",
    "UPDATE t1 SET a=1",
    "SELECT * FROM orders FOR UPDATE",
    "bc",
    "",
    "DELETE FROM users",
    "SELECT 5 FROM T2 -- x",
];

pub(super) fn one<T: Copy>(from: &[T]) -> T {
    from[rand::random_range(0..from.len())]
}

fn maybe<T>(one_in: u32, value: impl FnOnce() -> T) -> Option<T> {
    (rand::random_range(0..one_in) == 0).then(value)
}

fn random_rule(rule_id: i64) -> RuleRow {
    let owned = |text: &str| text.to_owned();
    let mut row = RuleRow {
        rule_id,
        active: one(&[
            Activity::Off,
            Activity::InForce,
            Activity::InForce,
            Activity::InForce,
            Activity::DryRun,
        ]),
        flag_in: maybe(3, || rand::random_range(0..3)).unwrap_or_default(),
        digest: maybe(6, || format!("0x{:016X}", digest_of(one(TEXTS).as_bytes()).1)),
        match_digest: maybe(2, || owned(one(PATTERNS))),
        match_pattern: maybe(3, || owned(one(PATTERNS))),
        negate_match_pattern: rand::random_range(0..6) == 0,
        re_modifiers: owned(one(&["CASELESS", "", "CASELESS,GLOBAL", "GLOBAL"])),
        flag_out: maybe(3, || rand::random_range(0..3)),
        destination_hostgroup: maybe(2, || HostgroupId(rand::random_range(0..50))),
        apply: rand::random_range(0..4) == 0,
        attributes: maybe(6, || owned(one(&[r#"{"share":50}"#, r#"{"share":10}"#])))
            .unwrap_or_default()
            .into(),
        ..RuleRow::default()
    };
    if row.match_pattern.is_some() {
        row.replace_pattern = maybe(3, || owned(one(&["users", "t1 FOR UPDATE", "", "7"])));
    }
    row.with_random_conditions(|| rand::random_range(0..6) == 0)
}

#[test]
fn the_compiled_rules_say_what_an_interpreter_says() {
    for round in 0..400 {
        let rows: Vec<RuleRow> = (0..rand::random_range(0..25)).map(random_rule).collect();
        let iterations = if round % 4 == 0 { 2 } else { 0 };
        let set = RuleSet::compile(&rows, &[], iterations).unwrap();
        let interpreter = Interpreter::new(&rows, iterations);
        let mut memory = Memory::default();
        for _ in 0..60 {
            let text = one(TEXTS);
            let digested = one(TEXTS).as_bytes();
            let query = Query {
                flag_in: maybe(5, || rand::random_range(0..3)).unwrap_or_default(),
                statement: text.as_bytes(),
                digest: (round % 5 > 0).then(|| digest_of(digested)),
            };
            let question = Question { client: Client::random(), query };
            let (output, rewritten) = set.apply(&question, &mut memory);
            let (matched, destination, flag, text) = interpreter.apply(&question);
            let said = (
                memory.last_matched(&set).collect::<Vec<_>>(),
                output.destination_hostgroup.map(|group| group.0),
                output.flag_out,
                rewritten.unwrap_or_else(|| question.query.statement.to_vec()),
            );
            assert_eq!(said, (matched, destination, flag, text), "{rows:#?}\n{question:?}");
        }
    }
}

/// The rows with those of the dry run in force.
fn all_in_force(rows: &[RuleRow]) -> Vec<RuleRow> {
    let in_force = |row: &RuleRow| {
        let active = if row.active.is_asked() { Activity::InForce } else { Activity::Off };
        RuleRow { active, ..row.clone() }
    };
    rows.iter().map(in_force).collect()
}

#[test]
fn a_dry_run_says_what_its_rules_say_when_they_are_in_force() {
    for round in 0..200 {
        let rows: Vec<RuleRow> = (0..rand::random_range(0..25)).map(random_rule).collect();
        let iterations = if round % 4 == 0 { 2 } else { 0 };
        let dry_run = RuleSet::compile_as(Purpose::DryRun, &rows, &[], iterations).unwrap();
        let later = RuleSet::compile(&all_in_force(&rows), &[], iterations).unwrap();
        assert!(dry_run.is_of(Purpose::DryRun, &rows, &[], iterations));
        let (mut memory, mut later_memory) = (Memory::default(), Memory::default());
        for _ in 0..60 {
            let query = Query {
                flag_in: maybe(5, || rand::random_range(0..3)).unwrap_or_default(),
                statement: one(TEXTS).as_bytes(),
                digest: Some(digest_of(one(TEXTS).as_bytes())),
            };
            let question = Question { client: Client::random(), query };
            let said = dry_run.apply(&question, &mut memory);
            assert_eq!(said, later.apply(&question, &mut later_memory), "{rows:#?}\n{question:?}");
        }
        let hits = |memory: &Memory, set: &RuleSet| memory.hits(set).collect::<Vec<_>>();
        assert_eq!(hits(&memory, &dry_run), hits(&later_memory, &later));
    }
}

#[test]
fn a_rule_with_a_share_is_for_the_same_clients_each_time() {
    let mut half = rule(1, 1);
    half.attributes = r#"{"share":50}"#.into();
    let set = RuleSet::compile(&[half, rule(2, 2)], &[], 0).unwrap();
    let mut memory = Memory::default();
    let mut ask = |session: Option<u32>| {
        let question = question("SELECT 1");
        let client = Client { session, ..question.client };
        set.apply(&Question { client, ..question }, &mut memory).0.destination_hostgroup.map(|id| id.0)
    };
    let first: Vec<_> = (0..1_000).map(|id| ask(Some(id))).collect();
    assert!((400..600).contains(&first.iter().filter(|chosen| **chosen == Some(1)).count()));
    assert_eq!(first, (0..1_000).map(|id| ask(Some(id))).collect::<Vec<_>>());
    assert_eq!(ask(None), Some(1), "a client without a session belongs to every share");
}

#[test]
fn ten_thousand_rules_are_compiled_and_asked() {
    let rows: Vec<RuleRow> = (0..10_000)
        .map(|id| RuleRow {
            match_digest: Some(format!("^SELECT .* FROM `?nothing_{id:05}`? WHERE .*$")),
            match_pattern: (id % 2 == 0).then(|| format!("[a-z]+_of_no_statement_{id}")),
            ..rule(id, 1)
        })
        .chain([rule(20_000, 7)])
        .collect();
    let set = RuleSet::compile(&rows, &[], 0).unwrap();
    assert!(set.memory_usage() < 32 << 20, "{}", set.memory_usage());
    let mut memory = Memory::default();
    let mut ask = |statement: &'static str| {
        let question = digested(statement, Some(digest_of(statement.as_bytes())));
        set.apply(&question, &mut memory).0.destination_hostgroup
    };
    assert_eq!(ask("SELECT c FROM sbtest1 WHERE id=?"), Some(HostgroupId(7)));
    assert_eq!(ask("SELECT c FROM nothing_00077 WHERE id=?"), Some(HostgroupId(1)));
}
