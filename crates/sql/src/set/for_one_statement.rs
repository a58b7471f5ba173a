//! `SET STATEMENT .. FOR ..` (MariaDB): what is set for one statement, and that statement.
//!
//! The server gives each of these variables its former value back, whatever the statement has set it to. What it reports of
//! them with the answer is the value of that one statement, if it was sent as a text.

use super::{Assignment, parse_with};
use crate::statement::{Statement, classify_with, statements};
use crate::token::Escapes;
use crate::words::is_in;

/// A `SET STATEMENT`, with all that are nested in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForOneStatement<'q> {
    /// The names of the variables, in lower case.
    pub names: Vec<String>,
    /// What sets them, up to the statement.
    pub settings: &'q [u8],
    /// The text of the statement that runs.
    pub text: &'q [u8],
    /// What it is. It is no `SET STATEMENT`.
    pub statement: Statement,
}

impl ForOneStatement<'_> {
    /// Whether each variable is known to have its former value afterwards, and to change nothing of what is known about the
    /// statement.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        self.names.iter().all(|name| is_in(UNDONE, name.as_bytes()))
    }
}

/// Reads a `SET STATEMENT`. `None` if it is not understood.
#[must_use]
pub fn for_one_statement(query: &[u8], escapes: Escapes) -> Option<ForOneStatement<'_>> {
    let mut names = Vec::new();
    let mut text = query;
    for _ in 0..DEEPEST {
        let Ok(assignments) = parse_with(text, escapes) else { break };
        let [Assignment::Statement { variables, offset }] = assignments.as_slice() else { break };
        for variable in variables {
            let Assignment::System { name, .. } = variable else { return None };
            names.push(name.clone());
        }
        text = text.get(*offset..)?;
    }
    let statement = classify_with(text, escapes);
    if names.is_empty() || statement.kind == crate::Kind::SetStatement {
        return None;
    }
    let settings = query.get(..query.len() - text.len())?;
    Some(ForOneStatement { names, settings, text, statement })
}

/// The variables that are set for one of the statements of a text. `None`: one is not understood.
#[must_use]
pub fn settings_of_parts(query: &[u8], escapes: Escapes) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in statements(query, escapes) {
        if classify_with(part, escapes).kind == crate::Kind::SetStatement {
            names.extend(for_one_statement(part, escapes)?.names);
        }
    }
    Some(names)
}

/// How deeply nested a `SET STATEMENT` is read. Nobody nests them.
const DEEPEST: usize = 4;

/// Variables for which the above is known. Not among them are those that the server does not report or restore as a whole
/// (`rand_seed1`, `collation_server`), that set others (`max_join_size`), or that change what is reported
/// (`session_track_schema`), kept (`optimizer_trace`) or asked for (`sql_auto_is_null`).
#[rustfmt::skip]
const UNDONE: &[&str] = &[
    "alter_algorithm", "analyze_max_length", "analyze_sample_percentage", "aria_repair_threads",
    "aria_sort_buffer_size", "aria_stats_method", "auto_increment_increment", "auto_increment_offset", "big_tables",
    "binlog_alter_two_phase", "binlog_annotate_row_events", "binlog_direct_non_transactional_updates",
    "binlog_format", "binlog_row_image", "bulk_insert_buffer_size", "check_constraint_checks",
    "column_compression_threshold", "column_compression_zlib_level", "column_compression_zlib_strategy",
    "column_compression_zlib_wrap", "deadlock_search_depth_long", "deadlock_search_depth_short",
    "deadlock_timeout_long", "deadlock_timeout_short", "default_regex_flags", "default_storage_engine",
    "default_tmp_storage_engine", "default_week_format", "div_precision_increment", "eq_range_index_dive_limit",
    "expensive_subquery_limit", "explicit_defaults_for_timestamp", "foreign_key_checks", "group_concat_max_len",
    "histogram_size", "histogram_type", "idle_readonly_transaction_timeout", "idle_transaction_timeout",
    "idle_write_transaction_timeout", "in_predicate_conversion_threshold", "innodb_compression_default",
    "innodb_ft_enable_stopword", "innodb_lock_wait_timeout", "innodb_snapshot_isolation", "innodb_strict_mode",
    "innodb_table_locks", "join_buffer_size", "join_buffer_space_limit", "join_cache_level", "keep_files_on_create",
    "lc_messages", "lc_time_names", "lock_wait_timeout", "log_queries_not_using_indexes", "log_slow_admin_statements",
    "log_slow_filter", "log_slow_min_examined_row_limit", "log_slow_query", "log_slow_query_time",
    "log_slow_rate_limit", "log_slow_verbosity", "log_warnings", "long_query_time", "low_priority_updates",
    "max_error_count", "max_heap_table_size", "max_length_for_sort_data", "max_recursive_iterations",
    "max_rowid_filter_size", "max_seeks_for_key", "max_session_mem_used", "max_sort_length",
    "max_sp_recursion_depth", "max_statement_time", "max_tmp_tables", "min_examined_row_limit", "mrr_buffer_size",
    "myisam_repair_threads", "myisam_sort_buffer_size", "myisam_stats_method", "net_read_timeout",
    "net_retry_count", "net_write_timeout", "note_verbosity", "old_alter_table", "old_mode",
    "optimizer_prune_level", "optimizer_search_depth", "optimizer_selectivity_sampling_limit", "optimizer_switch",
    "optimizer_use_condition_selectivity", "preload_buffer_size", "query_alloc_block_size", "query_prealloc_size",
    "range_alloc_block_size", "read_buffer_size", "read_rnd_buffer_size", "rowid_merge_buff_size",
    "slow_query_log", "sort_buffer_size", "sql_big_selects", "sql_buffer_result", "sql_log_bin", "sql_mode",
    "sql_notes", "sql_quote_show_create", "sql_safe_updates", "sql_select_limit", "sql_warnings",
    "standard_compliant_cte", "system_versioning_alter_history", "time_zone", "tmp_disk_table_size",
    "tmp_memory_table_size", "tmp_table_size", "transaction_alloc_block_size", "transaction_prealloc_size",
    "transaction_read_only", "tx_read_only", "unique_checks", "updatable_views_with_limit", "use_stat_tables",
    "wsrep_osu_method", "wsrep_retry_autocommit", "wsrep_sync_wait",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Kind};

    fn read(query: &str) -> Option<ForOneStatement<'_>> {
        for_one_statement(query.as_bytes(), Escapes::Backslash)
    }

    #[test]
    fn says_what_is_set_and_what_runs() {
        for (query, names, text, kind) in [
            ("SET STATEMENT a=1 FOR SELECT 1", &["a"][..], "SELECT 1", Kind::Select),
            ("set statement A = 'FOR', b=(1) for DO 1", &["a", "b"], "DO 1", Kind::Do),
            ("/* x */ SET STATEMENT `a`=1 FOR /* y */ COMMIT", &["a"], "COMMIT", Kind::Commit),
            ("SET STATEMENT a=1 FOR SET STATEMENT b=2 FOR USE c", &["a", "b"], "USE c", Kind::Use),
            ("SET STATEMENT a=1 FOR SET b=2", &["a"], "SET b=2", Kind::Set),
            (
                "SET STATEMENT a=1 FOR BEGIN NOT ATOMIC DO 1; END",
                &["a"],
                "BEGIN NOT ATOMIC DO 1; END",
                Kind::Other,
            ),
        ] {
            let found = read(query).expect(query);
            assert_eq!(found.names, names, "{query}");
            assert_eq!((found.text, found.statement.kind), (text.as_bytes(), kind), "{query}");
            assert_eq!([found.settings, found.text].concat(), query.as_bytes(), "{query}");
        }
        for query in
            ["SET STATEMENT = 1", "SET a = 1", "SET STATEMENT a=1", "SET STATEMENT @a=1 FOR DO 1", "DO 1"]
        {
            assert_eq!(read(query), None, "{query}");
        }
    }

    #[test]
    fn says_what_is_set_in_several() {
        let names = |query: &str| settings_of_parts(query.as_bytes(), Escapes::Backslash);
        assert_eq!(
            names("DO 1; SET STATEMENT a=1 FOR DO 1; SET STATEMENT b=1 FOR DO 1").unwrap(),
            ["a", "b"]
        );
        assert_eq!(names("SELECT 1; SET c=1").unwrap(), [""; 0]);
        assert_eq!(names("SELECT 1; SET STATEMENT a FOR DO 1"), None);
    }

    #[test]
    fn knows_which_variables_are_undone() {
        let is_undone = |query: &str| read(query).unwrap().is_undone();
        assert!(is_undone("SET STATEMENT max_statement_time=1, SQL_MODE='' FOR DO 1"));
        for name in
            ["rand_seed1", "session_track_schema", "sql_auto_is_null", "character_set_server", "nosuch"]
        {
            assert!(!is_undone(&format!("SET STATEMENT sql_mode='', {name}=1 FOR DO 1")), "{name}");
        }
        let text = "SET STATEMENT a=1 FOR SELECT f()";
        assert!(read(text).unwrap().statement.flags.contains(Flags::FUNCTION_CALL_UNKNOWN));
    }
}
