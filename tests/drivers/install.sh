#!/bin/bash
# install.sh [python|tracing|go|node|java|c|ansible...]
# Puts the drivers, in pinned versions and from their ordinary registries, under target/drivers. What is
# installed in the right version stays. scripts/setup.sh drivers installs the toolchains themselves.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/drivers
mkdir -p "$target"

# A file in the folder records what has been installed there: it is compared as a whole.
is_current() { [ -f "$1/installed" ] && cmp -s "$1/installed" "$2"; }
is_now() { cp "$2" "$1/installed"; }

install_python() {
  is_current "$target/python" "$here/python/requirements.txt" && return
  rm -rf "$target/python"
  python3 -m venv "$target/python"
  "$target/python/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt"
  is_now "$target/python" "$here/python/requirements.txt"
}

# Apart from the drivers: OpenTelemetry brings its own versions of much.
install_tracing() {
  is_current "$target/tracing" "$here/tracing/requirements.txt" && return
  rm -rf "$target/tracing"
  python3 -m venv "$target/tracing"
  "$target/tracing/bin/pip" install -q --disable-pip-version-check -r "$here/tracing/requirements.txt"
  is_now "$target/tracing" "$here/tracing/requirements.txt"
}

install_go() {
  mkdir -p "$target/go"
  find "$here/go-mysql" -type f -print0 | sort -z | xargs -0 cat > "$target/go/wanted"
  is_current "$target/go" "$target/go/wanted" && return
  (cd "$here/go-mysql" && go build -o "$target/go/checks" . && go build -o "$target/go/chatter" ./chatter &&
    go build -o "$target/go/logins" ./logins && go build -o "$target/go/scrape" ./scrape)
  is_now "$target/go" "$target/go/wanted"
}

# It includes half a gigabyte of collections, of which only one is needed.
install_ansible() {
  is_current "$target/ansible" "$here/ansible/requirements.txt" && return
  rm -rf "$target/ansible"
  python3 -m venv "$target/ansible"
  "$target/ansible/bin/pip" install -q --disable-pip-version-check --no-compile -r "$here/ansible/requirements.txt"
  find "$target"/ansible/lib/python3*/site-packages/ansible_collections -mindepth 2 -maxdepth 2 -type d \
    ! -path '*/community/proxysql' -exec rm -rf {} +
  is_now "$target/ansible" "$here/ansible/requirements.txt"
}

install_node() {
  is_current "$target/node" "$here/node-mysql2/package-lock.json" && return
  mkdir -p "$target/node"
  cp "$here"/node-mysql2/package*.json "$target/node"
  npm ci --silent --no-audit --no-fund --prefix "$target/node"
  is_now "$target/node" "$here/node-mysql2/package-lock.json"
}

# The client library is the one from Debian.
install_c() {
  mkdir -p "$target/c"
  is_current "$target/c" "$here/mariadb-c/checks.c" && return
  # shellcheck disable=SC2046 # several flags
  cc -O1 -Wall -o "$target/c/checks" "$here/mariadb-c/checks.c" $(pkg-config --cflags --libs libmariadb)
  is_now "$target/c" "$here/mariadb-c/checks.c"
}

install_java() {
  mkdir -p "$target/java"
  cat "$here"/java/* > "$target/java/wanted"
  is_current "$target/java" "$target/java/wanted" && return
  mvn -q -B -f "$here/java/pom.xml" -DbuildDirectory="$target/java/build" dependency:copy-dependencies \
    -DoutputDirectory="$target/java/jars" -DincludeScope=runtime > "$target/java/maven.log" ||
    { cat "$target/java/maven.log" >&2; exit 1; }
  javac -encoding UTF-8 -d "$target/java/classes" -cp "$target/java/jars/*" "$here"/java/*.java
  is_now "$target/java" "$target/java/wanted"
}

# Tests run concurrently, so only one installer runs at a time.
exec 9> "$target/lock"
flock 9
[ $# -gt 0 ] || set -- python tracing go node java c ansible
for what in "$@"; do
  case $what in
    python | tracing | go | node | java | c | ansible) "install_$what" ;;
    *) echo "install.sh: unknown: $what" >&2; exit 2 ;;
  esac
done
