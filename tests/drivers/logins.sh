#!/bin/bash
# logins.sh DRIVER
# Logs in once for each line of input, TRANSPORT, ADDRESS, PLUGIN, USER, PASSWORD and perhaps OPTIONS, as the driver has
# them, separated by tabs, and prints a line for each: `ok`, or the error message.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/drivers
export LC_ALL=C.UTF-8
case $1 in
  pymysql) "$here/install.sh" python && set -- "$target/python/bin/python" "$here/python/logins.py" ;;
  go-mysql) "$here/install.sh" go && set -- "$target/go/logins" ;;
  node-mysql2)
    "$here/install.sh" node
    set -- env NODE_PATH="$target/node/node_modules" node "$here/node-mysql2/logins.js" ;;
  connector-j) scheme=mysql ;;
  mariadb-java) scheme=mariadb ;;
  *) echo "logins.sh: unknown: $1" >&2 && exit 2 ;;
esac
if [ -n "${scheme:-}" ]; then
  "$here/install.sh" java
  set -- java -cp "$target/java/classes:$target/java/jars/*" Logins $scheme
fi
exec timeout --kill-after=5 300 "$@"
