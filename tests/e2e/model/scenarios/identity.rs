//! The session's own id, beside ids that only the server knows.

use narrows_testkit::Flavour::{MariaDb, MySql9};

use super::super::script::{Burst, Script};

/// Its answer is the only one that shows the id, which differs from server to server.
pub(super) const OWN_ID: &str = "SELECT CONNECTION_ID()";

pub(super) fn identity(script: &mut Script, burst: &mut Burst) {
    let (own, name) = (script.own.clone(), format!("lock{}", script.client));
    if script.random.percent(60) {
        burst.query(format!("SELECT GET_LOCK('{name}', 0)"));
        burst.ties = true;
    }
    for _ in 0..1 + script.random.below(3) {
        let statement = match script.random.below(16) {
            0 | 1 => format!("SELECT IS_USED_LOCK('{name}') = CONNECTION_ID()"),
            2 => format!("SELECT 'mine' FROM DUAL WHERE CONNECTION_ID() = IS_USED_LOCK('{name}')"),
            3 => "SELECT COUNT(*) FROM information_schema.processlist WHERE id = CONNECTION_ID()".to_owned(),
            4 => "SELECT id = CONNECTION_ID(), user FROM information_schema.processlist WHERE id = CONNECTION_ID()"
                .to_owned(),
            5 => OWN_ID.to_owned(),
            6 => "SELECT LENGTH(CONCAT(CONNECTION_ID())) > 0, CONNECTION_ID() + 0 > 0".to_owned(),
            7 => "SELECT @@pseudo_thread_id = CONNECTION_ID()".to_owned(),
            8 => {
                burst.query(format!(
                    "CREATE TABLE {own}.cid SELECT CONNECTION_ID() AS id, CONCAT(CONNECTION_ID()) AS text"
                ));
                burst.query(format!("SHOW CREATE TABLE {own}.cid"));
                format!("DROP TABLE {own}.cid")
            }
            9 => {
                burst.query("SET @own_id = CONNECTION_ID()");
                "SELECT @own_id = CONNECTION_ID()".to_owned()
            }
            10 => format!("SELECT COUNT(*) FROM {own}.t WHERE CONNECTION_ID() <> CONNECTION_ID()"),
            11 => format!("SELECT IF(IS_USED_LOCK('{name}') <=> CONNECTION_ID(), 'held', 'not held')"),
            12 => format!("UPDATE {own}.t SET s = IF(IS_USED_LOCK('{name}') = CONNECTION_ID(), 'mine', 'not') WHERE id = 3"),
            13 => format!("SELECT s FROM {own}.t WHERE id = 3"),
            14 => match script.flavour {
                MariaDb => "SELECT COUNT(*) FROM information_schema.processlist WHERE id IN (CONNECTION_ID())".to_owned(),
                MySql9 => {
                    "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()".to_owned()
                }
            },
            _ => match script.flavour {
                MariaDb => format!("SELECT CONNECTION_ID() IN (IS_USED_LOCK('{name}'), 0)"),
                MySql9 => "SELECT PS_THREAD_ID(CONNECTION_ID()) = PS_CURRENT_THREAD_ID()".to_owned(),
            },
        };
        burst.ties |= statement.contains('@');
        burst.query(statement);
    }
    burst.query(format!("SELECT RELEASE_LOCK('{name}')"));
}
