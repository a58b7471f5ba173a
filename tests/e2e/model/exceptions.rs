//! The only permitted differences from a dedicated connection. `docs/compatibility.md` has the same list.
//!
//! Each exception names its statements and removes from both answers what may differ; the rest must be equal. The
//! number of uses of each is printed.
//!
//! Three more differences are never compared: the status flags about the server's plans, those of the EOF packet after the
//! columns, which Narrows sends before it knows them, and `SERVER_SESSION_STATE_CHANGED` in the EOF packet after rows, which
//! cannot say what has changed (`observe.rs`). Ids of sessions, and MySQL's `statement_id`, which counts the
//! statements of a whole server, differ between any two servers (`side.rs`, `observe.rs`).

use narrows_testkit::Flavour;

use super::observe;
use super::script::IN_TRANSACTION;
use super::side::Step;

/// One of them.
pub struct Exception {
    /// For the summary.
    pub name: &'static str,
    mask: fn(&Case<'_>, &str) -> Option<String>,
}

/// The step whose answers differ.
pub struct Case<'a> {
    text: &'a str,
    is_prepared: bool,
    past: &'a Past,
    flavour: Flavour,
}

/// What a client has done so far, as far as exceptions need it.
#[derive(Debug, Default)]
pub struct Past {
    /// A statement whose effect on `FOUND_ROWS()` is not defined came after the last `SELECT`.
    found_rows_undefined: bool,
    /// A routine was called since the session began.
    routine: bool,
    /// A transaction was open after the last answer with status flags.
    in_transaction: bool,
    /// The status flags of the last answer; `None` if it had none.
    pub status: Option<u16>,
    /// A statement has failed in a transaction, or a transaction has begun in another one, and no OK has reported one since.
    transaction_untold: bool,
    /// A statement that does not show what it does has ended with an error or with rows, and no OK came since.
    untold: bool,
    /// It has asked for reports about transactions.
    tracks_transactions: bool,
    /// A temporary table was dropped, and the warnings of a write have not been read since.
    temporary_dropped: bool,
    /// The last statement has failed.
    failed: bool,
    /// `KILL` has failed, followed only by queries about the error.
    kill_failed: bool,
    /// A row was written since then.
    written_since: bool,
    /// `sql_auto_is_null` was set, and no row was inserted since.
    null_is_set: bool,
    /// This session has used `COM_CHANGE_USER`.
    user_changed: bool,
    /// The collation of the schema was set to DEFAULT after that.
    collation_by_default: bool,
    /// A user variable was set from another one in the same session, which may be a number.
    text_made: bool,
    /// `@b` was given the value of `@a`, which may not have been set.
    unset_copied: bool,
    /// A text that cannot be parsed with certainty has run, and nothing since that replaces the conditions.
    doubtful: bool,
    /// The number of conditions was stored in `@a` since then.
    doubtful_in_a: bool,
    /// `COM_INIT_DB` has failed, followed only by queries about the error.
    init_db_failed: bool,
    /// `max_error_count` is 0 or 1.
    keeps_few: bool,
    /// A statement has failed or warned since, and none with a table has run.
    failed_unkept: bool,
    /// The same, and the session was reset, or a prepared text has run.
    failed_long_ago: bool,
    /// `ROW_COUNT()` counts changed rows.
    rows_changed: bool,
    /// There are warnings or errors.
    has_conditions: bool,
    /// They cannot be raised again as they were: there are several, or a note.
    unraisable: bool,
    /// Something of that was asked for by a statement that does not show it, and perhaps stored.
    asked_blindly: bool,
}

const EXCEPTIONS: &[Exception] = &[
    // The manual: transient, and undefined after anything but a successful SELECT. It is the value that the inner
    // statements left, and in MariaDB failing SELECTs and subqueries of SET change it; the answer shows neither.
    Exception { name: "FOUND_ROWS() after several statements, routines and errors", mask: found_rows },
    // An error has no reports, nor has an EOF packet. A routine switches to its own schema and back, a failing statement may end a
    // transaction, and MySQL reports a transaction that begins in another one late.
    Exception { name: LATE_REPORTS, mask: late_report },
    // What such a statement asks is set on its connection as far as servers let it be set: not a ROW_COUNT() of changed rows, and
    // of warnings and errors only a single one, without its SQLSTATE.
    Exception {
        name: "what a routine, a prepared text or GET DIAGNOSTICS asks about the statement before",
        mask: blind,
    },
    // MySQL adds the error to the existing conditions, and counts both; the statement before may have run on another
    // connection.
    Exception { name: OTHER_CONDITIONS, mask: conditions },
    // MariaDB keeps them across statements without a table; a text that cannot be parsed with certainty may have one.
    Exception {
        name: "conditions from before a text that cannot be parsed with certainty",
        mask: conditions_before_doubt,
    },
    // MariaDB forgets the number of conditions with their rows, and with max_error_count = 0 there are none: the number is still
    // there after COM_RESET_CONNECTION.
    Exception { name: "a number of conditions that max_error_count = 0 did not keep", mask: counts_unkept },
    // Narrows answers `KILL`, because the ids are those of its sessions, and its own errors are in English. MySQL
    // leaves the conditions of the statement before unchanged, and counts them again.
    Exception { name: "warnings of a COM_INIT_DB after a KILL of an unknown id", mask: counts_of_init_db },
    // MySQL counts the conditions of the statement before. An ERR packet does not say how many warnings came before the error.
    Exception { name: "warnings of a COM_INIT_DB after an error", mask: counts_after_error },
    Exception { name: "KILL of nobody, in the language of lc_messages", mask: kill_of_nobody },
    // MySQL 9 attributes writes to a dropped temporary table of another engine to the next transaction.
    Exception {
        name: "a warning about the engine of a temporary table that is gone",
        mask: engines_combined,
    },
    // Only the connection that inserted knows whether an id still counts for it, which lasts longer there than where
    // the variable was set.
    Exception { name: "rows WHERE id IS NULL after SET sql_auto_is_null", mask: null_behind_set },
    // Without a schema, servers use that of the schema before the change of user, which a session should not know.
    Exception { name: "DEFAULT of collation_database after COM_CHANGE_USER", mask: collation_by_default },
    // A number remembers the character set of the connection in which it was sent; its value and its own collation do
    // not.
    Exception {
        name: "column definition of text made from a number in a user variable",
        mask: text_of_number,
    },
];

const LATE_REPORTS: &str = "when a report comes that an error or the end of rows could not carry";

const OTHER_CONDITIONS: &str = "other conditions after a COM_INIT_DB that failed";

impl Past {
    /// Records a step and its answer.
    pub fn note(&mut self, step: &Step, flavour: Flavour, answer: &[String]) {
        self.status = observe::last_status(answer);
        self.transaction_untold |= self.in_transaction && (self.status.is_none() || begins_transaction(step));
        if let Some(status) = self.status {
            self.in_transaction = status & IN_TRANSACTION != 0;
        }
        self.transaction_untold &= !answer.last().is_some_and(|line| line.contains("\"5:"));
        match step {
            Step::Query(text) | Step::Prepared(text) | Step::PreparedCall(text) => {
                let text = String::from_utf8_lossy(text);
                let asks = asks_conditions(&text) && !text.starts_with("SELECT");
                self.init_db_failed &= asks;
                let failed = answer.last().is_some_and(|line| line.starts_with("ERR"));
                self.failed = failed;
                self.kill_failed = text.starts_with("KILL ") && failed || asks && self.kill_failed;
                self.routine |= calls_routine(&text);
                let tells = answer.last().is_some_and(|line| line.starts_with("OK "));
                let tells =
                    tells && (flavour == Flavour::MySql9 || answer.iter().any(|line| line.contains(" [\"")));
                // What it sets back is reported later.
                self.untold = !tells && (self.untold || is_opaque(&text)) || is_for_statement(&text);
                self.tracks_transactions |= text.contains("session_track_transaction_info");
                let has_ended_rows = answer.last().is_some_and(|line| line.starts_with("END "));
                self.transaction_untold |= self.tracks_transactions && self.in_transaction && has_ended_rows;
                let in_doubt = text.starts_with("SET @a = '") && text.contains('\u{FFFD}');
                let has_from =
                    text.contains(" FROM ") && !text.contains("FROM DUAL") && !text.contains("(YEAR FROM ");
                let replaces = failed || writes(&text) || has_from && !text.starts_with("PREPARE ");
                self.doubtful &= !replaces;
                self.doubtful |= in_doubt && flavour == Flavour::MariaDb;
                self.doubtful_in_a &= !text.contains("@a =") && !text.contains("@`a` =");
                self.doubtful_in_a |= self.doubtful && text.starts_with("GET DIAGNOSTICS @a = NUMBER");
                self.note_unsettable(step, &text, (failed, replaces), flavour, answer);
                let warned = answer.last().is_some_and(|line| !line.contains(" warnings=0") && !failed);
                self.note_unkept(&text, (failed, warned), flavour);
                // The statement that may warn, and the query for its warnings.
                self.temporary_dropped &= !(asks_conditions(&text) && self.written_since);
                self.written_since = self.temporary_dropped && (self.written_since || writes(&text));
                self.temporary_dropped |= text.starts_with("DROP TEMPORARY");
                // An existing row, named by LAST_INSERT_ID(id), does not count as inserted, and an id that was given
                // leaves the one that was generated before.
                let told = |line: &String| {
                    line.starts_with("OK ") && !line.contains(" id=0 ") && !line.contains(" affected=0 ")
                };
                let inserted = answer.last().is_some_and(told) && !text.contains("(id, v) VALUES (100");
                self.null_is_set &= !inserted;
                self.null_is_set |= text.starts_with("SET ") && text.contains("sql_auto_is_null");
                self.collation_by_default |= self.user_changed && sets_collation_to_default(&text);
                self.text_made |= text.starts_with("SET @a = CONCAT(");
                self.unset_copied |= text == "SET @a = 1, @b = @a";
                if let Some(undefined) = leaves_found_rows_undefined(&text, flavour, answer) {
                    self.found_rows_undefined = undefined;
                }
            }
            Step::Reconnect { .. } => *self = Past::default(),
            Step::ResetConnection | Step::ChangeUser { .. } => {
                self.routine = false;
                self.untold = false;
                self.tracks_transactions = false;
                self.text_made = false;
                self.unset_copied = false;
                self.doubtful_in_a = false;
                self.rows_changed = false;
                self.has_conditions = false;
                self.unraisable = false;
                self.asked_blindly = false;
                self.collation_by_default = false;
                self.keeps_few = false;
                self.failed_long_ago |= self.failed_unkept;
                self.user_changed |= matches!(step, Step::ChangeUser { .. });
            }
            Step::Kill { .. } => {}
            Step::InitDb(_) => {
                self.kill_failed = false;
                self.init_db_failed = answer.last().is_none_or(|line| line.starts_with("ERR"));
            }
            Step::MultiStatements(_) => {}
        }
    }

    /// Records what cannot be set on another connection, and whether a statement asks for it that does not show that.
    fn note_unsettable(
        &mut self,
        step: &Step,
        text: &str,
        (failed, replaces): (bool, bool),
        flavour: Flavour,
        answer: &[String],
    ) {
        self.asked_blindly |=
            asks_blindly(&Case { text, is_prepared: !matches!(step, Step::Query(_)), past: self, flavour });
        if asks_conditions(text) && !failed && !text.contains("; ") {
            return;
        }
        self.rows_changed =
            answer.iter().any(|line| line.starts_with("OK affected=") && !line.contains(" affected=0 "));
        if replaces || flavour == Flavour::MySql9 {
            self.has_conditions = false;
            self.unraisable = false;
        }
        let counts = |line: &String| line.split_once("warnings=")?.1.split(' ').next()?.parse::<usize>().ok();
        let warnings = answer.iter().filter_map(counts).max().unwrap_or_default();
        self.has_conditions |= failed || warnings > 0;
        // An error in a routine of MariaDB comes with a note.
        self.unraisable |=
            warnings > 1 || warnings > 0 && text.contains("EXISTS") || failed && is_opaque(text);
    }

    /// Records conditions that are counted but that the server does not keep.
    fn note_unkept(&mut self, text: &str, (failed, warned): (bool, bool), flavour: Flavour) {
        if let Some((_, set)) = text.split_once("max_error_count").filter(|_| text.starts_with("SET ")) {
            let value = set.trim_start_matches([' ', ':', '=', '`']);
            let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
            self.keeps_few = matches!(&value[..end], "0" | "1");
        }
        let has_table = !failed && (writes(text) || text.contains(" FROM "));
        self.failed_unkept &= !has_table;
        self.failed_unkept |= (failed || warned) && self.keeps_few && flavour == Flavour::MariaDb;
        self.failed_long_ago &= self.failed_unkept;
        self.failed_long_ago |= self.failed_unkept && text.starts_with("EXECUTE ");
    }
}

/// The exceptions that make the two answers equal; `None` if they do not.
pub fn explain(
    (step, past, flavour): (&Step, &Past, Flavour),
    expected: &[String],
    actual: &[String],
    is_direct: bool,
) -> Option<Vec<&'static str>> {
    let text = match step {
        Step::Query(text) | Step::Prepared(text) | Step::PreparedCall(text) => String::from_utf8_lossy(text),
        Step::InitDb(_) => INIT_DB.into(),
        _ => return None,
    };
    let case = Case { text: &text, is_prepared: !matches!(step, Step::Query(_)), past, flavour };
    let (mut expected, mut actual) = (expected.to_vec(), actual.to_vec());
    let mut needed = Vec::new();
    if asks_after_init_db(&case) && !is_direct {
        // The conditions before it may be the same error.
        expected.dedup();
        actual.dedup();
        needed.extend((expected == actual).then_some(OTHER_CONDITIONS));
    }
    // When it reports the schema depends on which routines and views are in caches that all sessions share.
    let applies = |exception: &&Exception| !is_direct || exception.name == LATE_REPORTS;
    for exception in EXCEPTIONS.iter().filter(applies) {
        let mask = |lines: &[String]| -> Vec<String> {
            let masked =
                lines.iter().map(|line| (exception.mask)(&case, line).unwrap_or_else(|| line.clone()));
            masked.filter(|line| !line.is_empty()).collect()
        };
        let masked = (mask(&expected), mask(&actual));
        let differing = |one: &[String], other: &[String]| {
            one.len().abs_diff(other.len())
                + one.iter().zip(other).filter(|(one, other)| one != other).count()
        };
        if differing(&masked.0, &masked.1) < differing(&expected, &actual) {
            needed.push(exception.name);
            (expected, actual) = masked;
        }
    }
    (expected == actual).then_some(needed)
}

fn found_rows(case: &Case<'_>, line: &str) -> Option<String> {
    let asks = |text| case.past.found_rows_undefined && case.text.contains(text);
    if asks("'counts')") || asks("FOUND_ROWS()") && case.is_prepared {
        return line.starts_with("ROW ").then(String::new);
    }
    let value = line.strip_prefix("ROW | ").filter(|_| asks("SELECT FOUND_ROWS()"))?;
    let rest = value.split_once(" | ").map_or("", |(_, rest)| rest);
    Some(format!("ROW | undefined {rest}"))
}

/// The report that no transaction is open.
const NO_TRANSACTION: &str = r#""5:\\x08________"#;

fn late_report(case: &Case<'_>, line: &str) -> Option<String> {
    let Past { routine, untold, transaction_untold, tracks_transactions, .. } = *case.past;
    match line.split_once(' ')?.0 {
        // The flag announces reports.
        "END" if routine || untold || transaction_untold || is_opaque(case.text) => Some(without_flag(line)),
        // Narrows itself may have made the server report transactions, which then reports that there is none.
        "OK" if tracks_transactions && line.contains(NO_TRANSACTION) => {
            Some(without_reports(line, &[NO_TRANSACTION]))
        }
        "OK" if untold => Some(without_reports(line, &["\""])),
        // What a statement sets for the next transaction is reported to Narrows, whether or not the same one asks for reports.
        "OK" if asks_for_reports_of_its_own(case.text) => Some(without_reports(line, &["\"4:", "\"5:"])),
        "OK" if transaction_untold => Some(without_reports(line, &["\"5:"])),
        "OK" if routine && !sets_schema(case.text, line) => Some(without_reports(line, &["\"1:"])),
        _ => None,
    }
}

fn asks_for_reports_of_its_own(text: &str) -> bool {
    text.contains("session_track_transaction_info")
        && text.matches("transaction_").count() + text.matches("tx_").count() > 1
}

/// Whether a report of the schema may be that of the statement itself.
fn sets_schema(text: &str, line: &str) -> bool {
    let text = text.to_ascii_lowercase();
    // Of several statements one may choose a schema.
    let chosen = text.split_once("; use ").and_then(|(_, schema)| schema.split(';').next());
    let is_of_choice = chosen.is_some_and(|schema| line.to_ascii_lowercase().contains(schema.trim()));
    text.starts_with("use ") || text.starts_with("drop database") || is_of_choice
}

fn begins_transaction(step: &Step) -> bool {
    let text = match step {
        Step::Query(text) | Step::Prepared(text) => String::from_utf8_lossy(text).to_ascii_uppercase(),
        _ => return false,
    };
    text.contains("BEGIN") || text.contains("START TRANSACTION")
}

/// A line without the reports that begin like this.
fn without_reports(line: &str, beginnings: &[&str]) -> String {
    let (start, reports) = line.split_once(" [").unwrap_or((line, "]"));
    let reports: Vec<&str> = reports
        .trim_end_matches(']')
        .split(", ")
        .filter(|report| !report.is_empty() && !beginnings.iter().any(|it| report.starts_with(it)))
        .collect();
    match reports.is_empty() {
        true => without_flag(start.trim_end()),
        false => format!("{start} {reports:?}"),
    }
}

/// How the message begins and ends in German, French (whatever the character set of the rest) and English.
const NOBODY: [(&str, &str); 3] =
    [("Unbekannte Thread-ID", "Thread-ID"), ("Num", "che inconnu"), ("Unknown thread id", "thread id")];

fn kill_of_nobody(case: &Case<'_>, line: &str) -> Option<String> {
    let asks = case.text.starts_with("KILL ") || asks_conditions(case.text);
    let said =
        ["ERR 1094 HY000 ", "ROW | Error | 1094 | "].into_iter().find_map(|start| line.strip_prefix(start));
    let (words, id) = said.filter(|_| asks)?.rsplit_once(": ")?;
    let known = NOBODY.iter().any(|(start, end)| words.starts_with(start) && words.ends_with(end));
    known.then(|| format!("nobody has the number {id}"))
}

fn counts_of_init_db(case: &Case<'_>, line: &str) -> Option<String> {
    let follows = case.flavour == Flavour::MySql9 && case.text == INIT_DB && case.past.kill_failed;
    (follows && line.starts_with("OK ")).then(|| line.replace("warnings=1 ", "warnings=0 "))
}

fn counts_after_error(case: &Case<'_>, line: &str) -> Option<String> {
    let follows = case.flavour == Flavour::MySql9 && case.text == INIT_DB && case.past.failed;
    let (start, rest) = line.split_once(" warnings=").filter(|_| follows && line.starts_with("OK "))?;
    Some(format!("{start} {}", rest.split_once(' ').map_or("", |(_, reports)| reports)))
}

fn asks_after_init_db(case: &Case<'_>) -> bool {
    case.flavour == Flavour::MySql9 && case.past.init_db_failed && asks_conditions(case.text)
}

fn conditions(case: &Case<'_>, line: &str) -> Option<String> {
    // The error itself must be there, last.
    let is_of_others = line.starts_with("ROW ") && !line.starts_with("ROW | Error | 1049 | ");
    if asks_after_init_db(case) && is_of_others {
        return Some(String::new());
    }
    // The next one adds to them, and counts them when it succeeds.
    let counts = case.flavour == Flavour::MySql9 && case.past.init_db_failed && case.text == INIT_DB;
    let (start, _) = line.split_once(" warnings=").filter(|_| counts && line.starts_with("OK "))?;
    Some(start.to_owned())
}

/// Whether it is a `SET STATEMENT .. FOR`.
fn is_for_statement(text: &str) -> bool {
    let text = text.trim_start_matches("/* x */ ").to_ascii_uppercase();
    text.starts_with("SET STATEMENT ") || text.starts_with("SET  STATEMENT ")
}

/// Whether a statement does not show what it does.
fn is_opaque(text: &str) -> bool {
    let begins = ["CALL ", "EXECUTE ", "BEGIN NOT ATOMIC", "IF "].iter().any(|word| text.starts_with(word));
    begins || calls_routine(text) || text.contains("; ") || is_for_statement(text)
}

/// Whether a statement may ask, without showing it, for something that cannot be set on its connection.
fn asks_blindly(case: &Case<'_>) -> bool {
    let Case { text, past, .. } = case;
    let asks_state = text.contains("RETURNED_SQLSTATE") || text.contains("CLASS_ORIGIN");
    let asks_by_name = text.starts_with("GET ") || case.is_prepared && asks_conditions(text);
    let asks_all = is_opaque(text) || case.is_prepared && text.contains("ROW_COUNT()");
    (asks_all || asks_by_name) && past.unraisable
        || asks_all && past.rows_changed
        || asks_state && past.has_conditions
}

fn blind(case: &Case<'_>, line: &str) -> Option<String> {
    let shows_stored =
        case.text.starts_with("SELECT ") && ["@a", "@b", "@c"].iter().any(|name| case.text.contains(name));
    let asks = asks_conditions(case.text) || case.text.contains("ROW_COUNT()");
    let follows = case.past.asked_blindly && (shows_stored || asks);
    if !asks_blindly(case) && !follows {
        return None;
    }
    match line.split_once(' ')?.0 {
        "ROW" => Some(String::new()),
        // NULL has a character set of its own, and a branch has names of its own.
        "COLUMN" if shows_stored || case.text.starts_with("IF ") => Some(String::new()),
        "OK" => {
            let (_, rest) = line.split_once(" id=")?;
            let (start, rest) = rest.split_once(" warnings=")?;
            Some(format!("OK {start} {}", rest.split_once(' ').map_or("", |(_, rest)| rest)))
        }
        _ => None,
    }
}

fn counts_unkept(case: &Case<'_>, line: &str) -> Option<String> {
    let asks = case.past.failed_long_ago && asks_conditions(case.text);
    (asks && line.starts_with("ROW | ")).then(String::new)
}

fn conditions_before_doubt(case: &Case<'_>, line: &str) -> Option<String> {
    let asks = case.past.doubtful && asks_conditions(case.text)
        || case.past.doubtful_in_a && case.text.starts_with("SELECT @a, ");
    (asks && line.starts_with("ROW | ")).then(String::new)
}

/// The placeholder for the text of a `COM_INIT_DB`.
const INIT_DB: &str = "COM_INIT_DB";

fn engines_combined(case: &Case<'_>, line: &str) -> Option<String> {
    if !case.past.temporary_dropped || case.flavour != Flavour::MySql9 {
        return None;
    }
    let counts = writes(case.text) && line.starts_with("OK ");
    // It may be the only one that is kept.
    if case.past.keeps_few && line.starts_with("ROW | Warning | ") {
        return Some(String::new());
    }
    if line.starts_with("ROW | Warning | 6414 | ") {
        return Some(String::new());
    }
    // It counts beside others, whose rows are compared.
    let (start, _) = line.split_once(" warnings=").filter(|_| counts)?;
    Some(start.to_owned())
}

/// Whether a statement changes rows.
pub fn writes(text: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE", "REPLACE"].iter().any(|word| text.starts_with(word))
}

fn asks_conditions(text: &str) -> bool {
    ["SHOW WARNINGS", "SHOW ERRORS", "SHOW COUNT", "warning_count", "GET DIAGNOSTICS"]
        .iter()
        .any(|word| text.contains(word))
}

fn text_of_number(case: &Case<'_>, line: &str) -> Option<String> {
    if case.flavour != Flavour::MySql9 {
        return None;
    }
    if case.text.contains("CONCAT(@b, 'x') AS s") && line.starts_with("COLUMN s ") {
        return Some("COLUMN s".to_owned());
    }
    // A binary character set shows in the flags too.
    if case.past.unset_copied && (line.starts_with("COLUMN @b ") || line.starts_with("COLUMN @B ")) {
        return Some(line.split_once(" collation=")?.0.to_owned());
    }
    // A value derived from it has the length of a converted one, and if it is NULL, because the variable was not set, its collation.
    let made = case.past.text_made && (line.starts_with("COLUMN @a ") || line.starts_with("COLUMN @A "));
    let (start, definition) = line.split_once(" collation=").filter(|_| made)?;
    // The type follows from the length.
    let end = definition.split_once(" flags=").map_or("", |(_, rest)| rest);
    Some(format!("{start} flags={end}"))
}

fn null_behind_set(case: &Case<'_>, line: &str) -> Option<String> {
    let asks = case.past.null_is_set && case.text.ends_with("WHERE id IS NULL");
    (asks && line.starts_with("ROW | ")).then(String::new)
}

fn sets_collation_to_default(text: &str) -> bool {
    text.starts_with("SET ") && text.contains("collation_database") && text.ends_with("DEFAULT")
}

fn collation_by_default(case: &Case<'_>, line: &str) -> Option<String> {
    if !case.past.collation_by_default || !line.starts_with("ROW | ") {
        return None;
    }
    let mut shown = ["character_set_database", "collation_database"].into_iter();
    let shown = shown.find(|name| line.starts_with(&format!("ROW | {name} | ")));
    let asked = case.text.contains("@@collation_database").then_some("collation_database, among others");
    shown.or(asked).map(|name| format!("ROW | {name}"))
}

fn calls_routine(text: &str) -> bool {
    // Those that all clients have, and those of the client's own schema: a function, procedures, a view and a trigger.
    ["common.plus(", "common.assign(", "common.counted(", "common.locked("]
        .iter()
        .chain(&[".f('", ".p('", ".o(", ".handled()", ".w WHERE ", ".g (what) "])
        .any(|call| text.contains(call))
}

/// A line without `SERVER_SESSION_STATE_CHANGED`.
fn without_flag(line: &str) -> String {
    const SESSION_STATE_CHANGED: u16 = 1 << 14;
    let Some((start, rest)) = line.split_once("status=") else { return line.to_owned() };
    let (status, end) = rest.split_once(' ').unwrap_or((rest, ""));
    let status = status.parse::<u16>().map(|status| status & !SESSION_STATE_CHANGED);
    format!("{start}status={status:?} {end}").trim_end().to_owned()
}

/// Whether a statement's effect on `FOUND_ROWS()` is unknown; `None`: it has no effect.
fn leaves_found_rows_undefined(text: &str, flavour: Flavour, answer: &[String]) -> Option<bool> {
    let upper = text.to_ascii_uppercase();
    let first = upper.trim_start_matches(['(', ' ']).split([' ', '\n']).next().unwrap_or_default().to_owned();
    let has_rows = answer.iter().any(|line| line.starts_with("END "));
    let failed = answer.last().is_none_or(|line| line.starts_with("ERR") || line == "LOST");
    match first.as_str() {
        // Which inner statements ran, and how far they got, is not reported.
        _ if upper.contains("; ") => Some(true),
        // MariaDB counts subqueries and what a SELECT found before it failed; MySQL does not.
        "SELECT" if failed => (flavour == Flavour::MariaDb).then_some(true),
        "SET" => (flavour == Flavour::MariaDb && upper.contains("(SELECT")).then_some(true),
        "EXECUTE" | "CALL" if !has_rows => Some(true),
        "SELECT" | "EXECUTE" | "CALL" => Some(false),
        "SHOW" if has_rows && !upper.contains("SHOW WARNINGS") && !upper.contains("SHOW ERRORS") => {
            Some(false)
        }
        // MySQL 9.7 returns what it found from the second statement after it on.
        "CREATE" if flavour == Flavour::MySql9 && upper.contains("SELECT") => Some(true),
        _ if failed => None,
        // Narrows reads these off their answers.
        "INSERT" | "REPLACE" | "CREATE" if upper.contains("SELECT") => Some(false),
        // Without a row that can match, it counts nothing, and says so in the same words as one that finds no row.
        "UPDATE" if flavour == Flavour::MySql9 => {
            Some(answer.iter().any(|line| line.contains("Rows matched: 0 ")))
        }
        "DO" if flavour == Flavour::MySql9 => Some(false),
        _ => None,
    }
}
