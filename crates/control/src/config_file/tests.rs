use narrows_proxy::rules::Activity;

use super::*;
use crate::config::parse::{Syntax, looks_like};
use crate::effect::FLEET_INSTEAD;

fn read_text(text: &str) -> Result<LoadedFile, Vec<Diagnostic>> {
    read(Path::new("test"), text, &|_| Err("no such file".to_owned()))
}

fn loaded(text: &str) -> LoadedFile {
    read_text(text).unwrap_or_else(|problems| panic!("{}", lines(&problems)))
}

fn lines(problems: &[Diagnostic]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// Everything reported about a text, whether or not it can be started.
fn said(text: &str) -> String {
    match read_text(text) {
        Ok(loaded) => lines(&loaded.passed_over) + &lines(&loaded.warnings),
        Err(problems) => lines(&problems),
    }
}

const MINIMAL: &str = r#"
datadir="/var/lib/proxysql"
admin_variables = { admin_credentials="admin:admin;radmin:radmin"  mysql_ifaces="127.0.0.1:6032" }
mysql_variables = { threads=4  max_connections=2048  interfaces="0.0.0.0:6033"  server_version="8.0.30" }
mysql_servers = ( { address="10.0.0.1" port=3306 hostgroup=0 max_connections=200 }, { address="10.0.0.2" hostgroup=1 } )
mysql_users : ( { username="app" password="x" default_hostgroup=0 active=1 } )
mysql_query_rules : ( { rule_id=1 active=1 match_digest="^SELECT .* FOR UPDATE" destination_hostgroup=0 apply=1 } )
"#;

const MINIMAL_TOML: &str = r#"
datadir = "/var/lib/proxysql"

[admin_variables]
admin_credentials = "admin:admin;radmin:radmin"
mysql_ifaces = "127.0.0.1:6032"

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
fn a_rule_may_be_a_dry_run() {
    use Activity::{DryRun, InForce, Off};
    for (written, expected) in [
        ("active = true", InForce),
        ("active = 1", InForce),
        ("active = \"false\"", Off),
        ("active = 0", Off),
        ("active = 2", DryRun),
        ("active = \"2\"", DryRun),
        ("", InForce),
    ] {
        let text = format!("[[mysql_query_rules]]\nrule_id = 1\ndestination_hostgroup = 0\n{written}\n");
        assert_eq!(loaded(&text).rows.rules[0].active, expected, "{written}");
    }
    let wrong = said("[[mysql_query_rules]]\nrule_id = 1\nactive = 3\n");
    assert!(wrong.contains("active") && wrong.contains("true, false, or 2 for a dry run"), "{wrong}");
}

#[test]
fn reads_a_minimal_proxysql_cnf() {
    let LoadedFile { rows, bootstrap, variables, passed_over, warnings } = loaded(MINIMAL);
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
    assert_eq!(rule.active, Activity::InForce);
    assert!(rule.apply && !rule.negate_match_pattern);
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
fn files_of_windows_are_read() {
    for text in [MINIMAL, MINIMAL_TOML] {
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(loaded(&windows).rows, loaded(text).rows);
    }
}

#[test]
fn warns_of_passwords_that_everybody_knows_where_others_may_reach_the_admin_interface() {
    let warning = |name: &str, account: &str, address: &str| {
        format!(
            "warning: {name}: everybody knows the password of {account:?}, and the admin interface listens on {address}, where \
             others may reach it"
        )
    };
    let of = |text: &str| said(&format!("admin_variables={{{text}}}"));
    let open = of("mysql_ifaces=\"127.0.0.1:6032;0.0.0.0:6042\"");
    assert!(open.contains(&warning("admin_credentials", "admin", "0.0.0.0:6042")), "{open}");
    assert!(open.contains(&warning("stats_credentials", "stats", "0.0.0.0:6042")), "{open}");
    let radmin = of(
        "admin_credentials=\"admin:own;radmin:radmin\" stats_credentials=\"s:t\" mysql_ifaces=\"[::]:6032\"",
    );
    assert_eq!(radmin.lines().count(), 1, "{radmin}");
    assert!(radmin.contains(&warning("admin_credentials", "radmin", "[::]:6032")), "{radmin}");
    for quiet in [
        "",
        "mysql_ifaces=\"127.0.0.1:6032;[::1]:6032;/tmp/admin.sock\"",
        "admin_credentials=\"admin:own\" stats_credentials=\"stats:own\" mysql_ifaces=\"0.0.0.0:6032\"",
    ] {
        assert_eq!(of(quiet), "", "{quiet}");
    }
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let loaded = loaded("");
    let default = LoadedFile::default();
    assert_eq!(loaded.variables, default.variables);
    assert_eq!(loaded.bootstrap, default.bootstrap);
    assert_eq!(loaded.rows, default.rows);
}

/// Texts that cannot be started, and the messages for each.
#[rustfmt::skip]
const WRONG: &[(&str, &str)] = &[
    ("mysql_servers=(\n{hostname=\"a\" hostgroup=0 port=65536})", "2:32: error: port: expected an integer from 0 to 65535, found 65536"),
    ("mysql_servers=({hostname=\"a\" hostgroup=\"x\"})", "1:40: error: hostgroup_id: expected an integer from 0 to 2147483647, found \"x\""),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 compression=2})", "1:54: error: compression: expected true or false, found 2"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 weight=1.5})", "1:49: error: weight: expected an integer from 0 to 10000000, found 1.5"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 comment=()})", "1:50: error: comment: expected text, found a list"),
    ("mysql_servers=({hostname=\"\" hostgroup=0})", "1:26: error: hostname: expected non-empty text, found \"\""),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 status=\"ONLIEN\"})", "1:49: error: status: expected one of ONLINE, SHUNNED, OFFLINE_SOFT, OFFLINE_HARD, found \"ONLIEN\"; did you mean `ONLINE`?"),
    ("mysql_servers=({hostname=\"a\"})", "1:16: error: mysql_servers: the column `hostgroup_id` must be given"),
    ("mysql_servers=({hostname=\"a\" address=\"b\" hostgroup=0})", "1:30: error: hostname and its alias `address` are both given"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 port=1 port=2})", "1:49: error: `port` is set twice in the same group; first in line 1"),
    ("mysql_servers={}", "1:15: error: mysql_servers: expected a list of groups, found a group"),
    ("mysql_servers=(1)", "1:16: error: mysql_servers: expected a group, found 1"),
    ("mysql_variables=1", "1:17: error: mysql_variables: expected a group, found 1"),
    ("mysql_variables={threads=256}", "1:26: error: threads: expected an integer from 0 to 255, found 256"),
    ("mysql_variables={multiplexing=\"on\"}", "1:31: error: multiplexing: expected true or false, found \"on\""),
    ("mysql_variables={default_charset=\"utf8m4\"}", "1:34: error: default_charset: expected a character set of MySQL or MariaDB that clients can use, found \"utf8m4\""),
    ("mysql_variables={default_charset=\"utf32\"}", "1:34: error: default_charset: expected a character set of MySQL or MariaDB that clients can use, found \"utf32\""),
    ("mysql_variables={default_collation_connection=\"utf8mb4\"}", "1:47: error: default_collation_connection: expected a collation of MySQL or MariaDB, found \"utf8mb4\""),
    ("mysql_variables={interfaces=\"localhost:6033\"}", "1:29: error: interfaces: expected ip:port, [ipv6]:port or /path of a socket, separated by `;`, found \"localhost:6033\""),
    ("mysql_variables={interfaces=\"1.1.1.1:1;1.1.1.1:1\"}", "1:29: error: interfaces: 1.1.1.1:1 is also listened on by interfaces (1.1.1.1:1)"),
    ("mysql_variables={interfaces=\"127.0.0.1:6032\"}", "1:29: error: mysql_ifaces: 127.0.0.1:6032 is also listened on by interfaces (127.0.0.1:6032)"),
    ("mysql_variables={proxy_protocol_networks=\"10.0.0.0/33\"}", "1:42: error: proxy_protocol_networks: expected `*`, or address/bits, separated by commas, found \"10.0.0.0/33\""),
    ("admin_variables={admin_credentials=\"admin\"}", "1:36: error: admin_credentials: expected user:password, neither of them empty, separated by `;`, found another text"),
    ("admin_variables={stats_credentials=\"stats:\"}", "1:36: error: stats_credentials: expected user:password, neither of them empty, separated by `;`, found another text"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 Port=1 port=2})", "1:49: error: `port` is set twice in the same group; first in line 1"),
    ("mysql_variables={threads=1}\nmysql_variables={threads=2}", "2:1: error: `mysql_variables` is set twice in the same group; first in line 1"),
    ("datadir=\"\"", "1:9: error: datadir: expected non-empty text, found \"\""),
    ("mysql_query_rules=({rule_id=1 match_digest=\"a(b\"})", "1:44: error: match_digest: the expression does not compile, at character 2: unclosed group"),
    ("mysql_query_rules=({rule_id=1 match_pattern=\"é[z-a]\"})", "1:45: error: match_pattern: the expression does not compile, at character 3: "),
    ("mysql_query_rules=({rule_id=1 match_digest=\"(a{1000}){1000}\"})", "1:44: error: match_digest: the expression does not compile: "),
    ("mysql_query_rules=({rule_id=1 digest=\"3A20\"})", "1:38: error: digest: expected a digest: 0x and 1 to 16 hex digits, found \"3A20\""),
    ("mysql_query_rules=({rule_id=1 re_modifiers=\"CASELES\"})", "1:44: error: re_modifiers: expected some of CASELESS, GLOBAL, separated by commas, found \"CASELES\""),
    ("mysql_users=({username=\"a\" attributes=\"{'additional_password':'s3cret'}\"})", "1:39: error: attributes: expected JSON, or empty, found a text that is none (key must be a string at line 1 column 2)"),
    ("mysql_query_rules=({rule_id=1 attributes=\"{\"})", "1:42: error: attributes: expected JSON, or empty, found a text that is none (EOF while parsing an object at line 1 column 1)"),
    ("mysql_query_rules=({rule_id=1 replace_pattern=\"x\"})", "1:47: error: replace_pattern needs a match_pattern: it replaces what match_pattern finds"),
    ("mysql_query_rules=({rule_id=1},\n{rule_id=1})", "2:10: error: mysql_query_rules: duplicate rule 1; first in line 1"),
    ("mysql_users=({username=\"a\"}\n,{username=\"a\"})", "2:12: error: mysql_users: duplicate user \"a\"; first in line 1"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0},{hostname=\"a\" hostgroup=0 port=3306})", "1:53: error: mysql_servers: duplicate server a:3306 in hostgroup 0; first in line 1"),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 port=0})", "1:26: error: with port 0, hostname must be the path of a Unix socket; found \"a\""),
    ("mysql_servers=({hostname=\"a\" hostgroup=0 gtid_port=3306})", "1:52: error: gtid_port must differ from port; both are 3306"),
];

#[test]
fn says_every_error_of_a_value_or_a_row() {
    for (text, expected) in WRONG {
        let said = said(text);
        assert!(read_text(text).is_err(), "{text}");
        assert!(said.contains(&format!("test:{expected}")), "{text}\n{said}");
    }
}

#[test]
fn warns_of_what_is_probably_not_meant() {
    let server = "mysql_servers=({hostname=\"a\" hostgroup=1 weight=0})\n";
    let user = "mysql_users=({username=\"a\" password=\"*12\" default_hostgroup=2})\n";
    let rule = "mysql_query_rules=({rule_id=7 destination_hostgroup=3 flagOUT=5})\n";
    let expected = "\
test:1:49: warning: hostgroup 1: every server has weight 0, so none is ever chosen
test:2:37: warning: password: begins with `*` but is not `*` and 40 hex digits; it is taken as a password in clear text
test:2:61: warning: user \"a\": hostgroup 2 has no server
test:3:53: warning: rule 7: destination hostgroup 3 has no server
test:3:63: warning: rule 7: flagOUT is 5, but no active rule has that flagIN
";
    assert_eq!(said(&format!("{server}{user}{rule}")), expected);
}

#[test]
fn warns_of_rows_and_variables_that_do_not_go_together() {
    let variables = "mysql_variables={query_digests=false auto_read_write_split=true}\n";
    let servers = "mysql_servers=({hostname=\"a\" hostgroup=0},{hostname=\"b\" hostgroup=2})\n";
    let pairs = "mysql_replication_hostgroups=({writer_hostgroup=2 reader_hostgroup=3})\n";
    let users = "mysql_users=({username=\"split\" default_hostgroup=2},{username=\"whole\" default_hostgroup=0},\
                 {username=\"own\" default_hostgroup=0 attributes=\"{\\\"reader_hostgroup\\\": 3}\"})\n";
    let rules = "mysql_query_rules=({rule_id=1 active=1 match_digest=\"a\" destination_hostgroup=3}\n,\
                 {rule_id=2 active=1 match_pattern=\"a(b)\" replace_pattern=\"\\\\2\"}\n,\
                 {rule_id=3 active=0 match_digest=\"a\" destination_hostgroup=9})\n";
    let said = said(&format!("{variables}{servers}{pairs}{users}{rules}"));
    let messages: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("warning: ")).map(|it| it.1).collect();
    let expected = [
        "user \"whole\": auto_read_write_split has no effect: no row of mysql_replication_hostgroups has the writer \
         hostgroup 0, and the account has no reader_hostgroup",
        "rule 1: digest and match_digest are ignored while mysql-query_digests is false; only other conditions apply",
        "rule 2: replace_pattern replaces nothing: match_pattern does not have as many groups",
    ];
    assert_eq!(messages, expected, "{said}");
}

/// The messages of the warnings, each with its line.
fn warned(text: &str) -> Vec<String> {
    let said = said(text);
    let message = |line: &str| {
        let (place, message) = line.split_once(": warning: ").unwrap_or_else(|| panic!("{line}"));
        format!("{} {message}", place.split(':').nth(1).unwrap_or_default())
    };
    said.lines().map(message).collect()
}

const SERVER: &str = "mysql_servers=({hostname=\"a\" hostgroup=0})\n";

#[test]
fn warns_of_a_port_of_http_that_others_have() {
    for (text, expected) in [
        (
            "admin_variables={restapi_enabled=true\nrestapi_port=6033}",
            Some("2 no HTTP interface: admin-restapi_port 6033 is a port of mysql-interfaces"),
        ),
        (
            "admin_variables={restapi_enabled=true\nrestapi_port=6032}",
            Some("2 no HTTP interface: admin-restapi_port 6032 is a port of admin-mysql_ifaces"),
        ),
        (
            "admin_variables={restapi_enabled=true}\nmysql_variables={interfaces=\"127.0.0.1:6070\"}",
            Some("2 no HTTP interface: admin-restapi_port 6070 is a port of mysql-interfaces"),
        ),
        ("admin_variables={restapi_enabled=true\nrestapi_port=6034}", None),
        ("admin_variables={restapi_enabled=false\nrestapi_port=6033}", None),
    ] {
        let said = said(text);
        let warned: Vec<String> = warned(text).into_iter().filter(|line| line.contains("HTTP")).collect();
        assert_eq!(warned.first().map(String::as_str), expected, "{text}\n{said}");
    }
}

#[test]
fn warns_of_json_that_is_not_read() {
    let text = "mysql_users=({username=\"one\" attributes=\"{\\\"auto_read_write_split\\\":\\\"yes\\\"}\"},\n\
                {username=\"two\" attributes=\"{\\\"reader_hostgroup\\\":-1}\"},\n\
                {username=\"three\" attributes=\"[1]\"},\n\
                {username=\"four\" attributes=\"{\\\"reader_hostgroup\\\":7}\"})\n\
                mysql_query_rules=({rule_id=5 attributes=\"{\\\"flagOUTs\\\":{\\\"id\\\":1}}\"},\n\
                {rule_id=6 attributes=\"{\\\"flagOUTs\\\":[{\\\"id\\\":9}]}\"})\n\
                mysql_hostgroup_attributes=({hostgroup_id=0 hostgroup_settings=\"7\"},\n\
                {hostgroup_id=1 hostgroup_settings=\"{\\\"balance\\\":\\\"best\\\"}\"})\n\
                mysql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2},\n\
                {writer_hostgroup=2 reader_hostgroup=3})\n";
    let expected = [
        "2 user \"one\": attributes `auto_read_write_split` is \"yes\": expected true or false; \
         mysql-auto_read_write_split decides instead",
        "3 user \"two\": attributes `reader_hostgroup` is -1: expected an integer from 0 to 2147483647; \
         mysql_replication_hostgroups says where reads go instead",
        "4 user \"three\": attributes is an array: expected a JSON object, and nothing of it is read",
        "5 user \"four\": reader_hostgroup 7 has no server: reads go where writes go",
        "6 rule 5: attributes `flagOUTs` is {\"id\":1}: expected an array of objects with `id` and `weight`",
        "6 rule 5: attributes `flagOUTs` has no flag to choose: the column flagOUT counts instead",
        "7 rule 6: one of flagOUTs is 9, but no active rule has that flagIN",
        "8 hostgroup 0: hostgroup_settings is a number: expected a JSON object, and nothing of it is read",
        "9 mysql_hostgroup_attributes hostgroup_id=1: left out: balance is \"best\": expected \
         \"least_outstanding\" or \"weighted_random\"",
        "11 mysql_replication_hostgroups writer_hostgroup=2: left out: writer_hostgroup 1 with reader_hostgroup 2 \
         contradicts it",
    ];
    let servers = "mysql_servers=({hostname=\"a\" hostgroup=0},{hostname=\"a\" hostgroup=1})\n";
    assert_eq!(warned(&format!("{servers}{text}")), expected);
}

#[test]
fn warns_of_rules_whose_conditions_nobody_meets() {
    let text = "mysql_query_rules=({rule_id=1 client_addr=\"10.0.0.0/99\"},\n\
                {rule_id=2 client_addr=\"app.example\" active=0},\n\
                {rule_id=3 client_addr=\"localhost\"},\n\
                {rule_id=4 proxy_addr=\"proxy.example\"},\n\
                {rule_id=5 client_addr=\"10.%\" proxy_addr=\"127.0.0.1\"})\n";
    let never = "which no client meets, so the rule never matches";
    let expected = "expected an IP address in its usual form";
    assert_eq!(
        warned(text),
        [
            format!(
                "1 rule 1: client_addr is \"10.0.0.0/99\", {never}: {expected}, the beginning of one and `%`, or a network \
                 such as 10.0.0.0/8"
            ),
            format!(
                "3 rule 3: client_addr is \"localhost\", {never}: clients of Unix sockets are called localhost, and \
                 mysql-interfaces has no socket"
            ),
            format!("4 rule 4: proxy_addr is \"proxy.example\", {never}: {expected}"),
        ]
    );
    let with_socket = "mysql_variables={interfaces=\"127.0.0.1:6033;/tmp/narrows.sock\"}\n";
    assert_eq!(warned(&format!("{with_socket}{text}")).len(), 2);
}

#[test]
fn warns_of_what_is_no_name_of_a_function() {
    let warned_of = |list: &str| {
        warned(&format!("mysql_variables={{auto_read_write_split_functions=\"{list}\"}}"))
            .into_iter()
            .map(|line| line.split('"').nth(1).unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    for names in ["", "f", "f, shop.g", "f_1,$g,größe"] {
        assert_eq!(warned_of(names), Vec::<String>::new(), "{names}");
    }
    assert_eq!(warned_of("f; g"), ["f; g"]);
    assert_eq!(warned_of("f g, h(), a.b.c, `i`, .x, ok"), ["f g", "h()", "a.b.c", "`i`", ".x"]);
}

#[test]
fn warns_of_every_way_to_a_hostgroup_without_servers() {
    let text = "mysql_query_rules=({rule_id=1 mirror_hostgroup=4})\n\
                mysql_query_rules_fast_routing=({username=\"a\" schemaname=\"s\" destination_hostgroup=0},\n\
                {username=\"b\" schemaname=\"s\" destination_hostgroup=5},\n\
                {username=\"c\" schemaname=\"s\" destination_hostgroup=5},\n\
                {username=\"d\" schemaname=\"s\" destination_hostgroup=6})\n";
    let expected = [
        "2 rule 1: mirror hostgroup 4 has no server",
        "4 mysql_query_rules_fast_routing: hostgroup 5 has no server; 2 rows lead there, the first of them for user \"b\" \
         and schema \"s\"",
        "6 mysql_query_rules_fast_routing: hostgroup 6 has no server; 1 row leads there, the first of them for user \"d\" \
         and schema \"s\"",
    ];
    assert_eq!(warned(&format!("{SERVER}{text}")), expected);
}

#[test]
fn stored_passwords_are_taken_as_they_are() {
    let native = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19";
    let [sha2, more_rounds] = ["005", "00A"].map(|rounds| format!("$A${rounds}${}", "x".repeat(63)));
    for password in [native, &sha2, &more_rounds, "plain", "$A$cheap", ""] {
        let text = format!(
            "mysql_servers=({{hostname=\"a\" hostgroup=0}})\nmysql_users=({{username=\"a\" password=\"{password}\"}})"
        );
        assert_eq!(said(&text), "");
        assert_eq!(loaded(&text).rows.users[0].password, password);
    }
}

#[test]
fn numbers_in_text_columns_stay_as_written() {
    let text = "mysql_servers=({hostname=\"a\" hostgroup=0}) mysql_users=({username=7 password=0123})";
    let users = loaded(text).rows.users;
    assert_eq!((users[0].username.as_str(), users[0].password.as_str()), ("7", "0123"));
}

#[test]
fn reports_all_errors_of_a_file_in_its_order() {
    let text = "mysql_users=({username=\"a\" active=5})\nmysql_variables={threads=\"x\" weight=1}\nmysql_servers=({port=-1})";
    let problems = read_text(text).expect_err("errors");
    let lines: Vec<u32> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 2, 3, 3, 3]);
}

#[test]
fn toml_errors_have_their_places_too() {
    let text = "[mysql_variables]\nthreads = 'x'\n\n[[mysql_servers]]\nhostname = 'a'\n  wieght = 1\n";
    assert_eq!(
        said(text),
        "test:2:11: error: threads: expected an integer from 0 to 255, found \"x\"\n\
         test:4:1: error: mysql_servers: the column `hostgroup_id` must be given\n\
         test:6:3: warning: ignored: there is no column `wieght` in mysql_servers; did you mean `weight`?\n"
    );
    let broken = said("[mysql_variables]\nthreads = \n[x\n");
    assert!(broken.contains("test:2:") && broken.contains("test:3:"), "{broken}");
}

#[test]
fn a_real_proxysql_cnf_starts_and_says_what_it_passed_over() {
    let loaded = load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/field.cnf")))
        .unwrap_or_else(|p| panic!("{}", lines(&p)));
    let said: Vec<String> =
        loaded.passed_over.iter().map(|one| format!("{}: {}", one.line, one.problem)).collect();
    assert_eq!(
        said,
        [
            "16: ignored: `version` cannot be set",
            &*format!("17: `admin-cluster_username` has no effect: {FLEET_INSTEAD}"),
            &*format!("18: `admin-cluster_password` has no effect: {FLEET_INSTEAD}"),
            "26: ignored: the variable `ping_interval_server` of older releases no longer exists",
            "39: ignored: the variable `default_sql_mode` of older releases no longer exists",
            "40: ignored: there is no variable `monitor_timeout` in mysql_variables",
            "41: ignored: there is no variable `max_conections` in mysql_variables; did you mean `max_connections`?",
            "48: ignored: there is no column `max_conn` in mysql_servers",
            &*format!("96: `proxysql_servers` has no effect: {FLEET_INSTEAD}"),
            "98: ignored: there is no section or key `mysql_user`; did you mean `mysql_users`?",
            "99: ignored: there is no section or key `house_keeping`",
        ]
    );
    let warned = lines(&loaded.warnings);
    let accounts = [("admin_credentials", "admin"), ("stats_credentials", "stats")];
    assert_eq!(warned.lines().count(), accounts.len(), "{warned}");
    for (line, (name, account)) in warned.lines().zip(accounts) {
        let known = format!("13:15: warning: {name}: everybody knows the password of {account:?}");
        assert!(line.contains(&known), "{line}");
    }
    assert!(!loaded.rows.replication_hostgroups.is_empty());
    assert_eq!((loaded.rows.servers.len(), loaded.rows.users.len(), loaded.rows.rules.len()), (3, 2, 3));
    assert_eq!(loaded.rows.rules[2].match_pattern.as_deref(), Some(r"\bFROM\s+archive_\d+"));
}

#[test]
fn the_smaller_tables_are_read() {
    let text = "[[mysql_query_rules_fast_routing]]\nusername = 'a'\nschemaname = 's'\ndestination_hostgroup = 3\n\
                [[mysql_firewall_whitelist_users]]\nusername = 'a'\nclient_address = ''\nmode = 'protecting'\n\
                [[mysql_firewall_whitelist_rules]]\nusername = 'a'\nclient_address = ''\nschemaname = 's'\ndigest = '0x1'\n\
                [[mysql_firewall_whitelist_sqli_fingerprints]]\nfingerprint = 'x'\n";
    let rows = read(Path::new("test"), text, &|_| Err(String::new()))
        .unwrap_or_else(|p| panic!("{}", lines(&p)))
        .rows;
    assert_eq!(rows.fast_routing[0].destination_hostgroup.0, 3);
    assert_eq!(rows.firewall_users[0].mode, narrows_proxy::snapshot::FirewallMode::Protecting);
    assert!(rows.firewall_rules[0].active && rows.firewall_fingerprints[0].active);
}

#[test]
fn the_examples_start_and_say_the_same_in_both_syntaxes() {
    let example = |name: &str| {
        let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let loaded = load(Path::new(&path)).unwrap_or_else(|problems| panic!("{}", lines(&problems)));
        assert!(loaded.passed_over.is_empty() && loaded.warnings.is_empty(), "{name}");
        loaded
    };
    for (cnf, toml) in [("proxysql.cnf", "narrows.toml"), ("minimal.cnf", "minimal.toml")] {
        let (cnf, toml) = (example(cnf), example(toml));
        assert_eq!(cnf.rows, toml.rows);
        assert_eq!(cnf.variables, toml.variables);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let problems = load(Path::new("/nonexistent/narrows.toml")).expect_err("no such file");
    assert_eq!(
        lines(&problems),
        "/nonexistent/narrows.toml: error: cannot be read: No such file or directory (os error 2)\n"
    );
}

/// Changed, removed, doubled and inserted bytes must give some answer, without a panic.
#[test]
fn any_bytes_give_an_answer() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let seed = 20_260_101;
    let mut random = StdRng::seed_from_u64(seed);
    const INTERESTING: &[u8] = b"\"'\\{}()[]=:;,.#/*\n\r\0@xX0-+L_e\xff\xc3";
    for round in 0..4_000 {
        let original = if round % 2 == 0 { MINIMAL } else { MINIMAL_TOML };
        let mut bytes = original.as_bytes().to_vec();
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..bytes.len());
            let interesting = INTERESTING[random.random_range(0..INTERESTING.len())];
            match random.random_range(0..5) {
                0 => bytes[at] = random.random(),
                1 => bytes[at] = interesting,
                2 => bytes.insert(at, interesting),
                3 => bytes.truncate(at + 1),
                _ => {
                    let end = random.random_range(at..bytes.len().min(at + 40));
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let _ = read_untrusted(&bytes);
    }
}

#[test]
fn depth_and_size_give_an_answer() {
    let deep = [
        format!("a={}", "[".repeat(200_000)),
        format!("a={}", "{a=".repeat(200_000)),
        format!("[{}a]", "a.".repeat(200_000)),
        format!("{}a = 1\n[x]", "'a'.".repeat(200_000)),
        "[[a]]\n".repeat(50_000),
    ];
    for text in deep {
        let _ = read_untrusted(text.as_bytes());
    }
}

mod warnings;
