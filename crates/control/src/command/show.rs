//! SHOW, translated into SQL for SQLite.

use super::sql::{catalog_sql, sql};
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::{beyond_an_expression, literal, quoted_name, unquoted};
use crate::stats;
use crate::store::{Answer, ResultSet, Role, Store};

macro_rules! show {
    ($pattern:literal, $who:ident, $run:expr, $doc:literal) => {
        Verb { pattern: $pattern, who: Who::$who, run: $run, doc: $doc }
    };
}

pub const VERBS: &[Verb] = &[
    show!("SHOW TABLES", Everybody, |c, call| tables(c, call, "main", None), "The tables of `main`."),
    show!(
        "SHOW TABLES LIKE <pattern>",
        Everybody,
        |c, call| tables(c, call, "main", Some(call.word(0))),
        "The tables of `main` whose names match."
    ),
    show!(
        "SHOW TABLES FROM|IN <database>",
        Everybody,
        |c, call| tables(c, call, call.word(0), None),
        "The tables of a database."
    ),
    show!(
        "SHOW TABLES FROM|IN <database> LIKE <pattern>",
        Everybody,
        |c, call| tables(c, call, call.word(0), Some(call.word(1))),
        "The tables of a database whose names match."
    ),
    show!("SHOW DATABASES|SCHEMAS", Everybody, databases, "The databases."),
    show!("SHOW CREATE TABLE <table>", Everybody, create_table, "How a table is defined."),
    show!("SHOW FIELDS|COLUMNS FROM|IN <table>", Admin, fields, "The columns of a table."),
    show!("DESCRIBE|DESC <table>", Admin, fields, "The columns of a table."),
    show!("SHOW TABLE STATUS LIKE <table>", Admin, table_status, "What `mysqldump` asks about a table."),
    show!("SHOW VARIABLES", Everybody, |c, call| variables(c, call, ""), "The variables in memory."),
    show!(
        "SHOW GLOBAL|ALL VARIABLES",
        Everybody,
        |c, call| variables(c, call, ""),
        "The variables in memory."
    ),
    show!(
        "SHOW ADMIN VARIABLES",
        Everybody,
        |c, call| variables(c, call, "WHERE variable_name LIKE 'admin-%'"),
        "The variables of the admin interface."
    ),
    show!(
        "SHOW MYSQL VARIABLES",
        Everybody,
        |c, call| variables(c, call, "WHERE variable_name LIKE 'mysql-%'"),
        "The variables of the data plane."
    ),
    show!(
        "SHOW VARIABLES LIKE <pattern>",
        Everybody,
        |c, call| variables_like(c, call, ""),
        "The variables whose names match."
    ),
    show!(
        "SHOW GLOBAL|ALL VARIABLES LIKE <pattern>",
        Everybody,
        |c, call| variables_like(c, call, ""),
        "The same."
    ),
    show!(
        "SHOW ADMIN VARIABLES LIKE <pattern>",
        Everybody,
        |c, call| variables_like(c, call, "admin-"),
        "The variables of the admin interface whose names match."
    ),
    show!(
        "SHOW MYSQL VARIABLES LIKE <pattern>",
        Everybody,
        |c, call| variables_like(c, call, "mysql-"),
        "The variables of the data plane whose names match."
    ),
    show!(
        "SHOW VARIABLES WHERE <condition...>",
        Everybody,
        variables_where,
        "The variables for which the condition is true."
    ),
    show!("SHOW MYSQL STATUS", Everybody, |c, call| status(c, call, ""), "`stats_mysql_global`."),
    show!(
        "SHOW MYSQL STATUS LIKE <pattern>",
        Everybody,
        |c, call| {
            let like = is_like(call.word(0))?;
            status(c, call, &format!("WHERE Variable_Name {like}"))
        },
        "The rows of `stats_mysql_global` whose names match."
    ),
    show!(
        "SHOW NARROWS STATUS",
        Everybody,
        |c, _| Some(stats::narrows_status(&c.sources())),
        "The process, its servers and their checks, settings without effect, and figures that ProxySQL does not have."
    ),
    show!(
        "SHOW NARROWS READINESS",
        Everybody,
        |c, _| Some(stats::readiness(&c.sources())),
        "Whether clients can be served, and the reason why not."
    ),
    show!(
        "SHOW MYSQL USERS",
        Everybody,
        |c, call| select(c, call, "SELECT * FROM mysql_users"),
        "`mysql_users`."
    ),
    show!(
        "SHOW MYSQL SERVERS",
        Everybody,
        |c, call| select(c, call, "SELECT * FROM mysql_servers"),
        "`mysql_servers`."
    ),
    show!(
        "SHOW PROCESSLIST",
        Everybody,
        |c, call| select(
            c,
            call,
            "SELECT SessionID, user, db, hostgroup, command, time_ms, SUBSTR(info, 1, 100) AS info \
             FROM stats_mysql_processlist"
        ),
        "Client sessions."
    ),
    show!(
        "SHOW FULL PROCESSLIST",
        Everybody,
        |c, call| select(c, call, "SELECT * FROM stats_mysql_processlist"),
        "`stats_mysql_processlist`."
    ),
    show!(
        "SHOW CHARSET",
        Everybody,
        |c, call| select(
            c,
            call,
            "SELECT Charset, Collation AS 'Default collation' FROM mysql_collations WHERE \"Default\"='Yes'"
        ),
        "Character sets."
    ),
    show!(
        "SHOW COLLATION",
        Everybody,
        |c, call| select(c, call, "SELECT * FROM mysql_collations"),
        "Collations."
    ),
    show!(
        "SHOW PROMETHEUS METRICS",
        Everybody,
        |c, _| Some(metrics(c)),
        "All metrics in the Prometheus format."
    ),
    show!(
        "SHOW PROMETHEUS METRICS\\G",
        Everybody,
        |c, _| Some(metrics(c)),
        "The same metrics, for clients that send the `\\G`."
    ),
    show!("SHOW WARNINGS", Everybody, warnings, "The warnings of the last statement."),
    show!("SHOW WARNINGS LIMIT <count>", Everybody, warnings, "The warnings of the last statement."),
];

fn select(parts: &mut Parts<'_>, call: &Call<'_>, query: &str) -> Option<Reply> {
    Some(sql(parts, call.caller, query))
}

/// All metrics, in one cell.
fn metrics(parts: &mut Parts<'_>) -> Reply {
    let drift = parts.store.drift().ok();
    Reply::rows(["Data"], vec![vec![stats::metrics::text(&parts.sources(), drift.as_deref())]])
}

/// A quoted text as an SQL literal; `None` if it is not quoted.
fn text_of(word: &str) -> Option<String> {
    let quoted = word.len() >= 2
        && (word.starts_with('\'') && word.ends_with('\'') || word.starts_with('"') && word.ends_with('"'));
    quoted.then(|| literal(&unquoted(word)))
}

/// The condition for a quoted pattern; a backslash escapes `%` and `_`, as in MySQL and unlike in SQLite.
fn is_like(word: &str) -> Option<String> {
    text_of(word).map(|pattern| format!("LIKE {pattern} ESCAPE '\\'"))
}

fn tables(parts: &mut Parts<'_>, call: &Call<'_>, database: &str, like: Option<&str>) -> Option<Reply> {
    let database = unquoted(database);
    let is_name = !database.is_empty() && database.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_name {
        return None;
    }
    let database = in_words_of(call, &database);
    let (like, order) = match like {
        Some(pattern) => (format!(" AND name {}", is_like(pattern)?), ""),
        None => (String::new(), " ORDER BY name"),
    };
    let query = format!(
        "SELECT name AS tables FROM {database}.sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'{like}{order}"
    );
    // The tables are listed but not filled, because their rows are not read.
    Some(catalog_sql(parts, call.caller, query))
}

/// The name of a database on the caller's connection: statistics users have the statistics tables in `main`.
fn in_words_of<'a>(call: &Call<'_>, database: &'a str) -> &'a str {
    match call.caller.role {
        Role::Stats if database.eq_ignore_ascii_case("stats") => "main",
        _ => database,
    }
}

fn databases(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    Some(catalog_sql(parts, call.caller, "PRAGMA database_list".to_owned()))
}

fn create_table(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let (database, table) = match call.word(0).split_once('.') {
        Some((database, table)) => (unquoted(database), unquoted(table)),
        None => ("main".into(), unquoted(call.word(0))),
    };
    let database = in_words_of(call, &database);
    let query = format!(
        "SELECT name AS 'table', sql AS 'Create Table' FROM {}.sqlite_master WHERE type='table' AND name={}",
        bare_or_quoted(database),
        literal(&table)
    );
    Some(catalog_sql(parts, call.caller, query))
}

fn bare_or_quoted(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_bare { name.to_owned() } else { quoted_name(name) }
}

/// SQLite's description of a table's columns: number, name, type, not null, default, position in the key.
fn columns(store: &mut Store, table: &str) -> Option<ResultSet> {
    let (database, name) = table.split_once('.').map_or(("", table), |(database, name)| (database, name));
    let name = quoted_name(&unquoted(name));
    let of = match unquoted(database).as_ref() {
        "" => String::new(),
        database => format!("{}.", quoted_name(database)),
    };
    match store.sql(&format!("PRAGMA {of}table_info({name})")) {
        Ok(Answer::Rows(set)) if !set.rows.is_empty() => Some(set),
        _ => None,
    }
}

fn fields(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let Some(set) = columns(parts.store, call.word(0)) else {
        return Some(Reply::refused(1045, "28000", "Table does not exist".to_owned()));
    };
    let row = |cells: Vec<Option<Vec<u8>>>| {
        let cell = |index: usize| {
            let bytes = cells.get(index).cloned().flatten().unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (name, not_null, key) = (cell(1), cell(3), cell(5));
        let null = if not_null == "1" { "NO" } else { "YES" };
        let key = if key == "0" { "" } else { "PRI" };
        [&name, "varchar(255)", null, key, "", ""].map(str::to_owned).to_vec()
    };
    let rows = set.rows.into_iter().map(row).collect();
    Some(Reply::rows(["Field", "Type", "Null", "Key", "Default", "Extra"], rows))
}

fn table_status(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let name = unquoted(call.word(0)).replace("\\_", "_").replace("\\%", "%");
    let names = [
        "Name",
        "Engine",
        "Version",
        "Row_format",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
        "Collation",
        "Checksum",
        "Create_options",
        "Comment",
    ];
    if columns(parts.store, &quoted_name(&name)).is_none() {
        return Some(Reply::rows(names, Vec::new()));
    }
    let count = parts.store.sql(&format!("SELECT COUNT(*) FROM {}", quoted_name(&name)));
    let count = match count {
        Ok(Answer::Rows(set)) => set.rows.into_iter().flatten().flatten().next().unwrap_or_default(),
        _ => Vec::new(),
    };
    let (count, never) = (String::from_utf8_lossy(&count).into_owned(), "0000-00-00 00:00:00");
    let row = [
        &name, "SQLite", "10", "Dynamic", &count, "0", "0", "0", "0", "0", "NULL", never, never, never,
        "utf8_bin", "NULL", "", "",
    ];
    Some(Reply::rows(names, vec![row.map(str::to_owned).to_vec()]))
}

fn variables(parts: &mut Parts<'_>, call: &Call<'_>, condition: &str) -> Option<Reply> {
    let query = format!(
        "SELECT variable_name AS Variable_name, variable_value AS Value FROM global_variables {condition} \
         ORDER BY variable_name"
    );
    select(parts, call, &query)
}

fn status(parts: &mut Parts<'_>, call: &Call<'_>, condition: &str) -> Option<Reply> {
    let query = format!(
        "SELECT Variable_Name AS Variable_name, Variable_Value AS Value FROM stats_mysql_global {condition} \
         ORDER BY Variable_Name"
    );
    select(parts, call, &query)
}

fn variables_like(parts: &mut Parts<'_>, call: &Call<'_>, prefix: &str) -> Option<Reply> {
    let like = is_like(call.word(0))?;
    variables(parts, call, &format!("WHERE variable_name LIKE '{prefix}%' AND variable_name {like}"))
}

/// The condition uses the column names of the answer; anything other than a single condition is refused.
fn variables_where(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let condition = call.word(0);
    if let Some(word) = beyond_an_expression(condition) {
        return Some(Reply::error(format!("near \"{word}\": syntax error")));
    }
    let query = format!(
        "SELECT Variable_name, Value FROM (SELECT variable_name AS Variable_name, variable_value AS Value \
         FROM global_variables) WHERE ({condition}) ORDER BY Variable_name"
    );
    select(parts, call, &query)
}

fn warnings(_: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let row = |warning: &crate::store::Warning| {
        vec!["Warning".to_owned(), warning.code.to_string(), warning.message.clone()]
    };
    let rows = call.caller.warnings.iter().map(row).collect();
    Some(Reply::rows(["Level", "Code", "Message"], rows))
}
