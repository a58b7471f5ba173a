#!/bin/bash
# test.sh: installs what the tests need and runs them all.
#   NARROWS_SKIP_DRIVERS=1  without the drivers and their toolchains (Go, Node.js, Java, Python)
#   NARROWS_SKIP_MYSQL9=1   without MySQL 9
#   NARROWS_SKIP_FUZZ=1     without the short fuzz run, which needs nightly Rust
set -euo pipefail
cd "$(dirname "$0")/.."

needed=(rust servers load)
[ "${NARROWS_SKIP_DRIVERS:-}" = 1 ] || needed+=(drivers)
[ "${NARROWS_SKIP_MYSQL9:-}" = 1 ] || needed+=(mysql9)
scripts/setup.sh "${needed[@]}"

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
cargo test --workspace
[ "${NARROWS_SKIP_FUZZ:-}" = 1 ] || FUZZ_SECONDS=${FUZZ_SECONDS:-5} scripts/fuzz.sh
