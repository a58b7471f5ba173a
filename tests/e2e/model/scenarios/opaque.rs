//! Statements that do not show what they do: routines, functions, triggers, views over functions, prepared texts and
//! compound statements, each with each thing that can be done to a session.

use narrows_testkit::Flavour::{self, MariaDb, MySql9};

use super::super::script::{Burst, Script, own_schema};
use super::Step;
use super::one_statement::quoted;

/// What can be done, by name.
struct Act {
    name: &'static str,
    /// The statements; `{own}` and `{client}` are replaced. `m` is the value that a function returns.
    body: &'static str,
    /// Whether stored functions and triggers may do it.
    in_functions: bool,
}

const fn anywhere(name: &'static str, body: &'static str) -> Act {
    Act { name, body, in_functions: true }
}

const fn in_procedures(name: &'static str, body: &'static str) -> Act {
    Act { name, body, in_functions: false }
}

const ACTS: &[Act] = &[
    anywhere("nothing", "SET m = 'nothing'"),
    anywhere("zone", "SET time_zone = '+03:00'"),
    anywhere("checks", "SET foreign_key_checks = 0"),
    anywhere("group", "SET group_concat_max_len = 5"),
    anywhere("wait", "SET lock_wait_timeout = 71"),
    anywhere("mode", "SET sql_mode = 'ANSI'"),
    anywhere("increment", "SET auto_increment_increment = 5"),
    anywhere("limit", "SET sql_select_limit = 2"),
    anywhere("names", "SET NAMES latin1"),
    anywhere("track", "SET session_track_schema = 0"),
    anywhere("insert_id", "SET insert_id = 7654321"),
    anywhere("user_variable", "SET @a = 'from a routine', @b = 5"),
    anywhere("read_variables", "SET m = CONCAT_WS(' ', @a, @b, @c, @@time_zone, @@group_concat_max_len)"),
    anywhere("lock", "SET m = GET_LOCK('lock{client}', 0)"),
    anywhere("unlock", "SET m = RELEASE_LOCK('lock{client}')"),
    anywhere("insert", "INSERT INTO {own}.r (s) VALUES ('routine'); SET m = LAST_INSERT_ID()"),
    anywhere("id", "SET m = LAST_INSERT_ID()"),
    anywhere("identity", "SET m = CONCAT(@@identity, ' ', @@last_insert_id)"),
    anywhere("give_id", "SET m = LAST_INSERT_ID(4321)"),
    anywhere("child", "INSERT INTO {own}.child (parent) VALUES (LAST_INSERT_ID())"),
    anywhere("counts", "SET m = CONCAT(ROW_COUNT(), ' ', FOUND_ROWS())"),
    anywhere("conditions", "GET DIAGNOSTICS CONDITION 1 @c = MESSAGE_TEXT"),
    anywhere("number", "GET DIAGNOSTICS n = NUMBER; SET m = n"),
    anywhere("signal", "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'signal of {client}'"),
    anywhere("warn", "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'warning of {client}'"),
    anywhere("temporary", "CREATE TEMPORARY TABLE common.tmp (id INT, v INT, s VARCHAR(9))"),
    anywhere("forget", "DROP TEMPORARY TABLE IF EXISTS common.tmp"),
    in_procedures("log_bin", "SET sql_log_bin = 0"),
    in_procedures("autocommit", "SET autocommit = 0"),
    in_procedures("begin", "START TRANSACTION; INSERT INTO {own}.r (s) VALUES ('open')"),
    in_procedures("commit", "COMMIT"),
    in_procedures("next", "SET TRANSACTION READ ONLY"),
    in_procedures("isolation", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    in_procedures("use", "PREPARE left_open FROM 'USE common'; EXECUTE left_open"),
    in_procedures("prepare", "PREPARE left_open FROM 'SELECT @@time_zone'; EXECUTE left_open"),
    in_procedures(
        "rows",
        "SELECT id, s FROM common.t ORDER BY id; SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()",
    ),
    in_procedures("warnings", "SHOW WARNINGS"),
    in_procedures("errors", "SHOW COUNT(*) ERRORS; SELECT @@warning_count"),
    in_procedures("savepoint", "SAVEPOINT one"),
];

impl Act {
    fn body(&self, client: usize) -> String {
        self.body.replace("{own}", &own_schema(client)).replace("{client}", &client.to_string())
    }
}

pub(super) fn shared_preparation() -> Vec<String> {
    let names: Vec<String> = ACTS.iter().map(|act| format!("('{}')", act.name)).collect();
    vec![
        "CREATE TABLE common.acts (name VARCHAR(30) PRIMARY KEY)".to_owned(),
        format!("INSERT INTO common.acts VALUES {}", names.join(", ")),
        "SET GLOBAL log_bin_trust_function_creators = 1".to_owned(),
    ]
}

pub(super) fn preparation(client: usize, flavour: Flavour) -> Vec<String> {
    let own = own_schema(client);
    let cases = |acts: Vec<&Act>| -> String {
        let one = |act: &&Act| format!("WHEN '{}' THEN {};", act.name, act.body(client));
        let whens: Vec<String> = acts.iter().map(one).collect();
        format!("CASE what {} ELSE BEGIN END; END CASE;", whens.join(" "))
    };
    let declared = "DECLARE n INT; DECLARE m VARCHAR(200) DEFAULT 'done';";
    let of_function = cases(ACTS.iter().filter(|act| act.in_functions).collect());
    let of_procedure = cases(ACTS.iter().collect());
    // MariaDB has no STACKED area.
    let area = if flavour == MariaDb { "" } else { "STACKED" };
    vec![
        format!(
            "CREATE TABLE {own}.r (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20)) ENGINE=InnoDB"
        ),
        format!("CREATE TABLE {own}.child (parent BIGINT UNSIGNED) ENGINE=InnoDB"),
        format!("CREATE TABLE {own}.g (what VARCHAR(30), r VARCHAR(200)) ENGINE=InnoDB"),
        format!(
            "CREATE FUNCTION {own}.f(what VARCHAR(30)) RETURNS VARCHAR(200) MODIFIES SQL DATA \
             BEGIN {declared} {of_function} RETURN m; END"
        ),
        format!(
            "CREATE PROCEDURE {own}.p(what VARCHAR(30)) MODIFIES SQL DATA BEGIN {declared} {of_procedure} END"
        ),
        format!(
            // Texts: MariaDB's error about a number that is too large has the row number of an earlier statement.
            "CREATE PROCEDURE {own}.o(INOUT first VARCHAR(200), OUT second VARCHAR(20)) \
             BEGIN SET first = CONCAT(first, '1'); SET second = 'out'; END"
        ),
        format!(
            "CREATE PROCEDURE {own}.handled() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION \
             GET {area} DIAGNOSTICS CONDITION 1 @c = MESSAGE_TEXT; INSERT INTO {own}.t (v) VALUES (-1); END"
        ),
        format!(
            "CREATE TRIGGER {own}.on_g BEFORE INSERT ON {own}.g FOR EACH ROW SET NEW.r = {own}.f(NEW.what)"
        ),
        format!("CREATE VIEW {own}.w AS SELECT name, {own}.f(name) AS r FROM common.acts"),
    ]
}

/// What a client looks at after any of them.
fn look(script: &mut Script, burst: &mut Burst) {
    let (own, client) = (script.own.clone(), script.client);
    for _ in 0..1 + script.random.below(3) {
        let statement = match script.random.below(13) {
            0 | 1 => {
                "SELECT @@time_zone, @@foreign_key_checks, @@group_concat_max_len, @@lock_wait_timeout, \
                 @@sql_log_bin, @@autocommit, @@auto_increment_increment, @@sql_select_limit, @@sql_mode, \
                 @@insert_id, @@character_set_client"
                    .to_owned()
            }
            2 => "SELECT @a, @b, @c".to_owned(),
            3 => "SELECT LAST_INSERT_ID(), ROW_COUNT()".to_owned(),
            4 => "SELECT LAST_INSERT_ID(), @@identity".to_owned(),
            5 => "SELECT COUNT(*) FROM common.tmp".to_owned(),
            6 => "SELECT DATABASE()".to_owned(),
            7 => "SHOW WARNINGS".to_owned(),
            8 => format!("SELECT IS_FREE_LOCK('lock{client}')"),
            9 => format!("SELECT MAX(parent), COUNT(*) FROM {own}.child"),
            10 => format!("INSERT INTO {own}.r (s) VALUES ('look')"),
            11 => "EXECUTE left_open".to_owned(),
            _ => match script.flavour {
                MariaDb => "SELECT @@session_track_schema, @@tx_isolation, @@tx_read_only".to_owned(),
                MySql9 => "SELECT @@session_track_schema, @@transaction_isolation, @@transaction_read_only"
                    .to_owned(),
            },
        };
        burst.query(statement);
    }
}

pub(super) fn act(script: &mut Script, burst: &mut Burst) {
    if script.random.percent(30) {
        before(script, burst);
    }
    let act = script.random.below(ACTS.len());
    carry(script, burst, &ACTS[act]);
    look(script, burst);
    burst.ties = true;
}

/// Gives the session something that may be asked for.
fn before(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    match script.random.below(7) {
        0 => burst.query(format!("INSERT INTO {own}.r (s) VALUES ('before')")),
        1 => burst.query(format!("INSERT INTO {own}.t (v) VALUES (-1)")),
        2 => burst.query("SELECT 1 / 0, CAST('x' AS SIGNED)"),
        3 => burst.query("SELECT SQL_CALC_FOUND_ROWS id FROM common.t ORDER BY id LIMIT 1"),
        4 => burst.query("SET time_zone = '-01:00'"),
        5 => burst.query(format!("UPDATE {own}.t SET s = CONCAT(LEFT(s, 3), 'x') WHERE id <= 2")),
        _ => burst.query("SET @a = 'before', @c = 1"),
    }
}

/// `LAST_INSERT_ID()` and counts, asked and set by statements that do not show it.
pub(super) fn ids(script: &mut Script, burst: &mut Burst) {
    const ABOUT_IDS: &[&str] = &["insert", "id", "identity", "give_id", "child", "counts"];
    for _ in 0..1 + script.random.below(3) {
        if script.random.percent(50) {
            before(script, burst);
        }
        let name = *script.random.pick(ABOUT_IDS);
        let act = ACTS.iter().find(|act| act.name == name).expect("a name of the table");
        carry(script, burst, act);
        match script.random.below(6) {
            0 => burst.query("SELECT LAST_INSERT_ID()"),
            1 => burst.query("SELECT @@identity, @@last_insert_id"),
            2 => burst.query("SELECT ROW_COUNT()"),
            3 => burst.query(match script.flavour {
                MariaDb => {
                    "SELECT variable_name, variable_value FROM information_schema.session_variables \
                     WHERE variable_name IN ('LAST_INSERT_ID', 'IDENTITY') ORDER BY 1"
                }
                MySql9 => {
                    "SELECT variable_name, variable_value FROM performance_schema.session_variables \
                     WHERE variable_name IN ('last_insert_id', 'identity') ORDER BY 1"
                }
            }),
            4 => burst.query(format!("INSERT INTO {}.child (parent) VALUES (LAST_INSERT_ID())", script.own)),
            _ => {}
        }
    }
    look(script, burst);
    burst.ties = true;
}

/// What a trigger or a view does without any report and without a text that shows it: Narrows cannot know of it, as
/// `docs/compatibility.md` says.
const UNTOLD: &[&str] =
    &["lock", "unlock", "insert_id", "id", "identity", "give_id", "child", "counts", "conditions", "number"];

/// One of the ways in which a statement hides what it does.
fn carry(script: &mut Script, burst: &mut Burst, act: &Act) {
    let (own, name) = (script.own.clone(), act.name);
    let is_untold = UNTOLD.contains(&name);
    let is_mariadb = script.flavour == MariaDb;
    let is_plain = !act.body.contains("m =") && !act.body.contains("; ");
    let statement = match script.random.below(if act.in_functions { 19 } else { 9 }) {
        0 | 1 => format!("CALL {own}.p('{name}')"),
        2 => {
            burst.query(format!("PREPARE carrier FROM 'CALL {own}.p(''{name}'')'"));
            "EXECUTE carrier".to_owned()
        }
        3 => return burst.steps.push(Step::Prepared(format!("CALL {own}.p('{name}')").into_bytes())),
        4 if is_mariadb => format!("EXECUTE IMMEDIATE 'CALL {own}.p(''{name}'')'"),
        5 if is_mariadb => format!("BEGIN NOT ATOMIC CALL {own}.p('{name}'); END"),
        6 if is_mariadb => format!("IF 1 THEN CALL {own}.p('{name}'); END IF"),
        7 if is_mariadb => format!(
            "BEGIN NOT ATOMIC DECLARE n INT; DECLARE m VARCHAR(200); {}; END",
            act.body(script.client)
        ),
        8 if is_mariadb && is_plain => format!("EXECUTE IMMEDIATE {}", quoted(&act.body(script.client))),
        8 if is_plain => {
            burst.query(format!("PREPARE carrier FROM {}", quoted(&act.body(script.client))));
            "EXECUTE carrier".to_owned()
        }
        9 | 10 => format!("SELECT {own}.f('{name}')"),
        11 => format!("DO {own}.f('{name}')"),
        12 => format!("SET @b = {own}.f('{name}')"),
        13 if !is_untold => format!("INSERT INTO {own}.g (what) VALUES ('{name}')"),
        14 if !is_untold => format!("SELECT r FROM {own}.w WHERE name = '{name}'"),
        15 => format!("SELECT id FROM common.t WHERE id = 10 AND {own}.f('{name}') IS NOT NULL"),
        16 => format!("DELETE FROM {own}.k WHERE id = {own}.f('{name}')"),
        17 => return burst.steps.push(Step::Prepared(format!("SELECT {own}.f('{name}')").into_bytes())),
        18 if !is_untold => {
            burst.query(format!("PREPARE carrier FROM 'SELECT r FROM {own}.w WHERE name = ''{name}'''"));
            "EXECUTE carrier".to_owned()
        }
        _ => format!("CALL {own}.p('{name}')"),
    };
    burst.query(statement);
}

/// Procedures with OUT parameters, which answer in a way that depends on the client's capabilities.
pub(super) fn out_parameters(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    match script.random.below(5) {
        0 => burst.query(format!("CALL {own}.o(@b, @c)")),
        1 => burst.query(format!("CALL {own}.p('rows')")),
        2 => burst.steps.push(Step::Prepared(format!("CALL {own}.o(@b, @c)").into_bytes())),
        _ => burst.steps.push(Step::PreparedCall(format!("CALL {own}.o(?, ?)").into_bytes())),
    }
    burst.query("SELECT 'after a call'");
    burst.query("SELECT @b, @c");
    burst.ties = true;
}
