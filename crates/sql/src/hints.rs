//! Optimizer hints (`/*+ .. */`), as far as they matter to a proxy: whether all of them are known to end with their
//! statement. See "Optimizer Hints" in the MySQL manual.

use crate::token::{blanks, is_word_byte};
use crate::words::is_in;

/// Whether every hint in the body of such a comment is known to leave nothing on its connection. A comment without a hint
/// has none that is not: what is not followed by a parenthesis is a remark, and some write `/*+ hostgroup=1 */`.
pub(crate) fn leave_nothing(body: &[u8]) -> bool {
    let mut at = 0;
    let mut depth = 0usize;
    while let Some(byte) = body.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            byte if is_word_byte(*byte) => {
                let rest = body.get(at..).unwrap_or_default();
                let word = word(rest);
                at += word.len();
                let behind = body.get(at..).unwrap_or_default();
                let arguments = behind.get(blanks(behind)..).and_then(|rest| rest.strip_prefix(b"("));
                if let Some(arguments) = arguments
                    // In parentheses are names of tables and indexes. A quoted one may have anything in it, and one that looks
                    // like a hint is taken for one.
                    && !leaves_nothing(word, arguments)
                {
                    return false;
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    true
}

/// Whether the hint of this name, with these arguments and whatever follows them, leaves nothing on its connection.
fn leaves_nothing(name: &[u8], arguments: &[u8]) -> bool {
    if name.eq_ignore_ascii_case(b"SET_VAR") {
        let name = arguments.get(blanks(arguments)..).unwrap_or_default();
        return is_in(RESTORED, word(name));
    }
    let positive = match name.get(..3) {
        Some(no) if no.eq_ignore_ascii_case(b"NO_") => name.get(3..).unwrap_or_default(),
        _ => name,
    };
    is_in(KNOWN, positive)
}

/// The word at the beginning of `text`.
fn word(text: &[u8]) -> &[u8] {
    let length = text.iter().take_while(|byte| is_word_byte(**byte)).count();
    text.get(..length).unwrap_or_default()
}

/// Hints about how a statement is executed, also with `NO_` before them.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "BKA", "BNL", "DERIVED_CONDITION_PUSHDOWN", "GROUP_INDEX", "HASH_JOIN", "ICP", "INDEX", "INDEX_MERGE",
    "JOIN_FIXED_ORDER", "JOIN_INDEX", "JOIN_ORDER", "JOIN_PREFIX", "JOIN_SUFFIX", "MAX_EXECUTION_TIME", "MERGE", "MRR",
    "ORDER_INDEX", "QB_NAME", "RANGE_OPTIMIZATION", "RESOURCE_GROUP", "ROWID_FILTER", "SEMIJOIN", "SKIP_SCAN",
    "SPLIT_MATERIALIZED", "SUBQUERY",
];

/// Variables that have the value of before again after a statement with `SET_VAR`. It can set others: MySQL leaves
/// `timestamp` at a fixed time and `insert_id` at a value for the next insert, `max_join_size` changes `sql_big_selects`,
/// and `sql_auto_is_null` makes a condition ask for `LAST_INSERT_ID()`.
#[rustfmt::skip]
const RESTORED: &[&str] = &[
    "auto_increment_increment", "auto_increment_offset", "big_tables", "bulk_insert_buffer_size",
    "cte_max_recursion_depth", "default_table_encryption", "default_tmp_storage_engine", "div_precision_increment",
    "end_markers_in_json", "eq_range_index_dive_limit", "foreign_key_checks", "group_concat_max_len",
    "internal_tmp_mem_storage_engine", "join_buffer_size", "lock_wait_timeout", "max_error_count",
    "max_execution_time", "max_heap_table_size", "max_length_for_sort_data", "max_points_in_geometry",
    "max_seeks_for_key", "max_sort_length", "optimizer_max_subgraph_pairs", "optimizer_prune_level",
    "optimizer_search_depth", "optimizer_switch", "range_alloc_block_size", "range_optimizer_max_mem_size",
    "read_buffer_size", "read_rnd_buffer_size", "select_into_buffer_size", "select_into_disk_sync",
    "select_into_disk_sync_delay", "set_operations_buffer_size", "sort_buffer_size", "sql_big_selects",
    "sql_buffer_result", "sql_mode", "sql_require_primary_key", "sql_safe_updates", "sql_select_limit", "time_zone",
    "tmp_table_size", "unique_checks", "updatable_views_with_limit", "use_secondary_engine",
    "windowing_use_high_precision", "xa_detach_on_prepare",
];
