//! What ties a client to its connection: transactions, locks, temporary tables.

use narrows_testkit::Flavour::{MariaDb, MySql9};

use super::super::script::{Burst, Script};
use super::look;
use super::sessions::{reconnect, reset};
use super::settings::variable;

pub(super) fn autocommit(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    match script.random.below(5) {
        0 => burst.query("SET autocommit = 0"),
        1 => burst.query("SET @@session.autocommit = OFF"),
        2 => burst.query("SET autocommit = 1"),
        3 => burst.query("SET AUTOCOMMIT=DEFAULT"),
        _ => {
            burst.query("SET autocommit=0");
            burst.query("SELECT @@autocommit");
            let number = script.number();
            burst.query(format!("INSERT INTO {own}.t (v, s) VALUES ({number}, 'held')"));
            burst.query(*script.random.pick(&["COMMIT", "ROLLBACK", "SET autocommit=1"]));
            burst.query(format!("SELECT COUNT(*) FROM {own}.t WHERE v = {number}"));
        }
    }
    burst.query("SELECT @@autocommit");
}

pub(super) fn transaction(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let starts = &[
        "BEGIN",
        "begin work",
        "START TRANSACTION",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION READ WRITE, WITH CONSISTENT SNAPSHOT",
        "/* app */ BEGIN",
    ];
    burst.query(*script.random.pick(starts));
    for _ in 0..=script.random.below(3) {
        let number = script.number();
        match script.random.below(9) {
            0 | 1 => burst.query(format!("INSERT INTO {own}.t (v, s) VALUES ({number}, 'trx')")),
            2 => burst.query(format!("UPDATE {own}.t SET s = 'changed{number}' WHERE id = 1")),
            3 => burst.query(format!("DELETE FROM {own}.t WHERE v = {number} - 1")),
            4 => burst.query(format!("SELECT COUNT(*), MAX(v) FROM {own}.t")),
            5 => burst.query(format!("SELECT id FROM {own}.t WHERE id = 2 FOR UPDATE")),
            6 => savepoint(script, burst),
            7 => variable(script, burst),
            _ => look(script, burst),
        }
    }
    match script.random.below(14) {
        0..=3 => burst.query("COMMIT"),
        4 | 5 => burst.query("ROLLBACK"),
        6 => {
            burst.query("COMMIT AND CHAIN");
            burst.query("ROLLBACK AND NO CHAIN");
        }
        7 => burst.query("BEGIN"),
        8 => burst.query(format!("CREATE TABLE IF NOT EXISTS {own}.ended (n INT)")),
        9 => burst.query("SET autocommit = 1"),
        10 => {
            burst.query("ROLLBACK RELEASE");
            burst.query("SELECT 'the server has closed the connection'");
            reconnect(script, burst);
        }
        11 => reconnect(script, burst),
        12 => reset(script, burst),
        // Left open, and ended later.
        _ => {}
    }
    burst.query(format!("SELECT MAX(id), MAX(v), SUM(id) FROM {own}.t"));
}

pub(super) fn savepoint(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let number = script.number();
    burst.query("SAVEPOINT one");
    burst.query(format!("INSERT INTO {own}.t (v) VALUES ({number})"));
    burst.query(*script.random.pick(&[
        "ROLLBACK TO SAVEPOINT one",
        "ROLLBACK TO one",
        "RELEASE SAVEPOINT one",
        "SAVEPOINT two",
        "ROLLBACK TO nosuch",
    ]));
}

pub(super) fn set_transaction(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let characteristics = *script.random.pick(&[
        "READ ONLY",
        "READ WRITE",
        "ISOLATION LEVEL SERIALIZABLE",
        "ISOLATION LEVEL READ COMMITTED, READ ONLY",
        "ISOLATION LEVEL READ UNCOMMITTED",
    ]);
    let scope = *script.random.pick(&["", "", "SESSION ", "LOCAL "]);
    burst.query(format!("SET {scope}TRANSACTION {characteristics}"));
    let isolation = match script.flavour {
        MariaDb => "SELECT @@tx_isolation, @@tx_read_only",
        MySql9 => "SELECT @@transaction_isolation, @@transaction_read_only",
    };
    burst.query(isolation);
    let insert = |script: &mut Script| {
        let number = script.number();
        format!("INSERT INTO {own}.t (v) VALUES ({number})")
    };
    match script.random.below(4) {
        0 => burst.query(insert(script)),
        1 => burst.query("SELECT COUNT(*) FROM common.t"),
        _ => {
            burst.query("BEGIN");
            burst.query(insert(script));
            if script.flavour == MySql9 {
                burst.query(
                    "SELECT isolation_level, access_mode FROM performance_schema.events_transactions_current \
                     WHERE thread_id = PS_CURRENT_THREAD_ID()",
                );
            }
            burst.query("COMMIT");
        }
    }
    burst.query(insert(script));
    burst.query(isolation);
    // A statement by itself may or may not use it up.
    burst.ties = true;
    if !scope.is_empty() && script.random.percent(70) {
        burst.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE");
    }
}

pub(super) fn temporary_table(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    // One name for all clients, so that a leftover is noticed, and the name of an existing table.
    let shadowing = format!("{own}.t");
    let name = (*script.random.pick(&["common.tmp", "common.tmp2", &shadowing])).to_owned();
    let create = match script.random.below(5) {
        0 => format!("CREATE TEMPORARY TABLE {name} LIKE {own}.t"),
        1 => format!("CREATE TEMPORARY TABLE {name} AS SELECT id, v, s FROM {own}.t"),
        2 => format!("create /* short */ temporary table if not exists {name} (id INT, v INT, s TEXT)"),
        _ => {
            format!("CREATE TEMPORARY TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT, s VARCHAR(9))")
        }
    };
    burst.query(create);
    burst.query(format!("INSERT INTO {name} (v, s) VALUES (7, 'seven')"));
    for _ in 0..script.random.below(3) {
        match script.random.below(4) {
            0 => burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}")),
            1 => burst.query(format!("UPDATE {name} SET v = v + 1")),
            2 => variable(script, burst),
            _ => look(script, burst),
        }
    }
    burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}"));
    match script.random.below(9) {
        0..=3 => burst.query(format!("DROP TEMPORARY TABLE {name}")),
        4 => burst.query(format!("DROP TEMPORARY TABLE IF EXISTS {name}")),
        5 if name != shadowing => burst.query(format!("DROP TABLE {name}")),
        6 => {
            burst.query("CREATE TEMPORARY TABLE common.second (n INT)");
            burst.query(format!("DROP TEMPORARY TABLE {name}, common.second"));
        }
        7 if name != shadowing => {
            burst.query(format!("ALTER TABLE {name} RENAME TO common.renamed"));
            burst.query("DROP TEMPORARY TABLE common.renamed");
            burst.ties = true;
        }
        _ => reconnect(script, burst),
    }
    burst.query(format!("SELECT COUNT(*), MAX(s) FROM {name}"));
}

/// Temporary tables with the same name in two schemas, names that must be quoted, and statements that look like
/// dropping them but do not.
pub(super) fn temporary_names(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let columns = "(id INT, v INT, s VARCHAR(9))";
    match script.random.below(6) {
        0 => {
            burst.query("USE common");
            burst.query(format!("CREATE TEMPORARY TABLE tmp {columns}"));
            burst.query("USE latin");
            burst.query("DROP TABLE IF EXISTS tmp");
        }
        1 => {
            burst.query(format!("CREATE TEMPORARY TABLE common.tmp {columns}"));
            burst.query(format!("CREATE TEMPORARY TABLE `latin` . tmp {columns}"));
            burst.query("USE latin");
            burst.query("DROP TEMPORARY TABLE tmp");
        }
        2 => {
            burst.query(format!("CREATE TEMPORARY TABLE common.`odd tmp` {columns}"));
            burst.query(*script.random.pick(&[
                "DROP TABLE IF EXISTS common.`odd other`",
                "DROP TABLE IF EXISTS common.odd",
                "DROP TABLE IF EXISTS common.`ODD TMP`",
                "DROP TEMPORARY TABLE common.`odd tmp`",
            ]));
        }
        3 => {
            burst.query(format!("CREATE TEMPORARY TABLE common.tmp2 {columns}"));
            burst.query("ALTER TABLE common.tmp2 RENAME TO common.tmp");
            burst.query("DROP TEMPORARY TABLE IF EXISTS common.tmp2");
        }
        4 => {
            burst.query(format!("USE {own}"));
            burst.query(format!("CREATE TEMPORARY TABLE t {columns}"));
            burst.query("USE common");
            burst.query(format!("DROP TEMPORARY TABLE {own}.t"));
        }
        _ => {
            burst.query(format!("CREATE TEMPORARY TABLE common.tmp {columns}"));
            burst.query("CREATE TEMPORARY TABLE IF NOT EXISTS common.tmp (other INT)");
            burst.query("DROP TEMPORARY TABLE common.tmp");
        }
    }
    for table in ["common.tmp", "latin.tmp", "common.`odd tmp`", "t"] {
        burst.query(format!("SELECT COUNT(*), MAX(s) FROM {table}"));
    }
    burst.ties = true;
}

pub(super) fn lock_tables(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let mode = *script.random.pick(&["READ", "WRITE", "WRITE, common.t READ"]);
    burst.query(format!("LOCK TABLES {own}.t {mode}"));
    let number = script.number();
    burst.query(format!("INSERT INTO {own}.t (v) VALUES ({number})"));
    burst.query("SELECT COUNT(*) FROM common.t");
    match script.random.below(5) {
        0 => {
            burst.query("BEGIN");
            burst.query(format!("SELECT COUNT(*) FROM {own}.k"));
            burst.query("COMMIT");
        }
        1 => reconnect(script, burst),
        _ => burst.query("UNLOCK TABLES"),
    }
    burst.query(format!("SELECT COUNT(*) FROM {own}.k"));
}

/// Locks that are taken and released, or seem to be, wherever an expression may appear.
pub(super) fn user_lock_anywhere(script: &mut Script, burst: &mut Burst) {
    let (own, number) = (script.own.clone(), script.number());
    let name = format!("lock{}", script.client);
    let get = match script.random.below(8) {
        0 => format!("INSERT INTO {own}.t (v) VALUES ({number} * GET_LOCK('{name}', 60))"),
        1 => format!("INSERT INTO {own}.t (v) VALUES ({number} * common.locked('{name}'))"),
        2 => format!("UPDATE {own}.t SET s = 'locked' WHERE id = 1 AND common.locked('{name}')"),
        3 => format!("SET @a = common.locked('{name}')"),
        4 => format!("SELECT id FROM common.t WHERE id = 10 AND GET_LOCK('{name}', 60)"),
        5 => format!("INSERT INTO {own}.k SELECT common.locked('{name}') UNION ALL SELECT 1"),
        6 => format!("DELETE FROM {own}.t WHERE id = 0 OR common.locked('{name}') = 0"),
        _ => format!("SELECT GET_LOCK('{name}', 60)"),
    };
    burst.query(get);
    burst.query(match script.random.below(9) {
        0 => format!("SELECT RELEASE_LOCK('{name}') FROM common.t WHERE 1 = 0"),
        1 => format!("SELECT RELEASE_LOCK('{name}') LIMIT 0"),
        2 => format!("SELECT 1 OR RELEASE_LOCK('{name}')"),
        3 => format!("SELECT RELEASE_LOCK('{name}'), nosuch"),
        4 => format!("DO RELEASE_LOCK('{name}')"),
        5 => format!("SELECT RELEASE_LOCK('{name}') AS freed"),
        6 => format!("SELECT id FROM common.t WHERE RELEASE_LOCK('{name}')"),
        7 => "SELECT RELEASE_ALL_LOCKS()".to_owned(),
        _ => format!("SELECT RELEASE_ALL_LOCKS() FROM {own}.t WHERE id = 0"),
    });
    burst.query(format!("SELECT IS_FREE_LOCK('{name}'), IS_USED_LOCK('{name}') IS NULL"));
    burst.ties = true;
}

pub(super) fn user_lock(script: &mut Script, burst: &mut Burst) {
    // Lock names are global to the server, so each client has its own.
    let name = format!("lock{}", script.client);
    let get = match script.random.below(4) {
        0 => format!("DO GET_LOCK('{name}', 60)"),
        1 => format!("SELECT GET_LOCK('{name}', 60), GET_LOCK('{name}b', 60)"),
        _ => format!("SELECT GET_LOCK('{name}', 60)"),
    };
    burst.query(get);
    burst.query(format!("SELECT IS_FREE_LOCK('{name}'), IS_USED_LOCK('{name}') IS NULL"));
    if script.random.percent(30) {
        variable(script, burst);
    }
    match script.random.below(6) {
        0 => burst.query("SELECT RELEASE_ALL_LOCKS()"),
        1 => reconnect(script, burst),
        2 => {
            burst.query(format!("SELECT GET_LOCK('{name}', 60)"));
            burst.query(format!("SELECT RELEASE_LOCK('{name}')"));
            burst.query(format!("DO RELEASE_LOCK('{name}')"));
            burst.query("DO RELEASE_ALL_LOCKS()");
        }
        3 => {
            burst.query(format!("SELECT RELEASE_LOCK('{name}'), RELEASE_LOCK('{name}b')"));
            burst.ties = true;
        }
        _ => {
            burst.query(format!("SELECT RELEASE_LOCK('{name}')"));
            burst.query(format!("SELECT RELEASE_LOCK('{name}b')"));
        }
    }
    // Its last owner has released it by now, or the server is cleaning up after it.
    burst.query(format!("SELECT GET_LOCK('{name}', 60), RELEASE_LOCK('{name}')"));
    burst.query("DO RELEASE_ALL_LOCKS()");
}
