#!/bin/bash
# package-test.sh: checks everything that scripts/package.sh has made: each artefact is installed or unpacked, started, and serves
# statements of a real MariaDB; `narrows ping` finds it. Needs root, or user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { echo "package-test: $*" >&2; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=narrows-$version
(cd target/package && sha256sum --check --quiet SHA256SUMS)
files=(SHA256SUMS "$name-image-amd64.tar" "$name-x86_64-linux.tar.gz" "$name.cdx.json" "narrows_${version}_amd64.deb" "narrows_${version}_arm64.deb")
[ "$(ls target/package)" = "$(printf '%s\n' "${files[@]}" | sort)" ] || die "other files are expected: $(ls target/package)"

target/manifests/bin/python - "target/package/$name.cdx.json" << 'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1]).read()
mistake = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if mistake:
    sys.exit(f"package-test: {sys.argv[1]}: {mistake}")
for crate in ["rustls", "rusqlite", "libsqlite3-sys", "aws-lc-sys", "zstd-sys", "tokio"]:
    if f'"pkg:cargo/{crate}@' not in text:
        sys.exit(f"package-test: {crate} is compiled in, and is not in {sys.argv[1]}")
print("the list of components is valid")
PYTHON

# Whatever depends on the time or on the order of files would show here.
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
for file in "$name.cdx.json" "$name-image-amd64.tar"; do cp "target/package/$file" "$again/"; done
tar -xzf "target/package/$name-x86_64-linux.tar.gz" -C "$again" "$name-x86_64-linux/bin/narrows"
static=$again/$name-x86_64-linux/bin/narrows
scripts/sbom.py > /dev/null
scripts/image.py "$static" > /dev/null
for file in "$name.cdx.json" "$name-image-amd64.tar"; do
  cmp "target/package/$file" "$again/$file" || die "$file is another one when it is made again"
done

# All programs are of one commit.
for architecture in amd64 arm64; do
  dpkg-deb --extract "target/package/narrows_${version}_$architecture.deb" "$again/$architecture"
done
commit_of() { "$@" --version | sed -n 's/.*(commit \([^,]*\),.*/\1/p'; }
commits="$(commit_of "$static") $(commit_of "$again/amd64/usr/bin/narrows")
  $(commit_of qemu-aarch64-static -L /usr/aarch64-linux-gnu "$again/arm64/usr/bin/narrows")"
[ "$(printf '%s\n' $commits | sort -u | wc -l)" = 1 ] || die "the programs are of several commits:" $commits

scripts/deb-test.sh
scripts/artefact-test.py "$static" "target/package/$name-x86_64-linux.tar.gz" "target/package/$name-image-amd64.tar" \
  "target/package/narrows_${version}_arm64.deb"
