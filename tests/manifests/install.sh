#!/bin/bash
# install.sh: puts what check.py reads schemas with, in pinned versions and from PyPI, into target/manifests.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/manifests
cat "$here/requirements.txt" "$here/install.sh" | cmp -s - "$target/installed" && exit
rm -rf "$target"
python3 -m venv "$target"
install() { "$target/bin/pip" install -q --disable-pip-version-check "$@"; }
install -r "$here/requirements.txt"
# Only its schema is used, compose_spec.json. Nothing on PyPI has a later one.
install --no-deps docker-compose==1.29.2
cat "$here/requirements.txt" "$here/install.sh" > "$target/installed"
