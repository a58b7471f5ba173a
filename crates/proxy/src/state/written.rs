//! A state as bytes, for the process that continues the session.

use super::{SessionState, Variable};

impl SessionState {
    /// Appends the state to `out`; false if a part of it is too long.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> bool {
        let mut fits = true;
        let mut put = |text: &[u8]| {
            let length = u16::try_from(text.len());
            fits &= length.is_ok();
            out.extend_from_slice(&length.unwrap_or_default().to_le_bytes());
            out.extend_from_slice(text);
        };
        let kinds = [
            u8::from(self.schema.is_some()),
            u8::from(self.multi_statements),
            u8::from(self.results_collation.is_some()),
        ];
        put(&kinds);
        put(self.schema.as_deref().unwrap_or_default());
        put(self.results_collation.as_deref().unwrap_or_default().as_bytes());
        for variable in &self.variables {
            put(variable.slot.as_bytes());
            put(variable.assignment.as_bytes());
        }
        // No variable has this name.
        put(b"");
        for (name, literal) in &self.user_variables {
            put(name.as_bytes());
            put(literal.as_bytes());
        }
        fits
    }

    /// Reads what [`SessionState::write`] wrote; `None` if it is not valid.
    pub(crate) fn read(bytes: &[u8]) -> Option<SessionState> {
        let mut parts = Parts(bytes);
        let [has_schema, multi_statements, has_collation] = *parts.next()?.first_chunk::<3>()?;
        let (schema, collation) = (parts.next()?, parts.text()?);
        let mut state = SessionState {
            schema: (has_schema == 1).then(|| schema.into()),
            multi_statements: multi_statements == 1,
            results_collation: (has_collation == 1).then(|| collation.into()),
            ..SessionState::default()
        };
        loop {
            let slot = parts.text()?;
            if slot.is_empty() {
                break;
            }
            state.variables.push(Variable { slot: slot.into(), assignment: parts.text()?.into() });
        }
        while !parts.0.is_empty() {
            state.user_variables.push((parts.text()?.into(), parts.text()?.into()));
        }
        Some(state)
    }
}

/// Texts with their lengths before them.
struct Parts<'b>(&'b [u8]);

impl<'b> Parts<'b> {
    fn next(&mut self) -> Option<&'b [u8]> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (part, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        self.0 = rest;
        Some(part)
    }

    fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.next()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let mut state = SessionState::after_login("utf8mb4", Some("utf8mb4_bin"));
        state.schema = Some(b"caf\xe9".as_slice().into());
        state.set_literal("sql_mode", "'ANSI'");
        state.set_user_variable("a", "'1'");
        state.set_user_variable("b", "2");
        for state in [SessionState::default(), state] {
            let mut bytes = Vec::new();
            assert!(state.write(&mut bytes));
            assert_eq!(SessionState::read(&bytes), Some(state));
            for length in 0..bytes.len() {
                // Truncated bytes give another state, or none, but no panic.
                let _ = SessionState::read(bytes.get(..length).unwrap_or_default());
            }
        }
        let mut state = SessionState::default();
        state.set_user_variable("long", &"x".repeat(70_000));
        assert!(!state.write(&mut Vec::new()));
    }
}
