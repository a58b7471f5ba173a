#!/bin/bash
# cross.sh TARGET: builds the program for another target than this machine's, into target/cross/TARGET/narrows:
#   x86_64-unknown-linux-musl   static, for the archive and the image
#   aarch64-unknown-linux-gnu   for the package of arm64
# It is optimised for the profile that scripts/release.sh has recorded, if there is one: most of the code is the same for all
# targets. NARROWS_PROFILE chooses another profile of Cargo, for example demo, which takes a quarter of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?the target}
profile=${NARROWS_PROFILE:-release}

case $target in
  x86_64-unknown-linux-musl) export CC_x86_64_unknown_linux_musl=musl-gcc ;;
  aarch64-unknown-linux-gnu)
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    ;;
  *) echo "cross: unknown target: $target" >&2; exit 1 ;;
esac

recorded=$PWD/target/optimized/profile.profdata
if [ "$profile" = release ] && [ -e "$recorded" ]; then
  export RUSTFLAGS="-Cprofile-use=$recorded"
fi
cargo build --profile "$profile" -p narrows --target "$target" --target-dir target/cross/build
mkdir -p "target/cross/$target"
cp "target/cross/build/$target/$profile/narrows" "target/cross/$target/narrows"
