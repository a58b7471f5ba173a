#!/bin/bash
# install-mysql9.sh [FOLDER]
# Unpacks MySQL 9 of Debian sid into FOLDER (/opt/mysql9), beside whatever the machine has installed: nothing of the
# system is changed, no maintainer script runs, and even libc is sid's own. Launchers are left in FOLDER/bin; the
# sandbox takes the folder: narrows sandbox --server FOLDER. Does nothing when that has been done before.
# Needs Debian's apt, dpkg and debian-archive-keyring (signatures are checked against it), and a writable FOLDER.
# PACKAGES: what to unpack, with all it depends on. SUITE: another suite than sid.
set -euo pipefail

folder=${1:-/opt/mysql9}
packages=${PACKAGES:-mysql-server-core mysql-client-core}
suite=${SUITE:-sid}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")

mirror() {
  local uri
  uri=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' | head -n 1 || true)
  echo "${uri:-http://deb.debian.org/debian}"
}

# An apt with its own state, in which nothing is installed: it downloads all dependencies.
write_apt_configuration() {
  mkdir -p "$work"/{etc,lists/partial,archives/partial,log}
  : > "$work/status"
  echo "deb [signed-by=$keyring] ${MIRROR:-$(mirror)} $suite main" > "$work/sources.list"
  cat > "$work/apt.conf" <<APT
Dir::Etc "$work/etc";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::Etc::TrustedParts "-";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::Status "$work/status";
Dir::Cache "$work";
Dir::Cache::Archives "$work/archives";
Dir::Log "$work/log";
APT::Architecture "$(dpkg --print-architecture)";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
Debug::NoLocking "true";
APT
}

unpack() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  write_apt_configuration
  export APT_CONFIG=$work/apt.conf DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # shellcheck disable=SC2086 # a list of packages
  apt-get install -y -qq --download-only $packages > "$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }
  # base-files, which is not among the dependencies every week, would make bin a link into the tree, where
  # launchers would replace the programs they launch. Of its links only this one is needed.
  rm -f "$work"/archives/base-files_*.deb
  ln -sfn usr/lib64 "$folder/lib64"
  printf '%s\0' "$work"/archives/*.deb | xargs -0 -n 1 -P "$(nproc)" sh -c 'dpkg-deb -x "$1" "$0"' "$folder"
  rm -rf "$folder"/usr/share/{doc,man,locale,info}
}

# Programs are run through the dynamic linker of their own tree, with the path of its libraries.
write_launcher() {
  local program=$1 options="" path
  for path in usr/sbin usr/bin usr/lib/mysql-test/bin; do [ -x "$folder/$path/$program" ] && break; done
  case $program in
    mysqld) options='--basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql"
         --character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin"' ;;
    *) options='--character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin"' ;;
  esac
  cat > "$folder/bin/$program" <<LAUNCHER
#!/bin/bash
# Written by install-mysql9.sh.
root=\$(cd "\$(dirname "\$(readlink -f "\$0")")/.." && pwd)
# Without this the system's own /etc/mysql/my.cnf would be read; an option about defaults must come first.
first=(--no-defaults)
case \${1-} in --no-defaults|--defaults-*) first=("\$1"); shift ;; esac
options=($options)
# mysqld only prints its version if it has no other options.
[ "\$*" != --version ] || options=()
exec "\$root"/$libraries/ld-linux-*.so.* --argv0 "\$root/$path/$program" --library-path "\$root/$libraries" \\
  "\$root/$path/$program" "\${first[@]}" "\${options[@]}" "\$@"
LAUNCHER
  chmod +x "$folder/bin/$program"
}

mkdir -p "$folder"
[ -x "$folder/usr/sbin/mysqld" ] || unpack
mkdir -p "$folder/bin"
for program in mysqld mysql mysqldump mysqladmin mysqlslap; do write_launcher "$program"; done
[ ! -x "$folder/usr/lib/mysql-test/bin/mysqltest" ] || write_launcher mysqltest
"$folder/bin/mysqld" --version
