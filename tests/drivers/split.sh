#!/bin/bash
# split.sh CLIENT HOST PORT USER PASSWORD ONE_HOST ONE_PORT STEPS SEED
# Runs python/split.py: an application over a read/write split, compared with the same application on one
# server.
set -euo pipefail
[ $# = 9 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C.UTF-8
"$here/install.sh" python
# A step takes a few milliseconds, on a busy machine a few dozen.
exec timeout --kill-after=5 $((120 + $8 / 5)) \
  "$here/../../target/drivers/python/bin/python" "$here/python/split.py" "$@"
