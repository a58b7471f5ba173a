#!/bin/bash
# The tests of PyMySQL, from the last version whose source distribution has them.
set -euo pipefail
. "$(dirname "$0")/../python.sh"
version=0.10.1

install() {
  packages pytest==8.4.2 pytest-timeout==2.4.0 cryptography==45.0.7
  sources PyMySQL $version
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'CREATE DATABASE IF NOT EXISTS test1; CREATE DATABASE IF NOT EXISTS test2'
  cd "$COMPAT_DIR/$version"
  printf '[{"host": "%s", "port": %s, "user": "%s", "passwd": "%s", "db": "test1", "use_unicode": true, "local_infile": true},
    {"host": "%s", "port": %s, "user": "%s", "passwd": "%s", "db": "test2"}]' "$@" "$@" > pymysql/tests/databases.json
  { "$COMPAT_DIR/python/bin/python" -m pytest -v --timeout 300 -p no:cacheprovider pymysql/tests || true; } |
    tee /dev/stderr | outcomes_of_pytest
}

"$@"
