//! Reports of servers about the session, whatever clients set `session_track_*` to.

use narrows_testkit::{
    Answer, Endpoint, Flavour, Login, RawClient, ServerOptions, capability, command, reader,
};

use crate::support::Stand;

const SCHEMAS: &[&str] = &[
    "CREATE DATABASE a",
    "CREATE DATABASE b",
    "CREATE TABLE a.t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20))",
    "CREATE TABLE b.t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20))",
    "INSERT INTO a.t (name) VALUES ('a')",
    "INSERT INTO b.t (name) VALUES ('b')",
];

/// What answers report is what a server would report to this client, for each value of the variables and each form of
/// answers, while another client uses the connection with other values.
#[test]
fn a_client_receives_the_reports_that_it_has_asked_for() {
    for flavour in Flavour::both() {
        let mut differences = Vec::new();
        for form in FORMS {
            // The form of answers on the connection is that of the first client.
            let stand = unverified(ServerOptions::new(flavour));
            let (mut twin, mut other) = (Twin::new(&stand, form), client(&stand, form));
            for (round, settings) in settings(flavour).into_iter().enumerate() {
                let used =
                    ["SELECT 1", "SET sql_mode='ANSI', time_zone='+07:00'", "SET session_track_schema=0"];
                other.query(used[round % used.len()]);
                for statement in
                    [settings, "SELECT @@session_track_system_variables"].iter().chain(STATEMENTS)
                {
                    let difference = twin.run(statement);
                    differences.extend(difference.map(|it| format!("{form:#x} {settings}: {it}")));
                    // While the client has the connection for itself, the other one would wait for it.
                    if pins(&stand, &mut twin.client).is_empty() {
                        other.query("SELECT 1");
                    }
                }
            }
        }
        assert!(differences.is_empty(), "{flavour:?}: {}\n{}", differences.len(), differences.join("\n"));
    }
}

/// A server whose own values are others: what its clients have that have set none.
#[test]
fn a_client_that_asks_for_nothing_has_what_the_server_reports_by_itself() {
    for flavour in Flavour::both() {
        for options in [
            ["--session-track-schema=OFF", "--session-track-system-variables=sql_mode"],
            ["--session-track-transaction-info=CHARACTERISTICS", "--session-track-system-variables="],
            ["--session-track-state-change=ON", "--session-track-transaction-info=STATE"],
        ] {
            let options = options.iter().fold(ServerOptions::new(flavour), |all, option| all.option(option));
            let stand = unverified(options);
            let (mut twin, mut other) = (Twin::new(&stand, FORMS[0]), client(&stand, FORMS[0]));
            let statements =
                ["SHOW VARIABLES LIKE 'session_track%'", "SELECT 1; USE b"].iter().chain(STATEMENTS);
            for statement in statements {
                assert_eq!(twin.run(statement), None, "{flavour:?}");
                if pins(&stand, &mut twin.client).is_empty() {
                    assert_eq!(other.query("SELECT DATABASE()").cell(), None, "{flavour:?} {statement}");
                }
            }
        }
    }
}

/// However the reports of a USE are switched off, the schema is that of the client that chose it.
#[test]
fn a_schema_that_is_not_reported_stays_with_its_client() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, SCHEMAS);
        let ways: &[&[&str]] = &[
            &["SET session_track_schema=0", "SELECT 1; USE b"],
            &["SET session_track_schema=0; USE b"],
            &["SET session_track_schema=0; USE b; SET session_track_schema=1"],
            &["SET session_track_schema=OFF, session_track_system_variables=''", "USE b"],
            &["SET SESSION session_track_schema = (SELECT 0)", "DO 1; USE b; DO 2"],
            &["SET @@session_track_schema=0", "SELECT 1; USE a; SELECT 2; USE b"],
            &["SET STATEMENT session_track_schema=0 FOR USE b"],
            &["SET STATEMENT session_track_system_variables='', session_track_schema=0 FOR USE b"],
            &["PREPARE s FROM 'SET STATEMENT session_track_schema=0 FOR USE b'", "EXECUTE s"],
            &["EXECUTE IMMEDIATE 'SET session_track_schema=0'", "SELECT 1; USE b"],
            &[
                "SET session_track_schema=0",
                "CREATE DATABASE c",
                "USE c",
                "DROP DATABASE c",
                "CREATE DATABASE c",
            ],
            &[
                "SET session_track_schema=0",
                "CREATE DATABASE c",
                "USE c",
                "DROP DATABASE c; CREATE DATABASE c",
            ],
            &["CREATE DATABASE c; USE c; SET session_track_schema=0; DROP DATABASE c"],
        ];
        for way in ways {
            for form in FORMS {
                let (mut direct, mut client, mut other) =
                    (direct(&stand, form), client(&stand, form), stand.client());
                direct.query("USE a");
                client.query("USE a");
                other.query("USE a");
                for statement in *way {
                    direct.query(statement);
                    let _ = stand.server.try_execute("DROP DATABASE IF EXISTS c");
                }
                let _ = stand.server.try_execute("DROP DATABASE IF EXISTS c");
                let wanted = if way.iter().any(|it| it.contains("DROP")) {
                    None
                } else {
                    direct.query("SELECT DATABASE()").cell()
                };
                for statement in *way {
                    client.query(statement);
                    let looks = ["SELECT DATABASE()", "SELECT name FROM t"];
                    for look in looks {
                        if !pins(&stand, &mut client).is_empty() {
                            continue;
                        }
                        assert_eq!(
                            other.query(look).text_rows(),
                            [[Some("a".to_owned())]],
                            "{flavour:?} {form:#x} {way:?} {statement}: {look}"
                        );
                    }
                }
                assert_eq!(client.query("SELECT DATABASE()").cell(), wanted, "{flavour:?} {form:#x} {way:?}");
                client.send_command(command::QUIT, &[]).expect("a connection");
                assert_eq!(
                    other.query("SELECT DATABASE()").cell().as_deref(),
                    Some("a"),
                    "{flavour:?} {way:?}"
                );
                let _ = stand.server.try_execute("DROP DATABASE IF EXISTS c");
            }
        }
    }
}

/// What a statement has changed before it failed is reported with a later answer, which must not be another client's.
#[test]
fn a_late_report_is_nobody_elses() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[
            SCHEMAS,
            &[
                "CREATE TABLE a.g (id INT PRIMARY KEY)",
                "CREATE TRIGGER a.of_g BEFORE INSERT ON a.g FOR EACH ROW \
                 BEGIN SET time_zone='+06:00'; SET lock_wait_timeout=7; IF NEW.id < 0 THEN SIGNAL SQLSTATE '45000'; END IF; END",
            ],
        ].concat());
        let looks = [
            "SELECT @@time_zone, @@lock_wait_timeout",
            "SET @a=1",
            "USE b",
            "SET sql_mode=''",
            "DO 1",
            "SET session_track_state_change=1",
        ];
        for form in FORMS {
            for look in looks {
                let (mut direct, mut client, mut other) =
                    (direct(&stand, form), client(&stand, form), stand.client());
                for change in ["SET NAMES utf8mb4", "SELECT 1"] {
                    direct.query(change);
                    client.query(change);
                }
                assert_eq!(
                    other.query("INSERT INTO a.g VALUES (-1)").error().map(|error| error.code),
                    Some(1644)
                );
                for statement in [look, "SELECT @@time_zone, @@lock_wait_timeout", "SET sql_mode='ANSI'"] {
                    let wanted = seen(&direct.query(statement), form);
                    let found = seen(&client.query(statement), form);
                    assert_eq!(found, wanted, "{flavour:?} {form:#x} {statement} after {look}");
                }
            }
        }
        // To the client itself it is reported as directly.
        let mut twin = Twin::new(&stand, FORMS[0]);
        // An answer of Narrows has no reports of the server.
        twin.is_late = true;
        let mut differences = Vec::new();
        for statement in [
            "SELECT 1",
            "INSERT INTO a.g VALUES (-1)",
            "SHOW WARNINGS",
            "SELECT 1",
            "SET @a=1",
            "SELECT @@time_zone",
            "SET character_set_results=latin1",
        ] {
            differences.extend(twin.run(statement));
        }
        assert!(differences.is_empty(), "{flavour:?}\n{}", differences.join("\n"));
        let (early, owed) = (&twin.early, &twin.owed);
        assert!(early.is_empty() && owed.is_empty(), "{flavour:?} early {early:?}, owed {owed:?}");
    }
}

/// What is set for the next transaction keeps the connection until the server says that a transaction has taken it.
#[test]
fn what_is_set_for_the_next_transaction_ends_with_it() {
    for (flavour, form) in Flavour::both().into_iter().flat_map(|it| [(it, FORMS[0]), (it, 0)]) {
        let stand = Stand::new(flavour, SCHEMAS);
        let (level, access) = match flavour {
            Flavour::MariaDb => ("tx_isolation", "tx_read_only"),
            Flavour::MySql9 => ("transaction_isolation", "transaction_read_only"),
        };
        // And whether something is left for the next transaction.
        let ways = [
            ("SET TRANSACTION READ ONLY".to_owned(), true),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE".to_owned(), true),
            (format!("SET @@{access}=1"), true),
            (format!("SET SESSION {access}=0, @@{access}=1"), true),
            (format!("SET @@{access}=1, SESSION {level}='READ-COMMITTED'"), true),
            (format!("SET {level}='REPEATABLE-READ', session_track_system_variables='autocommit'"), false),
            (format!("SET {level}='REPEATABLE-READ'"), false),
            (format!("SET @@session.{access}=0"), false),
        ];
        for (way, is_left) in &ways {
            let (mut client, mut other) = (client(&stand, form), client(&stand, form));
            assert_eq!(client.query(way).error(), None, "{flavour:?} {way}");
            if *is_left {
                // Nothing has taken it.
                client.query("SELECT 1");
                let kept = pins(&stand, &mut client);
                assert!(!kept.is_empty(), "{flavour:?} {form:#x} {way}");
                assert!(client.query("SELECT name FROM a.t").error().is_none());
                if form == 0 {
                    // An EOF packet tells nothing, but the end of the next transaction does.
                    for statement in ["BEGIN", "SELECT name FROM a.t", "COMMIT"] {
                        assert!(client.query(statement).error().is_none());
                    }
                }
            }
            let kept = pins(&stand, &mut client);
            assert!(kept.is_empty(), "{flavour:?} {form:#x} {way}: {kept:?}");
            let update = other.query("UPDATE a.t SET name='a' WHERE id=0");
            assert_eq!(update.error(), None, "{flavour:?} {form:#x} {way}");
        }
    }
}

/// Statements that are sent by drivers and depend on the values that the session has.
#[test]
fn a_client_adds_to_its_own_list() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, SCHEMAS);
        let (mut twin, mut other) = (Twin::new(&stand, FORMS[0]), stand.client());
        let of_flavour = match flavour {
            Flavour::MariaDb => {
                "SET tx_isolation='REPEATABLE-READ', session_track_system_variables='autocommit'"
            }
            Flavour::MySql9 => {
                "SET transaction_isolation='REPEATABLE-READ', session_track_system_variables='autocommit'"
            }
        };
        for statement in [
            "SET autocommit=0, session_track_system_variables=CONCAT(@@session_track_system_variables, ',sql_mode')",
            "SELECT @@autocommit, @@session_track_schema, @@session_track_state_change, @@session_track_transaction_info",
            "SET sql_mode=''",
            "COMMIT",
            "SET autocommit=1",
            "SHOW SESSION VARIABLES LIKE 'session\\_track%'",
            "SHOW VARIABLES WHERE Variable_name = 'session_track_system_variables'",
            "SET session_track_system_variables=CONCAT(@@session_track_system_variables, ',', @@session_track_system_variables)",
            "SET session_track_system_variables='no_such_variable'",
            "SHOW WARNINGS",
            "SET session_track_schema=5",
            "SET session_track_system_variables=DEFAULT, session_track_schema=DEFAULT",
            "SELECT `session_track_schema` FROM (SELECT @@`session_track_schema` AS session_track_schema) t",
            of_flavour,
            "SET autocommit=1",
            "SET time_zone='+00:00'",
            "SELECT @@session_track_system_variables",
            "SELECT VARIABLE_VALUE FROM performance_schema.session_variables WHERE VARIABLE_NAME LIKE 'session_track_s%'",
            "SELECT VARIABLE_VALUE FROM information_schema.session_variables WHERE VARIABLE_NAME LIKE 'session_track_s%'",
        ] {
            assert_eq!(twin.run(statement), None, "{flavour:?}");
            if pins(&stand, &mut twin.client).is_empty() {
                other.query("SELECT 1");
            }
        }
    }
}

/// A routine changes some of these variables, and its text names none.
#[test]
fn what_a_routine_sets_is_a_value_of_the_client() {
    for flavour in Flavour::both() {
        let routines = [
            "CREATE PROCEDURE a.p() SET session_track_schema=0",
            "CREATE PROCEDURE a.q() SET session_track_transaction_info='STATE'",
        ];
        let stand = Stand::new(flavour, &[SCHEMAS, &routines].concat());
        let mut twin = Twin::new(&stand, FORMS[0]);
        for statement in [
            "CALL a.p()",
            "SELECT @@session_track_schema, @@session_track_system_variables, @@session_track_state_change",
            "CALL a.q()",
            "SELECT @@session_track_schema, @@session_track_system_variables, @@session_track_transaction_info",
            "BEGIN",
            "SELECT name FROM a.t",
            "COMMIT",
        ] {
            assert_eq!(twin.run(statement), None, "{flavour:?}");
        }
    }
}

/// A client that has asked for nothing receives reports of transactions as from the server itself, also while Narrows has asked for more.
#[test]
fn a_client_is_told_of_transactions_as_by_the_server() {
    for flavour in Flavour::both() {
        let stand = unverified(ServerOptions::new(flavour));
        let (mut twin, mut other) = (Twin::new(&stand, FORMS[0]), client(&stand, FORMS[0]));
        for others in ["SELECT 1", "SET session_track_transaction_info='STATE'", "SET TRANSACTION READ ONLY"]
        {
            for statement in [
                "BEGIN",
                "SELECT name FROM a.t",
                "COMMIT",
                "SET autocommit=0",
                "SELECT name FROM a.t",
                "COMMIT",
                "SET autocommit=1",
            ] {
                let difference = twin.run(statement);
                assert_eq!(difference, None, "{flavour:?} {others}");
            }
            for statement in [others, "BEGIN", "SELECT name FROM a.t", "COMMIT"] {
                assert_eq!(other.query(statement).error(), None, "{flavour:?} {statement}");
            }
        }
        for statement in [
            "BEGIN",
            "SELECT name FROM a.t",
            "INSERT INTO a.t (name) VALUES ('x')",
            "ROLLBACK",
            "SELECT name FROM a.t",
        ] {
            assert_eq!(twin.run(statement), None, "{flavour:?}");
        }
    }
}

/// The reports that Narrows asks for cost nothing with a statement that changes no setting: the server sends as many bytes as
/// to a client of its own.
#[test]
fn a_plain_answer_has_no_reports() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, SCHEMAS);
        let (mut direct, mut client) = (direct(&stand, FORMS[0]), client(&stand, FORMS[0]));
        for statement in ["USE a", "SELECT 1"] {
            direct.query(statement);
            client.query(statement);
        }
        let received = || {
            let received = "SELECT Bytes_data_recv FROM stats_mysql_connection_pool";
            stand
                .narrows
                .admin()
                .query(received)
                .cell()
                .and_then(|it| it.parse::<usize>().ok())
                .expect("a number")
        };
        for statement in [
            "SELECT 1",
            "SELECT * FROM t",
            "INSERT INTO t (name) VALUES ('x')",
            "BEGIN",
            "SELECT * FROM t",
            "INSERT INTO t (name) VALUES ('y')",
            "COMMIT",
        ] {
            let before = received();
            let wanted: usize = direct.query(statement).packets.iter().map(|it| it.payload.len() + 4).sum();
            client.query(statement);
            let found = received() - before;
            assert_eq!(found, wanted, "{flavour:?} {statement}");
        }
    }
}

/// Forms of answers.
const FORMS: [u32; 4] = [
    capability::SESSION_TRACK | capability::DEPRECATE_EOF,
    capability::SESSION_TRACK,
    capability::DEPRECATE_EOF,
    0,
];

/// Values of the variables, each a statement of a client.
fn settings(flavour: Flavour) -> Vec<&'static str> {
    let mut settings = vec![
        "SET @x=1",
        "SET session_track_schema=OFF",
        "SET session_track_schema=ON, session_track_system_variables=''",
        "SET session_track_system_variables='sql_mode,lock_wait_timeout'",
        "SET session_track_state_change=ON",
        "SET session_track_transaction_info='STATE'",
        "SET session_track_transaction_info='CHARACTERISTICS', session_track_state_change=0",
        "SET session_track_transaction_info='OFF', session_track_system_variables='time_zone,autocommit,session_track_schema'",
        "SET session_track_system_variables='*'",
        "SET session_track_system_variables='*', session_track_schema=0, session_track_state_change=1, session_track_transaction_info=2",
        "SET session_track_system_variables=DEFAULT, session_track_schema=DEFAULT, session_track_state_change=DEFAULT, session_track_transaction_info=DEFAULT",
    ];
    if flavour == Flavour::MySql9 {
        // It has the number of each statement, which is another one here.
        settings.retain(|statement| !statement.contains("'*'"));
    }
    settings
}

/// Statements whose answers are compared.
const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "USE a",
    "SELECT 1; USE b; SELECT 2",
    "SET sql_mode='ANSI'",
    "SET NAMES latin1",
    "SET NAMES utf8mb4",
    "SET time_zone='+01:00'",
    "SET lock_wait_timeout=77",
    "SET autocommit=1",
    "SET @a=1",
    "SELECT name FROM a.t",
    "BEGIN",
    "SELECT name FROM a.t",
    "INSERT INTO a.t (name) VALUES ('a')",
    "COMMIT",
    "SET TRANSACTION READ ONLY",
    "SELECT name FROM a.t",
    "SET autocommit=0",
    "SELECT name FROM a.t",
    "COMMIT",
    "SET autocommit=1",
    "SET sql_mode=DEFAULT, time_zone=DEFAULT, lock_wait_timeout=DEFAULT",
    "USE no_such",
    "SHOW VARIABLES LIKE 'session_track%'",
    "SELECT @@session_track_schema, @@session_track_state_change, @@session_track_transaction_info",
];

fn client(stand: &Stand, form: u32) -> RawClient {
    open(&stand.narrows.endpoint(), form)
}

fn direct(stand: &Stand, form: u32) -> RawClient {
    open(&Endpoint::Unix(stand.server.socket()), form)
}

fn open(endpoint: &Endpoint, form: u32) -> RawClient {
    let with = capability::MULTI_STATEMENTS | form;
    RawClient::open(endpoint, &Login::new("sbtest", "sbtest").with(with))
}

/// A client, and one with a connection of its own that does the same.
struct Twin {
    flavour: Flavour,
    form: u32,
    client: RawClient,
    direct: RawClient,
    /// What only the client has received so far,
    early: Vec<String>,
    /// and what it was not.
    owed: Vec<String>,
    /// Whether it may come with a later statement.
    is_late: bool,
}

impl Twin {
    fn new(stand: &Stand, form: u32) -> Twin {
        let (client, direct) = (client(stand, form), direct(stand, form));
        let (early, owed) = (Vec::new(), Vec::new());
        Twin { flavour: stand.flavour, form, client, direct, early, owed, is_late: false }
    }

    /// Runs a statement as both; what was different. MariaDB tells what it could not tell with an error or an EOF packet only
    /// along with something new of what it was asked for, and Narrows has asked for more: the client may receive it earlier.
    fn run(&mut self, statement: &str) -> Option<String> {
        let wanted = seen(&self.direct.query(statement), self.form);
        let found = seen(&self.client.query(statement), self.form);
        let mut rest = std::mem::take(&mut self.owed);
        rest.extend(wanted.reports.iter().cloned());
        let mut early = std::mem::take(&mut self.early);
        early.extend(found.reports.iter().cloned());
        early.retain(|report| match rest.iter().position(|it| it == report) {
            Some(place) => {
                rest.remove(place);
                false
            }
            None => true,
        });
        self.early = early;
        // Where the answer between was an EOF packet, the end of a transaction is reported whose begin was not.
        let ends_untold = self.form & capability::DEPRECATE_EOF == 0
            && self.early.iter().all(|report| report == "5:\u{8}________");
        let is_early =
            self.is_late || self.flavour == Flavour::MariaDb || self.early.is_empty() || ends_untold;
        let is_same = wanted.packets == found.packets && (self.is_late || rest.is_empty()) && is_early;
        if self.is_late {
            self.owed = rest;
        }
        (!is_same).then(|| {
            self.early.clear();
            format!("{statement}\n  directly {wanted:?}\n  shared   {found:?}")
        })
    }
}

/// A verification reads tables in the transaction of a client with autocommit off, and the server reports that.
fn unverified(options: ServerOptions) -> Stand {
    Stand::with(options, SCHEMAS, |config| config.unverified("it is reported as a part of transactions"))
}

/// Why the connection is kept. A client's ping is answered when all that its last statement has changed is known.
fn pins(stand: &Stand, client: &mut RawClient) -> Vec<Vec<Option<String>>> {
    client.command(command::PING, &[]);
    stand.narrows.admin().query("SHOW PINS").text_rows()
}

/// An answer, as far as it is compared.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Of an OK the flags, the warnings and the text; of other packets everything but their number.
    packets: Vec<String>,
    /// In one order: servers have an order of their own for variables, which depends on the list.
    reports: Vec<String>,
}

fn seen(answer: &Answer, form: u32) -> Seen {
    assert_eq!(answer.lost, None);
    let mut seen = Seen { packets: Vec::new(), reports: Vec::new() };
    for packet in &answer.packets {
        read(&packet.payload, form, &mut seen);
    }
    seen.reports.sort();
    seen
}

fn read(payload: &[u8], form: u32, seen: &mut Seen) {
    let is_ok = matches!(payload.first(), Some(0)) || payload.first() == Some(&0xFE) && payload.len() >= 7;
    if !is_ok {
        let mut payload = payload.to_vec();
        // Without reports, MariaDB says with each EOF packet that it has some.
        if form & capability::SESSION_TRACK == 0 && payload.first() == Some(&0xFE) && payload.len() == 5 {
            payload[4] &= !0x40;
        }
        return seen.packets.push(String::from_utf8_lossy(&payload).into_owned());
    }
    let mut bytes = reader::Bytes::new(payload);
    let _ = (bytes.u8(), bytes.lenenc(), bytes.lenenc());
    let (status, warnings) = (bytes.u16().unwrap_or_default(), bytes.u16().unwrap_or_default());
    let info = bytes.lenenc_bytes().unwrap_or_default().to_vec();
    if let Some(all) = bytes.lenenc_bytes() {
        let mut all = reader::Bytes::new(all);
        while let (Some(kind), Some(change)) = (all.u8(), all.lenenc_bytes()) {
            let text = String::from_utf8_lossy(change).into_owned();
            // MariaDB counts its transactions.
            if !text.contains("last_gtid") {
                seen.reports.push(format!("{kind}:{text}"));
            }
        }
    }
    // A server may set this flag and then report nothing.
    let status = status & !0x4000;
    seen.packets.push(format!("{status:#06x} {warnings} {:?}", String::from_utf8_lossy(&info)));
}
