"""Checks of prepared statements with MySQL Connector/Python: prepared.py HOST PORT USER PASSWORD."""

import os
import sys

import mysql.connector

host, port, user, password = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
schema = f"checks_connector_{os.getpid()}"


def connect(**options):
    return mysql.connector.connect(
        host=host, port=port, user=user, password=password, use_pure=True, ssl_disabled=True, autocommit=True,
        collation="utf8mb4_general_ci", **options)


def expect(actual, wanted):
    if actual != wanted:
        raise AssertionError(f"wanted {wanted!r:.300}, got {actual!r:.300}")


def expect_error(code, action):
    try:
        action()
    except mysql.connector.Error as error:
        expect(error.errno, code)
    else:
        raise AssertionError(f"wanted error {code}, got none")


root = connect()
root.cmd_query(f"CREATE DATABASE {schema}")
db, other = connect(database=schema), connect(database=schema)
db.cmd_query("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(100), data LONGBLOB)")
insert, by_other = (each.cursor(prepared=True) for each in (db, other))
for n in range(100):
    insert.execute("INSERT INTO item (id, name) VALUES (?, ?)", (n, f"name {n}"))
    by_other.execute("INSERT INTO item (id, name) VALUES (?, ?)", (str(1000 + n), "by other"))
    expect((insert.rowcount, by_other.rowcount), (1, 1))
find = db.cursor(prepared=True)
for n in range(0, 100, 10):
    find.execute("SELECT id, name FROM item WHERE id = ?", (n,))
    expect(find.fetchall(), [(n, f"name {n}")])
    find.execute("SELECT id, name FROM item WHERE id = ?", (str(n),))
    expect(find.fetchall(), [(n, f"name {n}")])
find.execute("SELECT id FROM item ORDER BY id")
expect(len(find.fetchmany(50)), 50)
expect(len(find.fetchall()), 150)
# Long values are sent in parts (COM_STMT_SEND_LONG_DATA).
blob = os.urandom(1 << 20) * 3
insert.execute("INSERT INTO item (id, data) VALUES (?, ?)", (5000, blob))
find.execute("SELECT data FROM item WHERE id = ?", (5000,))
((got,),) = find.fetchall()
expect(bytes(got) == blob, True)
expect_error(1064, lambda: find.execute("SELEC ?", (1,)))
expect_error(1062, lambda: insert.execute("INSERT INTO item (id) VALUES (?)", (1,)))
root.cmd_query(f"DROP DATABASE {schema}")
print("ok")
