"""application.py DRIVER COLLECTOR HOST PORT USER PASSWORD

An application that is traced with OpenTelemetry, as its documentation says: one span of its own, and in it a statement, of which
the instrumentation of the driver makes another span. PyMySQL's names the trace in a comment, and that of Connector/Python in a
query attribute. Prints the number of the trace, and what a server with query attributes has received of it.
"""

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def with_pymysql(login):
    """Connects with PyMySQL, whose statements get a comment."""
    import pymysql
    from opentelemetry.instrumentation.pymysql import PyMySQLInstrumentor

    PyMySQLInstrumentor().instrument(enable_commenter=True)
    return pymysql.connect(**login), "SELECT 'secret'"


def with_connector(login):
    """Connects with Connector/Python, whose statements get an attribute."""
    import mysql.connector
    from mysql.connector.opentelemetry.instrumentation import MySQLInstrumentor

    MySQLInstrumentor().instrument()
    return mysql.connector.connect(use_pure=True, **login), "SELECT mysql_query_attribute_string('traceparent')"


DRIVERS = {"pymysql": with_pymysql, "connector": with_connector}


def main():
    driver, collector, host, port, user, password = sys.argv[1:]
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector + "/v1/traces")))
    trace.set_tracer_provider(provider)
    login = {"host": host, "port": int(port), "user": user, "password": password}
    connection, statement = DRIVERS[driver](login)
    with trace.get_tracer("shop").start_as_current_span("checkout") as span:
        cursor = connection.cursor()
        cursor.execute(statement)
        (told,) = cursor.fetchone()
        cursor.close()
    connection.close()
    provider.shutdown()
    print(f"{span.get_span_context().trace_id:032x}", told)


main()
