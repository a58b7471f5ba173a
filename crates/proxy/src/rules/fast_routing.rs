//! `mysql_query_rules_fast_routing`: where statements go by user and schema alone.

use std::collections::HashMap;

use crate::rows::{FastRoutingRow, HostgroupId};

/// The table, by user and then by schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FastRouting {
    users: HashMap<Box<str>, Schemas>,
    rows: usize,
}

/// The rows of one user: by schema, the flags and their destinations.
type Schemas = HashMap<Box<[u8]>, Vec<(u32, HostgroupId)>>;

impl FastRouting {
    pub(super) fn new(rows: &[FastRoutingRow]) -> FastRouting {
        let mut table = FastRouting { users: HashMap::new(), rows: rows.len() };
        for row in rows {
            let schemas = table.users.entry(row.username.as_str().into()).or_default();
            let flags = schemas.entry(row.schemaname.as_bytes().into()).or_default();
            flags.push((row.flag_in, row.destination_hostgroup));
        }
        table
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The destination in the row of that user, or else in the row of any user.
    pub(super) fn find(&self, user: &str, schema: &[u8], flag: u32) -> Option<HostgroupId> {
        let of = |user: &str| {
            let flags = self.users.get(user)?.get(schema)?;
            flags.iter().find(|(known, _)| *known == flag).map(|(_, hostgroup)| *hostgroup)
        };
        of(user).or_else(|| of(""))
    }

    pub(super) fn memory_usage(&self) -> usize {
        const A_ROW: usize = 96;
        self.rows * A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_row_goes_before_that_of_any() {
        let row = |user: &str, schema: &str, flag_in, hostgroup| FastRoutingRow {
            username: user.to_owned(),
            schemaname: schema.to_owned(),
            flag_in,
            destination_hostgroup: HostgroupId(hostgroup),
            comment: String::new(),
        };
        let table = FastRouting::new(&[row("a", "s", 0, 1), row("", "s", 0, 2), row("a", "s", 3, 3)]);
        assert_eq!(table.find("a", b"s", 0), Some(HostgroupId(1)));
        assert_eq!(table.find("b", b"s", 0), Some(HostgroupId(2)));
        assert_eq!(table.find("a", b"s", 3), Some(HostgroupId(3)));
        assert_eq!(table.find("a", b"t", 0), None);
        assert_eq!(table.find("b", b"s", 3), None);
    }
}
