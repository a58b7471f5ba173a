#!/bin/bash
# tarball.sh [program]: packs a static program (of scripts/cross.sh) with its manual pages, completions, units, examples and
# documents into target/package/narrows-VERSION-x86_64-linux.tar.gz. The same files give the same archive.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/cross/x86_64-unknown-linux-musl/narrows}
die() { echo "tarball: $*" >&2; exit 1; }
readelf -l "$program" | grep -q INTERP && die "$program is not static"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=narrows-$version-x86_64-linux
tree=target/package/tree/$name
rm -rf target/package/tree
mkdir -p "$tree"/{bin,etc,man/man1,completions,systemd,doc}
install -m 0755 "$program" "$tree/bin/narrows"
strip --strip-debug "$tree/bin/narrows"
"$tree/bin/narrows" generate-manual "$tree/man/man1"
for shell in bash zsh fish; do "$tree/bin/narrows" completions $shell > "$tree/completions/narrows.$shell"; done
cp packaging/narrows.toml "$tree/etc/narrows.toml"
cp packaging/narrows.service packaging/narrows.socket "$tree/systemd/"
scripts/documents.py "$tree/doc"
cp LICENSE "$tree/"
chmod -R u+w,go+r,go-w "$tree"

# The time of the commit, so that the archive does not depend on when it is made.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -C target/package/tree -c "$name" |
  gzip -9n > "target/package/$name.tar.gz"
rm -rf target/package/tree
ls -l "target/package/$name.tar.gz"
