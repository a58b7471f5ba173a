//! The manifests in `examples/kubernetes` and `examples/compose` and the Helm chart are valid, and the configurations in them can be
//! started.
//!
//! `NARROWS_SKIP_DRIVERS=1` skips them too: what reads the schemas comes from PyPI, and Helm from the Go module proxy.

use std::path::Path;
use std::process::Command;

#[test]
fn manifests_are_valid_and_fit_the_image() {
    passes("check.py");
}

#[test]
fn the_chart_makes_valid_manifests_and_refuses_wrong_values() {
    passes("chart.py");
}

fn passes(script: &str) {
    if std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1") {
        eprintln!("the manifests are skipped: NARROWS_SKIP_DRIVERS=1");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/manifests/bin/python");
    let output = Command::new(&python)
        .arg(root.join("tests/manifests").join(script))
        .arg(env!("CARGO_BIN_EXE_narrows"))
        .output()
        .unwrap_or_else(|error| {
            panic!("{}: {error}: scripts/setup.sh drivers installs it", python.display())
        });
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}
