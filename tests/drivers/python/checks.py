"""Checks of a Python driver: checks.py MODULE HOST PORT USER PASSWORD, MODULE being pymysql or MySQLdb."""

import datetime
import decimal
import importlib
import os
import sys
import tempfile

module = importlib.import_module(sys.argv[1])
host, port, user, password = sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
schema = f"checks_{sys.argv[1].lower()}_{os.getpid()}"


def connect(**options):
    defaults = dict(host=host, port=port, user=user, password=password, charset="utf8mb4", autocommit=True)
    options = {**defaults, **options}
    if sys.argv[1] == "pymysql":
        options["local_infile"] = bool(options.get("local_infile", False))
    return module.connect(**options)


def query(connection, sql, arguments=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchall()


def expect(actual, wanted):
    if actual != wanted:
        raise AssertionError(f"wanted {wanted!r:.300}, got {actual!r:.300}")


def expect_error(code, action):
    try:
        action()
    except module.Error as error:
        expect(error.args[0], code)
    else:
        raise AssertionError(f"wanted error {code}, got none")


def check_schema_and_tables(db):
    query(db, "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) CHARACTER SET utf8mb4, n INT)")
    query(db, "CREATE INDEX item_n ON item (n)")
    query(db, "ALTER TABLE item ADD COLUMN note TEXT")
    expect([row[0] for row in query(db, "SHOW COLUMNS FROM item")], ["id", "name", "n", "note"])


def check_insert_update_delete(db):
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO item (name, n) VALUES (%s, %s)", ("one", 1))
        expect((cursor.rowcount, cursor.lastrowid), (1, 1))
        expect(cursor.executemany("INSERT INTO item (name, n) VALUES (%s, %s)", [("two", 2), ("three", 3)]), 2)
        expect(cursor.execute("UPDATE item SET n = n + 10 WHERE n >= 2"), 2)
        expect(cursor.execute("DELETE FROM item WHERE n = 13"), 1)
    expect(query(db, "SELECT id, name, n FROM item ORDER BY id"), ((1, "one", 1), (2, "two", 12)))


def check_transactions(db):
    writer, reader = connect(database=schema, autocommit=False), connect(database=schema)
    query(writer, "INSERT INTO item (name, n) VALUES ('uncommitted', 100)")
    expect(query(writer, "SELECT COUNT(*) FROM item WHERE n = 100"), ((1,),))
    expect(query(reader, "SELECT COUNT(*) FROM item WHERE n = 100"), ((0,),))
    writer.rollback()
    expect(query(writer, "SELECT COUNT(*) FROM item WHERE n = 100"), ((0,),))
    query(writer, "INSERT INTO item (name, n) VALUES ('committed', 100)")
    writer.commit()
    expect(query(reader, "SELECT COUNT(*) FROM item WHERE n = 100"), ((1,),))
    writer.begin() if hasattr(writer, "begin") else query(writer, "BEGIN")
    query(writer, "SAVEPOINT here")
    query(writer, "DELETE FROM item")
    query(writer, "ROLLBACK TO SAVEPOINT here")
    writer.commit()
    expect(query(reader, "SELECT COUNT(*) FROM item WHERE n = 100"), ((1,),))
    writer.close()
    reader.close()


def check_isolation(db):
    snapshot = connect(database=schema, autocommit=False)
    query(snapshot, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    query(snapshot, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    query(db, "INSERT INTO item (name, n) VALUES ('later', 200)")
    expect(query(snapshot, "SELECT COUNT(*) FROM item WHERE n = 200"), ((0,),))
    snapshot.commit()
    query(snapshot, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    query(snapshot, "START TRANSACTION")
    expect(query(snapshot, "SELECT COUNT(*) FROM item WHERE n = 200"), ((1,),))
    query(db, "UPDATE item SET n = 201 WHERE n = 200")
    expect(query(snapshot, "SELECT COUNT(*) FROM item WHERE n = 201"), ((1,),))
    snapshot.close()


def check_column_types(db):
    query(db, """CREATE TABLE types (
        a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT, e BIGINT UNSIGNED, f FLOAT, g DOUBLE, h DECIMAL(30,10),
        i DATE, j DATETIME(6), k TIME(3), l YEAR, m CHAR(5), n VARCHAR(20), o BINARY(4), p VARBINARY(20), q TEXT,
        r LONGBLOB, s ENUM('x','y'), t SET('u','v','w'), u BIT(12), v JSON)""")
    values = (-128, 65535, -8388608, -(2**63), 2**64 - 1, 1.5, 2.25, decimal.Decimal("12345678901234567890.0123456789"),
              datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
              datetime.timedelta(hours=-100, minutes=-1, seconds=-2, milliseconds=-345), 2024, "abc", "v",
              b"\0\1\2\xff", b"\0'\"\\", "text", bytes(range(256)), "y", "u,w", b"\x0a\xbc", '{"k": [1, null]}')
    marks = ", ".join(["_binary %s" if isinstance(value, bytes) else "%s" for value in values])
    query(db, f"INSERT INTO types VALUES ({marks})", values)
    query(db, f"INSERT INTO types VALUES ({', '.join(['NULL'] * len(values))})")
    got, nulls = query(db, "SELECT * FROM types ORDER BY a IS NULL")
    got = list(got)
    if isinstance(got[19], set):
        got[19] = ",".join(sorted(got[19]))
    expect(tuple(got), values)
    expect(nulls, (None,) * len(values))


def check_charsets(db):
    text = "grüße, 日本語, 🦀🚀"
    query(db, "INSERT INTO item (name, n) VALUES (%s, 300)", (text,))
    expect(query(db, "SELECT name, CHAR_LENGTH(name) FROM item WHERE n = 300"), ((text, len(text)),))
    latin = connect(database=schema, charset="latin1")
    expect(query(latin, "SELECT %s", ("größe",)), (("größe",),))
    expect(query(latin, "SELECT @@character_set_client, HEX('ö')"), (("latin1", "F6"),))
    latin.close()


def check_many_rows(db):
    query(db, "CREATE TABLE digit (d INT)")
    query(db, "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    many = """SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d AS n, REPEAT('x', 50) AS filler
        FROM digit a, digit b, digit c, digit d, digit e"""
    rows = query(db, many)
    expect((len(rows), sum(row[0] for row in rows)), (100000, 4999950000))
    # Unbuffered: rows are read from the network while the caller iterates.
    streaming = importlib.import_module(f"{sys.argv[1]}.cursors").SSCursor
    with db.cursor(streaming) as cursor:
        cursor.execute(many)
        expect(sum(1 for _ in cursor), 100000)
    expect(query(db, "SELECT n FROM item WHERE n = -1"), ())


def check_big_values(db):
    query(db, "CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)")
    data = os.urandom(1 << 20) * 20
    query(db, "INSERT INTO big VALUES (1, _binary %s)", (data,))
    ((length, got),) = query(db, "SELECT LENGTH(data), data FROM big WHERE id = 1")
    expect(length, len(data))
    if got != data:
        raise AssertionError("a blob of 20 MiB came back changed")


def check_errors(db):
    expect_error(1064, lambda: query(db, "SELEC 1"))
    expect_error(1062, lambda: query(db, "INSERT INTO item (id) VALUES (1)"))
    expect_error(1146, lambda: query(db, "SELECT * FROM no_such_table"))
    expect_error(1054, lambda: query(db, "SELECT no_such_column FROM item"))
    expect_error(1049, lambda: query(db, "USE no_such_schema"))
    expect_error(1049, lambda: connect(database="no_such_schema"))
    expect_error(1045, lambda: connect(password="wrong"))
    expect_error(1045, lambda: connect(user="nobody_of_this_name"))
    expect(query(db, "SELECT 1"), ((1,),))


def check_warnings(db):
    query(db, "SET SESSION sql_mode = ''")
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO item (n) VALUES ('12 and more')")
        cursor.execute("SHOW WARNINGS")
        ((level, code, _),) = cursor.fetchall()
    expect((level, code), ("Warning", 1265))
    query(db, "SET SESSION sql_mode = DEFAULT")


def check_multi_statements(db):
    flag = importlib.import_module(f"{sys.argv[1]}.constants.CLIENT").MULTI_STATEMENTS
    multi = connect(database=schema, client_flag=flag)
    with multi.cursor() as cursor:
        cursor.execute("SELECT 1; INSERT INTO item (n) VALUES (400); SELECT n FROM item WHERE n = 400")
        expect(cursor.fetchall(), ((1,),))
        expect(bool(cursor.nextset()), True)
        expect(cursor.rowcount, 1)
        expect(bool(cursor.nextset()), True)
        expect(cursor.fetchall(), ((400,),))
        expect(cursor.nextset(), None)
    # The error of a later statement comes after the results of the earlier ones.
    with multi.cursor() as cursor:
        cursor.execute("SELECT 2; SELECT * FROM no_such_table")
        expect(cursor.fetchall(), ((2,),))
        expect_error(1146, cursor.nextset)
    multi.close()


def check_procedures(db):
    query(db, """CREATE PROCEDURE twice (IN given INT, OUT doubled INT)
        BEGIN SELECT given AS first; SELECT given + 1 AS second; SET doubled = given * 2; END""")
    with db.cursor() as cursor:
        cursor.callproc("twice", (21, 0))
        expect(cursor.fetchall(), ((21,),))
        cursor.nextset()
        expect(cursor.fetchall(), ((22,),))
        while cursor.nextset():
            pass
        cursor.execute("SELECT @_twice_1")
        expect(cursor.fetchall(), ((42,),))


def check_load_data_local(db):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("".join(f"{n},line {n}\n" for n in range(5000)))
        file.flush()
        loader = connect(database=schema, local_infile=True)
        query(loader, "CREATE TABLE loaded (n INT, text VARCHAR(50))")
        with loader.cursor() as cursor:
            expect(cursor.execute("LOAD DATA LOCAL INFILE %s INTO TABLE loaded FIELDS TERMINATED BY ','", (file.name,)), 5000)
        expect(query(loader, "SELECT COUNT(*), SUM(n) FROM loaded"), ((5000, 12497500),))
        loader.close()


def check_session_state(db):
    query(db, "SET @mine = 'kept'")
    query(db, "SET SESSION time_zone = '+05:00'")
    expect(query(db, "SELECT @mine, @@time_zone"), (("kept", "+05:00"),))
    query(db, "CREATE TEMPORARY TABLE passing (n INT)")
    query(db, "INSERT INTO passing VALUES (7)")
    expect(query(db, "SELECT n FROM passing"), ((7,),))
    db.ping()
    db.select_db("mysql")
    expect(query(db, "SELECT DATABASE()"), (("mysql",),))
    db.select_db(schema)


def main():
    db = connect()
    query(db, f"CREATE DATABASE {schema}")
    try:
        db.select_db(schema)
        for name, check in list(globals().items()):
            if name.startswith("check_"):
                check(db)
                print("ok", name[6:].replace("_", " "), flush=True)
    finally:
        query(connect(), f"DROP DATABASE {schema}")


main()
