//! What a trigger does, or a function that a view calls: it stands in no text of a client, and servers report it in one bit.

use narrows_testkit::{Flavour, Login, RawClient, capability, command};

use crate::support::{Stand, logged_in};

/// What a program leaves.
const EFFECTS: &[&str] = &[
    "SET @leak = 5",
    "CREATE TEMPORARY TABLE IF NOT EXISTS a.staging (id INT)",
    "SET @leak = 5; SET SESSION lc_time_names = 'de_DE'",
    "CREATE TEMPORARY TABLE IF NOT EXISTS a.staging (id INT); SET SESSION lc_time_names = 'de_DE'",
    "SET SESSION sort_buffer_size = 77777",
    "SET SESSION insert_id = 70000",
];

/// Statements that run the program `p`: by a trigger of `a.tg`, or by a function that the view `a.v` calls.
const STATEMENTS: &[&str] = &[
    "INSERT INTO a.tg (n) VALUES (1)",
    "INSERT INTO a.tg (n) VALUES (1), ('x')",
    "INSERT INTO a.failing (n) VALUES (1)",
    "BEGIN; INSERT INTO a.tg (n) VALUES (1); COMMIT",
    "USE b; INSERT INTO a.tg (n) VALUES (1)",
    "INSERT INTO a.tg (n) VALUES (1); SHOW WARNINGS",
    "SELECT * FROM a.v",
    "SELECT * FROM a.v WHERE n = (SELECT 1 UNION SELECT 2)",
    "TABLE a.v",
    "CREATE TABLE a.copy AS SELECT * FROM a.v",
    "DO (SELECT n FROM a.v)",
    "SET SESSION group_concat_max_len = (SELECT n * 1000 FROM a.v)",
    "SELECT n, @@session_track_schema FROM a.v",
    "SHOW VARIABLES WHERE variable_name = (SELECT n FROM a.v)",
];

/// What another client then sees of it.
const SEEN: &[&str] = &[
    "SELECT @leak",
    "SELECT @@lc_time_names, @@sort_buffer_size",
    "INSERT INTO a.ids (n) VALUES (1)",
    "SELECT MAX(id) < 70000 FROM a.ids",
    "INSERT INTO a.staging VALUES (42)",
];

#[test]
fn what_programs_leave_is_seen_by_nobody_else() {
    for flavour in Flavour::both() {
        let mut wrong = Vec::new();
        for effect in EFFECTS {
            let stand = Stand::new(
                flavour,
                &[
                    "CREATE DATABASE a",
                    "CREATE DATABASE b",
                    "CREATE TABLE a.tg (n INT)",
                    "CREATE TABLE a.failing (n INT)",
                    "CREATE TABLE a.ids (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
                    "CREATE TABLE a.staging (id INT)",
                    &format!("CREATE TRIGGER a.t BEFORE INSERT ON a.tg FOR EACH ROW BEGIN {effect}; END"),
                    &format!(
                        "CREATE TRIGGER a.f BEFORE INSERT ON a.failing FOR EACH ROW \
                         BEGIN {effect}; SIGNAL SQLSTATE '45000'; END"
                    ),
                    &format!("CREATE FUNCTION a.p() RETURNS INT BEGIN {effect}; RETURN 1; END"),
                    "CREATE VIEW a.v AS SELECT a.p() AS n",
                ],
            );
            let count = "SELECT COUNT(*) FROM a.staging";
            for schema in ["", "a", "b"] {
                for statement in STATEMENTS {
                    stand.server.execute(&["DROP TABLE IF EXISTS a.copy"]);
                    let mut one = client(&stand);
                    use_schema(&mut one, schema);
                    one.query(statement);
                    one.query("SET lc_messages = 'en_US'");
                    // While the client has the connection for itself, the other one would wait for it.
                    if is_pinned(&stand, &mut one) {
                        drop(one);
                    }
                    let mut other = client(&stand);
                    use_schema(&mut other, schema);
                    let before = stand.direct().query(count).cell();
                    let mut seen = Vec::new();
                    for question in SEEN {
                        seen.extend(other.query(question).text_rows());
                    }
                    let told = seen.concat().into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>();
                    let is_there = stand.direct().query(count).cell() != before;
                    let is_own = told.first().is_some_and(String::is_empty)
                        && told.get(1).is_some_and(|names| names == "en_US")
                        && told.get(2).is_some_and(|size| size != "77777")
                        && told.get(3).is_some_and(|low| low == "1");
                    if !is_own || !is_there {
                        wrong.push(format!("{effect} | {schema} | {statement}: {told:?} {is_there}"));
                        stand.server.execute(&["DELETE FROM a.ids"]);
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{flavour:?}: {}\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// A client with the form of answers in which MySQL reports at the end of rows, too.
fn client(stand: &Stand) -> RawClient {
    let mut client = RawClient::connect(&stand.narrows.endpoint());
    client.set_patience(std::time::Duration::from_secs(60));
    let login = Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS | capability::DEPRECATE_EOF);
    client.login(&login).expect("a login");
    client
}

fn use_schema(client: &mut RawClient, schema: &str) {
    if !schema.is_empty() {
        assert_eq!(client.query(format!("USE {schema}")).error(), None);
    }
}

fn is_pinned(stand: &Stand, client: &mut RawClient) -> bool {
    client.command(command::PING, &[]);
    !stand.narrows.admin().query("SHOW PINS").text_rows().is_empty()
}

/// A statement that fails after a program has left something: its error reports nothing, and what comes first after it are
/// questions of our own.
#[test]
fn what_programs_of_failed_statements_leave_is_nobody_elses() {
    const STATEMENTS: [&str; 14] = [
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
        "CREATE TRIGGER tc BEFORE INSERT ON child FOR EACH ROW SET @u = CONCAT('card ', NEW.id)",
        "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20))",
        "CREATE TABLE t (a VARCHAR(20))",
        "CREATE TRIGGER tt BEFORE INSERT ON t FOR EACH ROW BEGIN \
         CREATE TEMPORARY TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20)); SIGNAL SQLSTATE '45000'; END",
        "CREATE TABLE m (id INT PRIMARY KEY, a VARCHAR(20))",
        "INSERT INTO m VALUES (1, 'x'), (2, 'y')",
        "CREATE TRIGGER tm BEFORE INSERT ON m FOR EACH ROW BEGIN \
         CREATE TEMPORARY TABLE IF NOT EXISTS orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20)) ENGINE = MEMORY; \
         INSERT INTO orders (who) VALUES (NEW.a); END",
        "CREATE TRIGGER tu BEFORE UPDATE ON m FOR EACH ROW SET @u = NEW.a",
        "CREATE FUNCTION g() RETURNS INT NOT DETERMINISTIC BEGIN \
         CREATE TEMPORARY TABLE orders (id INT, who VARCHAR(20)); SET @u = 5; SIGNAL SQLSTATE '45000'; RETURN 1; END",
        "CREATE VIEW v AS SELECT g() AS a",
        "CREATE TABLE few (a INT)",
        "INSERT INTO few VALUES (1), (2)",
    ];
    const FAILING: [&str; 10] = [
        "INSERT INTO child VALUES (5, 77)",
        "INSERT INTO t (a) VALUES ('shadow')",
        "SELECT 1; INSERT INTO t (a) VALUES ('shadow'); SELECT 2",
        "INSERT INTO m VALUES (1, '4711')",
        "UPDATE m SET a = 'z', id = 1 WHERE id = 2",
        "SELECT * FROM v",
        "CREATE TABLE made SELECT * FROM v",
        "INSERT INTO few SELECT a FROM v",
        "SELECT few.a, (SELECT a FROM v) FROM few",
        "REPLACE INTO child VALUES (6, 78)",
    ];
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &["CREATE DATABASE p"]);
        let mut root = stand.server.root();
        root.query("USE p").ok().expect("the schema");
        for statement in STATEMENTS {
            let answer = root.query(statement);
            assert!(answer.error().is_none(), "{flavour:?} {statement}: {answer:?}");
        }
        let login = || {
            let login = Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS).schema("p");
            logged_in(&stand.narrows.endpoint(), &login)
        };
        let (mut stays, mut number) = (login(), 0);
        for failing in FAILING {
            // What is sent after it, before another client has its turn.
            for between in
                [None, Some("SELECT 1"), Some("SHOW WARNINGS"), Some("SELECT ROW_COUNT(), LAST_INSERT_ID()")]
            {
                for leaves in [false, true] {
                    let mut first = login();
                    let answer = first.query(failing);
                    assert!(answer.error().is_some(), "{flavour:?} {failing}: {answer:?}");
                    if let Some(between) = between {
                        first.query(between);
                    }
                    let first = (!leaves).then_some(first);
                    let what = format!("{flavour:?} {failing}, {between:?}, leaves: {leaves}");
                    for other in [&mut stays, &mut login()] {
                        // Whichever comes first reports what is left.
                        if number % 2 == 0 {
                            assert_eq!(other.query("SELECT @u").cell(), None, "{what}");
                        }
                        number += 1;
                        let answer = other.query("INSERT INTO orders (who) VALUES ('other')");
                        assert!(answer.error().is_none(), "{what}: {answer:?}");
                        assert_eq!(other.query("SELECT @u").cell(), None, "{what}");
                    }
                    drop(first);
                    assert_eq!(
                        root.query("SELECT COUNT(*) FROM orders").cell().as_deref(),
                        Some("2"),
                        "{what}"
                    );
                    root.query("DELETE FROM orders");
                }
            }
        }
    }
}
