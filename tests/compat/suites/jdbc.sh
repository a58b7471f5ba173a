#!/bin/bash
# Connector/J and MariaDB Connector/J, each with 18 sets of options: see jdbc/Suite.java.
set -euo pipefail
here=$(cd "$(dirname "$0")/../jdbc" && pwd)

install() {
  cat "$here"/* > "$COMPAT_DIR/wanted"
  ! cmp -s "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed" || return 0
  mvn -q -B -f "$here/pom.xml" -DbuildDirectory="$COMPAT_DIR/build" dependency:copy-dependencies \
    -DoutputDirectory="$COMPAT_DIR/jars" -DincludeScope=runtime >&2
  javac -encoding UTF-8 -d "$COMPAT_DIR/classes" -cp "$COMPAT_DIR/jars/*" "$here"/*.java
  cp "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed"
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'DROP DATABASE IF EXISTS jdbc; CREATE DATABASE jdbc'
  java -cp "$COMPAT_DIR/classes:$COMPAT_DIR/jars/*" Suite "$@"
}

"$@"
