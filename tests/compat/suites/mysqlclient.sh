#!/bin/bash
# The tests in the source of mysqlclient.
set -euo pipefail
. "$(dirname "$0")/../python.sh"
version=2.2.7

install() {
  packages "mysqlclient==$version" pytest==8.4.2
  sources mysqlclient $version
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'CREATE DATABASE IF NOT EXISTS mysqldb_test'
  printf '[MySQLdb-tests]\nhost = %s\nport = %s\nuser = %s\npassword = %s\ndatabase = mysqldb_test\n' "$@" \
    > "$COMPAT_DIR/$COMPAT_VIA.cnf"
  printf 'default-character-set = utf8mb4\nlocal-infile = 1\n' >> "$COMPAT_DIR/$COMPAT_VIA.cnf"
  cd "$COMPAT_DIR/$version"
  { TESTDB=$COMPAT_DIR/$COMPAT_VIA.cnf "$COMPAT_DIR/python/bin/pytest" -v -p no:cacheprovider tests || true; } |
    tee /dev/stderr | outcomes_of_pytest
}

"$@"
