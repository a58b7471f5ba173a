//! What differs from the recorded admin statements, and why: the source of both the test and docs/compatibility.md.

use std::fmt::Write;

use serde_json::Value;

use crate::recorded::engine::{Differences, write_lists};

/// Records that are answered differently on purpose, with the reason.
#[rustfmt::skip]
pub const DIFFERENCES: Differences = &[
    (
        &[41, 51, 53, 55, 57, 59, 61, 63, 65, 69, 73],
        "`SELECT @@name` works for statistics users: it returns a value of `stats_mysql_global`, or no row. In \
         ProxySQL it is an error.",
    ),
    (
        &[271, 273, 317, 595, 1426, 1428, 1430, 1432, 1434, 1436],
        "Statistics users may also refer to their tables with the prefix `stats.`, as Datadog's integration does. In \
         ProxySQL there is no such table.",
    ),
    (&[47], "Here too, statistics users can read the version."),
    (&[228, 229], "`SHOW WARNINGS` reports what the last statement left out or changed."),
    (
        &[294, 296, 297],
        "`SHOW TABLES FROM database LIKE 'pattern'` works, and a pattern may be in double quotes.",
    ),
    (&[334, 342, 344], "`SHOW COLUMNS FROM`, `DESCRIBE` and `DESC` work as `SHOW FIELDS FROM`."),
    (
        &[48, 49, 382, 383, 384, 385],
        "`SHOW GLOBAL`, `ALL`, `MYSQL` and `ADMIN VARIABLES LIKE` work as `SHOW VARIABLES LIKE` does.",
    ),
    (
        &[1206, 1207, 1219, 1220, 1221, 1224, 1225, 1253, 1255, 1256],
        "A `SET` of a `mysql-` or `admin-` variable that does not exist, or with a keyword that servers allow before a \
         variable, also returns a warning, which names the most similar variable.",
    ),
    (&[1334, 1335], "`KILL` ends a session, as `KILL CONNECTION` does; `KILL QUERY` kills its statement."),
    (&[1144], "`SAVE CONFIG TO FILE` takes a path in quotes."),
    (
        &[348, 843, 852, 886, 887],
        "The embedded SQLite is newer: it has `CONCAT` and `IF`, and its query plans and options look different.",
    ),
    (&[851], "`sqlite_master` also has the tables of Narrows that ProxySQL does not have."),
    (
        &[370],
        "`mysql-auto_increment_delay_multiplex` is 0: `LAST_INSERT_ID()` is correct on any connection, so none has to \
         be kept.",
    ),
    (
        &[416, 418, 462, 463],
        "`mysql_collations` has the collations of MySQL 9.7, and the server's default collation of each character set. \
         ProxySQL regards the first collation of each set as the default.",
    ),
    (
        &[704, 705],
        "A rule with an invalid regular expression is not loaded, and LOAD returns a warning with the position of the \
         mistake. ProxySQL shows it as loaded, although it never matches.",
    ),
    (&[809], "`runtime_checksums_values` shows what is running, whatever was deleted from it."),
    (
        &[842, 844, 845, 846, 1597, 1598, 1599],
        "SQL can access the tables and nothing else: ATTACH and DETACH are refused, and so is every PRAGMA that does \
         more than describe tables.",
    ),
    (
        &[1600, 1602, 1603, 1604],
        "The tables of the admin interface cannot be dropped. ProxySQL terminates when a dropped runtime table is read.",
    ),
    (&[1187], "`SELECT CONFIG FILE`, which shows all passwords, is for full users only."),
    (&[1311, 1312], "`CHECKSUM MYSQL SERVERS SSL PARAMS` names what was asked for."),
    (
        &[1390],
        "A value that was set in memory stays there until it is loaded or changed again. ProxySQL has restored the \
         running value in the meantime.",
    ),
    (&[1546, 1547], "`PROXYSQLTEST` is a command for ProxySQL's own tests."),
    (
        &[1564, 1567, 1569],
        "A statement that consists of `;` only is an error like any empty one. ProxySQL crashes with signal 11.",
    ),
    (&[1568], "A statement with a byte of value 0 is refused, and the error says so."),
    (&[1573], "CLUSTER_NODE_UUID without a UUID is an error. ProxySQL closes the connection without an error."),
    (
        &[1589, 1591, 1593],
        "No core file is written on demand: passwords and keys would be in it.",
    ),
    (
        &[1609, 1610],
        "A statement that is prepared and executed once is counted once; USE is counted in the schema that it leaves.",
    ),
    (
        &[1611, 1613],
        "An idle client has no backend connection, even if it has prepared statements, so none is shown.",
    ),
    (
        &[1616, 1618, 1622],
        "That client's connection is idle in the pool; the statements that prepared it for its next use are counted as \
         queries.",
    ),
    (
        &[1615],
        "The client's address is in `stats_mysql_errors` if `query_digests_track_hostname` is on, as in digests.",
    ),
    (&[1619], "The recorded counts include earlier statements of clients, which are not part of the recording."),
];

/// What is normalised before comparing, for all records.
#[rustfmt::skip]
const EVERYWHERE: &[&str] = &[
    "The version is `2.7.1-narrows-` followed by the version of Narrows: tools read the part before the first `-`.",
    "`runtime_mysql_users` shows hashes where ProxySQL shows passwords in clear text; they are compared as hashes.",
    "The files are called `narrows.db` and `narrows_stats.db`.",
    "The status of every answer is 514 (AUTOCOMMIT and NO_BACKSLASH_ESCAPES), and all columns are text. ProxySQL \
     answers some statements with other flags, including the one by which drivers decide how to quote.",
    "LOAD ... TO RUNTIME returns as warnings what ProxySQL writes to its log.",
    "Variables and tables that ProxySQL 2.7 does not have are left out, also when they are counted.",
    "Rows may come in another order if the statement does not specify one.",
    "The row count of statements that change no rows is not compared: both repeat that of an earlier statement.",
    "The prefix `ProxySQL Admin Error: ` appears once where ProxySQL repeats it.",
    "The error of a mistyped command or table ends with what may have been meant.",
    "The configuration file that `SELECT CONFIG INTO OUTFILE` writes has another length.",
    "`GLOBAL_CHECKSUM()` changes when the shared configuration of cluster nodes changes; its value is specific to \
     Narrows.",
];

/// The markers of the generated section.
pub const BEGIN: &str = "<!-- admin statements: generated by the test `admin` -->\n";
/// See [`BEGIN`].
pub const END: &str = "<!-- end of admin statements -->\n";

/// The section as Markdown.
pub fn section(records: &[Value]) -> String {
    let replayed = records.iter().filter(|record| record["note"].is_null()).count();
    let listed: usize = DIFFERENCES.iter().map(|(ids, _)| ids.len()).sum();
    let mut text = String::from(
        "## Admin statements\n\nHow answers of the admin interface differ from those of ProxySQL 2.7.1, as shown by a \
         replay of ",
    );
    writeln!(
        text,
        "{replayed}\nrecorded statements (`tests/vectors/admin.jsonl`): {} are answered equally, {listed} differ on \
         purpose.",
        replayed - listed
    )
    .expect("writing to a String cannot fail");
    write_lists(&mut text, EVERYWHERE, DIFFERENCES);
    text
}
