import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.Objects;
import java.util.Random;

/** Checks of a Java driver: Checks SCHEME HOST PORT USER PASSWORD, SCHEME being mysql or mariadb. */
public final class Checks {
    private static String scheme, address, user, password;
    private static final String SCHEMA = "checks_java_" + ProcessHandle.current().pid();

    private interface Check {
        void run(Connection db) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        scheme = arguments[0];
        address = arguments[1] + ":" + arguments[2];
        user = arguments[3];
        password = arguments[4];
        try (Connection root = connect("", "")) {
            execute(root, "CREATE DATABASE " + SCHEMA);
            // Both ways of sending a statement: as text, and prepared by the server.
            String prepared = scheme.equals("mysql") ? "useServerPrepStmts=true&cachePrepStmts=true" : "useServerPrepStmts=true";
            try (Connection text = connect(SCHEMA, ""); Connection binary = connect(SCHEMA, prepared)) {
                check("tables and rows", Checks::tablesAndRows, text);
                check("prepared statements", Checks::preparedStatements, binary);
                check("transactions", Checks::transactions, text);
                check("column types", Checks::columnTypes, text);
                check("column types, prepared", Checks::columnTypes, binary);
                check("charsets", Checks::charsets, text);
                check("many rows", Checks::manyRows, text);
                check("streaming and cursors", Checks::streaming, binary);
                check("big values", Checks::bigValues, text);
                check("big values, prepared", Checks::bigValues, binary);
                check("errors", Checks::errors, text);
                check("warnings", Checks::warnings, text);
                check("multi statements", Checks::multiStatements, text);
                check("batches", Checks::batches, text);
                check("procedures", Checks::procedures, text);
                check("load data local", Checks::loadDataLocal, text);
                check("metadata", Checks::metadata, text);
                check("cancellation", Checks::cancellation, text);
            } finally {
                execute(root, "DROP DATABASE " + SCHEMA);
            }
        }
    }

    private static void check(String name, Check check, Connection db) throws Exception {
        try {
            check.run(db);
        } catch (Exception | AssertionError failure) {
            throw new AssertionError(name + ": " + failure.getMessage(), failure);
        }
        System.out.println("ok " + name);
    }

    private static Connection connect(String schema, String options) throws SQLException {
        String common = scheme.equals("mysql")
            ? "?allowLoadLocalInfile=true&sslMode=DISABLED&allowPublicKeyRetrieval=true&"
            : "?allowLocalInfile=true&sslMode=disable&allowPublicKeyRetrieval=true&";
        return DriverManager.getConnection("jdbc:" + scheme + "://" + address + "/" + schema + common + options, user, password);
    }

    private static long execute(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            statement.execute();
            return statement.getUpdateCount();
        }
    }

    private static String value(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet result = statement.executeQuery(sql)) {
            return result.next() ? result.getString(1) : null;
        }
    }

    private static void expect(Object actual, Object wanted) {
        if (!Objects.deepEquals(actual, wanted)) throw new AssertionError("wanted " + wanted + ", got " + actual);
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void expectError(int code, Action action) throws Exception {
        try {
            action.run();
        } catch (SQLException error) {
            // MariaDB's driver wraps a refused connection in one that keeps the code, MySQL's too.
            if (error.getErrorCode() == code) return;
            throw error;
        }
        throw new AssertionError("wanted error " + code + ", got none");
    }

    private static void tablesAndRows(Connection db) throws Exception {
        execute(db, "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) CHARACTER SET utf8mb4, n INT)");
        execute(db, "ALTER TABLE item ADD COLUMN note TEXT");
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO item (name, n) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, "one");
            insert.setInt(2, 1);
            expect(insert.executeUpdate(), 1);
            ResultSet keys = insert.getGeneratedKeys();
            expect(keys.next(), true);
            expect(keys.getInt(1), 1);
        }
        expect(execute(db, "INSERT INTO item (name, n) VALUES ('two', 2), ('three', 3)"), 2L);
        expect(execute(db, "UPDATE item SET n = n + 10 WHERE n >= ?", 2), 2L);
        expect(execute(db, "DELETE FROM item WHERE n = 13"), 1L);
        expect(value(db, "SELECT SUM(n) FROM item"), "13");
    }

    private static void preparedStatements(Connection db) throws Exception {
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO item (name, n) VALUES (?, ?)")) {
            for (int n = 0; n < 50; n++) {
                insert.setString(1, "prepared " + n);
                insert.setInt(2, 1000 + n);
                expect(insert.executeUpdate(), 1);
            }
        }
        try (PreparedStatement find = db.prepareStatement("SELECT name FROM item WHERE n = ?")) {
            for (int n = 0; n < 50; n++) {
                find.setInt(1, 1000 + n);
                ResultSet result = find.executeQuery();
                expect(result.next(), true);
                expect(result.getString(1), "prepared " + n);
            }
        }
        expectError(1146, () -> execute(db, "SELECT * FROM no_such_table WHERE n = ?", 1));
    }

    private static void transactions(Connection db) throws Exception {
        try (Connection other = connect(SCHEMA, "")) {
            db.setAutoCommit(false);
            execute(db, "INSERT INTO item (n) VALUES (100)");
            expect(value(db, "SELECT COUNT(*) FROM item WHERE n = 100"), "1");
            expect(value(other, "SELECT COUNT(*) FROM item WHERE n = 100"), "0");
            db.rollback();
            expect(value(db, "SELECT COUNT(*) FROM item WHERE n = 100"), "0");
            var savepoint = db.setSavepoint("here");
            execute(db, "DELETE FROM item");
            db.rollback(savepoint);
            execute(db, "INSERT INTO item (n) VALUES (100)");
            db.commit();
            expect(value(other, "SELECT COUNT(*) FROM item WHERE n = 100"), "1");
            db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            expect(value(db, "SELECT COUNT(*) FROM item WHERE n = 101"), "0");
            execute(other, "UPDATE item SET n = 101 WHERE n = 100");
            expect(value(db, "SELECT COUNT(*) FROM item WHERE n = 101"), "1");
            db.commit();
            db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            db.setAutoCommit(true);
            execute(db, "START TRANSACTION READ ONLY");
            expectError(1792, () -> execute(db, "INSERT INTO item (n) VALUES (1)"));
            execute(db, "ROLLBACK");
        }
    }

    private static void columnTypes(Connection db) throws Exception {
        execute(db, "DROP TABLE IF EXISTS types");
        execute(db, "CREATE TABLE types (a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT, e BIGINT UNSIGNED, f FLOAT,"
            + " g DOUBLE, h DECIMAL(30,10), i DATE, j DATETIME(6), k TIME(3), l YEAR, m CHAR(5), n VARCHAR(20), o BINARY(4),"
            + " p VARBINARY(20), q TEXT, r LONGBLOB, s ENUM('x','y'), t SET('u','v','w'), u BIT(12), v JSON)");
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) all[i] = (byte) i;
        // MariaDB 10 reports 5.5.5 in its greeting, and MySQL's driver drops fractions for such an old
        // server.
        int nanoseconds = scheme.equals("mysql") ? 0 : 123456000;
        Object[] values = {-128, 65535, -8388608, Long.MIN_VALUE, new BigDecimal("18446744073709551615"), 1.5f, 2.25,
            new BigDecimal("12345678901234567890.0123456789"), LocalDate.of(2024, 2, 29),
            LocalDateTime.of(2024, 2, 29, 23, 59, 59, nanoseconds), "12:01:02.345", 2024, "abc", "v", new byte[] {0, 1, 2, -1},
            "\0'\"\\".getBytes(StandardCharsets.ISO_8859_1), "text", all, "y", "u,w", new byte[] {0x0a, (byte) 0xbc},
            "{\"k\": [1, null]}"};
        String marks = "?, ".repeat(values.length - 1) + "?";
        execute(db, "INSERT INTO types VALUES (" + marks + ")", values);
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO types VALUES (" + marks + ")")) {
            for (int i = 1; i <= values.length; i++) insert.setNull(i, Types.NULL);
            insert.executeUpdate();
        }
        try (PreparedStatement select = db.prepareStatement("SELECT * FROM types WHERE a IS NULL OR a = ? ORDER BY a IS NULL")) {
            select.setInt(1, -128);
            ResultSet row = select.executeQuery();
            expect(row.next(), true);
            for (int i = 0; i < values.length; i++) {
                Object wanted = values[i];
                Object got;
                if (wanted instanceof byte[]) got = row.getBytes(i + 1);
                else if (wanted instanceof BigDecimal) got = row.getBigDecimal(i + 1);
                else if (wanted instanceof LocalDateTime) got = row.getObject(i + 1, LocalDateTime.class);
                else if (wanted instanceof LocalDate) got = row.getObject(i + 1, LocalDate.class);
                else if (wanted instanceof Integer) got = row.getInt(i + 1);
                else if (wanted instanceof Long) got = row.getLong(i + 1);
                else if (wanted instanceof Float) got = row.getFloat(i + 1);
                else if (wanted instanceof Double) got = row.getDouble(i + 1);
                // The binary protocol's TIME has six fractional digits, whatever the column has.
                else got = row.getString(i + 1).replaceFirst("(\\.\\d{3})000$", "$1");
                if (!Objects.deepEquals(got, wanted)) throw new AssertionError("column " + (i + 1) + ": wanted " + wanted + ", got " + got);
            }
            expect(row.next(), true);
            for (int i = 1; i <= values.length; i++) expect(row.getObject(i), null);
            expect(row.next(), false);
        }
    }

    private static void charsets(Connection db) throws Exception {
        String text = "grüße, 日本語, 🦀🚀";
        execute(db, "INSERT INTO item (name, n) VALUES (?, 300)", text);
        expect(value(db, "SELECT name FROM item WHERE n = 300"), text);
        expect(value(db, "SELECT n FROM item WHERE name = '" + text + "'"), "300");
    }

    private static final String MANY = "SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d AS n, REPEAT('x', 50) AS filler"
        + " FROM digit a, digit b, digit c, digit d, digit e";

    private static void manyRows(Connection db) throws Exception {
        execute(db, "CREATE TABLE digit (d INT)");
        execute(db, "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)");
        try (Statement statement = db.createStatement()) {
            expectMany(statement.executeQuery(MANY));
        }
    }

    private static void expectMany(ResultSet result) throws SQLException {
        long count = 0, sum = 0;
        while (result.next()) {
            count++;
            sum += result.getLong(1);
        }
        expect(count, 100000L);
        expect(sum, 4999950000L);
    }

    private static void streaming(Connection db) throws Exception {
        try (Statement statement = db.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(scheme.equals("mysql") ? Integer.MIN_VALUE : 100);
            expectMany(statement.executeQuery(MANY));
        }
        if (scheme.equals("mysql")) {
            // Rows fetched in portions from a cursor that the server keeps open.
            try (Connection cursors = connect(SCHEMA, "useCursorFetch=true&defaultFetchSize=1000");
                PreparedStatement statement = cursors.prepareStatement(MANY)) {
                expectMany(statement.executeQuery());
            }
        }
        try (PreparedStatement statement = db.prepareStatement(MANY)) {
            expectMany(statement.executeQuery());
        }
    }

    private static void bigValues(Connection db) throws Exception {
        execute(db, "CREATE TABLE IF NOT EXISTS big (id INT PRIMARY KEY AUTO_INCREMENT, data LONGBLOB)");
        byte[] data = new byte[20 << 20];
        new Random(1).nextBytes(data);
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO big (data) VALUES (?)")) {
            insert.setBytes(1, data);
            insert.executeUpdate();
            // As a stream, which the prepared protocol sends in separate portions (COM_STMT_SEND_LONG_DATA).
            insert.setBinaryStream(1, new ByteArrayInputStream(data), data.length);
            insert.executeUpdate();
        }
        try (PreparedStatement select = db.prepareStatement("SELECT data FROM big WHERE id > ?")) {
            select.setInt(1, 0);
            ResultSet result = select.executeQuery();
            int count = 0;
            while (result.next()) {
                expect(Arrays.equals(result.getBytes(1), data), true);
                count++;
            }
            expect(count, 2);
        }
        execute(db, "DELETE FROM big");
    }

    private static void errors(Connection db) throws Exception {
        expectError(1064, () -> execute(db, "SELEC 1"));
        expectError(1062, () -> execute(db, "INSERT INTO item (id) SELECT id FROM item"));
        expectError(1146, () -> value(db, "SELECT * FROM no_such_table"));
        expectError(1049, () -> execute(db, "USE no_such_schema"));
        expectError(1049, () -> connect("no_such_schema", "").close());
        expectError(1045, () -> DriverManager.getConnection("jdbc:" + scheme + "://" + address
            + "/?allowPublicKeyRetrieval=true&sslMode=" + (scheme.equals("mysql") ? "DISABLED" : "disable"), user, "wrong").close());
        expect(value(db, "SELECT 1"), "1");
    }

    private static void warnings(Connection db) throws Exception {
        try (Statement statement = db.createStatement(); ResultSet result = statement.executeQuery("SELECT CAST('12 and more' AS SIGNED)")) {
            expect(result.next(), true);
            expect(result.getInt(1), 12);
            var warning = statement.getWarnings();
            expect(warning == null ? 0 : warning.getErrorCode(), 1292);
        }
    }

    private static void multiStatements(Connection db) throws Exception {
        try (Connection multi = connect(SCHEMA, "allowMultiQueries=true"); Statement statement = multi.createStatement()) {
            expect(statement.execute("SELECT 1; INSERT INTO item (n) VALUES (400); SELECT n FROM item WHERE n = 400"), true);
            expect(statement.getMoreResults(), false);
            expect(statement.getUpdateCount(), 1);
            expect(statement.getMoreResults(), true);
            ResultSet result = statement.getResultSet();
            expect(result.next(), true);
            expect(result.getInt(1), 400);
            expect(statement.getMoreResults() || statement.getUpdateCount() != -1, false);
            expectError(1146, () -> {
                statement.execute("SELECT 1; SELECT * FROM no_such_table");
                statement.getMoreResults();
            });
        }
        expectError(1064, () -> value(db, "SELECT 1; SELECT 2"));
    }

    private static void batches(Connection db) throws Exception {
        String rewriting = scheme.equals("mysql") ? "rewriteBatchedStatements=true" : "useBulkStmts=true";
        for (String options : new String[] {"", rewriting, "useServerPrepStmts=true&" + rewriting}) {
            try (Connection connection = connect(SCHEMA, options);
                PreparedStatement insert = connection.prepareStatement("INSERT INTO item (name, n) VALUES (?, ?)")) {
                for (int n = 0; n < 500; n++) {
                    insert.setString(1, "batch");
                    insert.setInt(2, n);
                    insert.addBatch();
                }
                expect(insert.executeBatch().length, 500);
                expect(value(connection, "SELECT COUNT(*) FROM item WHERE name = 'batch'"), "500");
                expect(execute(connection, "DELETE FROM item WHERE name = 'batch'"), 500L);
            }
        }
    }

    private static void procedures(Connection db) throws Exception {
        execute(db, "CREATE PROCEDURE twice (IN given INT, OUT doubled INT)"
            + " BEGIN SELECT given AS first; SELECT given + 1 AS second; SET doubled = given * 2; END");
        try (var call = db.prepareCall("{CALL twice(?, ?)}")) {
            call.setInt(1, 21);
            call.registerOutParameter(2, Types.INTEGER);
            expect(call.execute(), true);
            for (int wanted : new int[] {21, 22}) {
                ResultSet result = call.getResultSet();
                expect(result.next(), true);
                expect(result.getInt(1), wanted);
                call.getMoreResults();
            }
            expect(call.getInt(2), 42);
        }
    }

    private static void loadDataLocal(Connection db) throws Exception {
        Path file = Files.createTempFile("narrows", ".csv");
        try {
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < 5000; n++) lines.append(n).append(",line ").append(n).append('\n');
            Files.writeString(file, lines);
            execute(db, "CREATE TABLE loaded (n INT, text VARCHAR(50))");
            try (Statement statement = db.createStatement()) {
                String sql = "LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE loaded FIELDS TERMINATED BY ','";
                expect(statement.executeUpdate(sql), 5000);
            }
            expect(value(db, "SELECT SUM(n) FROM loaded"), "12497500");
        } finally {
            Files.delete(file);
        }
    }

    private static void metadata(Connection db) throws Exception {
        int columns = 0;
        try (ResultSet result = db.getMetaData().getColumns(SCHEMA, null, "item", "%")) {
            while (result.next()) columns++;
        }
        expect(columns, 4);
        expect(db.isValid(5), true);
        db.setCatalog("mysql");
        expect(value(db, "SELECT DATABASE()"), "mysql");
        db.setCatalog(SCHEMA);
    }

    private static void cancellation(Connection db) throws Exception {
        long started = System.nanoTime();
        try (Statement statement = db.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT SLEEP(20) FROM digit").close();
            throw new AssertionError("a statement longer than its timeout was not cancelled");
        } catch (SQLException cancelled) {
            long seconds = (System.nanoTime() - started) / 1_000_000_000L;
            if (seconds > 10) throw new AssertionError("cancelled after " + seconds + " s only");
        }
        expect(value(db, "SELECT 1"), "1");
    }
}
