//! Reads that go to other servers than all else: those that need nothing but the session's state and what never changes, outside
//! of transactions. They answer there what they would answer here, whatever becomes of the servers.
//!
//! Narrows does not look at which they are: they are marked by a comment, for a rule. The answer of the server itself is known
//! before, so that it is told from that whether a statement warns or a transaction is open.

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
    (is_alone && reads && !asks).then(|| Step::Query([MARK, text].concat()))
}

const MARK: &[u8] = b"/* away */ ";

const AUTOCOMMIT: u16 = 2;

/// How they begin: variables, literals, tables that nobody changes.
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

/// What only the connection knows that ran something before, or what leaves something behind. Where such a statement goes is
/// Narrows' own business: also to a connection that a marked one was on, and that is lost.
const ASKS: &[&str] =
    &[":=", " INTO ", ";", "LAST_INSERT_ID", "@@identity", "ROW_COUNT", "FOUND_ROWS", "_count", "LOCK"];
