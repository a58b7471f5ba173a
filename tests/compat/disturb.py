#!/usr/bin/env python3
"""disturb.py HOST PORT USER PASSWORD [SEED]

Three clients that are busy until standard input ends. Each sets what a session can have, in every way in which it can be
set, uses it, and takes a part of it back; others that share connections with it must not notice, and it must not notice
them. Each draws its steps from the seed, has schemas of its own (disturb_1, disturb_1_b), waits for nobody for long, and
holds nothing that others need. Prints a line MISMATCH for each value that is not the client's own, and a line `done` with
the numbers of statements and of errors, which are usual: a setting makes a later statement fail.
"""

import random
import struct
import sys
import threading
import time

import pymysql
from pymysql.constants import CLIENT, COMMAND

CLIENTS = 3
# However long the programs beside it take, this ends.
MAX_SECONDS = 3 * 3600
# Between two steps, so that the programs beside it get their share of the processors.
PAUSE_SECONDS = 0.004
MAX_PRINTED = 100
COM_RESET_CONNECTION = 0x1F

SETTINGS = {
    "sql_mode": [
        "''", "'ANSI_QUOTES'", "'NO_BACKSLASH_ESCAPES'", "'PAD_CHAR_TO_FULL_LENGTH'", "'PIPES_AS_CONCAT,STRICT_ALL_TABLES'",
        "'NO_AUTO_VALUE_ON_ZERO'", "'IGNORE_SPACE'", "'HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'",
    ],
    "time_zone": ["'+05:30'", "'-11:00'", "SYSTEM"],
    "character_set_client": ["latin1", "utf8mb4", "sjis"],
    "character_set_results": ["latin1", "utf8mb4"],
    "character_set_connection": ["latin1", "utf8mb4", "cp1251"],
    "collation_connection": ["latin1_bin", "utf8mb4_bin"],
    "autocommit": ["0", "1"],
    "sql_select_limit": ["1", "DEFAULT"],
    "foreign_key_checks": ["0", "1"],
    "unique_checks": ["0", "1"],
    "sql_safe_updates": ["0", "1"],
    "sql_big_selects": ["0", "1"],
    "group_concat_max_len": ["5", "1000"],
    "div_precision_increment": ["1", "9"],
    "lc_time_names": ["'de_DE'", "'ja_JP'"],
    "lc_messages": ["'de_DE'", "'en_US'"],
    "max_error_count": ["0", "1", "64"],
    "sql_notes": ["0", "1"],
    "sql_warnings": ["0", "1"],
    "sql_log_bin": ["0", "1"],
    "default_storage_engine": ["'MEMORY'", "'InnoDB'"],
    "default_week_format": ["3", "0"],
    "auto_increment_increment": ["3", "1"],
    "auto_increment_offset": ["2", "1"],
    "sql_auto_is_null": ["1", "0"],
    "sql_quote_show_create": ["0", "1"],
    "innodb_lock_wait_timeout": ["1", "2"],
    "lock_wait_timeout": ["1", "2"],
    "max_sort_length": ["8", "1024"],
    "max_join_size": ["1000", "DEFAULT"],
    "optimizer_switch": ["'index_merge=off,mrr=on'", "DEFAULT"],
    "timestamp": ["100", "DEFAULT"],
    "insert_id": ["777"],
    "rand_seed1": ["7"],
    "session_track_schema": ["0", "1"],
    "session_track_system_variables": ["''", "'*'", "'sql_mode'"],
    "session_track_state_change": ["0", "1"],
    "session_track_transaction_info": ["'OFF'", "'STATE'", "'CHARACTERISTICS'"],
}
OF_MARIADB = {
    "tx_isolation": ["'SERIALIZABLE'", "'READ-COMMITTED'", "'REPEATABLE-READ'"],
    "tx_read_only": ["0", "1"],
    "check_constraint_checks": ["0", "1"],
    "max_statement_time": ["20", "0"],
    "sql_if_exists": ["1", "0"],
    "system_versioning_asof": ["'2001-01-01 00:00:00'", "DEFAULT"],
    "standard_compliant_cte": ["0", "1"],
    "profiling": ["1", "0"],
}
OF_MYSQL = {
    "transaction_isolation": ["'SERIALIZABLE'", "'READ-COMMITTED'", "'REPEATABLE-READ'"],
    "transaction_read_only": ["0", "1"],
    "sql_require_primary_key": ["1", "0"],
    "sql_generate_invisible_primary_key": ["1", "0"],
    "windowing_use_high_precision": ["0", "1"],
    "show_create_table_verbosity": ["1", "0"],
    "max_execution_time": ["20000", "0"],
    "cte_max_recursion_depth": ["3", "1000"],
    "default_collation_for_utf8mb4": ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci"],
}
# One setting changes the other one.
RELATED = [{"character_set_connection", "collation_connection"}, {"max_join_size", "sql_big_selects"}]
# These are not read back: the server changes them by itself, or reading them needs what they take away.
NOT_READ = {
    "system_versioning_asof", "sql_big_selects", "max_join_size", "timestamp", "insert_id", "rand_seed1", "character_set_client",
    "character_set_results", "sql_select_limit",
}


class Stop(Exception):
    """The end was asked for."""


class Client:
    def __init__(self, number, address, seed):
        self.number, self.address = number, address
        self.random = random.Random(f"{seed} {number}")
        self.schemas = [f"disturb_{number}", f"disturb_{number}_b"]
        self.statements = self.errors = 0
        self.stopped = False
        self.log = []
        self.connection = None
        self.recent = []

    # `known` is what the client knows of its session; a value is forgotten where a statement may have changed it.
    def connect(self):
        host, port, user, password = self.address
        flags = self.random.choice([0, CLIENT.FOUND_ROWS, CLIENT.IGNORE_SPACE]) | CLIENT.MULTI_STATEMENTS
        self.connection = pymysql.connect(
            host=host, port=port, user=user, password=password, client_flag=flags, connect_timeout=20, read_timeout=30,
            autocommit=None, charset="utf8mb4",
        )
        self.mariadb = "MariaDB" in self.connection.get_server_info()
        self.settings = SETTINGS | (OF_MARIADB if self.mariadb else OF_MYSQL)
        self.read_base()

    def read_base(self):
        """Reads what the session begins with, which nobody else may change."""
        self.known = {}
        if self.run(f"USE {self.schemas[0]}") is not None:
            self.known["DATABASE()"] = self.schemas[0]
        names = sorted(set(self.settings) - NOT_READ)
        rows = self.run("SELECT " + ", ".join(f"@@{name}" for name in names))
        if rows:
            self.known |= {f"@@{name}": value for name, value in zip(names, rows[0])}
        self.known["@d"] = self.known["@of_nobody"] = None

    def run(self, sql):
        """Runs a text; the rows of its first result, or None after an error."""
        if self.stopped:
            raise Stop
        self.statements += 1
        self.recent = [*self.recent[-7:], sql]
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
                rows = cursor.fetchall()
                while cursor.nextset():
                    pass
                return rows
        except pymysql.err.MySQLError as error:
            self.fail(error)
        except UnicodeError:
            pass
        return None

    def fail(self, error):
        self.errors += 1
        code = error.args[0] if error.args else 0
        lost = isinstance(error, (pymysql.err.InterfaceError, pymysql.err.InternalError))
        lost = lost or code in (0, 1053, 1927, 2006, 2013, 2014)
        if lost or not self.connection.open:
            raise ConnectionError(str(error))

    def prepared(self, sql):
        """Prepares, executes and closes in the binary protocol; the rows are not looked at."""
        if self.stopped:
            raise Stop
        self.statements += 1
        self.recent = [*self.recent[-7:], f"(prepared) {sql}"]
        try:
            self.connection._execute_command(COMMAND.COM_STMT_PREPARE, sql)
            answer = self.connection._read_packet().get_all_data()
            statement, columns, parameters = struct.unpack_from("<IHH", answer, 1)
            for count in [parameters, columns]:
                for _ in range(count + 1 if count else 0):
                    self.connection._read_packet()
            self.connection._execute_command(COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
            self.skip_results()
            self.connection._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", statement))
        except pymysql.err.MySQLError as error:
            self.fail(error)

    def skip_results(self):
        more = True
        while more:
            packet = self.connection._read_packet()
            data = packet.get_all_data()
            if data[0] == 0:
                more = pymysql.connections.OKPacketWrapper(packet).has_next
                continue
            # Columns end with a packet EOF, and so do rows.
            while not packet.is_eof_packet():
                packet = self.connection._read_packet()
            packet = self.connection._read_packet()
            while not packet.is_eof_packet():
                packet = self.connection._read_packet()
            more = pymysql.connections.EOFPacketWrapper(packet).has_next

    def set_up(self):
        for schema in self.schemas:
            self.run(f"DROP DATABASE IF EXISTS {schema}")
            self.run(f"CREATE DATABASE {schema}")
            self.run(f"CREATE TABLE {schema}.t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(40), UNIQUE (a))")
            self.run(f"CREATE PROCEDURE {schema}.insert_one() INSERT INTO {schema}.t (a) VALUES (UUID())")
            self.run(f"CREATE PROCEDURE {schema}.set_mode() SET SESSION sql_mode = 'ANSI', @d = 'routine', time_zone = '+03:00'")
            self.run(f"CREATE PROCEDURE {schema}.warn() SELECT CAST('x' AS SIGNED)")
            self.run(f"CREATE FUNCTION {schema}.f() RETURNS INT NO SQL "
                     "BEGIN SET @d = 'function', SESSION div_precision_increment = 2; RETURN 1; END")
        self.read_base()

    # The steps.
    def step_set(self):
        name = self.random.choice(sorted(self.settings))
        value = self.random.choice(self.settings[name])
        form = self.random.randrange(12)
        for_one_statement = form in (6, 7) and form == (6 if self.mariadb else 7)
        if not for_one_statement:
            for group in [{name}, *RELATED]:
                for other in group if name in group else ():
                    self.known.pop(f"@@{other}", None)
        if form == 0:
            self.run(f"SET SESSION {name} = {value}")
        elif form == 1:
            self.run(f"SELECT 1; SET {name} = {value}; SELECT 2")
        elif form == 2:
            self.run(f"/*!50000 SET {name} = {value} */")
        elif form == 3:
            self.prepared(f"SET {name} = {value}")
        elif form == 4:
            self.run(f"PREPARE p FROM \"SET {name} = {value}\"" if '"' not in value else "DO 1")
            self.run("EXECUTE p")
            self.run("DEALLOCATE PREPARE p")
        elif form == 5 and self.mariadb:
            self.run(f"EXECUTE IMMEDIATE \"SET {name} = {value}\"")
        elif form == 6 and self.mariadb:
            statement = self.random.choice([
                "SELECT 1", "DO 1", "DELETE FROM t WHERE id = -1", "INSERT INTO t (a) VALUES (UUID())",
                "UPDATE t SET a = UUID() LIMIT 1", "COMMIT", f"USE {self.schemas[1]}",
            ])
            self.known.pop("DATABASE()", None)
            self.run(f"SET STATEMENT {name} = {value} FOR {statement}")
        elif form == 7 and not self.mariadb:
            self.run(f"SELECT /*+ SET_VAR({name} = {value}) */ 1")
        elif form == 8:
            self.run(f"SET @@session.{name} = {value}, @d = 'with a setting'")
            self.known.pop("@d", None)
        elif form == 9 and self.mariadb:
            self.run(f"BEGIN NOT ATOMIC SET {name} = {value}; END")
        elif form == 10:
            self.run(f"SET {name} = {value} /* mirror this */")
        else:
            rows = self.run(f"SET {name} = {value}")
            if rows is not None and name not in NOT_READ and value != "DEFAULT":
                rows = self.run(f"SELECT @@{name}")
                if rows:
                    self.known[f"@@{name}"] = rows[0][0]

    def step_variable(self):
        value = f"{self.number} {self.random.randrange(1000)}"
        if self.run(f"SET @d = '{value}'") is not None:
            self.known["@d"] = value

    def step_schema(self):
        schema = self.random.choice(self.schemas)
        form = self.random.randrange(5)
        self.known.pop("DATABASE()", None)
        if form == 0:
            self.run(f"SELECT 1; USE {schema}")
        elif form == 1:
            self.run(f"USE {schema} /* mirror this */")
        elif form == 2:
            try:
                self.connection.select_db(schema)
            except pymysql.err.MySQLError as error:
                self.fail(error)
        elif form == 3:
            self.run(f"DROP DATABASE IF EXISTS disturb_{self.number}_c; CREATE DATABASE disturb_{self.number}_c; "
                     f"USE disturb_{self.number}_c; DROP DATABASE disturb_{self.number}_c")
            self.run(f"USE {schema}")
        elif self.run(f"USE {schema}") is not None:
            self.known["DATABASE()"] = schema

    def step_transaction(self):
        self.run(self.random.choice([
            "START TRANSACTION", "BEGIN", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION READ ONLY", "SET autocommit = 0",
        ]))
        self.known.pop("@@autocommit", None)
        self.run("INSERT INTO t (a) VALUES (UUID())")
        self.run("SAVEPOINT s")
        self.run("UPDATE t SET a = UUID() ORDER BY id DESC LIMIT 1")
        self.run(self.random.choice(["ROLLBACK TO s", "RELEASE SAVEPOINT s", "SELECT COUNT(*) FROM t FOR UPDATE"]))
        self.run(self.random.choice(["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "SELECT 1; COMMIT"]))
        self.run("ROLLBACK")

    def step_xa(self):
        name = f"'disturb {self.number}'"
        self.run(f"XA START {name}")
        self.run("INSERT INTO t (a) VALUES (UUID())")
        self.run(f"XA END {name}")
        self.run(f"XA {self.random.choice(['ROLLBACK', 'COMMIT'])} {name}{self.random.choice(['', ' ONE PHASE'])}")
        self.run(f"XA ROLLBACK {name}")

    def step_insert(self):
        text = self.random.choice([
            "INSERT INTO t (a) VALUES (UUID())", "CALL insert_one()", "INSERT INTO t (a) VALUES (UUID()), (UUID())",
            "INSERT IGNORE INTO t (a) SELECT a FROM t LIMIT 1", "REPLACE INTO t (a) VALUES (UUID())",
            "INSERT INTO t (id, a) VALUES (LAST_INSERT_ID(7), UUID())",
        ])
        if self.random.random() < 0.2:
            self.prepared(text)
        else:
            self.run(text)
        if self.run("INSERT INTO t (a) VALUES (UUID())") is not None:
            wanted = self.connection.insert_id()
            rows = self.run("SELECT LAST_INSERT_ID()")
            if rows and wanted and rows[0][0] != wanted:
                self.mismatch("LAST_INSERT_ID()", wanted, rows[0][0])
        if self.random.random() < 0.1:
            self.run("DELETE FROM t ORDER BY id LIMIT 50")

    def step_diagnostics(self):
        self.run(self.random.choice([
            "SELECT CAST('secret of a client' AS SIGNED)", "INSERT INTO t (id, a) VALUES (1, 'secret'), (1, 'secret')",
            "SELECT * FROM no_such_table_of_disturb", "DROP TABLE IF EXISTS no_such_table_of_disturb", "CALL warn()",
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'secret of a client'",
        ]))
        self.run(self.random.choice([
            "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SHOW ERRORS", "SELECT @@warning_count, @@error_count",
            "GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT", "DO 1; SHOW WARNINGS",
        ]))

    def step_found_rows(self):
        self.run(self.random.choice([
            "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", "SELECT a FROM t LIMIT 3", "UPDATE t SET a = UUID() WHERE id < 3",
        ]))
        self.run("SELECT FOUND_ROWS(), ROW_COUNT()")

    def step_temporary_table(self):
        self.run("CREATE TEMPORARY TABLE IF NOT EXISTS temporary_of_disturb (a INT)")
        self.run("INSERT INTO temporary_of_disturb VALUES (1)")
        self.run("SELECT * FROM temporary_of_disturb")
        self.run("DROP TEMPORARY TABLE IF EXISTS temporary_of_disturb")

    def step_locks(self):
        form = self.random.randrange(4)
        if form == 0:
            self.run("LOCK TABLES t WRITE")
            self.run("INSERT INTO t (a) VALUES (UUID())")
            self.run("UNLOCK TABLES")
        elif form == 1:
            self.run(f"SELECT GET_LOCK('disturb {self.number}', 1)")
            self.run("SELECT a FROM t LIMIT 1")
            self.run(f"SELECT RELEASE_LOCK('disturb {self.number}')")
        elif form == 2:
            self.run("HANDLER t OPEN")
            self.run("HANDLER t READ FIRST")
            self.run("HANDLER t CLOSE")
        else:
            self.run("FLUSH TABLES t WITH READ LOCK")
            self.run("UNLOCK TABLES")

    def step_routine(self):
        for name in ["@d", "@@sql_mode", "@@time_zone", "@@div_precision_increment"]:
            self.known.pop(name, None)
        self.run(self.random.choice(["CALL set_mode()", "SELECT f()", "DO f()", "SELECT f() FROM t LIMIT 1", "CALL insert_one()"]))

    def step_prepared(self):
        self.prepared(self.random.choice([
            "SELECT 1", "SELECT a FROM t LIMIT 2", "SHOW WARNINGS", "SELECT @@sql_mode, @d", "INSERT INTO t (a) VALUES (UUID())",
            "SELECT CAST('x' AS SIGNED)",
        ]))

    def step_role(self):
        self.run(self.random.choice(["SET ROLE NONE", "SET ROLE DEFAULT", "SELECT CURRENT_ROLE()"]))

    def step_reset(self):
        try:
            self.connection._execute_command(COM_RESET_CONNECTION, b"")
            self.connection._read_ok_packet()
        except pymysql.err.MySQLError as error:
            self.fail(error)
        self.run("SET NAMES utf8mb4")
        self.read_base()

    def step_reconnect(self):
        if self.random.random() < 0.3:
            self.connection.close()
            self.connect()

    def check(self):
        known = dict(self.known)
        if not known:
            return
        names = sorted(known)
        recent = self.recent
        rows = self.run(f"SELECT {', '.join(names)}")
        self.recent = recent
        if not rows:
            return
        for name, found in zip(names, rows[0]):
            if str(found) != str(known[name]):
                self.mismatch(name, known[name], found)
                self.known.pop(name, None)

    def mismatch(self, name, wanted, found):
        if len(self.log) < MAX_PRINTED:
            # Programs change global values, which tells one cause from others.
            if name.startswith("@@"):
                recent = self.recent
                rows = self.run(f"SELECT {name.replace('@@', '@@global.')}")
                self.recent = recent
                name = f"{name} (global: {rows[0][0]!r})" if rows else name
            self.log.append(
                f"MISMATCH client {self.number}: {name} is {found!r} in place of {wanted!r}, after {self.recent!r}"
            )

    def busy(self):
        deadline = time.monotonic() + MAX_SECONDS
        steps = [self.step_set] * 6 + [self.step_schema, self.step_insert, self.step_diagnostics] * 2 + [
            self.step_variable, self.step_transaction, self.step_xa, self.step_found_rows, self.step_temporary_table, self.step_locks,
            self.step_routine, self.step_prepared, self.step_role, self.step_reset, self.step_reconnect,
        ]
        made = False
        while not self.stopped and time.monotonic() < deadline:
            try:
                if self.connection is None or not self.connection.open:
                    self.connect()
                if not made:
                    self.set_up()
                    made = True
                self.random.choice(steps)()
                self.check()
            except Stop:
                break
            except (ConnectionError, OSError, pymysql.err.MySQLError, struct.error, IndexError):
                # Clients that run beside it may kill connections, and lock what everybody needs.
                if self.connection is not None:
                    self.connection._force_close()
                self.connection = None
                made = made and self.random.random() > 0.05
                time.sleep(0.1)
            time.sleep(PAUSE_SECONDS)
        if self.connection is not None and self.connection.open:
            self.connection._force_close()


def main():
    host, port, user, password = sys.argv[1:5]
    seed = sys.argv[5] if len(sys.argv) > 5 else "1"
    clients = [Client(number, (host, int(port), user, password), seed) for number in range(1, CLIENTS + 1)]
    threads = [threading.Thread(target=client.busy, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    for client in clients:
        client.stopped = True
    for thread in threads:
        thread.join(timeout=40)
    for client in clients:
        for line in client.log:
            print(line)
    statements, errors = sum(client.statements for client in clients), sum(client.errors for client in clients)
    print(f"done {statements} statements, {errors} errors")


if __name__ == "__main__":
    main()
