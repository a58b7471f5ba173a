//! What went wrong, in one line.

use crate::one_line::printable;

/// The error and its causes. A cause that an error has already named is not repeated.
pub fn of(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    // Several mistakes of a file have a line each.
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use narrows_control::control::BeginError;

    #[test]
    fn each_cause_is_named_once() {
        let source = std::io::Error::other("in use");
        let failed = Err::<(), _>(BeginError::Thread(source));
        let error = failed.context("starting").expect_err("it failed");
        let once = "starting: cannot start a thread: in use";
        assert_eq!(format!("{error:#}"), format!("{once}: in use"));
        assert_eq!(super::of(&error), once);
    }
}
