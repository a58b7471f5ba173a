"""An application with autocommit off, as Python drivers have it by default, over a read/write split.

split.py CLIENT HOST PORT USER PASSWORD ONE_HOST ONE_PORT STEPS SEED, CLIENT being pymysql, MySQLdb, sqlalchemy or django.

Several sessions run a random script of reads, writes, savepoints, commits and rollbacks through HOST:PORT, and the same
script on one server, ONE_HOST:ONE_PORT, which is also the primary of the split; each side has a schema of its own. After
every step both must have answered the same, with one exception: a read before the first write of a transaction may be
answered by a replica, and then shows any state that this session has committed before. The last line tells how many steps
there were, and how many reads showed an older state.
"""

import random
import sys

client, host, port, user, password, one_host, one_port, steps, seed = sys.argv[1:]
SESSIONS, ROWS = 3, 6
schema = f"split_{client.lower()}"


class Raw:
    """PyMySQL or mysqlclient, as they come: nobody says anything of autocommit."""

    def __init__(self, side, number):
        import importlib

        self.module = importlib.import_module(client)
        self.db = self.module.connect(host=side.host, port=side.port, user=user, password=password, database=side.schema)
        self.errors = self.module.Error
        self.item, self.logged = f"item{number}", f"log{number}"

    def run(self, sql, arguments=()):
        with self.db.cursor() as cursor:
            cursor.execute(sql, arguments)
            rows = cursor.fetchall()
            assert not self.db.get_autocommit(), "the status says that autocommit is on"
            return sorted(rows) if cursor.description else (cursor.rowcount, cursor.lastrowid)

    def read(self, session):
        return self.run(f"SELECT id, v FROM {self.item} WHERE owner = %s", (session,))

    def read_one(self, id):
        return self.run(f"SELECT v FROM {self.item} WHERE id = %s", (id,))

    def lock(self, id):
        return self.run(f"SELECT v FROM {self.item} WHERE id = %s FOR UPDATE", (id,))

    def insert(self, session, id, v):
        return self.run(f"INSERT INTO {self.item} (id, owner, v) VALUES (%s, %s, %s)", (id, session, v))

    def log(self, session, v):
        return self.run(f"INSERT INTO {self.logged} (owner, v) VALUES (%s, %s)", (session, v))[0], self.last_id()

    def last_id(self):
        return self.run("SELECT LAST_INSERT_ID()")

    def update(self, id, v):
        return self.run(f"UPDATE {self.item} SET v = v + %s WHERE id = %s", (v, id))

    def delete(self, id):
        return self.run(f"DELETE FROM {self.item} WHERE id = %s", (id,))

    def autocommit(self):
        return self.run("SELECT @@autocommit")

    def savepoint(self, name):
        return self.run(f"SAVEPOINT {name}")

    def rollback_to(self, name):
        return self.run(f"ROLLBACK TO SAVEPOINT {name}")

    def release(self, name):
        return self.run(f"RELEASE SAVEPOINT {name}")

    def commit(self):
        self.db.commit()

    def rollback(self):
        self.db.rollback()


class SqlAlchemy:
    """SQLAlchemy Core over PyMySQL; its pool rolls back what is given back."""

    engines = {}

    def __init__(self, side, number):
        import sqlalchemy as sa

        self.sa, self.errors = sa, sa.exc.DBAPIError
        if side.schema not in self.engines:
            url = f"mysql+pymysql://{user}:{password}@{side.host}:{side.port}/{side.schema}"
            self.engines[side.schema] = sa.create_engine(url, pool_size=SESSIONS)
        self.engine = self.engines[side.schema]
        self.connection = self.engine.connect()
        columns = sa.Column("id", sa.Integer, primary_key=True), sa.Column("owner", sa.Integer), sa.Column("v", sa.Integer)
        self.item = sa.Table(f"item{number}", sa.MetaData(), *columns)
        columns = sa.Column("id", sa.Integer, primary_key=True), sa.Column("owner", sa.Integer), sa.Column("v", sa.Integer)
        self.logged = sa.Table(f"log{number}", sa.MetaData(), *columns)
        self.nested = {}

    def rows(self, statement):
        return sorted(tuple(row) for row in self.connection.execute(statement))

    def read(self, session):
        return self.rows(self.sa.select(self.item.c.id, self.item.c.v).where(self.item.c.owner == session))

    def read_one(self, id):
        return self.rows(self.sa.select(self.item.c.v).where(self.item.c.id == id))

    def lock(self, id):
        return self.rows(self.sa.select(self.item.c.v).where(self.item.c.id == id).with_for_update())

    def insert(self, session, id, v):
        return self.connection.execute(self.item.insert().values(id=id, owner=session, v=v)).rowcount

    def log(self, session, v):
        return self.connection.execute(self.logged.insert().values(owner=session, v=v)).inserted_primary_key[0]

    def last_id(self):
        return self.rows(self.sa.text("SELECT LAST_INSERT_ID()"))

    def update(self, id, v):
        changed = self.item.update().where(self.item.c.id == id).values(v=self.item.c.v + v)
        return self.connection.execute(changed).rowcount

    def delete(self, id):
        return self.connection.execute(self.item.delete().where(self.item.c.id == id)).rowcount

    def autocommit(self):
        return self.rows(self.sa.text("SELECT @@autocommit"))

    def savepoint(self, name):
        self.nested[name] = self.connection.begin_nested()

    def rollback_to(self, name):
        self.nested.pop(name).rollback()

    def release(self, name):
        self.nested.pop(name).commit()

    def over(self, end):
        end()
        self.nested.clear()
        if random_of_pool.random() < 0.3:
            # Another session of the pool may get the connection next.
            self.connection.close()
            self.connection = self.engine.connect()

    def commit(self):
        self.over(self.connection.commit)

    def rollback(self):
        self.over(self.connection.rollback)


class Django:
    """Django's models with AUTOCOMMIT off; an alias for each session of each side."""

    models = None

    def __init__(self, side, number):
        from django.db import connections, transaction

        self.alias, self.transaction = side.aliases.pop(), transaction
        self.connection = connections[self.alias]
        self.item, self.logged = Django.models[number]
        from django.db.utils import Error

        self.errors = Error

    @classmethod
    def set_up(cls, sides):
        import django
        from django.conf import settings

        databases = {"default": {"ENGINE": "django.db.backends.mysql", "NAME": sides[0].schema}}
        for side in sides:
            side.aliases = [f"{side.schema}_{number}" for number in range(SESSIONS)]
            for alias in side.aliases:
                databases[alias] = dict(
                    ENGINE="django.db.backends.mysql", NAME=side.schema, HOST=side.host, PORT=side.port,
                    USER=user, PASSWORD=password, AUTOCOMMIT=False,
                )
        settings.configure(DATABASES=databases, DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=False)
        django.setup()
        from django.db import models

        def model(table, id):
            meta = type("Meta", (), {"app_label": "split", "db_table": table})
            fields = {"owner": models.IntegerField(), "v": models.IntegerField(), "Meta": meta, "__module__": __name__}
            return type(table, (models.Model,), {**fields, **id})

        cls.models = [
            (model(f"item{number}", {"id": models.IntegerField(primary_key=True)}), model(f"log{number}", {}))
            for number in range(SESSIONS)
        ]

    @property
    def items(self):
        return self.item.objects.using(self.alias)

    def read(self, session):
        return sorted(self.items.filter(owner=session).values_list("id", "v"))

    def read_one(self, id):
        return list(self.items.filter(id=id).values_list("v", flat=True))

    def lock(self, id):
        return list(self.items.select_for_update().filter(id=id).values_list("v", flat=True))

    def insert(self, session, id, v):
        return self.items.create(id=id, owner=session, v=v).id

    def log(self, session, v):
        return self.logged.objects.using(self.alias).create(owner=session, v=v).id

    def cell(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def last_id(self):
        return self.cell("SELECT LAST_INSERT_ID()")

    def update(self, id, v):
        from django.db.models import F

        return self.items.filter(id=id).update(v=F("v") + v)

    def delete(self, id):
        return self.items.filter(id=id).delete()[0]

    def autocommit(self):
        return self.cell("SELECT @@autocommit")

    def savepoint(self, name):
        self.saved = getattr(self, "saved", {})
        self.saved[name] = self.transaction.savepoint(using=self.alias)

    def rollback_to(self, name):
        self.transaction.savepoint_rollback(self.saved.pop(name), using=self.alias)

    def release(self, name):
        self.transaction.savepoint_commit(self.saved.pop(name), using=self.alias)

    def commit(self):
        self.transaction.commit(using=self.alias)

    def rollback(self):
        self.transaction.rollback(using=self.alias)


class Side:
    def __init__(self, host, port, schema):
        self.host, self.port, self.schema = host, int(port), schema


class Session:
    """One session on both sides, and what is known of it."""

    def __init__(self, number, sides):
        self.number = number
        self.through, self.alone = (KIND(side, number) for side in sides)
        self.committed = [[]]
        self.open = False
        self.savepoints = []
        self.older = 0

    def both(self, name, *arguments):
        results = []
        for side in (self.through, self.alone):
            try:
                results.append(getattr(side, name)(*arguments))
            except side.errors as error:
                while getattr(error, "orig", None) or error.__cause__:
                    error = getattr(error, "orig", None) or error.__cause__
                results.append(("error", error.args[0]))
        return results

    def same(self, name, *arguments):
        through, alone = self.both(name, *arguments)
        assert through == alone, f"session {self.number}: {name}{arguments}: {through} through the split, {alone} on one server"
        return alone

    def read(self):
        through, alone = self.both("read", self.number)
        if through != alone:
            assert not self.open, f"session {self.number}: in a transaction {through} was read, {alone} on one server"
            assert through in self.committed, f"session {self.number}: {through} was never committed; {alone} on one server"
            self.older += 1

    def read_one(self, id):
        through, alone = self.both("read_one", id)
        if through != alone:
            assert not self.open, f"session {self.number}: in a transaction {through} was read of {id}, {alone} on one server"
            self.older += 1

    def end(self, how):
        if how == "commit":
            state = self.same_state()
            self.same("commit")
            self.committed.append(state)
        else:
            self.same("rollback")
        self.open, self.savepoints = False, []

    def same_state(self):
        """The rows of this session as one server has them."""
        return self.alone.read(self.number)

    def step(self, random):
        id = self.number * 100 + random.randrange(ROWS)
        name = random.choice(["a", "b", "c"])
        what = random.choices(
            ["read", "read_one", "lock", "insert", "update", "delete", "log", "savepoint", "rollback_to", "release",
             "commit", "rollback", "autocommit", "last_id"],
            [20, 10, 3, 12, 10, 5, 3, 5, 4, 2, 10, 4, 2, 1],
        )[0]
        if what == "read":
            self.read()
        elif what == "read_one":
            self.read_one(id)
        elif what in ("commit", "rollback"):
            self.end(what)
        elif what == "autocommit":
            self.same("autocommit")
        elif what == "last_id":
            self.same("last_id")
        elif what == "savepoint":
            if name not in self.savepoints:
                self.same("savepoint", name)
                self.savepoints.append(name)
                self.open = True
        elif what in ("rollback_to", "release"):
            if self.savepoints:
                self.same(what, self.savepoints.pop())
        else:
            arguments = {
                "lock": (id,), "insert": (self.number, id, random.randrange(1000)),
                "update": (id, random.randrange(1, 9)), "delete": (id,), "log": (self.number, random.randrange(1000)),
            }[what]
            self.open = True
            self.same(what, *arguments)


def make_schema(name):
    import pymysql

    db = pymysql.connect(host=one_host, port=int(one_port), user=user, password=password, autocommit=True)
    with db.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
        # One table per session: they share a thread here, and must not wait for each other.
        for number in range(SESSIONS):
            columns = "owner INT NOT NULL, v INT NOT NULL) ENGINE=InnoDB"
            cursor.execute(f"CREATE TABLE {name}.item{number} (id INT PRIMARY KEY, {columns}")
            cursor.execute(f"CREATE TABLE {name}.log{number} (id INT AUTO_INCREMENT PRIMARY KEY, {columns}")
    db.close()


def wait_for_schema(side):
    """Replicas have the tables: an application is not put to use before."""
    import time
    import pymysql

    deadline, seen = time.monotonic() + 30, 0
    while seen < 20:
        try:
            db = pymysql.connect(host=side.host, port=side.port, user=user, password=password, database=side.schema)
            with db.cursor() as cursor:
                cursor.execute(f"SELECT id FROM log{SESSIONS - 1}")
            db.close()
            seen += 1
        except pymysql.Error:
            assert time.monotonic() < deadline, "the tables do not arrive"
            seen = 0


KIND = {"sqlalchemy": SqlAlchemy, "django": Django}.get(client, Raw)
script, random_of_pool = random.Random(int(seed)), random.Random(0)
sides = [Side(host, port, schema), Side(one_host, one_port, f"{schema}_one")]
for side in sides:
    make_schema(side.schema)
wait_for_schema(sides[0])
if KIND is Django:
    Django.set_up(sides)
sessions = [Session(number, sides) for number in range(SESSIONS)]
for number in range(int(steps)):
    try:
        script.choice(sessions).step(script)
    except AssertionError as wrong:
        sys.exit(f"step {number} of seed {seed}: {wrong}")
for session in sessions:
    session.end("commit")
print(f"{steps} steps, {sum(session.older for session in sessions)} reads of an older state")
