//! DDL of the schema that a session stands in: its character set changes, it goes, it comes again.

use super::super::script::{Burst, Script};
use super::Step;

pub(super) const NAME: &str = "schema ddl";

pub(super) fn replaced(script: &mut Script, burst: &mut Burst) {
    let own = script.own.clone();
    let schema = format!("{own}y");
    let charset =
        |script: &mut Script| *script.random.pick(&["latin1", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin"]);
    // A schema that could not be created, in a read-only transaction for example, would leave the session in one of others.
    burst.steps.push(Step::ResetConnection);
    script.untie();
    burst.query(format!("DROP DATABASE IF EXISTS {schema}"));
    let first = charset(script);
    burst.query(format!("CREATE DATABASE {schema} CHARACTER SET {first}"));
    enter(script, burst, &schema);
    for _ in 0..1 + script.random.below(3) {
        let next = charset(script);
        match script.random.below(8) {
            0 | 1 => burst.query(format!("ALTER DATABASE {schema} CHARACTER SET {next}")),
            2 => burst.query(format!("ALTER DATABASE CHARACTER SET {next}")),
            3 => {
                burst.query(format!("DROP DATABASE {schema}"));
                burst.query("SELECT DATABASE(), @@character_set_database");
                burst.query(format!("CREATE DATABASE {schema} CHARACTER SET {next}"));
                enter(script, burst, &schema);
            }
            4 => {
                burst.query(format!("DROP SCHEMA {schema}"));
                burst.query(format!("CREATE SCHEMA {schema} CHARACTER SET {next}"));
                burst.query("SELECT DATABASE(), @@collation_database");
            }
            5 => enter(script, burst, &schema),
            6 => {
                burst.query("USE common");
                burst.query(format!("ALTER DATABASE {schema} CHARACTER SET {next}"));
                enter(script, burst, &schema);
            }
            _ => burst.query("SELECT COUNT(*) FROM common.t"),
        }
        burst.query("SELECT DATABASE(), @@character_set_database, @@collation_database");
        let number = script.number();
        burst.query(format!("CREATE TABLE y{number} (a TEXT)"));
        burst.query(format!("SHOW CREATE TABLE y{number}"));
    }
    burst.query(format!("USE {own}"));
    burst.query(format!("DROP DATABASE IF EXISTS {schema}"));
    burst.query("SELECT DATABASE(), @@character_set_database");
}

fn enter(script: &mut Script, burst: &mut Burst, schema: &str) {
    match script.random.below(3) {
        0 => burst.steps.push(Step::InitDb(schema.to_owned())),
        _ => burst.query(format!("USE {schema}")),
    }
}
