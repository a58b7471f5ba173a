#!/bin/bash
# demo.sh: builds Narrows, starts it in front of a throw-away primary and two replicas, puts load on it, shows
# which server answered what, and stays up for your own client.
#   DEMO=once      leave at the end instead of staying up
#   DEMO_SECONDS   length of the load, 10
#   DEMO_PORT      port of Narrows, 6033 or the next free one; administrators use 6032 or the next free one
#   NARROWS        a program to use instead of building one
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${DEMO_SECONDS:-10} readers=64 writers=16 rows=20000

die() { echo "demo: $*" >&2; exit 1; }
say() { echo; echo "== $*"; }

build() {
  [ -z "${NARROWS:-}" ] || { narrows=$NARROWS; return 0; }
  say "Building"
  cargo build --profile demo --bin narrows
  narrows=target/demo/narrows
}

# Waits until a command succeeds: wait_for WHAT COMMAND...
wait_for() {
  local what=$1 attempt
  shift
  for ((attempt = 0; attempt < 600; attempt++)); do
    ! "$@" > /dev/null 2>&1 || return 0
    [ -z "${narrows_pid:-}" ] || kill -0 "$narrows_pid" 2> /dev/null || { cat "$work/narrows.log" >&2; die "Narrows ended"; }
    sleep 0.1
  done
  [ ! -s "$work/narrows.log" ] || tail -n 20 "$work/narrows.log" >&2
  die "timed out waiting for $what"
}

# The values of a key in the sandbox's line of JSON, the primary's first.
described() { grep -oE "\"$1\":\"?[^\",}]*" "$work/sandbox.json" | sed -E 's/^[^:]*:"?//'; }

start_sandbox() {
  say "Starting a primary and two replicas"
  # The sandbox ends when its input is closed: with this shell, however that ends.
  exec 4> >("$narrows" sandbox --replicas 2 --until-eof --json > "$work/sandbox.json")
  wait_for "the sandbox" grep -q '"servers"' "$work/sandbox.json"
  sandbox=$(described dir | head -n 1)
  mapfile -t names < <(described name | head -n 3)
  mapfile -t ports < <(described port)
  mapfile -t sockets < <(described socket)
  printf '%-10s 127.0.0.1:%s\n' "${names[0]}" "${ports[0]}" "${names[1]}" "${ports[1]}" "${names[2]}" "${ports[2]}"
}

is_free() { ! (exec 5<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

start_narrows() {
  local admin_port=6032
  port=${DEMO_PORT:-6033}
  until is_free "$port"; do port=$((port + 1)); done
  until is_free "$admin_port" && [ "$admin_port" != "$port" ]; do admin_port=$((admin_port + 1)); done
  say "Starting Narrows on port $port: reads to the replicas, everything else to the primary"
  "$narrows" sandbox config --dir "$sandbox" --listen "127.0.0.1:$port" \
    --admin "127.0.0.1:$admin_port" > "$work/narrows.toml"
  "$narrows" -f -c "$work/narrows.toml" -D "$work" > "$work/narrows.log" 2>&1 &
  narrows_pid=$!
  wait_for "Narrows" through -e "SELECT 1"
}

through() { mariadb --no-defaults -h127.0.0.1 -P"$port" -uapp -papp "$@"; }

# on INDEX STATEMENT: as root on one server of the sandbox.
on() { mariadb --no-defaults -uroot -S"${sockets[$1]}" -N -B -e "$2"; }

load() { # load PORT THREADS SECONDS SCRIPT COMMAND...
  local at=$1 threads=$2 time=$3 script=$4
  shift 4
  sysbench "$script" --mysql-host=127.0.0.1 --mysql-port="$at" --mysql-user=sbtest --mysql-password=sbtest \
    --mysql-db=sbtest --tables=4 --table-size=$rows --db-ps-mode=disable --threads="$threads" --time="$time" \
    --mysql-ssl=off --rand-type=uniform "$@"
}

prepare() {
  say "Filling four tables through Narrows"
  load "$port" 4 0 oltp_common prepare > "$work/prepare.log" || { cat "$work/prepare.log" >&2; die "prepare failed"; }
  local position replica
  position=$(on 0 "SELECT @@gtid_binlog_pos")
  for replica in 1 2; do
    [ "$(on $replica "SELECT MASTER_GTID_WAIT('$position', 60)")" = 0 ] || die "a replica does not follow"
  done
}

# What each server has answered to the load's user so far: NAME SELECTS WRITES OTHERS, the last being BEGIN
# and COMMIT. What a replica applies is counted for another user.
counters() {
  local index
  for index in 0 1 2; do
    on $index "SELECT '${names[$index]}', IFNULL(SUM(select_commands), 0), IFNULL(SUM(update_commands), 0),
      IFNULL(SUM(other_commands), 0) FROM information_schema.user_statistics WHERE user = 'sbtest'"
  done
}

# The largest number of connections of the load's user on each server, sampled five times a second.
watch_connections() {
  local index
  while :; do
    for index in 0 1 2; do
      echo "${names[$index]} $(on $index "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'sbtest'")"
    done
    sleep 0.2
  done > "$work/connections"
}

run_load() {
  say "$readers clients read, $writers run transactions, for $seconds s"
  local index
  for index in 0 1 2; do on $index "SET GLOBAL userstat = 1"; done
  counters > "$work/before"
  watch_connections &
  local watcher=$! reader failed=0
  load "$port" $readers "$seconds" oltp_read_only --skip-trx=on run > "$work/readers.log" &
  reader=$!
  load "$port" $writers "$seconds" oltp_read_write run > "$work/writers.log" || failed=1
  wait $reader || failed=1
  kill $watcher
  wait $watcher 2> /dev/null || true
  counters > "$work/after"
  [ $failed = 0 ] || { tail -n 5 "$work/readers.log" "$work/writers.log" >&2; die "the load met errors"; }
}

report_load() {
  printf '\n%-10s %-10s %12s %12s %12s %13s\n' server hostgroup selects writes others connections
  join "$work/before" "$work/after" | while read -r name selects writes others selects_after writes_after others_after; do
    connections=$(awk -v name="$name" '$1 == name && $2 > most {most = $2} END {print most + 0}' "$work/connections")
    printf '%-10s %-10s %12d %12d %12d %13d\n' "$name" "$([ "$name" = primary ] && echo 0 || echo 1)" \
      $((selects_after - selects)) $((writes_after - writes)) $((others_after - others)) "$connections"
  done | tee "$work/table"
  awk -v clients=$((readers + writers)) '{sum += $6} END {
    printf "\n%d clients were carried by %d backend connections.\n", clients, sum}' "$work/table"
  grep -hE 'queries: |ignored errors' "$work/readers.log" "$work/writers.log" |
    awk '/queries:/ {queries += $2} /errors/ {errors += $3} END {printf "%d statements, %d errors.\n", queries, errors}'
}

# The mean time of a point select, in microseconds, with one client: latency PORT
latency() {
  load "$1" 1 3 oltp_point_select run |
    awk '/^ +transactions:/ {count = $2} /total time:/ {sub("s", "", $3); time = $3}
      END {printf "%.0f\n", time * 1000000 / count}'
}

report_latency() {
  say "One client, point selects, 3 s each"
  local direct proxied
  direct=$(latency "${ports[1]}")
  proxied=$(latency "$port")
  echo "directly: $direct us; through Narrows: $proxied us; added: $((proxied - direct)) us"
}

finish() {
  trap - EXIT INT TERM
  local pid
  for pid in $(jobs -p); do kill "$pid" 2> /dev/null || true; done
  exec 4>&-
  # The last thing that the sandbox does is to remove its folder.
  for ((i = 0; i < 100; i++)); do [ -d "${sandbox:-/nonexistent}" ] || break; sleep 0.1; done
  rm -rf "$work"
}

work=$(mktemp -d)
trap finish EXIT
trap 'exit 130' INT TERM

if [ -n "${NARROWS:-}" ]; then scripts/setup.sh servers load; else scripts/setup.sh rust servers load; fi
export PATH=$HOME/.cargo/bin:$PATH
build
start_sandbox
start_narrows
prepare
run_load
report_load
report_latency

say "Narrows is up"
echo "Try it:  mariadb -h127.0.0.1 -P$port -uapp -papp"
[ "${DEMO:-}" != once ] || exit 0
echo "Its configuration is $work/narrows.toml. Ctrl-C ends everything."
wait "$narrows_pid"
