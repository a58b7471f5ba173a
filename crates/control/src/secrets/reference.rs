//! How a reference to a password is written.

use std::path::Path;

use narrows_proxy::snapshot::is_region;

/// Where a password is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// `env:NAME`: in the environment of this process.
    Environment(&'a str),
    /// `file:/path`: what the file has.
    File(&'a Path),
    /// `exec:/program arguments`: what the program writes.
    Program(&'a str),
    /// `aws-iam:` or `aws-iam:REGION`: nowhere; servers get a token in its place.
    Tokens(Option<&'a str>),
}

impl<'a> Reference<'a> {
    /// Reads a text; `None`: it is a password itself.
    ///
    /// # Errors
    /// What is wrong with a reference. The text is not in it: it may be a password after all.
    pub fn parse(text: &'a str) -> Option<Result<Reference<'a>, &'static str>> {
        if let Some(name) = text.strip_prefix("env:") {
            let fits = !name.is_empty() && !name.contains(['=', '\0']);
            return Some(fits.then_some(Reference::Environment(name)).ok_or(NO_NAME));
        }
        if let Some(path) = text.strip_prefix("file:") {
            let fits = path.starts_with('/') && !path.contains('\0');
            return Some(fits.then(|| Reference::File(Path::new(path))).ok_or(NO_PATH));
        }
        if let Some(region) = text.strip_prefix("aws-iam:") {
            let fits = region.is_empty() || is_region(region);
            let region = Some(region).filter(|region| !region.is_empty());
            return Some(fits.then_some(Reference::Tokens(region)).ok_or(NO_REGION));
        }
        let line = text.strip_prefix("exec:")?;
        let fits = line.trim_start().starts_with('/') && !line.contains('\0');
        Some(fits.then_some(Reference::Program(line)).ok_or(NO_PROGRAM))
    }
}

const NO_NAME: &str =
    "it begins with env: and names no variable; write plain: before a password that begins so";
const NO_PATH: &str =
    "it begins with file: and names no absolute path; write plain: before a password that begins so";
const NO_REGION: &str =
    "it begins with aws-iam: and names no region of AWS; write plain: before a password that begins so";
const NO_PROGRAM: &str = "it begins with exec: and names no absolute path of a program; write plain: before a password that begins so";

/// Whether a text says where a password is, and is none itself.
pub fn is_reference(text: &str) -> bool {
    literal(text).is_none()
}

/// The password that a text is itself: what follows `plain:`, or all of it; `None` for a reference.
pub fn literal(text: &str) -> Option<&str> {
    match Reference::parse(text) {
        Some(_) => None,
        None => Some(text.strip_prefix("plain:").unwrap_or(text)),
    }
}
