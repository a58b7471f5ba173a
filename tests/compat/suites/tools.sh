#!/bin/bash
# Tools from Debian: percona-toolkit, mydumper and myloader, the client's own dump. One line for each use.
set -euo pipefail

install() {
  local command
  for command in pt-table-checksum mydumper myloader mariadb-dump; do
    command -v $command > /dev/null || { echo "$command is missing: scripts/setup.sh compat" >&2; return 1; }
  done
}

sql() { mariadb "${login[@]}" -BN "$@"; }

# check NAME COMMAND...: passes when the command does, with a time limit; its output goes to the log.
check() {
  local name=$1
  shift
  echo "== $name" >&2
  if timeout 300 bash -c "$*" >&2; then printf 'pass\t%s\n' "$name"; else printf 'fail\t%s\n' "$name"; fi
}

run() {
  export host=$1 port=$2 user=$3 password=$4 work
  login=("-h$1" "-P$2" "-u$3" "-p$4")
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  sql <<'SQL'
DROP DATABASE IF EXISTS tools; CREATE DATABASE tools; DROP DATABASE IF EXISTS percona; CREATE DATABASE percona; USE tools;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(50), b INT, KEY (b), KEY b2 (b)) ENGINE=InnoDB;
CREATE TABLE child (id INT AUTO_INCREMENT PRIMARY KEY, t_id INT, FOREIGN KEY (t_id) REFERENCES t (id)) ENGINE=InnoDB;
INSERT INTO t (a, b) SELECT LEFT(SHA2(x.seq, 256), 50), x.seq % 97 FROM (WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 1000) SELECT seq FROM n) AS x;
INSERT INTO t (a, b) SELECT a, b FROM t; INSERT INTO t (a, b) SELECT a, b FROM t; INSERT INTO child (t_id) SELECT id FROM t WHERE id % 10 = 0;
CREATE VIEW v AS SELECT a FROM t; CREATE PROCEDURE p() SELECT 1; CREATE TRIGGER g BEFORE INSERT ON child FOR EACH ROW SET NEW.id = NEW.id;
SQL
  export dsn="h=$host,P=$port,u=$user,p=$password"

  check pt-online-schema-change "pt-online-schema-change --execute --alter 'ADD COLUMN n INT DEFAULT 5' --alter-foreign-keys-method=rebuild_constraints --recursion-method=none --no-check-replication-filters \$dsn,D=tools,t=t"
  check column_is_there "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'SELECT SUM(n) FROM tools.t') = 20000 ]"
  check pt-table-checksum "pt-table-checksum --no-check-binlog-format --recursion-method=none --databases=tools --no-check-replication-filters \$dsn"
  check checksums_are_there "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'SELECT COUNT(*) > 0 FROM percona.checksums') = 1 ]"
  check pt-duplicate-key-checker "pt-duplicate-key-checker --databases=tools \$dsn | tee /dev/stderr | grep -q 'b2'"
  check pt-show-grants "pt-show-grants \$dsn | tee /dev/stderr | grep -q sbtest"
  check pt-find "pt-find --tablesize +1k -h \$host -P \$port -u \$user -p \$password tools | tee /dev/stderr | grep -q tools"
  check pt-archiver "pt-archiver --source \$dsn,D=tools,t=child --purge --where 'id <= 50' --limit 10 --commit-each --no-check-charset"
  check rows_are_archived "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'SELECT COUNT(*) FROM tools.child WHERE id <= 50') = 0 ]"
  check pt-heartbeat "pt-heartbeat --update --create-table --database tools --run-time 3 --interval 1 \$dsn"
  check pt-deadlock-logger "pt-deadlock-logger --create-dest-table --dest D=tools,t=deadlocks --run-time 2 --iterations 1 \$dsn"
  check pt-variable-advisor "pt-variable-advisor \$dsn > \$work/advice; [ -s \$work/advice ]"
  check pt-query-digest "(mariadb -h\$host -P\$port -u\$user -p\$password -e 'SELECT SLEEP(4), 77777' > /dev/null & pt-query-digest --processlist \$dsn --interval 0.1 --run-time 5 --iterations 1; wait) | tee \$work/digest >&2; grep -qi 'sleep' \$work/digest"
  check pt-kill "mariadb -h\$host -P\$port -u\$user -p\$password -e 'SELECT SLEEP(20), 88888' & client=\$!; sleep 2; pt-kill \$dsn --busy-time 1 --match-info 'SLEEP.*88888' --kill --run-time 6 --interval 1 --print | tee \$work/killed >&2; ! wait \$client && grep -q 88888 \$work/killed"
  check pt-kill-query "mariadb -h\$host -P\$port -u\$user -p\$password -e 'SELECT SLEEP(20), 99999 FROM tools.t LIMIT 1' & client=\$!; sleep 2; pt-kill \$dsn --busy-time 1 --match-info 'SLEEP.*99999' --kill-query --run-time 6 --interval 1 --print | tee \$work/killed >&2; ! wait \$client && grep -q 99999 \$work/killed"
  check pt-mysql-summary "pt-mysql-summary --sleep 1 -- -h\$host -P\$port -u\$user -p\$password > \$work/summary; [ -s \$work/summary ] && ! grep -q 'ERROR [0-9]' \$work/summary"
  check pt-table-sync "mariadb -h\$host -P\$port -u\$user -p\$password -e 'CREATE TABLE tools.u LIKE tools.t' && { pt-table-sync --execute --no-check-slave \$dsn,D=tools,t=t t=u || [ \$? = 2 ]; }"
  check tables_are_alike "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'CHECKSUM TABLE tools.t, tools.u' | cut -f2 | sort -u | wc -l) = 1 ]"
  check mydumper "mydumper -h \$host -P \$port -u \$user -p \$password -B tools -o \$work/dump --triggers --routines --threads 4 -v 3"
  check dump_is_whole "[ \$(cat \$work/dump/tools.t.sql | grep -oE '\\([0-9]+,\"' | wc -l) = 4000 ]"
  check myloader "myloader -h \$host -P \$port -u \$user -p \$password -d \$work/dump -B tools_loaded -o --threads 4 -v 3"
  check loaded_is_alike "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'CHECKSUM TABLE tools.t, tools_loaded.t' | cut -f2 | sort -u | wc -l) = 1 ]"
  check mariadb-dump "mariadb-dump -h\$host -P\$port -u\$user -p\$password --single-transaction --routines --triggers tools > \$work/dump.sql && mariadb -h\$host -P\$port -u\$user -p\$password -e 'CREATE DATABASE tools_dumped' && mariadb -h\$host -P\$port -u\$user -p\$password tools_dumped < \$work/dump.sql"
  check dumped_is_alike "[ \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'CHECKSUM TABLE tools.t, tools_dumped.t' | cut -f2 | sort -u | wc -l) = 1 ]"
  check mariadb-binlog "mariadb-binlog --read-from-remote-server -h\$host -P\$port -urepl -prepl \$(mariadb -BN -h\$host -P\$port -u\$user -p\$password -e 'SHOW BINARY LOGS' | tail -n 1 | cut -f1) > \$work/binlog; grep -q 'tools' \$work/binlog"
  sql -e 'DROP DATABASE tools; DROP DATABASE percona; DROP DATABASE IF EXISTS tools_loaded; DROP DATABASE IF EXISTS tools_dumped'
}

"$@"
