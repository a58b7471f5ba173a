#!/bin/bash
# setup.sh [what...]
# Installs what is missing on a Debian machine, with apt as root or through sudo; quick when all is there.
#   rust     a stable Rust toolchain, a C compiler and linker
#   servers  MariaDB (server and client), for the sandbox; Galera and rsync, for tests
#   etcd     etcd, for tests of fleets
#   load     sysbench and HAProxy, for the demo and the benches; valgrind, which counts instructions
#   metrics  Prometheus, with promtool
#   drivers  the drivers that tests connect with, into target/drivers, and Helm and schemas for manifests, into target/manifests
#   compat   what the suites of make compat need that drivers does not install
#   mysql9   MySQL 9 of Debian sid, into /opt/mysql9
#   deb      what the Debian package is made and checked with
#   package  what the other packages, the archive and the image are made and checked with: two more Rust targets, C compilers
#            for them, tools for images, an emulator
#   profile  what releases are optimised for their profile with
#   fuzz     nightly Rust and cargo-fuzz
#   console  Chromium, Node.js with npm, and tmux, which look at the console and at narrows top
#   book     mdBook, into target/tools, and Node.js, which runs the book's search in its check
# Without arguments: rust, servers, etcd and load.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo > /dev/null; then sudo "$@"
  else die "this needs root, and there is no sudo: run as root: $*"
  fi
}

# Installs missing packages. Other packages keep their versions.
packages() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get > /dev/null || die "not a Debian machine; install by hand: ${missing[*]}"
  echo "setup: installing ${missing[*]}"
  as_root apt-get update -qq || die "apt-get update failed"
  # A newly installed server would start its service; the policy prevents that during this installation.
  local policy=/usr/sbin/policy-rc.d ours=
  if [ ! -e $policy ]; then
    ours=1
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy > /dev/null
    as_root chmod +x $policy
    # shellcheck disable=SC2064 # the path is fixed
    trap "as_root rm -f $policy" EXIT
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null ||
    die "apt-get could not install: ${missing[*]}"
  [ -z "$ours" ] || { as_root rm -f $policy; trap - EXIT; }
}

# Nothing to do if the command exists, even if it was installed in another way.
command_or_package() { command -v "$1" > /dev/null || packages "$2"; }

# Debian 13 and later have rustup; on older ones its own installer is used, which changes nothing outside the
# home folder.
install_rustup() {
  if apt-cache policy rustup 2> /dev/null | grep -q 'Candidate: [0-9]'; then packages rustup; return; fi
  packages curl ca-certificates
  echo "setup: installing Rust with rustup, for this user only"
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path ||
    die "rustup could not be installed; install Rust by hand, in the version that Cargo.toml asks for (https://rustup.rs)"
}

install_rust() {
  command_or_package cc gcc
  [ -e /usr/include/stdio.h ] || packages libc6-dev
  PATH=$HOME/.cargo/bin:$PATH
  local wanted have
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if have=$(cargo --version 2> /dev/null | cut -d' ' -f2) && [ -n "$have" ]; then
    [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] && return 0
    echo "setup: cargo $have is older than $wanted"
  fi
  if ! command -v rustup > /dev/null; then install_rustup; fi
  rustup toolchain install stable --profile minimal --component rustfmt --component clippy
  cargo --version
}

install_servers() {
  [ -x /usr/sbin/mariadbd ] || packages mariadb-server
  # The documents have examples with certificates.
  command_or_package openssl openssl
  # A Galera cluster, for tests.
  [ -e /usr/lib/galera/libgalera_smm.so ] || packages galera-4
  command_or_package rsync rsync
  command_or_package mariadb mariadb-client
}

install_etcd() {
  command_or_package etcd etcd-server
  command_or_package etcdctl etcd-client
}

install_load() {
  command_or_package sysbench sysbench
  [ -x /usr/sbin/haproxy ] || packages haproxy
  command_or_package valgrind valgrind
}

install_metrics() {
  command_or_package promtool prometheus
  command_or_package tmux tmux
}

install_toolchains() {
  install_servers
  command_or_package python3 python3
  python3 -c 'import venv, ensurepip' 2> /dev/null || packages python3-venv
  # mysqlclient is compiled against the client library, and against Python if that is Debian's.
  command_or_package cc gcc
  command_or_package pkg-config pkg-config
  packages libmariadb-dev
  [ "$(command -v python3)" != /usr/bin/python3 ] || packages python3-dev
  command_or_package node nodejs
  command_or_package npm npm
  command_or_package go golang-go
  command_or_package java default-jdk-headless
  command_or_package mvn maven
}

install_drivers() {
  install_toolchains
  packages php-cli php-mysql ruby ruby-mysql2 ruby-activerecord
  tests/drivers/install.sh
  tests/manifests/install.sh
}

install_compat() {
  install_toolchains
  packages percona-toolkit mydumper openssl socat mariadb-test mariadb-test-data unzip
  # MySQL's own programs, with the server that they belong to.
  local folder=/opt/mysql9-testsuite
  [ ! -x $folder/bin/mysqltest ] || return 0
  packages ca-certificates debian-archive-keyring
  if [ -w /opt ]; then PACKAGES=mysql-testsuite scripts/install-mysql9.sh $folder
  else as_root env PACKAGES=mysql-testsuite scripts/install-mysql9.sh $folder
  fi
}

install_mysql9() {
  packages ca-certificates debian-archive-keyring
  if [ -w /opt ] || [ -x /opt/mysql9/bin/mysqld ]; then scripts/install-mysql9.sh
  else as_root scripts/install-mysql9.sh
  fi
}

install_deb() { packages dpkg-dev binutils systemd adduser man-db; }

install_package() {
  install_rust
  command -v rustup > /dev/null || die "the targets musl and arm64 are components of rustup's toolchains, and there is no rustup"
  rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-gnu
  command_or_package musl-gcc musl-tools
  command_or_package aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
  packages libc6-dev-arm64-cross
  command_or_package qemu-aarch64-static qemu-user-static
  command_or_package bwrap bubblewrap
  command_or_package skopeo skopeo
}

install_profile() {
  install_rust
  command -v rustup > /dev/null || die "llvm-profdata is a component of rustup's toolchains, and there is no rustup"
  rustup component add llvm-tools
}

install_fuzz() {
  install_rust
  command_or_package c++ g++
  cargo +nightly --version > /dev/null 2>&1 || rustup toolchain install nightly --profile minimal
  cargo fuzz --version > /dev/null 2>&1 || cargo install --locked cargo-fuzz
}

install_console() {
  command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || command_or_package chromium chromium
  command_or_package node nodejs
  command_or_package npm npm
  command_or_package tmux tmux
}

install_book() {
  install_rust
  command_or_package node nodejs
  local version=0.5.4
  [ "$(target/tools/bin/mdbook --version 2> /dev/null)" = "mdbook v$version" ] ||
    cargo install --locked --quiet --debug --version $version --no-default-features --features search --root target/tools mdbook
}

[ $# -gt 0 ] || set -- rust servers etcd load
for what in "$@"; do
  case $what in
    rust | servers | etcd | load | metrics | drivers | compat | mysql9 | deb | package | profile | fuzz | console | book) "install_$what" ;;
    *) die "unknown: $what; see the head of $0" ;;
  esac
done
