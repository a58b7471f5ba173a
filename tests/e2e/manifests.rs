//! The manifests in `examples/kubernetes` and `examples/compose` are valid, and the configurations in them can be started.
//!
//! `NARROWS_SKIP_DRIVERS=1` skips them too: what reads the schemas comes from PyPI.

use std::path::Path;
use std::process::Command;

#[test]
fn manifests_are_valid_and_fit_the_image() {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("the manifests are skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/manifests/bin/python");
    let output = Command::new(&python)
        .arg(root.join("tests/manifests/check.py"))
        .arg(env!("CARGO_BIN_EXE_narrows"))
        .output()
        .unwrap_or_else(|error| {
            panic!("{}: {error}: scripts/setup.sh drivers installs it", python.display())
        });
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}
