# Shared by the Python suites: a virtual environment, and sources fetched from PyPI by name and version.

# packages VERSIONS...: installs them into $COMPAT_DIR/python, once.
packages() {
  if [ "$(cat "$COMPAT_DIR/packages" 2> /dev/null)" = "$*" ]; then return 0; fi
  rm -rf "$COMPAT_DIR/python" "$COMPAT_DIR/packages"
  python3 -m venv "$COMPAT_DIR/python"
  "$COMPAT_DIR/python/bin/pip" install -q --disable-pip-version-check "$@"
  echo "$*" > "$COMPAT_DIR/packages"
}

# sources NAME VERSION: unpacks the source distribution into $COMPAT_DIR/VERSION, once. Only the archive is
# needed.
sources() {
  [ ! -d "$COMPAT_DIR/$2" ] || return 0
  rm -rf "$COMPAT_DIR/fetched" "$COMPAT_DIR/unpacked"
  mkdir -p "$COMPAT_DIR/unpacked"
  "$COMPAT_DIR/python/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary "$1" \
    -d "$COMPAT_DIR/fetched" "$1==$2"
  tar xzf "$COMPAT_DIR"/fetched/*.tar.gz -C "$COMPAT_DIR/unpacked" --strip-components=1
  mv "$COMPAT_DIR/unpacked" "$COMPAT_DIR/$2"
}

# Converts the output of `pytest -v` into one line per test; classes and parameters are part of the name.
outcomes_of_pytest() {
  sed -nE 's/^([^ ]+::.*) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)( .*)?$/\2\t\1/p' |
    sed -E 's/^PASSED/pass/; s/^FAILED/fail/; s/^ERROR/error/; s/^SKIPPED/skip/; s/^XFAIL/xfail/; s/^XPASS/xpass/'
}
