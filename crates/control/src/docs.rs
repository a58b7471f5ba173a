//! The pages made from the rows of variables, columns and commands. They are never edited by hand.

use std::fmt::Write;

use crate::command::{self, Who};
use crate::config::schema::{Absent, ConfigTable};
use crate::config::tables::{
    AURORA_HOSTGROUPS, BOOTSTRAP, FAST_ROUTING, FIREWALL_FINGERPRINTS, FIREWALL_RULES, FIREWALL_USERS, FLEET,
    GALERA_HOSTGROUPS, GROUP_REPLICATION_HOSTGROUPS, HOSTGROUP_ATTRIBUTES, REPLICATION_HOSTGROUPS, RULES,
    SECTIONS, SECTIONS_NOT_READ, SECTIONS_STORED_ONLY, SERVERS, SSL_PARAMS, TOKEN_ISSUERS, USERS,
};
use crate::effect::Effect;
use crate::schema::{self, Database, MODULES};
use crate::variables::{Class, VARIABLES, Variable};
use crate::without_effect::{self, Idle};

/// The page of which only a section is generated, and the section's markers.
pub const COMPATIBILITY: &str = "compatibility.md";
const BEGIN: &str = "<!-- without effect: made by `cargo run -- generate-docs docs` -->\n";
const END: &str = "<!-- end of without effect -->\n";

/// The page `compatibility.md`, currently `page`, with the generated section; `None` if the page has no markers for it.
pub fn with_section(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, &without_effect(), END, after].concat())
}

/// Everything that is accepted and has no effect, in one list.
fn without_effect() -> String {
    let mut text = String::from(WITHOUT_EFFECT_INTRODUCTION);
    let of = |idle: &[Idle], is_wanted: fn(&Effect) -> bool| -> Vec<String> {
        idle.iter().filter(|idle| is_wanted(&idle.effect)).map(|idle| code(&idle.name)).collect()
    };
    let (variables, tables, columns) =
        (without_effect::variables(), without_effect::tables(), without_effect::columns());
    let not_yet = |effect: &Effect| *effect == Effect::NotYet;
    text.push_str("\n### Not yet\n\n| what | which |\n|---|---|\n");
    for (what, idle) in [("variables", &variables), ("tables", &tables), ("columns and keys", &columns)] {
        text.push_str(&line(&[what.to_owned(), of(idle, not_yet).join(", ")]));
    }
    let empty: Vec<String> = schema::ALWAYS_EMPTY.iter().map(|table| code(table)).collect();
    text.push_str(&line(&["tables that are always empty".to_owned(), empty.join(", ")]));
    text.push_str("\n### Nothing to do\n\n| why | which |\n|---|---|\n");
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for idle in variables.iter().chain(&tables).chain(&columns) {
        let Effect::Needless(why) = idle.effect else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(code(&idle.name)),
            None => reasons.push((why, vec![code(&idle.name)])),
        }
    }
    for (why, names) in reasons {
        text.push_str(&line(&[why.to_owned(), names.join(", ")]));
    }
    text
}

/// Every page that is generated as a whole: its name in the folder `docs`, and its text.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("variables.md", variables_page()),
        ("configuration.md", configuration_page()),
        ("tables.md", tables_page()),
        ("commands.md", commands_page()),
    ]
}

const COMMANDS_INTRODUCTION: &str = "\
# Admin commands

The commands of the admin port, in upper or lower case. `<...>` is a name or a text to fill in, and `a|b` is one of the two. `HELP`
prints this list, and `HELP LOAD USERS` the commands with these words. [admin.md](admin.md) explains the layers between which LOAD and
SAVE copy.
";

const HEADER: &str =
    "<!-- Made by `cargo run -- generate-docs docs`; change the rows in the sources, not this page. -->\n\n";

fn variables_page() -> String {
    let mut page = String::from(HEADER);
    page.push_str(VARIABLES_INTRODUCTION);
    for (prefix, section) in [("mysql-", "mysql_variables"), ("admin-", "admin_variables")] {
        let _ =
            write!(page, "\n## {prefix}*\n\nIn a file: section `{section}`, names without `{prefix}`.\n\n");
        page.push_str(
            "| name | value | default | importance | effect | meaning |\n|---|---|---|---|---|---|\n",
        );
        for variable in VARIABLES.iter().filter(|variable| variable.name.starts_with(prefix)) {
            page.push_str(&variable_line(variable));
        }
    }
    page
}

fn commands_page() -> String {
    let mut page = String::from(HEADER);
    let modules: Vec<String> = MODULES.into_iter().map(|module| code(module.name())).collect();
    page.push_str(COMMANDS_INTRODUCTION);
    let _ = write!(page, "\nModules are {}.\n\n", modules.join(", "));
    page.push_str("| command | who | what it does |\n|---|---|---|\n");
    for (command, who, doc) in command::documented() {
        let who = match who {
            Who::Admin => "full users",
            Who::Everybody => "everybody",
        };
        page.push_str(&line(&[code(&command), who.to_owned(), doc.to_owned()]));
    }
    page
}

fn variable_line(variable: &Variable) -> String {
    let class = match variable.class {
        Class::Essential => "essential",
        Class::Useful => "useful",
        Class::Obscure => "obscure",
    };
    let effect = match (variable.effect(), variable.needs_restart()) {
        (Effect::NotYet, _) => "not yet".to_owned(),
        (Effect::Needless(why), _) => format!("none: {why}"),
        (Effect::Acts, true) => "at start".to_owned(),
        (Effect::Acts, false) => "yes".to_owned(),
    };
    let cells = [
        format!("`{}`", variable.short_name()),
        variable.kind.describe(),
        default_cell(variable),
        class.to_owned(),
        effect,
        variable.doc.to_owned(),
    ];
    line(&cells)
}

/// The default of a variable. The program's own version is left out, because it would change the page with every
/// release.
fn default_cell(variable: &Variable) -> String {
    match variable.kind {
        crate::variables::Kind::Fixed { .. } => "the program's version".to_owned(),
        _ => code(&variable.default_value().to_string()),
    }
}

fn configuration_page() -> String {
    let mut page = String::from(HEADER);
    page.push_str(CONFIGURATION_INTRODUCTION);
    page.push_str("\n## Keys at the top\n\n");
    columns(&mut page, &BOOTSTRAP);
    page.push_str(
        "\n## mysql_variables, admin_variables\n\nGroups of variables, named without `mysql-` and `admin-`; see \
         [variables.md](variables.md).\n",
    );
    let _ = write!(page, "\n## fleet\n\n{}\n\n", FLEET.doc);
    columns(&mut page, &FLEET);
    table(&mut page, &SERVERS);
    table(&mut page, &USERS);
    table(&mut page, &TOKEN_ISSUERS);
    table(&mut page, &RULES);
    table(&mut page, &FAST_ROUTING);
    table(&mut page, &REPLICATION_HOSTGROUPS);
    table(&mut page, &GROUP_REPLICATION_HOSTGROUPS);
    table(&mut page, &GALERA_HOSTGROUPS);
    table(&mut page, &AURORA_HOSTGROUPS);
    table(&mut page, &HOSTGROUP_ATTRIBUTES);
    table(&mut page, &FIREWALL_USERS);
    table(&mut page, &FIREWALL_RULES);
    table(&mut page, &FIREWALL_FINGERPRINTS);
    table(&mut page, &SSL_PARAMS);
    let names: Vec<String> = SECTIONS_STORED_ONLY.iter().map(|(name, _)| code(name)).collect();
    let _ = write!(
        page,
        "\n\
         ## Sections that the admin tables describe\n\n\
         These sections of ProxySQL's file have the columns of the tables in [tables.md](tables.md), which says \
         whether they have an effect: {}.\n",
        names.join(", ")
    );
    let names: Vec<String> = SECTIONS_NOT_READ.iter().map(|name| code(name)).collect();
    let _ = write!(
        page,
        "\n\
         ## Ignored\n\n\
         These sections of ProxySQL's file are not read by this version. Narrows starts with a file that has them, and \
         names them in the log: {}.\n",
        names.join(", ")
    );
    page
}

fn tables_page() -> String {
    let mut page = String::from(HEADER);
    page.push_str(TABLES_INTRODUCTION);
    for table in crate::schema::tables() {
        let places = |(database, before, behind): &(Database, &str, &str)| {
            format!("`{}.{before}{}{behind}`", database.name(), table.name)
        };
        let places: Vec<String> = table.places.iter().map(places).collect();
        let definition = table.definition.join(",\n");
        let _ = write!(
            page,
            "\n## {}\n\n{} Available as {}.{}\n\n```sql\n{definition}\n```\n",
            table.name,
            table.doc,
            places.join(", "),
            mark(table.name),
        );
    }
    page
}

/// The mark of a table without effect.
fn mark(table: &str) -> String {
    if schema::ALWAYS_EMPTY.contains(&table) {
        return " **Always empty in this version.**".to_owned();
    }
    if let Some(what) = schema::effect(table).lacking() {
        return format!(" **It {what}.**");
    }
    let columns =
        SECTIONS.iter().filter(|section| section.name() == table).flat_map(|it| it.without_effect());
    let columns = columns.filter_map(|(name, effect)| Some(format!("`{name}` {}", effect.lacking()?)));
    let columns: Vec<String> = columns.collect();
    if columns.is_empty() { String::new() } else { format!(" **{}.**", columns.join("; ")) }
}

fn table<R>(page: &mut String, table: &ConfigTable<R>) {
    let _ = write!(page, "\n## {}\n\n{}\n\n", table.name, table.doc);
    columns(page, table);
}

fn columns<R>(page: &mut String, table: &ConfigTable<R>) {
    page.push_str("| name | value | when absent | meaning |\n|---|---|---|---|\n");
    for column in table.columns {
        let name = match column.alias {
            Some(alias) => format!("`{}` or `{alias}`", column.name),
            None => code(column.name),
        };
        let absent = match column.absent {
            Absent::Required => "must be given".to_owned(),
            Absent::Null => "not set".to_owned(),
            Absent::Is(text) => code(text),
        };
        let doc = match column.effect.lacking() {
            Some(what) => format!("{} It {what}.", column.doc),
            None => column.doc.to_owned(),
        };
        page.push_str(&line(&[name, column.kind.describe(), absent, doc]));
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { "empty".to_owned() } else { format!("`{text}`") }
}

fn line(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

const VARIABLES_INTRODUCTION: &str = "\
# Variables

Every variable of ProxySQL 2.7 is accepted. The column **effect** says what Narrows does with it: *yes*, it is used; *at start*, it is
used when Narrows starts; *not yet*, it is stored, but has no effect in this version; *none*, Narrows has no use for it, with the
reason. A warning is given for each variable without effect that differs from its default: by `narrows check`, in the log at a start,
and by each LOAD ... TO RUNTIME (`SHOW WARNINGS`, and the log). Numbers may be written as strings; true and false
also as 1 and 0. In a file, a value out of range is an error and Narrows does not start: `narrows check FILE` says where.
On the admin interface, the next LOAD ... TO RUNTIME resets such a value to the running one, and returns a warning. There, numbers are
read up to the first character that is not a digit (`12abc` is 12), as in ProxySQL.

Four defaults differ from ProxySQL's; their rows have both: `threads`, `auto_increment_delay_multiplex`, `default_schema` and
`admin-mysql_ifaces`.
";

const WITHOUT_EFFECT_INTRODUCTION: &str = "\
## Without effect

All settings of ProxySQL 2.7 are accepted and shown. These have no effect in Narrows. A warning is given for each of them that differs
from its default: by `narrows check`, in the log at a start, and by each LOAD ... TO RUNTIME (`SHOW WARNINGS`, and the log).
";

const TABLES_INTRODUCTION: &str = "\
# Tables of the admin interface

All tables of ProxySQL 2.7, with its names, types, defaults and checks. `main` is edited by operators; `main.runtime_*` shows what is
running, and writing to it changes nothing; `disk` is the file `narrows.db`; `stats` is filled when a statement names its tables;
`monitor` and `stats_history` are records of the past. A name without a database is looked up in all of them, in that order.
";

const CONFIGURATION_INTRODUCTION: &str = "\
# Configuration

One schema, two syntaxes: TOML (`narrows.toml`) and the libconfig syntax of `proxysql.cnf`. Narrows recognises the syntax by the
content of a file, not by its name: a line like `[mysql_variables]` or `[[mysql_servers]]` makes it TOML. Names, values and
meanings are the same in both. `examples/` has a file of each.

`narrows check FILE` reports everything that is wrong with a file, with line and column; in a `proxysql.cnf`, nothing after the first
syntax error. Unknown names are ignored with a warning. A wrong value, a row without a required column and a duplicate row are
errors, and Narrows does not start. (ProxySQL silently uses the default, leaves the row out, or lets the last row win.) A file
given with `-c` that cannot be read is an error too; ProxySQL exits with status 0 in this case.

## Checking a file

`narrows check [--strict] [--json] [--connect] FILE...` checks any number of files, without changing anything; `-` is standard input.

- *Errors* prevent a start. *Warnings* are about what is probably a mistake: names that do not exist, settings without effect, rows
  that contradict each other or are never used, a file without servers or accounts, and files and folders that are named and cannot
  be used by the user who runs the check. The log of a start and each LOAD ... TO RUNTIME (`SHOW WARNINGS`) report the same.
- The exit status is 0 if every file can be started, 1 if there are errors, and 2 if the command line is wrong. With `--strict`,
  it is also 1 if there are warnings.
- With `--connect`, servers and accounts are tried, and each failure is an error that names the server, the account and the reason.
  The account of the monitor connects to every server, as its row says (TCP or socket, TLS with the file's certificates), and makes
  the checks that the monitor would make there, so that a missing privilege is found. Then each account whose password is not a
  hash logs in to a server of its `default_hostgroup`. All of this runs in parallel, with at most 5 seconds for a server and for a
  login. What is not tried is listed, with the reason, in *notes*, which never change the exit status.
- With `--json`, standard output is one JSON array. Each of its objects has `file`, `severity` (`error`, `warning` or `note`) and
  `message`;
  `line` and `column`, both counted from 1, unless the finding is about the file as a whole; and `key`, the setting, row or
  section that it is about, if it names one.

`narrows check --schema` prints a JSON Schema (draft 2020-12) of `narrows.toml`, with the descriptions, limits and defaults of this
page, for editors and for programs that write a configuration. It has each name as it is written here, and no other.

## Which source wins

The configuration has three layers, as in ProxySQL: *disk* is `narrows.db` in the data folder, *memory* is what is edited on the admin
interface, *runtime* is what is running. `LOAD ... TO RUNTIME` and `SAVE ... TO DISK` copy from one to another.

- The keys at the top of the file are read at every start. Command-line options override them.
- At the first start there is no `narrows.db`: the file's sections are copied to memory, disk and runtime. If there is a `proxysql.db`
  in the data folder, it is imported instead, just as ProxySQL would have started from it; `narrows import FILE -D DIR` does the same
  with one from elsewhere, and reports what it left out. The imported file is opened for reading only.
- At later starts the configuration is read from disk and the file's sections are ignored: edit with the admin interface, or use one of
  the next two options.
- `--initial` renames `narrows.db` to `narrows.db.bak` and starts from the file, as for the first time.
- `--reload` reads the configuration from disk, replaces rows by those of the file that have the same keys, and stores the result.
- `LOAD ... FROM CONFIG` reads one part of the file into memory while Narrows is running.

Each of these changes the database in one transaction, so that after a crash it has either the old or the new contents. If the
database is damaged, or cannot be written, Narrows does not start, and leaves it as it is. The database contains passwords and
is accessible to its owner only (mode 0600).

## Syntax

In TOML, tables are arrays of tables: `[[mysql_servers]]` begins a row. Write regular expressions in single quotes, in which a
backslash has no special meaning. In the syntax of `proxysql.cnf`:

- `name = value` or `name : value`; `;` or `,` after it may be left out;
- `{ ... }` is a group of settings; `( ... )` and `[ ... ]` are lists whose values are separated by commas;
- integers are decimal or `0x` hexadecimal, with an optional `L`; `true` and `false` in any case;
- strings are in double quotes and may span lines; adjacent strings are joined; `\\n`, `\\t`, `\\r`, `\\f`, `\\\"`, `\\\\`
  and `\\xHH` are escapes; any other backslash is kept, so that `\"\\d\"` is the regular expression that it looks like;
- comments are `# ...`, `// ...` and `/* ... */`;
- `@include \"file\"` is replaced by the contents of that file, up to 10 levels deep; a relative path starts from the including file.

Regular expressions work on bytes. They have the syntax of the Rust crate `regex`, which runs in linear time. Expressions with
look-around or back-references are run by `fancy-regex`, which gives up after 100,000 backtracking steps, and then has found no match.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_in_the_repository_are_fresh() {
        for (name, text) in pages() {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == text, "docs/{name} is stale: cargo run -- generate-docs docs");
        }
        let page = include_str!("../../../docs/compatibility.md");
        assert!(
            with_section(page).as_deref() == Some(page),
            "docs/compatibility.md is stale: cargo run -- generate-docs docs"
        );
    }
}
