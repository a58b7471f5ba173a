#!/bin/bash
# deb.sh [program [describer]]: packs a program (target/optimized/narrows, of scripts/release.sh) with its units, manual pages,
# completions and documents into target/debian/narrows_VERSION_ARCH.deb. The package is for the program's architecture. If this
# machine cannot run it, the describer is the same version for this machine, which writes the manual pages.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/optimized/narrows}
describer=${2:-$program}
die() { echo "deb: $*" >&2; exit 1; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
case $(readelf -h "$program" | sed -n 's/^ *Machine: *//p') in
  *X86-64) architecture=amd64 strip=strip dump=objdump ;;
  AArch64) architecture=arm64 strip=aarch64-linux-gnu-strip dump=aarch64-linux-gnu-objdump ;;
  *) die "$program is for an unknown machine" ;;
esac
work=target/debian/$architecture
tree=$work/tree
rm -rf "$work" "target/debian/narrows_${version}_$architecture.deb"
mkdir -p "$tree/DEBIAN" "$work/debian" "$work/manual"

install -D -m 0755 "$program" "$tree/usr/bin/narrows"
$strip --strip-debug "$tree/usr/bin/narrows"
for unit in narrows.service narrows.socket; do
  install -D -m 0644 packaging/$unit "$tree/usr/lib/systemd/system/$unit"
done
install -D -m 0640 packaging/narrows.toml "$tree/etc/narrows/narrows.toml"

scripts/documents.py "$tree/usr/share/doc/narrows"
mv "$tree/usr/share/doc/narrows/LICENSE" "$tree/usr/share/doc/narrows/copyright"
# README.md links to it by its name.
ln -s copyright "$tree/usr/share/doc/narrows/LICENSE"

"$describer" generate-manual "$work/manual"
for page in "$work"/manual/*.1; do
  install -D -m 0644 "$page" "$tree/usr/share/man/man1/$(basename "$page")"
  gzip -9n "$tree/usr/share/man/man1/$(basename "$page")"
done
completions() {
  mkdir -p "$tree/usr/share/$(dirname "$2")"
  "$describer" completions "$1" > "$tree/usr/share/$2"
}
completions bash bash-completion/completions/narrows
completions zsh zsh/vendor-completions/_narrows
completions fish fish/vendor_completions.d/narrows.fish

install -m 0755 packaging/debian/* "$tree/DEBIAN/"
echo /etc/narrows/narrows.toml > "$tree/DEBIAN/conffiles"

if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
  # dpkg-shlibdeps looks for the source package's control file.
  printf 'Source: narrows\n\nPackage: narrows\nArchitecture: any\n' > "$work/debian/control"
  libraries=$(cd "$work" && dpkg-shlibdeps -O tree/usr/bin/narrows | sed -n 's/^shlibs:Depends=//p')
else
  # The libraries of another architecture are not installed here: the newest version of a symbol says which is needed.
  newest=$($dump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
  libraries="libc6 (>= $newest), libgcc-s1 (>= 4.2)"
fi
[ -n "$libraries" ] || die "$program needs no libraries: a static program is not what the package is for"
cat > "$tree/DEBIAN/control" << CONTROL
Package: narrows
Version: $version
Architecture: $architecture
Maintainer: The Narrows developers <narrows@example.org>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: $libraries, adduser, init-system-helpers
Section: database
Priority: optional
Description: proxy for MySQL and MariaDB
 Narrows stands between applications and MySQL or MariaDB servers: many client
 connections go in, few come out. It reads what ProxySQL reads and is
 administered in the same way.
CONTROL
dpkg-deb --root-owner-group --build "$tree" "target/debian/narrows_${version}_$architecture.deb"
