//! What differs from the recording, and why: the source of both the test and docs/compatibility.md.

use std::fmt::Write;

use serde_json::Value;

use super::engine::{Differences, numbers, write_lists};

/// Records that are not replayed: another test, with its own settings and waits, covers them, or Narrows does not have
/// the feature yet.
pub struct Later {
    /// A whole group of records.
    pub group: Option<&'static str>,
    /// Single records.
    pub ids: &'static [u64],
    /// What they are about.
    pub what: &'static str,
    /// The test that covers it; `None`: the feature does not exist yet.
    pub shown_by: Option<&'static str>,
}

impl Later {
    /// Whether a record is one of them.
    pub fn covers(&self, record: &Value) -> bool {
        let id = record["id"].as_u64().unwrap_or(0);
        self.ids.contains(&id) || self.group.is_some_and(|group| record["group"] == group)
    }

    /// The numbers of its records.
    fn numbers(&self, records: &[Value]) -> String {
        let covered = records.iter().filter(|record| self.covers(record));
        numbers(&covered.filter_map(|record| record["id"].as_u64()).collect::<Vec<_>>())
    }
}

const fn group(group: &'static str, what: &'static str, shown_by: &'static str) -> Later {
    Later { group: Some(group), ids: &[], what, shown_by: Some(shown_by) }
}

const fn ids(ids: &'static [u64], what: &'static str, shown_by: &'static str) -> Later {
    Later { group: None, ids, what, shown_by: Some(shown_by) }
}

const fn not_yet(ids: &'static [u64], what: &'static str) -> Later {
    Later { group: None, ids, what, shown_by: None }
}

/// Parts of the recording that are not replayed.
pub const LATER: &[Later] = &[
    not_yet(&[504, 505], "mysql-automatic_detect_sqli"),
    ids(&[85, 92], "lists of tables and databases", "tests/e2e/admin/recorded.rs"),
    ids(&[90], "TLS on the admin port", "tests/e2e/admin/operate.rs"),
    group("module", "PROXYSQL PAUSE, RESUME, STOP, START", "tests/e2e/admin/operate.rs"),
    ids(&[499, 500, 501, 502, 503], "the firewall", "tests/e2e/rules/mod.rs"),
    group("comment", "annotations in comments", "tests/e2e/rules/mod.rs"),
    ids(&[2, 4, 15], "compression and server_capabilities", "tests/e2e/auth/compression.rs"),
    ids(&[3, 12, 62, 63, 64, 65, 487, 488], "TLS", "tests/e2e/auth/tls.rs"),
    ids(&[11, 34, 485, 486, 489], "passwords stored as SHA2 hashes", "tests/e2e/auth/plugins.rs"),
    ids(&[67, 68, 69, 70, 71], "limits on the number of client connections", "tests/e2e/timeouts.rs"),
    ids(&[322, 323, 324, 325, 326, 327, 328, 329], "rules that answer statements", "tests/e2e/rules/mod.rs"),
    ids(&[330, 331, 332, 333], "rules with a timeout, a delay or a rewrite", "tests/e2e/rules/mod.rs"),
    ids(&[334], "statistics of a cached result", "tests/e2e/cache/lives.rs"),
    ids(&[350, 351], "fast_forward", "tests/e2e/fast_forward.rs"),
    ids(&[352], "statistics", "tests/e2e/figures/mod.rs"),
    ids(&[353, 354, 355, 356], "the state of servers changed at run time", "tests/e2e/hostgroups.rs"),
    ids(&[364], "mysql-set_query_lock_on_hostgroup, which has nothing to do", "tests/e2e/sharing.rs"),
    ids(&[470], "KILL CONNECTION", "tests/e2e/admin/operate.rs"),
    ids(&[472, 473, 475], "time limits of sessions and statements", "tests/e2e/timeouts.rs"),
];

/// Records that are answered differently on purpose, with the reason.
pub const DIFFERENCES: Differences = &[
    (
        &[24, 29, 221, 223, 227, 229, 416],
        "An unknown schema is error 1049 at once: in a login or COM_CHANGE_USER, which ends the connection, or in a \
         USE, after which the session keeps its schema. ProxySQL returns OK and answers every later statement with \
         1049.",
    ),
    (
        &[357, 359],
        "A session is never locked to a hostgroup because of a user variable: errors 9006 and 9005 do not exist.",
    ),
    (
        &[
            93, 97, 98, 99, 101, 102, 104, 106, 107, 108, 109, 110, 111, 119, 120, 121, 123, 124, 125, 422,
            424, 425, 426, 427, 428, 431, 437, 438, 440, 441, 443, 446, 447, 448, 449, 450, 451, 452, 453,
            454, 455,
        ],
        "A command that is unknown, or not for clients of a proxy, is error 1047 (08S01) and the session continues. \
         ProxySQL closes the connection without an error.",
    ),
    (&[35, 36], "If a server refuses an account, the error says which server and which account."),
    (
        &[201, 202],
        "A KILL that does not give a session id as a number is error 1235: no KILL is sent to a server.",
    ),
    (&[439], "COM_BINLOG_DUMP is answered by the server. ProxySQL closes the connection without an error."),
    (&[122, 511], "COM_RESET_CONNECTION and COM_CHANGE_USER work on the admin port too."),
    (&[430], "COM_PROCESS_INFO is answered by the server."),
    (&[432, 433], "COM_PROCESS_KILL works; an unknown id is error 1094, a truncated command 1835."),
    (&[434], "COM_DEBUG is answered as a server would."),
    (&[460], "An empty packet in place of a command is error 1047 (08S01) and the session continues."),
    (&[74, 461], "A wrong sequence number is error 1156 (08S01) and ends the connection."),
    (
        &[72, 73, 75, 77, 78, 79],
        "A malformed handshake response is error 1043 (08S01), and the connection is closed.",
    ),
    (
        &[26, 28, 135],
        "If neither the client nor its account names a schema, the session has none, as on a server; see \
         mysql-default_schema.",
    ),
    (
        &[152, 153],
        "CONNECTION_ID(), FOUND_ROWS(), ROW_COUNT() and @@warning_count are replaced in the statement by values of \
         the server's types; the statements that prepare the backend connection do not affect them.",
    ),
    (&[346], "If a hostgroup has no servers, error 9001 says so, even in answer to SELECT CONNECTION_ID()."),
    (
        &[366],
        "With transaction_persistent=0, the status flags of an answer are those of the server that gave it, and do not \
         show a transaction that is open on another server.",
    ),
    (&[131, 497], "@@version_comment is the server's, in all spellings."),
    (&[136, 137, 496], "SELECT DATABASE(), USER() is answered by the server. ProxySQL swaps the two values."),
    (&[139], "SELECT $$ is answered by the server."),
    (
        &[145, 146, 147, 148, 216, 217, 218],
        "LAST_INSERT_ID(), @@identity and SHOW WARNINGS have the columns that the server gives them.",
    ),
    (&[197, 198, 199, 200], "KILL of an unknown id is error 1094."),
    (&[469], "KILL of another user's session is refused with error 1095."),
    (&[471], "KILL of one's own session ends it, as on a server."),
    (&[230], "COM_INIT_DB without a name is answered by the server (1046)."),
    (&[457], "COM_INIT_DB with a zero byte in the name is answered by the server (1102)."),
    (
        &[236, 237, 238],
        "SET NAMES is decided by the server: what it refuses is error 1273 or 1253, and DEFAULT works.",
    ),
    (
        &[247, 248, 254, 256, 259, 297, 299, 308],
        "A SET that the server refuses returns the server's error at once, and none of it is applied. ProxySQL returns \
         OK and fails the next statement, or applies a part.",
    ),
    (
        &[265, 266, 300, 301],
        "A variable that the server does not know is the server's error 1193; ProxySQL returns OK.",
    ),
    (
        &[243, 246, 249, 250, 252],
        "SET autocommit=0 is sent to the server: SELECT @@autocommit then returns 0. ProxySQL only remembers it.",
    ),
    (&[240, 242], "SET CHARACTER SET uses the collation of the schema, as on a server."),
    (&[132, 133, 498], "CONNECTION_ID() is Narrows' id in every spelling, in a column of the server's type."),
    (
        &[7],
        "If a password is stored as a mysql_native_password hash, the client is asked to use that plugin, whatever it \
         began with.",
    ),
    (
        &[44, 52, 53, 55],
        "A collation in the login that the server does not have is replaced by the default of its character set; one \
         that is unknown, or whose character set the server does not have, by the server's default.",
    ),
    (&[413], "COM_CHANGE_USER without a schema selects the new user's default_schema, as a login does."),
    (
        &[378, 379],
        "COM_SET_OPTION switches multiple statements off as well as on; an unknown option is error 1047.",
    ),
    (
        &[387, 391, 399, 400, 403, 404, 408, 409, 410, 459],
        "Errors about prepared statements are those of the server, and cursors work.",
    ),
    (&[417], "A truncated COM_CHANGE_USER is an error that does not disclose memory contents."),
    (
        &[376, 380],
        "The status flags within multiple statements are the server's: no transaction is reported if there is none.",
    ),
    (&[463], "LOAD DATA LOCAL reads a file of the client. ProxySQL reads one on its own host."),
    (
        &[477, 481],
        "If a backend connection is lost in a transaction, the client receives error 2013 and the session ends. \
         ProxySQL closes the client's connection without an error.",
    ),
    (
        &[478],
        "A session with user variables survives the loss of its idle backend connection: the values are set again on \
         another one.",
    ),
    (
        &[490],
        "COM_FIELD_LIST is passed on; the column definitions are the server's, including default values.",
    ),
    (
        &[491, 492, 494],
        "Commands that are sent before the previous one is answered are answered in order. ProxySQL closes the \
         connection.",
    ),
];

/// Parts of Narrows' answers that depend on the run or on the server's version, and are not stored.
const VOLATILE: &[(u64, &[&str])] = &[
    (131, &["/steps/0/reply/rows", "/steps/0/reply/columns/0/3"]),
    (409, &["/steps/2/reply/err/2"]),
    (410, &["/steps/2/reply/err/2"]),
    (430, &["/steps/0/reply/rows"]),
    (469, &["/killer_reply/err/2"]),
    (477, &["/reply/err/2"]),
    (481, &["/reply/err/2"]),
    (
        497,
        &[
            "/steps/0/reply/rows",
            "/steps/0/reply/columns/0/3",
            "/steps/1/reply/rows",
            "/steps/1/reply/columns/0/3",
            "/steps/2/reply/rows",
            "/steps/2/reply/columns/0/3",
            "/steps/3/reply/rows",
            "/steps/3/reply/columns/0/3",
            "/steps/4/reply/rows",
            "/steps/4/reply/columns/0/3",
        ],
    ),
];

/// What was found, without what is [`VOLATILE`].
pub fn without_volatile(id: u64, mut found: Value) -> Value {
    for pointer in VOLATILE.iter().filter(|(volatile, _)| *volatile == id).flat_map(|(_, pointers)| *pointers)
    {
        let volatile = found.pointer_mut(pointer).unwrap_or_else(|| panic!("record {id} has no {pointer}"));
        *volatile = if volatile.is_array() { Value::Array(Vec::new()) } else { Value::Null };
    }
    found
}

/// What is normalised before comparing, for all records.
const EVERYWHERE: &[&str] = &[
    "The texts of Narrows' own errors do not begin with `ProxySQL Error: `.",
    "Error 9001 names the hostgroup and in addition each server with its state and the cause, and how long the client \
     waited.",
    "Column flags do not contain NUM_FLAG (32768), which client libraries use and servers never send.",
    "Status flags are the server's. ProxySQL reports a transaction after an error outside of a transaction, and \
     SESSION_STATE_CHANGED if its own preparation of the backend connection caused it.",
    "CLIENT_SESSION_TRACK is supported: changes that the server reports are passed on to a client that has asked for \
     them.",
];

/// The markers of the generated section.
pub const BEGIN: &str = "<!-- wire behaviour: generated by the test `recorded` -->\n";
/// See [`BEGIN`].
pub const END: &str = "<!-- end of wire behaviour -->\n";

/// The section as Markdown.
pub fn section(records: &[Value]) -> String {
    let mut text = String::from(
        "## Wire behaviour\n\nHow answers differ from those of ProxySQL 2.7.1, as shown by a replay of ",
    );
    let covered = |record: &&Value, is_shown: bool| {
        LATER.iter().any(|entry| entry.covers(record) && entry.shown_by.is_some() == is_shown)
    };
    let shown = records.iter().filter(|record| covered(record, true)).count();
    let later = records.iter().filter(|record| covered(record, false)).count();
    let listed: usize = DIFFERENCES.iter().map(|(ids, _)| ids.len()).sum();
    writeln!(
        text,
        "{} recorded interactions\n(`tests/vectors/client.jsonl`): {} are answered equally, {listed} differ on purpose, \
         {shown} are covered by other tests, {later} are about features that Narrows does not have \
         yet.",
        records.len(),
        records.len() - shown - later - listed,
    )
    .expect("writing to a String cannot fail");
    write_lists(&mut text, EVERYWHERE, DIFFERENCES);
    text.push_str("\n### Shown by other tests\n\n| what | by | records |\n|---|---|---|\n");
    for (entry, shown_by) in LATER.iter().filter_map(|entry| Some((entry, entry.shown_by?))) {
        writeln!(text, "| {} | `{shown_by}` | {} |", entry.what, entry.numbers(records))
            .expect("writing to a String cannot fail");
    }
    text.push_str("\n### Not yet\n\n| what | records |\n|---|---|\n");
    for entry in LATER.iter().filter(|entry| entry.shown_by.is_none()) {
        writeln!(text, "| {} | {} |", entry.what, entry.numbers(records))
            .expect("writing to a String cannot fail");
    }
    text
}
