#!/bin/bash
# Prisma with @prisma/adapter-mariadb, and the MariaDB driver for Node.js below it, whose packages contain no
# tests: see prisma/suite.js.
set -euo pipefail
here=$(cd "$(dirname "$0")/../prisma" && pwd)

install() {
  cat "$here/package-lock.json" "$here/schema.prisma" > "$COMPAT_DIR/wanted"
  ! cmp -s "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed" || return 0
  cp "$here"/package*.json "$here/schema.prisma" "$COMPAT_DIR"
  # Only the client is needed. Unless one is named, the Prisma Migrate program would be fetched from
  # elsewhere, with the packages and again before the client is generated.
  npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$COMPAT_DIR"
  (cd "$COMPAT_DIR" && CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1 PRISMA_SCHEMA_ENGINE_BINARY=$(type -P true) \
    node_modules/.bin/prisma generate --schema schema.prisma >&2)
  cp "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed"
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'DROP DATABASE IF EXISTS prisma; CREATE DATABASE prisma'
  NODE_PATH=$COMPAT_DIR/node_modules timeout 1700 node "$here/suite.js" "$COMPAT_DIR/client" "$@"
}

"$@"
