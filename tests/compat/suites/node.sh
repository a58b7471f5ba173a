#!/bin/bash
# mysql2 for Node.js, alone and below Knex, Sequelize and TypeORM, whose packages contain no tests: see
# node/suite.js.
set -euo pipefail
here=$(cd "$(dirname "$0")/../node" && pwd)

install() {
  ! cmp -s "$here/package-lock.json" "$COMPAT_DIR/installed" || return 0
  cp "$here"/package*.json "$COMPAT_DIR"
  npm ci --silent --no-audit --no-fund --prefix "$COMPAT_DIR"
  cp "$here/package-lock.json" "$COMPAT_DIR/installed"
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'DROP DATABASE IF EXISTS node; CREATE DATABASE node'
  NODE_PATH=$COMPAT_DIR/node_modules timeout 1700 node "$here/suite.js" "$@"
}

"$@"
