use super::*;
use crate::config::tree::Position;

/// Values without positions, so that a test reads like the file.
#[derive(Debug, PartialEq)]
enum Plain {
    Flag(bool),
    Integer(i64),
    Literal(&'static str),
    Text(&'static str),
    Group(Vec<(&'static str, Plain)>),
    List(Vec<Plain>),
}
use Plain::{Flag, Group, Integer, List, Literal, Text};

impl Plain {
    fn matches(&self, value: &NodeValue) -> bool {
        match (self, value) {
            (Flag(one), NodeValue::Flag(two)) => one == two,
            (Integer(one), NodeValue::Integer(two, _)) => one == two,
            (Literal(one), NodeValue::Literal(two)) | (Text(one), NodeValue::Text(two)) => one == two,
            (Group(one), NodeValue::Group(two)) => entries_match(one, two),
            (List(one), NodeValue::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.matches(&two.value))
            }
            _ => false,
        }
    }
}

fn entries_match(expected: &[(&str, Plain)], entries: &[Entry]) -> bool {
    expected.len() == entries.len()
        && expected
            .iter()
            .zip(entries)
            .all(|((name, plain), entry)| *name == entry.name && plain.matches(&entry.node.value))
}

fn no_includes(_: &Path) -> Result<String, String> {
    Err("no such file".to_owned())
}

fn root(text: &str) -> Vec<Entry> {
    match parse(Path::new("test.cnf"), text, &no_includes) {
        Ok(document) => document.root,
        Err(diagnostic) => panic!("{diagnostic}\n{text}"),
    }
}

fn mistake(text: &str) -> String {
    parse(Path::new("test.cnf"), text, &no_includes).expect_err("a mistake").to_string()
}

#[test]
fn reads_every_form_of_the_grammar() {
    let cases: Vec<(&str, Vec<(&str, Plain)>)> = vec![
        ("", vec![]),
        ("a = 1;", vec![("a", Integer(1))]),
        ("a : 1", vec![("a", Integer(1))]),
        ("a=1 b=2, c=3;", vec![("a", Integer(1)), ("b", Integer(2)), ("c", Integer(3))]),
        ("a=-7 b=+7", vec![("a", Integer(-7)), ("b", Integer(7))]),
        ("a=0x1F b=0XffL", vec![("a", Integer(31)), ("b", Integer(255))]),
        ("a=5L b=6LL", vec![("a", Integer(5)), ("b", Integer(6))]),
        ("a=9223372036854775807", vec![("a", Integer(i64::MAX))]),
        (
            "a=1.5 b=.5 c=1e3 d=2.",
            vec![("a", Literal("1.5")), ("b", Literal(".5")), ("c", Literal("1e3")), ("d", Literal("2."))],
        ),
        ("a=true b=FALSE", vec![("a", Flag(true)), ("b", Flag(false))]),
        (r#"a="x""#, vec![("a", Text("x"))]),
        (
            r#"a = "b" /* c */ "d" # e
            "f";"#,
            vec![("a", Text("bdf"))],
        ),
        (r#"a="\n\t\r\"\\\x41""#, vec![("a", Text("\n\t\r\"\\A"))]),
        (r#"a="\xc3\xa9""#, vec![("a", Text("é"))]),
        (r#"a="^\s*\d+\b\xZZ""#, vec![("a", Text(r"^\s*\d+\b\xZZ"))]),
        ("a=\"x\ny\"", vec![("a", Text("x\ny"))]),
        (r#"a="it's # no // comment""#, vec![("a", Text("it's # no // comment"))]),
        ("a={}", vec![("a", Group(vec![]))]),
        (
            "a={b=1 c={d=2;};}",
            vec![("a", Group(vec![("b", Integer(1)), ("c", Group(vec![("d", Integer(2))]))]))],
        ),
        ("a=()", vec![("a", List(vec![]))]),
        (
            "a=(1,\"b\",{c=1},(2))",
            vec![(
                "a",
                List(vec![Integer(1), Text("b"), Group(vec![("c", Integer(1))]), List(vec![Integer(2)])]),
            )],
        ),
        ("a=[1,2,]", vec![("a", List(vec![Integer(1), Integer(2)]))]),
        ("# x\n// y\n/* z\n = */ a=1", vec![("a", Integer(1))]),
        ("a-b*_1=1 *=2", vec![("a-b*_1", Integer(1)), ("*", Integer(2))]),
        ("truely=1", vec![("truely", Integer(1))]),
    ];
    for (text, expected) in cases {
        assert!(entries_match(&expected, &root(text)), "{text}: {:?}", root(text));
    }
}

#[test]
fn knows_where_everything_stands() {
    let entries = root("# é\n  a =\n\t\"x\";  b=2");
    let place = |at: Position| (at.line, at.column);
    assert_eq!(place(entries[0].at), (2, 3));
    assert_eq!(place(entries[0].node.at), (3, 2));
    assert_eq!(place(entries[1].at), (3, 8));
}

#[test]
fn says_what_was_expected_and_where() {
    let cases = [
        ("a", "1:2: error: expected `=` or `:` after `a`, found the end of the file"),
        ("a=", "1:3: error: expected a value, found the end of the file"),
        ("a=b", "1:3: error: expected a value, found the name `b`"),
        ("\n=1", "2:1: error: expected a name or the end of the file, found `=`"),
        ("a={b=1", "1:7: error: expected a name or `}`, found the end of the file"),
        ("a=({b=1} {b=2})", "1:10: error: expected `,` or `)`, found `{`"),
        ("a=[1 2]", "1:6: error: expected `,` or `]`, found the number 2"),
        ("a=\"x", "1:3: error: unterminated string"),
        ("/* x", "1:1: error: unterminated comment"),
        ("a=1x", "1:3: error: 1x is not a number"),
        ("a=0x", "1:3: error: 0x is not a number"),
        ("a=-", "1:3: error: - is not a number"),
        ("a=.", "1:3: error: . is not a number"),
        ("a=9223372036854775808", "1:3: error: 9223372036854775808 does not fit into 64 bits"),
        ("a='x'", "1:3: error: unexpected character '\\''"),
        ("a=\"\\xff\"", "1:3: error: this string is not UTF-8 once its \\x escapes are read"),
        ("[a]", "1:1: error: expected a name or the end of the file, found `[`"),
        ("@include x", "1:10: error: expected a file name in quotes after @include"),
        ("@include \"x\"", "1:1: error: @include x: no such file"),
    ];
    for (text, expected) in cases {
        assert_eq!(mistake(text), format!("test.cnf:{expected}"));
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("a={}{}", "(".repeat(levels), ")".repeat(levels));
    assert!(parse(Path::new("x"), &nested(DEEPEST_NESTING - 1), &no_includes).is_ok());
    assert!(mistake(&nested(DEEPEST_NESTING + 1)).contains("more than 64 levels of nesting"));
    assert!(mistake(&"a=(".repeat(1_000_000)).contains("error"));
}

#[test]
fn includes_stand_for_the_text_of_the_file() {
    let read = |path: &Path| match path.to_str() {
        Some("/etc/servers.cnf") => Ok("b=2\n@include \"sub/deep.cnf\"\n".to_owned()),
        Some("/etc/sub/deep.cnf") => Ok("c=\n3 x".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let text = "a=1\n@include \"servers.cnf\"\n=4";
    let document = parse(Path::new("/etc/proxysql.cnf"), text, &read).expect("valid");
    let names: Vec<_> = document.root.iter().map(|entry| (entry.name.as_str(), entry.at.line)).collect();
    assert_eq!(names, [("a", 1), ("b", 1), ("c", 1), ("x", 2)]);
    assert_eq!(document.files[document.root[2].at.file], Path::new("/etc/sub/deep.cnf"));
}

#[test]
fn includes_cannot_go_round_in_circles() {
    let read = |_: &Path| Ok("@include \"x\"\n@include \"x\"".to_owned());
    let problem = parse(Path::new("x"), "@include \"x\"", &read).expect_err("endless");
    assert_eq!(problem.to_string(), "x:1:1: error: more than 10 levels of @include");
}

#[test]
fn text_is_bounded() {
    let text = " ".repeat(9 << 20);
    let read = |_: &Path| Ok(" ".repeat(9 << 20));
    assert!(parse(Path::new("x"), &text, &read).is_ok());
    let problem = parse(Path::new("x"), &format!("@include \"x\"{text}"), &read).expect_err("too large");
    assert_eq!(problem.to_string(), "x:1:1: error: all files together are larger than 16 MiB");
}
