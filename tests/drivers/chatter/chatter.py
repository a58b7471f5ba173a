"""Connects as a library of Python does by default: chatter.py LIBRARY HOST PORT USER PASSWORD SCHEMA.

Prints the library's version and runs one marker statement. What the library sends before it is its chatter.
"""

import sys

library, host, port, user, password, schema = sys.argv[1:]
MARKER = "SELECT 'ready'"


def through(module):
    db = module.connect(host=host, port=int(port), user=user, password=password, database=schema)
    cursor = db.cursor()
    cursor.execute(MARKER)
    cursor.fetchall()
    db.close()


def through_sqlalchemy(dialect):
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"mysql+{dialect}://{user}:{password}@{host}:{port}/{schema}")
    with engine.connect() as db:
        db.execute(sqlalchemy.text(MARKER)).fetchall()
    engine.dispose()
    return sqlalchemy.__version__


def through_django():
    import django
    from django.conf import settings

    database = {"ENGINE": "django.db.backends.mysql", "NAME": schema, "HOST": host, "PORT": port}
    settings.configure(DATABASES={"default": {**database, "USER": user, "PASSWORD": password}})
    django.setup()
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(MARKER)
        cursor.fetchall()
    connection.close()
    return django.__version__


if library == "pymysql":
    import pymysql

    through(pymysql)
    # Not __version__, which is that of the mysqlclient it replaces.
    version = pymysql.VERSION_STRING
elif library == "mysqlclient":
    import MySQLdb
    from MySQLdb.release import __version__ as version

    through(MySQLdb)
elif library == "sqlalchemy-pymysql":
    version = through_sqlalchemy("pymysql")
elif library == "sqlalchemy-mysqlclient":
    version = through_sqlalchemy("mysqldb")
elif library == "django":
    version = through_django()
else:
    sys.exit(f"unknown: {library}")
print(version)
