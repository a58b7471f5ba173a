import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Map;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/**
 * Connects as a Java library does by default: Chatter LIBRARY HOST PORT USER PASSWORD SCHEMA. Prints the
 * version and runs a marker statement; what is sent before it is the library's chatter.
 */
public final class Chatter {
    private static final String MARKER = "SELECT 'ready'";

    public static void main(String[] arguments) throws Exception {
        String address = arguments[1] + ":" + arguments[2] + "/" + arguments[5];
        switch (arguments[0]) {
            case "connector-j" -> plain("jdbc:mysql://" + address, arguments[3], arguments[4]);
            case "mariadb-java" -> plain("jdbc:mariadb://" + address, arguments[3], arguments[4]);
            case "hibernate" -> hibernate("jdbc:mysql://" + address, arguments[3], arguments[4]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void plain(String url, String user, String password) throws Exception {
        try (Connection db = DriverManager.getConnection(url, user, password); Statement statement = db.createStatement()) {
            statement.executeQuery(MARKER).close();
            System.out.println(db.getMetaData().getDriverVersion().replaceFirst(".*connector-j-(\\S+).*", "$1"));
        }
    }

    private static void hibernate(String url, String user, String password) {
        Configuration configuration = new Configuration();
        Map.of("hibernate.connection.url", url, "hibernate.connection.username", user,
                "hibernate.connection.password", password).forEach(configuration::setProperty);
        try (SessionFactory factory = configuration.buildSessionFactory()) {
            factory.inTransaction(session -> session.createNativeQuery(MARKER, String.class).getSingleResult());
        }
        System.out.println(org.hibernate.Version.getVersionString());
    }
}
