//! A fleet: five Narrows with one configuration in an etcd of three nodes.
//!
//! `NARROWS_FLEET_EVENTS` sets the number of random events (500 take half an hour), `NARROWS_FLEET_HISTORIES` that of histories in which
//! etcd loses data, and `NARROWS_SEED` makes others.

mod changes;
mod faults;
mod histories;
mod managed;
mod names;
mod outage;
mod random;
mod refusals;
mod secured;
mod split;
mod statistics;
mod traffic;
mod trials;

use std::collections::BTreeMap;

use narrows_testkit::{
    Conversation, Endpoint, EtcdCluster, FakeMysql, Monitor, Move, Narrows, NarrowsConfig, RawClient,
    wait_until,
};

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// An etcd, a server, and Narrows in front of it that have one configuration.
struct Fleet {
    members: Vec<Narrows>,
    etcd: EtcdCluster,
    config: NarrowsConfig,
    _server: FakeMysql,
}

impl Fleet {
    /// A fleet of so many members, whose first version is made; `None`: etcd is not installed.
    fn start(members: usize) -> Option<Fleet> {
        if !EtcdCluster::is_there() {
            eprintln!("etcd is not installed: scripts/setup.sh etcd");
            return None;
        }
        Some(Fleet::start_on(EtcdCluster::start(), members))
    }

    /// The same on an etcd that was started.
    fn start_on(etcd: EtcdCluster, members: usize) -> Fleet {
        let server = FakeMysql::start(Conversation::new().on("SELECT 1", &[Move::rows("1", &["1"])]));
        let config = NarrowsConfig::in_front_of(server.port());
        let mut fleet = Fleet { members: Vec::new(), etcd, config, _server: server };
        (0..members).for_each(|number| fleet.join(&format!("n{number}"), ""));
        fleet.wait_until_etcd_is_known();
        change_surely(&mut fleet.members[0].admin(), "first");
        fleet.wait_until_all_run("first");
        fleet
    }

    /// The id of the version that etcd has as the newest.
    fn head_id(&self) -> String {
        let head: serde_json::Value =
            serde_json::from_str(&self.etcd.get("/narrows/head").expect("a head")).expect("JSON");
        head["id"].as_str().expect("an id").to_owned()
    }

    /// Makes that version the newest that etcd has.
    fn put_head(&self, version: i64, id: &str, last: i64) {
        let head = format!(r#"{{"version": {version}, "id": "{id}", "last": {last}}}"#);
        self.etcd.put("/narrows/head", head.as_bytes());
    }

    /// Waits until these members say that they do not run what etcd has, or that they do, and have logged it.
    fn wait_until_mismatch(&self, members: &[usize], is_there: bool) {
        let figure = if is_there { "1" } else { "0" };
        for member in members {
            let mut admin = self.admin(*member);
            wait_until(&format!("the mismatch of n{member} is {figure}"), || {
                metric(&mut admin, "narrows_fleet_mismatch").as_deref() == Some(figure)
            });
        }
    }

    /// Starts one more member; `more` is written at the top of its file.
    fn join(&mut self, node: &str, more: &str) {
        self.members.push(start_member(&self.settings(node), more, &self.config));
    }

    /// The settings of the section `fleet` of one member.
    fn settings(&self, node: &str) -> String {
        let addresses: Vec<String> = self.etcd.endpoints().iter().map(|it| format!("\"{it}\"")).collect();
        format!("endpoints = ({}) node = \"{node}\"", addresses.join(", "))
    }

    fn admin(&self, member: usize) -> RawClient {
        self.members[member].admin()
    }

    fn wait_until_etcd_is_known(&mut self) {
        for member in &self.members {
            let mut admin = member.admin();
            wait_until("a member has reached etcd", || etcd_trouble(&mut admin).is_none());
        }
    }

    /// Waits until all members run the version with that tag.
    fn wait_until_all_run(&self, tag: &str) {
        for member in &self.members {
            let mut admin = member.admin();
            wait_until(&format!("all run {tag}"), || tags(&mut admin) == [tag, tag, tag, tag]);
        }
    }

    /// What each member says of itself, by name: version, state, drift, refusal.
    fn shown(&self, asked: usize) -> BTreeMap<String, [String; 4]> {
        let rows = self.admin(asked).query("SHOW NARROWS FLEET").text_rows();
        let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
        let row = |row: &Vec<Option<String>>| (text(&row[0]), [1, 3, 4, 5].map(|column| text(&row[column])));
        rows.iter().map(row).collect()
    }
}

/// Starts a Narrows with these settings of the section `fleet`.
fn start_member(settings: &str, more: &str, config: &NarrowsConfig) -> Narrows {
    let text = |interfaces: &str, admin: &str| {
        format!("{more}fleet = {{ {settings} }}\n{}", config.text(interfaces, admin))
    };
    Narrows::start_with(BINARY, Monitor::Off, text)
}

/// Why a member does not reach etcd; `None`: it does.
fn etcd_trouble(admin: &mut RawClient) -> Option<String> {
    let rows = admin.query("SHOW NARROWS FLEET").text_rows();
    let own = rows.iter().find_map(|row| row[9].clone()).unwrap_or("it has not reported yet".to_owned());
    (!own.starts_with("http") || own.contains(": ")).then_some(own)
}

/// Edits memory so that the whole configuration carries a tag: again, if a version has replaced memory in the middle.
fn edit(admin: &mut RawClient, tag: &str) {
    let statements = [
        "DELETE FROM mysql_query_rules".to_owned(),
        format!(
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, apply, comment) VALUES (1, 1, '^SELECT', 0, 1, '{tag}')"
        ),
        format!("UPDATE mysql_servers SET comment = '{tag}'"),
        format!("UPDATE mysql_users SET comment = '{tag}'"),
        format!("SET mysql-monitor_username = '{tag}'"),
    ];
    loop {
        let before = newest_version(admin);
        let failed = statements.iter().find_map(|statement| admin.query(statement).error());
        if newest_version(admin) == before {
            assert!(failed.is_none(), "{failed:?}");
            return;
        }
    }
}

/// The newest version in the history of a member.
fn newest_version(admin: &mut RawClient) -> Option<String> {
    admin.query("SELECT max(version) FROM disk.narrows_config_history").cell()
}

/// The tags of the parts of what runs, at one moment: all the same, unless it is a mixture.
fn tags(admin: &mut RawClient) -> [String; 4] {
    let statement = "SELECT (SELECT group_concat(comment) FROM runtime_mysql_query_rules), \
         (SELECT group_concat(comment) FROM runtime_mysql_servers), \
         (SELECT group_concat(DISTINCT comment) FROM runtime_mysql_users), \
         (SELECT variable_value FROM runtime_global_variables WHERE variable_name = 'mysql-monitor_username')";
    let rows = admin.query(statement).text_rows();
    let cell = |column: usize| rows.first().and_then(|row| row[column].clone()).unwrap_or_default();
    [0, 1, 2, 3].map(cell)
}

/// Makes a plan of what is in memory; returns its token.
fn plan(admin: &mut RawClient) -> String {
    let rows = admin.query("NARROWS PLAN").text_rows();
    rows[0][1].clone().expect("a token")
}

/// Changes the configuration on one member, for the whole fleet.
fn change(admin: &mut RawClient, tag: &str) -> Result<(), String> {
    edit(admin, tag);
    let token = plan(admin);
    apply(admin, &format!("NARROWS APPLY PLAN '{token}' COMMENT '{tag}'"))
}

/// The same while etcd may be slow: a change that was not made is tried again.
fn change_surely(admin: &mut RawClient, tag: &str) {
    wait_until(&format!("the change {tag} is made"), || match change(admin, tag) {
        Ok(()) => true,
        Err(reason) if reason.contains("etcd cannot be reached") || reason.contains("is the newest") => false,
        Err(reason) => panic!("{tag}: {reason}"),
    });
}

fn apply(admin: &mut RawClient, statement: &str) -> Result<(), String> {
    let answer = admin.query(statement);
    match answer.error() {
        Some(error) => Err(error.message),
        None => Ok(()),
    }
}

/// Where a member listens for administrators.
fn admin_address(member: &Narrows) -> String {
    match member.admin_endpoint() {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix(path) => path.display().to_string(),
    }
}

fn texts(rows: Vec<Vec<Option<String>>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

/// The figure of a metric.
fn metric(admin: &mut RawClient, name: &str) -> Option<String> {
    let text = admin.query("SHOW PROMETHEUS METRICS").cell()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// How many random events there are.
fn events() -> u64 {
    std::env::var("NARROWS_FLEET_EVENTS").map_or(25, |text| text.parse().expect("a number"))
}
