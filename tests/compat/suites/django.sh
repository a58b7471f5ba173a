#!/bin/bash
# Django's tests that use a database, with mysqlclient; see django/compat_settings.py.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/python.sh"
version=5.2.19

# Applications whose tests are about rows, transactions and schemas; the others are about templates, forms and
# views.
applications=(
  aggregation aggregation_regress annotations backends basic bulk_create cache.tests.DBCacheTests composite_pk constraints
  custom_columns datatypes dates datetimes db_functions db_typecasts delete delete_regress expressions expressions_case
  expressions_window fixtures fixtures_regress foreign_object from_db_value get_or_create indexes inspectdb introspection
  lookup many_to_many migrate_signals migrations model_fields model_inheritance multiple_database prefetch_related queries
  raw_query schema select_for_update select_related timezones transaction_hooks transactions update
)

install() {
  packages "mysqlclient==2.2.7" asgiref==3.10.0 sqlparse==0.5.3 tblib==3.2.0
  sources Django $version
}

run() {
  mariadb "-h$1" "-P$2" "-u$3" "-p$4" -e 'DROP DATABASE IF EXISTS test_django; DROP DATABASE IF EXISTS test_django_other'
  cd "$COMPAT_DIR/$version/tests"
  COMPAT_HOST=$1 COMPAT_PORT=$2 COMPAT_USER=$3 COMPAT_PASSWORD=$4 PYTHONPATH=$here/django:$COMPAT_DIR/$version \
    PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1 "$COMPAT_DIR/python/bin/python" runtests.py --settings compat_settings \
    --parallel 1 --noinput -v 2 "${applications[@]}" 3>&1 >&2 || true
}

"$@"
