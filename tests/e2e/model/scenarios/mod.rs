//! The kinds of things clients do, each a few steps long.

mod diagnostics;
mod globals;
mod identity;
mod mirrors;
mod multi;
mod one_statement;
mod opaque;
mod results;
mod roles;
mod schemas;
mod sessions;
mod settings;
mod statements;
mod ties;
mod trackers;
mod transactions;

use std::sync::OnceLock;

use narrows_testkit::Flavour::{self, MariaDb, MySql9};

use super::script::{Burst, Script};
use super::side::Step;

/// A kind of thing that clients do.
#[derive(Debug)]
pub struct Form {
    /// How often it is done, compared with the others.
    weight: usize,
    pub name: &'static str,
    /// The family that has it; `None`: both.
    only: Option<Flavour>,
    /// Whether its effects are hard to see from outside. Its statements are prepared, and its session reset, at random.
    is_hard: bool,
    /// Whether it runs only if it is named: it changes answers that other forms get.
    is_alone: bool,
    run: fn(&mut Script, &mut Burst),
}

/// A form of ordinary applications.
const fn base(weight: usize, name: &'static str, run: fn(&mut Script, &mut Burst)) -> Form {
    Form { weight, name, only: None, is_hard: false, is_alone: false, run }
}

/// A form whose effects are hard to see from outside.
const fn hard(weight: usize, name: &'static str, run: fn(&mut Script, &mut Burst)) -> Form {
    Form { weight, name, only: None, is_hard: true, is_alone: false, run }
}

impl Form {
    const fn on(self, flavour: Flavour) -> Form {
        Form { only: Some(flavour), ..self }
    }

    const fn alone(self) -> Form {
        Form { is_alone: true, ..self }
    }
}

/// One file for each kind; the protocol's prepared statements have a separate file.
const FORMS: &[Form] = &[
    base(14, "variable", settings::variable),
    base(4, "variables at once", settings::variables_at_once),
    base(5, "character set", settings::character_set),
    base(6, "schema", settings::schema),
    base(8, "user variable", settings::user_variable),
    base(4, "user variable by expression", settings::user_variable_by_expression),
    base(2, "timestamp", settings::timestamp),
    base(3, "backslash", settings::backslash),
    base(2, "multi-byte text", settings::multi_byte),
    base(5, "autocommit", ties::autocommit),
    base(9, "transaction", ties::transaction),
    base(3, "set transaction", ties::set_transaction),
    base(4, "temporary table", ties::temporary_table),
    base(2, "temporary names", ties::temporary_names),
    base(3, "lock tables", ties::lock_tables),
    base(3, "user lock", ties::user_lock),
    base(3, "user lock anywhere", ties::user_lock_anywhere),
    base(12, "insert", results::insert),
    base(4, "found rows", results::found_rows),
    base(6, "warning", results::warning),
    base(6, "error", results::error),
    base(12, "plain", results::plain),
    base(4, "text statement", statements::text_statement),
    base(4, "several statements", statements::several_statements),
    base(2, "routine", statements::routine),
    base(2, "reset", sessions::reset),
    base(2, "change user", sessions::change_user),
    base(3, "reconnect", sessions::reconnect),
    base(2, "kill", sessions::kill),
    hard(6, "set statement", one_statement::set_statement).on(MariaDb),
    hard(6, "hints", one_statement::hints).on(MySql9),
    hard(8, "opaque", opaque::act),
    hard(4, "opaque ids", opaque::ids),
    hard(3, "out parameters", opaque::out_parameters),
    hard(6, "diagnostics", diagnostics::ask),
    // It empties the caches of routines of all sessions. What a routine of MariaDB can ask about the statement before depends
    // on whether the routine had to be read.
    hard(6, "diagnostics of ddl", diagnostics::of_ddl).alone(),
    hard(4, "found rows asked", diagnostics::found_rows),
    hard(4, "multi", multi::mixed),
    hard(4, "trackers", trackers::trackers),
    hard(4, "one shot", transactions::one_shot),
    hard(3, "set global", globals::set_global),
    hard(2, "identity", identity::identity),
    hard(3, schemas::NAME, schemas::replaced),
    hard(2, roles::NAME, roles::roles),
    hard(3, "mirrors", mirrors::mirrored),
];

/// What is not a form of its own, but is switched as forms are: logins with and without capabilities and compression,
/// resets and changes of user in the middle of hard forms, hard forms in the binary protocol, and `init_connect`.
const SWITCHES: &[&str] = &["capabilities", "compression", "between", "prepared", "init_connect"];

/// The names in `NARROWS_FORMS`, if it is set.
fn named() -> Option<&'static Vec<String>> {
    static NAMED: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        let names = std::env::var("NARROWS_FORMS").ok()?;
        let names: Vec<String> = names.split(',').map(|name| name.trim().replace(' ', "_")).collect();
        for name in &names {
            let is_form = || FORMS.iter().any(|form| form.name.replace(' ', "_") == *name);
            let is_known = name == "base" || SWITCHES.contains(&name.as_str()) || is_form();
            assert!(is_known, "NARROWS_FORMS has an unknown form: {name}");
        }
        Some(names)
    });
    named.as_ref()
}

/// Hard forms and switches that run only by name: differences are known that the first ones find, and the last ones change what
/// other forms get.
const BY_NAME: &[&str] = &[
    "set statement",
    "hints",
    "opaque",
    "opaque ids",
    "out parameters",
    "diagnostics",
    "found rows asked",
    "multi",
    "trackers",
    "one shot",
    "set global",
    "between",
    "prepared",
    "init_connect",
];

/// Whether `NARROWS_FORMS` names it, or is not set and it does not run by name alone.
pub fn is_on(name: &str) -> bool {
    match named() {
        None => !BY_NAME.contains(&name),
        Some(names) => names.contains(&name.replace(' ', "_")),
    }
}

/// Whether a form needs servers that have what it creates, or that nothing but the model's own rule sends statements to.
pub fn is_for_one_server(form: &Form) -> bool {
    [schemas::NAME, "mirrors"].contains(&form.name)
}

/// The forms of this run on this family.
pub fn of(flavour: Flavour) -> Vec<&'static Form> {
    let is_chosen = |form: &&Form| {
        let is_on = match named() {
            None => !form.is_alone && is_on(form.name),
            Some(_) => is_on(form.name) || !form.is_hard && is_on("base"),
        };
        is_on && form.only.is_none_or(|only| only == flavour)
    };
    let forms: Vec<&Form> = FORMS.iter().filter(is_chosen).collect();
    assert!(!forms.is_empty(), "NARROWS_FORMS leaves nothing to do on {flavour:?}");
    forms
}

/// What a client's own schema has for hard forms.
pub fn preparation(client: usize, flavour: Flavour) -> Vec<String> {
    opaque::preparation(client, flavour)
}

/// Undoes what hard forms may have left outside of their client's tables.
pub fn cleaning(client: usize, flavour: Flavour) -> Option<String> {
    globals::cleaning(client, flavour)
}

/// What all clients use and none changes.
pub fn shared_preparation() -> Vec<String> {
    let mut statements = opaque::shared_preparation();
    statements.extend(roles::shared_preparation());
    statements
}

pub use globals::names as changed_globally;
pub use mirrors::RULE as MIRROR_RULE;

/// One of them.
pub fn any(script: &mut Script) -> Burst {
    let forms = script.forms.clone();
    let total: usize = forms.iter().map(|form| form.weight).sum();
    let mut place = script.random.below(total);
    for form in forms {
        if place < form.weight {
            let mut burst = Burst { name: form.name, steps: Vec::new(), ties: false };
            (form.run)(script, &mut burst);
            return burst;
        }
        place -= form.weight;
    }
    unreachable!("the number is below the sum of the weights")
}

/// Runs some statements of a hard form in the binary protocol, and resets the session or changes its user in its middle.
pub fn vary(script: &mut Script, burst: &mut Burst) {
    let is_hard = script.forms.iter().any(|form| form.name == burst.name && form.is_hard);
    if !is_hard || burst.steps.is_empty() {
        return;
    }
    if is_on("prepared") && script.random.percent(30) {
        for step in &mut burst.steps {
            if let Step::Query(text) = step
                && script.random.percent(40)
                && *text != identity::OWN_ID.as_bytes()
                // MySQL cannot prepare it, and the rest of the burst would run in a schema that all clients share.
                && !(script.flavour == MySql9 && text.starts_with(b"USE "))
            {
                *step = Step::Prepared(std::mem::take(text));
            }
        }
    }
    // A role outlasts a reset; see there.
    if is_on("between") && burst.name != roles::NAME && script.random.percent(15) {
        let mut between = Burst { name: burst.name, steps: Vec::new(), ties: false };
        // A change of user would create tables in a schema of others.
        match script.random.percent(60) || burst.name == schemas::NAME {
            true => between.steps.push(Step::ResetConnection),
            false => sessions::change_user(script, &mut between),
        }
        let place = 1 + script.random.below(burst.steps.len());
        burst.steps.splice(place..place, between.steps);
    }
}

/// The steps that release everything that ties the session.
pub fn leave(script: &mut Script) -> Burst {
    let mut burst = Burst { name: "leave", steps: Vec::new(), ties: false };
    match script.random.below(4) {
        0 => sessions::reset(script, &mut burst),
        1 => sessions::change_user(script, &mut burst),
        _ => sessions::reconnect(script, &mut burst),
    }
    burst
}

/// Reads the session's state, in one of many ways.
pub fn look(script: &mut Script, burst: &mut Burst) {
    for _ in 0..=script.random.below(2) {
        let statement = match script.random.below(22) {
            0 => return burst.query(EVERY_VARIABLE),
            1..=6 => {
                let names: Vec<String> = (0..=script.random.below(4))
                    .map(|_| format!("@@{}", script.random.pick(&script.variables.clone()).0))
                    .collect();
                format!("SELECT {}", names.join(", "))
            }
            7 => {
                let name = script.random.pick(&script.variables.clone()).0;
                format!("SHOW SESSION VARIABLES LIKE '{name}'")
            }
            8 => "SELECT DATABASE(), SUBSTRING_INDEX(USER(), '@', 1), CURRENT_USER()".to_owned(),
            9 => "SELECT COUNT(*), MIN(s), MAX(id) FROM t".to_owned(),
            10 => "SELECT @a, @b, @c, @d".to_owned(),
            11 => "SELECT @a + 1 AS n, CONCAT(@b, 'x') AS s, @A, COLLATION(@b), COERCIBILITY(@b)".to_owned(),
            12 => "SELECT CHARSET('x'), COLLATION('x'), HEX(CONCAT('\u{e9}', 'a')), LENGTH('\u{20ac}')"
                .to_owned(),
            13 => "SHOW VARIABLES LIKE 'c%\\_%'".to_owned(),
            14 => "SELECT LAST_INSERT_ID(), @@last_insert_id, @@identity".to_owned(),
            15 => "SELECT LAST_INSERT_ID()".to_owned(),
            16 => "SELECT ROW_COUNT()".to_owned(),
            17 => "SELECT FOUND_ROWS()".to_owned(),
            18 => "SHOW WARNINGS".to_owned(),
            19 => "SELECT @@warning_count, @@error_count".to_owned(),
            20 => "SHOW COUNT(*) WARNINGS".to_owned(),
            _ => "SELECT \"a\" || 'b' AS joined, 1/3, WEEK('2024-01-01'), MONTHNAME('2024-03-01')".to_owned(),
        };
        burst.query(statement);
    }
}

/// Replaced by one that leaves out what always differs between two sessions.
pub const EVERY_VARIABLE: &str = "SHOW SESSION VARIABLES";
