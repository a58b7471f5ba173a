<?php
// Connects as a PHP library does: chatter.php LIBRARY HOST PORT USER PASSWORD SCHEMA. Prints the version and runs a
// marker statement; what is sent before it is the library's chatter.
[, $library, $host, $port, $user, $password, $schema] = $argv;
const MARKER = "SELECT 'ready'";
$dsn = "mysql:host=$host;port=$port;dbname=$schema";
if ($library === 'mysqli') {
    $db = new mysqli($host, $user, $password, $schema, (int) $port);
    $db->query(MARKER)->fetch_all();
} elseif ($library === 'pdo') {
    $db = new PDO($dsn, $user, $password);
    $db->query(MARKER)->fetchAll();
} elseif ($library === 'laravel') {
    // What Laravel's MySqlConnector does with its usual configuration (utf8mb4, strict), since version 10.
    $db = new PDO("$dsn;charset=utf8mb4", $user, $password, [
        PDO::ATTR_CASE => PDO::CASE_NATURAL,
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_STRINGIFY_FETCHES => false,
        PDO::ATTR_EMULATE_PREPARES => false,
    ]);
    $db->exec("use `$schema`;");
    $modes = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
    $db->exec("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci', SESSION time_zone='+00:00', SESSION sql_mode='$modes';");
    $statement = $db->prepare(MARKER);
    $statement->execute();
    $statement->fetchAll();
    $statement = null;
} elseif ($library === 'laravel-old') {
    // The same up to version 9: separate statements, prepared by the server.
    $db = new PDO("$dsn;charset=utf8mb4", $user, $password, [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_EMULATE_PREPARES => false,
    ]);
    $db->exec("use `$schema`;");
    $db->prepare("set names 'utf8mb4' collate 'utf8mb4_unicode_ci'")->execute();
    $db->prepare('set time_zone="+00:00"')->execute();
    $db->prepare("set session sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'")->execute();
    $statement = $db->prepare(MARKER);
    $statement->execute();
    $statement->fetchAll();
    $statement = null;
} else {
    fwrite(STDERR, "unknown: $library\n");
    exit(2);
}
echo PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION . "\n";
