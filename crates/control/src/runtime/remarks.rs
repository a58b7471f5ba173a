//! Remarks that an answer has as warnings.

use crate::store::{Answer, Warning};

/// The answer with more warnings.
pub(super) fn with_warnings(answer: Answer, more: Vec<Warning>) -> Answer {
    match answer {
        Answer::Done { affected, info, mut warnings } => {
            warnings.extend(more);
            Answer::Done { affected, info, warnings }
        }
        rows => rows,
    }
}

/// A remark as a warning.
pub(super) fn remark(message: String) -> Warning {
    Warning { code: 1105, message }
}
