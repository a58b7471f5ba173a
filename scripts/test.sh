#!/bin/bash
# test.sh: installs what the tests need and runs them all.
#   NARROWS_SKIP_DRIVERS=1  without the drivers and their toolchains (Go, Node.js, Java, Python)
#   NARROWS_SKIP_MYSQL9=1   without MySQL 9
#   FUZZ_ITERATIONS=N       how long the short fuzz run is (make fuzz runs longer, guided by coverage, on nightly Rust)
set -euo pipefail
cd "$(dirname "$0")/.."

needed=(rust servers etcd load metrics)
[ "${NARROWS_SKIP_DRIVERS:-}" = 1 ] || needed+=(drivers)
[ "${NARROWS_SKIP_MYSQL9:-}" = 1 ] || needed+=(mysql9)
scripts/setup.sh "${needed[@]}"

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
# Many tests wait for time to pass, so there is work for more threads than cores.
cargo test --workspace -- --skip chaos::clients --test-threads "$(($(nproc) + 2))"
# Faults last as long as the servers' own limits, and clients are watched during that time: each of these runs with
# nothing alongside. With --workspace, as above, everything is built already.
cargo test --workspace --test e2e chaos::clients -- --test-threads 1
# Instructions are counted with the release build.
cargo test --release -p narrows-sql --test instructions -- --nocapture
# The short fuzz run: feeds mutated packets to every target's function, on stable Rust.
FUZZ_ITERATIONS=${FUZZ_ITERATIONS:-100000} cargo test -p narrows-wire --test mutations
