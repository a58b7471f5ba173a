//! What of a configuration belongs to one Narrows, and what to its fleet.

use crate::variables::Variable;
use crate::versions::ConfigDocument;

/// Variables that stay as each Narrows has them, besides those that need a restart: where it listens, where it stands, and
/// what is for looking at this one.
const OWN: &[&str] = &["mysql-interfaces", "mysql-zone", "admin-mysql_ifaces", "admin-ssl_keylog_file"];

/// What the names of further such variables begin with.
const OWN_PREFIXES: &[&str] = &["admin-restapi_", "admin-telnet_", "admin-web_"];

/// Whether a variable is not part of the fleet's versions.
pub fn is_own(name: &str) -> bool {
    OWN.contains(&name)
        || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || Variable::named(name).is_some_and(Variable::needs_restart)
}

/// What of `document` the fleet shares.
pub fn shared(document: &ConfigDocument) -> ConfigDocument {
    document.without_variables(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::VARIABLES;

    #[test]
    fn a_version_of_the_fleet_leaves_what_each_has_for_itself() {
        let mut here = ConfigDocument::of_defaults();
        here.put_variable("mysql-interfaces", "127.0.0.1:1".to_owned());
        here.put_variable("mysql-max_connections", "1".to_owned());
        let mut there = ConfigDocument::of_defaults();
        there.put_variable("mysql-interfaces", "127.0.0.1:2".to_owned());
        there.put_variable("mysql-max_connections", "2".to_owned());
        let whole = shared(&there).over(&here);
        let value =
            |name: &str| whole.variables().find(|(it, _)| *it == name).map(|(_, text)| text.to_owned());
        assert_eq!(value("mysql-interfaces").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(value("mysql-max_connections").as_deref(), Some("2"));
    }

    #[test]
    fn every_own_variable_exists() {
        for name in OWN {
            assert!(Variable::named(name).is_some(), "{name}");
        }
        for prefix in OWN_PREFIXES {
            assert!(VARIABLES.iter().any(|it| it.name.starts_with(prefix)), "{prefix}");
        }
        assert!(is_own("mysql-threads") && !is_own("mysql-max_connections"));
    }
}
