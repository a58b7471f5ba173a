//! Properties that hold for any statement, checked on random ones from fixed seeds.
#![allow(clippy::indexing_slicing)] // A test file: the lints do not treat helpers of tests as tests.

use std::collections::HashMap;

use narrows_sql::{DigestOptions, Scratch, classify, digest_text, fuzz, template};

/// Xorshift: random enough to mix tokens, and the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.below(from.len())).copied().unwrap_or_default()
    }
}

/// Every byte and word that has a meaning for one of the readers.
const PIECES: &[&str] = &[
    " ",
    "  ",
    "\n",
    "\t",
    ",",
    "(",
    ")",
    ";",
    ".",
    "=",
    ":=",
    "-",
    "--",
    "-- ",
    "+",
    "*",
    "/",
    "%",
    "#",
    "@",
    "@@",
    "?",
    "'",
    "\"",
    "`",
    "\\",
    "\\'",
    "''",
    "/*",
    "/*!",
    "/*!40101 ",
    "/*M!",
    "*/",
    "\0",
    "é",
    "\u{7f}",
    "0",
    "12",
    "1.5",
    "1e-5",
    "0x1F",
    "1a",
    "_x",
    "$",
    "a",
    "t1",
    "NULL",
    "SELECT",
    "SET",
    "SESSION",
    "GLOBAL",
    "NAMES",
    "utf8",
    "USE",
    "KILL",
    "QUERY",
    "FOR",
    "UPDATE",
    "INTO",
    "OUTFILE",
    "LOCK",
    "IN",
    "SHARE",
    "WITH",
    "STATEMENT",
    "TRANSACTION",
    "ISOLATION",
    "LEVEL",
    "READ",
    "ONLY",
    "COMMIT",
    "ROLLBACK",
    "TO",
    "CHAIN",
    "RELEASE",
    "GET_LOCK",
    "count",
    "TEMPORARY",
    "CREATE",
    "hostgroup=1",
    "DEFAULT",
    "(1,2,3,4,5),",
    "...",
];

fn nonsense(random: &mut Random) -> Vec<u8> {
    let mut query = String::new();
    for _ in 0..random.below(25) {
        query.push_str(random.pick(PIECES));
    }
    let mut query = query.into_bytes();
    if random.below(8) == 0 && !query.is_empty() {
        let at = random.below(query.len());
        query.splice(at..=at, [(random.below(256)) as u8]);
    }
    query
}

fn any_options(random: &mut Random) -> DigestOptions {
    DigestOptions {
        max_query_length: [0, 1, 16, 65_000][random.below(4)],
        max_digest_length: [0, 1, 16, 2_048][random.below(4)],
        grouping_limit: random.below(4),
        groups_grouping_limit: random.below(3),
        lowercase: random.below(2) == 0,
        replace_null: random.below(2) == 0,
        no_digits: random.below(2) == 0,
        keep_comment: random.below(2) == 0,
    }
}

#[test]
fn hold_for_any_bytes() {
    let mut random = Random(0x9e37_79b9);
    let mut used = Scratch::new();
    for _ in 0..60_000 {
        let query = nonsense(&mut random);
        fuzz::digest(&query, &DigestOptions::default(), &mut used);
        fuzz::digest(&query, &any_options(&mut random), &mut used);
        fuzz::classification(&query);
        fuzz::parsers(&query);
        fuzz::comments(&query);
    }
}

/// A condition as applications write them: no signs after blanks, which ProxySQL drops step by step.
fn condition(random: &mut Random) -> String {
    let column = random.pick(&["id", "t1.name", "`k`", "f(a)", "COUNT(*)"]);
    let value = random.pick(&["1", "'x'", "NULL", "-5", "b", "\"y\"", "@v", "1.5e3", "0xFF", "NOW()"]);
    match random.below(4) {
        0 => format!("{column} IN ({})", vec![value; random.below(12) + 1].join(", ")),
        1 => format!("{column} BETWEEN {value} AND 9"),
        2 => format!("{column}={value}"),
        _ => format!("({column} = {value} OR {column} LIKE 'a%')"),
    }
}

fn statement(random: &mut Random) -> String {
    let one = condition(random);
    let two = condition(random);
    match random.below(4) {
        0 => format!("SELECT a, b1 FROM t1 AS x WHERE {one} AND {two} LIMIT 10"),
        1 => format!("/* c */ UPDATE t SET a = 1, b='x' WHERE {one} -- end"),
        2 => format!("DELETE FROM db.t WHERE {one} OR {two};"),
        _ => {
            let row = format!("({})", vec!["1"; random.below(8) + 1].join(","));
            format!("INSERT INTO t (a,b) VALUES {}", vec![row; random.below(15) + 1].join(", "))
        }
    }
}

#[test]
fn digest_of_a_digest_is_itself() {
    let mut random = Random(0x1234_5678);
    let (mut once, mut twice) = (Scratch::new(), Scratch::new());
    let options = DigestOptions::default();
    for _ in 0..20_000 {
        let query = statement(&mut random);
        let text = digest_text(query.as_bytes(), &options, &mut once);
        let again = digest_text(text, &options, &mut twice);
        assert_eq!(String::from_utf8_lossy(again), String::from_utf8_lossy(text), "{query}");
    }
}

#[test]
fn a_digest_that_is_full_is_the_beginning_of_the_whole_one() {
    let mut random = Random(0xabcd_ef01);
    let (mut cut, mut whole) = (Scratch::new(), Scratch::new());
    for _ in 0..6_000 {
        let value = |random: &mut Random| {
            random
                .pick(&["1", "'a'", "NULL", "2.5", "x", "NOW()", "-1", "_utf8'a'", "'it''s'", "0x1F", "1e5"])
        };
        let mut query = String::from("INSERT INTO t VALUES ");
        let kind = random.below(4);
        let row: Vec<&str> = (0..random.below(9) + 1).map(|_| value(&mut random)).collect();
        for _ in 0..random.below(120) + 1 {
            let other: Vec<&str> = (0..random.below(9) + 1).map(|_| value(&mut random)).collect();
            let values = if kind == 0 { &other } else { &row };
            query += &format!("({}),", values.join(if kind == 1 { ", " } else { "," }));
        }
        query += "(1,2) ON DUPLICATE KEY UPDATE a = 1";
        let mut options = any_options(&mut random);
        options.max_query_length = 65_000;
        options.max_digest_length = [16, 64, 300][random.below(3)];
        options.groups_grouping_limit = [0, 1, 10][random.below(3)];
        options.grouping_limit = [1, 3, 10][random.below(3)];
        let text = digest_text(query.as_bytes(), &options, &mut cut);
        let endless = DigestOptions { max_digest_length: usize::MAX, ..options };
        let all = digest_text(query.as_bytes(), &endless, &mut whole);
        let beginning = all.get(..options.max_digest_length).unwrap_or(all);
        assert_eq!(String::from_utf8_lossy(text), String::from_utf8_lossy(beginning), "{query} {options:?}");
    }
}

/// A text that begins as those do that have a template.
fn common(random: &mut Random) -> Vec<u8> {
    let mut text = match random.below(3) {
        0 => statement(random).into_bytes(),
        _ => {
            let first = random.pick(&["SELECT ", "insert ", "UPDATE ", "DELETE ", "REPLACE "]);
            [first.as_bytes(), &nonsense(random)].concat()
        }
    };
    text.truncate(400);
    text
}

/// The same text with other numbers and strings wherever something looks like one.
fn with_other_values(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut other = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        if byte.is_ascii_digit() {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (0..random.below(4) + 1).for_each(|_| other.push(b'0' + random.below(10) as u8));
            at += digits;
        } else if byte == b'\''
            && let Some(length) = rest[1..].iter().position(|byte| *byte == b'\'')
        {
            let value = random.pick(&[
                "",
                "y",
                "KILL 5",
                "a b, 1",
                "(1,2)",
                "é",
                "NULL",
                "-- x",
                "/* */",
                "select \"1\"",
            ]);
            other.extend_from_slice(&[b"'", value.as_bytes(), b"'"].concat());
            at += length + 2;
        } else {
            other.push(byte);
            at += 1;
        }
    }
    other
}

/// The class and the digests of a text.
fn reading(text: &[u8], options: &[DigestOptions], scratch: &mut Scratch) -> Vec<String> {
    let mut reading = vec![format!("{:?}", classify(text))];
    for options in options {
        let digest = String::from_utf8_lossy(digest_text(text, options, scratch)).into_owned();
        reading.push(format!("{digest} {}", scratch.is_cut()));
    }
    reading
}

#[test]
fn texts_with_the_same_template_are_of_one_class_and_have_one_digest() {
    let mut random = Random(0x5eed_1234);
    let mut scratch = Scratch::new();
    let mut readings: HashMap<Vec<u8>, (Vec<u8>, Vec<String>)> = HashMap::new();
    let options: Vec<DigestOptions> = (0..6)
        .map(|_| DigestOptions { max_query_length: 65_000, ..any_options(&mut random) })
        .chain([DigestOptions::default()])
        .collect();
    let mut compared = 0;
    for _ in 0..120_000 {
        let text = common(&mut random);
        for text in [with_other_values(&text, &mut random), text] {
            let mut key = Vec::new();
            if !template(&text, &mut key) {
                continue;
            }
            let found = reading(&text, &options, &mut scratch);
            match readings.get(&key) {
                None => drop(readings.insert(key, (text, found))),
                Some((before, wanted)) => {
                    let shown = |text: &[u8]| text.escape_ascii().to_string();
                    assert_eq!(&found, wanted, "{}\n{}", shown(before), shown(&text));
                    compared += usize::from(*before != text);
                }
            }
        }
    }
    assert!(compared > 20_000, "only {compared} texts were compared");
}
