//! A client's session is brought back as it was, also what a server fixes at one moment, what it reports in two meanings, and
//! what cannot be brought back any more.

use narrows_testkit::{
    Answer, Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, ServerOptions, capability, command,
};

use crate::support::Stand;

/// What one of two clients does.
#[derive(Debug, Clone)]
enum Step {
    /// Runs a statement.
    Run(usize, String),
    /// Prepares its statement.
    Prepare(usize, String),
    /// Executes what it has prepared last.
    Execute(usize),
    /// The same, with this number as its only parameter.
    ExecuteWith(usize, i64),
    /// The same, with a cursor where the statement can have one.
    ExecuteWithCursor(usize),
    /// `COM_INIT_DB`.
    InitDb(usize, String),
    /// `COM_RESET_CONNECTION`.
    Reset(usize),
}

use Step::{Execute, ExecuteWith, ExecuteWithCursor, InitDb, Prepare, Reset, Run};

fn run(who: usize, text: &str) -> Step {
    Run(who, text.to_owned())
}

/// Two clients through Narrows, and two with connections of their own.
struct Twins {
    through: [RawClient; 2],
    direct: [RawClient; 2],
    elsewhere: RawClient,
    ids: [[Vec<u8>; 2]; 2],
}

impl Twins {
    fn new(stand: &Stand, narrows: &Narrows) -> Twins {
        Twins::with(stand, narrows, 0)
    }

    /// The same with these capabilities besides.
    fn with(stand: &Stand, narrows: &Narrows, capabilities: u32) -> Twins {
        let client = |endpoint: &Endpoint| {
            let mut client = RawClient::connect(endpoint);
            client.set_patience(std::time::Duration::from_secs(60));
            let login = Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS | capabilities);
            client.login(&login).expect("a login");
            client
        };
        let (through, direct) = (narrows.endpoint(), Endpoint::Unix(stand.server.socket()));
        Twins {
            through: [client(&through), client(&through)],
            direct: [client(&direct), client(&direct)],
            elsewhere: stand.direct(),
            ids: Default::default(),
        }
    }

    /// Whether both sides answer alike; otherwise what they answer. What changes tables must run on one side at a time.
    fn differs(&mut self, steps: &[Step], before: &[&str]) -> Option<String> {
        let mut seen = Vec::new();
        for (side, ids) in self.ids.iter_mut().enumerate() {
            for text in before {
                assert_eq!(self.elsewhere.query(text).error(), None, "{text}");
            }
            let clients = if side == 0 { &mut self.through } else { &mut self.direct };
            let answers: Vec<Vec<Vec<u8>>> = steps
                .iter()
                .map(|step| {
                    shown(match step {
                        Run(who, text) => clients[*who].query(text),
                        Prepare(who, text) => {
                            let answer = clients[*who].command(command::STMT_PREPARE, text.as_bytes());
                            ids[*who] = answer.packets[0].payload.get(1..5).unwrap_or_default().to_vec();
                            return vec![answer.packets[0].payload.get(5..9).unwrap_or_default().to_vec()];
                        }
                        Execute(who) | ExecuteWithCursor(who) => {
                            let flags = u8::from(matches!(step, ExecuteWithCursor(_)));
                            let body = [&ids[*who][..], &[flags, 1, 0, 0, 0]].concat();
                            clients[*who].command(command::STMT_EXECUTE, &body)
                        }
                        ExecuteWith(who, number) => {
                            // No cursor, one execution, no NULL, types follow: LONGLONG.
                            let head = [&ids[*who][..], &[0, 1, 0, 0, 0, 0, 1, 8, 0]].concat();
                            let body = [&head[..], &number.to_le_bytes()].concat();
                            clients[*who].command(command::STMT_EXECUTE, &body)
                        }
                        InitDb(who, schema) => clients[*who].command(command::INIT_DB, schema.as_bytes()),
                        Reset(who) => clients[*who].command(command::RESET_CONNECTION, b""),
                    })
                })
                .collect();
            seen.push(answers);
            for client in clients {
                client.command(command::RESET_CONNECTION, b"");
            }
        }
        let (through, direct) = (&seen[0], &seen[1]);
        let at = (0..steps.len()).find(|at| through[*at] != direct[*at])?;
        let text = |packets: &[Vec<u8>]| {
            let texts: Vec<_> = packets.iter().map(|packet| String::from_utf8_lossy(packet)).collect();
            texts.join(" | ")
        };
        Some(format!(
            "{steps:?}\n  at {:?}\n  directly {:?}\n  through  {:?}",
            steps[at],
            text(&direct[at]),
            text(&through[at])
        ))
    }
}

/// The same for new clients, who have done nothing before.
fn differ(stand: &Stand, steps: &[Step], before: &[&str]) -> Option<String> {
    Twins::new(stand, &stand.narrows).differs(steps, before)
}

/// The columns and rows of an answer, or its error.
fn shown(answer: Answer) -> Vec<Vec<u8>> {
    if let Some(error) = answer.error() {
        return vec![format!("error {}", error.code).into_bytes()];
    }
    let packets = answer.packets.into_iter().map(|packet| packet.payload);
    // OK and EOF packets have status flags, which reports of the state may change.
    packets.filter(|payload| !matches!(payload.first(), Some(0xfe)) && payload.len() > 1).collect()
}

fn none_differ(flavour: Flavour, differences: &[String]) {
    assert!(differences.is_empty(), "{flavour:?}: {}\n{}", differences.len(), differences.join("\n"));
}

/// The two clients see the same in each case, on both servers, with a connection for each.
fn none_differs_in(cases: impl Fn(Flavour) -> Vec<Vec<Step>>) {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let narrows = with_more_connections(&stand);
        let mut twins = Twins::new(&stand, &narrows);
        let differences: Vec<String> =
            cases(flavour).iter().filter_map(|steps| twins.differs(steps, FILL)).collect();
        none_differ(flavour, &differences);
    }
}

/// Narrows before the same server with more connections: a client keeps one for a statement that is its own.
fn with_more_connections(stand: &Stand) -> Narrows {
    with_connections(stand, 4, "3000")
}

/// Narrows before the same server with this many connections, for one of which a client waits this many ms.
fn with_connections(stand: &Stand, most: u32, wait: &str) -> Narrows {
    let config = NarrowsConfig::new()
        .server(0, stand.server.port(), &format!("max_connections={most}"))
        .variable("threads", "1")
        .variable("connect_timeout_server_max", wait)
        .user("sbtest", "sbtest", "");
    Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config)
}

const VALUES: &[&str] = &[
    "'abc'",
    "5",
    "1.5",
    "1e3",
    "NULL",
    "18446744073709551615",
    "_latin1'x' COLLATE latin1_bin",
    "CONCAT('a', 1)",
];

const READ: &[&str] = &[
    "SELECT @v",
    "SELECT CONCAT(@v, 1), COALESCE(@v, 'q'), @v = 'abc'",
    "INSERT INTO d.s VALUES (@v)",
    "SELECT code FROM d.k WHERE code = @v",
    "DELETE FROM d.k WHERE code = @v",
    "SELECT code FROM d.k WHERE code IN ((SELECT @v), 'zero')",
    "SELECT ROUND(1.5555, (SELECT IF(@v = 5, 1, 2)))",
    "DELETE FROM d.k WHERE code IN (CONCAT('', (SELECT @v)), '0')",
];

const TABLES: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.s (v VARCHAR(50))",
    "CREATE TABLE d.k (code VARCHAR(10) PRIMARY KEY)",
    "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE TABLE d.stop (value VARCHAR(30)) ENGINE=InnoDB",
    "CREATE FUNCTION d.f() RETURNS VARCHAR(50) DETERMINISTIC RETURN @v",
    "CREATE VIEW d.w AS SELECT d.f() AS v",
];

const FILL: &[&str] =
    &["TRUNCATE d.s", "TRUNCATE d.k", "INSERT INTO d.k VALUES ('0'), ('abc'), ('5'), ('zero')"];

#[test]
fn the_types_that_a_statement_was_prepared_with_are_its_clients() {
    none_differs_in(|_| {
        let mut cases = Vec::new();
        for text in READ {
            for (number, value) in VALUES.iter().enumerate() {
                let others = VALUES[(number + 1) % VALUES.len()];
                let set = |who: usize, value: &str| run(who, &format!("SET @v = {value}"));
                let steps = [
                    run(0, "SET sql_mode = ''"),
                    run(1, "SET sql_mode = ''"),
                    set(0, value),
                    Prepare(0, (*text).to_owned()),
                    set(1, others),
                    Prepare(1, (*text).to_owned()),
                    Execute(0),
                    Execute(1),
                    run(0, "SELECT * FROM d.s"),
                    run(0, "SELECT * FROM d.k"),
                    // With a value of another type of its own, a statement that has to be prepared again has that type.
                    Execute(1),
                ];
                cases.push(Vec::from(steps));
            }
        }
        cases
    });
}

/// MySQL keeps a program that a session has run, with the types of the variables in it.
#[test]
fn a_program_that_another_client_has_run_reads_this_clients_variables() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        // An expression keeps the connection.
        let literals = VALUES.iter().filter(|value| !value.starts_with(['C', '_']));
        for value in literals.clone() {
            for others in literals.clone() {
                let steps = [
                    run(1, &format!("SET @v = {others}")),
                    run(1, "SELECT * FROM d.w"),
                    run(0, &format!("SET @v = {value}")),
                    run(0, "SELECT * FROM d.w"),
                ];
                differences.extend(differ(&stand, &steps, &[]));
            }
        }
        none_differ(flavour, &differences);
    }
}

#[test]
fn null_is_not_an_empty_text() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut twins = Twins::new(&stand, &stand.narrows);
        let (name, mut differences) = ("innodb_ft_user_stopword_table", Vec::new());
        let expressions = ["NULL", "(SELECT NULL)", "CONCAT(NULL, 'a')", "DEFAULT", "'d/stop'"];
        let mut sets: Vec<(&str, String)> =
            expressions.iter().map(|value| (name, format!("SET SESSION {name} = {value}"))).collect();
        sets.push((name, format!("SET @a = 1, {name} = NULL, sql_mode = ''")));
        sets.push(("sql_mode", "SET sql_mode = ''".to_owned()));
        sets.push(("sql_mode", "SET sql_mode = (SELECT '')".to_owned()));
        sets.push(("character_set_results", "SET character_set_results = NULL".to_owned()));
        sets.push(("character_set_results", "SET character_set_results = (SELECT NULL)".to_owned()));
        if flavour == Flavour::MariaDb {
            sets.push(("default_tmp_storage_engine", "SET default_tmp_storage_engine = NULL".to_owned()));
            sets.push(("enforce_storage_engine", "SET enforce_storage_engine = (SELECT NULL)".to_owned()));
        }
        for (name, set) in &sets {
            let steps = [
                run(0, set),
                run(1, "SELECT 1"),
                run(0, &format!("SELECT @@{name} IS NULL, HEX(@@{name})")),
                run(1, "SELECT 1"),
                run(0, &format!("SET {name} = DEFAULT")),
                run(1, "SELECT 1"),
                run(0, "SELECT 1"),
            ];
            differences.extend(twins.differs(&steps, &[]));
        }
        none_differ(flavour, &differences);
    }
}

/// A value that the server does not take any more: the client receives the error, and can leave it.
#[test]
fn a_value_that_is_refused_can_be_replaced() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        for leaves in ["SET SESSION innodb_ft_user_stopword_table = DEFAULT", "reset"] {
            let (mut client, mut other) = (stand.client(), stand.client());
            stand.server.execute(&["CREATE TABLE IF NOT EXISTS d.stop (value VARCHAR(30)) ENGINE=InnoDB"]);
            let set = "SET sql_mode = 'ANSI', SESSION innodb_ft_user_stopword_table = 'd/stop'";
            assert_eq!(client.query(set).error(), None, "{flavour:?}");
            other.query("SELECT 1");
            stand.server.execute(&["DROP TABLE d.stop"]);
            for _ in 0..2 {
                assert_eq!(
                    client.query("SELECT 1").error().map(|error| error.code),
                    Some(1231),
                    "{flavour:?}"
                );
            }
            let left = match leaves {
                "reset" => client.command(command::RESET_CONNECTION, b""),
                set => client.query(set),
            };
            assert_eq!(left.error(), None, "{flavour:?} {leaves}");
            other.query("SELECT 1");
            let kept = client.query("SELECT @@sql_mode LIKE '%ANSI_QUOTES%'").cell();
            let expected = if leaves == "reset" { "0" } else { "1" };
            assert_eq!(kept.as_deref(), Some(expected), "{flavour:?} {leaves}");
        }
    }
}

#[test]
fn a_client_whose_schema_was_dropped_goes_on() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        let dropped = "DROP DATABASE IF EXISTS gone";
        let begin = [
            dropped,
            "DROP DATABASE IF EXISTS e",
            "CREATE DATABASE gone",
            "CREATE DATABASE e",
            "CREATE TABLE e.t (a INT)",
        ];
        let does = [
            run(0, "USE e"),
            InitDb(0, "e".to_owned()),
            run(0, "CREATE DATABASE gone"),
            run(0, "DROP DATABASE IF EXISTS gone"),
            run(0, "SELECT 1"),
            run(0, "SELECT * FROM e.t"),
            run(0, "INSERT INTO e.t VALUES (1)"),
            run(0, "SET @a = 1, sql_mode = ''"),
            run(0, "COMMIT"),
            run(0, "BEGIN"),
            run(0, "SHOW DATABASES LIKE 'e'"),
            run(0, "USE gone"),
            Reset(0),
            Execute(0),
            Prepare(0, "SELECT * FROM e.t".to_owned()),
        ];
        for others in ["", "USE d", "USE e"] {
            for what in &does {
                let mut steps = vec![
                    run(0, "USE gone"),
                    Prepare(0, "SELECT COUNT(*) FROM e.t".to_owned()),
                    run(1, "SELECT 1"),
                ];
                if !others.is_empty() {
                    steps.push(run(1, others));
                }
                steps.extend([run(1, dropped), run(1, "SELECT 2"), what.clone()]);
                // The end of the transaction that it may have begun.
                steps.extend([run(0, "COMMIT"), run(1, "SELECT DATABASE()"), run(0, "SELECT * FROM e.t")]);
                steps.extend([run(0, "USE e"), run(0, "SELECT DATABASE()"), run(1, "SELECT DATABASE()")]);
                differences.extend(differ(&stand, &steps, &begin));
            }
            // Nothing runs in the schema of another client.
            for text in
                ["SELECT * FROM t", "INSERT INTO t VALUES (1)", "CREATE TABLE n (a INT)", "SHOW TABLES"]
            {
                begin.iter().for_each(|text| stand.server.execute(&[text]));
                let (mut client, mut other) = (stand.client(), stand.client());
                client.query("USE gone");
                other.query("SELECT 1");
                other.query(if others.is_empty() { "DO 1" } else { others });
                other.query(dropped);
                for _ in 0..2 {
                    let error = client.query(text).error().map(|error| error.code);
                    assert_eq!(error, Some(1046), "{flavour:?} {others} {text}");
                    other.query("SELECT 1");
                }
                // It is there again.
                other.query("CREATE DATABASE gone");
                other.query("SELECT 1");
                assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("gone"), "{flavour:?}");
            }
        }
        none_differ(flavour, &differences);
    }
}

/// A new connection, on which nobody has been in that schema, is as good as one of the pool.
#[test]
fn a_client_whose_schema_was_dropped_goes_on_with_a_new_connection() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        let dropped = "DROP DATABASE IF EXISTS gone";
        let begin = [
            dropped,
            "CREATE DATABASE gone",
            "CREATE DATABASE IF NOT EXISTS e",
            "CREATE TABLE IF NOT EXISTS e.t (a INT)",
        ];
        for what in [
            run(0, "USE e"),
            InitDb(0, "e".to_owned()),
            run(0, "CREATE DATABASE gone"),
            run(0, "SELECT 1"),
            run(0, "SELECT * FROM e.t"),
            run(0, "SET @a = 1, sql_mode = ''"),
            run(0, "COMMIT"),
            run(0, "USE gone"),
            Reset(0),
            Prepare(0, "SELECT * FROM e.t".to_owned()),
        ] {
            let steps = [
                run(0, "USE gone"),
                run(1, "SELECT 1"),
                run(1, dropped),
                // It keeps the only connection that there is.
                run(1, "SELECT GET_LOCK('l', 1)"),
                what,
                run(0, "SELECT * FROM e.t"),
                run(0, "USE e"),
                run(0, "SELECT DATABASE()"),
                run(1, "SELECT RELEASE_LOCK('l')"),
            ];
            let narrows = with_more_connections(&stand);
            differences.extend(Twins::new(&stand, &narrows).differs(&steps, &begin));
        }
        none_differ(flavour, &differences);
    }
}

/// MySQL prepares a statement again for the types of its parameters, when it is first executed. On a connection that is reset,
/// as after some changes of data, it is first executed once more: docs/compatibility.md.
#[test]
fn a_statement_keeps_the_settings_of_its_first_execution() {
    none_differs_in(|_| {
        let mut cases = Vec::new();
        for (setting, text) in [
            (
                "SET sql_mode = 'HIGH_NOT_PRECEDENCE'",
                "SELECT code FROM d.k WHERE NOT 1 BETWEEN -5 AND 5 OR code = ?",
            ),
            ("SET sql_mode = 'PIPES_AS_CONCAT'", "SELECT code || 'x', ? FROM d.k"),
            ("SET collation_connection = utf8mb4_bin", "SELECT 'a' = 'A', ? FROM d.k"),
        ] {
            for others in [false, true] {
                let mut steps = vec![Prepare(0, text.to_owned()), ExecuteWith(0, 77)];
                if others {
                    steps.extend([Prepare(1, text.to_owned()), ExecuteWith(1, 77)]);
                }
                steps.extend([run(0, setting), run(0, "SELECT 2"), ExecuteWith(0, 77), ExecuteWith(0, 77)]);
                if others {
                    steps.push(ExecuteWith(1, 77));
                }
                steps.push(run(1, "SELECT code FROM d.k"));
                cases.push(steps);
            }
        }
        cases
    });
}

/// What the server lets nobody set in a transaction need not be set for a statement that is prepared once more in one.
#[test]
fn a_statement_is_prepared_again_in_a_transaction() {
    let settings = [
        "SET sql_log_bin = 0",
        "SET binlog_format = 'MIXED'",
        "SET binlog_direct_non_transactional_updates = 1",
        "SET transaction_isolation = 'READ-COMMITTED'",
        "SET transaction_read_only = 0",
        "SET tx_isolation = 'READ-COMMITTED'",
        "SET sql_mode = 'ANSI'",
        "SET time_zone = '+01:00'",
        "SET foreign_key_checks = 0",
        "SET NAMES latin1",
        "SET default_storage_engine = 'MyISAM'",
        "SET session_track_gtids = 'OWN_GTID'",
        "SET gtid_next = 'AUTOMATIC'",
        "SET gtid_domain_id = 3",
        "SET server_id = 9",
    ];
    none_differs_in(|_| {
        let mut cases = Vec::new();
        for setting in settings {
            for begin in ["BEGIN", "XA START 'x'"] {
                let steps = [
                    Prepare(0, "INSERT INTO d.s VALUES ('p')".to_owned()),
                    Execute(0),
                    run(0, setting),
                    run(0, begin),
                    run(0, "INSERT INTO d.s VALUES ('q')"),
                    Execute(0),
                    run(0, if begin == "BEGIN" { "COMMIT" } else { "XA END 'x'" }),
                    run(0, if begin == "BEGIN" { "SELECT 1" } else { "XA COMMIT 'x' ONE PHASE" }),
                    run(1, "SELECT * FROM d.s"),
                ];
                cases.push(Vec::from(steps));
            }
        }
        cases
    });
}

/// What one client has for letters is not what the values of others are written in.
#[test]
fn wide_letters_of_one_client_spoil_no_value_of_another() {
    let settings = [
        "SET time_zone = '+05:00'",
        "SET time_zone = 'SYSTEM'",
        "SET lc_time_names = 'de_DE', lc_messages = 'en_US'",
        "SET sql_mode = 'ANSI'",
        "SET sql_mode = ''",
        "SET optimizer_switch = 'index_merge=off'",
        "SET default_storage_engine = 'MyISAM'",
        "SET default_tmp_storage_engine = 'InnoDB'",
        "SET innodb_ft_enable_stopword = 'ON'",
        "SET transaction_isolation = 'READ-COMMITTED'",
        "SET tx_isolation = 'READ-COMMITTED'",
        "SET myisam_stats_method = 'nulls_equal'",
        "SET binlog_format = 'ROW'",
        "SET character_set_results = 'latin1'",
        "SET character_set_client = 'latin1', character_set_results = NULL",
        "SET NAMES latin1 COLLATE latin1_german1_ci",
        "SET session_track_system_variables = 'sql_mode,time_zone'",
        "SET session_track_transaction_info = 'STATE', session_track_state_change = 'ON'",
        "SET autocommit = 'OFF'",
        "SET foreign_key_checks = 'OFF', unique_checks = 'OFF'",
    ];
    let looks = "SELECT @@time_zone, @@lc_time_names, @@sql_mode, @@default_storage_engine, @@character_set_client, \
                 @@character_set_connection, @@collation_connection, @@autocommit, @@foreign_key_checks, \
                 DAYNAME('2024-01-01'), LENGTH('x')";
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        let narrows = with_connections(&stand, 1, "1000");
        let mut twins = Twins::new(&stand, &narrows);
        for charset in ["ucs2", "utf16", "utf16le", "utf32"] {
            for wide in [
                format!("SET collation_connection = {charset}_general_ci"),
                format!("SET character_set_connection = {charset}"),
                format!("SET character_set_connection = '{charset}', time_zone = '+01:00'"),
            ] {
                for setting in settings {
                    for both in [false, true] {
                        let mut steps = vec![run(0, setting)];
                        if both {
                            steps.push(run(0, "SET collation_connection = utf16_bin"));
                        }
                        steps.extend([run(1, &wide), run(1, "SELECT 'x'"), run(0, "SELECT 'x'")]);
                        steps.extend([run(1, looks), run(0, looks), run(1, "SELECT 'x'")]);
                        steps.push(Prepare(0, "SELECT 'x'".to_owned()));
                        steps.extend([Execute(0), run(1, looks), run(0, "ROLLBACK")]);
                        differences.extend(twins.differs(&steps, &[]));
                    }
                }
            }
        }
        none_differ(flavour, &differences);
    }
}

/// A server prepares a statement again with the settings of the session that executes it, when a table has changed.
#[test]
fn a_statement_that_the_server_prepares_again_is_that_of_its_client() {
    let settings = [
        "SET NAMES latin1",
        "SET character_set_client = latin1",
        "SET character_set_connection = latin1",
        "SET collation_connection = utf8mb4_bin",
        "SET sql_mode = 'ANSI_QUOTES'",
        "SET sql_mode = 'PIPES_AS_CONCAT'",
        "SET sql_mode = 'HIGH_NOT_PRECEDENCE'",
        "SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'",
        "SET sql_mode = 'REAL_AS_FLOAT'",
    ];
    // On MySQL the connection is reset for a client with other values of these, and what it has prepared is prepared once more.
    let of_programs =
        ["SET div_precision_increment = 8", "SET lc_time_names = 'es_ES'", "SET default_week_format = 3"];
    let texts = [
        "INSERT INTO d.s VALUES ('\u{e9}')",
        "INSERT INTO d.s SELECT CONCAT('\u{e9}', code) FROM d.k",
        "DELETE FROM d.k WHERE NOT code BETWEEN 'a' AND 'b'",
        "DELETE FROM d.k WHERE NOT 1 BETWEEN -5 AND 5",
        "INSERT INTO d.s SELECT 'a' || code FROM d.k",
        "INSERT INTO d.s SELECT \"code\" FROM d.k",
        "SELECT CAST(1 AS UNSIGNED) - 2 FROM d.k",
        "INSERT INTO d.s SELECT 1 / 3 FROM d.k",
        "INSERT INTO d.s SELECT CONCAT(DAYNAME('2024-01-01'), WEEK('2024-12-31')) FROM d.k",
        "SELECT code FROM d.k WHERE 'ABC' = code",
    ];
    let changes = [
        "ALTER TABLE d.s COMMENT 'z'; ALTER TABLE d.k COMMENT 'z'",
        "FLUSH TABLES",
        "OPTIMIZE TABLE d.s, d.k",
    ];
    none_differs_in(|flavour| {
        let mut cases = Vec::new();
        let of_programs = of_programs.iter().filter(|_| flavour == Flavour::MariaDb);
        let settings: Vec<_> = settings.iter().chain(of_programs).collect();
        for text in texts {
            for setting in &settings {
                for change in changes {
                    let prepare = |who: usize| Prepare(who, text.to_owned());
                    let steps = [
                        prepare(0),
                        prepare(1),
                        Execute(0),
                        Execute(1),
                        run(0, setting),
                        Execute(0),
                        run(1, change),
                        Execute(0),
                        Execute(1),
                        run(1, "SELECT HEX(v) FROM d.s"),
                        run(1, "SELECT code FROM d.k"),
                    ];
                    cases.push(Vec::from(steps));
                }
            }
        }
        cases
    });
}

/// What a session has set that could change the answers to questions of Narrows, or what they mean.
const HOSTILE: &[&str] = &[
    "SET sql_select_limit = 0",
    "SET sql_select_limit = 1",
    "SET sql_big_selects = 0, max_join_size = 1",
    "SET character_set_results = utf16",
    "SET character_set_results = ucs2, sql_mode = 'ANSI'",
    "SET character_set_results = NULL",
    "SET collation_connection = utf16_general_ci",
    "SET sql_safe_updates = 1",
    "SET autocommit = 0",
    "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
    "SET max_error_count = 0",
    "SET max_sort_length = 4, group_concat_max_len = 4",
    "SET max_execution_time = 1000",
    "SET max_statement_time = 5",
    "SET tx_read_only = 0, sql_mode = 'ORACLE'",
    "SET sql_mode = 'EMPTY_STRING_IS_NULL'",
    "SET time_zone = '+05:00'",
    "SET timestamp = 1000000000.5",
    "SET big_tables = 1, sql_warnings = 1, sql_notes = 0",
];

#[test]
fn what_a_client_has_set_does_not_answer_for_another() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        for hostile in HOSTILE {
            let narrows = with_more_connections(&stand);
            let mut twins = Twins::new(&stand, &narrows);
            let steps = [
                run(1, "SET @e = '', sql_mode = ''"),
                run(0, hostile),
                run(0, "INSERT INTO d.t (v) VALUES (1), (2)"),
                run(0, "COMMIT"),
                run(1, "SELECT LAST_INSERT_ID()"),
                run(1, "INSERT INTO d.s VALUES (LAST_INSERT_ID())"),
                run(1, "SELECT @e IS NULL, HEX(@e), @@sql_mode"),
                run(0, "SELECT LAST_INSERT_ID() LIMIT 1"),
                run(0, "SELECT 'a' + 1 LIMIT 1"),
                run(1, "SHOW WARNINGS"),
                run(1, "SELECT @@error_count, @@warning_count"),
                run(0, "SHOW WARNINGS"),
                run(0, "SELECT SQL_CALC_FOUND_ROWS code FROM d.k LIMIT 1"),
                run(1, "SELECT FOUND_ROWS()"),
                run(0, "SELECT FOUND_ROWS() LIMIT 1"),
                run(0, "SET sql_select_limit = DEFAULT"),
                run(0, "SET sql_mode = (SELECT @@sql_mode)"),
                run(1, "SELECT 1"),
                run(0, "SELECT LAST_INSERT_ID()"),
                run(0, "SELECT @@sql_mode, @@time_zone, @@character_set_results"),
            ];
            let before: Vec<&str> = FILL.iter().copied().chain(["TRUNCATE d.t"]).collect();
            differences.extend(twins.differs(&steps, &before));
        }
        none_differ(flavour, &differences);
    }
}

/// A schema whose name the characters of another client would change.
#[test]
fn the_name_of_a_schema_is_not_read_in_the_characters_of_another_client() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut twins = Twins::new(&stand, &stand.narrows);
        let names = ["a_é", "a_Ã©", "a_ö"];
        let begin: Vec<String> = names
            .iter()
            .flat_map(|name| {
                [
                    format!("DROP DATABASE IF EXISTS `{name}`"),
                    format!("CREATE DATABASE `{name}`"),
                    format!("CREATE TABLE `{name}`.t (a VARCHAR(10))"),
                ]
            })
            .collect();
        let begin: Vec<&str> = begin.iter().map(String::as_str).collect();
        let mut differences = Vec::new();
        for name in names {
            for others in ["latin1", "sjis", "gbk", "big5", "koi8r", "utf8mb4"] {
                let steps = [
                    run(0, "SET NAMES utf8mb4"),
                    run(0, &format!("USE `{name}`")),
                    run(1, &format!("SET NAMES {others}")),
                    run(1, "SELECT 1"),
                    run(0, "INSERT INTO t VALUES ('é')"),
                    run(1, "SELECT @@character_set_client"),
                    run(0, "SELECT HEX(DATABASE()), @@character_set_client, @@collation_connection"),
                    run(0, "SET NAMES latin1"),
                    run(1, "SELECT 1"),
                    run(0, "SELECT HEX(DATABASE()), HEX(a) FROM t"),
                    run(1, "SELECT DATABASE()"),
                ];
                differences.extend(twins.differs(&steps, &begin));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// Texts that mean something else under another client's settings.
#[test]
fn what_is_set_again_means_what_it_meant() {
    let stand = Stand::with(ServerOptions::new(Flavour::MariaDb), TABLES, |config| config);
    let mut differences = Vec::new();
    for others in
        ["SET sql_mode = 'EMPTY_STRING_IS_NULL'", "SET sql_mode = 'ORACLE'", "SET time_zone = '+05:00'"]
    {
        for (set, name) in [
            ("SET @a = ''", "@a"),
            ("SET sql_mode = ''", "@@sql_mode"),
            ("SET system_versioning_asof = '2010-01-01 00:00:00'", "@@system_versioning_asof"),
            (
                "SET time_zone = '+01:00', system_versioning_asof = '2010-01-01 00:00:00'",
                "@@system_versioning_asof",
            ),
        ] {
            let narrows = with_more_connections(&stand);
            let mut twins = Twins::new(&stand, &narrows);
            let shown = format!("SELECT {name} IS NULL, {name}");
            let steps = [
                run(0, set),
                run(1, others),
                run(0, &shown),
                run(1, "SELECT 1"),
                run(0, &shown),
                run(0, others),
                run(1, "SET sql_mode = DEFAULT, time_zone = DEFAULT"),
                run(0, &shown),
            ];
            differences.extend(twins.differs(&steps, &[]));
        }
    }
    none_differ(Flavour::MariaDb, &differences);
}

/// What MySQL resolves when a session runs a program first, and MariaDB each time.
const RESOLVED: &[(&str, [&str; 2])] = &[
    ("lc_time_names = 'de_DE'", ["lc_time_names = 'fr_FR'", "lc_time_names = DEFAULT"]),
    ("div_precision_increment = 2", ["div_precision_increment = 9", "sql_mode = ''"]),
    ("default_week_format = 3", ["default_week_format = 6", "default_week_format = DEFAULT"]),
    ("group_concat_max_len = 5", ["group_concat_max_len = 7", "group_concat_max_len = DEFAULT"]),
    ("@lo = 'a', @hi = 'b'", ["@lo = 9, @hi = 10", "@lo = 9e0, @hi = 10e0"]),
    ("@lo = 9, @hi = 10", ["@lo = '9', @hi = '10'", "sql_mode = ''"]),
];

/// What comes between the client's settings and the program; some of it keeps the connection.
const BETWEEN: &[&str] = &[
    "SELECT 1",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "SHOW TABLES IN d",
    "SET sql_notes = 1",
    "DO 1",
    "COMMIT",
];

#[test]
fn a_program_is_resolved_in_its_clients_own_session() {
    for flavour in Flavour::both() {
        let stand = Stand::new(
            flavour,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.n (a INT)",
                "INSERT INTO d.n VALUES (1), (2), (3)",
                "CREATE FUNCTION d.f() RETURNS TEXT READS SQL DATA RETURN CONCAT_WS(' ', MONTHNAME('2024-03-09'), 1 / 7, \
                 WEEK('2024-03-09'), (SELECT GROUP_CONCAT(a, 'x') FROM d.n), @lo < @hi)",
                "CREATE VIEW d.v AS SELECT d.f() AS f",
                "CREATE FUNCTION d.g() RETURNS TEXT READS SQL DATA RETURN CONCAT_WS(' ', MONTHNAME('2024-03-09'), 1 / 7, \
                 WEEK('2024-03-09'), (SELECT GROUP_CONCAT(a, 'x') FROM d.n), @lo < @hi)",
                "CREATE VIEW d.other AS SELECT d.g() AS f",
            ],
        );
        let mut differences = Vec::new();
        for (others, own) in RESOLVED {
            for own in own {
                for between in BETWEEN {
                    let steps = [
                        run(1, &format!("SET {others}")),
                        run(1, "SELECT f FROM d.v"),
                        run(0, &format!("SET {own}")),
                        run(0, between),
                        run(0, "SELECT f FROM d.v"),
                    ];
                    differences.extend(differ(&stand, &steps, &[]));
                }
            }
        }
        // A client that keeps its connection may run programs in several states.
        for (others, own) in RESOLVED {
            for keeps in ["BEGIN", "SET autocommit = 0", "CREATE TEMPORARY TABLE d.own (a INT)"] {
                let free = if keeps == "BEGIN" { run(1, "COMMIT") } else { Reset(1) };
                let steps = [
                    run(1, keeps),
                    run(1, "SELECT f FROM d.v"),
                    run(1, &format!("SET {others}")),
                    run(1, "SELECT f FROM d.other"),
                    free,
                    run(0, &format!("SET {}", own[0])),
                    run(0, "SELECT f FROM d.other"),
                    run(0, "SELECT f FROM d.v"),
                ];
                differences.extend(differ(&stand, &steps, &[]));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// What is set for one statement, and reported, in forms that do not begin with SET STATEMENT.
#[test]
fn what_holds_for_one_statement_of_any_kind_is_not_kept() {
    let stand = |flavour| {
        Stand::new(
            flavour,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (a INT)",
                "INSERT INTO d.t VALUES (1)",
                "CREATE TRIGGER d.g BEFORE INSERT ON d.t FOR EACH ROW SET STATEMENT lock_wait_timeout = 3 FOR SET @x = 1",
                "CREATE PROCEDURE d.p() SET STATEMENT lock_wait_timeout = 3 FOR TRUNCATE TABLE d.t",
            ],
        )
    };
    Flavour::MariaDb.if_tested(|flavour| {
        let stand = stand(flavour);
        let mut twins = Twins::new(&stand, &stand.narrows);
        let mut differences = Vec::new();
        for statement in [
            "ALTER TABLE d.t NOWAIT COMMENT = 'x'",
            "ALTER TABLE d.t WAIT 2 COMMENT = 'y'",
            "TRUNCATE TABLE d.t NOWAIT",
            "DROP TABLE IF EXISTS d.nosuch WAIT 2",
            "CREATE INDEX i ON d.t NOWAIT (a)",
            "DROP INDEX i ON d.t WAIT 2",
            "OPTIMIZE TABLE d.t NOWAIT",
            "LOCK TABLES d.t WRITE WAIT 1; UNLOCK TABLES",
            "LOCK TABLES d.t WRITE NOWAIT",
            "SELECT * FROM d.t FOR UPDATE NOWAIT",
            "TRUNCATE TABLE d.t NOWAIT; SELECT 1",
            "DO 1; TRUNCATE TABLE d.t NOWAIT; SET @z = 1",
            "EXECUTE IMMEDIATE 'TRUNCATE TABLE d.t NOWAIT'",
            "CALL d.p()",
            "BEGIN NOT ATOMIC TRUNCATE TABLE d.t WAIT 1; END",
            "SET STATEMENT max_statement_time = 5 FOR TRUNCATE TABLE d.t NOWAIT",
        ] {
            let values = "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout, @@max_statement_time";
            for before in ["SELECT 1", "SET lock_wait_timeout = 11"] {
                let steps = [
                    run(0, before),
                    run(0, statement),
                    run(0, "UNLOCK TABLES"),
                    run(0, values),
                    // It may keep the connection.
                    Reset(0),
                    run(1, values),
                    run(0, before),
                    run(0, statement),
                    run(0, "UNLOCK TABLES"),
                    run(0, values),
                ];
                differences.extend(twins.differs(&steps, &["TRUNCATE TABLE d.t"]));
            }
        }
        none_differ(flavour, &differences);
    });
}

#[test]
fn an_empty_text_is_what_the_mode_of_its_statement_says() {
    Flavour::MariaDb.if_tested(|flavour| {
        let stand = Stand::new(flavour, &[]);
        let mut twins = Twins::new(&stand, &stand.narrows);
        let mut differences = Vec::new();
        for modes in [
            ["EMPTY_STRING_IS_NULL", ""],
            ["", "EMPTY_STRING_IS_NULL"],
            ["ANSI,EMPTY_STRING_IS_NULL", "ANSI"],
        ] {
            let steps = [
                run(0, &format!("SET sql_mode = '{}'", modes[0])),
                run(0, "SET @v = '', @w = 'x'"),
                run(0, &format!("SET sql_mode = '{}'", modes[1])),
                run(1, "SELECT @v IS NULL"),
                run(0, "SELECT @v IS NULL, @w"),
            ];
            differences.extend(twins.differs(&steps, &[]));
        }
        none_differ(flavour, &differences);
    });
}

#[test]
fn a_statement_that_fails_leaves_no_transaction_to_others() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT) ENGINE=InnoDB"]);
        let mut differences = Vec::new();
        for text in [
            "CREATE TABLE d.x (a INT) START TRANSACTION AS SELECT 1 AS a",
            "/*!80021 CREATE TABLE d.x (a INT) START TRANSACTION AS SELECT 1 AS a */",
            "CREATE TABLE d.x (a INT) START TRANSACTION",
            "CREATE TEMPORARY TABLE d.x (a INT) START TRANSACTION AS SELECT 1 AS a",
            "ALTER TABLE d.t START TRANSACTION",
            "CREATE TABLE d.t (a INT)",
        ] {
            let steps = [
                run(0, text),
                // If it keeps the connection.
                Reset(0),
                run(1, "INSERT INTO d.t VALUES (1)"),
                run(1, "ROLLBACK"),
                run(1, "SELECT COUNT(*) FROM d.t"),
            ];
            differences.extend(differ(&stand, &steps, &["DROP TABLE IF EXISTS d.x", "TRUNCATE TABLE d.t"]));
        }
        none_differ(flavour, &differences);
    }
}

/// Each insert may have set LAST_INSERT_ID() on its connection, and only the server knows: as many as there are.
#[test]
fn the_last_insert_id_survives_any_number_of_inserts_that_do_not_set_it() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        for count in [1, 7, 8, 9, 20] {
            for inserts in ["INSERT INTO d.t (id, v) VALUES ({}, 1)", "INSERT INTO d.t (id) VALUES (1), ({})"]
            {
                let mut steps = vec![
                    run(0, "SELECT LAST_INSERT_ID(4)"),
                    run(1, "SELECT 1"),
                    run(0, "INSERT INTO d.t (v) VALUES (1)"),
                ];
                for number in 0..count {
                    steps.push(run(1, "SELECT 1"));
                    steps.push(run(0, &inserts.replace("{}", &(1000 + number).to_string())));
                }
                steps.extend([run(1, "SELECT LAST_INSERT_ID()"), run(0, "SELECT LAST_INSERT_ID()")]);
                differences.extend(differ(&stand, &steps, &["TRUNCATE d.t"]));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// The pool closes a connection that has become too old, not what its client may still ask about.
#[test]
fn what_a_connection_keeps_outlives_its_age() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), TABLES, |config| {
            config.variable("connection_max_age_ms", "300")
        });
        let mut differences = Vec::new();
        for (text, questions) in [
            ("SELECT SLEEP(0.4), 1 / 0", ["SHOW WARNINGS", "SHOW COUNT(*) WARNINGS"]),
            ("INSERT INTO d.k VALUES (SLEEP(0.4)), (SLEEP(0))", ["SHOW WARNINGS", "SHOW ERRORS"]),
            ("INSERT INTO d.t (v) VALUES (SLEEP(0.4))", ["SELECT LAST_INSERT_ID()", "SELECT @@identity"]),
            ("SELECT LAST_INSERT_ID(55), SLEEP(0.4)", ["SELECT LAST_INSERT_ID()", "SELECT @@identity"]),
            (
                "SELECT SQL_CALC_FOUND_ROWS code, SLEEP(0.1) FROM d.k LIMIT 1",
                ["SELECT FOUND_ROWS()", "SELECT FOUND_ROWS() + 0"],
            ),
        ] {
            for question in questions {
                let steps = [run(0, text), run(0, question), run(1, "SELECT 1")];
                let before: Vec<&str> = FILL.iter().copied().chain(["TRUNCATE d.t"]).collect();
                differences.extend(differ(&stand, &steps, &before));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// The query cache answers a client with what its own session would say.
#[test]
fn an_answer_of_the_cache_is_that_of_the_clients_own_session() {
    for flavour in Flavour::both() {
        let stand = Stand::with(ServerOptions::new(flavour), TABLES, |config| {
            config.rule("rule_id=1 active=1 match_digest=\"^SELECT\" cache_ttl=600000 apply=1")
        });
        let mut differences = Vec::new();
        let reads = ["SELECT v FROM d.w", "SELECT @v", "SELECT MONTHNAME('2024-03-09') AS m"];
        for settings in
            ["SET @v = 'one'", "SET @v = 1", "SET lc_time_names = 'de_DE'", "SET NAMES latin1", "USE d"]
        {
            for read in reads {
                let steps = [
                    run(1, settings),
                    run(1, read),
                    run(0, read),
                    run(0, "SET @v = 'two'"),
                    run(0, read),
                    run(1, read),
                ];
                differences.extend(differ(&stand, &steps, &[]));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// MySQL makes a variable when it resolves an assignment, and evaluates some conditions then.
#[test]
fn what_is_only_prepared_leaves_no_variable_to_others() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, TABLES);
        let mut differences = Vec::new();
        for text in [
            "SET @v = ?",
            "SET @v = 'x'",
            "SELECT @v := ?",
            "DO @v := 1",
            "SELECT 1 INTO @v",
            "SELECT 1 FROM d.k WHERE (@v := 'theirs') IS NOT NULL",
            "SELECT 1 FROM d.k WHERE code = (@v := 1)",
            "SELECT LEFT('abc', @v := 2)",
            "SELECT @v := nosuch FROM d.k",
            "CALL nosuch(@v := 1)",
        ] {
            let steps = [
                Prepare(1, text.to_owned()),
                run(0, "SELECT IFNULL(@v, 9) < IFNULL(@w, 10), COALESCE(@v, 5)"),
                run(1, "SELECT 1"),
                run(0, "SELECT @v"),
            ];
            differences.extend(differ(&stand, &steps, &[]));
        }
        for text in [
            "SET @v = (SELECT 1 UNION SELECT 2)",
            "SET @v = nosuch.nosuch",
            "SET @v = (SELECT v FROM d.nosuch)",
        ] {
            for text in [run(1, text), run(1, &format!("PREPARE p FROM \"{text}\"; EXECUTE p"))] {
                let mut steps = vec![text, run(1, "DEALLOCATE PREPARE p"), Reset(1), run(0, "SELECT @v")];
                if flavour == Flavour::MariaDb {
                    steps.push(run(0, "SELECT variable_name FROM information_schema.user_variables"));
                }
                differences.extend(differ(&stand, &steps, &[]));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// The status of its results says that there is a cursor, and rows follow.
#[test]
fn a_procedure_with_a_cursor_of_its_own_is_executed_with_one_of_the_client() {
    for flavour in Flavour::both() {
        let stand = Stand::new(
            flavour,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.n (a INT)",
                "INSERT INTO d.n VALUES (1), (2), (3)",
                "CREATE PROCEDURE d.p() BEGIN DECLARE v INT; DECLARE done INT DEFAULT 0; DECLARE c CURSOR FOR SELECT a FROM d.n; \
                 DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; OPEN c; read_all: LOOP FETCH c INTO v; \
                 IF done THEN LEAVE read_all; END IF; SELECT a, v FROM d.n; END LOOP; CLOSE c; END",
            ],
        );
        let mut twins = Twins::new(&stand, &stand.narrows);
        let prepare = Prepare(0, "CALL d.p()".to_owned());
        let steps = [
            prepare,
            ExecuteWithCursor(0),
            Execute(0),
            ExecuteWithCursor(0),
            run(0, "SELECT 1"),
            // A routine keeps the connection.
            Reset(0),
            run(1, "SELECT 2"),
        ];
        none_differ(flavour, &twins.differs(&steps, &[]).into_iter().collect::<Vec<_>>());
    }
}

/// Between XA END and its end an XA transaction lets nothing be asked: Narrows does without.
#[test]
fn an_xa_transaction_survives_what_would_have_to_be_asked() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT) ENGINE=InnoDB"]);
        let mut differences = Vec::new();
        for before in ["SELECT 1", "INSERT IGNORE INTO d.t VALUES ('y')"] {
            for text in [
                "SET @@time_zone = '+01:00'",
                "SET @@session.sql_mode = CONCAT('ANSI', '')",
                "SET character_set_results = latin1",
                "SET @x = 1",
                "GET DIAGNOSTICS @n = NUMBER",
                "SHOW WARNINGS",
                "SELECT @@session_track_schema",
                "SHOW SESSION VARIABLES LIKE 'time_zone'",
                "SELECT LAST_INSERT_ID()",
                "SET @@session_track_schema = 1",
                "SELECT COUNT(*) > 9 FROM performance_schema.session_variables",
            ] {
                let mut twins = Twins::with(&stand, &stand.narrows, capability::SESSION_TRACK);
                let steps = [
                    run(1, "SET @y = 2"),
                    run(0, "XA START 'x'"),
                    run(0, "INSERT INTO d.t VALUES (7)"),
                    run(0, before),
                    run(0, "XA END 'x'"),
                    run(0, text),
                    run(0, "SELECT 2"),
                    run(0, "XA PREPARE 'x'"),
                    run(0, text),
                    run(0, "XA COMMIT 'x'"),
                    run(0, "SELECT a FROM d.t"),
                    run(0, "SELECT @@time_zone, @@sql_mode"),
                ];
                differences.extend(twins.differs(&steps, &["TRUNCATE TABLE d.t"]));
            }
        }
        none_differ(flavour, &differences);
    }
}

/// Servers warn of some assignments; a client that is brought back with one is not shown that again.
#[test]
fn what_the_server_says_of_a_setting_is_shown_once() {
    let settings = [
        "SET big_tables = 0",
        "SET big_tables = 1",
        "SET storage_engine = 'InnoDB'",
        "SET NAMES utf8",
        "SET sql_mode = 'NO_ZERO_DATE'",
        "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "SET optimizer_switch = 'engine_condition_pushdown=off'",
        "SET default_storage_engine = 'MyISAM', big_tables = 0",
    ];
    none_differs_in(|_| {
        let mut cases = Vec::new();
        for setting in settings {
            for between in [
                "SELECT @@sql_mode",
                "SELECT 1",
                "DO 1",
                "SET @a = 1",
                "SELECT COUNT(*) FROM d.t",
                "SHOW TABLES FROM d",
            ] {
                for asks in [
                    "SHOW WARNINGS",
                    "SHOW COUNT(*) WARNINGS",
                    "SELECT @@warning_count",
                    "SELECT FOUND_ROWS()",
                ] {
                    cases.push(vec![
                        run(0, setting),
                        run(0, "SELECT COUNT(*) FROM d.t"),
                        run(1, "SET time_zone = '+01:00'"),
                        run(1, "SELECT 2"),
                        run(0, between),
                        run(0, asks),
                        run(0, "SHOW WARNINGS"),
                    ]);
                }
            }
        }
        cases
    });
}
