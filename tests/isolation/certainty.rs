//! Statements whose effects on the session are not all known, and settings that hold for one statement.
//!
//! What clients of one connection see is compared with what the same statements show on connections of their own.

use narrows_testkit::{Answer, Flavour, Login, RawClient, ServerOptions, capability, command};

use crate::support::Stand;

/// A client of Narrows, and one with a connection of its own that does the same.
struct Twin {
    shared: RawClient,
    own: RawClient,
}

impl Twin {
    fn new(stand: &Stand) -> Twin {
        Twin { shared: stand.client(), own: stand.direct() }
    }

    /// Runs a statement as both; what was different.
    fn run(&mut self, way: Way, statement: &str) -> Option<String> {
        let (wanted, found) = (way.run(&mut self.own, statement), way.run(&mut self.shared, statement));
        (wanted != found).then(|| format!("{way:?} {statement}\n    directly {wanted}\n    shared   {found}"))
    }

    /// Whether nobody else can use the connection now. A ping is answered when the statement before it is settled.
    fn keeps_connection(&mut self, admin: &mut RawClient) -> bool {
        self.shared.command(command::PING, &[]);
        !admin.query("SHOW PINS").text_rows().is_empty()
    }
}

/// How a statement is sent.
#[derive(Debug, Clone, Copy)]
enum Way {
    Text,
    Prepared,
    /// After another one in the same text.
    Second,
    /// Before another one.
    First,
    /// From a prepared text.
    Execute,
}

impl Way {
    const ALL: [Way; 5] = [Way::Text, Way::Prepared, Way::Second, Way::First, Way::Execute];

    fn run(self, client: &mut RawClient, statement: &str) -> String {
        match self {
            Way::Text => seen(&client.query(statement)),
            Way::Prepared => prepared(client, statement),
            Way::Second => seen(&client.query(format!("DO 1; {statement}"))),
            Way::First => seen(&client.query(format!("{statement}; DO 1"))),
            Way::Execute => {
                let text = statement.replace('\'', "''");
                let prepared = seen(&client.query(format!("PREPARE taken FROM '{text}'")));
                format!("{prepared}, {}", seen(&client.query("EXECUTE taken")))
            }
        }
    }
}

/// The rows and the error of an answer.
fn seen(answer: &Answer) -> String {
    match answer.error() {
        Some(error) => format!("error {} {}", error.code, error.message),
        None => format!("{:?}", answer.text_rows()),
    }
}

fn prepared(client: &mut RawClient, statement: &str) -> String {
    let answer = client.command(command::STMT_PREPARE, statement.as_bytes());
    if answer.error().is_some() {
        return seen(&answer);
    }
    let id = answer.packets[0].payload[1..5].to_vec();
    let answer = client.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
    client.send_command(command::STMT_CLOSE, &id).expect("the connection is open");
    answer.error().map_or("no error".to_owned(), |error| format!("error {} {}", error.code, error.message))
}

const TABLES: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE DATABASE other",
    "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
    "CREATE PROCEDURE d.p() SET sort_buffer_size = 300000",
    "CREATE FUNCTION d.f() RETURNS INT RETURN 1",
];

/// What `SET STATEMENT` sets, with the value of a client that has set the same for good.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("sql_log_bin=0", "sql_log_bin", "0"),
    ("foreign_key_checks=0, sql_log_bin=0", "foreign_key_checks", "0"),
    ("sql_mode='ANSI'", "sql_mode", "'NO_ZERO_DATE'"),
    ("sql_mode='NO_BACKSLASH_ESCAPES'", "sql_mode", "'ANSI_QUOTES'"),
    ("max_statement_time=50", "max_statement_time", "40"),
    ("time_zone='+03:00'", "time_zone", "'+05:00'"),
    ("lock_wait_timeout=5", "lock_wait_timeout", "7"),
    ("sort_buffer_size=100000", "sort_buffer_size", "200000"),
    ("tx_read_only=1", "tx_read_only", "0"),
];

const INNER: &[&str] = &[
    "SELECT 1",
    "SELECT n FROM d.t WHERE id = -1",
    "DO 1",
    "DELETE FROM d.t WHERE id = -1",
    "UPDATE d.t SET n = 2 WHERE id = -1",
    "INSERT INTO d.t (n) SELECT 1 FROM DUAL WHERE 0",
    "USE d",
    "COMMIT",
    "ALTER TABLE d.t COMMENT = 'x'",
    "SELECT * FROM d.nosuch",
    "INSERT INTO d.nosuch VALUES (1)",
    "SET STATEMENT read_buffer_size=20000 FOR DO 1",
    "SET STATEMENT time_zone='+01:00', nosuch=1 FOR DO 1",
    "SHOW TABLES FROM d",
];

/// What is set for one statement is nobody's afterwards: neither of the client that has set it, nor of another one that has
/// set the same for good, nor of one that has set nothing.
#[test]
fn what_holds_for_one_statement_is_gone_after_it() {
    let stand = Stand::new(Flavour::MariaDb, TABLES);
    let (mut differences, mut kept) = (Vec::new(), Vec::new());
    let mut admin = stand.narrows.admin();
    for (settings, name, value) in SETTINGS {
        let (mut one, mut set, mut none) = (Twin::new(&stand), Twin::new(&stand), Twin::new(&stand));
        differences.extend(set.run(Way::Text, &format!("SET SESSION {name} = {value}")));
        for inner in INNER {
            for way in [Way::Text, Way::Prepared] {
                let probe = "SELECT @@sql_log_bin, @@foreign_key_checks, @@sql_mode, @@max_statement_time, @@time_zone, \
                             @@lock_wait_timeout, @@sort_buffer_size, @@read_buffer_size, @@tx_read_only, DATABASE(), 'a\\'b'";
                let statement = format!("SET STATEMENT {settings} FOR {inner}");
                differences.extend(one.run(way, &statement));
                if one.keeps_connection(&mut admin) {
                    // After an error, until the server has said that no transaction is open.
                    differences.extend(one.run(Way::Text, "DO 1"));
                    differences.extend(one.run(Way::Text, probe));
                }
                if one.keeps_connection(&mut admin) {
                    // How far an inner one with an unknown variable has come is not known.
                    kept.extend((!inner.contains("nosuch=1")).then(|| format!("{way:?} {statement}")));
                    one = Twin::new(&stand);
                }
                let twins = [&mut none, &mut one, &mut set];
                for twin in [0, 1, 2, 1] {
                    differences.extend(twins[twin].run(Way::Text, "DO 1"));
                    differences.extend(twins[twin].run(Way::Text, probe));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
    assert!(kept.is_empty(), "{}:\n{}", kept.len(), kept.join("\n"));
}

/// Hints that set something for the statement they are in, and what they leave.
const HINTS: &[&str] = &[
    "SET_VAR(timestamp=100)",
    "SET_VAR(insert_id=999)",
    "MAX_EXECUTION_TIME(1000) set_var ( TimeStamp = 100 )",
    "SET_VAR(max_join_size=5)",
    "SET_VAR(sql_auto_is_null=1)",
    "SET_VAR(sort_buffer_size=100000)",
    "SET_VAR(foreign_key_checks=OFF) SET_VAR(sql_mode='NO_BACKSLASH_ESCAPES')",
    "SET_VAR(time_zone='+03:00')",
];

const HINTED: &[&str] = &[
    "SELECT /*+ {} */ 1",
    "SELECT * FROM (SELECT /*+ {} */ 1) x",
    "DELETE /*+ {} */ FROM d.t WHERE id = -1",
    "UPDATE /*+ {} */ d.t SET n = 2 WHERE id = -1",
    "INSERT /*+ {} */ INTO d.t (n) SELECT 1 FROM DUAL WHERE 0",
    "SELECT /*+ {} */ * FROM d.nosuch",
];

/// The clock, the next id, and the variables of the next client are its own, whatever hints the one before it has used.
#[test]
fn a_hint_holds_for_its_client_only() {
    let stand = Stand::new(Flavour::MySql9, TABLES);
    let probe = "SELECT ABS(UNIX_TIMESTAMP(NOW()) - UNIX_TIMESTAMP(SYSDATE())) < 60, @@insert_id, @@sql_big_selects, \
                 @@max_join_size, @@sql_auto_is_null, @@sort_buffer_size, @@foreign_key_checks, @@sql_mode, @@time_zone, 'a\\'b'";
    let mut differences = Vec::new();
    let wanted = seen(&stand.direct().query(probe));
    for hint in HINTS {
        for statement in HINTED {
            for way in Way::ALL {
                let statement = statement.replace("{}", hint);
                let mut one = stand.client();
                way.run(&mut one, &statement);
                // If it keeps the connection, the other one gets it after it has left.
                drop(one);
                let mut other = stand.client();
                let found = seen(&other.query(probe));
                let inserted =
                    other.query("INSERT INTO d.t (n) VALUES (3)").ok().map_or(0, |ok| ok.last_insert_id);
                if found != wanted || inserted == 0 || inserted == 999 {
                    differences.push(format!("{way:?} {statement}: {found}, id {inserted}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
}

/// What is set for the next transaction only, however it is written, meets no transaction of another client.
#[test]
fn what_holds_for_the_next_transaction_meets_no_other_clients() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let prefix = if flavour == Flavour::MariaDb { "tx" } else { "transaction" };
        let mut differences = Vec::new();
        for set in [
            "SET @@{}_read_only = 1",
            "SET SESSION {}_read_only = 0, @@{}_read_only = 1",
            "SET @@{}_read_only = 1, SESSION {}_read_only = 0",
            "SET SESSION sql_mode = '', @@{}_read_only = (SELECT 1)",
            "SET @a = 1, @@`{}_read_only` = 1, SESSION {}_isolation = 'READ-COMMITTED'",
            "SET SESSION {}_isolation = 'READ-COMMITTED', @@{}_isolation = 'SERIALIZABLE', @@{}_read_only = ON",
            "SET TRANSACTION READ ONLY",
        ] {
            let set = set.replace("{}", prefix);
            for way in Way::ALL {
                let mut one = stand.client();
                way.run(&mut one, &set);
                drop(one);
                let found = seen(&stand.client().query("INSERT INTO d.t (n) VALUES (1)"));
                if found != "[]" {
                    differences.push(format!("{way:?} {set}: {found}"));
                }
            }
        }
        assert!(differences.is_empty(), "{flavour:?} {}:\n{}", differences.len(), differences.join("\n"));
    }
}

/// What a trigger or a function of a view sets is its client's, and what it reads, too.
#[test]
fn what_a_program_sets_that_no_text_names_is_its_clients() {
    for flavour in Flavour::both() {
        let mut statements = TABLES.to_vec();
        statements.extend([
            "CREATE TABLE d.seen (who VARCHAR(20), was VARCHAR(20))",
            "CREATE TRIGGER d.sees BEFORE INSERT ON d.seen FOR EACH ROW SET NEW.who = @who",
            "CREATE TABLE d.sets (n INT)",
            "CREATE TRIGGER d.sets BEFORE INSERT ON d.sets FOR EACH ROW SET @set_by_trigger = NEW.n",
            "CREATE FUNCTION d.who() RETURNS VARCHAR(20) RETURN @who",
            "CREATE VIEW d.whoami AS SELECT d.who() AS who",
            "CREATE FUNCTION d.sets() RETURNS INT BEGIN SET @set_by_view = 1; RETURN 1; END",
            "CREATE VIEW d.setting AS SELECT d.sets() AS n",
            "CREATE TABLE d.modes (n INT)",
            "CREATE TRIGGER d.modes BEFORE INSERT ON d.modes FOR EACH ROW SET SESSION sort_buffer_size = 100000",
        ]);
        let options = ServerOptions::new(flavour);
        let stand =
            Stand::with(options, &statements, |config| config.unverified("what it misses must not leak"));
        let mut differences = Vec::new();
        // What is read.
        let (mut one, mut other, mut none) = (stand.client(), stand.client(), stand.client());
        for client in [&mut one, &mut other, &mut none] {
            // After a program of another schema the connection is reset.
            client.query("USE d");
        }
        one.query("SET @who = 'one'");
        other.query("SET @who = 'other'");
        let clients = [&mut one, &mut none, &mut other];
        for (client, name) in [(0, "one"), (1, "NULL"), (2, "other"), (1, "NULL")] {
            let client = &mut *clients[client];
            client.query(format!("INSERT INTO d.seen (was) VALUES ('{name}')"));
            prepared(client, &format!("INSERT INTO d.seen (was) VALUES ('{name}')"));
            let found = client.query("SELECT who FROM d.whoami").cell().unwrap_or("NULL".to_owned());
            if found != name {
                differences.push(format!("the view shows {found} to {name}"));
            }
        }
        let rows = stand.direct().query("SELECT IFNULL(who, 'NULL'), was FROM d.seen").text_rows();
        differences
            .extend(rows.iter().filter(|row| row[0] != row[1]).map(|row| format!("a trigger saw {row:?}")));
        drop((one, other, none));
        // What is set.
        for statement in [
            "INSERT INTO d.sets VALUES (5)",
            "SELECT 1; INSERT INTO d.sets VALUES (5)",
            "SELECT * FROM d.setting",
            "INSERT INTO d.t (n) SELECT n FROM d.setting",
            "INSERT INTO d.modes VALUES (1)",
        ] {
            let probe = "SELECT @set_by_trigger, @set_by_view, @@sort_buffer_size";
            let wanted = seen(&stand.direct().query(probe));
            // Without CLIENT_DEPRECATE_EOF, MySQL does not say in the packet after rows that the session has changed.
            for (way, form) in [Way::Text, Way::Prepared, Way::First]
                .into_iter()
                .flat_map(|way| [(way, 0), (way, capability::DEPRECATE_EOF)])
            {
                let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF);
                let login = login.with(form | capability::MULTI_STATEMENTS);
                let mut one = RawClient::open(&stand.narrows.endpoint(), &login);
                // In the same state, so that nothing is sent to the server before its question.
                let mut watcher = RawClient::open(&stand.narrows.endpoint(), &login);
                let mut own = stand.direct();
                for client in [&mut watcher, &mut one, &mut own] {
                    client.query("USE d");
                }
                way.run(&mut one, statement);
                way.run(&mut own, statement);
                let (expected, found) = (seen(&own.query(probe)), seen(&one.query(probe)));
                if expected != found {
                    differences.push(format!("{way:?} {form:#x} {statement}: {found} and not {expected}"));
                }
                drop(one);
                let found = seen(&watcher.query(probe));
                if found != wanted {
                    differences.push(format!("{way:?} {form:#x} {statement} leaves {found}"));
                }
            }
        }
        assert!(differences.is_empty(), "{flavour:?} {}:\n{}", differences.len(), differences.join("\n"));
    }
}

/// With autocommit off, a statement with settings of its own begins a transaction exactly if it would without them.
#[test]
fn a_setting_for_one_statement_begins_no_transaction() {
    let stand = Stand::new(Flavour::MariaDb, TABLES);
    let (mut one, mut other) = (stand.client(), stand.client());
    one.query("SET autocommit = 0");
    for way in [Way::Text, Way::Prepared] {
        way.run(&mut one, "SET STATEMENT max_statement_time=5 FOR SELECT 1");
        assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"), "{way:?}");
    }
}

/// Whatever a mirrored copy does to its connection is gone before a client uses it.
#[test]
fn a_mirrored_copy_leaves_nothing() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), TABLES, |config| {
            config.rule("rule_id=1 active=1 match_pattern=\"marked\" mirror_hostgroup=0 apply=1")
        });
        let probe = "SELECT DATABASE(), @a, @@sort_buffer_size, IS_FREE_LOCK('mirrored')";
        let wanted = seen(&stand.direct().query(probe));
        let mut differences = Vec::new();
        for statement in [
            "USE d /* marked */",
            "SELECT 1; USE d /* marked */",
            "SET @a = 5 /* marked */",
            "SET sort_buffer_size = 100000 /* marked */",
            "SELECT GET_LOCK('mirrored', 0) /* marked */",
            "CREATE TEMPORARY TABLE d.tmp (n INT) /* marked */",
        ] {
            let mut one = stand.client();
            one.query(statement);
            drop(one);
            for _ in 0..3 {
                let found = seen(&stand.client().query(probe));
                if found != wanted {
                    differences.push(format!("{statement}: {found}"));
                }
            }
        }
        assert!(differences.is_empty(), "{flavour:?} {}:\n{}", differences.len(), differences.join("\n"));
    }
}
