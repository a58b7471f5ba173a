#!/bin/bash
# shared: 3
# The corpus of SQLite's sqllogictest, from the Maven artifact that ships it: what each record returns, not what is expected.
set -euo pipefail
here=$(cd "$(dirname "$0")/../scripts" && pwd)
# Files have up to 15,000 records, and there are 622. One of so many is taken by default.
share=${COMPAT_SHARE:-40}
records=${COMPAT_RECORDS:-3000}

install() {
  (cd "$here" && go build -o "$COMPAT_DIR/scripts" . && go build -o "$COMPAT_DIR/sqllogictest" ./sqllogictest)
  if [ ! -d "$COMPAT_DIR/corpus" ]; then
    mvn -q -B -f "$here/pom.xml" -DbuildDirectory="$COMPAT_DIR/build" dependency:copy-dependencies \
      -DoutputDirectory="$COMPAT_DIR/jars" -DincludeArtifactIds=sql-logic-test >&2
    rm -rf "$COMPAT_DIR/unpacked"
    unzip -q "$COMPAT_DIR"/jars/sql-logic-test-*.jar 'test/*' -d "$COMPAT_DIR/unpacked"
    mv "$COMPAT_DIR/unpacked" "$COMPAT_DIR/corpus"
  fi
}

run() {
  local files
  # One of each `share` files, or those of a pattern.
  mapfile -t files < <(find "$COMPAT_DIR/corpus/test" -name '*.test' -path "*${COMPAT_ONLY:-}*" | sort |
    awk -v share="$([ -n "${COMPAT_ONLY:-}" ] && echo 1 || echo "$share")" 'NR % share == 1 || share == 1')
  "$COMPAT_DIR/sqllogictest" -records "$records" mysql "$COMPAT_DIR/corpus/test" "${files[@]}" | "$COMPAT_DIR/scripts" "$1:$2" "$3" "$4"
}

"$@"
