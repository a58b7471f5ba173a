//! Which build of the program this is. There is no date in it, so that the same sources give the same program.

/// The commit that it was built from, or `unknown`; see build.rs.
pub const COMMIT: &str = env!("NARROWS_COMMIT");

/// The line that `--version` prints.
pub fn line() -> String {
    let (version, profile, target) =
        (env!("CARGO_PKG_VERSION"), env!("NARROWS_PROFILE"), env!("NARROWS_TARGET"));
    format!("Narrows version {version} (commit {COMMIT}, {profile}, {target})\n")
}
