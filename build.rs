//! Tells the program its commit, profile and target, for `narrows --version`.
//!
//! The commit is the environment variable NARROWS_COMMIT, which those set who build from an archive; or else the one that
//! git has checked out; or else `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NARROWS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("NARROWS_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(checked_out).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=NARROWS_COMMIT={commit}");
    println!("cargo::rustc-env=NARROWS_PROFILE={}", profile());
    println!("cargo::rustc-env=NARROWS_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

/// The commit that git has checked out, if this folder is the top of a repository: an archive may be unpacked within
/// another repository.
fn checked_out() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let here = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    if Path::new(&root).canonicalize().ok()? != Path::new(&here).canonicalize().ok()? {
        return None;
    }
    // HEAD changes when another branch is checked out, its log with each commit.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(line).filter(|line| !line.is_empty())
}

/// The profile's own name: Cargo's variable PROFILE has that of the profile that it inherits from. It is the folder of
/// the target directory that contains `build/PACKAGE/out`.
fn profile() -> String {
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
