//! Reads that go to different servers than everything else: those outside of transactions that need nothing but the
//! session's state and data that never changes. Their answers there are the same as here, whatever happens to the
//! servers.
//!
//! Narrows does not determine which they are: a comment marks them for a rule. The answer of the server itself is known
//! in advance, and shows whether a statement warns or a transaction is open.

use super::exceptions::Past;
use super::observe;
use super::script::IN_TRANSACTION;
use super::side::Step;

/// The column of a rule that matches marked statements.
pub const RULE: &str = "match_pattern=\"^/. away ./\"";

/// The statement with its mark, if it is one of them.
pub fn mark(step: &Step, past: &Past, answer: &[String]) -> Option<Step> {
    let Step::Query(text) = step else { return None };
    let alone = |status: u16| status & (IN_TRANSACTION | AUTOCOMMIT) == AUTOCOMMIT;
    let end = answer.last().filter(|line| line.starts_with("END ") && line.ends_with("warnings=0"))?;
    let is_alone =
        past.status.is_some_and(alone) && observe::last_status(std::slice::from_ref(end)).is_some_and(alone);
    let reads = READS.iter().any(|start| text.starts_with(start.as_bytes()));
    let asks = ASKS
        .iter()
        .any(|word| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes())));
    // A server sends a longer one in parts. If it fails after the first, the client cannot receive another answer.
    let is_short = answer.iter().map(String::len).sum::<usize>() < 8 * 1024;
    (is_alone && reads && !asks && is_short).then(|| Step::Query([MARK, text].concat()))
}

const MARK: &[u8] = b"/* away */ ";

const AUTOCOMMIT: u16 = 2;

/// Their beginnings: variables, literals, tables that never change.
const READS: &[&str] = &[
    "SELECT @",
    "SELECT 1",
    "SELECT '",
    "SELECT \"",
    "SELECT CHARSET(",
    "SELECT CURRENT_TIMESTAMP",
    "SELECT NOW(",
    "SELECT DATABASE(), ",
    "SELECT id, v, s FROM common.t ",
    "SELECT COUNT(*) FROM common.t",
    "SELECT GROUP_CONCAT(s ORDER BY id) FROM common.t",
    "SELECT s FROM latin.t ",
    "SHOW SESSION VARIABLES ",
    "SHOW VARIABLES ",
];

/// Statements about what only the connection that ran an earlier statement knows, or that leave something. Narrows
/// decides where they go, which may be a connection that a marked one used and that is lost.
const ASKS: &[&str] =
    &[":=", " INTO ", ";", "LAST_INSERT_ID", "@@identity", "ROW_COUNT", "FOUND_ROWS", "_count", "LOCK"];
