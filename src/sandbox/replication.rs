//! Accounts, schemas and replication of a sandbox, as statements.

use anyhow::{bail, ensure};

use super::client::{Client, Rows};
use super::program::Program;
use super::record::{Flavour, Server, User};

/// Accounts created on the primary; the replicas receive them through replication.
pub fn users() -> Vec<User> {
    let user = |name: &str, purpose: &str| User {
        name: name.to_owned(),
        password: name.to_owned(),
        purpose: purpose.to_owned(),
    };
    vec![
        user("app", "all privileges, but subject to read_only"),
        user("sbtest", "all privileges, but subject to read_only"),
        user("monitor", "replication and process state"),
        user(REPLICATION_USER, "replication"),
    ]
}

/// Creates the accounts and schemas that do not exist yet.
pub fn populate(program: &Program, primary: &mut Client) -> anyhow::Result<()> {
    for user in users() {
        let name = &user.name;
        primary.query(&format!("CREATE USER IF NOT EXISTS {name}@'%' IDENTIFIED BY '{}'", user.password))?;
        for grant in grants(program, name) {
            primary.query(&grant)?;
        }
    }
    for schema in ["app", "sbtest", "test"] {
        primary.query(&format!("CREATE DATABASE IF NOT EXISTS {schema}"))?;
    }
    Ok(())
}

fn grants(program: &Program, user: &str) -> Vec<String> {
    let mariadb = program.flavour == Flavour::MariaDb;
    match user {
        REPLICATION_USER => vec![format!("GRANT REPLICATION SLAVE ON *.* TO {user}@'%'")],
        "monitor" if mariadb => {
            vec![format!("GRANT PROCESS, REPLICATION CLIENT, REPLICA MONITOR ON *.* TO {user}@'%'")]
        }
        "monitor" => vec![
            format!("GRANT PROCESS, REPLICATION CLIENT ON *.* TO {user}@'%'"),
            format!("GRANT SELECT ON performance_schema.* TO {user}@'%'"),
        ],
        _ => {
            let mut grants = vec![format!("GRANT ALL PRIVILEGES ON *.* TO {user}@'%'")];
            // With an account that may write to a read-only replica, a statement sent to the wrong server would go
            // unnoticed. MySQL has super_read_only for that.
            if mariadb && program.version_numbers() < vec![10, 11] {
                grants.push(format!("REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM {user}@'%'"));
            } else if mariadb {
                grants.push(format!("REVOKE READ_ONLY ADMIN ON *.* FROM {user}@'%'"));
            }
            grants
        }
    }
}

/// Makes `replica` follow the primary by GTID.
pub fn follow(flavour: Flavour, replica: &mut Client, primary: &Server) -> anyhow::Result<()> {
    let port = primary.port;
    let user = REPLICATION_USER;
    let statements = match flavour {
        Flavour::MariaDb => [
            "STOP SLAVE".to_owned(),
            format!(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', \
                 MASTER_PASSWORD='{user}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
            ),
            "START SLAVE".to_owned(),
        ],
        Flavour::MySql => [
            "STOP REPLICA".to_owned(),
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', \
                 SOURCE_PASSWORD='{user}', SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, \
                 SOURCE_RETRY_COUNT=86400, GET_SOURCE_PUBLIC_KEY=1"
            ),
            "START REPLICA".to_owned(),
        ],
    };
    for statement in statements {
        replica.query(&statement)?;
    }
    Ok(())
}

/// Everything the primary has written so far.
pub fn position(flavour: Flavour, primary: &mut Client) -> anyhow::Result<String> {
    let rows = primary.query(match flavour {
        Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos",
        Flavour::MySql => "SELECT REPLACE(@@global.gtid_executed, '\n', '')",
    })?;
    Ok(first_value(&rows).unwrap_or_default())
}

/// Waits until `replica` has applied everything up to `position`.
pub fn wait_for(flavour: Flavour, replica: &mut Client, position: &str) -> anyhow::Result<()> {
    let (wait, status) = match flavour {
        Flavour::MariaDb => {
            (format!("SELECT MASTER_GTID_WAIT('{position}', {CATCH_UP_SECONDS})"), "SHOW SLAVE STATUS")
        }
        Flavour::MySql => (
            format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', {CATCH_UP_SECONDS})"),
            "SHOW REPLICA STATUS",
        ),
    };
    let rows = replica.query(&wait)?;
    if first_value(&rows).as_deref() == Some("0") {
        return Ok(());
    }
    let state = replica.query(status)?;
    ensure!(!state.is_empty(), "replication on the replica has stopped");
    let values: Vec<String> =
        state.into_iter().flatten().flatten().filter(|value| !value.is_empty()).collect();
    bail!("the replica has not caught up within {CATCH_UP_SECONDS} seconds: {}", values.join(" | "))
}

fn first_value(rows: &Rows) -> Option<String> {
    rows.first()?.first()?.clone()
}

const REPLICATION_USER: &str = "repl";
const CATCH_UP_SECONDS: u32 = 30;
