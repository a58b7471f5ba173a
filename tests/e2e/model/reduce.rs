//! The shortest script that shows a difference: steps are left out as long as the last one still differs, with one backend
//! connection, which another client uses after each step if it can.

use std::fmt::Write;

use narrows_testkit::{Narrows, NarrowsConfig};

use super::Run;
use super::exceptions::{self, Past};
use super::script::own_schema;
use super::side::{LogIn, Side, Step};
use crate::support::start;

/// A session that differed in its last step.
#[derive(Debug, Clone)]
pub struct Failing {
    pub client: usize,
    pub login: LogIn,
    pub steps: Vec<Step>,
}

impl Failing {
    /// Records a step.
    pub fn note(&mut self, step: &Step) {
        match step {
            Step::Reconnect { login, .. } => {
                self.login = login.clone();
                self.steps.clear();
            }
            step => self.steps.push(step.clone()),
        }
    }
}

/// How many differences are reduced.
pub const MOST: usize = 60;

/// Sessions longer than this are not worth the time.
const LONGEST: usize = 80;

/// Narrows with one connection.
pub struct Bench<'r, 's> {
    run: &'r Run<'s>,
    narrows: Narrows,
}

/// What differed, and where.
struct Difference {
    place: usize,
    expected: Vec<String>,
    actual: Vec<String>,
}

impl<'r, 's> Bench<'r, 's> {
    pub fn new(run: &'r Run<'s>, config: NarrowsConfig) -> Bench<'r, 's> {
        let config = config
            .server(0, run.twin.port(), "max_connections=1")
            .variable("threads", "1")
            .variable("connect_timeout_server_max", "250");
        Bench { run, narrows: start(&config) }
    }

    /// The shortest script, as text.
    pub fn reduce(&self, failing: &Failing) -> String {
        let mut steps = failing.steps.clone();
        if steps.len() > LONGEST || steps.iter().any(|step| matches!(step, Step::Kill { .. })) {
            return "    (too long to be reduced)\n".to_owned();
        }
        let mut login = failing.login.clone();
        let Some(mut found) = self.try_all(failing.client, &login, &steps, true) else {
            return "    (does not differ with one connection)\n".to_owned();
        };
        steps.truncate(found.place + 1);
        let plain = LogIn { capabilities: 0, without: 0, ..login.clone() };
        if let Some(still) =
            self.try_all(failing.client, &plain, &steps, true).filter(|still| still.place + 1 == steps.len())
        {
            (login, found) = (plain, still);
        }
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut place = 0;
            while place + size < steps.len() {
                let mut shorter = steps.clone();
                shorter.drain(place..place + size);
                let still = self.try_all(failing.client, &login, &shorter, true);
                match still.filter(|still| still.place + 1 == shorter.len()) {
                    Some(still) => (steps, found) = (shorter, still),
                    None => place += size,
                }
            }
            size /= 2;
        }
        let alone = self.try_all(failing.client, &login, &steps, false).is_some();
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "    {line}").expect("writing to a String cannot fail");
        line(format!(
            "{:?} {:?} capabilities={:#x} without={:#x}{}",
            login.user,
            login.schema,
            login.capabilities,
            login.without,
            if alone { ", without other clients" } else { "" }
        ));
        for step in &steps {
            line(step.text());
        }
        for expected in found.expected.iter().filter(|line| !found.actual.contains(line)) {
            line(format!("  expected {expected}"));
        }
        for actual in found.actual.iter().filter(|line| !found.expected.contains(line)) {
            line(format!("  actual   {actual}"));
        }
        text
    }

    /// The first difference of a script.
    fn try_all(&self, client: usize, login: &LogIn, steps: &[Step], with_others: bool) -> Option<Difference> {
        let run = self.run;
        let mut direct = Side::direct(run.truth, login).with_init_connect(run.init_connect);
        let mut through = Side::through(self.narrows.endpoint(), run.twin, login);
        let own = own_schema(client);
        let uses_data = |step: &Step| step.text().contains(&own) || step.text().contains(" t");
        if steps.iter().any(uses_data) {
            run.put_back_data(client);
        }
        direct.start(login);
        through.start(login);
        let other = own_schema(usize::from(client == 0));
        let other_login = LogIn {
            user: "mb",
            schema: Some("latin".to_owned()),
            capabilities: 0,
            without: 0,
            collation: 33,
        };
        let mut others = Side::through(self.narrows.endpoint(), run.twin, &other_login);
        let disturbing = [
            format!("INSERT INTO {other}.r (s) VALUES ('other')"),
            format!("INSERT INTO {other}.t (v) VALUES (-1)"),
            "SELECT id FROM common.t WHERE id > 1000".to_owned(),
        ];
        if with_others {
            others.start(&other_login);
            others.run(&Step::Query(b"SET time_zone = '-09:00', sql_mode = ''".to_vec()));
        }
        let mut past = Past::default();
        for (place, step) in steps.iter().enumerate() {
            let (expected, actual) = (direct.run(step), through.run(step));
            let explained =
                || exceptions::explain((step, &past, run.flavour), &expected, &actual, false).is_some();
            if expected != actual && !explained() {
                return Some(Difference { place, expected, actual });
            }
            past.note(step, run.flavour, &expected);
            if with_others {
                for statement in &disturbing {
                    // The connection is kept: it gets none.
                    if others
                        .run(&Step::Query(statement.clone().into_bytes()))
                        .iter()
                        .any(|line| line.starts_with("ERR 9001"))
                    {
                        break;
                    }
                }
            }
        }
        None
    }
}
