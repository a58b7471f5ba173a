#!/bin/bash
# SQLAlchemy's own tests of its dialects and engines, with mysqlclient and with PyMySQL. Both switch
# autocommit off.
set -euo pipefail
. "$(dirname "$0")/../python.sh"
version=2.0.44

install() {
  packages pytest==8.4.2 pytest-timeout==2.4.0 "SQLAlchemy==$version" mysqlclient==2.2.7 PyMySQL==1.1.2 cryptography==45.0.7
  sources SQLAlchemy $version
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" \
    -e 'CREATE DATABASE IF NOT EXISTS alchemy; CREATE DATABASE IF NOT EXISTS test_schema; CREATE DATABASE IF NOT EXISTS test_schema_2'
  cd "$COMPAT_DIR/$version"
  local driver
  for driver in mysqldb pymysql; do
    { "$COMPAT_DIR/python/bin/python" -m pytest -v --timeout 300 -p no:cacheprovider -p no:warnings --maxfail 1000 \
      --dburi "mysql+$driver://$3:$4@$1:$2/alchemy?charset=utf8mb4" \
      test/dialect/test_suite.py test/dialect/mysql test/engine/test_transaction.py test/engine/test_reflection.py || true; } |
      tee /dev/stderr | outcomes_of_pytest | sed -E "s/\t/\t$driver /; s/_(mysql|mariadb)\\+[a-z]+_[0-9_]+//"
  done
}

"$@"
