"""Logins with PyMySQL: a line of input each, TRANSPORT, ADDRESS, PLUGIN, USER and PASSWORD with tabs between; a line of
output each, `ok` or what the error says."""

import ssl
import sys

import pymysql


def login(transport, address, plugin, user, password):
    if plugin not in ("mysql_native_password", "caching_sha2_password"):
        return "none: the driver answers for the plugin of the greeting"
    options = {"user": user, "password": password, "connect_timeout": 60, "read_timeout": 60}
    if transport == "unix":
        options |= {"unix_socket": address, "ssl_disabled": True}
    else:
        options |= {"host": "127.0.0.1", "port": int(address)}
        if transport == "tls":
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            options["ssl"] = context
        else:
            options["ssl_disabled"] = True
    connection = pymysql.connect(**options)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT 'in'")
        return "ok" if cursor.fetchone() == ("in",) else "wrong answer"


for line in sys.stdin:
    try:
        print(login(*line.rstrip("\n").split("\t")), flush=True)
    except Exception as error:  # whatever it is, it is the result
        print(" ".join(str(error).split()), flush=True)
