#!/bin/bash
# release.sh: builds the program that is released, into target/optimized/narrows.
#
# It is built twice. The first one counts which code runs, while the benches send it what clients send: text, prepared statements,
# rows, logins, transactions. The second one is optimised for that profile. A profile belongs to the compiler and the sources of
# its build, so none is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/target/optimized
host=$(rustc -vV | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$merge" ] || { echo "release: no llvm-profdata; scripts/setup.sh profile installs it" >&2; exit 1; }

# With --target, the flags are not those of build scripts.
build() { RUSTFLAGS=$1 cargo build --release -p narrows --target "$host" --target-dir "$folder/$2"; }

cargo build --release -p narrows-bench
build "-Cprofile-generate=$folder/profile" counting
counting=$folder/counting/$host/release/narrows
rm -rf "$folder/profile"
bench=target/release/narrows-bench
$bench compare --narrows "$counting" --peers narrows,cached,fastforward --rounds 1 --seconds 1
for options in "" --prepared; do
  # shellcheck disable=SC2086 # no option, or one
  $bench sysbench --narrows "$counting" --peers narrows --threads 16 --seconds 5 --tests oltp_point_select,oltp_read_only $options
done
"$merge" merge -o "$folder/profile.profdata" "$folder"/profile/*.profraw
build "-Cprofile-use=$folder/profile.profdata" optimal
ln -f "$folder/optimal/$host/release/narrows" "$folder/narrows"
