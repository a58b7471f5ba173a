//! The statistics tables, filled when a statement names them.

use super::filled;
use super::table::{STATS, STATS_AND_RESET, Table};

/// In the order of their names.
#[rustfmt::skip]
pub static TABLES: &[Table] = &[
    Table {
        name: "global_variables",
        places: STATS,
        doc: "Variables that drivers query when a statistics user connects.",
        definition: &[
            "variable_name VARCHAR NOT NULL",
            "variable_value VARCHAR NOT NULL",
            "PRIMARY KEY (variable_name)",
        ],
    },
    Table {
        name: "stats_memory_metrics",
        places: STATS,
        doc: "Memory usage by purpose.",
        definition: &[
            "Variable_Name VARCHAR NOT NULL",
            "Variable_Value VARCHAR NOT NULL",
            "PRIMARY KEY (Variable_Name)",
        ],
    },
    Table {
        name: "stats_mysql_client_host_cache",
        places: STATS_AND_RESET,
        doc: "Client addresses that have failed to log in.",
        definition: filled::CLIENT_HOST_CACHE,
    },
    Table {
        name: "stats_mysql_commands_counters",
        places: STATS,
        doc: "Execution times by kind of statement; each cnt_ column counts its own range only.",
        definition: filled::COMMANDS_COUNTERS,
    },
    Table {
        name: "stats_mysql_connection_pool",
        places: STATS_AND_RESET,
        doc: "Connections and traffic of each server.",
        definition: filled::CONNECTION_POOL,
    },
    Table {
        name: "stats_mysql_errors",
        places: STATS_AND_RESET,
        doc: "Errors that servers have returned.",
        definition: filled::ERRORS,
    },
    Table {
        name: "stats_mysql_free_connections",
        places: STATS,
        doc: "The idle connections to servers.",
        definition: filled::FREE_CONNECTIONS,
    },
    Table {
        name: "stats_mysql_global",
        places: STATS,
        doc: "Counters and gauges of the whole process.",
        definition: &[
            "Variable_Name VARCHAR NOT NULL",
            "Variable_Value VARCHAR NOT NULL",
            "PRIMARY KEY (Variable_Name)",
        ],
    },
    Table {
        name: "stats_mysql_gtid_executed",
        places: STATS,
        doc: "GTIDs that servers are known to have executed, where reads must see writes.",
        definition: filled::GTID_EXECUTED,
    },
    Table {
        name: "stats_mysql_prepared_statements_info",
        places: STATS,
        doc: "The prepared statements.",
        definition: filled::PREPARED_STATEMENTS_INFO,
    },
    Table {
        name: "stats_mysql_processlist",
        places: STATS,
        doc: "The client sessions.",
        definition: filled::PROCESSLIST,
    },
    Table {
        name: "stats_mysql_query_digest",
        places: STATS_AND_RESET,
        doc: "What statements cost, by digest, user, schema and hostgroup.",
        definition: filled::QUERY_DIGEST,
    },
    Table {
        name: "stats_mysql_query_events",
        places: STATS,
        doc: "Logged statements that DUMP EVENTSLOG has moved to memory; times are in microseconds since 1970.",
        definition: filled::QUERY_EVENTS,
    },
    Table {
        name: "stats_mysql_query_rules",
        places: STATS,
        doc: "How often each query rule has matched.",
        definition: filled::QUERY_RULES,
    },
    Table {
        name: "stats_mysql_users",
        places: STATS,
        doc: "Client connections of each account.",
        definition: filled::USERS,
    },
    Table {
        name: "stats_proxysql_message_metrics",
        places: STATS_AND_RESET,
        doc: "Numbers of log messages.",
        definition: &[
            "message_id VARCHAR NOT NULL",
            "filename VARCHAR NOT NULL",
            "line INT CHECK (line >= 0) NOT NULL DEFAULT 0",
            "func VARCHAR NOT NULL",
            "count_star INTEGER NOT NULL",
            "first_seen INTEGER NOT NULL",
            "last_seen INTEGER NOT NULL",
            "PRIMARY KEY (filename, line, func)",
        ],
    },
    Table {
        name: "stats_proxysql_servers_checksums",
        places: STATS,
        doc: "Checksums reported by the nodes of a cluster.",
        definition: &[
            "hostname VARCHAR NOT NULL",
            "port INT NOT NULL DEFAULT 6032",
            "name VARCHAR NOT NULL",
            "version INT NOT NULL",
            "epoch INT NOT NULL",
            "checksum VARCHAR NOT NULL",
            "changed_at INT NOT NULL",
            "updated_at INT NOT NULL",
            "diff_check INT NOT NULL",
            "PRIMARY KEY (hostname, port, name)",
        ],
    },
    Table {
        name: "stats_proxysql_servers_clients_status",
        places: STATS,
        doc: "Nodes of a cluster that have connected here.",
        definition: filled::CLIENTS_STATUS,
    },
    Table {
        name: "stats_proxysql_servers_metrics",
        places: STATS,
        doc: "Metrics of the nodes of a cluster.",
        definition: &[
            "hostname VARCHAR NOT NULL",
            "port INT NOT NULL DEFAULT 6032",
            "weight INT CHECK (weight >= 0) NOT NULL DEFAULT 0",
            "comment VARCHAR NOT NULL DEFAULT ''",
            "response_time_ms INT NOT NULL",
            "Uptime_s INT NOT NULL",
            "last_check_ms INT NOT NULL",
            "Queries INT NOT NULL",
            "Client_Connections_connected INT NOT NULL",
            "Client_Connections_created INT NOT NULL",
            "PRIMARY KEY (hostname, port)",
        ],
    },
    Table {
        name: "stats_proxysql_servers_status",
        places: STATS,
        doc: "Empty in ProxySQL too.",
        definition: &[
            "hostname VARCHAR NOT NULL",
            "port INT NOT NULL DEFAULT 6032",
            "weight INT CHECK (weight >= 0) NOT NULL DEFAULT 0",
            "master VARCHAR NOT NULL",
            "global_version INT NOT NULL",
            "check_age_us INT NOT NULL",
            "ping_time_us INT NOT NULL",
            "checks_OK INT NOT NULL",
            "checks_ERR INT NOT NULL",
            "PRIMARY KEY (hostname, port)",
        ],
    },
];
