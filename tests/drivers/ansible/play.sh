#!/bin/bash
# play.sh ADMIN_PORT [OPTION...]: runs the playbook against the admin interface at 127.0.0.1:ADMIN_PORT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../../.." && pwd)/target/drivers
"$here/../install.sh" ansible
port=$1
shift
# Ansible creates temporary files for each run.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export LC_ALL=C.UTF-8 HOME=$home ANSIBLE_HOME=$home ANSIBLE_LOCAL_TEMP=$home/local ANSIBLE_REMOTE_TEMP=$home/remote
export ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_NOCOLOR=1 ANSIBLE_STDOUT_CALLBACK=default
export ANSIBLE_PYTHON_INTERPRETER=$target/ansible/bin/python
timeout --kill-after=5 300 "$target/ansible/bin/ansible-playbook" -i localhost, -c local "$here/playbook.yml" \
  -e "admin_port=$port" "$@"
