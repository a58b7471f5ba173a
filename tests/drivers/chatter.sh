#!/bin/bash
# chatter.sh LIBRARY HOST PORT USER PASSWORD SCHEMA
# Connects once as the library does by default and runs the marker statement SELECT 'ready'. Prints the version.
set -euo pipefail
[ $# = 6 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/drivers
export LC_ALL=C.UTF-8
library=$1
case $library in
  pymysql | mysqlclient | sqlalchemy-* | django) kind=python ;;
  go-mysql) kind=go ;;
  node-mysql2) kind=node ;;
  connector-j | mariadb-java | hibernate) kind=java ;;
  mysqli | pdo | laravel*) kind=php ;;
  mysql2 | activerecord) kind=ruby ;;
  *) echo "chatter.sh: unknown: $library" >&2 && exit 2 ;;
esac
case $kind in
  python | go | node | java) "$here/install.sh" $kind ;;
esac
case $kind in
  python) set -- "$target/python/bin/python" "$here/chatter/chatter.py" "$@" ;;
  go) set -- "$target/go/chatter" "${@:2}" ;;
  node) set -- env NODE_PATH="$target/node/node_modules" node "$here/chatter/chatter.js" "${@:2}" ;;
  java) set -- java -cp "$target/java/classes:$target/java/jars/*" Chatter "$@" ;;
  php) set -- php "$here/chatter/chatter.php" "$@" ;;
  ruby) set -- ruby "$here/chatter/chatter.rb" "$@" ;;
esac
exec timeout --kill-after=5 60 "$@"
