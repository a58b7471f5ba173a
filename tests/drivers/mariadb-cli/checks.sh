#!/bin/bash
# Checks of the command line client: checks.sh HOST PORT USER PASSWORD. CLIENT names a client other than
# `mariadb`.
set -euo pipefail
host=$1 port=$2 user=$3 password=$4
schema=checks_cli_$$
folder=$(mktemp -d)
exec 3>&1

client() { "${CLIENT:-mariadb}" --no-defaults -h"$host" -P"$port" -u"$user" -p"$password" "$@"; }
# Rows only, values separated by tabs.
sql() { client "$schema" --local-infile=1 --max-allowed-packet=64M -N -B -e "$1"; }

fail() { echo "failed: $*" >&2; exit 1; }

# expect WANTED ACTUAL
expect() { [ "$1" = "$2" ] || fail "${FUNCNAME[1]}: wanted '${1:0:300}', got '${2:0:300}'"; }

# expect_error CODE COMMAND...
expect_error() {
  local code=$1 output
  shift
  ! output=$("$@" 2>&1) || fail "${FUNCNAME[1]}: wanted error $code, got none: $*"
  [[ $output == *"ERROR $code "* ]] || fail "${FUNCNAME[1]}: wanted error $code, got $output"
}

tables_and_rows() {
  sql "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) CHARACTER SET utf8mb4, n INT)"
  sql "INSERT INTO item (name, n) VALUES ('one', 1), ('two', 2), (NULL, 3)"
  sql "UPDATE item SET n = n + 10 WHERE n >= 2; DELETE FROM item WHERE n = 12"
  expect $'1\tone\t1\n3\tNULL\t13' "$(sql 'SELECT * FROM item ORDER BY id')"
  expect $'id\tint(11)' "$(sql 'DESCRIBE item' | head -n 1 | cut -f 1-2 | sed 's/int$/int(11)/')"
}

transactions() {
  sql "START TRANSACTION; INSERT INTO item (n) VALUES (100); ROLLBACK"
  expect 0 "$(sql 'SELECT COUNT(*) FROM item WHERE n = 100')"
  sql "SET autocommit = 0; INSERT INTO item (n) VALUES (100)"
  expect 0 "$(sql 'SELECT COUNT(*) FROM item WHERE n = 100')"
  sql "SET autocommit = 0; INSERT INTO item (n) VALUES (100); COMMIT"
  expect 1 "$(sql 'SELECT COUNT(*) FROM item WHERE n = 100')"
  expect $'0\n1' "$(sql "BEGIN; SAVEPOINT s; DELETE FROM item WHERE n = 100; SELECT COUNT(*) FROM item WHERE n = 100;
    ROLLBACK TO s; SELECT COUNT(*) FROM item WHERE n = 100; COMMIT")"
}

session_state() {
  expect $'kept\t+05:00\n7' "$(sql "SET @mine = 'kept'; SET time_zone = '+05:00'; CREATE TEMPORARY TABLE passing (n INT);
    INSERT INTO passing VALUES (7); SELECT @mine, @@time_zone; SELECT n FROM passing")"
  expect mysql "$(sql 'USE mysql; SELECT DATABASE()')"
  expect 1 "$(sql "SELECT GET_LOCK('narrows', 1)")"
}

many_rows() {
  sql "CREATE TABLE digit (d INT); INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)"
  local many="SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d, REPEAT('x', 50)
    FROM digit a, digit b, digit c, digit d, digit e"
  expect "100000 4999950000" "$(sql "$many" | awk '{sum += $1} END {print NR, sum}')"
  expect "100000 4999950000" "$(client "$schema" --quick -N -B -e "$many" | awk '{sum += $1} END {print NR, sum}')"
}

big_values() {
  sql "CREATE TABLE big (data LONGBLOB)"
  { printf "INSERT INTO big VALUES (UNHEX('"; head -c 20M /dev/urandom | tee "$folder/data" | od -An -v -tx1 | tr -d ' \n'
    printf "'))"; } > "$folder/insert.sql"
  client --max-allowed-packet=64M "$schema" < "$folder/insert.sql"
  expect "$(sha256sum < "$folder/data" | cut -d' ' -f 1)" "$(sql 'SELECT SHA2(data, 256) FROM big')"
  expect "$(sha256sum < "$folder/data")" "$(sql 'SELECT HEX(data) FROM big' | tr -d '\n' | python3 -c '
import sys; sys.stdout.buffer.write(bytes.fromhex(sys.stdin.read()))' | sha256sum)"
}

errors() {
  expect_error 1064 sql "SELEC 1"
  expect_error 1062 sql "INSERT INTO item (id) SELECT id FROM item"
  expect_error 1146 sql "SELECT * FROM no_such_table"
  expect_error 1049 sql "USE no_such_schema"
  expect_error 1049 client no_such_schema -e "SELECT 1"
  password=wrong expect_error 1045 client -e "SELECT 1"
  # The statements before the failing one have been answered; with --force also those after it.
  expect $'1\n3' "$(printf 'SELECT 1;\nSELECT * FROM mysql.no_such_table;\nSELECT 3;\n' |
    client --force -N -B 2> "$folder/errors")"
  grep -q "ERROR 1146 (42S02)" "$folder/errors" || fail "errors: $(cat "$folder/errors")"
}

warnings() {
  local output
  output=$(client "$schema" --show-warnings -e "SET sql_mode = ''; INSERT INTO item (n) VALUES ('12 and more')")
  [[ $output == *"Warning (Code 1265): Data truncated for column 'n'"* ]] || fail "warnings: $output"
}

charsets() {
  local text="grüße, 日本語, 🦀🚀"
  client --default-character-set=utf8mb4 "$schema" -e "INSERT INTO item (name, n) VALUES ('$text', 300)"
  expect "$text" "$(client --default-character-set=utf8mb4 "$schema" -N -B -e 'SELECT name FROM item WHERE n = 300')"
  expect "latin1 F6" "$(printf "SELECT @@character_set_client, HEX('\xf6')" |
    client --default-character-set=latin1 -N -B | tr '\t' ' ')"
}

multi_statements() {
  # With another delimiter the client sends all of it as one command.
  expect $'1\n400\n2' "$(client "$schema" -N -B -e "DELIMITER //
SELECT 1; INSERT INTO item (n) VALUES (400); SELECT n FROM item WHERE n = 400; SELECT 2//")"
}

procedures() {
  client "$schema" -e "DELIMITER //
CREATE PROCEDURE twice (IN given INT, OUT doubled INT)
BEGIN SELECT given; SELECT given + 1; SET doubled = given * 2; END//"
  expect $'21\n22\n42' "$(sql 'CALL twice(21, @doubled); SELECT @doubled')"
}

load_data_local() {
  seq 0 4999 | sed 's/.*/&,line &/' > "$folder/lines.csv"
  sql "CREATE TABLE loaded (n INT, text VARCHAR(50))"
  expect $'5000\t12497500' "$(sql "LOAD DATA LOCAL INFILE '$folder/lines.csv' INTO TABLE loaded FIELDS TERMINATED BY ',';
    SELECT COUNT(*), SUM(n) FROM loaded")"
  expect_error 1146 sql "LOAD DATA LOCAL INFILE '$folder/lines.csv' INTO TABLE no_such_table"
  # The client cannot open its file, and the connection can be used for the next statement.
  expect 1 "$(printf "LOAD DATA LOCAL INFILE '%s' INTO TABLE loaded;\nSELECT 1;\n" "$folder/no_such_file" |
    client --force "$schema" --local-infile=1 -N -B 2> /dev/null)"
}

status_and_completion() {
  # The prompt's completion reads every table's columns with COM_FIELD_LIST; STATUS sends COM_STATISTICS.
  local output
  output=$(client --auto-rehash "$schema" -e "status")
  [[ $output == *"Current database:"*"$schema"* && $output == *"Threads:"* ]] || fail "status: $output"
}

finish() {
  client -e "DROP DATABASE IF EXISTS $schema" || true
  rm -rf "$folder"
}
trap finish EXIT

client -e "CREATE DATABASE $schema"
for check in tables_and_rows transactions session_state many_rows big_values errors warnings charsets multi_statements \
  procedures load_data_local status_and_completion; do
  $check
  echo "ok ${check//_/ }" >&3
done
