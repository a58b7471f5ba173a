#!/bin/bash
# run.sh: opens every page of the console and every view of `narrows top` before a sandbox under load, and saves what they
# show in target/console. See check.js for what must hold. At the end it measures what an open page costs.
#   NARROWS                a program to use instead of building one
#   CHROMIUM               a browser to use instead of the one that is found
#   CONSOLE_IDLE_SECONDS   length of each measurement, 30; 0: none
#   CONSOLE_SCALE          1: with 10,000 digests and 100 servers
#   CONSOLE_ONLY           time: only the time that pages take
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$PWD/target/console tools=$PWD/target/console/tools

die() { echo "console: $*" >&2; exit 1; }
say() { echo; echo "== $*"; }

wait_for() { # wait_for WHAT COMMAND...
  local what=$1 attempt
  shift
  for ((attempt = 0; attempt < 600; attempt++)); do
    ! "$@" > /dev/null 2>&1 || return 0
    sleep 0.1
  done
  [ ! -s "$work/narrows.log" ] || tail -n 20 "$work/narrows.log" >&2
  die "timed out waiting for $what"
}

find_chromium() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    [ -n "${CHROMIUM:-}" ] || CHROMIUM=$(command -v $name || true)
  done
  [ -x "${CHROMIUM:-}" ] || die "there is no Chromium; scripts/setup.sh console installs it, and CHROMIUM names another one"
  export CHROMIUM
}

# The packages of the lock file, without npm's own notices.
install_tools() {
  ! cmp -s tests/console/package-lock.json "$tools/package-lock.json" || return 0
  mkdir -p "$tools"
  cp tests/console/package.json "$tools"
  cp tests/console/package-lock.json "$tools/wanted.json"
  mv "$tools/wanted.json" "$tools/package-lock.json"
  npm ci --silent --no-audit --no-fund --prefix "$tools" || { rm "$tools/package-lock.json"; die "npm could not install the tools"; }
}

build() {
  [ -z "${NARROWS:-}" ] || { narrows=$NARROWS; return 0; }
  say "Building"
  cargo build --bin narrows
  narrows=target/debug/narrows
}

is_free() { ! (exec 5<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

free_port() { # free_port FIRST
  local port=$1
  until is_free "$port"; do port=$((port + 1)); done
  echo "$port"
}

through() { mariadb --no-defaults -h127.0.0.1 -P"$port" -uapp -papp "$@"; }
admin() { mariadb --no-defaults -h127.0.0.1 -P"$admin_port" -uadmin -padmin "$@"; }

counted() { admin -N -e "SELECT COUNT(*) FROM $1"; }

start() {
  say "Starting a primary and two replicas, and Narrows"
  # The sandbox ends when its input is closed: with this shell, however that ends.
  exec 4> >("$narrows" sandbox --replicas 2 --until-eof --json > "$work/sandbox.json")
  wait_for "the sandbox" grep -q '"servers"' "$work/sandbox.json"
  sandbox=$(grep -oE '"dir":"[^"]*' "$work/sandbox.json" | head -n 1 | cut -d'"' -f4)
  port=$(free_port 16033) admin_port=$(free_port 17033) http_port=$(free_port 18033)
  "$narrows" sandbox config --dir "$sandbox" --listen "127.0.0.1:$port" --admin "127.0.0.1:$admin_port" > "$work/narrows.toml"
  "$narrows" -f -c "$work/narrows.toml" -D "$work" > "$work/narrows.log" 2>&1 &
  narrows_pid=$!
  wait_for "Narrows" through -e "SELECT 1"
  admin < tests/console/before.sql
  admin -e "SET admin-restapi_port = $http_port; SET admin-restapi_enabled = 'true'; LOAD ADMIN VARIABLES TO RUNTIME"
  [ "${CONSOLE_SCALE:-}" != 1 ] || admin < tests/console/scale.sql
  through < tests/console/tables.sql
}

# Statements of every kind, again and again, from each of several clients; slowly enough to leave time for the browser.
load() {
  local client
  for client in 1 2 3 4 5 6; do
    while :; do
      cat tests/console/load.sql
      sleep 0.$((RANDOM % 4 + 1))
    done | through --force shop > /dev/null 2>&1 &
    # The first process of the pipeline: the client ends when its input does.
    loads+=("$(jobs -p %+)")
  done
  [ "${CONSOLE_SCALE:-}" != 1 ] || many_digests | through --force shop > /dev/null 2>&1
}

# Ten thousand statements that differ in more than their values.
many_digests() {
  local number
  for ((number = 0; number < 10000; number++)); do
    echo "SELECT name AS column_$number FROM items WHERE id = $number;"
  done
}

end_load() {
  local pid
  for pid in "${loads[@]}"; do kill "$pid" 2> /dev/null || true; done
  loads=()
  wait_for "the end of the load" idle
}

idle() { [ "$(admin -N -e "SELECT COUNT(*) FROM stats_mysql_processlist")" = 0 ]; }

# top WIDTH HEIGHT: every view, as text.
top() {
  local socket=$work/tmux width=$1 height=$2 view file line
  local tmux=(env LC_ALL=C.UTF-8 tmux -u -S "$socket" -f /dev/null)
  "${tmux[@]}" new-session -d -x "$width" -y "$height" "'$narrows' top 127.0.0.1:$admin_port --user admin; sleep 60"
  for view in 1 2 3 4 5 6 7; do
    "${tmux[@]}" send-keys -l $view
    sleep 2.5
    file=$out/top-${width}x$height-$view.txt
    "${tmux[@]}" capture-pane -p > "$file"
    LC_ALL=C.UTF-8 awk -v most="$width" 'length($0) > most {exit 1}' "$file" || fault "$file has a line that is too long"
    line=$(tail -n 1 "$file")
    [[ $line == *"q quit"* ]] || fault "$file: the last line is: $line"
  done
  "${tmux[@]}" kill-server
}

fault() { echo "FAULT $*"; faults=$((faults + 1)); }

check() {
  CONSOLE_URL=http://127.0.0.1:$http_port/console/ CONSOLE_OUT=$out CONSOLE_TOOLS=$tools/node_modules \
    CONSOLE_PID=$narrows_pid CONSOLE_CLIENT="mariadb --no-defaults -h127.0.0.1 -P$port -uapp -papp" \
    node tests/console/check.js "$@"
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

work=$(mktemp -d) loads=() faults=0
trap finish EXIT
trap 'exit 130' INT TERM

scripts/setup.sh servers console
[ -n "${NARROWS:-}" ] || scripts/setup.sh rust
export PATH=$HOME/.cargo/bin:$PATH
find_chromium
mkdir -p "$out"
rm -f "$out"/*.png "$out"/*.txt
install_tools
build
start
load
say "Asking for every page, with $(counted stats_mysql_query_digest) digests and $(counted runtime_mysql_servers) servers"
check time || fault "in the time that pages take"
[ "${CONSOLE_ONLY:-}" != time ] || exit $faults
say "Opening every page"
check look || fault "in the pages"
say "Opening every view of narrows top"
top 80 24
top 200 50
end_load
if [ "${CONSOLE_IDLE_SECONDS:-30}" != 0 ]; then
  say "Measuring"
  check measure
fi
[ $faults = 0 ] || die "$faults faults; see $out"
say "All is well; the pictures are in $out"
