#!/bin/bash
# shared: 6
# mariadb: --character-set-server=latin1 --default-storage-engine=MyISAM
# The programs of the servers' own test suites: main of MariaDB's, of Debian's package mariadb-test-data, and t of MySQL's, of the
# package mysql-testsuite of Debian sid.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
sid=/opt/mysql9-testsuite

install() {
  [ -d /usr/share/mysql/mysql-test/main ] && command -v mysqltest > /dev/null && [ -d $sid/usr/lib/mysql-test/t ] ||
    { echo "the servers' test suites are missing: scripts/setup.sh compat" >&2; return 1; }
}

run() {
  if [ "$COMPAT_SERVER" = mariadb ]; then
    export MTR_HOME=/usr/share/mysql/mysql-test MTR_CLIENT=/usr/bin/mysqltest
    export MTR_TESTS=$MTR_HOME/main
  else
    export MTR_HOME=$sid/usr/lib/mysql-test MTR_CLIENT=$sid/bin/mysqltest
    export MTR_TESTS=$MTR_HOME/t
  fi
  python3 "$here/mtr.py" "$@"
}

"$@"
