//! Which statements change what new sessions of a server begin with, and open ones keep as it was.

use crate::set::{Assignment, OtherSet, Scope, TransactionScope, for_one_statement, parse};
use crate::token::{Escapes, Lexer, TokenKind};
use crate::word_at;

/// What a statement may change of what sessions and logins take over from their server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangedDefaults {
    /// Global variables, or the character set of a schema: what a reset, and choosing the schema again, take over.
    Sessions,
    /// Privileges, roles, passwords: what a login takes over.
    Logins,
}

/// What one statement may change of that, if it succeeds. What routines and prepared texts do is not seen.
#[must_use]
pub fn changed_defaults(text: &[u8]) -> Option<ChangedDefaults> {
    let word = |index| word_at(text, index);
    let object = match &*word(0) {
        b"SET" if *word(1) == *b"STATEMENT" => {
            return for_one_statement(text, Escapes::Backslash).and_then(|it| changed_defaults(it.text));
        }
        b"SET" => return changed_by_set(text),
        b"GRANT" | b"REVOKE" => return Some(ChangedDefaults::Logins),
        b"FLUSH" => {
            let names_them = (1..4).any(|index| *word(index) == *b"PRIVILEGES");
            return names_them.then_some(ChangedDefaults::Logins);
        }
        b"CREATE" if *word(1) == *b"OR" => word(3),
        b"CREATE" | b"ALTER" | b"DROP" | b"RENAME" => word(1),
        _ => return None,
    };
    match &*object {
        b"DATABASE" | b"SCHEMA" => Some(ChangedDefaults::Sessions),
        b"USER" | b"ROLE" => Some(ChangedDefaults::Logins),
        _ => None,
    }
}

/// Whether a statement names several things, of which some may have been changed before an error.
#[must_use]
pub fn names_several(text: &[u8]) -> bool {
    let mut lexer = Lexer::new(text, Escapes::Backslash);
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End => return false,
            _ if token.is_symbol(b',') => return true,
            _ => {}
        }
    }
}

fn changed_by_set(text: &[u8]) -> Option<ChangedDefaults> {
    // What is not understood may set anything.
    let Ok(assignments) = parse(text) else { return Some(ChangedDefaults::Sessions) };
    assignments.iter().find_map(|assignment| match assignment {
        Assignment::System { scope: Scope::Global | Scope::Persist, .. }
        | Assignment::Transaction { scope: TransactionScope::Global, .. } => Some(ChangedDefaults::Sessions),
        Assignment::Other(OtherSet::DefaultRole | OtherSet::Password) => Some(ChangedDefaults::Logins),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_things_have_commas_between_them() {
        for (text, several) in [
            ("DROP USER a, b", true),
            ("SET GLOBAL a = 1 /* , */", false),
            ("SET GLOBAL a = ','", false),
            ("set global a = 1,b = 2", true),
        ] {
            assert_eq!(names_several(text.as_bytes()), several, "{text}");
        }
    }

    #[test]
    fn what_new_sessions_begin_with_is_changed_by_these() {
        let table: &[(&str, Option<ChangedDefaults>)] = &[
            ("SET GLOBAL sql_mode = ''", Some(ChangedDefaults::Sessions)),
            ("set @@global.time_zone='+01:00', sql_mode=''", Some(ChangedDefaults::Sessions)),
            ("/* x */ SET PERSIST sql_mode = ''", Some(ChangedDefaults::Sessions)),
            ("SET GLOBAL TRANSACTION READ ONLY", Some(ChangedDefaults::Sessions)),
            ("SET PERSIST_ONLY sql_mode = ''", None),
            ("SET SESSION sql_mode = ''", None),
            ("SET NAMES latin1", None),
            ("ALTER DATABASE d CHARACTER SET latin1", Some(ChangedDefaults::Sessions)),
            ("alter schema character set latin1", Some(ChangedDefaults::Sessions)),
            ("CREATE DATABASE IF NOT EXISTS d", Some(ChangedDefaults::Sessions)),
            ("CREATE OR REPLACE DATABASE d", Some(ChangedDefaults::Sessions)),
            ("DROP SCHEMA d", Some(ChangedDefaults::Sessions)),
            ("GRANT SELECT ON d.* TO u", Some(ChangedDefaults::Logins)),
            ("REVOKE ALL ON d.* FROM u", Some(ChangedDefaults::Logins)),
            ("/*!80000 REVOKE ALL ON d.* FROM u */", Some(ChangedDefaults::Logins)),
            ("/*M!100000 grant r TO u */", Some(ChangedDefaults::Logins)),
            ("/*!50700 ALTER */ /*! USER */ u ACCOUNT LOCK", Some(ChangedDefaults::Logins)),
            ("SET STATEMENT max_statement_time = 5 FOR GRANT r TO u", Some(ChangedDefaults::Logins)),
            ("SET STATEMENT sql_mode = '' FOR SELECT 1", None),
            ("/*!50700 SET GLOBAL sql_mode = '' */", Some(ChangedDefaults::Sessions)),
            ("CREATE USER u", Some(ChangedDefaults::Logins)),
            ("CREATE OR REPLACE USER u", Some(ChangedDefaults::Logins)),
            ("ALTER USER u IDENTIFIED BY 'x'", Some(ChangedDefaults::Logins)),
            ("RENAME USER u TO v", Some(ChangedDefaults::Logins)),
            ("DROP ROLE r", Some(ChangedDefaults::Logins)),
            ("SET DEFAULT ROLE ALL TO u", Some(ChangedDefaults::Logins)),
            ("SET PASSWORD = 'x'", Some(ChangedDefaults::Logins)),
            ("FLUSH PRIVILEGES", Some(ChangedDefaults::Logins)),
            ("FLUSH NO_WRITE_TO_BINLOG PRIVILEGES", Some(ChangedDefaults::Logins)),
            ("FLUSH TABLES", None),
            ("CREATE TABLE user (a INT)", None),
            ("DROP TABLE role", None),
            ("RENAME TABLE a TO b", None),
            ("SELECT 1", None),
        ];
        for (text, changed) in table {
            assert_eq!(changed_defaults(text.as_bytes()), *changed, "{text}");
        }
    }
}
