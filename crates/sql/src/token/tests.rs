//! Texts and their tokens.

use super::*;

fn tokens(text: &str) -> Vec<(TokenKind, String)> {
    let mut lexer = Lexer::new(text.as_bytes(), Escapes::Backslash);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return tokens;
        }
        tokens.push((token.kind, String::from_utf8_lossy(token.text).into_owned()));
    }
}

fn texts(text: &str) -> Vec<String> {
    tokens(text).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn keeps_strings_whole_whatever_they_hold() {
    assert_eq!(texts(r"a'it''s'b"), ["a", "'it''s'", "b"]);
    assert_eq!(texts(r"'it\'s; -- @x' ;"), [r"'it\'s; -- @x'", ";"]);
    assert_eq!(texts(r#""a""b" 'a\\' c"#), [r#""a""b""#, r"'a\\'", "c"]);
    assert_eq!(texts("`a``b`.c"), ["`a``b`", ".", "c"]);
}

#[test]
fn skips_plain_comments_and_opens_executable_ones() {
    assert_eq!(texts("a/* ' */b -- ' \nc # '\nd"), ["a", "b", "c", "d"]);
    assert_eq!(texts("/*!40101 SET a */ b"), ["SET", "a", "b"]);
    assert_eq!(texts("/*M!100100 SET */*/"), ["SET", "*", "/"]);
    assert_eq!(texts("/*! a /* b */ c */ d"), ["a", "c", "d"]);
    assert_eq!(texts("1--1"), ["1", "-", "-", "1"]);
    assert_eq!(texts("a--"), ["a"]);
}

#[test]
fn reads_variables_with_their_scope() {
    assert_eq!(
        tokens("@a.b @'x y' @@session.`sql_mode` @@x"),
        [
            (TokenKind::UserVariable, "@a.b".to_owned()),
            (TokenKind::UserVariable, "@'x y'".to_owned()),
            (TokenKind::SystemVariable, "@@session.`sql_mode`".to_owned()),
            (TokenKind::SystemVariable, "@@x".to_owned()),
        ]
    );
}

#[test]
fn reports_what_is_odd() {
    let odd = |text: &str| {
        let mut lexer = Lexer::new(text.as_bytes(), Escapes::Backslash);
        while lexer.next().kind != TokenKind::End {}
        lexer.oddities
    };
    assert!(odd("'abc").unterminated);
    assert!(odd("/* abc").unterminated);
    assert!(odd(r"'a\").unterminated);
    assert!(odd(r"'a\'b'").escaped_quote);
    assert!(!odd(r"'a\\'").escaped_quote);
    assert!(odd("/*!x*/").executable_comment);
}

#[test]
fn reads_comments_of_versions_in_both_ways() {
    let skipped = |text: &str| {
        let mut lexer = Lexer::with(text.as_bytes(), Escapes::Backslash, Versions::Skip);
        let words = std::iter::from_fn(|| Some(lexer.next()).filter(|it| it.kind != TokenKind::End));
        words.map(|token| String::from_utf8_lossy(token.text).into_owned()).collect::<Vec<_>>()
    };
    for (text, run, skip) in [
        ("a /*!99999 b */ c", &["a", "b", "c"][..], &["a", "c"][..]),
        ("a /*M! b */ c", &["a", "b", "c"], &["a", "c"]),
        ("a /*!50700b */ c", &["a", "b", "c"], &["a", "c"]),
        ("a /*!050000 b */ c", &["a", "b", "c"], &["a", "c"]),
        ("a /*!50699 b */ c", &["a", "b", "c"], &["a", "b", "c"]),
        ("a /*!1234 b */ c", &["a", "1234", "b", "c"], &["a", "1234", "b", "c"]),
    ] {
        assert_eq!((texts(text), skipped(text)), (own(run), own(skip)), "{text}");
    }
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn is_unsure_where_two_readings_are_not_enough() {
    let unsure = |text: &[u8]| {
        let mut lexer = Lexer::new(text, Escapes::Backslash);
        while lexer.next().kind != TokenKind::End {}
        lexer.oddities.unsure
    };
    for text in [
        &b"a /*!99999 ' */ b -- '"[..],
        b"a /*!99999 # */ b",
        b"a /*!99999 -- */ b",
        b"a /*!99999 /* */ b */",
        b"a /*!99999 b",
        b"/*!99999 a */ /*!50700 b */",
        b"/*! /*!99999 a */ */",
        b"a --\xA0b",
    ] {
        let text = String::from_utf8_lossy(text).replace("\\xA0", "\u{a0}");
        assert!(unsure(text.as_bytes()), "{text}");
    }
    for text in ["a /*!99999 'b' */ c", "/*!40101 ' */ b -- '", "a -- \u{a0}", "/*!80016 x='N' */"] {
        assert!(!unsure(text.as_bytes()), "{text}");
    }
}

#[test]
fn reads_strings_without_escapes_when_told() {
    let mut lexer = Lexer::new(br"'a\' b", Escapes::None);
    assert_eq!(lexer.next().text, br"'a\'");
    assert_eq!(lexer.next().text, b"b");
}
