//! Connection ids, locks, and statements that must not run twice.

use std::time::Duration;

use narrows_testkit::{
    Answer, Column, ErrorPacket, Flavour, RawClient, RealServer, ServerOptions, command, wait_until, writer,
};

use crate::support::Stand;

/// What a program does with an id of a connection: `{}` is the function.
const EXPRESSIONS: &[&str] = &[
    "{}",
    "CONCAT({})",
    "{}+1",
    "{}/2",
    "-{}",
    "{}*2",
    "{} DIV 2",
    "{} % 7",
    "{} & 255",
    "ABS({})",
    "ROUND({}, 2)",
    "FLOOR({})",
    "IF(1, {}, NULL)",
    "IF(1, {}, -1)",
    "IFNULL(NULL, {})",
    "COALESCE({}, 1)",
    "NULLIF({}, -5)",
    "GREATEST({}, 1)",
    "LEAST({}, 5000000000)",
    "CASE WHEN 1 THEN {} ELSE 'x' END",
    "HEX({})",
    "LPAD({}, 5, 'x')",
    "REPEAT({}, 2)",
    "CONCAT_WS(',', {}, 'a')",
    "CAST({} AS CHAR)",
    "CAST({} AS SIGNED)",
    "FORMAT({}, 2)",
    "QUOTE({})",
    "JSON_ARRAY({})",
    "MAX({})",
    "SUM({})",
    "AVG({})",
    "GROUP_CONCAT({})",
    "(SELECT {})",
    "{}+1.5",
    "{}+1e0",
    "{} = 1",
];

/// The same in whole statements.
const QUERIES: &[&str] = &[
    "SELECT {} AS a UNION SELECT 1",
    "SELECT {} AS a UNION ALL SELECT 'x'",
    "SELECT {} AS a UNION SELECT NULL",
    "SELECT * FROM (SELECT {} AS a) AS q",
    "WITH c AS (SELECT {} AS a) SELECT a FROM c",
    "SELECT DISTINCT {} AS a FROM d.t",
    "SELECT {} AS a FROM d.t GROUP BY a",
    "SELECT MIN({}) AS a FROM d.t WHERE 0",
];

const TABLES: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO d.t VALUES (1, 1), (2, 2)",
];

/// The type of the only column of a query: as a table has it that is made of it, and as a result shows it.
fn described(
    client: &mut RawClient,
    query: &str,
    mut before: impl FnMut(&mut RawClient),
) -> (String, String) {
    client.query("DROP TABLE IF EXISTS d.x");
    before(client);
    let created = client.query(format!("CREATE TABLE d.x AS {query}"));
    let table = match created.error() {
        Some(error) => format!("error {}", error.code),
        None => client.query("SHOW CREATE TABLE d.x").text_rows()[0][1].clone().unwrap(),
    };
    let column = table.lines().nth(1).unwrap_or(&table).to_owned();
    before(client);
    let answer = client.query(query);
    let shown = match (answer.error(), answer.columns().first()) {
        (Some(error), _) => format!("error {}", error.code),
        (None, Some(Column { collation, length, kind, flags, decimals, .. })) => {
            format!("type {kind}, length {length}, {decimals} decimals, flags {flags}, collation {collation}")
        }
        (None, None) => "no column".to_owned(),
    };
    (column, shown)
}

/// Compares all expressions of a function; `between` is what another client does before each.
fn compare_types(stand: &Stand, function: &str, between: Option<&str>) {
    let (mut direct, mut client, mut other) = (stand.direct(), stand.client(), stand.client());
    let queries = EXPRESSIONS.iter().map(|expression| format!("SELECT {expression} AS a"));
    let queries = queries.chain(QUERIES.iter().map(|query| (*query).to_owned()));
    let mut differ = Vec::new();
    for query in queries.map(|query| query.replace("{}", function)) {
        let prepare = "SELECT id FROM d.t LIMIT 2";
        let wanted = described(&mut direct, &query, |client| drop(client.query(prepare)));
        let found = described(&mut client, &query, |client| {
            client.query(prepare);
            if let Some(between) = between {
                assert_eq!(other.query(between).error(), None);
            }
        });
        if wanted != found {
            differ.push(format!("{query}\n  directly {wanted:?}\n  through  {found:?}"));
        }
    }
    assert!(differ.is_empty(), "{:?}: {}\n{}", stand.flavour, differ.len(), differ.join("\n"));
}

#[test]
fn what_is_substituted_has_the_type_of_the_server() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        compare_types(&stand, "CONNECTION_ID()", None);
        let disturbs = Some("SELECT v FROM d.t WHERE id = 1");
        compare_types(&stand, "ROW_COUNT()", disturbs);
        compare_types(&stand, "FOUND_ROWS()", disturbs);
        compare_types(&stand, "@@warning_count", disturbs);
    }
}

/// Prepares and executes a statement; its parameters are text. The first cell of the only row, which is text.
fn executed(client: &mut RawClient, text: &str, parameters: &[&str]) -> Result<Option<String>, ErrorPacket> {
    let answer = execute(client, text, parameters);
    if let Some(error) = answer.error() {
        return Err(error);
    }
    let end = answer.packets.len() - 1;
    let row = &answer.packets[end - 1].payload;
    if row[1] & 4 != 0 {
        return Ok(None);
    }
    let length = usize::from(row[2]);
    Ok(Some(String::from_utf8_lossy(&row[3..3 + length]).into_owned()))
}

fn execute(client: &mut RawClient, text: &str, parameters: &[&str]) -> Answer {
    let prepared = client.command(command::STMT_PREPARE, text.as_bytes());
    if prepared.error().is_some() {
        return prepared;
    }
    let body = execution(&prepared, parameters);
    client.command(command::STMT_EXECUTE, &body)
}

/// The body of a `COM_STMT_EXECUTE`.
fn execution(prepared: &Answer, parameters: &[&str]) -> Vec<u8> {
    let mut body = prepared.packets[0].payload[1..5].to_vec();
    body.push(0);
    body.extend(1_u32.to_le_bytes());
    if !parameters.is_empty() {
        body.extend(vec![0; parameters.len().div_ceil(8)]);
        body.push(1);
        parameters.iter().for_each(|_| body.extend([253, 0]));
        parameters.iter().for_each(|text| body.extend(writer::lenenc_bytes(text.as_bytes())));
    }
    body
}

/// Locks are owned by who holds them, whether the statement or the program compares.
/// A lock is where it was taken: rules that send reads elsewhere do not send the questions about it there.
#[test]
fn locks_are_asked_about_where_they_are_held_although_reads_go_elsewhere() {
    for flavour in Flavour::both() {
        let reader = ServerOptions::new(flavour).start();
        let stand = Stand::with(ServerOptions::new(flavour), &[], |config| {
            config
                .server(1, reader.port(), "")
                .rule("rule_id=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
        });
        let mut client = stand.client();
        assert_eq!(client.query("SELECT @@port").cell(), Some(reader.port().to_string()), "{flavour:?}");
        let (no, yes) = (Some("0"), Some("1"));
        for (text, wanted) in [
            ("SELECT GET_LOCK('x', 1), GET_LOCK('y', 1)", [yes, yes]),
            ("SELECT IS_FREE_LOCK('x'), IS_FREE_LOCK('z')", [no, yes]),
            ("SELECT IS_USED_LOCK('x') = CONNECTION_ID(), IS_USED_LOCK('z')", [yes, None]),
            ("SELECT RELEASE_LOCK('x'), RELEASE_LOCK('z')", [yes, None]),
            ("SELECT IS_FREE_LOCK('x'), IS_FREE_LOCK('y')", [yes, no]),
            ("SELECT RELEASE_ALL_LOCKS(), IS_FREE_LOCK('y')", [yes, yes]),
        ] {
            let rows = client.query(text).text_rows();
            let cells: Vec<Option<&str>> = rows[0].iter().map(Option::as_deref).collect();
            assert_eq!(cells, wanted, "{flavour:?}: {text}");
        }
    }
}

#[test]
fn the_holder_of_a_lock_finds_that_it_is_the_holder() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut holder = stand.client();
        let id = holder.greeting().expect("a greeting").connection_id.to_string();
        assert_eq!(holder.query("SELECT GET_LOCK('x', 1)").cell().as_deref(), Some("1"));
        for (text, wanted) in [
            ("SELECT IS_USED_LOCK('x') = CONNECTION_ID()", "1"),
            ("SELECT CONNECTION_ID() = IS_USED_LOCK('x') AS mine", "1"),
            ("SELECT is_used_lock ( CONCAT('', 'x') ) <=> connection_id()", "1"),
            ("SELECT IF(IS_USED_LOCK('x') = CONNECTION_ID(), 'mine', 'free')", "mine"),
            ("SELECT COUNT(*) FROM d.t WHERE IS_USED_LOCK(CHAR(119 + id)) = CONNECTION_ID()", "1"),
            ("SELECT IS_USED_LOCK('y') IS NULL", "1"),
            ("SELECT IS_USED_LOCK('x') FROM d.t LIMIT 1", &id),
            ("SELECT IS_USED_LOCK('x')", &id),
            ("SELECT CONNECTION_ID()", &id),
        ] {
            assert_eq!(holder.query(text).cell().as_deref(), Some(wanted), "{flavour:?}: {text}");
            let prepared = text.replacen("SELECT ", "SELECT CONCAT(", 1);
            let prepared = match prepared.split_once(" FROM ").or(prepared.split_once(" AS ")) {
                Some((value, rest)) if text.contains(" FROM ") => format!("{value}) FROM {rest}"),
                Some((value, _)) => format!("{value})"),
                None => format!("{prepared})"),
            };
            let cell = executed(&mut holder, &prepared, &[]);
            assert_eq!(cell, Ok(Some(wanted.to_owned())), "{flavour:?}: {prepared}");
        }
        for (text, wanted) in [
            ("SELECT CONCAT(IS_USED_LOCK(?) = CONNECTION_ID())", "1"),
            ("SELECT CONCAT(IS_USED_LOCK(?))", &id),
        ] {
            let cell = executed(&mut holder, text, &["x"]);
            assert_eq!(cell, Ok(Some(wanted.to_owned())), "{flavour:?}: {text}");
        }
        assert_eq!(executed(&mut holder, "SELECT CONCAT(IS_USED_LOCK(?))", &["y"]), Ok(None));
        // The one connection is the holder's until it releases the lock.
        assert_eq!(holder.query("SELECT RELEASE_LOCK('x')").cell().as_deref(), Some("1"));
        let mut direct = stand.direct();
        assert_eq!(direct.query("SELECT GET_LOCK('x', 1)").cell().as_deref(), Some("1"));
        let holder_id = direct.query("SELECT CONNECTION_ID()").cell();
        let mut other = stand.client();
        let found = other.query("SELECT IS_USED_LOCK('x')").cell();
        assert_eq!(found, holder_id, "{flavour:?}: another one's lock has the server's id");
        let compared = other.query("SELECT IS_USED_LOCK('x') = CONNECTION_ID()").cell();
        assert_eq!(compared.as_deref(), Some("0"), "{flavour:?}");
    }
}

/// In one statement, an id of the session and ids of the server's tables are of one world.
#[test]
fn a_session_finds_itself_in_the_tables_of_the_server() {
    for flavour in Flavour::both() {
        let stand =
            Stand::with(ServerOptions::new(flavour).option("--performance-schema=ON"), TABLES, |config| {
                config
            });
        let common = [
            "SELECT CONCAT(COUNT(*)) FROM information_schema.processlist WHERE id = CONNECTION_ID()",
            "SELECT CONCAT(COUNT(*)) FROM `INFORMATION_SCHEMA` . `PROCESSLIST` p JOIN d.t ON t.id = 1 WHERE p.id = connection_id()",
            "SELECT CONCAT(COUNT(*)) FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()",
            "SELECT CONCAT(EXISTS(SELECT 1 FROM information_schema.processlist WHERE id = CONNECTION_ID()))",
        ];
        let of_mysql = [
            "SELECT CONCAT(COUNT(*)) FROM performance_schema.threads WHERE thread_id = PS_THREAD_ID(CONNECTION_ID())",
            "SELECT CONCAT(PS_THREAD_ID(CONNECTION_ID()) = PS_CURRENT_THREAD_ID())",
            "SELECT CONCAT(COUNT(*)) FROM sys.session WHERE conn_id = CONNECTION_ID()",
            "SELECT CONCAT(sys.ps_thread_id(CONNECTION_ID()) > 0)",
        ];
        let more = if flavour == Flavour::MariaDb { &[][..] } else { &of_mysql[..] };
        let mut client = stand.client();
        for text in common.iter().chain(more) {
            assert_eq!(client.query(text).cell().as_deref(), Some("1"), "{flavour:?}: {text}");
            assert_eq!(executed(&mut client, text, &[]), Ok(Some("1".to_owned())), "{flavour:?}: {text}");
        }
        // Nor does the id of a session name a connection of the server.
        client.query("BEGIN");
        client.query("UPDATE d.t SET v = v + 1");
        let own =
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()";
        assert_eq!(client.query(own).cell().as_deref(), Some("1"), "{flavour:?}");
        let held = "SELECT COUNT(*) > 0 FROM performance_schema.metadata_locks l JOIN performance_schema.threads t \
                    ON t.thread_id = l.owner_thread_id WHERE t.processlist_id = CONNECTION_ID()";
        if flavour != Flavour::MariaDb {
            assert_eq!(client.query(held).cell().as_deref(), Some("1"));
        }
        client.query("ROLLBACK");
        for schema in ["performance_schema", "information_schema"] {
            assert_eq!(client.query(format!("USE {schema}")).error(), None);
            let table = if schema == "performance_schema" { "threads" } else { "processlist" };
            let id = if schema == "performance_schema" { "processlist_id" } else { "id" };
            let text = format!("SELECT COUNT(*) FROM {table} WHERE {id} = CONNECTION_ID()");
            assert_eq!(client.query(&text).cell().as_deref(), Some("1"), "{flavour:?}: {text}");
        }
    }
}

/// What runs a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Text,
    Binary,
}

/// Ends the server's connection that runs a statement with this mark, which sleeps.
fn lose(server: &RealServer, mark: &str) {
    let running = format!(
        "SELECT id FROM information_schema.processlist WHERE info LIKE '%{mark}%' AND state = 'User sleep'"
    );
    let id = loop {
        if let Some(row) = server.rows(&running).into_iter().next() {
            break row[0].clone().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // It may have come to its end.
    server.try_execute(&format!("KILL {id}"));
}

#[test]
fn a_read_that_is_sent_again_changes_nothing() {
    for flavour in Flavour::both() {
        let stand = Stand::new(
            flavour,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
                "INSERT INTO d.t VALUES (1, 1)",
                "CREATE TABLE d.innodb (n INT) ENGINE=InnoDB",
                "CREATE TABLE d.myisam (n INT) ENGINE=MyISAM",
                "CREATE TABLE d.memory (n INT) ENGINE=MEMORY",
                "CREATE FUNCTION d.f1() RETURNS INT BEGIN INSERT INTO d.innodb VALUES (CONNECTION_ID()); RETURN 1; END",
                "CREATE FUNCTION d.f2() RETURNS INT BEGIN INSERT INTO d.myisam VALUES (CONNECTION_ID()); RETURN 1; END",
                "CREATE FUNCTION d.f3() RETURNS INT BEGIN INSERT INTO d.memory VALUES (CONNECTION_ID()); RETURN 1; END",
                "CREATE FUNCTION d.f4() RETURNS INT READS SQL DATA RETURN (SELECT MAX(v) FROM d.t)",
                "CREATE VIEW d.v_innodb AS SELECT d.f1() AS x",
                "CREATE VIEW d.v_myisam AS SELECT d.f2() AS x",
                "CREATE VIEW d.v_memory AS SELECT d.f3() AS x",
                "CREATE VIEW d.v_reads AS SELECT d.f4() AS x",
                "CREATE VIEW d.v_table AS SELECT v AS x FROM d.t",
            ],
        );
        let mut sources = vec![
            ("d.v_innodb", true),
            ("d.v_myisam", true),
            ("d.v_memory", true),
            ("(SELECT x FROM d.v_myisam) AS q", true),
            ("d.v_reads", false),
            ("d.v_table", false),
            ("(SELECT v AS x FROM d.t) AS q", false),
        ];
        if flavour == Flavour::MariaDb {
            stand.server.execute(&[
                "CREATE SEQUENCE d.s",
                "CREATE VIEW d.v_sequence AS SELECT NEXT VALUE FOR d.s AS x",
            ]);
            sources.push(("d.v_sequence", true));
        }
        // Whether it has run on one connection at most.
        let runs = |stand: &Stand| {
            let all =
                "(SELECT n FROM d.innodb UNION ALL SELECT n FROM d.myisam UNION ALL SELECT n FROM d.memory)";
            stand.server.rows(&format!("SELECT COUNT(DISTINCT n) <= 1 FROM {all} AS w"))
        };
        let mut other = stand.client();
        for (number, (source, writes)) in sources.into_iter().enumerate() {
            for protocol in [Protocol::Text, Protocol::Binary] {
                let mark = format!("mark{number}{protocol:?}");
                // The function has run when the statement waits.
                let text = format!("SELECT x, SLEEP(1 + 0 * x) AS {mark} FROM {source}");
                let case = format!("{flavour:?}, {protocol:?}: {text}");
                let mut client = stand.client();
                for table in ["innodb", "myisam", "memory"] {
                    stand.server.execute(&[&format!("DELETE FROM d.{table}")]);
                }
                let code = match protocol {
                    Protocol::Text => {
                        client.send_command(command::QUERY, text.as_bytes()).unwrap();
                        command::QUERY
                    }
                    Protocol::Binary => {
                        let prepared = client.command(command::STMT_PREPARE, text.as_bytes());
                        assert_eq!(prepared.error(), None, "{case}");
                        client.send_command(command::STMT_EXECUTE, &execution(&prepared, &[])).unwrap();
                        command::STMT_EXECUTE
                    }
                };
                lose(&stand.server, &mark);

                let answer = client.answer(code);

                match (writes, answer.error()) {
                    (false, error) => assert_eq!(error, None, "{case}"),
                    (true, Some(error)) => {
                        assert_eq!(error.code, 2013, "{case}: {error:?}");
                        assert!(error.message.ends_with("It may have run."), "{case}: {error:?}");
                    }
                    (true, None) => panic!("{case}: it has run twice"),
                }
                assert_eq!(runs(&stand)[0][0].as_deref(), Some("1"), "{case}");
                // Neither session can tell that anything was read only.
                for client in [&mut client, &mut other] {
                    assert_eq!(client.query("UPDATE d.t SET v = 1 WHERE id = 1").error(), None, "{case}");
                    let variable = if flavour == Flavour::MariaDb { "tx" } else { "transaction" };
                    let shown = client.query(format!("SELECT @@{variable}_read_only")).cell();
                    assert_eq!(shown.as_deref(), Some("0"), "{case}");
                }
            }
        }
    }
}

/// With autocommit off a read begins a transaction, which cannot be read only: it is not sent again.
#[test]
fn a_read_that_begins_a_transaction_is_not_sent_again() {
    for flavour in Flavour::both() {
        let stand = Stand::new(
            flavour,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.myisam (n INT) ENGINE=MyISAM",
                "CREATE FUNCTION d.f() RETURNS INT BEGIN INSERT INTO d.myisam VALUES (CONNECTION_ID()); RETURN 1; END",
                "CREATE VIEW d.v AS SELECT d.f() AS x",
            ],
        );
        let mut client = stand.client();
        client.query("SET autocommit = 0");
        client.send_command(command::QUERY, b"SELECT x, SLEEP(1 + 0 * x) AS marked FROM d.v").unwrap();
        lose(&stand.server, "AS marked");
        let error = client.answer(command::QUERY).error().expect("it is lost");
        assert_eq!(error.code, 2013, "{flavour:?}: {error:?}");
        assert_eq!(
            stand.server.rows("SELECT COUNT(DISTINCT n) <= 1 FROM d.myisam")[0][0].as_deref(),
            Some("1")
        );
        assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "{flavour:?}");
    }
}

/// How a statement is ended while its server does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    KillQuery,
    KillConnection,
    Timeout,
    ClientGone,
}

/// A statement of a transaction that may be run again is ended, and then its server is lost: it does not run again.
#[test]
fn what_was_killed_is_not_run_again_by_a_replay() {
    for flavour in Flavour::both() {
        for ended in [Ended::KillQuery, Ended::Timeout, Ended::KillConnection, Ended::ClientGone] {
            let timeout = if ended == Ended::Timeout { "1000" } else { "600000" };
            let mut stand = Stand::with(
                ServerOptions::new(flavour),
                &["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)"],
                |config| {
                    config
                        .variable("transaction_replay", "true")
                        .variable("default_query_timeout", timeout)
                        .variable("kill_timeout_server", "60000")
                },
            );
            let case = format!("{flavour:?}, {ended:?}");
            let mut client = stand.client();
            let id = client.greeting().expect("a greeting").connection_id;
            assert_eq!(client.query("BEGIN").error(), None);
            assert_eq!(client.query("INSERT INTO d.t VALUES (1)").error(), None, "{case}");
            let mut other = stand.client();
            other.greeting().expect("a greeting");
            stand.server.freeze();
            let killed = "INSERT INTO d.t VALUES (2)";
            client.send_command(command::QUERY, killed.as_bytes()).unwrap();
            let mut admin = stand.narrows.admin();
            wait_until("it runs", || {
                let rows = admin.query("SELECT command, info FROM stats_mysql_processlist").text_rows();
                rows.iter().any(|row| row[0].as_deref() == Some("Query") && row[1].as_deref() == Some(killed))
            });
            match ended {
                Ended::KillQuery => assert_eq!(other.query(format!("KILL QUERY {id}")).error(), None),
                Ended::KillConnection => assert_eq!(other.query(format!("KILL {id}")).error(), None),
                Ended::Timeout => std::thread::sleep(Duration::from_millis(4000)),
                Ended::ClientGone => {}
            }
            if ended == Ended::ClientGone {
                drop(client);
                stand.server.kill();
                stand.server.restart();
                std::thread::sleep(Duration::from_millis(500));
            } else {
                std::thread::sleep(Duration::from_millis(200));
                stand.server.kill();
                stand.server.restart();
                let error = client.answer(command::QUERY).error();
                let error = error.unwrap_or_else(|| panic!("{case}: it has run again"));
                assert!([2013, 1317, 1907, 1927].contains(&error.code), "{case}: {error:?}");
                client.query("COMMIT");
            }
            let rows = stand.server.rows("SELECT COUNT(*) FROM d.t");
            assert_eq!(rows[0][0].as_deref(), Some("0"), "{case}");
        }
    }
}

/// An answer of a killed statement is no proof of what it answers: a replay would let it run to its end.
#[test]
fn a_statement_that_was_killed_and_has_answered_is_not_run_again() {
    for flavour in Flavour::both() {
        let stand = Stand::with(
            ServerOptions::new(flavour),
            &["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)"],
            |config| config.variable("transaction_replay", "true"),
        );
        let mut client = stand.client();
        let id = client.greeting().expect("a greeting").connection_id;
        assert_eq!(client.query("BEGIN").error(), None);
        assert_eq!(client.query("INSERT INTO d.t VALUES (1)").error(), None);
        client.send_command(command::QUERY, b"SELECT SLEEP(30) AS killed_sleep").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(stand.client().query(format!("KILL QUERY {id}")).error(), None);
        client.answer(command::QUERY);
        client.send_command(command::QUERY, b"SELECT SLEEP(1) AS lost_here").unwrap();
        lose(&stand.server, "AS lost_here");
        let error = client.answer(command::QUERY).error().expect("it is lost");
        assert_eq!(error.code, 2013, "{flavour:?}: {error:?}");
        assert!(error.message.contains("not run again"), "{flavour:?}: {error:?}");
    }
}

/// The answer of a killed statement is not kept for others.
#[test]
fn the_answer_of_a_killed_statement_is_not_cached() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), TABLES, |config| {
            config.rule("rule_id=1, active=1, match_digest=\"^SELECT SLEEP\", cache_ttl=60000, apply=1")
        });
        let mut client = stand.client();
        let id = client.greeting().expect("a greeting").connection_id;
        client.send_command(command::QUERY, b"SELECT SLEEP(2) AS s").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(stand.client().query(format!("KILL QUERY {id}")).error(), None);
        client.answer(command::QUERY);
        assert_eq!(stand.client().query("SELECT SLEEP(2) AS s").cell().as_deref(), Some("0"), "{flavour:?}");
    }
}
