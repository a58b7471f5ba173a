//! Dry runs of query rules (`active=2`): what they would change is counted, and nothing changes. Rules for a share of clients.

use std::collections::{BTreeMap, HashMap};

use super::{Pair, heard};
use crate::prepared::Statement;
use crate::support::start;
use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Narrows, NarrowsConfig, RawClient, RealServer, command,
};

/// Rows of a query on the admin port.
fn rows(narrows: &Narrows, sql: &str) -> Vec<Vec<String>> {
    let answer = narrows.admin().query(sql);
    assert_eq!(answer.error(), None, "{sql}");
    let cells = answer.text_rows().into_iter();
    cells.map(|row| row.into_iter().map(|cell| cell.unwrap_or("NULL".to_owned())).collect()).collect()
}

const TABLE: &str = "SELECT hostgroup, dry_run_hostgroup, digest_text, decision, dry_run_decision, count_star, sample \
                     FROM stats_narrows_rules_dry_run ORDER BY digest_text, decision";

/// A figure of `SHOW NARROWS STATUS`.
fn status(narrows: &Narrows, name: &str) -> u64 {
    let found = rows(narrows, "SHOW NARROWS STATUS").into_iter().find(|row| row[0] == name);
    found.unwrap_or_else(|| panic!("no {name}"))[1].parse().expect("a number")
}

fn load(narrows: &Narrows, change: &str) {
    let mut admin = narrows.admin();
    for sql in [change, "LOAD MYSQL QUERY RULES TO RUNTIME"] {
        assert_eq!(admin.query(sql).error(), None, "{sql}");
    }
}

#[test]
fn what_a_dry_run_would_change_is_counted_by_digest_and_by_decision() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=10 match_digest=\"^SELECT who\" destination_hostgroup=1 apply=1")
        .rule("rule_id=1 active=2 match_digest=\"WHERE hot\" cache_ttl=5000 destination_hostgroup=0 apply=1")
        .rule("rule_id=2 active=2 match_pattern=\"secret\" error_msg=\"not this one\" apply=1")
        .rule("rule_id=3 active=2 match_pattern=\"^DO '(.*)'\" replace_pattern=\"DO 'x\\\\1'\"")
        .rule("rule_id=4 active=2 match_digest=\"^DO\" destination_hostgroup=0 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    for id in 0..3 {
        client.query(format!("SELECT who FROM t WHERE hot = {id}"));
    }
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"));
    client.query("UPDATE secret SET n = 1");
    client.query("DO 'a'");
    client.query("DO 1");

    let found = rows(&narrows, TABLE);
    let expected = [
        ["0", "0", "DO ?", "rewritten=no", "rewritten=yes", "1", "DO 'a'"],
        [
            "1",
            "0",
            "SELECT who FROM t WHERE hot = ?",
            "hostgroup=1, cache_ttl=NULL, cache_empty_result=NULL",
            "hostgroup=0, cache_ttl=5000, cache_empty_result=1",
            "3",
            "SELECT who FROM t WHERE hot = 0",
        ],
        [
            "0",
            "-1",
            "UPDATE secret SET n = ?",
            "hostgroup=0, error_msg=NULL",
            "hostgroup=NULL, error_msg=not this one",
            "1",
            "UPDATE secret SET n = 1",
        ],
    ];
    assert_eq!(found, expected, "`DO 1` and `SELECT who` would not change");
    let others = rows(
        &narrows,
        "SELECT username, schemaname, dry_run_rewritten, last_seen >= first_seen AND first_seen > 1700000000 \
         FROM stats_narrows_rules_dry_run WHERE digest_text = 'DO ?'",
    );
    assert_eq!(others, [["sbtest", "", "DO 'xa'", "1"]]);
    assert_eq!(heard(&pair.writer, &["UPDATE secret SET n = 1", "DO 'a'", "DO 1"]).len(), 3);
    assert_eq!(heard(&pair.reader, &["SELECT who FROM t WHERE hot = 2"]).len(), 1);
    let hits = rows(&narrows, "SELECT rule_id, hits FROM stats_mysql_query_rules");
    assert_eq!(hits, [["1", "3"], ["2", "1"], ["3", "1"], ["4", "2"], ["10", "4"]]);
    assert_eq!(status(&narrows, "Narrows_dry_run_changes"), 5);
    assert_eq!(status(&narrows, "Narrows_dry_run_overflow"), 0);
}

#[test]
fn the_table_begins_again_when_it_is_reset_and_when_rules_change() {
    let pair = Pair::start();
    let config =
        pair.config().rule("rule_id=1 active=2 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    let count = |table: &str| rows(&narrows, &format!("SELECT count_star FROM {table}"));
    for _ in 0..2 {
        client.query("SELECT who");
    }
    assert_eq!(count("stats_narrows_rules_dry_run"), [["2"]]);
    assert_eq!(count("stats_narrows_rules_dry_run_reset"), [["2"]]);
    assert!(count("stats_narrows_rules_dry_run").is_empty());
    client.query("SELECT who");
    load(&narrows, "UPDATE mysql_query_rules SET comment = comment");
    assert_eq!(count("stats_narrows_rules_dry_run"), [["1"]], "the rules are the same");
    load(&narrows, "UPDATE mysql_query_rules SET cache_ttl = 7");
    assert!(count("stats_narrows_rules_dry_run").is_empty(), "these are other rules");
    client.query("SELECT who");
    load(&narrows, "UPDATE mysql_query_rules SET active = 1");
    assert!(count("stats_narrows_rules_dry_run").is_empty());
    assert_eq!(client.query("SELECT who").cell().as_deref(), Some("reader"), "now it is in force");
    assert!(count("stats_narrows_rules_dry_run").is_empty(), "nothing is a dry run any more");
}

#[test]
fn what_has_no_room_in_the_table_is_counted() {
    let pair = Pair::start();
    let config = pair.config().variable("threads", "1").rule("rule_id=1 active=2 destination_hostgroup=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    let padding = "x".repeat(1_000);
    for number in 0..2_500 {
        client.query(format!("DO c{number}{padding}"));
    }
    let kept = rows(
        &narrows,
        "SELECT COUNT(*), SUM(count_star), MAX(LENGTH(sample)) FROM stats_narrows_rules_dry_run",
    );
    let kept: Vec<u64> = kept[0].iter().map(|cell| cell.parse().expect("a number")).collect();
    assert!((1_000..2_400).contains(&kept[0]) && kept[1] == kept[0] && kept[2] <= 1_024, "{kept:?}");
    assert_eq!(status(&narrows, "Narrows_dry_run_overflow"), 2_500 - kept[0]);
    assert_eq!(status(&narrows, "Narrows_dry_run_changes"), 2_500);
    client.query(format!("DO c0{padding}"));
    let again = rows(&narrows, "SELECT SUM(count_star) FROM stats_narrows_rules_dry_run");
    assert_eq!(again, [[(kept[0] + 1).to_string()]], "what came first is still counted");
}

#[test]
fn executions_of_prepared_statements_are_counted_and_what_preparing_alone_shows() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .server(1, server.port(), "")
        .rule("rule_id=1 active=2 match_pattern=\"^SELECT 1\" destination_hostgroup=1 apply=1")
        .rule("rule_id=2 active=2 match_pattern=\"^SELECT 2\" replace_pattern=\"SELECT 22\" apply=1")
        .rule("rule_id=3 match_pattern=\"^SELECT 3\" error_msg=\"not now\"")
        .rule("rule_id=4 active=2 match_pattern=\"^SELECT 3\" OK_msg=\"later\" apply=1")
        .rule("rule_id=5 active=2 match_pattern=\"^SELECT 4\" next_query_flagIN=7 apply=1")
        .rule("rule_id=6 active=2 flagIN=7 timeout=9000 apply=1");
    let narrows = start(&config);
    let mut client = narrows.client();
    let routed = Statement::prepare(&mut client, "SELECT 1");
    let rewritten = Statement::prepare(&mut client, "SELECT 2");
    let chained = Statement::prepare(&mut client, "SELECT 4");
    let last = Statement::prepare(&mut client, "SELECT 5");
    for _ in 0..3 {
        assert_eq!(routed.execute(&mut client, &[]).error(), None);
        assert_eq!(rewritten.execute(&mut client, &[]).error(), None);
        assert_eq!(chained.execute(&mut client, &[]).error(), None);
        assert_eq!(last.execute(&mut client, &[]).error(), None);
        assert_eq!(last.execute(&mut client, &[]).error(), None, "no longer in the chain");
    }
    assert!(Statement::try_prepare(&mut client, "SELECT 3").is_err());
    let found = rows(
        &narrows,
        "SELECT sample, decision, dry_run_decision, count_star FROM stats_narrows_rules_dry_run ORDER BY sample",
    );
    let expected = [
        ["SELECT 1", "hostgroup=0", "hostgroup=1", "3"],
        ["SELECT 2", "rewritten=no", "rewritten=yes", "1"],
        ["SELECT 5", "timeout=NULL", "timeout=9000", "3"],
    ];
    assert_eq!(found, expected, "the OK of rule 4 waits for an execution, and rule 3 refuses to prepare");
    let hits = rows(&narrows, "SELECT rule_id, hits FROM stats_mysql_query_rules WHERE rule_id IN (1, 5, 6)");
    assert_eq!(hits, [["1", "4"], ["5", "4"], ["6", "3"]], "preparing is a match too");
}

#[test]
fn explain_route_tells_what_a_dry_run_would_decide() {
    let pair = Pair::start();
    let config = pair
        .config()
        .rule("rule_id=1 match_digest=\"^SELECT\" destination_hostgroup=1")
        .rule("rule_id=2 active=2 match_digest=\"^SELECT who\" destination_hostgroup=0 cache_ttl=9 apply=1");
    let narrows = start(&config);
    let told = |text: &str| {
        let found = rows(&narrows, &format!("EXPLAIN ROUTE '{text}' AS sbtest"));
        found.into_iter().filter(|row| row[1] == "dry run").map(|row| row[2..].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(
        told("SELECT who"),
        [[
            "hostgroup=0, cache_ttl=9, cache_empty_result=1",
            "instead of hostgroup=1, cache_ttl=NULL, cache_empty_result=NULL; rules 1, 2"
        ]]
    );
    assert!(told("SELECT 1").is_empty());
    assert!(rows(&narrows, TABLE).is_empty(), "a question is not counted");
}

/// A Narrows before servers in hostgroups 0, 1 and 2 that answer everything with OK.
struct Watched {
    narrows: Narrows,
    client: RawClient,
    servers: [FakeMysql; 3],
    read: [usize; 3],
}

impl Watched {
    fn start() -> Watched {
        let servers = [0; 3].map(|_| FakeMysql::start(Conversation::new()));
        let mut config = NarrowsConfig::in_front_of(servers[0].port()).variable("threads", "1");
        for (hostgroup, server) in [1, 2].into_iter().zip(&servers[1..]) {
            config = config.server(hostgroup, server.port(), "");
        }
        let narrows = start(&config);
        let client = narrows.client();
        Watched { narrows, client, servers, read: [0; 3] }
    }

    /// Sends the statements; returns the answers, and what each server has received from clients.
    fn run(&mut self, statements: &[String]) -> (Vec<String>, [Vec<String>; 3]) {
        // A new session, which is in no chain.
        self.client = self.narrows.client();
        let answer =
            |text: &String| self.client.query(text).error().map_or("OK".to_owned(), |error| error.message);
        let answers = statements.iter().map(answer).collect();
        let mut received = [(); 3].map(|()| Vec::new());
        for (place, server) in self.servers.iter().enumerate() {
            let all = server.received();
            let fresh = all.iter().skip(self.read[place]).filter(|one| one.code == command::QUERY);
            received[place] = fresh.map(|one| one.body.clone()).collect();
            self.read[place] = all.len();
        }
        (answers, received)
    }
}

/// Random rules as rows to insert, with this value of `active` for about a half of them.
fn random_rules(seed: &mut impl FnMut(usize) -> usize) -> Vec<(usize, String)> {
    let words = ["t0", "t1", "t2", "t3", "UPDATE", "DO", "t"];
    let mut rules = Vec::new();
    for rule_id in 0..1 + seed(8) {
        let destination = ["NULL", "0", "1", "2"][seed(4)];
        let (flag_in, flag_out) = ([0, 0, 0, 4][seed(4)], ["NULL", "NULL", "4", "0"][seed(4)]);
        let error = ["NULL", "NULL", "NULL", "'refused'"][seed(4)];
        let (next, apply, log) = (["NULL", "NULL", "NULL", "4"][seed(4)], seed(2), ["NULL", "1"][seed(2)]);
        let cells = format!(
            "'{}', {destination}, {flag_in}, {flag_out}, {error}, {next}, {apply}, {log}",
            words[seed(words.len())]
        );
        let is_dry_run = seed(2);
        rules.push((is_dry_run, format!("{rule_id}, {cells}")));
    }
    rules
}

/// The statement that loads these rules, with this value of `active` for those of the dry run.
fn put(narrows: &Narrows, rules: &[(usize, String)], active: u8) {
    let row = |(is_dry_run, cells): &(usize, String)| {
        format!("({}, {cells})", if *is_dry_run == 1 { active } else { 1 })
    };
    let rows: Vec<String> = rules.iter().map(row).collect();
    assert_eq!(narrows.admin().query("DELETE FROM mysql_query_rules").error(), None);
    let columns = "active, rule_id, match_digest, destination_hostgroup, flagIN, flagOUT, error_msg, next_query_flagIN, apply, log";
    load(narrows, &format!("INSERT INTO mysql_query_rules ({columns}) VALUES {}", rows.join(", ")));
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_its_rules_do_in_force() {
    let [mut without, mut dry_run, mut in_force] = [(); 3].map(|()| Watched::start());
    let mut state = std::env::var("NARROWS_SEED").map_or(0x5eed, |seed| seed.parse().expect("a number"));
    let mut seed = move |below: usize| {
        state = u64::wrapping_mul(state, 6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut told = 0;
    for round in 0..40 {
        let rules = random_rules(&mut seed);
        put(&without.narrows, &rules, 0);
        put(&dry_run.narrows, &rules, 2);
        put(&in_force.narrows, &rules, 1);
        let kinds =
            ["UPDATE t0 SET a", "UPDATE t1 SET b", "DO t2", "DO t3 +", "DO t", "INSERT INTO t1 SET c"];
        let statements: Vec<String> =
            (0..25).map(|_| format!("{} = {}", kinds[seed(kinds.len())], seed(5))).collect();
        let before = without.run(&statements);
        assert_eq!(dry_run.run(&statements), before, "round {round}: {rules:?}");
        let (answers, received) = in_force.run(&statements);

        // How often each kind of statement went to each hostgroup, or was refused: with the rules in force, and as told.
        let later = tally(&statements, &answers, &received);
        let mut expected = tally(&statements, &before.0, &before.1);
        let changes = rows(
            &dry_run.narrows,
            "SELECT hostgroup, dry_run_hostgroup, sample, count_star FROM stats_narrows_rules_dry_run",
        );
        for change in &changes {
            let [from, to] = [0, 1].map(|column| change[column].parse::<i32>().expect("a hostgroup"));
            let count: i64 = change[3].parse().expect("a number");
            *expected.entry((kind(&change[2]), from)).or_default() -= count;
            *expected.entry((kind(&change[2]), to)).or_default() += count;
            told += count;
        }
        expected.retain(|_, count| *count != 0);
        assert_eq!(expected, later, "round {round}: {rules:#?}\n{changes:#?}");
    }
    assert!(told > 100, "{told} changes are in the table");
}

/// A statement without its value.
fn kind(text: &str) -> String {
    text.split(" = ").next().unwrap_or(text).to_owned()
}

/// How often each kind of statement was received in each hostgroup, -1 for those that were refused.
fn tally(
    statements: &[String],
    answers: &[String],
    received: &[Vec<String>; 3],
) -> BTreeMap<(String, i32), i64> {
    let mut tally = BTreeMap::new();
    let refused = statements.iter().zip(answers).filter(|(_, answer)| *answer != "OK");
    refused.for_each(|(text, _)| *tally.entry((kind(text), -1)).or_default() += 1);
    for (hostgroup, texts) in (0..).zip(received) {
        for text in texts.iter().filter(|text| statements.contains(text)) {
            *tally.entry((kind(text), hostgroup)).or_default() += 1;
        }
    }
    tally
}

#[test]
fn a_share_of_the_clients_gets_a_rule_and_explain_route_knows_which() {
    let pair = Pair::start();
    let share = "attributes=\"{\\\"share\\\":40}\"";
    let config = pair
        .config()
        .rule(&format!("rule_id=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1 {share}"));
    let narrows = start(&config);
    let mut clients: Vec<RawClient> = (0..60).map(|_| narrows.client()).collect();
    let mut answers: HashMap<String, usize> = HashMap::new();
    for client in &mut clients {
        let id = client.greeting().expect("a greeting").connection_id;
        let chosen = client.query("SELECT who").cell().expect("a name");
        for _ in 0..3 {
            assert_eq!(client.query("SELECT who").cell().as_ref(), Some(&chosen), "the same each time");
        }
        let explained = rows(&narrows, &format!("EXPLAIN ROUTE 'SELECT who' AS sbtest SessionID {id}"));
        let hostgroup = explained.iter().find(|row| row[1] == "hostgroup").expect("a hostgroup");
        assert_eq!(hostgroup[2], if chosen == "reader" { "1" } else { "0" }, "session {id}");
        *answers.entry(chosen).or_default() += 1;
    }
    assert!((8..=42).contains(&answers["reader"]), "{answers:?}");
    let rule = rows(&narrows, "EXPLAIN ROUTE 'SELECT who' AS sbtest");
    let rule =
        rule.iter().find(|row| row[1] == "rule").expect("without a session, every rule with a share counts");
    assert_eq!(rule[3], "destination_hostgroup=1, share=40, apply=1");
}
