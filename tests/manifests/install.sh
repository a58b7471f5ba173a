#!/bin/bash
# install.sh: puts what check.py and chart.py need, in pinned versions, into target/manifests: Python packages that read schemas, from
# PyPI, and Helm, built from the Go module proxy.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../.." && pwd)/target/manifests
cat "$here/requirements.txt" "$here/install.sh" | cmp -s - "$target/installed" && exit
rm -rf "$target"
python3 -m venv "$target"
die() { echo "tests/manifests/install.sh: $*" >&2; exit 1; }
install() { "$target/bin/pip" install -q --disable-pip-version-check "$@" || die "PyPI did not give: $*"; }
install -r "$here/requirements.txt"
# Only its schema is used, compose_spec.json. Nothing on PyPI has a later one.
install --no-deps docker-compose==1.29.2
# Helm needs Go 1.22, which the module proxy has too, as a module. Two minutes of work, once.
go=go
case $(go env GOVERSION) in go1.? | go1.?.* | go1.1* | go1.20* | go1.21*)
  toolchain=golang.org/toolchain@v0.0.1-go1.22.12.$(go env GOOS)-$(go env GOARCH)
  folder=$(go mod download -json "$toolchain" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  [ -n "$folder" ] || die "the Go module proxy did not give Go 1.22, which Helm needs"
  chmod -R u+w "$folder"
  chmod +x "$folder"/bin/* "$folder"/pkg/tool/*/*
  go=$folder/bin/go
  ;;
esac
GOBIN=$target/bin "$go" install helm.sh/helm/v3/cmd/helm@v3.16.4 || die "Helm could not be built from the Go module proxy"
cat "$here/requirements.txt" "$here/install.sh" > "$target/installed"
