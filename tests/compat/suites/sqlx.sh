#!/bin/bash
# sqlx for Rust: the tests of its published sources, with helpers of ours, and sqlx/suite.rs.
set -euo pipefail
here=$(cd "$(dirname "$0")/../sqlx" && pwd)
build=$COMPAT_DIR/build
# Left out: macros.rs, which connects to a server while it is compiled; rustsec.rs, which needs 8 GiB of
# memory.
programs=(any/any any/pool mysql/derives mysql/describe mysql/error mysql/migrate mysql/mysql mysql/test-attr mysql/types)

install() {
  cat "$here"/* "$0" > "$COMPAT_DIR/wanted"
  ! cmp -s "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed" || return 0
  rm -rf "$build"
  mkdir -p "$build"
  cp "$here"/* "$build"
  cd "$build"
  local sources program
  sources=$(cargo metadata --locked --format-version 1 | sed -E 's|.*"([^"]*/sqlx-[0-9.]+)/Cargo.toml".*|\1|')
  cp -r "$sources/tests" "$build/tests"
  chmod -R u+w "$build/tests"
  for program in "${programs[@]}"; do
    printf '\n[[test]]\nname = "%s"\npath = "tests/%s.rs"\n' "${program//\//-}" "$program" >> Cargo.toml
  done
  CARGO_TARGET_DIR=$COMPAT_DIR/target cargo test --locked --no-run -q
  CARGO_TARGET_DIR=$COMPAT_DIR/target cargo build --locked -q
  cp "$COMPAT_DIR/wanted" "$COMPAT_DIR/installed"
}

run() {
  local sql=(mariadb "-h$1" "-P$2" "-u$3" "-p$4") program
  "${sql[@]}" -e "DROP DATABASE IF EXISTS sqlx; CREATE DATABASE sqlx; DROP USER IF EXISTS no_password"
  "${sql[@]}" sqlx < "$build/tests/mysql/setup.sql"
  [ "$COMPAT_SERVER" != mariadb ] || "${sql[@]}" sqlx < "$build/tests/mysql/setup-mariadb.sql"
  cd "$build"
  for program in "${programs[@]}"; do
    { DATABASE_URL=mysql://$3:$4@$1:$2/sqlx CARGO_TARGET_DIR=$COMPAT_DIR/target timeout 600 \
        cargo test --locked -q --test "${program//\//-}" -- --test-threads 1 --format pretty || true; } 2>&1 |
      tee /dev/stderr | sed -nE 's/^test (.*) \.\.\. .*(ok|FAILED|ignored)$/\2\t\1/p; s/^(ok|FAILED)$/\1/' |
      sed -E "s/^ok/pass/; s/^FAILED/fail/; s/^ignored/skip/; s|\t|\t$program |"
  done
  DATABASE_URL='' timeout 1700 "$COMPAT_DIR/target/debug/suite" "$@"
}

"$@"
