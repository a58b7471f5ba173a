//! The tables and top-level keys of the file, one row per column.

use narrows_proxy::rows::convert::items;
use narrows_proxy::rules::Activity;
use narrows_proxy::snapshot::{
    AuroraRow, ClusterRow, FastRoutingRow, FirewallFingerprintRow, FirewallMode, FirewallRuleRow,
    FirewallUserRow, HOSTGROUP_KEYS, HostgroupAttributesRow, HostgroupId, JsonColumn, JsonKey, RULE_KEYS,
    ReplicationHostgroupRow, RuleRow, SERVERS_DEFAULTS_KEYS, ServerRow, ServerStatus, SslParamsRow,
    TokenIssuerRow, USER_KEYS, UserRow,
};

use super::bootstrap::{Bootstrap, FleetSettings};
use super::form::Form;
use super::schema::Absent::{Is, Null, Required};
use super::schema::{Absent, Column, ColumnKind, ConfigTable, Section};
use crate::effect::{Effect, FLEET_INSTEAD};

/// Largest value of a number that the admin tables hold in a signed 32-bit column.
const MOST: i64 = i32::MAX as i64;

/// The sections of `proxysql.cnf` that this version does not read, but that are not errors.
pub const SECTIONS_NOT_READ: &[&str] = &[
    "mysql_ldap_mapping",
    "ldap_variables",
    "sqliteserver_variables",
    "clickhouse_variables",
    "clickhouse_users",
    "pgsql_variables",
    "pgsql_servers",
    "pgsql_users",
    "pgsql_query_rules",
    "sqlite3_plugin",
    "web_interface_plugin",
    "ldap_auth_plugin",
];

/// Sections that are only described by admin tables, with the tables' names.
pub const SECTIONS_STORED_ONLY: &[(&str, &str)] =
    &[("scheduler", "scheduler"), ("restapi", "restapi_routes"), ("proxysql_servers", "proxysql_servers")];

/// The sections that are lists of rows.
pub static SECTIONS: &[&dyn Section] = &[
    &SERVERS,
    &USERS,
    &TOKEN_ISSUERS,
    &RULES,
    &FAST_ROUTING,
    &REPLICATION_HOSTGROUPS,
    &GROUP_REPLICATION_HOSTGROUPS,
    &GALERA_HOSTGROUPS,
    &AURORA_HOSTGROUPS,
    &HOSTGROUP_ATTRIBUTES,
    &FIREWALL_USERS,
    &FIREWALL_RULES,
    &FIREWALL_FINGERPRINTS,
    &SSL_PARAMS,
];

/// The keys at the top of the file.
#[rustfmt::skip]
pub static BOOTSTRAP: ConfigTable<Bootstrap> = ConfigTable {
    name: "the top level",
    doc: "Keys outside of every section. The command line goes before them.",
    blank: Bootstrap::default,
    columns: &[
        text("datadir", Form::NotEmpty, Null, |b, v| b.datadir = Some(v.into()), "The data folder, for everything that Narrows writes; it must exist. If absent: `/var/lib/narrows` for a configuration file in `/etc/narrows`, otherwise `narrows-data` in the current folder, which is created."),
        text("errorlog", Form::NotEmpty, Null, |b, v| b.errorlog = Some(v.into()), "The log file, if not started with -f; relative paths start from `datadir`. If absent: standard error."),
        text("log_format", Form::OneOf(&["text", "json"]), Is("text"), |b, v| b.log_is_json = v == "json", "The form of the log: text, or one JSON object per line."),
        text("pidfile", Form::NotEmpty, Null, |b, v| b.pidfile = Some(v.into()), "File with the process id of the supervisor; relative paths start from `datadir`."),
        text("uuid", Form::NotEmpty, Null, |b: &mut Bootstrap, v| b.uuid = Some(v), "Identity of this node.").not_yet(),
        integer("restart_on_missing_heartbeats", 0, MOST, Is("10"), |b, v| b.restart_on_missing_heartbeats = to_u32(v), "Heartbeats, one every 3 seconds, that a worker process may miss before the supervisor kills it and another one takes over; 0: any number. A process that is stopped or being debugged misses none."),
        integer("drain_timeout", 0, 86_400, Is("30"), |b, v| b.drain_timeout = to_u32(v), "Seconds that clients have to leave when the process is stopped or upgraded; 0: none."),
        text("execute_on_exit_failure", Form::Any, Null, |b: &mut Bootstrap, v| b.execute_on_exit_failure = Some(v), "Program to run after the process has died.").not_yet(),
        flag("cluster_sync_interfaces", Is("false"), |b: &mut Bootstrap, v| b.cluster_sync_interfaces = v, "Whether the nodes of a cluster share listening addresses.").needless(FLEET_INSTEAD),
        column("managed", ColumnKind::Sections(|b: &mut Bootstrap, v| b.managed = v), Null, "The sections that this file owns: each start takes them from here, and nothing else changes them; see [changes.md](changes.md#who-owns-what)."),
    ],
};

/// `fleet`, which is one group and no list.
#[rustfmt::skip]
pub static FLEET: ConfigTable<FleetSettings> = ConfigTable {
    name: "fleet",
    doc: "The etcd that keeps one configuration for many Narrows; see [fleet.md](fleet.md). Without this section, a Narrows has a configuration of its own. A change takes effect after a restart.",
    blank: FleetSettings::default,
    columns: &[
        text("endpoints", Form::WebAddresses, Required, |r, v| r.endpoints = items(&v, ',').map(str::to_owned).collect(), "The addresses of all etcd servers for clients: a list, or text with commas between them."),
        text("prefix", Form::NotEmpty, Is("/narrows"), |r: &mut FleetSettings, v| v.trim_end_matches('/').clone_into(&mut r.prefix), "What all keys of the fleet begin with. Another fleet in the same etcd has another prefix."),
        text("node", Form::NodeName, Null, |r: &mut FleetSettings, v| r.node = Some(v), "The name of this Narrows in its fleet, unlike that of every other. If absent: the name of the host, `:`, and the port for administrators."),
        text("address", Form::HostAndPort, Null, |r: &mut FleetSettings, v| r.address = Some(v), "Where the other members reach the port for administrators of this Narrows, as `host:port`: they read its statistics there. If absent: where that port listens; if it listens everywhere, the address of this machine towards etcd."),
        text("username", Form::Any, Is(""), |r: &mut FleetSettings, v| r.username = v, "The user of etcd; empty: etcd asks for none."),
        text("password", Form::Secret, Is(""), |r: &mut FleetSettings, v| r.password = v, "The password of that user, or where it is kept: `env:NAME`, `file:/path` or `exec:/program arguments`, which is looked up at each login."),
        text("password_file", Form::NotEmpty, Null, |r: &mut FleetSettings, v| r.password_file = Some(v.into()), "A file with the password, which is read at each login. Relative paths of this section start from `datadir`."),
        text("tls_ca", Form::NotEmpty, Null, |r: &mut FleetSettings, v| r.tls_ca = Some(v.into()), "A PEM file with the authorities that the certificates of etcd must be signed by. It must be given if an address begins with https."),
        text("tls_cert", Form::NotEmpty, Null, |r: &mut FleetSettings, v| r.tls_cert = Some(v.into()), "A PEM file with the certificate that etcd is shown, for an etcd with `--client-cert-auth`."),
        text("tls_key", Form::NotEmpty, Null, |r: &mut FleetSettings, v| r.tls_key = Some(v.into()), "A PEM file with the key of that certificate."),
    ],
};

/// `mysql_servers`.
#[rustfmt::skip]
pub static SERVERS: ConfigTable<ServerRow> = ConfigTable {
    name: "mysql_servers",
    doc: "The servers that statements are sent to. A server may be in several hostgroups.",
    blank: || ServerRow {
        hostgroup: HostgroupId(0),
        hostname: String::new(),
        port: 0,
        gtid_port: 0,
        status: ServerStatus::Online,
        weight: 0,
        compression: false,
        max_connections: 0,
        max_replication_lag: 0,
        use_ssl: false,
        max_latency_ms: 0,
        comment: String::new(),
    },
    columns: &[
        integer("hostgroup_id", 0, MOST, Required, |r: &mut ServerRow, v| r.hostgroup = hostgroup(v), "The hostgroup of this row.").or("hostgroup"),
        text("hostname", Form::NotEmpty, Required, |r: &mut ServerRow, v| r.hostname = v, "Name or address; with port 0, the path of a Unix socket.").or("address"),
        integer("port", 0, 65_535, Is("3306"), |r, v| r.port = to_u16(v), "TCP port; 0: `hostname` is a Unix socket."),
        integer("gtid_port", 0, 65_535, Is("0"), |r: &mut ServerRow, v| r.gtid_port = to_u16(v), "Port of the GTID reader on that host; 0: none.").needless("servers report GTIDs with their answers"),
        text("status", Form::OneOf(&STATUSES), Is("ONLINE"), |r, v| r.status = status(&v), "ONLINE: in use; SHUNNED: out of use for a while; OFFLINE_SOFT: finishes what is running on it; OFFLINE_HARD: out of use at once."),
        integer("weight", 0, 10_000_000, Is("1"), |r, v| r.weight = to_u32(v), "Share of the hostgroup's statements relative to the other servers; 0: never chosen."),
        flag("compression", Is("0"), |r, v| r.compression = v, "Whether connections to it use the compressed protocol."),
        integer("max_connections", 0, MOST, Is("1000"), |r, v| r.max_connections = to_u32(v), "Most connections that the whole process opens to it."),
        integer("max_replication_lag", 0, 126_144_000, Is("0"), |r, v| r.max_replication_lag = to_u32(v), "Seconds of replication lag above which it is not used; 0: not checked."),
        flag("use_ssl", Is("0"), |r, v| r.use_ssl = v, "Whether connections to it use TLS."),
        integer("max_latency_ms", 0, MOST, Is("0"), |r, v| r.max_latency_ms = to_u32(v), "Ping time in milliseconds above which it is not used; 0: mysql-default_max_latency_ms applies."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_users`.
#[rustfmt::skip]
pub static USERS: ConfigTable<UserRow> = ConfigTable {
    name: "mysql_users",
    doc: "The accounts that clients log in with, and that Narrows logs in to servers with.",
    blank: || UserRow {
        username: String::new(),
        password: String::new(),
        active: false,
        use_ssl: false,
        default_hostgroup: HostgroupId(0),
        default_schema: String::new(),
        schema_locked: false,
        transaction_persistent: false,
        fast_forward: false,
        max_connections: 0,
        attributes: JsonColumn::default(),
        comment: String::new(),
    },
    columns: &[
        text("username", Form::Any, Required, |r, v| r.username = v, "Name of the account."),
        text("password", Form::Password, Is(""), |r, v| r.password = v, "Clear text, or the hash as a server stores it: `*` and 40 hex digits (mysql_native_password), or 70 characters that begin with `$A$` and the number of rounds (caching_sha2_password); or where one of these is kept: `env:NAME`, `file:/path` or `exec:/program arguments` (see [secrets.md](secrets.md)). Empty: no password."),
        flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
        flag("use_ssl", Is("0"), |r, v| r.use_ssl = v, "Whether the client must use TLS."),
        integer("default_hostgroup", 0, MOST, Is("0"), |r, v| r.default_hostgroup = hostgroup(v), "Hostgroup for statements that no rule sends elsewhere."),
        text("default_schema", Form::Any, Is(""), |r, v| r.default_schema = v, "Schema if the client names none; empty: mysql-default_schema."),
        flag("schema_locked", Is("0"), |r: &mut UserRow, v| r.schema_locked = v, "Whether the session stays in its schema.").needless("ProxySQL does nothing with it either"),
        flag("transaction_persistent", Is("1"), |r, v| r.transaction_persistent = v, "Whether a transaction stays on the hostgroup it began in."),
        flag("fast_forward", Is("0"), |r, v| r.fast_forward = v, "Whether all of a session's traffic is simply forwarded to one server, without rules."),
        unused("backend", "Always 1, whatever the file says."),
        unused("frontend", "Always 1, whatever the file says."),
        integer("max_connections", 0, MOST, Is("10000"), |r, v| r.max_connections = to_u32(v), "Most client connections of this account."),
        text("attributes", Form::Json, Is(""), |r: &mut UserRow, v| r.attributes = v.into(), "A JSON object of further settings, or empty.").with_keys(USER_KEYS),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `narrows_token_issuers`.
#[rustfmt::skip]
pub static TOKEN_ISSUERS: ConfigTable<TokenIssuerRow> = ConfigTable {
    name: "narrows_token_issuers",
    doc: "Whose tokens clients may log in with, and where the keys of these issuers are; see [tokens.md](tokens.md).",
    blank: TokenIssuerRow::default,
    columns: &[
        text("name", Form::NotEmpty, Required, |r: &mut TokenIssuerRow, v| r.name = v, "Its name, by which `token` in `mysql_users.attributes` refers to it."),
        flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
        text("issuer", Form::Any, Is(""), |r, v| r.issuer = v, "What the claim `iss` of its tokens must be. It may be empty for `kubernetes:` only."),
        text("jwks", Form::NotEmpty, Required, |r, v| r.jwks = v, "Where its keys are (a JWK set): `https://...` or `file:/path`; or `kubernetes:`, whose API server verifies each token (TokenReview). `http://` is only for this machine."),
        text("audience", Form::Any, Is(""), |r, v| r.audience = v, "What the claim `aud` of its tokens must be or contain. It may be empty for `kubernetes:` only, where it is that of the API server then."),
        text("username_claim", Form::NotEmpty, Is("sub"), |r, v| r.username_claim = v, "The claim that must be the name of the account, if the account asks for no others."),
        text("attributes", Form::Json, Is(""), |r: &mut TokenIssuerRow, v| r.attributes = v, "A JSON object with `algorithms` (a list; all of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA), `leeway_s` (by how much clocks may differ, 0 to 600; 60), `refresh_s` (the time between two fetches of the keys, 10 to 86400; 300), `ca` (a PEM file with the authorities that the certificate of `jwks` must be signed by; those of the system or of the pod), and for `kubernetes:` `api_server` (its address) and `token_file` (what it is asked with; both as in every pod). Or empty."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_query_rules`.
#[rustfmt::skip]
pub static RULES: ConfigTable<RuleRow> = ConfigTable {
    name: "mysql_query_rules",
    doc: "What happens to a statement. Rules are evaluated by ascending `rule_id`; a rule matches if all of its conditions hold.",
    blank: RuleRow::default,
    columns: &[
        integer("rule_id", i64::MIN, i64::MAX, Required, |r, v| r.rule_id = v, "Its position in the order of evaluation."),
        activity("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used; rows with 2 are a dry run: what they would change is only counted. (The default in the admin table is 0.)"),
        text("username", Form::Any, Null, |r, v| r.username = Some(v), "Condition: the account; empty: any."),
        text("schemaname", Form::Any, Null, |r, v| r.schemaname = Some(v), "Condition: the current schema; empty: any."),
        integer("flagIN", 0, MOST, Is("0"), |r, v| r.flag_in = to_u32(v), "Condition: the chain that the statement is in; every statement begins in chain 0."),
        text("client_addr", Form::Any, Null, |r, v| r.client_addr = Some(v), "Condition: the client's address, the beginning of it followed by `%`, or a network such as 10.0.0.0/8."),
        text("proxy_addr", Form::Any, Null, |r, v| r.proxy_addr = Some(v), "Condition: the local address that the client connected to."),
        integer("proxy_port", 0, 65_535, Null, |r, v| r.proxy_port = Some(to_u16(v)), "Condition: the local port that the client connected to."),
        text("digest", Form::Digest, Null, |r, v| r.digest = Some(v), "Condition: the digest of the statement."),
        text("match_digest", Form::Expression, Null, |r, v| r.match_digest = Some(v), "Condition: a regular expression that matches in the digest text."),
        text("match_pattern", Form::Expression, Null, |r, v| r.match_pattern = Some(v), "Condition: a regular expression that matches in the statement, as rewritten so far."),
        flag("negate_match_pattern", Is("0"), |r, v| r.negate_match_pattern = v, "Whether the two regular expressions must not match instead."),
        text("re_modifiers", Form::ListOf(&["CASELESS", "GLOBAL"]), Is("CASELESS"), |r, v| r.re_modifiers = v, "CASELESS: ignore case; GLOBAL: replace every match, not only the first."),
        integer("flagOUT", 0, MOST, Null, |r, v| r.flag_out = Some(to_u32(v)), "Action: the chain to continue with."),
        text("replace_pattern", Form::Any, Null, |r, v| r.replace_pattern = Some(v), "Action: the replacement for what match_pattern matches; `\\1` is its first group."),
        integer("destination_hostgroup", 0, MOST, Null, |r, v| r.destination_hostgroup = Some(hostgroup(v)), "Action: the hostgroup that runs the statement."),
        integer("cache_ttl", 1, MOST, Null, |r, v| r.cache_ttl = Some(to_u32(v)), "Action: milliseconds for which the result is cached."),
        flag("cache_empty_result", Null, |r, v| r.cache_empty_result = Some(v), "Action: whether an empty result is cached."),
        integer("cache_timeout", 0, MOST, Null, |r: &mut RuleRow, v| r.cache_timeout = Some(to_u32(v)), "Milliseconds to wait for a cached result.").needless("ProxySQL does nothing with it either"),
        flag("reconnect", Null, |r: &mut RuleRow, v| r.reconnect = Some(v), "Whether a lost connection is reopened.").needless("ProxySQL does nothing with it either"),
        integer("timeout", 0, MOST, Null, |r, v| r.timeout = Some(to_u32(v)), "Action: milliseconds until the statement is killed."),
        integer("retries", 0, 1_000, Null, |r, v| r.retries = Some(to_u32(v)), "Action: how often a failed statement may be run again."),
        integer("delay", 0, MOST, Null, |r, v| r.delay = Some(to_u32(v)), "Action: milliseconds to wait before the statement is run."),
        integer("next_query_flagIN", 0, MOST, Null, |r, v| r.next_query_flag_in = Some(to_u32(v)), "Action: the chain that the session's next statement begins in."),
        integer("mirror_flagOUT", 0, MOST, Null, |r, v| r.mirror_flag_out = Some(to_u32(v)), "Action: run a copy that begins in this chain."),
        integer("mirror_hostgroup", 0, MOST, Null, |r, v| r.mirror_hostgroup = Some(hostgroup(v)), "Action: run a copy in this hostgroup and discard its result."),
        text("error_msg", Form::Any, Null, |r, v| r.error_msg = Some(v), "Action: return error 1148 with this text."),
        text("OK_msg", Form::Any, Null, |r, v| r.ok_msg = Some(v), "Action: return OK with this text."),
        flag("sticky_conn", Null, |r: &mut RuleRow, v| r.sticky_conn = Some(v), "Whether the session stays on the connection.").needless("ProxySQL does nothing with it either"),
        integer("multiplex", 0, 2, Null, |r, v| r.multiplex = Some(to_u8(v)), "Action: 0 turns multiplexing off; 1 turns it on; 2 leaves it on for this statement, whatever it contains."),
        integer("gtid_from_hostgroup", 0, MOST, Null, |r: &mut RuleRow, v| r.gtid_from_hostgroup = Some(hostgroup(v)), "Action: the statement must see what its session has written in this hostgroup; see docs/causal-reads.md."),
        flag("log", Null, |r, v| r.log = Some(v), "Action: whether the statement is written to the query log."),
        flag("apply", Is("0"), |r, v| r.apply = v, "Whether later rules are skipped if this one matches."),
        text("attributes", Form::Json, Is(""), |r: &mut RuleRow, v| r.attributes = v.into(), "A JSON object of further settings, or empty.").with_keys(RULE_KEYS),
        text("comment", Form::Any, Null, |r, v| r.comment = Some(v), "Free text."),
    ],
};

/// `mysql_servers_ssl_params`.
#[rustfmt::skip]
pub static SSL_PARAMS: ConfigTable<SslParamsRow> = ConfigTable {
    name: "mysql_servers_ssl_params",
    doc: "TLS files and ciphers for connections to individual servers, in place of mysql-ssl_p2s_*: for one user, or for all that have no row of their own.",
    blank: SslParamsRow::default,
    columns: &[
        text("hostname", Form::NotEmpty, Required, |r, v| r.hostname = v, "The server, as in mysql_servers."),
        integer("port", 0, 65_535, Is("3306"), |r, v| r.port = to_u16(v), "Its port."),
        text("username", Form::Any, Is(""), |r, v| r.username = v, "The user that connects; empty: all other users."),
        text("ssl_ca", Form::Any, Is(""), |r, v| r.ssl_ca = v, "File of the CA certificates that its certificate is verified against, including the host name. Without it, the certificate is not verified."),
        text("ssl_cert", Form::Any, Is(""), |r, v| r.ssl_cert = v, "File of the client certificate presented to it."),
        text("ssl_key", Form::Any, Is(""), |r, v| r.ssl_key = v, "File of that certificate's private key."),
        text("ssl_capath", Form::Any, Is(""), |r, v| r.ssl_capath = v, "Folder of files of CA certificates."),
        text("ssl_crl", Form::Any, Is(""), |r, v| r.ssl_crl = v, "File of certificate revocation lists."),
        text("ssl_crlpath", Form::Any, Is(""), |r, v| r.ssl_crlpath = v, "Folder of such files."),
        text("ssl_cipher", Form::Any, Is(""), |r, v| r.ssl_cipher = v, "Ciphers by their OpenSSL names, separated by `:`; empty: all."),
        text("tls_version", Form::Any, Is(""), |r, v| r.tls_version = v, "TLS versions separated by commas: TLSv1.2, TLSv1.3; empty: both."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_query_rules_fast_routing`.
#[rustfmt::skip]
pub static FAST_ROUTING: ConfigTable<FastRoutingRow> = ConfigTable {
    name: "mysql_query_rules_fast_routing",
    doc: "Where statements go by user and schema alone. Consulted after the rules, unless the last one that was evaluated has `apply`; a row for the user takes precedence over one for any user.",
    blank: FastRoutingRow::default,
    columns: &[
        text("username", Form::Any, Required, |r, v| r.username = v, "The account; empty: any."),
        text("schemaname", Form::Any, Required, |r, v| r.schemaname = v, "The current schema."),
        integer("flagIN", 0, MOST, Is("0"), |r, v| r.flag_in = to_u32(v), "The chain that the rules have led to."),
        integer("destination_hostgroup", 0, MOST, Required, |r, v| r.destination_hostgroup = hostgroup(v), "The hostgroup that runs the statement."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_replication_hostgroups`.
#[rustfmt::skip]
pub static REPLICATION_HOSTGROUPS: ConfigTable<ReplicationHostgroupRow> = ConfigTable {
    name: "mysql_replication_hostgroups",
    doc: "Pairs of hostgroups: servers that are written to, and their replicas.",
    blank: || ReplicationHostgroupRow {
        writer_hostgroup: HostgroupId(0),
        reader_hostgroup: HostgroupId(0),
        check_type: String::new(),
        comment: String::new(),
    },
    columns: &[
        integer("writer_hostgroup", 0, MOST, Required, |r, v| r.writer_hostgroup = hostgroup(v), "Servers that may be written to."),
        integer("reader_hostgroup", 0, MOST, Required, |r, v| r.reader_hostgroup = hostgroup(v), "Servers that are read from; mysql-auto_read_write_split sends reads here."),
        text("check_type", Form::OneOf(CHECK_TYPES), Is("read_only"), |r, v| r.check_type = v, "The server variables by which the monitor recognises writers and readers."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_galera_hostgroups`.
pub static GALERA_HOSTGROUPS: ConfigTable<ClusterRow> = ConfigTable {
    name: "mysql_galera_hostgroups",
    doc: "Galera clusters, of MariaDB and Percona: the monitor puts each node of these hostgroups in the one of its role.",
    blank: ClusterRow::default,
    columns: CLUSTER_COLUMNS,
};

/// `mysql_group_replication_hostgroups`.
pub static GROUP_REPLICATION_HOSTGROUPS: ConfigTable<ClusterRow> = ConfigTable {
    name: "mysql_group_replication_hostgroups",
    doc: "Group Replication and InnoDB clusters of MySQL: the monitor puts each member of these hostgroups in the one of its role.",
    blank: ClusterRow::default,
    columns: CLUSTER_COLUMNS,
};

/// The columns of tables of clusters.
#[rustfmt::skip]
const CLUSTER_COLUMNS: &[Column<ClusterRow>] = &[
    integer("writer_hostgroup", 0, MOST, Required, |r, v| r.writer_hostgroup = hostgroup(v), "The nodes that are written to."),
    integer("backup_writer_hostgroup", 0, MOST, Required, |r, v| r.backup_writer_hostgroup = hostgroup(v), "The nodes that could be written to, but are more than max_writers."),
    integer("reader_hostgroup", 1, MOST, Required, |r, v| r.reader_hostgroup = hostgroup(v), "The nodes that are read-only; mysql-auto_read_write_split sends reads here."),
    integer("offline_hostgroup", 0, MOST, Required, |r, v| r.offline_hostgroup = hostgroup(v), "The nodes that get no statements."),
    flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
    integer("max_writers", 0, MOST, Is("1"), |r, v| r.max_writers = to_u32(v), "How many nodes are written to at a time. By weight, then by name; a writer keeps its role."),
    integer("writer_is_also_reader", 0, 2, Is("0"), |r, v| r.writer_is_also_reader = to_u8(v), "0: the reader hostgroup has only read-only nodes; 1: also those that can be written to; 2: also the backup writers."),
    integer("max_transactions_behind", 0, MOST, Is("0"), |r, v| r.max_transactions_behind = to_u32(v), "How many transactions a node may have to catch up with before it gets no reads; 0: any number."),
    text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
];

/// `mysql_aws_aurora_hostgroups`.
#[rustfmt::skip]
pub static AURORA_HOSTGROUPS: ConfigTable<AuroraRow> = ConfigTable {
    name: "mysql_aws_aurora_hostgroups",
    doc: "Aurora clusters of MySQL: the monitor puts the writer in one hostgroup and the readers in the other, and finds new ones.",
    blank: || AuroraRow { cluster: ClusterRow { max_writers: 1, ..ClusterRow::default() }, ..AuroraRow::default() },
    columns: &[
        integer("writer_hostgroup", 0, MOST, Required, |r, v| r.cluster.writer_hostgroup = hostgroup(v), "The node that is written to."),
        integer("reader_hostgroup", 1, MOST, Required, aurora_readers, "The nodes that are read from; mysql-auto_read_write_split sends reads here."),
        flag("active", Is("1"), |r: &mut AuroraRow, v| r.cluster.active = v, "Rows with 0 are kept, but not used."),
        integer("aurora_port", 0, 65_535, Is("3306"), |r: &mut AuroraRow, v| r.aurora_port = to_u16(v), "The port of nodes that are found."),
        text("domain_name", Form::NotEmpty, Required, |r: &mut AuroraRow, v| r.domain_name = v, "What follows a node's SERVER_ID in its host name; begins with a dot."),
        integer("max_lag_ms", 10, 600_000, Is("600000"), |r: &mut AuroraRow, v| r.max_lag_ms = to_u32(v), "Milliseconds of estimated lag above which a node is not read from."),
        integer("check_interval_ms", 100, 600_000, Is("1000"), |r: &mut AuroraRow, v| r.check_interval_ms = to_u32(v), "Milliseconds between two checks of a node."),
        integer("check_timeout_ms", 80, 3_000, Is("1000"), |r: &mut AuroraRow, v| r.check_timeout_ms = to_u32(v), "Milliseconds that a node has to answer a check. (The default in the admin table is 800.)"),
        integer("writer_is_also_reader", 0, 1, Is("0"), |r: &mut AuroraRow, v| r.cluster.writer_is_also_reader = to_u8(v), "Whether the writer is read from, too."),
        integer("new_reader_weight", 0, 10_000_000, Is("1"), |r: &mut AuroraRow, v| r.new_reader_weight = to_u32(v), "The weight of nodes that are found."),
        integer("add_lag_ms", 0, 600_000, Is("30"), |r: &mut AuroraRow, v| r.add_lag_ms = to_u32(v), "Milliseconds that are added to the lag that a node reports."),
        integer("min_lag_ms", 0, 600_000, Is("30"), |r: &mut AuroraRow, v| r.min_lag_ms = to_u32(v), "The smallest estimate of a lag, in milliseconds."),
        integer("lag_num_checks", 1, 16, Is("1"), |r: &mut AuroraRow, v| r.lag_num_checks = to_u32(v), "How many of the last reports an estimate is the greatest of."),
        text("comment", Form::Any, Is(""), |r: &mut AuroraRow, v| r.cluster.comment = v, "Free text."),
    ],
};

/// The hostgroup for readers, which is also for nodes that get no statements: there is no other one.
fn aurora_readers(row: &mut AuroraRow, value: i64) {
    let readers = hostgroup(value);
    let cluster = &mut row.cluster;
    (cluster.reader_hostgroup, cluster.backup_writer_hostgroup, cluster.offline_hostgroup) =
        (readers, readers, readers);
}

/// `mysql_hostgroup_attributes`.
#[rustfmt::skip]
pub static HOSTGROUP_ATTRIBUTES: ConfigTable<HostgroupAttributesRow> = ConfigTable {
    name: "mysql_hostgroup_attributes",
    doc: "Settings of individual hostgroups. For a hostgroup with a row, all columns replace the variables of the same names, including those that are absent.",
    blank: || HostgroupAttributesRow {
        hostgroup: HostgroupId(0),
        max_num_online_servers: 0,
        autocommit: 0,
        free_connections_pct: 0,
        init_connect: String::new(),
        multiplex: false,
        connection_warming: false,
        throttle_connections_per_sec: 0,
        ignore_session_variables: String::new(),
        hostgroup_settings: JsonColumn::default(),
        servers_defaults: JsonColumn::default(),
        comment: String::new(),
    },
    columns: &[
        integer("hostgroup_id", 0, MOST, Required, |r: &mut HostgroupAttributesRow, v| r.hostgroup = hostgroup(v), "The hostgroup.").or("hostgroup"),
        integer("max_num_online_servers", 0, 1_000_000, Is("1000000"), |r, v| r.max_num_online_servers = to_u32(v), "While more servers than this are ONLINE, none is used, and running statements are cut off."),
        integer("autocommit", -1, 1, Is("-1"), |r: &mut HostgroupAttributesRow, v| r.autocommit = i32::try_from(v).unwrap_or(-1), "The value of autocommit on its connections.").needless("ProxySQL does nothing with it either"),
        integer("free_connections_pct", 0, 100, Is("10"), |r, v| r.free_connections_pct = to_u32(v), "Most idle connections kept per server, in percent of its max_connections."),
        text("init_connect", Form::Any, Is(""), |r, v| r.init_connect = v, "Statements that are run on every new connection; empty: none."),
        flag("multiplex", Is("1"), |r, v| r.multiplex = v, "Whether connections return to the pool after each statement."),
        flag("connection_warming", Is("0"), |r, v| r.connection_warming = v, "Whether connections are opened before they are needed, up to free_connections_pct."),
        integer("throttle_connections_per_sec", 1, 1_000_000, Is("1000000"), |r, v| r.throttle_connections_per_sec = to_u32(v), "Most connections that are opened per second."),
        text("ignore_session_variables", Form::Json, Is(""), |r: &mut HostgroupAttributesRow, v| r.ignore_session_variables = v, "Session variables whose changes are not tracked.").needless("ProxySQL does nothing with it either"),
        text("hostgroup_settings", Form::Json, Is(""), |r: &mut HostgroupAttributesRow, v| r.hostgroup_settings = v.into(), "JSON: `balance` is \"least_outstanding\" (servers take turns by weight, but one that is far busier or slower than others gives up its turns) or \"weighted_random\"; `monitor_slave_lag_when_null` and `handle_warnings` (0 or 1) override the variables of the same names; servers with less weight than `backup_weight_threshold` are backups, which are used while fewer than `backup_min_servers` (1) of the others can serve, as `backup_availability` (\"selectable\", \"status\" or \"capacity\") understands it; at most `max_waiting` clients with `max_waiting_bytes` bytes of statements wait for a server, each for up to `max_waiting_ms` instead of mysql-connect_timeout_server_max; `causal_reads` overrides the variable of that name; `zones` names the zones of servers, such as {\"db1:3306\": \"east\"}. See docs/balancing.md.").with_keys(HOSTGROUP_KEYS),
        text("servers_defaults", Form::Json, Is(""), |r: &mut HostgroupAttributesRow, v| r.servers_defaults = v.into(), "JSON: `weight`, `max_connections` and `use_ssl` of servers that the monitor finds for this hostgroup. What is absent is that of a server that is configured; the weight is 1.").with_keys(SERVERS_DEFAULTS_KEYS),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// The values of `mysql_replication_hostgroups.check_type`.
const CHECK_TYPES: &[&str] = &[
    "read_only",
    "innodb_read_only",
    "super_read_only",
    "read_only|innodb_read_only",
    "read_only&innodb_read_only",
];

/// `mysql_firewall_whitelist_users`.
#[rustfmt::skip]
pub static FIREWALL_USERS: ConfigTable<FirewallUserRow> = ConfigTable {
    name: "mysql_firewall_whitelist_users",
    doc: "What the firewall does with an account's statements if mysql-firewall_whitelist_enabled is on. Every statement of an account without a row is refused.",
    blank: FirewallUserRow::default,
    columns: &[
        flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
        text("username", Form::Any, Required, |r, v| r.username = v, "The account."),
        text("client_address", Form::Any, Required, |r, v| r.client_address = v, "The client's address; empty: any."),
        text("mode", Form::OneOf(&["OFF", "DETECTING", "PROTECTING"]), Is("OFF"), |r, v| r.mode = firewall_mode(&v), "OFF: every statement passes; DETECTING: statements that are not in the whitelist pass, and are counted and logged; PROTECTING: they are refused."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_firewall_whitelist_rules`.
#[rustfmt::skip]
pub static FIREWALL_RULES: ConfigTable<FirewallRuleRow> = ConfigTable {
    name: "mysql_firewall_whitelist_rules",
    doc: "The statements that the firewall lets through.",
    blank: FirewallRuleRow::default,
    columns: &[
        flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
        text("username", Form::Any, Required, |r, v| r.username = v, "The account."),
        text("client_address", Form::Any, Required, |r, v| r.client_address = v, "The client's address; empty: any."),
        text("schemaname", Form::Any, Required, |r, v| r.schemaname = v, "The current schema."),
        integer("flagIN", 0, MOST, Is("0"), |r, v| r.flag_in = to_u32(v), "The chain that the rules have led to."),
        text("digest", Form::Digest, Required, |r, v| r.digest = v, "The digest of the statement."),
        text("comment", Form::Any, Is(""), |r, v| r.comment = v, "Free text."),
    ],
};

/// `mysql_firewall_whitelist_sqli_fingerprints`.
#[rustfmt::skip]
pub static FIREWALL_FINGERPRINTS: ConfigTable<FirewallFingerprintRow> = ConfigTable {
    name: "mysql_firewall_whitelist_sqli_fingerprints",
    doc: "Fingerprints of statements that are not regarded as SQL injection.",
    blank: FirewallFingerprintRow::default,
    columns: &[
        flag("active", Is("1"), |r, v| r.active = v, "Rows with 0 are kept, but not used."),
        text("fingerprint", Form::Any, Required, |r, v| r.fingerprint = v, "The fingerprint."),
    ],
};

const fn integer<R>(
    name: &'static str,
    min: i64,
    max: i64,
    absent: Absent,
    set: fn(&mut R, i64),
    doc: &'static str,
) -> Column<R> {
    column(name, ColumnKind::Integer { min, max, set }, absent, doc)
}

const fn flag<R>(name: &'static str, absent: Absent, set: fn(&mut R, bool), doc: &'static str) -> Column<R> {
    column(name, ColumnKind::Flag(set), absent, doc)
}

const fn activity<R>(
    name: &'static str,
    absent: Absent,
    set: fn(&mut R, Activity),
    doc: &'static str,
) -> Column<R> {
    column(name, ColumnKind::Activity(set), absent, doc)
}

const fn text<R>(
    name: &'static str,
    form: Form,
    absent: Absent,
    set: fn(&mut R, String),
    doc: &'static str,
) -> Column<R> {
    column(name, ColumnKind::Text(form, set), absent, doc)
}

const fn unused<R>(name: &'static str, doc: &'static str) -> Column<R> {
    column(name, ColumnKind::Unused, Is("1"), doc)
        .needless("every account in a file is for clients and for servers")
}

const fn column<R>(name: &'static str, kind: ColumnKind<R>, absent: Absent, doc: &'static str) -> Column<R> {
    Column { name, alias: None, kind, absent, effect: Effect::Acts, keys: None, doc }
}

impl<R> Column<R> {
    /// Gives the column a second name.
    const fn or(mut self, alias: &'static str) -> Column<R> {
        self.alias = Some(alias);
        self
    }

    /// Marks the column as without effect in this version.
    const fn not_yet(mut self) -> Column<R> {
        self.effect = Effect::NotYet;
        self
    }

    /// Marks the column as without effect, because there is nothing for it to do.
    const fn needless(mut self, why: &'static str) -> Column<R> {
        self.effect = Effect::Needless(why);
        self
    }

    /// Marks the column as a JSON object from which these keys are read.
    const fn with_keys(mut self, keys: &'static [JsonKey]) -> Column<R> {
        self.keys = Some(keys);
        self
    }
}

/// The states that an operator may set for a server, by name.
const STATUSES: [&str; 4] = {
    let [one, two, three, four] = CONFIGURABLE;
    [one.name(), two.name(), three.name(), four.name()]
};

const CONFIGURABLE: [ServerStatus; 4] =
    [ServerStatus::Online, ServerStatus::Shunned, ServerStatus::OfflineSoft, ServerStatus::OfflineHard];

fn status(name: &str) -> ServerStatus {
    CONFIGURABLE.into_iter().find(|status| status.name() == name).unwrap_or(ServerStatus::Online)
}

fn firewall_mode(name: &str) -> FirewallMode {
    match name {
        "DETECTING" => FirewallMode::Detecting,
        "PROTECTING" => FirewallMode::Protecting,
        _ => FirewallMode::Off,
    }
}

fn hostgroup(value: i64) -> HostgroupId {
    HostgroupId(i32::try_from(value).expect(RANGE_CHECKED))
}

fn to_u32(value: i64) -> u32 {
    u32::try_from(value).expect(RANGE_CHECKED)
}

fn to_u16(value: i64) -> u16 {
    u16::try_from(value).expect(RANGE_CHECKED)
}

fn to_u8(value: i64) -> u8 {
    u8::try_from(value).expect(RANGE_CHECKED)
}

const RANGE_CHECKED: &str = "the column's range has been checked and fits the type";
