#!/bin/bash
# shared: 3
# The scripts and queries of go-mysql-server's enginetest, which Go's module proxy has: what each returns, not what is expected.
set -euo pipefail
here=$(cd "$(dirname "$0")/../scripts" && pwd)
version=v0.20.0
build=$COMPAT_DIR/build

install() {
  (cd "$here" && go build -o "$COMPAT_DIR/scripts" .)
  # Compiling the module takes minutes.
  cat "$here"/enginetest/* "$0" > "$COMPAT_DIR/wanted"
  ! cmp -s "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed" || return 0
  rm -rf "$build"
  mkdir -p "$build"
  cp "$here"/enginetest/main.go "$build"
  cd "$build"
  go mod init narrows/compat/enginetest > /dev/null 2>&1
  go get "github.com/dolthub/go-mysql-server@$version" > /dev/null
  local queries
  queries=$(go list -f '{{.Dir}}' github.com/dolthub/go-mysql-server/enginetest/queries)
  {
    printf 'package main\n\nimport "github.com/dolthub/go-mysql-server/enginetest/queries"\n\nvar lists = map[string]any{\n'
    sed -nE 's/^var ([A-Z][A-Za-z0-9_]*) = \[\](\w*Test|ScriptTestAssertion|string)\{.*/\t"\1": queries.\1,/p' "$queries"/*.go | sort -u
    printf '}\n'
  } > lists.go
  go mod tidy > /dev/null 2>&1
  go build -o "$COMPAT_DIR/enginetest" .
  cp "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed"
}

run() {
  "$COMPAT_DIR/enginetest" "${COMPAT_SHARE:-10}" "${COMPAT_ONLY:-}" | "$COMPAT_DIR/scripts" "$1:$2" "$3" "$4"
}

"$@"
