//! `SET GLOBAL` of variables that do no harm, and what sessions get from it. Each client has a variable of its own, since the
//! two servers would otherwise have different values at the same step of a client.

use narrows_testkit::Flavour::{self, MariaDb, MySql9};

use super::super::script::{Burst, Script};
use super::Step;
use super::sessions;

/// A variable and two values that it takes unchanged.
struct Global {
    name: &'static str,
    values: [&'static str; 2],
    only: Option<Flavour>,
}

const fn global(name: &'static str, one: &'static str, other: &'static str) -> Global {
    Global { name, values: [one, other], only: None }
}

impl Global {
    const fn on(self, flavour: Flavour) -> Global {
        Global { only: Some(flavour), ..self }
    }
}

const GLOBALS: &[Global] = &[
    global("net_retry_count", "11", "12"),
    global("interactive_timeout", "5000", "6000"),
    global("range_alloc_block_size", "8192", "16384"),
    global("query_alloc_block_size", "16384", "32768"),
    global("query_prealloc_size", "32768", "65536"),
    global("read_buffer_size", "262144", "524288"),
    global("read_rnd_buffer_size", "65536", "131072"),
    global("bulk_insert_buffer_size", "4194304", "2097152"),
    global("preload_buffer_size", "65536", "131072"),
    global("transaction_alloc_block_size", "16384", "32768"),
    global("transaction_prealloc_size", "8192", "16384"),
    global("max_sp_recursion_depth", "3", "5"),
    global("myisam_sort_buffer_size", "4194304", "2097152"),
    global("max_length_for_sort_data", "512", "2048"),
    global("myisam_stats_method", "nulls_equal", "nulls_ignored"),
    global("query_cache_wlock_invalidate", "1", "0").on(MariaDb),
    global("expensive_subquery_limit", "50", "60").on(MariaDb),
    global("join_cache_level", "1", "3").on(MariaDb),
    global("mrr_buffer_size", "131072", "524288").on(MariaDb),
    global("progress_report_time", "10", "20").on(MariaDb),
    global("optimizer_use_condition_selectivity", "1", "2").on(MariaDb),
    global("histogram_size", "100", "200").on(MariaDb),
    global("join_buffer_space_limit", "1048576", "4194304").on(MariaDb),
    global("information_schema_stats_expiry", "100", "200").on(MySql9),
    global("print_identified_with_as_hex", "1", "0").on(MySql9),
    global("parser_max_mem_size", "20000000", "30000000").on(MySql9),
    global("select_into_buffer_size", "65536", "262144").on(MySql9),
    global("set_operations_buffer_size", "131072", "524288").on(MySql9),
    global("range_optimizer_max_mem_size", "1000000", "2000000").on(MySql9),
    global("optimizer_trace_limit", "2", "3").on(MySql9),
    global("optimizer_max_subgraph_pairs", "1000", "2000").on(MySql9),
];

fn of(client: usize, flavour: Flavour) -> Option<&'static Global> {
    GLOBALS.iter().filter(|global| global.only.is_none_or(|only| only == flavour)).nth(client)
}

/// The names, which other statements do not compare.
pub fn names() -> impl Iterator<Item = &'static str> {
    GLOBALS.iter().map(|global| global.name)
}

/// Undoes what a burst that was cut short has left.
pub(super) fn cleaning(client: usize, flavour: Flavour) -> Option<String> {
    let global = of(client, flavour).filter(|_| super::is_on("set global"))?;
    Some(format!("SET GLOBAL {} = DEFAULT", global.name))
}

pub(super) fn set_global(script: &mut Script, burst: &mut Burst) {
    let Some(Global { name, values, .. }) = of(script.client, script.flavour) else {
        return burst.query("SELECT 'has no variable'");
    };
    let look = format!("SELECT @@{name}, @@global.{name}");
    // A session without a value of its own gets the new one at once, as `docs/compatibility.md` says.
    let look_at_global = format!("SELECT @@global.{name}");
    let renew = |script: &mut Script, burst: &mut Burst| match script.random.below(4) {
        0 => burst.steps.push(Step::ResetConnection),
        1 => sessions::change_user(script, burst),
        2 => sessions::reconnect(script, burst),
        _ => burst.query(format!("SET {name} = DEFAULT")),
    };
    let has_own = script.random.percent(50);
    if has_own {
        // It stays as it is whatever the global one becomes.
        burst.query(format!("SET {name} = {}", values[1]));
    }
    burst.query(match script.random.below(4) {
        0 => format!("SET @@global.{name} = {}", values[0]),
        1 => format!("SET @a = 1, GLOBAL {name} = {}", values[0]),
        _ => format!("SET GLOBAL {name} = {}", values[0]),
    });
    burst.query(if has_own { &look } else { &look_at_global }.clone());
    burst.query("SELECT COUNT(*) FROM common.t");
    renew(script, burst);
    burst.query(look.clone());
    burst.query(format!("SET SESSION {name} = {}", values[1]));
    burst.query(look.clone());
    burst.query(format!("SET SESSION {name} = DEFAULT"));
    burst.query(look.clone());
    burst.query(format!("SET GLOBAL {name} = DEFAULT"));
    burst.query(look_at_global);
    renew(script, burst);
    burst.query(look);
}
