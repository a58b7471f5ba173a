#!/bin/bash
# deb-test.sh: tests the package built by scripts/deb.sh in a temporary copy of this machine's file system (a
# namespace with an overlay, of which only the upper layer is written): it is installed, started as its unit
# says, upgraded while clients connect, removed, purged. Needs root, or user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "deb-test: $*" >&2; exit 1; }

package=$(ls -t target/debian/narrows_*_"$(dpkg --print-architecture)".deb 2> /dev/null | head -n 1)
[ -n "$package" ] || die "no package in target/debian: run scripts/deb.sh"

if [ "${1:-}" != inside ]; then
  dpkg-deb --info "$package" > /dev/null
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  as=()
  [ "$(id -u)" = 0 ] || as=(--map-root-user)
  unshare --mount --pid --fork --kill-child "${as[@]}" "$0" inside "$folder" "$PWD/$package"
  exit
fi

folder=$2
package=$3
mount -t tmpfs none "$folder"
mkdir "$folder"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount -t proc proc "$folder/root/proc"
mount --rbind /dev "$folder/root/dev"
# There is no service manager here: the package's scripts detect that, and the commands of the units are run
# by hand below.
mount -t tmpfs none "$folder/root/run"
cp "$package" "$folder/root/narrows.deb"

cat > "$folder/root/check.sh" << 'CHECK'
set -euo pipefail
die() { echo "deb-test: $*" >&2; tail -n 20 /narrows.log >&2 || true; exit 1; }
value() { sed -n "s/^$1=//p" /usr/lib/systemd/system/narrows.service; }
until_true() { for _ in $(seq 200); do "$@" > /dev/null 2>&1 && return; sleep 0.05; done; die "not in time: $*"; }

dpkg -i /narrows.deb > /dev/null
[ "$(stat -c %U:%a /var/lib/narrows)" = narrows:700 ] || die "the data folder is not private"
[ "$(stat -c %G:%a /etc/narrows/narrows.toml)" = narrows:640 ] || die "the configuration is not private"
password=$(sed -n 's/^admin_credentials = "admin:\(.*\)"$/\1/p' /etc/narrows/narrows.toml)
[ "${#password}" = 36 ] || die "the administrator has no password of its own: $password"
systemd-analyze verify /usr/lib/systemd/system/narrows.service /usr/lib/systemd/system/narrows.socket
narrows check /etc/narrows/narrows.toml
for page in narrows narrows-ping narrows-check; do
  # The overlay has this machine's settings, which may leave out manual pages.
  [ -e /usr/share/man/man1/$page.1.gz ] || { dpkg -c /narrows.deb | grep -q "/man1/$page.1.gz" || die "no manual page: $page"; }
  dpkg --fsys-tarfile /narrows.deb | tar -xO ./usr/share/man/man1/$page.1.gz | gzip -d > /page.1
  MANWIDTH=80 man --warnings -l /page.1 2>&1 > /page.txt | grep . && die "the manual page $page is not in order"
  grep -q -i "^$page(1)" /page.txt || die "the manual page $page is empty"
done
# The links between the documents lead somewhere. This machine's settings may leave them out, too.
mkdir /documents
dpkg --fsys-tarfile /narrows.deb | tar -x -C /documents --strip-components=5 ./usr/share/doc/narrows
[ -s /documents/docs/restart.md ] || die "there are no documents"
grep -o -r --include='*.md' '](\([^)#:]*\)' /documents | sed 's/:](/ /' | while read -r page link; do
  [ -z "$link" ] || [[ $link = http* ]] || [ -e "$(dirname "$page")/$link" ] || die "$page: $link leads nowhere"
done
# A shell offers what begins with what is typed.
offered=$(bash -c '. /usr/share/bash-completion/completions/narrows; COMP_WORDS=(narrows pi); COMP_CWORD=1; _narrows narrows pi narrows; echo "${COMPREPLY[*]}"')
[ "$offered" = ping ] || die "bash completes narrows pi to: $offered"
for file in zsh/vendor-completions/_narrows fish/vendor_completions.d/narrows.fish; do
  [ -s /usr/share/$file ] || die "no completions: $file"
done
touch /begun

# This machine's ports may be taken.
sed -i "s/^interfaces = .*/interfaces = \"127.0.0.1:$PORT\"/; s/^mysql_ifaces = .*/mysql_ifaces = \"127.0.0.1:$ADMIN\"/" /etc/narrows/narrows.toml
printf '[[mysql_users]]\nusername = "app"\npassword = "app"\n' >> /etc/narrows/narrows.toml
as_service() { setpriv --reuid narrows --regid narrows --clear-groups -- "$@"; }
setpriv --reuid narrows --regid narrows --clear-groups -- $(value ExecStart) < /dev/null > /narrows.log 2>&1 &
supervisor=$!
until_true grep -q ' serving interfaces=' /narrows.log
narrows connect-speed -u app -p app -P "$PORT" -c 100 > /dev/null || die "it does not serve"

narrows ping | grep -q answers || die "narrows ping does not find it"
as_service narrows ping --admin --user admin --password "$password" > /dev/null || die "the administrator cannot log in"
# Everything that it writes is in its data folder, which nobody else may read.
written=$(find / -xdev -newer /begun -type f ! -path '/narrows.log' ! -path '/etc/narrows/narrows.toml' ! -path '/var/lib/narrows/*' \
  ! -path '/proc/*' ! -path '/dev/*' ! -path '/tmp/*' -user narrows)
[ -z "$written" ] || die "it has written files of its own elsewhere: $written"
[ -e /var/lib/narrows/narrows.db ] || die "it has written nothing to its data folder"

echo "upgrading while clients connect"
narrows connect-speed -u app -p app -P "$PORT" -c 2000 -t 4 -i 2000 --json > /connects.json &
connects=$!
before=$(readlink /proc/$supervisor/exe)
dpkg -i /narrows.deb > /dev/null
grep -q "^admin_credentials = \"admin:$password\"$" /etc/narrows/narrows.toml || die "an upgrade has changed the password"
# What the package's script requests from a service manager.
for _ in 1 2 3; do as_service $(value ExecReload); done
became() { [ "$(grep -c 'was taken over' /narrows.log)" = 3 ]; }
until_true became
wait $connects || die "clients failed: $(cat /connects.json)"
cat /connects.json
[ "$(readlink /proc/$supervisor/exe)" = "$before" ] || die "the supervisor runs another file: $(readlink /proc/$supervisor/exe)"

echo "stopping and removing"
kill $supervisor
wait $supervisor || die "it did not end in order"
dpkg -r narrows > /dev/null 2>&1
[ ! -e /usr/bin/narrows ] || die "the program is still there"
[ -e /etc/narrows/narrows.toml ] || die "the configuration was removed, and nobody asked for that"
dpkg -P narrows > /dev/null 2>&1
for left in /etc/narrows /var/lib/narrows /usr/share/doc/narrows; do
  [ ! -e $left ] || die "$left is left: $(ls -A $left)"
done
echo "the package installs, serves, upgrades in place and is removed completely"
CHECK
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
PORT=$(free_port) ADMIN=$(free_port) chroot "$folder/root" bash /check.sh
