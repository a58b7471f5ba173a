<?php
// Checks of prepared statements with PHP's mysqlnd: checks.php HOST PORT USER PASSWORD.
[, $host, $port, $user, $password] = $argv;
$schema = 'checks_php_' . getmypid();
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function expect(mixed $actual, mixed $wanted): void {
    if ($actual !== $wanted) {
        throw new Exception('wanted ' . var_export($wanted, true) . ', got ' . var_export($actual, true));
    }
}

function expect_error(int $code, callable $action): void {
    try {
        $action();
    } catch (mysqli_sql_exception $error) {
        expect($error->getCode(), $code);
        return;
    }
    throw new Exception("wanted error $code, got none");
}

function check_executions(mysqli $db): void {
    $insert = $db->prepare('INSERT INTO item (id, name) VALUES (?, ?)');
    $insert->bind_param('is', $id, $name);
    for ($id = 0; $id < 100; $id++) {
        $name = "name $id";
        $insert->execute();
        expect($insert->affected_rows, 1);
    }
    $insert->close();
    $find = $db->prepare('SELECT id, name, n FROM item WHERE id = ?');
    for ($id = 0; $id < 100; $id += 10) {
        $find->execute([$id]);
        expect($find->get_result()->fetch_row(), [$id, "name $id", null]);
    }
    // A parameter of a different type.
    $find->bind_param('s', $text);
    $text = '7';
    $find->execute();
    $find->bind_result($got, $name, $n);
    expect($find->fetch(), true);
    expect([$got, $name, $n], [7, 'name 7', null]);
    $find->close();
}

function check_cursor(mysqli $db, mysqli $other): void {
    $all = $db->prepare('SELECT id FROM item WHERE id < 100 ORDER BY id');
    $all->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
    for ($round = 0; $round < 2; $round++) {
        $all->execute();
        $all->bind_result($id);
        for ($count = 0; $all->fetch(); $count++) {
            expect($id, $count);
            if ($count % 20 === 0) {
                $other->query('DO 1');
            }
        }
        expect($count, 100);
        $all->free_result();
    }
    $all->close();
}

function check_long_data(mysqli $db): void {
    $measure = $db->prepare('SELECT LENGTH(?), ?');
    $blob = null;
    $five = 5;
    $measure->bind_param('bi', $blob, $five);
    for ($round = 1; $round <= 3; $round++) {
        for ($n = 0; $n < 10 * $round; $n++) {
            $measure->send_long_data(0, str_repeat('x', 100000));
        }
        $measure->execute();
        expect($measure->get_result()->fetch_row(), [1000000 * $round, 5]);
        $measure->reset();
    }
}

function check_errors(mysqli $db): void {
    expect_error(1064, fn() => $db->prepare('SELEC ?'));
    expect_error(1146, fn() => $db->prepare('SELECT * FROM no_such_table'));
    expect_error(1062, fn() => $db->execute_query('INSERT INTO item (id) VALUES (?)', [1]));
    expect($db->execute_query('SELECT ?', ['still here'])->fetch_row(), ['still here']);
}

function check_pdo(PDO $db): void {
    $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
    $db->beginTransaction();
    $insert = $db->prepare('INSERT INTO item (id, name) VALUES (:id, :name)');
    for ($id = 500; $id < 520; $id++) {
        $insert->execute(['id' => $id, 'name' => 'pdo']);
    }
    $db->rollBack();
    $count = $db->prepare('SELECT COUNT(*) FROM item WHERE name = ?');
    $count->execute(['pdo']);
    expect($count->fetchColumn(), 0);
}

$db = new mysqli($host, $user, $password, '', (int) $port);
$db->query("CREATE DATABASE $schema");
$db->select_db($schema);
$db->query('CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(100), n INT)');
$other = new mysqli($host, $user, $password, $schema, (int) $port);
check_executions($db);
check_cursor($db, $other);
check_long_data($db);
check_errors($db);
check_pdo(new PDO("mysql:host=$host;port=$port;dbname=$schema", $user, $password));
$db->query("DROP DATABASE $schema");
echo "ok\n";
