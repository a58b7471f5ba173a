#!/bin/bash
# The tests that come with the Go module github.com/go-sql-driver/mysql.
set -euo pipefail
version=v1.9.3
source=$COMPAT_DIR/$version

install() {
  [ ! -x "$source/tests" ] || return 0
  rm -rf "$source"
  mkdir -p "$source"
  # The module is fetched like any dependency; its tests are compiled in a copy, because the module cache is
  # read-only.
  local fetched
  fetched=$(cd "$source" && go mod download -json "github.com/go-sql-driver/mysql@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp -r "$fetched/." "$source"
  chmod -R u+w "$source"
  (cd "$source" && go test -c -o tests .)
}

run() {
  local admin=(mariadb "-h$1" "-P$2" "-u$3" "-p$4")
  "${admin[@]}" -e 'CREATE DATABASE IF NOT EXISTS gotest'
  cd "$source"
  # One by one, so that a test that hangs or ends the program does not affect the others. Unit tests need no
  # server. Left out: TestConnectorReturnsTimeout, which connects to a public address.
  local name
  for name in $(./tests -test.list '^Test' | grep -vx TestConnectorReturnsTimeout); do
    MYSQL_TEST_ADDR=$1:$2 MYSQL_TEST_USER=$3 MYSQL_TEST_PASS=$4 \
      timeout 600 ./tests -test.v -test.timeout 590s -test.run "^$name\$" > "$COMPAT_DIR/output" 2>&1 ||
      cat "$COMPAT_DIR/output" >&2
    if grep -q '^ *--- ' "$COMPAT_DIR/output"; then
      sed -nE 's/^ *--- (PASS|FAIL|SKIP): ([^ ]+) .*/\1\t\2/p' "$COMPAT_DIR/output" |
        sed -E 's/^PASS/pass/; s/^FAIL/fail/; s/^SKIP/skip/'
    else
      printf 'crash\t%s\n' "$name"
    fi
  done
}

"$@"
