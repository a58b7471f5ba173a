//! What one client does: bursts of steps that depend on a seed, and not on what other clients do.
//!
//! Whatever ties a client to a backend connection is released after a few steps, because two connections serve all
//! clients; no step waits for another client.

use narrows_testkit::{Flavour, capability};

use super::random::Random;
use super::scenarios::{self, Form};
use super::side::{LogIn, Step};
use super::variables;

/// Steps that belong together.
#[derive(Debug)]
pub struct Burst {
    /// The name under which differences are counted.
    pub name: &'static str,
    pub steps: Vec<Step>,
    /// It leaves something that only the end of the session removes.
    pub ties: bool,
}

impl Burst {
    /// Adds a statement.
    pub fn query(&mut self, text: impl Into<Vec<u8>>) {
        self.steps.push(Step::Query(text.into()));
    }
}

/// The script of one client, generated as it runs: it sees the answers of the server without Narrows.
#[derive(Debug)]
pub struct Script {
    pub random: Random,
    pub client: usize,
    pub flavour: Flavour,
    /// The schema that only this client uses.
    pub own: String,
    /// The last status flags.
    pub status: u16,
    pub capabilities: u32,
    pub variables: Vec<(&'static str, &'static [&'static str])>,
    /// What this run does.
    pub forms: Vec<&'static Form>,
    number: usize,
    /// Bursts until the session has to end because it is tied for good.
    tied: Option<usize>,
    /// How many bursts a transaction has been open for.
    open_for: usize,
}

pub const IN_TRANSACTION: u16 = 1;

impl Script {
    pub fn new(seed: u64, client: usize, flavour: Flavour) -> Script {
        Script {
            random: Random::new(seed, client),
            client,
            flavour,
            own: own_schema(client),
            status: 2,
            capabilities: 0,
            variables: variables::of(flavour),
            forms: scenarios::of(flavour),
            number: 0,
            tied: None,
            open_for: 0,
        }
    }

    /// A number that this client has not used before.
    pub fn number(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    /// How the client logs in next.
    pub fn log_in(&mut self) -> LogIn {
        let mut capabilities = 0;
        for (one, percent) in [
            // Backend connections differ in this: each change costs a login.
            (capability::FOUND_ROWS, 15),
            (capability::DEPRECATE_EOF, 40),
            (capability::SESSION_TRACK, 40),
            (capability::MULTI_STATEMENTS, 40),
            (capability::IGNORE_SPACE, 20),
        ] {
            if self.random.percent(percent) {
                capabilities |= one;
            }
        }
        let mut without = 0;
        if scenarios::is_on("capabilities") && self.random.percent(20) {
            without |= capability::PS_MULTI_RESULTS;
        }
        if scenarios::is_on("compression") && self.random.percent(20) {
            capabilities |= capability::COMPRESS;
        }
        self.capabilities = capabilities;
        self.status = 2;
        self.tied = None;
        self.open_for = 0;
        let schema = match self.random.below(10) {
            0 => None,
            1 => Some("common".to_owned()),
            2 => Some("latin".to_owned()),
            _ => Some(self.own.clone()),
        };
        let collations: &[u8] = match self.flavour {
            Flavour::MariaDb => &[8, 33, 45, 63],
            Flavour::MySql9 => &[8, 33, 255, 63],
        };
        let user = *self.random.pick(USERS);
        LogIn { user, schema, capabilities, without, collation: *self.random.pick(collations) }
    }

    /// The next steps.
    pub fn burst(&mut self) -> Burst {
        if self.tied.is_some_and(|left| left == 0) {
            return scenarios::leave(self);
        }
        let mut burst = scenarios::any(self);
        scenarios::vary(self, &mut burst);
        self.tied = match (self.tied, burst.ties) {
            (Some(left), _) => Some(left - 1),
            (None, true) => Some(self.random.below(3)),
            (None, false) => None,
        };
        if self.random.percent(60) {
            scenarios::look(self, &mut burst);
        }
        burst
    }

    /// The step that ends a transaction that has been open for long enough.
    pub fn settle(&mut self) -> Option<Step> {
        if self.status & IN_TRANSACTION == 0 {
            self.open_for = 0;
            return None;
        }
        self.open_for += 1;
        if self.open_for < 3 && self.random.percent(50) {
            return None;
        }
        let word = if self.random.percent(50) { "COMMIT" } else { "ROLLBACK" };
        Some(Step::Query(format!("{word} AND NO CHAIN NO RELEASE").into_bytes()))
    }

    /// The session has started again.
    pub fn untie(&mut self) {
        self.tied = None;
        self.status = 2;
    }
}

/// The accounts; each one's password is its name.
pub const USERS: &[&str] = &["ma", "mb", PLAIN_USER];

/// The account without SUPER in runs with `init_connect`.
pub const PLAIN_USER: &str = "mc";

/// Takes from the plain account what would keep `init_connect` from running for it.
pub fn without_super(flavour: Flavour) -> &'static [&'static str] {
    match flavour {
        Flavour::MariaDb => &["REVOKE SUPER, CONNECTION ADMIN ON *.* FROM 'mc'@'%'"],
        Flavour::MySql9 => &["REVOKE SUPER, CONNECTION_ADMIN ON *.* FROM 'mc'@'%'"],
    }
}

/// The schema of a client.
pub fn own_schema(client: usize) -> String {
    format!("c{client:03}")
}

/// The statements that set up a client's schema.
pub fn preparation(client: usize, flavour: Flavour) -> Vec<String> {
    let own = own_schema(client);
    [
        format!("DROP DATABASE IF EXISTS {own}"),
        format!("CREATE DATABASE {own} CHARACTER SET utf8mb4"),
        format!(
            "CREATE TABLE {own}.t (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE, s VARCHAR(20)) ENGINE=InnoDB"
        ),
        first_rows(client),
        format!("CREATE TABLE {own}.k (id INT PRIMARY KEY) ENGINE=InnoDB"),
    ]
    .into_iter()
    .chain(scenarios::preparation(client, flavour))
    .collect()
}

/// The statement that fills a client's empty table.
fn first_rows(client: usize) -> String {
    format!("INSERT INTO {}.t VALUES (1, -1, 'one'), (2, -2, 'two'), (3, -3, 'three')", own_schema(client))
}

/// The statements that bring a client's schema back to what it was at the beginning.
pub fn cleaning(client: usize, flavour: Flavour) -> Vec<String> {
    let own = own_schema(client);
    let mut statements: Vec<String> =
        ["t", "k", "r", "child", "g"].iter().map(|table| format!("TRUNCATE TABLE {own}.{table}")).collect();
    statements.push(first_rows(client));
    statements.push(format!("ALTER TABLE {own}.k COMMENT ''"));
    statements.push(format!("ALTER DATABASE {own} CHARACTER SET utf8mb4"));
    statements.push(format!("DROP TABLE IF EXISTS {own}.cid"));
    statements.extend(["x", "y"].map(|other| format!("DROP DATABASE IF EXISTS {own}{other}")));
    statements.extend(scenarios::cleaning(client, flavour));
    statements
}

/// The statements that set up what all clients share and none changes.
pub fn shared_preparation() -> Vec<String> {
    let mut statements = Vec::new();
    for (schema, charset) in [("common", "utf8mb4"), ("latin", "latin1")] {
        statements.push(format!("CREATE DATABASE {schema} CHARACTER SET {charset}"));
        statements.push(format!("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT, s VARCHAR(20))"));
        statements.push(format!(
            "INSERT INTO {schema}.t VALUES (10, 100, '{schema}'), (20, 200, 'b'), (30, 300, 'c')"
        ));
    }
    statements.push("CREATE PROCEDURE common.plus(n INT) SELECT n + 1 AS next".to_owned());
    statements.push("CREATE PROCEDURE common.assign(n INT) SET @c = n".to_owned());
    statements.push(
        "CREATE FUNCTION common.counted(n INT) RETURNS INT NO SQL BEGIN SET @d = n; RETURN n + 1; END"
            .to_owned(),
    );
    statements.push(
        "CREATE FUNCTION common.locked(name VARCHAR(64)) RETURNS INT NO SQL RETURN GET_LOCK(name, 60)"
            .to_owned(),
    );
    statements.extend(scenarios::shared_preparation());
    statements
}
