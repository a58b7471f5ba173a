#!/bin/bash
# deb.sh [program]: packs the program (target/optimized/narrows, of scripts/release.sh), its units and its pages into
# target/debian/narrows_VERSION_ARCH.deb.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/optimized/narrows}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
tree=target/debian/tree
rm -rf target/debian
mkdir -p $tree/DEBIAN target/debian/debian

install -D -m 0755 "$program" $tree/usr/bin/narrows
strip --strip-debug $tree/usr/bin/narrows
for unit in narrows.service narrows.socket; do
  install -D -m 0644 packaging/$unit $tree/usr/lib/systemd/system/$unit
done
install -D -m 0640 packaging/narrows.toml $tree/etc/narrows/narrows.toml
for page in README.md CHANGELOG.md docs/*.md; do
  install -D -m 0644 "$page" "$tree/usr/share/doc/narrows/$(basename "$page")"
done
install -D -m 0644 LICENSE $tree/usr/share/doc/narrows/copyright
install -m 0755 packaging/debian/* $tree/DEBIAN/
echo /etc/narrows/narrows.toml > $tree/DEBIAN/conffiles

# dpkg-shlibdeps looks for the source package's control file.
printf 'Source: narrows\n\nPackage: narrows\nArchitecture: any\n' > target/debian/debian/control
libraries=$(cd target/debian && dpkg-shlibdeps -O tree/usr/bin/narrows | sed -n 's/^shlibs:Depends=//p')
cat > $tree/DEBIAN/control << CONTROL
Package: narrows
Version: $version
Architecture: $architecture
Maintainer: The Narrows developers <narrows@example.org>
Installed-Size: $(du -sk --exclude=DEBIAN $tree | cut -f1)
Depends: $libraries, adduser, init-system-helpers
Section: database
Priority: optional
Description: proxy for MySQL and MariaDB
 Narrows stands between applications and MySQL or MariaDB servers: many client
 connections go in, few come out. It reads what ProxySQL reads and is
 administered in the same way.
CONTROL
dpkg-deb --root-owner-group --build $tree "target/debian/narrows_${version}_$architecture.deb"
