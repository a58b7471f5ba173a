#!/bin/bash
# fuzz.sh [target...]: runs the fuzz targets, all of them by default, for FUZZ_SECONDS (30) each.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -d fuzz ]; then echo "fuzz: no targets yet"; exit 0; fi
scripts/setup.sh fuzz
# shellcheck disable=SC2046 # one target a word
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)
for target in "$@"; do
  cargo +nightly fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-30}" -rss_limit_mb=2048
done
