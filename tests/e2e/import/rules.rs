//! A thousand generated rules: after an import, EXPLAIN ROUTE says of a thousand statements what an interpreter of the
//! rules says that knows nothing of Narrows.

use std::fmt::Write;
use std::fs;

use narrows_testkit::{Endpoint, Narrows, NarrowsConfig, TempFolder};
use regex::RegexBuilder;

use super::public::hostgroup_of;
use super::{BINARY, carried_over, report, start};

const RULES: u64 = 1000;
const STATEMENTS: u64 = 1000;

/// A rule; a condition that is not there is met by all.
#[derive(Debug, Clone, Default)]
struct Rule {
    id: u64,
    active: bool,
    username: Option<&'static str>,
    schema: Option<String>,
    flag_in: u64,
    client: Option<&'static str>,
    digest: Option<String>,
    pattern: Option<String>,
    negated: bool,
    flag_out: Option<u64>,
    destination: Option<u64>,
    apply: bool,
}

/// A statement, and who sends it.
#[derive(Debug)]
struct Question {
    text: String,
    /// Its text without its values, which follows from how it is made.
    digest: String,
    username: &'static str,
    schema: String,
    client: &'static str,
}

const USERS: [(&str, u64); 3] = [("web", 0), ("report", 1), ("batch", 2)];
const CLIENTS: [&str; 4] = ["10.0.0.1", "10.0.1.7", "10.1.0.1", "192.168.7.9"];

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // The steps of xorshift64, by Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn sometimes<T>(&mut self, one_in: u64, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.below(one_in) == 0).then(|| make(self))
    }
}

fn rules(dice: &mut Dice) -> Vec<Rule> {
    let expression = |dice: &mut Dice| {
        let table = dice.below(60);
        match dice.below(5) {
            0 => format!("^SELECT .* FROM t{table} "),
            1 => format!("t{table} WHERE id"),
            2 => format!("^(UPDATE|DELETE FROM) t{table}\\b"),
            3 => format!("^select c[{}-9]+ from t{table}\\D", dice.below(9)),
            _ => format!("c{table}\\D"),
        }
    };
    let rule = |id: u64, dice: &mut Dice| Rule {
        id: id * 10,
        active: dice.below(12) > 0,
        username: dice.sometimes(4, |dice| dice.one(&USERS).0),
        schema: dice.sometimes(5, |dice| format!("shard_{}", dice.below(4))),
        flag_in: dice.sometimes(2, |dice| dice.below(4)).unwrap_or(0),
        client: dice.sometimes(6, |dice| dice.one(&["10.0.0.1", "10.0.%", "10.1.%", "192.168.7.9"])),
        digest: dice.sometimes(2, expression),
        pattern: dice.sometimes(3, expression),
        negated: false,
        flag_out: dice.sometimes(4, |dice| 1 + dice.below(3)),
        destination: dice.sometimes(2, |dice| dice.below(20)),
        apply: dice.below(2) == 0,
    };
    let mut rules: Vec<Rule> = (1..=RULES).map(|id| rule(id, dice)).collect();
    for rule in &mut rules {
        // Without an expression a rule would end nearly every walk, and so would most negated ones.
        if rule.digest.is_none() && rule.pattern.is_none() {
            rule.digest = Some(expression(dice));
        }
        rule.negated = rule.flag_in > 0 && rule.username.is_some() && dice.below(6) == 0;
    }
    rules
}

fn questions(dice: &mut Dice) -> Vec<Question> {
    let question = |dice: &mut Dice| {
        let (table, column, value) = (dice.below(60), dice.below(60), dice.below(100_000));
        let text = match dice.below(4) {
            0 => format!("UPDATE t{table} SET c{column} = {value} WHERE id = {value}"),
            1 => format!("DELETE FROM t{table} WHERE c{column} = {value}"),
            _ => format!("SELECT c{column} FROM t{table} WHERE id = {value}"),
        };
        let digest = text.replace(&format!("= {value}"), "= ?");
        let (username, client) = (dice.one(&USERS).0, dice.one(&CLIENTS));
        Question { digest, username, schema: format!("shard_{}", dice.below(5)), client, text }
    };
    (0..STATEMENTS).map(|_| question(dice)).collect()
}

/// The hostgroup of a statement: the rules in the order of their ids, once.
fn interpret(rules: &[Rule], question: &Question) -> u64 {
    let fits = |expression: &Option<String>, text: &str, negated: bool| {
        expression.as_ref().is_none_or(|expression| {
            let compiled =
                RegexBuilder::new(expression).case_insensitive(true).build().expect("an expression");
            compiled.is_match(text) != negated
        })
    };
    let is_from = |client: &str| match client.strip_suffix('%') {
        Some(beginning) => question.client.starts_with(beginning),
        None => question.client == client,
    };
    let mut flag = 0;
    let mut destination = USERS.iter().find(|(name, _)| *name == question.username).expect("a user").1;
    for rule in rules.iter().filter(|rule| rule.active) {
        let is_met = rule.flag_in == flag
            && rule.username.is_none_or(|name| name == question.username)
            && rule.schema.as_ref().is_none_or(|schema| *schema == question.schema)
            && rule.client.is_none_or(is_from)
            && fits(&rule.digest, &question.digest, rule.negated)
            && fits(&rule.pattern, &question.text, rule.negated);
        if !is_met {
            continue;
        }
        flag = rule.flag_out.unwrap_or(flag);
        destination = rule.destination.unwrap_or(destination);
        if rule.apply {
            break;
        }
    }
    destination
}

/// The inside of a row of `proxysql.cnf`.
fn row(rule: &Rule) -> String {
    let mut row = format!("rule_id={} active={} flagIN={}", rule.id, u8::from(rule.active), rule.flag_in);
    let mut text = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            write!(row, " {name}=\"{}\"", value.replace('\\', "\\\\"))
                .expect("writing to a String cannot fail");
        }
    };
    text("username", rule.username);
    text("schemaname", rule.schema.as_deref());
    text("client_addr", rule.client);
    text("match_digest", rule.digest.as_deref());
    text("match_pattern", rule.pattern.as_deref());
    for (name, number) in [("flagOUT", rule.flag_out), ("destination_hostgroup", rule.destination)] {
        if let Some(number) = number {
            write!(row, " {name}={number}").expect("writing to a String cannot fail");
        }
    }
    let (negated, apply) = (u8::from(rule.negated), u8::from(rule.apply));
    row + &format!(" negate_match_pattern={negated} apply={apply}")
}

#[test]
fn a_thousand_rules_route_a_thousand_statements_as_they_say() {
    let mut dice = Dice(0x6e61_7272_6f77_7301);
    let (rules, questions) = (rules(&mut dice), questions(&mut dice));
    let mut config = NarrowsConfig::new().server(0, 1, "");
    for (name, hostgroup) in USERS {
        config = config.user(name, "of-all", &format!("default_hostgroup={hostgroup}"));
    }
    for rule in &rules {
        config = config.rule(&row(rule));
    }
    let folder = TempFolder::new("import");
    fs::write(folder.file("proxysql.cnf"), config.text("127.0.0.1:6033", "127.0.0.1:6032")).expect("a file");
    let of_file = report(folder.path(), &["proxysql.cnf", "--output", "of-file.toml"]);
    // The same rules from an admin port.
    let source = Narrows::start(BINARY, &config);
    let Endpoint::Tcp(address) = source.admin_endpoint() else { panic!("a port") };
    let from = ["--from", &address.to_string(), "--password", "admin", "--output", "of-port.toml"];
    let of_port = report(folder.path(), &from);
    drop(source);
    for said in [&of_file, &of_port] {
        assert!(carried_over(said).contains(&("mysql_query_rules".to_owned(), RULES)), "{said}");
    }
    let rules_of = |name: &str| {
        let text = fs::read_to_string(folder.file(name)).expect("a file");
        let at = text.find("[[mysql_query_rules]]").expect("rules");
        (text[at..].to_owned(), text)
    };
    let (of_port, (of_file, toml)) = (rules_of("of-port.toml").0, rules_of("of-file.toml"));
    assert_eq!(of_file, of_port, "both ways give the same rules");
    let narrows = start(&toml);
    let mut admin = narrows.admin();
    let mut hostgroups = std::collections::BTreeMap::<u64, u32>::new();
    for question in &questions {
        let expected = interpret(&rules, question);
        let client =
            format!("AS {} SCHEMA {} client_addr {}", question.username, question.schema, question.client);
        let found = hostgroup_of(&mut admin, &question.text, &client);
        assert_eq!(found, expected.to_string(), "{question:?}");
        *hostgroups.entry(expected).or_default() += 1;
    }
    assert!(hostgroups.len() > 15, "the rules decide little: {hostgroups:?}");
    let most = hostgroups.values().max().copied().unwrap_or(0);
    assert!(most < 600, "the rules decide little: {hostgroups:?}");
}
