import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/**
 * Logins with Connector/J or MariaDB Connector/J, by the scheme {@code mysql} or {@code mariadb}: a line of input each,
 * TRANSPORT, ADDRESS, PLUGIN, USER, PASSWORD and perhaps OPTIONS of the URL separated by tabs; a line of output each,
 * {@code ok} or the error message.
 */
public class Logins {
    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            String options = words.length > 5 ? words[5] : "";
            String result = login(args[0], words[0], words[1], words[2], words[3], words[4], options);
            System.out.println(result.replaceAll("\\s+", " "));
        }
    }

    private static String login(
            String scheme, String transport, String address, String plugin, String user, String password, String options) {
        if (transport.equals("unix")) {
            return "none: the driver has no Unix sockets";
        }
        if (plugin.equals("client_ed25519")) {
            return "none: the driver does not have the plugin";
        }
        Properties properties = new Properties();
        properties.setProperty("user", user);
        properties.setProperty("password", password);
        if (!options.contains("sslMode")) {
            properties.setProperty("sslMode", transport.equals("tls") ? "REQUIRED" : "DISABLED");
        }
        properties.setProperty("allowPublicKeyRetrieval", "true");
        properties.setProperty("connectTimeout", "60000");
        properties.setProperty("socketTimeout", "60000");
        if (plugin.equals("mysql_clear_password")) {
            properties.setProperty("defaultAuthenticationPlugin", plugin);
        }
        String url = "jdbc:" + scheme + "://127.0.0.1:" + address + "/?" + options;
        try (Connection connection = DriverManager.getConnection(url, properties);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT 'in'")) {
            return rows.next() && rows.getString(1).equals("in") ? "ok" : "wrong answer";
        } catch (SQLException error) {
            return error.getErrorCode() + " " + error.getMessage();
        }
    }
}
