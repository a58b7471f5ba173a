//! The column `active` of a rule: whether it is in force, or takes part in a dry run.

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activity {
    /// Nothing.
    #[default]
    Off,
    /// It decides about statements.
    InForce,
    /// What it would change is counted, and nothing else.
    DryRun,
}

impl Activity {
    /// What the number of the column stands for; `None` for any other number.
    pub fn of_number(number: i64) -> Option<Activity> {
        match number {
            0 => Some(Activity::Off),
            1 => Some(Activity::InForce),
            2 => Some(Activity::DryRun),
            _ => None,
        }
    }

    /// Whether the rule is asked about statements, by the rules in force or by a dry run.
    pub fn is_asked(self) -> bool {
        self != Activity::Off
    }
}
