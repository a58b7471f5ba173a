use super::*;

fn one(query: &str) -> Assignment {
    let mut assignments = parse(query.as_bytes()).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(assignments.len(), 1, "{query}");
    assignments.remove(0)
}

fn system(scope: Scope, name: &str, value: Value) -> Assignment {
    Assignment::System { scope, name: name.to_owned(), value }
}

fn session(name: &str, value: Value) -> Assignment {
    system(Scope::Session, name, value)
}

fn user(name: &str, value: Value) -> Assignment {
    Assignment::User { name: name.to_owned(), value }
}

fn number(text: &str) -> Value {
    Value::Number(text.to_owned())
}

fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn expression(text: &str) -> Value {
    Value::Expression(text.as_bytes().to_vec())
}

#[test]
fn reads_system_variables_in_every_scope() {
    for (query, scope) in [
        ("SET autocommit=0", Scope::Session),
        ("set SESSION autocommit = 0;", Scope::Session),
        ("SET LOCAL autocommit=0", Scope::Session),
        ("SET @@autocommit=0", Scope::Session),
        ("SET @@session.autocommit := 0 ; ", Scope::Session),
        ("SET @@LOCAL.AutoCommit=0", Scope::Session),
        ("SET `autocommit`=0", Scope::Session),
        ("SET @@`autocommit`=0", Scope::Session),
        ("/*!40101 SET autocommit=0 */", Scope::Session),
        ("/* x */ SET -- y\n autocommit=0 # z", Scope::Session),
        ("SET GLOBAL autocommit=0", Scope::Global),
        ("SET @@global.autocommit=0", Scope::Global),
        ("SET PERSIST autocommit=0", Scope::Persist),
        ("SET @@PERSIST_ONLY.autocommit=0", Scope::PersistOnly),
    ] {
        assert_eq!(one(query), system(scope, "autocommit", number("0")), "{query}");
    }
}

#[test]
fn reads_every_form_of_value() {
    for (written, value) in [
        ("1", number("1")),
        ("-1", number("-1")),
        ("- 1", number("-1")),
        ("+1", number("1")),
        ("1.5", number("1.5")),
        (".5", number(".5")),
        ("1e-5", number("1e-5")),
        ("0x1F", number("0x1F")),
        ("ON", word("ON")),
        ("`utf8`", word("utf8")),
        ("DEFAULT", Value::Default),
        ("null", Value::Null),
        ("'a''b\\'c'", text("a'b'c")),
        ("\"\"", text("")),
        ("'a,b;c'", text("a,b;c")),
        ("1a", expression("1a")),
        ("1+1", expression("1+1")),
        ("--1", expression("--1")),
        ("'a' 'b'", expression("'a' 'b'")),
        ("_utf8'a'", expression("_utf8'a'")),
        ("@@other", expression("@@other")),
        ("@u", expression("@u")),
        ("NOW()", expression("NOW()")),
        ("(SELECT a, b FROM t)", expression("(SELECT a, b FROM t)")),
        (
            "CONCAT(@@sql_mode,',STRICT_TRANS_TABLES')",
            expression("CONCAT(@@sql_mode,',STRICT_TRANS_TABLES')"),
        ),
    ] {
        assert_eq!(one(&format!("SET x={written}")), session("x", value), "{written}");
    }
}

#[test]
fn carries_the_scope_word_over_bare_names_only() {
    assert_eq!(
        parse(b"SET SESSION a=1, GLOBAL b=2, c=3, @@d=4, @u=5, LOCAL e=6, f=7").unwrap(),
        [
            session("a", number("1")),
            system(Scope::Global, "b", number("2")),
            system(Scope::Global, "c", number("3")),
            session("d", number("4")),
            user("u", number("5")),
            session("e", number("6")),
            session("f", number("7")),
        ]
    );
}

#[test]
fn reads_user_variables() {
    assert_eq!(
        parse(b"SET @x=1, @`Y y`:='a', @'z' = NULL, autocommit=0").unwrap(),
        [
            user("x", number("1")),
            user("y y", text("a")),
            user("z", Value::Null),
            session("autocommit", number("0")),
        ]
    );
    assert_eq!(
        parse(b"/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;").unwrap(),
        [user("old_unique_checks", expression("@@UNIQUE_CHECKS")), session("unique_checks", number("0"))]
    );
}

#[test]
fn reads_names_and_character_set() {
    let names = |charset, collation| Assignment::Names { charset, collation };
    assert_eq!(one("SET NAMES utf8mb4"), names(word("utf8mb4"), None));
    assert_eq!(one("SET NAMES 'utf8' COLLATE 'utf8_bin'"), names(text("utf8"), Some(text("utf8_bin"))));
    assert_eq!(
        one("/*!40101 SET NAMES utf8 COLLATE utf8_bin */"),
        names(word("utf8"), Some(word("utf8_bin")))
    );
    assert_eq!(one("SET NAMES DEFAULT"), names(Value::Default, None));
    assert_eq!(one("SET NAMES binary"), names(word("binary"), None));
    for query in ["SET CHARACTER SET utf8", "SET CHARSET utf8", "SET CHAR SET utf8"] {
        assert_eq!(one(query), Assignment::CharacterSet(word("utf8")), "{query}");
    }
    assert_eq!(one("SET CHARACTER SET DEFAULT"), Assignment::CharacterSet(Value::Default));
    assert_eq!(
        parse(b"SET autocommit=1, NAMES utf8, @x=1").unwrap(),
        [session("autocommit", number("1")), names(word("utf8"), None), user("x", number("1"))]
    );
    assert_eq!(one("SET names=1"), session("names", number("1")));
}

#[test]
fn reads_transaction_characteristics() {
    let read = |query: &str| match one(query) {
        Assignment::Transaction { scope, isolation, access_mode } => (scope, isolation, access_mode),
        other => panic!("{query}: {other:?}"),
    };
    assert_eq!(
        read("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        (TransactionScope::Next, Some(Isolation::ReadCommitted), None)
    );
    assert_eq!(
        read("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
        (TransactionScope::Session, Some(Isolation::RepeatableRead), Some(AccessMode::ReadOnly))
    );
    assert_eq!(
        read("set local transaction read write"),
        (TransactionScope::Session, None, Some(AccessMode::ReadWrite))
    );
    assert_eq!(
        read("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE;"),
        (TransactionScope::Global, Some(Isolation::Serializable), None)
    );
    assert_eq!(
        read("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"),
        (TransactionScope::Next, Some(Isolation::ReadUncommitted), None)
    );
    assert!(parse(b"SET TRANSACTION READ ONLY, READ WRITE").is_err());
    assert!(parse(b"SET TRANSACTION").is_err());
    assert!(parse(b"SET autocommit=1, TRANSACTION READ ONLY").is_err());
}

#[test]
fn reads_variables_for_one_statement() {
    let query = b"SET STATEMENT max_statement_time=1, sql_mode='' FOR SELECT a FROM t";
    let [Assignment::Statement { variables, offset }] = &parse(query).unwrap()[..] else { panic!() };
    assert_eq!(*variables, [session("max_statement_time", number("1")), session("sql_mode", text(""))]);
    assert_eq!(&query[*offset..], b"SELECT a FROM t");
    assert!(parse(b"SET STATEMENT a=1").is_err());
}

#[test]
fn marks_the_forms_that_assign_no_variable() {
    for (query, other) in [
        ("SET PASSWORD = 'x'", OtherSet::Password),
        ("SET PASSWORD FOR 'u'@'h' = 'x'", OtherSet::Password),
        ("SET ROLE ALL", OtherSet::Role),
        ("SET DEFAULT ROLE r TO u", OtherSet::DefaultRole),
        ("SET RESOURCE GROUP g", OtherSet::ResourceGroup),
    ] {
        assert_eq!(one(query), Assignment::Other(other), "{query}");
    }
}

#[test]
fn says_why_it_does_not_understand() {
    let why = |query: &str| parse(query.as_bytes()).unwrap_err();
    assert_eq!(why("SELECT 1"), NotUnderstood::NotSet);
    assert_eq!(why(""), NotUnderstood::NotSet);
    assert_eq!(why("SET a=1; SELECT 1"), NotUnderstood::Multi);
    assert_eq!(why("SET a='x"), NotUnderstood::Unterminated);
    assert_eq!(why("SET a=(1"), NotUnderstood::Unexpected { at: 8 });
    for query in [
        "SET",
        "SET a",
        "SET a=",
        "SET a=1,",
        "SET ,a=1",
        "SET a=1 , , b=2",
        "SET =1",
        "SET a==)",
        "SET @=1",
        "SET @@=1",
        "SET GLOBAL @x=1",
        "SET NAMES",
        "SET NAMES 'a' 'b'",
        "SET NAMES utf8 COLLATE",
        "SET 1=1",
        "SET NAMES NULL",
        "SET CHARACTER SET 1",
    ] {
        assert!(matches!(why(query), NotUnderstood::Unexpected { .. }), "{query}");
    }
}

#[test]
fn keeps_the_dot_of_structured_variables() {
    assert_eq!(
        one("SET GLOBAL hot.key_buffer_size = 10"),
        system(Scope::Global, "hot.key_buffer_size", number("10"))
    );
    assert_eq!(
        one("SET @@global.hot.key_buffer_size = 10"),
        system(Scope::Global, "hot.key_buffer_size", number("10"))
    );
}

#[test]
fn reads_backslashes_as_told() {
    let value = |escapes| match parse_with(br"SET @p = 'C:\new\tab', sql_notes = 1", escapes).as_deref() {
        Ok([Assignment::User { value: Value::Text(text), .. }, Assignment::System { .. }]) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(value(Escapes::None), br"C:\new\tab");
    assert_eq!(value(Escapes::Backslash), b"C:\new\tab");
    assert!(parse_with(br"SET @p = 'a\', @q = 1", Escapes::None).is_ok_and(|all| all.len() == 2));
    assert!(parse(br"SET @p = 'a\', @q = 1").is_err());
}

#[test]
fn understands_no_name_that_is_read_in_several_ways() {
    for query in
        ["SET @`caf\u{e9}` = 1", "SET @caf\u{e9} = 1", "SET @`a ` = 1", r"SET @'a\nb' = 1", r"SET @`a\` = 1"]
    {
        assert!(parse(query.as_bytes()).is_err(), "{query}");
    }
}

#[test]
fn what_follows_a_form_that_assigns_no_variable_is_not_understood() {
    for query in [
        "SET PASSWORD = 'x', @a = 1",
        "SET PASSWORD FOR 'u'@'h' = 'x', ROLE r",
        "SET DEFAULT ROLE NONE, ROLE r, @@sql_mode = 'ANSI'",
        "SET DEFAULT ROLE r TO u, v",
        "SET ROLE r, @a = 1",
    ] {
        assert!(matches!(parse(query.as_bytes()), Err(NotUnderstood::Unexpected { .. })), "{query}");
    }
}

#[test]
fn says_whether_a_value_may_set_a_user_variable() {
    let may = |query: &str| {
        let assignments = parse(query.as_bytes()).expect("understood");
        assignments.iter().any(Assignment::may_assign_by_value)
    };
    assert!(may("SET sql_mode = IF((@a := 5), '', 'ANSI')"));
    assert!(may("SET a = 1, GLOBAL max_connections = (@a := 1000)"));
    assert!(may("SET STATEMENT a = (@b := 1) FOR SELECT 1"));
    assert!(!may("SET @a := 5, b := 6") && !may("SET NAMES utf8mb4, sql_mode = CONCAT(@@sql_mode, ',ANSI')"));
}
