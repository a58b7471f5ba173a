// Runs every check with every set of options and both drivers. What a check saw is its outcome, so that two servers can
// be compared: a line OUTCOME<tab>DRIVER/OPTIONS/CHECK.

import java.io.ByteArrayInputStream;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

public class Suite {
    interface Check {
        String run(Connection connection) throws Exception;
    }

    static String url;
    static Properties login = new Properties();

    static final String[] CONNECTOR_J = {
        "", "useServerPrepStmts=true", "useServerPrepStmts=true&cachePrepStmts=true",
        "useCursorFetch=true&defaultFetchSize=50", "rewriteBatchedStatements=true",
        "rewriteBatchedStatements=true&useServerPrepStmts=true&cachePrepStmts=true", "useLocalSessionState=true",
        "useLocalTransactionState=true&useLocalSessionState=true", "allowMultiQueries=true", "useCompression=true",
        "sslMode=REQUIRED", "sslMode=DISABLED&allowPublicKeyRetrieval=true",
        "sessionVariables=sql_mode='ANSI_QUOTES',group_concat_max_len=7", "connectionCollation=utf8mb4_bin",
        "characterEncoding=ISO-8859-1", "useConfigs=maxPerformance",
        "connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true&useAffectedRows=true",
        "autocommit=off",
    };
    static final String[] MARIADB = {
        "", "useServerPrepStmts=true", "useServerPrepStmts=true&cachePrepStmts=false", "defaultFetchSize=50",
        "rewriteBatchedStatements=true", "useBulkStmts=true&useServerPrepStmts=true", "useLocalSessionState=true",
        "useBulkStmtsForInserts=false&disablePipeline=true", "allowMultiQueries=true", "useCompression=true",
        "sslMode=trust", "sslMode=disable&allowPublicKeyRetrieval=true",
        "sessionVariables=sql_mode='ANSI_QUOTES',group_concat_max_len=7", "connectionCollation=utf8mb4_bin",
        "transactionReplay=true&maxQuerySizeToLog=10", "useAffectedRows=true&timezone=UTC",
        "usePipelineAuth=true&useReadAheadInput=true", "autocommit=off",
    };

    static Connection open(String options) throws SQLException {
        boolean off = options.equals("autocommit=off");
        Connection connection = DriverManager.getConnection(url + (off || options.isEmpty() ? "" : "&" + options), login);
        if (off) connection.setAutoCommit(false);
        return connection;
    }

    static String rows(ResultSet rows) throws SQLException {
        StringBuilder text = new StringBuilder();
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            for (int i = 1; i <= columns; i++) text.append(rows.getString(i)).append(i < columns ? "," : ";");
        }
        return text.toString();
    }

    static String query(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            return rows(rows);
        }
    }

    static void run(Connection connection, String... all) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : all) statement.execute(sql);
        }
    }

    static String error(Connection connection, String sql) {
        try {
            run(connection, sql);
            return "ok";
        } catch (SQLException e) {
            return e.getErrorCode() + "/" + e.getSQLState();
        }
    }

    /** A driver reports it with the server's error or with its own, whichever it sees first. */
    static String cancelled(SQLException e) {
        boolean own = e.getClass().getSimpleName().equals("MySQLStatementCancelledException");
        return own || e.getErrorCode() == 1317 ? "cancelled" : "error " + e.getErrorCode() + " " + e.getMessage();
    }

    static void fresh(Connection connection) throws SQLException {
        run(connection, "DROP TABLE IF EXISTS t",
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100), b INT UNIQUE) ENGINE=InnoDB");
    }

    static void thousand(Connection connection) throws SQLException {
        fresh(connection);
        StringBuilder sql = new StringBuilder("INSERT INTO t (a) VALUES ('x')");
        for (int i = 1; i < 1000; i++) sql.append(",('x')");
        run(connection, sql.toString());
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("types", c -> query(c, "SELECT 1, -5.50, 'text', NULL, DATE '2020-02-03', TIMESTAMP '2020-02-03 04:05:06', 18446744073709551615, 1e3"));
        CHECKS.put("session", c -> query(c, "SELECT @@character_set_client, @@collation_connection, @@sql_mode, @@time_zone, @@autocommit, @@group_concat_max_len, DATABASE()"));
        CHECKS.put("variables", c -> query(c, "SHOW VARIABLES WHERE variable_name IN ('character_set_client','character_set_results','sql_mode','autocommit')"));
        CHECKS.put("prepared", c -> {
            fresh(c);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO t (a, b) VALUES (?, ?)")) {
                for (int i = 0; i < 5; i++) {
                    p.setString(1, "é" + i);
                    if (i == 3) p.setNull(2, Types.INTEGER); else p.setInt(2, i);
                    p.executeUpdate();
                }
            }
            try (PreparedStatement p = c.prepareStatement("SELECT a, b FROM t WHERE id > ? ORDER BY id")) {
                p.setInt(1, 2);
                String first = rows(p.executeQuery());
                p.setInt(1, 4);
                return first + rows(p.executeQuery());
            }
        });
        CHECKS.put("prepared_after_alter", c -> {
            fresh(c);
            run(c, "INSERT INTO t (a, b) VALUES ('x', 1)");
            try (PreparedStatement p = c.prepareStatement("SELECT * FROM t WHERE id = ?")) {
                p.setInt(1, 1);
                String first = rows(p.executeQuery());
                run(c, "ALTER TABLE t ADD COLUMN more INT DEFAULT 7");
                return first + rows(p.executeQuery());
            }
        });
        CHECKS.put("batch", c -> {
            fresh(c);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO t (a, b) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int i = 0; i < 300; i++) {
                    p.setString(1, "v" + i);
                    p.setInt(2, i);
                    p.addBatch();
                }
                int[] counts = p.executeBatch();
                long keys = 0;
                int number = 0;
                try (ResultSet generated = p.getGeneratedKeys()) {
                    while (generated.next()) { keys += generated.getLong(1); number++; }
                }
                return counts.length + "," + counts[0] + "," + number + "," + keys + "," + query(c, "SELECT COUNT(*), SUM(b) FROM t");
            }
        });
        CHECKS.put("batch_of_texts", c -> {
            fresh(c);
            try (Statement s = c.createStatement()) {
                for (int i = 0; i < 10; i++) s.addBatch("INSERT INTO t (b) VALUES (" + i + ")");
                s.addBatch("UPDATE t SET a = 'z'");
                s.addBatch("DELETE FROM t WHERE b > 7");
                return Arrays.toString(s.executeBatch()) + query(c, "SELECT COUNT(*) FROM t");
            }
        });
        CHECKS.put("batch_with_duplicate", c -> {
            fresh(c);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO t (a, b) VALUES (?, ?)")) {
                for (int i = 0; i < 10; i++) {
                    p.setString(1, "v");
                    p.setInt(2, i % 7);
                    p.addBatch();
                }
                p.executeBatch();
                return "no error";
            } catch (BatchUpdateException e) {
                return e.getErrorCode() + Arrays.toString(e.getUpdateCounts()) + query(c, "SELECT COUNT(*) FROM t");
            }
        });
        CHECKS.put("transaction", c -> {
            fresh(c);
            boolean before = c.getAutoCommit();
            c.setAutoCommit(false);
            run(c, "INSERT INTO t (b) VALUES (1)");
            c.commit();
            run(c, "INSERT INTO t (b) VALUES (2)");
            String within = query(c, "SELECT COUNT(*) FROM t");
            c.rollback();
            run(c, "INSERT INTO t (b) VALUES (3)");
            Savepoint point = c.setSavepoint("p");
            run(c, "INSERT INTO t (b) VALUES (4)");
            c.rollback(point);
            c.commit();
            c.setAutoCommit(before);
            return within + query(c, "SELECT b FROM t ORDER BY b");
        });
        CHECKS.put("savepoint_first", c -> {
            fresh(c);
            boolean before = c.getAutoCommit();
            c.setAutoCommit(false);
            Savepoint point = c.setSavepoint("p");
            run(c, "INSERT INTO t (b) VALUES (1)");
            c.rollback(point);
            c.commit();
            c.setAutoCommit(before);
            return query(c, "SELECT COUNT(*) FROM t");
        });
        CHECKS.put("read_then_write", c -> {
            fresh(c);
            boolean before = c.getAutoCommit();
            c.setAutoCommit(false);
            for (int i = 0; i < 20; i++) {
                query(c, "SELECT COUNT(*) FROM t");
                run(c, "INSERT INTO t (b) VALUES (" + i + ")");
                c.commit();
            }
            c.setAutoCommit(before);
            try (Connection other = open("")) { return query(other, "SELECT COUNT(*) FROM t"); }
        });
        CHECKS.put("streaming", c -> {
            thousand(c);
            try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                s.setFetchSize(c.getMetaData().getDriverName().startsWith("Maria") ? 1 : Integer.MIN_VALUE);
                int number = 0;
                try (ResultSet r = s.executeQuery("SELECT id, a FROM t")) { while (r.next()) number++; }
                try (ResultSet r = s.executeQuery("SELECT id, a FROM t")) { r.next(); }
                return number + "," + query(c, "SELECT 'after'");
            }
        });
        CHECKS.put("cursor", c -> {
            thousand(c);
            int number = 0;
            try (PreparedStatement p = c.prepareStatement("SELECT id, a FROM t WHERE id > ?")) {
                p.setFetchSize(100);
                p.setInt(1, 3);
                try (ResultSet r = p.executeQuery()) {
                    while (r.next() && number < 450) if (++number % 100 == 0) query(c, "SELECT 1");
                }
                try (ResultSet r = p.executeQuery()) { while (r.next()) number++; }
            }
            return number + "," + query(c, "SELECT 'after'");
        });
        CHECKS.put("several_statements", c -> {
            fresh(c);
            StringBuilder text = new StringBuilder();
            try (Statement s = c.createStatement()) {
                boolean isRows = s.execute("SELECT 1; INSERT INTO t (b) VALUES (5),(6); SELECT b FROM t ORDER BY b");
                while (true) {
                    if (isRows) text.append(rows(s.getResultSet()));
                    else if (s.getUpdateCount() < 0) break;
                    else text.append("#").append(s.getUpdateCount());
                    isRows = s.getMoreResults();
                }
            }
            return text.toString();
        });
        CHECKS.put("procedure", c -> {
            run(c, "DROP PROCEDURE IF EXISTS p", "CREATE PROCEDURE p(IN a INT, OUT b INT, INOUT d INT) BEGIN SELECT a; SET b = a + 1; SET d = d * 2; SELECT b, d; END");
            try (CallableStatement call = c.prepareCall("{call p(?, ?, ?)}")) {
                call.setInt(1, 4);
                call.registerOutParameter(2, Types.INTEGER);
                call.setInt(3, 21);
                call.registerOutParameter(3, Types.INTEGER);
                boolean isRows = call.execute();
                StringBuilder text = new StringBuilder();
                while (isRows) { text.append(rows(call.getResultSet())); isRows = call.getMoreResults(); }
                return text + "" + call.getInt(2) + "," + call.getInt(3);
            }
        });
        CHECKS.put("metadata", c -> {
            fresh(c);
            StringBuilder text = new StringBuilder();
            try (ResultSet r = c.getMetaData().getColumns("jdbc", null, "t", "%")) {
                while (r.next()) text.append(r.getString("COLUMN_NAME")).append(r.getInt("DATA_TYPE")).append(r.getString("IS_AUTOINCREMENT"));
            }
            try (ResultSet r = c.getMetaData().getPrimaryKeys("jdbc", null, "t")) { while (r.next()) text.append(r.getString("COLUMN_NAME")); }
            try (ResultSet r = c.getMetaData().getTables("jdbc", null, "t", new String[] {"TABLE"})) { while (r.next()) text.append(r.getString("TABLE_NAME")); }
            return text + c.getMetaData().getDatabaseProductName() + c.getMetaData().getDatabaseProductVersion();
        });
        CHECKS.put("columns", c -> {
            fresh(c);
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT id AS i, a, COUNT(*) AS n FROM t AS tt GROUP BY id, a")) {
                StringBuilder text = new StringBuilder();
                ResultSetMetaData m = r.getMetaData();
                for (int i = 1; i <= 3; i++) text.append(m.getColumnLabel(i) + m.getColumnName(i) + m.getTableName(i) + m.getColumnType(i) + m.getPrecision(i) + m.isNullable(i) + m.isAutoIncrement(i) + ";");
                return text.toString();
            }
        });
        CHECKS.put("catalog", c -> {
            run(c, "CREATE DATABASE IF NOT EXISTS jdbc2");
            c.setCatalog("jdbc2");
            String first = c.getCatalog() + query(c, "SELECT DATABASE()");
            c.setCatalog("jdbc");
            String wrong;
            try { c.setCatalog("no_such_schema"); wrong = "ok"; } catch (SQLException e) { wrong = "" + e.getErrorCode(); }
            return first + wrong + query(c, "SELECT DATABASE()");
        });
        CHECKS.put("read_only", c -> {
            fresh(c);
            boolean before = c.getAutoCommit();
            if (!before) c.commit();
            c.setReadOnly(true);
            String text = query(c, "SELECT COUNT(*) FROM t") + error(c, "INSERT INTO t (b) VALUES (1)");
            if (!before) c.rollback();
            c.setReadOnly(false);
            return text + error(c, "INSERT INTO t (b) VALUES (1)") + query(c, "SELECT COUNT(*) FROM t");
        });
        CHECKS.put("isolation", c -> {
            if (!c.getAutoCommit()) c.commit();
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            String text = c.getTransactionIsolation() + query(c, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'jdbc'");
            if (!c.getAutoCommit()) c.commit();
            c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            return text + c.getTransactionIsolation();
        });
        CHECKS.put("warnings", c -> {
            try (Statement s = c.createStatement()) {
                s.execute("SELECT 'abc' + 1");
                s.getResultSet().next();
                StringBuilder text = new StringBuilder();
                for (SQLWarning w = s.getWarnings(); w != null; w = w.getNextWarning()) text.append(w.getErrorCode()).append(w.getMessage());
                return text.toString();
            }
        });
        CHECKS.put("errors", c -> {
            fresh(c);
            run(c, "INSERT INTO t (b) VALUES (1)");
            return error(c, "INSERT INTO t (b) VALUES (1)") + "," + error(c, "SELECT * FROM nowhere") + "," + error(c, "SELEC 1") + ","
                + error(c, "SELECT nothing") + "," + error(c, "USE nowhere") + "," + error(c, "SET nothing = 1") + "," + error(c, "KILL 4000000000");
        });
        CHECKS.put("query_timeout", c -> {
            try (Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                try { s.executeQuery("SELECT SLEEP(20)").next(); return "not ended"; }
                catch (SQLTimeoutException e) { return "timeout," + query(c, "SELECT 'after'"); }
            }
        });
        CHECKS.put("cancel", c -> {
            ScheduledExecutorService later = Executors.newScheduledThreadPool(1);
            try (Statement s = c.createStatement()) {
                // Repeatedly, because the first one may come before the statement.
                later.scheduleWithFixedDelay(() -> { try { s.cancel(); } catch (SQLException e) { /* not running yet */ } }, 300, 300, TimeUnit.MILLISECONDS);
                String outcome;
                try { outcome = rows(s.executeQuery("SELECT SLEEP(30)")); } catch (SQLException e) { outcome = cancelled(e); }
                later.shutdownNow();
                later.awaitTermination(5, TimeUnit.SECONDS);
                // A late one may hit the next statement, as it may on a server.
                error(c, "DO 1");
                return outcome + query(c, "SELECT 'after'");
            } finally {
                later.shutdownNow();
            }
        });
        CHECKS.put("cancel_with_cursor", c -> {
            thousand(c);
            ScheduledExecutorService later = Executors.newScheduledThreadPool(1);
            try (PreparedStatement s = c.prepareStatement("SELECT id, SLEEP(0.2) FROM t WHERE id > ? ORDER BY a, id")) {
                s.setFetchSize(10);
                s.setInt(1, 1);
                later.scheduleWithFixedDelay(() -> { try { s.cancel(); } catch (SQLException e) { /* not running yet */ } }, 300, 300, TimeUnit.MILLISECONDS);
                String outcome;
                try { outcome = "rows " + rows(s.executeQuery()).length(); } catch (SQLException e) { outcome = cancelled(e); }
                later.shutdownNow();
                later.awaitTermination(5, TimeUnit.SECONDS);
                error(c, "DO 1");
                return outcome + query(c, "SELECT 'after'");
            } finally {
                later.shutdownNow();
            }
        });
        CHECKS.put("insert_id", c -> {
            fresh(c);
            run(c, "INSERT INTO t (b) VALUES (1),(2),(3)");
            String first = query(c, "SELECT LAST_INSERT_ID()");
            query(c, "SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1");
            String found = query(c, "SELECT FOUND_ROWS()");
            run(c, "UPDATE t SET a = 'q'");
            return first + found + query(c, "SELECT ROW_COUNT()");
        });
        CHECKS.put("generated_keys", c -> {
            fresh(c);
            try (Statement s = c.createStatement()) {
                s.executeUpdate("INSERT INTO t (b) VALUES (1),(2),(3)", Statement.RETURN_GENERATED_KEYS);
                String keys = rows(s.getGeneratedKeys());
                int updated = s.executeUpdate("UPDATE t SET b = b");
                return keys + updated;
            }
        });
        CHECKS.put("large", c -> {
            run(c, "DROP TABLE IF EXISTS big", "CREATE TABLE big (id INT PRIMARY KEY, a LONGBLOB)");
            byte[] bytes = new byte[18 << 20];
            new Random(1).nextBytes(bytes);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO big VALUES (1, ?), (2, ?)")) {
                p.setBytes(1, Arrays.copyOf(bytes, 1000));
                p.setBinaryStream(2, new ByteArrayInputStream(bytes), bytes.length);
                p.executeUpdate();
            }
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT a FROM big ORDER BY id")) {
                r.next();
                int small = Arrays.hashCode(r.getBytes(1));
                r.next();
                return small + "," + Arrays.equals(bytes, r.getBytes(1));
            }
        });
        CHECKS.put("session_objects", c -> {
            run(c, "DROP TEMPORARY TABLE IF EXISTS tmp", "CREATE TEMPORARY TABLE tmp (a INT)", "INSERT INTO tmp VALUES (1),(2)", "SET @x = 5");
            String text = query(c, "SELECT COUNT(*), @x FROM tmp") + query(c, "SELECT GET_LOCK('jdbc', 1)") + query(c, "SELECT IS_FREE_LOCK('jdbc'), RELEASE_LOCK('jdbc')");
            run(c, "DROP TEMPORARY TABLE tmp");
            return text;
        });
        CHECKS.put("time", c -> {
            run(c, "DROP TABLE IF EXISTS ts", "CREATE TABLE ts (a TIMESTAMP(3) NULL, b DATETIME(6), d TIME(2))");
            try (PreparedStatement p = c.prepareStatement("INSERT INTO ts VALUES (?, ?, ?)")) {
                p.setTimestamp(1, Timestamp.valueOf("2021-03-04 05:06:07.123"));
                p.setTimestamp(2, Timestamp.valueOf("2021-03-04 05:06:07.123456"));
                p.setTime(3, Time.valueOf("10:11:12"));
                p.executeUpdate();
            }
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT a, b, d FROM ts")) {
                r.next();
                return r.getTimestamp(1) + "," + r.getTimestamp(2) + "," + r.getTime(3);
            }
        });
        CHECKS.put("updatable", c -> {
            fresh(c);
            run(c, "INSERT INTO t (b) VALUES (1),(2)");
            try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = s.executeQuery("SELECT id, a, b FROM t ORDER BY id")) {
                r.next();
                r.updateString("a", "changed");
                r.updateRow();
            }
            return query(c, "SELECT a, b FROM t ORDER BY id");
        });
        CHECKS.put("text", c -> {
            run(c, "DROP TABLE IF EXISTS tx", "CREATE TABLE tx (a VARCHAR(20) CHARACTER SET utf8mb4, b VARCHAR(20) CHARACTER SET latin1)");
            try (PreparedStatement p = c.prepareStatement("INSERT INTO tx VALUES (?, ?)")) {
                p.setString(1, "äß\u00e9'\\\"");
                p.setString(2, "äß\u00e9'\\\"");
                p.executeUpdate();
            }
            return query(c, "SELECT a, b, HEX(a), HEX(b), a = b FROM tx");
        });
        CHECKS.put("valid", c -> c.isValid(5) + "," + c.isClosed());
        CHECKS.put("reset", c -> {
            run(c, "SET @gone = 1");
            if (c.getMetaData().getDriverName().startsWith("Maria")) return "no such call";
            c.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).resetServerState();
            return query(c, "SELECT @gone");
        });
    }

    public static void main(String[] arguments) throws Exception {
        login.setProperty("user", arguments[2]);
        login.setProperty("password", arguments[3]);
        for (String driver : new String[] {"mysql", "mariadb"}) {
            url = "jdbc:" + driver + "://" + arguments[0] + ":" + arguments[1] + "/jdbc?connectTimeout=300000&socketTimeout=300000";
            for (String options : driver.equals("mysql") ? CONNECTOR_J : MARIADB) {
                for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
                    String outcome;
                    // One connection for each: no check affects another, and applications' pools do the same.
                    try (Connection connection = open(options)) {
                        outcome = check.getValue().run(connection);
                        if (!connection.getAutoCommit()) connection.rollback();
                    } catch (SQLException e) {
                        outcome = "error " + e.getErrorCode() + " " + e.getSQLState() + " " + e.getMessage();
                    } catch (Exception e) {
                        // The driver's own failure: how much of an answer it had read by then is random.
                        outcome = "error " + e.getClass().getName();
                    }
                    String name = driver + "/" + (options.isEmpty() ? "defaults" : options) + "/" + check.getKey();
                    System.out.println(outcome.replaceAll("[\\s]+", " ").replaceAll("\\(conn=\\d+\\) ", "") + "\t" + name);
                }
            }
        }
        System.exit(0);
    }
}
