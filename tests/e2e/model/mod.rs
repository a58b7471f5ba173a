//! The model-based test of multiplexing: many clients share two backend connections, and each must see what it would
//! see on a connection of its own.
//!
//! Every client runs a script generated from a seed, on its own data. Each burst of steps is first run on a server
//! without Narrows, which gives the right answers, and then through Narrows in front of a twin of that server, while
//! all other clients do the same. Every answer is compared down to the last flag.
//!
//! What clients do is a table of forms (`scenarios/mod.rs`). `NARROWS_FORMS=set_statement,hints` chooses among them; `base`
//! is all forms of ordinary applications. Each run prints how often each form ran.
//!
//! `NARROWS_REDUCE=1` adds to each difference the shortest script that shows it (`reduce.rs`).
//!
//! `NARROWS_MODEL_DIRECT=1` tests the model itself: the second side is a server, too, with connections of its own, and no
//! difference is permitted but one that depends on caches of the server.
//!
//! The permitted differences are listed in `exceptions.rs`; each use is counted.
//!
//! `NARROWS_SEED` generates other scripts, `NARROWS_STEPS` sets the length of the run, `NARROWS_CLIENTS` the number of
//! clients, `NARROWS_REPORTS` the number of differences reported in full, `NARROWS_HISTORY` that of statements before
//! each, and `NARROWS_GENERAL_LOG` the number of lines shown from the general log, which tell what ran on which backend
//! connection.

mod away;
mod exceptions;
mod figures;
mod leaks;
mod observe;
pub mod random;
mod reduce;
mod scenarios;
mod script;
mod side;
mod variables;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RealServer, ServerOptions, TempFolder};

pub use away::RULE;
use exceptions::Past;
use figures::Figures;
use reduce::{Bench, Failing};
use script::{Burst, Script, USERS};
use side::{InitConnect, LogIn, Side, Step};
use watch::Watch;

use crate::support::start;

#[test]
fn no_client_sees_another_on_mariadb() {
    Flavour::MariaDb.if_tested(run_model);
}

#[test]
fn no_client_sees_another_on_mysql9() {
    Flavour::MySql9.if_tested(run_model);
}

/// The default seed: a change is tested with the same statements as the one before it, although their interleaving
/// varies. `make model` uses a new seed each time.
const SEED: u64 = 63;

/// Steps of a run, divided among the servers. `NARROWS_STEPS` is per server.
const STEPS: usize = 100_000;

/// After how many differences a run gives up.
const TOO_MANY: usize = 400;

/// What a run with `init_connect` does at the beginning of sessions: for all, and for the account without SUPER.
const INIT_CONNECT: InitConnect = InitConnect {
    of_narrows: "SET div_precision_increment = 6, sql_safe_updates = 1",
    of_server: "SET lock_wait_timeout = 77, sql_warnings = 1",
};

fn run_model(flavour: Flavour) {
    let steps = number("NARROWS_STEPS").map_or(STEPS / Flavour::both().len(), |steps| steps as usize);
    let clients = number("NARROWS_CLIENTS").unwrap_or(200) as usize;
    run_model_beside(flavour, (steps, clients), &[], |config| config, |_| ());
}

/// Runs this many steps of this many clients, and more until `beside` has returned, with a configuration changed by
/// `configure`. If there are `others`, with these variables, reads that need nothing but the session's state are marked
/// for them, and a rule in the configuration sends them there.
pub fn run_model_beside(
    flavour: Flavour,
    (steps, clients): (usize, usize),
    others: &[Variables],
    configure: impl FnOnce(NarrowsConfig) -> NarrowsConfig,
    beside: impl FnOnce(&Narrows) + Send,
) {
    let seed = number("NARROWS_SEED").unwrap_or(SEED);
    let what = format!("NARROWS_SEED={seed} NARROWS_STEPS={steps} NARROWS_CLIENTS={clients} on {flavour:?}");
    eprintln!("{what}");
    let started = Instant::now();
    let folder = TempFolder::new("general-log");
    let log = number("NARROWS_GENERAL_LOG").map(|lines| (folder.file("log"), lines as usize));
    let log = log.as_ref().map(|(path, lines)| (path.as_path(), *lines));
    let is_direct = number("NARROWS_MODEL_DIRECT") == Some(1);
    let init_connect = scenarios::is_on("init_connect").then_some(&INIT_CONNECT);
    let (truth, twin) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            prepared_server(flavour, clients, |options| {
                let options = with_log(options, log);
                // Where nothing stands in between, the model runs it itself.
                let of_server = init_connect.filter(|_| !is_direct);
                of_server.into_iter().fold(options, |options, init| {
                    options.option(&format!("--init-connect={}", init.of_server))
                })
            })
        });
        let truth = prepared_server(flavour, clients, |options| options);
        (truth, other.join().expect("a server"))
    });
    if init_connect.is_some() {
        truth.execute(script::without_super(flavour));
        twin.execute(script::without_super(flavour));
    }
    let with_forms = |config: NarrowsConfig| {
        let config = config.rule(scenarios::MIRROR_RULE);
        match init_connect {
            Some(init) => config.variable("init_connect", init.of_narrows),
            None => config,
        }
    };
    let config = with_forms(configure(config(&twin)));
    let narrows = start(&config);
    let run = Run {
        flavour,
        seed,
        steps: steps / clients,
        variables: comparable_variables(&truth, &[&[variables_of(&twin)], others].concat()),
        sends_away: !others.is_empty(),
        is_direct,
        init_connect,
        goes_on: AtomicBool::new(true),
        truth: &truth,
        twin: &twin,
        narrows: &narrows,
        log,
        reports: number("NARROWS_REPORTS").unwrap_or(12) as usize,
        history: number("NARROWS_HISTORY").unwrap_or(20) as usize,
        found: Mutex::default(),
        watch: Watch::new(clients),
    };
    let prepared = started.elapsed();
    std::thread::scope(|scope| {
        let (running, over) = mpsc::channel::<()>();
        let run = &run;
        scope.spawn(|| {
            let _over = Over(&run.goes_on);
            beside(run.narrows);
        });
        scope.spawn(move || run.watch.run(&over, run.narrows, [("truth", run.truth), ("twin", run.twin)]));
        for client in 0..clients {
            let running = running.clone();
            let client = move || {
                run.client(client);
                run.watch.done(client);
                drop(running);
            };
            std::thread::Builder::new().stack_size(512 * 1024).spawn_scoped(scope, client).expect("a thread");
        }
    });
    let left = match is_direct {
        true => Vec::new(),
        false => {
            leaks::left_behind(&narrows.endpoint(), &truth, &twin, clients, (&run.variables, init_connect))
        }
    };
    let mut found = run.found.lock().expect("no client panics while it reports");
    if !left.is_empty() {
        found.classes.insert("leftovers".to_owned(), left.len());
        found.reports.push(format!("--- leftovers:\n    {}", left.join("\n    ")));
    }
    if number("NARROWS_REDUCE") == Some(1) && !found.failing.is_empty() {
        let failing = std::mem::take(&mut found.failing);
        drop(found);
        let bench = Bench::new(&run, with_forms(accounts(NarrowsConfig::new())));
        let reduced: Vec<String> = failing.iter().map(|failing| bench.reduce(failing)).collect();
        eprintln!("the shortest scripts:\n{}", reduced.join("\n"));
        found = run.found.lock().expect("no client panics while it reports");
    }
    eprintln!(
        "{what}: {} differences in {:.1?} after {prepared:.1?} of preparation\n{}",
        found.count(),
        started.elapsed() - prepared,
        found.figures.summary(&narrows.log())
    );
    assert!(found.count() == 0, "{what}\n{}", found.report());
}

/// The activity alongside the clients; dropping it marks it as over, even after a panic.
struct Over<'s>(&'s AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

fn config(server: &RealServer) -> NarrowsConfig {
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=2")
        .variable("threads", "4")
        .variable("max_connections", "2000")
        .variable("connect_timeout_client", "60000")
        .variable("connect_timeout_server", "10000")
        .variable("connect_timeout_server_max", "60000")
        .variable("default_query_timeout", "120000")
        .environment("NARROWS_LOG", "info,narrows_proxy::pins=debug");
    accounts(config)
}

fn accounts(config: NarrowsConfig) -> NarrowsConfig {
    USERS.iter().fold(config, |config, user| config.user(user, user, ""))
}

fn with_log(options: ServerOptions, log: Option<(&Path, usize)>) -> ServerOptions {
    let Some((path, _)) = log else { return options };
    options.option("--general-log=ON").option(&format!("--general-log-file={}", path.display()))
}

/// A server with the accounts and data of this many clients.
pub fn prepared_server(
    flavour: Flavour,
    clients: usize,
    configure: impl FnOnce(ServerOptions) -> ServerOptions,
) -> RealServer {
    let mut options = ServerOptions::new(flavour)
        .option("--max-connections=2000")
        // MariaDB's next session on a cached thread would see the `FOUND_ROWS()` of the one before.
        .option("--thread-cache-size=0")
        .option("--table-open-cache=4000")
        // An explicit id advances InnoDB's counter by the `auto_increment_increment` with which the same table handle
        // last generated ids, not by the session's. Handles are cached per instance, and sessions are spread over
        // instances by their ids: with several instances, the next id depends on which session has which id.
        .option("--table-open-cache-instances=1")
        .option("--innodb-lock-wait-timeout=60");
    for user in USERS {
        options = options.account(user, user);
    }
    let server = configure(options).start();
    let mut statements = script::shared_preparation();
    statements.extend((0..clients).flat_map(|client| script::preparation(client, flavour)));
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    server.execute(&statements);
    server
}

/// Names and values.
pub type Variables = Vec<Vec<Option<String>>>;

/// The variables of a fresh session.
pub fn variables_of(server: &RealServer) -> Variables {
    server.rows(scenarios::EVERY_VARIABLE)
}

/// `SHOW VARIABLES` without those that differ between fresh sessions of the servers.
fn comparable_variables(truth: &RealServer, others: &[Variables]) -> String {
    let differs = |row: &Vec<Option<String>>| others.iter().any(|other| !other.contains(row));
    let name = |row: Vec<Option<String>>| format!("'{}'", row[0].as_deref().expect("variables have names"));
    let mut left_out: Vec<String> = variables_of(truth).into_iter().filter(differs).map(name).collect();
    // A server that is started again has lost the value that the preparation has set.
    let of_preparation = "log_bin_trust_function_creators";
    for moving in
        ["timestamp", "pseudo_thread_id", "rand_seed1", "rand_seed2", "statement_id", of_preparation]
    {
        left_out.push(format!("'{moving}'"));
    }
    left_out.extend(scenarios::changed_globally().map(|name| format!("'{name}'")));
    format!("SHOW SESSION VARIABLES WHERE Variable_name NOT IN ({})", left_out.join(", "))
}

/// What all clients of a run share.
struct Run<'s> {
    flavour: Flavour,
    seed: u64,
    /// Steps of each client.
    steps: usize,
    variables: String,
    /// Whether reads go elsewhere; see `mark`.
    sends_away: bool,
    /// Whether the second side is the twin itself.
    is_direct: bool,
    init_connect: Option<&'s InitConnect>,
    /// Whether the activity alongside the clients is still running.
    goes_on: AtomicBool,
    truth: &'s RealServer,
    twin: &'s RealServer,
    narrows: &'s Narrows,
    /// The general log of the server behind Narrows, if requested, and how much of it to show.
    log: Option<(&'s Path, usize)>,
    /// How many differences are reported in full.
    reports: usize,
    /// How many statements a report shows before the one that differs.
    history: usize,
    found: Mutex<Found>,
    watch: Watch,
}

/// What went wrong so far.
#[derive(Debug, Default)]
struct Found {
    figures: Figures,
    /// By the name of the burst.
    classes: BTreeMap<String, usize>,
    reports: Vec<String>,
    /// The first of each class, if they are to be reduced.
    failing: Vec<Failing>,
}

impl Found {
    fn count(&self) -> usize {
        self.classes.values().sum()
    }

    fn report(&self) -> String {
        let mut text = String::new();
        for (class, count) in &self.classes {
            writeln!(text, "{count:5} x {class}").expect("writing to a String cannot fail");
        }
        text + &self.reports.join("\n")
    }
}

/// The last statements of one client, for the report.
type History = VecDeque<String>;

impl Run<'_> {
    fn client(&self, client: usize) {
        let mut script = Script::new(self.seed, client, self.flavour);
        if self.sends_away {
            script.forms.retain(|form| !scenarios::is_for_one_server(form));
        }
        let login = script.log_in();
        let mut direct = Side::direct(self.truth, &login).with_init_connect(self.init_connect);
        let mut through = match self.is_direct {
            true => Side::direct(self.twin, &login).with_init_connect(self.init_connect),
            false => Side::through(self.narrows.endpoint(), self.twin, &login),
        };
        let mut history = History::new();
        let mut past = Past::default();
        let mut session = Failing { client, login: login.clone(), steps: Vec::new() };
        self.begin(&mut direct, &mut through, &login, &mut history);
        let mut done = 0;
        while done < self.steps || self.goes_on.load(Ordering::SeqCst) {
            let mut burst = script.burst();
            self.replace_placeholders(&mut burst.steps);
            let mut expected = self.run_direct(client, &mut burst, &mut direct);
            for lines in &expected {
                script.status = observe::last_status(lines).unwrap_or(script.status);
            }
            if let Some(step) = script.settle() {
                expected.push(direct.run(&step));
                script.status = expected.last().and_then(|lines| observe::last_status(lines)).unwrap_or(2);
                burst.steps.push(step);
            }
            done += burst.steps.len();
            let lost = expected.last().is_some_and(|lines| lines.last().is_some_and(|line| line == "LOST"));
            let mut differs = false;
            for (step, expected) in burst.steps.iter().zip(&expected) {
                let sent = Some(step).filter(|_| self.sends_away);
                let marked = sent.and_then(|step| away::mark(step, &past, expected));
                let sent = marked.as_ref().unwrap_or(step);
                self.watch.note(client, format!("through, {}: {}", burst.name, sent.text()));
                let actual = through.run(sent);
                session.note(sent);
                history.push_back(self.line(sent, &actual, &mut through));
                if history.len() > self.history {
                    history.pop_front();
                }
                let equal = self.compare(burst.name, &session, &history, (step, &past), expected, &actual);
                past.note(step, self.flavour, expected);
                if !equal {
                    self.explain_warnings(expected, &actual, (&mut direct, &mut through));
                    // Different metadata does not make the next answers differ.
                    differs |= without_columns(expected) != without_columns(&actual);
                    if differs {
                        break;
                    }
                }
            }
            let mut found = self.found.lock().expect("no client panics while it reports");
            found.figures.count(&burst);
            if found.reports.len() > TOO_MANY {
                return;
            }
            drop(found);
            if differs || lost {
                let login = script.log_in();
                if differs {
                    self.put_back(client, &mut direct, &mut through);
                }
                self.begin(&mut direct, &mut through, &login, &mut history);
                session = Failing { client, login, steps: Vec::new() };
                past = Past::default();
            }
        }
    }

    /// Runs a burst on the server itself. The warnings of a change are read at once, on both sides.
    fn run_direct(&self, client: usize, burst: &mut Burst, direct: &mut Side<'_>) -> Vec<Vec<String>> {
        let mut answers = Vec::with_capacity(burst.steps.len() + 1);
        let mut steps = Vec::with_capacity(burst.steps.len() + 1);
        let mut run = |step: Step| {
            self.watch.note(client, format!("direct, {}: {}", burst.name, step.text()));
            let answer = direct.run(&step);
            let warned = warns(&answer);
            let writes = exceptions::writes(&step.text());
            answers.push(answer);
            steps.push(step);
            warned && writes
        };
        for step in burst.steps.drain(..) {
            if run(step) {
                run(Step::Query(b"SHOW WARNINGS".to_vec()));
            }
        }
        burst.steps = steps;
        answers
    }

    /// A step and its answer, for the report.
    fn line(&self, step: &Step, actual: &[String], through: &mut Side<'_>) -> String {
        let lost = actual.last().is_some_and(|line| line == "LOST");
        let id = if lost { through.id() } else { None };
        let id = id.map_or(String::new(), |id| format!(" (session {id})"));
        format!("{} -> {}{id}", step.text(), shortened(actual))
    }

    /// Whether the two answers are equal, apart from documented differences; reports it if they are not.
    fn compare(
        &self,
        class: &str,
        session: &Failing,
        history: &History,
        (step, past): (&Step, &Past),
        expected: &[String],
        actual: &[String],
    ) -> bool {
        if expected == actual {
            return true;
        }
        let case = (step, past, self.flavour);
        if let Some(names) = exceptions::explain(case, expected, actual, self.is_direct) {
            self.found.lock().expect("no client panics while it reports").figures.count_exceptions(&names);
            return true;
        }
        self.report(class, session, history, expected, actual);
        false
    }

    /// Adds the differing warnings to the last report.
    fn explain_warnings(
        &self,
        expected: &[String],
        actual: &[String],
        (direct, through): (&mut Side<'_>, &mut Side<'_>),
    ) {
        let counts = |lines: &[String]| -> Vec<String> {
            let count = |line: &String| Some(line.split_once("warnings=")?.1.split(' ').next()?.to_owned());
            lines.iter().filter_map(count).collect()
        };
        if counts(expected) == counts(actual) {
            return;
        }
        let ask = Step::Query(b"SHOW WARNINGS".to_vec());
        let (expected, actual) = (direct.run(&ask), through.run(&ask));
        let mut found = self.found.lock().expect("no client panics while it reports");
        if let Some(report) = found.reports.last_mut() {
            writeln!(report, "  warnings expected: {expected:?}\n  actual: {actual:?}")
                .expect("writing to a String cannot fail");
        }
    }

    fn begin(&self, direct: &mut Side<'_>, through: &mut Side<'_>, login: &LogIn, history: &mut History) {
        let (expected, actual) = (direct.start(login), through.start(login));
        history.push_back(format!("{login:?}"));
        self.found.lock().expect("no client panics while it reports").figures.count_session();
        assert_eq!(expected, actual, "{login:?}");
    }

    /// After a difference the data may differ too.
    fn put_back(&self, client: usize, direct: &mut Side<'_>, through: &mut Side<'_>) {
        direct.leave();
        through.leave();
        self.put_back_data(client);
    }

    /// Routines stay: MariaDB's answers depend on whether they are in its caches, which their DDL empties for all clients.
    fn put_back_data(&self, client: usize) {
        let statements = script::cleaning(client, self.flavour);
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        self.truth.execute(&statements);
        self.twin.execute(&statements);
    }

    fn replace_placeholders(&self, steps: &mut [Step]) {
        for step in steps {
            if let Step::Query(text) = step
                && *text == scenarios::EVERY_VARIABLE.as_bytes()
            {
                *text = self.variables.clone().into_bytes();
            }
        }
    }

    fn report(
        &self,
        class: &str,
        session: &Failing,
        history: &History,
        expected: &[String],
        actual: &[String],
    ) {
        let mut text = format!("--- {class}: client {}\n", session.client);
        for line in history {
            writeln!(text, "    {line}").expect("writing to a String cannot fail");
        }
        for line in expected.iter().filter(|line| !actual.contains(line)) {
            writeln!(text, "  expected {line}").expect("writing to a String cannot fail");
        }
        for line in actual.iter().filter(|line| !expected.contains(line)) {
            writeln!(text, "  actual   {line}").expect("writing to a String cannot fail");
        }
        if let Some((log, lines)) = self.log {
            writeln!(text, "  the last statements by backend connection:\n{}", last_lines(log, lines))
                .expect("writing to a String cannot fail");
        }
        if actual.last().is_some_and(|line| line == "LOST") {
            let log = self.narrows.log();
            let last = history.back().and_then(|line| line.rsplit_once("(session ")).map_or("", |(_, id)| id);
            let id = format!(" id={} ", last.trim_end_matches(')'));
            let lines = log.lines().filter(|line| line.contains("WARN") || line.contains(&id));
            let lines: Vec<&str> = lines.collect();
            writeln!(text, "  narrows logged this, and its warnings:\n{}", lines.join("\n"))
                .expect("writing to a String cannot fail");
        }
        let statement = history.back().and_then(|line| line.split(" -> ").next()).unwrap_or_default();
        let statement: String = statement.chars().filter(|char| !char.is_ascii_digit()).take(60).collect();
        let class = match without_columns(expected) == without_columns(actual) {
            true => format!("metadata of {statement}"),
            false => format!("{class}: {statement}"),
        };
        let mut found = self.found.lock().expect("no client panics while it reports");
        let count = found.classes.entry(class).or_default();
        *count += 1;
        let is_first = *count == 1;
        if is_first && found.failing.len() < reduce::MOST {
            found.failing.push(session.clone());
        }
        if is_first && found.reports.len() < self.reports {
            found.reports.push(text);
        }
    }
}

/// Whether an answer is an OK that counts warnings.
fn warns(lines: &[String]) -> bool {
    let Some(Some(ok)) = lines.last().map(|line| line.strip_prefix("OK ")) else { return false };
    !ok.contains("warnings=0")
}

/// Lines without column definitions.
fn without_columns(lines: &[String]) -> Vec<&String> {
    lines.iter().filter(|line| !line.starts_with("COLUMN")).collect()
}

fn last_lines(log: &Path, count: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn shortened(lines: &[String]) -> String {
    let text =
        lines.iter().filter(|line| !line.starts_with("COLUMN")).cloned().collect::<Vec<_>>().join("; ");
    let cut: String = text.chars().take(160).collect();
    if cut.len() < text.len() { cut + "..." } else { cut }
}
