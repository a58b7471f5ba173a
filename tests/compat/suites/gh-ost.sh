#!/bin/bash
# gh-ost with a fast_forward account, while an application writes with its own account. One line for each use.
set -euo pipefail

# MariaDB 10.11 has no variable transaction_isolation, which every connection of gh-ost reads first.
# servers: mysql9
version=v1.1.8

install() {
  [ ! -x "$COMPAT_DIR/$version/gh-ost" ] || return 0
  rm -rf "${COMPAT_DIR:?}/$version"
  mkdir -p "$COMPAT_DIR/$version"
  # As a dependency with a known version: "go install" would also request the list of all versions.
  (cd "$COMPAT_DIR/$version" && go mod init compat && go mod edit -require "github.com/github/gh-ost@$version" &&
    go build -mod=mod -o gh-ost github.com/github/gh-ost/go/cmd/gh-ost) 2> "$COMPAT_DIR/$version.log" ||
    { cat "$COMPAT_DIR/$version.log" >&2; return 1; }
}

sql() { mariadb "-h$host" "-P$port" "-u$user" "-p$password" -BN "$@"; }

# check NAME COMMAND...: passes when the command does; its output goes to the log.
check() {
  local name=$1
  shift
  echo "== $name" >&2
  if "$@" >&2; then printf 'pass\t%s\n' "$name"; else printf 'fail\t%s\n' "$name"; fi
}

fresh() {
  sql <<'SQL'
DROP DATABASE IF EXISTS ghost; CREATE DATABASE ghost; USE ghost;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(50), b INT, c TIMESTAMP NULL, KEY (b)) ENGINE=InnoDB;
INSERT INTO t (a, b) SELECT LEFT(SHA2(x.seq, 256), 40), x.seq FROM (WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 1000) SELECT seq FROM n) AS x;
INSERT INTO t (a, b) SELECT a, b FROM t; INSERT INTO t (a, b) SELECT a, b FROM t;
CREATE TABLE wanted LIKE t; INSERT INTO wanted SELECT * FROM t;
SQL
}

# The application: makes the same change to the migrated table and to another one, in one transaction each.
write() {
  local i
  for i in $(seq 1 "$1"); do
    cat <<SQL
START TRANSACTION;
INSERT INTO t (a, b) VALUES ('new $i', -$i); INSERT INTO wanted (id, a, b) VALUES (LAST_INSERT_ID(), 'new $i', -$i);
UPDATE t SET b = b + 1, c = '2020-01-01 00:00:00' WHERE id = $((i * 7)); UPDATE wanted SET b = b + 1, c = '2020-01-01 00:00:00' WHERE id = $((i * 7));
DELETE FROM t WHERE id = $((i * 11)); DELETE FROM wanted WHERE id = $((i * 11));
COMMIT; SELECT SLEEP(0.005);
SQL
  done | sql ghost > "$work/writer"
}

ghost() {
  timeout 240 "$COMPAT_DIR/$version/gh-ost" --user=repl --password=repl "--host=$host" "--port=$port" --gcp \
    "--assume-master-host=$host:$port" --allow-on-master --assume-rbr --database=ghost --table=t --initially-drop-ghost-table \
    --initially-drop-old-table --ok-to-drop-table "--serve-socket-file=$work/socket" --initially-drop-socket-file \
    "--throttle-additional-flag-file=$work/throttle" --default-retries=20 --chunk-size=200 --verbose "$@"
}

# migrate FLAGS...: with the application running; nothing that it wrote may be missing from the new table.
migrate() {
  fresh
  write 400 &
  local writer=$! failed=0
  ghost --execute "$@" || failed=1
  wait "$writer" || failed=1
  [ $failed = 0 ] || return 1
  [ "$(sql ghost -e 'SELECT COUNT(*), SUM(CRC32(CONCAT_WS("/", id, a, b, c))) FROM t')" = \
    "$(sql ghost -e 'SELECT COUNT(*), SUM(CRC32(CONCAT_WS("/", id, a, b, c))) FROM wanted')" ]
}

# Between its two renames the table does not exist, which the application would notice: it does not run here.
two_step() {
  fresh
  ghost --execute --alter 'ADD COLUMN n INT DEFAULT 5' --cut-over=two-step && [ "$(sql ghost -e 'SELECT SUM(n) FROM t')" = 20000 ]
}

has_column() { sql ghost -e 'SHOW COLUMNS FROM t' | cut -f1 | grep -qx "$1"; }

postponed() {
  touch "$work/postpone"
  { for _ in $(seq 300); do ! echo status | socat - "UNIX-CONNECT:$work/socket" 2> /dev/null | grep -q 'postponing cut-over' || break; sleep 0.1; done
    echo unpostpone | socat - "UNIX-CONNECT:$work/socket"; } >&2 &
  local other=$!
  migrate --alter 'ADD COLUMN n INT DEFAULT 5' "--postpone-cut-over-flag-file=$work/postpone"
  wait $other
}

# Ended halfway by its own flag file: the table is unchanged, and the next run succeeds.
panics() {
  fresh
  touch "$work/postpone"
  { for _ in $(seq 300); do ! echo status | socat - "UNIX-CONNECT:$work/socket" 2> /dev/null | grep -q 'postponing cut-over' || break; sleep 0.1; done
    touch "$work/panic"; } &
  local other=$!
  ! ghost --execute --alter 'ADD COLUMN n INT' "--postpone-cut-over-flag-file=$work/postpone" "--panic-flag-file=$work/panic"
  wait $other
  rm -f "$work/panic" "$work/postpone"
  ! has_column n && ghost --execute --alter 'ADD COLUMN n INT' && has_column n
}

run() {
  host=$1 port=$2 user=$3 password=$4
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  sql -e 'GRANT ALL ON ghost.* TO repl; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl; GRANT SELECT ON performance_schema.* TO repl'
  check noop fresh
  check noop_leaves_the_table ghost --alter 'ADD COLUMN n INT'
  check add_column migrate --alter 'ADD COLUMN n INT DEFAULT 5'
  check column_is_there has_column n
  check exact_rowcount migrate --alter 'ADD KEY (a)' --exact-rowcount
  check two_step_cut_over two_step
  check rename_column migrate --alter 'CHANGE b b BIGINT, ADD COLUMN n INT' --approve-renamed-columns
  check character_set migrate --alter 'CONVERT TO CHARACTER SET utf8mb4'
  check throttle_query migrate --alter 'ENGINE=InnoDB' --throttle-query 'SELECT COUNT(*) < 20 FROM ghost.t WHERE b < 0' --max-load Threads_running=200
  check postponed_cut_over postponed
  check panic_flag panics
  sql -e 'DROP DATABASE ghost'
}

"$@"
