//! Warnings of settings that do nothing, and of files that are named and are not there.

use super::*;

/// What `narrows check` reports: the line and the message.
fn examined(text: &str) -> Vec<String> {
    let diagnostics = examine(Path::new("test"), text).diagnostics;
    diagnostics.iter().map(|one| format!("{} {}", one.line, one.problem)).collect()
}

const ACCOUNT: &str = "mysql_users=({username=\"app\"})\n";

#[test]
fn warns_of_a_file_without_servers_or_accounts() {
    let (servers, users) = (
        "0 mysql_servers has no rows: statements have nowhere to go",
        "0 mysql_users has no active rows: no client can log in",
    );
    assert_eq!(examined(""), [servers, users]);
    assert_eq!(examined("mysql_users=({username=\"a\" active=0})"), [servers, users]);
    assert_eq!(examined(SERVER), [users]);
    // The missing servers are reported once, and not for each account.
    assert_eq!(examined(ACCOUNT), [servers]);
    assert!(examined(&format!("{SERVER}{ACCOUNT}")).is_empty());
}

#[test]
fn warns_of_pairs_that_cannot_be_stored() {
    let pairs = "mysql_replication_hostgroups=({writer_hostgroup=0 reader_hostgroup=0},\n\
                 {writer_hostgroup=0 reader_hostgroup=1 comment=\"\"},\n\
                 {writer_hostgroup=2 reader_hostgroup=1},\n\
                 {writer_hostgroup=7 reader_hostgroup=8})\n";
    let expected = [
        "2 mysql_replication_hostgroups writer_hostgroup=0: left out: reader_hostgroup must differ from writer_hostgroup",
        "3 mysql_replication_hostgroups: duplicate writer hostgroup 0; first in line 2",
        "4 mysql_replication_hostgroups: replaces the row in line 3, which has reader_hostgroup 1 too",
        "5 mysql_replication_hostgroups writer_hostgroup=7 has no effect: neither of its hostgroups has a server",
    ];
    assert_eq!(examined(&format!("{SERVER}{pairs}{ACCOUNT}")), expected);
}

#[test]
fn warns_of_rules_that_are_never_evaluated() {
    let rules = "mysql_query_rules=({rule_id=9 match_digest=\"a\" apply=1},\n\
                 {rule_id=1 match_digest=\"b\" flagOUT=4},\n\
                 {rule_id=2 destination_hostgroup=0 apply=1},\n\
                 {rule_id=3 flagIN=4 match_digest=\"c\"},\n\
                 {rule_id=4 flagIN=5 match_digest=\"d\"},\n\
                 {rule_id=5 flagIN=4 username=\"\" flagOUT=0},\n\
                 {rule_id=6 flagIN=4 apply=1},\n\
                 {rule_id=7 active=0 apply=1})\n\
                 mysql_query_rules_fast_routing=({username=\"a\" schemaname=\"s\" flagIN=6 destination_hostgroup=0},\
                 {username=\"b\" schemaname=\"s\" flagIN=6 destination_hostgroup=0})\n";
    let shadowed = |rule: i64, by: i64| {
        format!(
            "rule {rule} is never evaluated: rule {by} before it has no condition, and is the last one of its chain"
        )
    };
    assert_eq!(
        warned(&format!("{SERVER}{rules}")),
        [
            format!("2 {}", shadowed(9, 2)),
            "6 rule 4 is never evaluated: its flagIN is 5, and no active rule leads there".to_owned(),
            format!("8 {}", shadowed(6, 5)),
            "10 mysql_query_rules_fast_routing (2 rows with flagIN 6) has no effect: no active rule leads to that chain"
                .to_owned(),
        ]
    );
}

#[test]
fn rules_of_a_dry_run_and_those_for_a_share_of_clients_hide_no_rule_in_force() {
    let rules = "mysql_query_rules=({rule_id=1 active=2 apply=1},\n\
                 {rule_id=2 flagOUT=4 attributes=\"{\\\"share\\\":5}\"},\n\
                 {rule_id=3 active=2 flagIN=4 match_digest=\"a\"},\n\
                 {rule_id=4 match_digest=\"b\" attributes=\"{\\\"share\\\":101}\"},\n\
                 {rule_id=5 active=2 flagOUT=9},\n\
                 {rule_id=6 match_digest=\"c\" apply=1})\n";
    assert_eq!(
        warned(&format!("{SERVER}{rules}")),
        [
            "3 rule 2: flagOUT is 4, but no active rule has that flagIN",
            "5 rule 4: attributes `share` is 101: expected a number from 0 to 100; the rule applies to no client",
            "6 rule 5 is never evaluated: rule 1 before it has no condition, and is the last one of its chain",
            "6 rule 5: flagOUT is 9, but no active rule has that flagIN",
        ]
    );
}

#[test]
fn warns_of_conditions_and_settings_of_rules_that_do_nothing() {
    let text = "mysql_variables={interfaces=\"127.0.0.1:6033;127.0.0.1:6034\" eventslog_default_log=1}\n\
                mysql_users=({username=\"app\"},{username=\"off\" active=0})\n\
                mysql_query_rules=({rule_id=1 username=\"ap\"},\n\
                {rule_id=2 username=\"off\"},\n\
                {rule_id=3 username=\"app\" proxy_port=6035},\n\
                {rule_id=4 proxy_port=6034 negate_match_pattern=1},\n\
                {rule_id=5 log=1},\n\
                {rule_id=6 log=0 match_digest=\"a\" negate_match_pattern=1})\n";
    let never = "which no client meets, so the rule never matches";
    assert_eq!(
        warned(&format!("{SERVER}{text}")),
        [
            "2 mysql-eventslog_default_log has no effect: the query log has no file (mysql-eventslog_filename), no other output, and no buffer".to_owned(),
            format!("4 rule 1: username is \"ap\", {never}: mysql_users has no such active account"),
            format!("5 rule 2: username is \"off\", {never}: mysql_users has no such active account"),
            format!("6 rule 3: proxy_port is \"6035\", {never}: no address of mysql-interfaces has this port"),
            "7 rule 4: negate_match_pattern has no effect: the rule has neither match_digest nor match_pattern"
                .to_owned(),
            "8 rule 5: log has no effect: the query log has no file (mysql-eventslog_filename), no other output, and no buffer".to_owned(),
        ]
    );
}

#[test]
fn warns_of_settings_of_what_is_not_there_or_is_off() {
    let text = "mysql_variables={have_ssl=false monitor_enabled=false}\n\
                mysql_servers=({hostname=\"a\" hostgroup=0 max_replication_lag=5 max_latency_ms=9})\n\
                mysql_users=({username=\"app\" use_ssl=1})\n\
                mysql_hostgroup_attributes=({hostgroup_id=0},{hostgroup_id=3})\n\
                mysql_replication_hostgroups=({writer_hostgroup=0 reader_hostgroup=1})\n\
                mysql_servers_ssl_params=({hostname=\"a\"},{hostname=\"b\"})\n\
                mysql_firewall_whitelist_users=({username=\"app\" client_address=\"\"})\n\
                mysql_firewall_whitelist_rules=({username=\"app\" client_address=\"\" schemaname=\"\" digest=\"0x1\" active=0})\n";
    let off = "has no effect: mysql-monitor_enabled is false";
    assert_eq!(
        warned(text),
        [
            format!("2 server a:3306: max_replication_lag {off}"),
            format!("2 server a:3306: max_latency_ms {off}"),
            "3 user \"app\": no client can log in: use_ssl is set, and mysql-have_ssl is false".to_owned(),
            "4 mysql_hostgroup_attributes hostgroup_id=3 has no effect: the hostgroup has no server"
                .to_owned(),
            format!("5 following changes of read_only with mysql_replication_hostgroups {off}"),
            "6 mysql_servers_ssl_params a:3306 has no effect: use_ssl of the server is 0".to_owned(),
            "6 mysql_servers_ssl_params b:3306 has no effect: mysql_servers has no such server".to_owned(),
            "7 mysql_firewall_whitelist_users has no effect: mysql-firewall_whitelist_enabled is false"
                .to_owned(),
        ]
    );
    let on = "mysql_variables={firewall_whitelist_enabled=true}\n\
              mysql_servers=({hostname=\"a\" hostgroup=0 max_replication_lag=5 use_ssl=1})\n\
              mysql_users=({username=\"app\" use_ssl=1})\n\
              mysql_servers_ssl_params=({hostname=\"a\"})\n\
              mysql_firewall_whitelist_users=({username=\"app\" client_address=\"\"})\n";
    assert_eq!(warned(on), Vec::<String>::new());
}

#[test]
fn warns_of_files_and_folders_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().display();
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    let text = |datadir: &str| {
        format!(
            "datadir=\"{datadir}\"\nerrorlog=\"no/narrows.log\"\npidfile=\"/nonexistent/pid\"\n\
             mysql_variables={{ssl_p2s_ca=\"{there}/ca.pem\"\neventslog_filename=\"/nonexistent/log\"}}\n{SERVER}{ACCOUNT}\
             mysql_servers_ssl_params=({{hostname=\"a\" ssl_ca=\"{there}/empty.pem\"}})\n"
        )
    };
    let reach = "servers with use_ssl cannot be reached by it";
    let mut expected = vec![
        format!("2 errorlog: {there}/no/narrows.log: its folder: it is not there"),
        "3 pidfile: /nonexistent/pid: its folder: it is not there".to_owned(),
        format!("4 mysql-ssl_p2s_ca: {there}/ca.pem: No such file or directory (os error 2); {reach}"),
        "5 mysql-eventslog_filename: /nonexistent/log: its folder: it is not there".to_owned(),
        "8 mysql_servers_ssl_params a:3306 has no effect: use_ssl of the server is 0".to_owned(),
        format!("8 mysql_servers_ssl_params a:3306: {there}/empty.pem: no certificate in it; {reach}"),
    ];
    assert_eq!(examined(&text(&there.to_string())), expected);
    // Without its data folder, nothing is known about a relative path.
    expected[0] = "1 datadir: /nonexistent/data: it is not there".to_owned();
    assert_eq!(examined(&text("/nonexistent/data")), expected);
    let file = format!("datadir=\"{there}/empty.pem\"\n{SERVER}{ACCOUNT}");
    assert_eq!(examined(&file), [format!("1 datadir: {there}/empty.pem: it is not a folder")]);
    // A start reports them when it opens them.
    assert_eq!(warned(&file), Vec::<String>::new());
}

#[test]
fn every_problem_that_names_a_setting_says_which() {
    let subject = |text: &str| {
        let diagnostics = examine(Path::new("test"), &format!("{SERVER}{ACCOUNT}{text}")).diagnostics;
        diagnostics.first().and_then(|one| one.problem.subject()).unwrap_or_default()
    };
    assert_eq!(subject("mysql_variables={threads=1000}"), "threads");
    assert_eq!(subject("mysql_variables={thread=1}"), "mysql_variables.thread");
    assert_eq!(subject("mysql_query_rules=({rule_id=3 destination_hostgroup=7})"), "rule 3");
    assert_eq!(
        subject("mysql_hostgroup_attributes=({hostgroup_id=4})"),
        "mysql_hostgroup_attributes hostgroup_id=4"
    );
    assert_eq!(subject("datadir=\"/nonexistent\""), "datadir");
}

#[test]
fn a_hostgroup_that_two_rows_manage_is_an_error() {
    let servers = "mysql_servers=({hostname=\"a\" hostgroup=10},{hostname=\"b\" hostgroup=50})\n";
    let row = |first: i32| {
        format!(
            "{{writer_hostgroup={first} backup_writer_hostgroup={} reader_hostgroup={} offline_hostgroup={}}}",
            first + 1,
            first + 2,
            first + 3
        )
    };
    let text = format!(
        "{servers}{ACCOUNT}mysql_replication_hostgroups=({{writer_hostgroup=10 reader_hostgroup=11}})\n\
         mysql_galera_hostgroups=({},\n{})\n\
         mysql_group_replication_hostgroups=({},\n{})\n",
        row(9),
        row(50),
        row(53),
        row(70),
    );
    let expected = [
        "4 mysql_galera_hostgroups writer_hostgroup=9: hostgroup 10 belongs to the row of \
         mysql_replication_hostgroups with writer_hostgroup 10 already",
        "6 mysql_group_replication_hostgroups writer_hostgroup=53: hostgroup 53 belongs to the row of \
         mysql_galera_hostgroups with writer_hostgroup 50 already",
        "7 mysql_group_replication_hostgroups writer_hostgroup=70 has no effect: none of its hostgroups has a server",
    ];
    let found: Vec<String> = examined(&text).into_iter().filter(|it| it.contains("_hostgroups ")).collect();
    assert_eq!(found, expected);
    assert!(examine(Path::new("test"), &text).loaded.is_none(), "it is an error");
}

/// The warnings about a hostgroup with these settings, in which servers have these weights, or may get there.
fn about_preferences(variables: &str, settings: &str, servers: &[(&str, i32, u32)]) -> Vec<String> {
    let servers: Vec<String> = servers
        .iter()
        .map(|(name, hostgroup, weight)| {
            format!("{{hostname=\"{name}\" hostgroup={hostgroup} weight={weight}}}")
        })
        .collect();
    let text = format!(
        "mysql_variables={{{variables}}}\n\
         mysql_galera_hostgroups=({{writer_hostgroup=1 backup_writer_hostgroup=2 reader_hostgroup=3 offline_hostgroup=4}})\n\
         mysql_servers=({})\n\
         mysql_hostgroup_attributes=({{hostgroup_id=3 hostgroup_settings=\"{}\"}})\n",
        servers.join(","),
        settings.replace('"', "\\\""),
    );
    warned(&text)
}

/// Where the settings of [`about_preferences`] are.
const ROW: &str = "4 hostgroup 3: hostgroup_settings";

const SOME_SERVERS: [(&str, i32, u32); 3] = [("a", 3, 10), ("b", 3, 10), ("c", 1, 1)];

#[test]
fn warns_of_causal_reads_that_no_read_meets() {
    const LEVEL: &str = "attributes=\"{\\\"causal_reads\\\":\\\"session\\\"}\"";
    let general = "mysql_variables={causal_reads=\"session\"}\n\
                   mysql_servers=({hostname=\"a\" hostgroup=0},{hostname=\"b\" hostgroup=1},{hostname=\"c\" hostgroup=5})\n";
    let users =
        format!("mysql_users=({{username=\"app\" {LEVEL}}},\n{{username=\"raw\" fast_forward=1 {LEVEL}}})\n");
    let pair = "mysql_replication_hostgroups=({writer_hostgroup=0 reader_hostgroup=1})\n";
    let rules = |more: &str| format!("mysql_query_rules=({{rule_id=1 match_digest=\"a\" {LEVEL}}}{more})\n");
    let none = "has no effect: no hostgroup is the reader_hostgroup of another one";
    let raw = "4 user \"raw\": attributes `causal_reads` has no effect: the sessions of fast_forward accounts stay on one \
               connection";
    assert_eq!(
        warned(&format!("{general}{users}{}", rules(""))),
        [
            format!("1 mysql-causal_reads {none}"),
            format!("3 user \"app\": attributes `causal_reads` {none}"),
            raw.to_owned(),
            format!("5 rule 1: attributes `causal_reads` {none}"),
        ]
    );
    let more = ",\n{rule_id=2 match_digest=\"b\" gtid_from_hostgroup=7},\n{rule_id=3 match_digest=\"c\" gtid_from_hostgroup=1},\n\
                {rule_id=4 match_digest=\"d\" gtid_from_hostgroup=0 destination_hostgroup=0},\n\
                {rule_id=5 match_digest=\"e\" gtid_from_hostgroup=0 destination_hostgroup=5},\n\
                {rule_id=6 active=0 gtid_from_hostgroup=7}";
    let settings = "hostgroup_settings=\"{\\\"causal_reads\\\":\\\"user\\\"}\"";
    let settings = format!(
        "mysql_hostgroup_attributes=({{hostgroup_id=0 {settings}}},\n{{hostgroup_id=1 {settings}}},\n{{hostgroup_id=5 {settings}}})\n"
    );
    let of_no_pair = "hostgroup_settings `causal_reads` has no effect: the hostgroup is the reader_hostgroup of no other one";
    let idle = |line: u8, rule: u8, why: &str| {
        format!("{line} rule {rule}: gtid_from_hostgroup has no effect: {why}")
    };
    assert_eq!(
        warned(&format!("{general}{users}{}{pair}{settings}", rules(more))),
        [
            raw.to_owned(),
            idle(6, 2, "that hostgroup has no server"),
            idle(7, 3, "that hostgroup has readers, and what is written counts for its writer_hostgroup"),
            idle(8, 4, "it is the destination_hostgroup, whose servers have what is written there"),
            format!("12 hostgroup 0: {of_no_pair}"),
            format!("14 hostgroup 5: {of_no_pair}"),
        ]
    );
}

#[test]
fn warns_of_backups_that_cannot_be() {
    let cases: [(&str, &[String]); 5] = [
        (r#"{"backup_weight_threshold":10}"#, &[]),
        (
            r#"{"backup_weight_threshold":1}"#,
            &[format!(
                "{ROW} `backup_weight_threshold` is 1: no server has a smaller weight, other than 0, so there are no backups"
            )],
        ),
        (
            r#"{"backup_weight_threshold":11}"#,
            &[format!(
                "{ROW} `backup_weight_threshold` is 11: no server has as much weight, so all of them are backups"
            )],
        ),
        (
            r#"{"backup_weight_threshold":10,"backup_min_servers":3}"#,
            &[format!(
                "{ROW} `backup_min_servers` is 3, but only 2 of the servers are no backups: backups are always used"
            )],
        ),
        (
            r#"{"backup_availability":"status","backup_min_servers":2}"#,
            &["backup_availability", "backup_min_servers"]
                .map(|key| format!("{ROW} `{key}` has no effect without backup_weight_threshold")),
        ),
    ];
    for (settings, expected) in cases {
        assert_eq!(about_preferences("", settings, &SOME_SERVERS), expected, "{settings}");
    }
    assert_eq!(
        about_preferences("", r#"{"backup_availability":"up"}"#, &SOME_SERVERS),
        ["4 mysql_hostgroup_attributes hostgroup_id=3: left out: backup_availability is \"up\": expected \
             \"selectable\", \"status\" or \"capacity\""]
    );
}

#[test]
fn warns_of_zones_that_cannot_be() {
    let east = "zone=\"east\"";
    let cases: [(&str, &str, &[String]); 5] = [
        (east, r#"{"zones":{"a:3306":"east","b":"west","c:3306":"west"}}"#, &[]),
        ("", r#"{"zones":{"a":"east"}}"#, &[format!("{ROW} `zones` has no effect: mysql-zone is empty")]),
        (
            east,
            r#"{"zones":{"a":"east","b:3307":"west","other":"west"}}"#,
            &["b:3307", "other"]
                .map(|name| format!("{ROW} `zones` names {name:?}, which is no server of the hostgroup")),
        ),
        (
            east,
            r#"{"zones":{"a":"west"}}"#,
            &[format!("{ROW} `zones` has no server in \"east\", which is mysql-zone: none is preferred")],
        ),
        // Nodes of Galera may say in which zone they are.
        (east, "{}", &[]),
    ];
    for (variables, settings, expected) in cases {
        assert_eq!(about_preferences(variables, settings, &SOME_SERVERS), expected, "{settings}");
    }
    let elsewhere = format!("mysql_variables={{{east}}}\nmysql_servers=({{hostname=\"a\" hostgroup=3}})\n");
    let expected = "1 mysql-zone has no effect: no hostgroup_settings name the zones of servers";
    assert!(warned(&elsewhere).contains(&expected.to_owned()), "{:?}", warned(&elsewhere));
}

#[test]
fn clusters_that_nobody_writes_to_and_servers_of_two_clusters_are_told() {
    let found = |clusters: &str, servers: &str| {
        let text = format!("mysql_servers=({servers})\n{ACCOUNT}mysql_galera_hostgroups=({clusters})\n");
        let found = examined(&text).into_iter().filter(|it| it.contains("galera"));
        found.collect::<Vec<String>>().join("|")
    };
    let row = |writers: u32, more: &str| {
        let [backups, readers, offline] = [1, 2, 3].map(|more| writers + more);
        format!(
            "{{writer_hostgroup={writers} backup_writer_hostgroup={backups} reader_hostgroup={readers} \
             offline_hostgroup={offline} {more}}}"
        )
    };
    let (a, b) = ("{hostname=\"a\" hostgroup=10}", "{hostname=\"b\" hostgroup=20}");
    assert_eq!(found(&row(10, ""), a), "");
    assert!(
        found(&row(10, "max_writers=0"), a)
            .contains("max_writers is 0: no node of the cluster is ever written to")
    );
    let two = format!("{},{}", row(10, ""), row(20, ""));
    assert_eq!(found(&two, &format!("{a},{b}")), "");
    let both = format!("{a},{b},{{hostname=\"a\" hostgroup=22}}");
    let told = found(&two, &both);
    assert!(
        told.contains("server a:3306: is a node of mysql_galera_hostgroups writer_hostgroup=10"),
        "{told}"
    );
    assert!(told.contains("and of mysql_galera_hostgroups writer_hostgroup=20"), "{told}");
    // A row that is not active decides nothing.
    assert_eq!(found(&format!("{},{}", row(10, ""), row(20, "active=0")), &both), "");
}

#[test]
fn times_and_lags_of_aurora_that_do_not_go_together_are_told() {
    let servers = "mysql_servers=({hostname=\"a\" hostgroup=10})\n";
    let row = |more: &str| {
        let text = format!(
            "{servers}{ACCOUNT}mysql_aws_aurora_hostgroups=({{writer_hostgroup=10 reader_hostgroup=11 \
             domain_name=\".x.org\" {more}}})\n"
        );
        let found: Vec<String> = examined(&text).into_iter().filter(|it| it.contains("aurora")).collect();
        found.join("|")
    };
    assert_eq!(row("max_lag_ms=5000"), "");
    assert!(
        row("max_lag_ms=20").contains("no estimate is below 30: no node is read from"),
        "{}",
        row("max_lag_ms=20")
    );
    assert!(row("max_lag_ms=500").contains("a lag is only noticed every 1000 ms"));
    assert!(row("check_interval_ms=500").contains("is above check_interval_ms (500)"));
    assert!(row("domain_name=\".a b\"").contains("domain_name"), "given twice, too");
    let text = format!(
        "{servers}{ACCOUNT}mysql_aws_aurora_hostgroups=({{writer_hostgroup=10 reader_hostgroup=10 domain_name=\".x.org\"}},\
         {{writer_hostgroup=20 reader_hostgroup=21 domain_name=\".x y\"}})\n"
    );
    let found = examined(&text).join("\n");
    for part in ["its hostgroups must differ", "domain_name must be a dot and the name of a domain"] {
        assert!(found.contains(part), "{found}");
    }
}
