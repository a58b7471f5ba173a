#!/bin/bash
# run.sh DRIVER HOST PORT USER PASSWORD
# Runs the checks of one driver against a server: prints a line for each, and stops with a failure at the
# first one that fails. The user needs all privileges; everything is done in a schema that is created for the
# run and dropped at its end.
set -euo pipefail
[ $# = 5 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/drivers
# Scripts and sources are in UTF-8, whatever the machine's locale.
export LC_ALL=C.UTF-8
driver=$1
shift
case $driver in
  mariadb-cli) kind=shell ;;
  pymysql) module=pymysql && kind=python ;;
  mysqlclient) module=MySQLdb && kind=python ;;
  connector-python) kind=python ;;
  mariadb-c) kind=c ;;
  php) kind=php ;;
  go-mysql) kind=go ;;
  node-mysql2) kind=node ;;
  connector-j) kind=java && scheme=mysql ;;
  mariadb-java) kind=java && scheme=mariadb ;;
  *) echo "run.sh: unknown driver: $driver" >&2 && exit 2 ;;
esac
case $kind in shell | php) ;; *) "$here/install.sh" $kind ;; esac
case $kind in
  shell) set -- "$here/mariadb-cli/checks.sh" "$@" ;;
  python)
    if [ "$driver" = connector-python ]; then set -- "$target/python/bin/python" "$here/python/prepared.py" "$@"
    else set -- "$target/python/bin/python" "$here/python/checks.py" "$module" "$@"
    fi ;;
  c) set -- "$target/c/checks" "$@" ;;
  php) set -- php "$here/php/checks.php" "$@" ;;
  go) set -- "$target/go/checks" "$@" ;;
  node) set -- env NODE_PATH="$target/node/node_modules" node "$here/node-mysql2/checks.js" "$@" ;;
  java) set -- java -cp "$target/java/classes:$target/java/jars/*" Checks "$scheme" "$@" ;;
esac
# A check that waits forever has failed; the slowest run takes a quarter of this.
exec timeout --kill-after=5 "${CHECKS_SECONDS:-60}" "$@"
