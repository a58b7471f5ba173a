use super::*;

fn read_text(text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    read(Path::new("test"), text, &|_| Err("no such file".to_owned()))
}

fn loaded(text: &str) -> Loaded {
    read_text(text).unwrap_or_else(|problems| panic!("{}", lines(&problems)))
}

fn lines(problems: &[Diagnostic]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// Everything that is said about a text, whether it can be started or not.
fn said(text: &str) -> String {
    match read_text(text) {
        Ok(loaded) => lines(&loaded.passed_over) + &lines(&loaded.warnings),
        Err(problems) => lines(&problems),
    }
}

const MINIMAL: &str = r#"
datadir="/var/lib/proxysql"
admin_variables = { admin_credentials="admin:admin;radmin:radmin"  mysql_ifaces="0.0.0.0:6032" }
mysql_variables = { threads=4  max_connections=2048  interfaces="0.0.0.0:6033"  server_version="8.0.30" }
mysql_servers = ( { address="10.0.0.1" port=3306 hostgroup=0 max_connections=200 }, { address="10.0.0.2" hostgroup=1 } )
mysql_users : ( { username="app" password="x" default_hostgroup=0 active=1 } )
mysql_query_rules : ( { rule_id=1 active=1 match_digest="^SELECT .* FOR UPDATE" destination_hostgroup=0 apply=1 } )
"#;

const MINIMAL_TOML: &str = r#"
datadir = "/var/lib/proxysql"

[admin_variables]
admin_credentials = "admin:admin;radmin:radmin"
mysql_ifaces = "0.0.0.0:6032"

[mysql_variables]
threads = 4
max_connections = "2048"
interfaces = "0.0.0.0:6033"
server_version = "8.0.30"

[[mysql_servers]]
hostname = "10.0.0.1"
port = 3306
hostgroup_id = 0
max_connections = 200

[[mysql_servers]]
hostname = "10.0.0.2"
hostgroup_id = 1

[[mysql_users]]
username = "app"
password = "x"
default_hostgroup = 0
active = true

[[mysql_query_rules]]
rule_id = 1
active = true
match_digest = '^SELECT .* FOR UPDATE'
destination_hostgroup = 0
apply = 1
"#;

#[test]
fn reads_a_minimal_proxysql_cnf() {
    let Loaded { rows, bootstrap, variables, passed_over, warnings } = loaded(MINIMAL);
    assert!(passed_over.is_empty() && warnings.is_empty());
    assert_eq!(bootstrap.datadir.as_deref(), Some(Path::new("/var/lib/proxysql")));
    assert_eq!(
        variables.value("admin-admin_credentials").map(ToString::to_string).as_deref(),
        Some("admin:admin;radmin:radmin")
    );
    assert_eq!((rows.variables.threads, rows.variables.max_connections), (4, 2048));
    assert_eq!(rows.servers.len(), 2);
    assert_eq!((rows.servers[0].hostname.as_str(), rows.servers[0].max_connections), ("10.0.0.1", 200));
    assert_eq!((rows.servers[1].hostgroup.0, rows.servers[1].port), (1, 3306));
    assert_eq!((rows.servers[1].weight, rows.servers[1].max_connections), (1, 1000));
    let user = &rows.users[0];
    assert!(user.active && user.transaction_persistent && !user.fast_forward);
    assert_eq!((user.username.as_str(), user.max_connections), ("app", 10_000));
    let rule = &rows.rules[0];
    assert!(rule.active && rule.apply && !rule.negate_match_pattern);
    assert_eq!(rule.match_digest.as_deref(), Some("^SELECT .* FOR UPDATE"));
    assert_eq!((rule.re_modifiers.as_str(), rule.match_pattern.as_deref()), ("CASELESS", None));
}

#[test]
fn both_syntaxes_give_the_same_configuration() {
    let (cnf, toml) = (loaded(MINIMAL), loaded(MINIMAL_TOML));
    assert_eq!(cnf.rows, toml.rows);
    assert_eq!(cnf.variables, toml.variables);
    assert_eq!(cnf.bootstrap, toml.bootstrap);
}

#[test]
fn tells_the_syntaxes_apart_by_content() {
    assert_eq!(looks_like(MINIMAL), Syntax::Libconfig);
    assert_eq!(looks_like(MINIMAL_TOML), Syntax::Toml);
    assert_eq!(looks_like("a = [\n  1, 2\n]\n[ 'x' ]"), Syntax::Libconfig);
    assert_eq!(looks_like("[mysql_variables] # x"), Syntax::Toml);
    // TOML without any table, and a comment of libconfig that looks like a table.
    assert_eq!(loaded("datadir = '/x'").bootstrap.datadir.as_deref(), Some(Path::new("/x")));
    assert_eq!(loaded("/*\n[x]\n*/ datadir: \"/y\"").bootstrap.datadir.as_deref(), Some(Path::new("/y")));
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let loaded = loaded("");
    assert_eq!(loaded.variables, Values::default());
    assert_eq!(loaded.rows.servers, []);
}
