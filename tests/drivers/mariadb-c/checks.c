/* Checks of prepared statements with MariaDB Connector/C: checks HOST PORT USER PASSWORD. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char schema[64];

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void expect(const char *what, long long actual, long long wanted) {
  if (actual == wanted) return;
  fprintf(stderr, "%s: wanted %lld, got %lld\n", what, wanted, actual);
  exit(1);
}

static void query(MYSQL *db, const char *text) {
  if (mysql_query(db, text)) fail(text, mysql_error(db));
}

static MYSQL_STMT *prepare(MYSQL *db, const char *text) {
  MYSQL_STMT *statement = mysql_stmt_init(db);
  if (mysql_stmt_prepare(statement, text, strlen(text))) fail(text, mysql_stmt_error(statement));
  return statement;
}

static void run(MYSQL_STMT *statement, const char *what) {
  if (mysql_stmt_execute(statement)) fail(what, mysql_stmt_error(statement));
}

static MYSQL_BIND integer(int *place) {
  MYSQL_BIND bind;
  memset(&bind, 0, sizeof bind);
  bind.buffer_type = MYSQL_TYPE_LONG;
  bind.buffer = place;
  return bind;
}

static MYSQL_BIND text(char *place, unsigned long *length, unsigned long room) {
  MYSQL_BIND bind;
  memset(&bind, 0, sizeof bind);
  bind.buffer_type = MYSQL_TYPE_STRING;
  bind.buffer = place;
  bind.buffer_length = room;
  bind.length = length;
  return bind;
}

/* Types are bound once: later executions leave them out. */
static void check_executions(MYSQL *db, MYSQL *other) {
  MYSQL_STMT *insert = prepare(db, "INSERT INTO item (id, name) VALUES (?, ?)");
  MYSQL_STMT *by_other = prepare(other, "INSERT INTO item (id, name) VALUES (?, ?)");
  int id;
  char name[32], digits[32];
  unsigned long length, digits_length;
  MYSQL_BIND values[] = {integer(&id), text(name, &length, sizeof name)};
  MYSQL_BIND reversed[] = {text(digits, &digits_length, sizeof digits), integer(&id)};
  if (mysql_stmt_bind_param(insert, values)) fail("bind", mysql_stmt_error(insert));
  if (mysql_stmt_bind_param(by_other, reversed)) fail("bind", mysql_stmt_error(by_other));
  for (id = 0; id < 100; id++) {
    length = sprintf(name, "name %d", id);
    run(insert, "insert");
    digits_length = sprintf(digits, "%d", 1000 + id);
    run(by_other, "insert by another");
  }
  mysql_stmt_close(insert);
  mysql_stmt_close(by_other);
  MYSQL_STMT *find = prepare(db, "SELECT id, name FROM item WHERE id >= ? ORDER BY id LIMIT 1");
  int found;
  MYSQL_BIND wanted[] = {integer(&id)}, row[] = {integer(&found), text(name, &length, sizeof name)};
  mysql_stmt_bind_param(find, wanted);
  mysql_stmt_bind_result(find, row);
  for (id = 0; id < 100; id += 10) {
    run(find, "find");
    expect("fetch", mysql_stmt_fetch(find), 0);
    expect("id", found, id);
    expect("end", mysql_stmt_fetch(find), MYSQL_NO_DATA);
    mysql_stmt_free_result(find);
  }
  mysql_stmt_close(find);
}

static void check_cursor(MYSQL *db, MYSQL *other) {
  MYSQL_STMT *all = prepare(db, "SELECT id FROM item WHERE id < 100 ORDER BY id");
  unsigned long type = CURSOR_TYPE_READ_ONLY, rows = 7;
  mysql_stmt_attr_set(all, STMT_ATTR_CURSOR_TYPE, &type);
  mysql_stmt_attr_set(all, STMT_ATTR_PREFETCH_ROWS, &rows);
  for (int round = 0; round < 2; round++) {
    int id, count = 0;
    MYSQL_BIND row[] = {integer(&id)};
    run(all, "cursor");
    mysql_stmt_bind_result(all, row);
    while (mysql_stmt_fetch(all) == 0) {
      expect("row of a cursor", id, count++);
      if (count % 20 == 0) query(other, "DO 1");
    }
    expect("rows of a cursor", count, 100);
  }
  mysql_stmt_close(all);
}

static void check_long_data(MYSQL *db) {
  MYSQL_STMT *measure = prepare(db, "SELECT LENGTH(?), ?");
  static char part[100000];
  memset(part, 'x', sizeof part);
  int five = 5, length, got;
  MYSQL_BIND values[] = {text(part, NULL, 0), integer(&five)}, row[] = {integer(&length), integer(&got)};
  mysql_stmt_bind_param(measure, values);
  mysql_stmt_bind_result(measure, row);
  for (int round = 1; round <= 3; round++) {
    for (int n = 0; n < 10 * round; n++)
      if (mysql_stmt_send_long_data(measure, 0, part, sizeof part)) fail("long data", mysql_stmt_error(measure));
    run(measure, "measure");
    expect("fetch", mysql_stmt_fetch(measure), 0);
    expect("length of the parts", length, 1000000LL * round);
    expect("the other parameter", got, 5);
    mysql_stmt_free_result(measure);
    if (mysql_stmt_reset(measure)) fail("reset", mysql_stmt_error(measure));
  }
  mysql_stmt_close(measure);
}

/* COM_STMT_BULK_EXECUTE, and preparing and executing in one go with the id -1. */
static void check_mariadb(MYSQL *db) {
  MYSQL_STMT *insert = prepare(db, "INSERT INTO item (id, name) VALUES (?, ?)");
  int ids[500];
  char *names[500];
  unsigned long lengths[500];
  for (int n = 0; n < 500; n++) {
    ids[n] = 5000 + n;
    names[n] = "bulk";
    lengths[n] = 4;
  }
  MYSQL_BIND values[] = {integer(ids), text((char *)names, lengths, 0)};
  unsigned int size = 500;
  mysql_stmt_attr_set(insert, STMT_ATTR_ARRAY_SIZE, &size);
  mysql_stmt_bind_param(insert, values);
  run(insert, "bulk");
  expect("rows of a bulk", mysql_stmt_affected_rows(insert), 500);
  mysql_stmt_close(insert);
  for (int n = 0; n < 5; n++) {
    MYSQL_STMT *direct = mysql_stmt_init(db);
    int count;
    MYSQL_BIND row[] = {integer(&count)};
    if (mariadb_stmt_execute_direct(direct, "SELECT COUNT(*) FROM item WHERE name = 'bulk'", -1))
      fail("direct", mysql_stmt_error(direct));
    mysql_stmt_bind_result(direct, row);
    expect("fetch", mysql_stmt_fetch(direct), 0);
    expect("count", count, 500);
    mysql_stmt_close(direct);
  }
}

static void check_errors(MYSQL *db) {
  MYSQL_STMT *statement = mysql_stmt_init(db);
  expect("a syntax error", mysql_stmt_prepare(statement, "SELEC ?", -1) != 0, 1);
  expect("its number", mysql_stmt_errno(statement), 1064);
  mysql_stmt_close(statement);
  MYSQL_STMT *again = prepare(db, "INSERT INTO item (id) VALUES (1)");
  expect("a duplicate", mysql_stmt_execute(again) != 0, 1);
  expect("its number", mysql_stmt_errno(again), 1062);
  mysql_stmt_close(again);
  query(db, "DO 1");
}

static MYSQL *connect_to(char **arguments, const char *database) {
  MYSQL *db = mysql_init(NULL);
  if (!mysql_real_connect(db, arguments[1], arguments[3], arguments[4], database, atoi(arguments[2]), NULL, 0))
    fail("connect", mysql_error(db));
  return db;
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  char statement[128];
  MYSQL *root = connect_to(arguments, NULL);
  sprintf(schema, "checks_c_%d", getpid());
  sprintf(statement, "CREATE DATABASE %s", schema);
  query(root, statement);
  MYSQL *db = connect_to(arguments, schema), *other = connect_to(arguments, schema);
  query(db, "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(100))");
  check_executions(db, other);
  check_cursor(db, other);
  check_long_data(db);
  if (strstr(mysql_get_server_info(db), "MariaDB")) check_mariadb(db);
  check_errors(db);
  mysql_close(db);
  mysql_close(other);
  sprintf(statement, "DROP DATABASE %s", schema);
  query(root, statement);
  mysql_close(root);
  puts("ok");
  return 0;
}
