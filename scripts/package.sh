#!/bin/bash
# package.sh [NATIVE [STATIC [ARM64]]]: makes everything that is released, in target/package, from programs for this machine's
# glibc, for x86_64 with musl and for arm64. Without arguments these are target/optimized/narrows of scripts/release.sh, and what
# scripts/cross.sh builds. scripts/package-test.sh checks the outcome.
set -euo pipefail
cd "$(dirname "$0")/.."
native=${1:-target/optimized/narrows}
static=${2:-}
arm64=${3:-}
[ "$(uname -m)" = x86_64 ] || { echo "package: needs an x86_64 machine; scripts/deb.sh packs for any" >&2; exit 1; }

if [ -n "$(git status --porcelain 2> /dev/null)" ]; then
  echo "package: warning: there are changes that are not committed; the programs name the commit without them" >&2
fi
if [ -z "$static" ]; then
  scripts/cross.sh x86_64-unknown-linux-musl
  static=target/cross/x86_64-unknown-linux-musl/narrows
fi
if [ -z "$arm64" ]; then
  scripts/cross.sh aarch64-unknown-linux-gnu
  arm64=target/cross/aarch64-unknown-linux-gnu/narrows
fi
# Nothing depends on when it is made.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}
export SOURCE_DATE_EPOCH
rm -rf target/package
mkdir -p target/package
scripts/deb.sh "$native"
scripts/deb.sh "$arm64" "$native"
cp target/debian/narrows_*.deb target/package/
scripts/tarball.sh "$static"
scripts/image.py "$static"
scripts/sbom.py
(cd target/package && sha256sum narrows* > SHA256SUMS && cat SHA256SUMS)
