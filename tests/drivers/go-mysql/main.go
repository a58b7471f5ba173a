// Checks of go-sql-driver/mysql: checks HOST PORT USER PASSWORD.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

var schema = fmt.Sprintf("checks_go_%d", os.Getpid())

func open(change func(*mysql.Config)) *sql.DB {
	config := mysql.NewConfig()
	config.Net = "tcp"
	config.Addr = os.Args[1] + ":" + os.Args[2]
	config.User, config.Passwd = os.Args[3], os.Args[4]
	config.DBName = schema
	config.ParseTime = true
	config.MaxAllowedPacket = 64 << 20
	if change != nil {
		change(config)
	}
	connector, err := mysql.NewConnector(config)
	must(err)
	return sql.OpenDB(connector)
}

// must ends the current check, and with it the run.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(actual, wanted any) {
	if !reflect.DeepEqual(actual, wanted) {
		panic(fmt.Errorf("wanted %.300s, got %.300s", fmt.Sprintf("%T %v", wanted, wanted), fmt.Sprintf("%T %v", actual, actual)))
	}
}

func expectError(code uint16, err error) {
	var server *mysql.MySQLError
	if !errors.As(err, &server) || server.Number != code {
		panic(fmt.Errorf("wanted error %d, got %v", code, err))
	}
}

type database interface {
	Exec(string, ...any) (sql.Result, error)
	QueryRow(string, ...any) *sql.Row
}

func exec(db database, statement string, arguments ...any) sql.Result {
	result, err := db.Exec(statement, arguments...)
	must(err)
	return result
}

func number(db database, statement string, arguments ...any) (n int64) {
	must(db.QueryRow(statement, arguments...).Scan(&n))
	return n
}

func affected(result sql.Result) int64 {
	n, err := result.RowsAffected()
	must(err)
	return n
}

func checkTablesAndRows(db *sql.DB) {
	exec(db, "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) CHARACTER SET utf8mb4, n INT)")
	exec(db, "ALTER TABLE item ADD COLUMN note TEXT")
	// With arguments the driver prepares; without, it sends text.
	result := exec(db, "INSERT INTO item (name, n) VALUES (?, ?), (?, ?)", "one", 1, "two", 2)
	id, err := result.LastInsertId()
	must(err)
	expect([]int64{id, affected(result)}, []int64{1, 2})
	expect(affected(exec(db, "UPDATE item SET n = n + 10 WHERE n = 2")), int64(1))
	expect(affected(exec(db, "DELETE FROM item WHERE n = ?", 1)), int64(1))
	expect(number(db, "SELECT SUM(n) FROM item"), int64(12))
}

func checkPreparedStatements(db *sql.DB) {
	insert, err := db.Prepare("INSERT INTO item (name, n) VALUES (?, ?)")
	must(err)
	for n := 0; n < 50; n++ {
		_, err := insert.Exec(fmt.Sprint("prepared ", n), 1000+n)
		must(err)
	}
	must(insert.Close())
	find, err := db.Prepare("SELECT name FROM item WHERE n = ?")
	must(err)
	defer find.Close()
	for n := 0; n < 50; n++ {
		var name string
		must(find.QueryRow(1000 + n).Scan(&name))
		expect(name, fmt.Sprint("prepared ", n))
	}
	_, err = db.Prepare("SELEC ?")
	expectError(1064, err)
	interpolating := open(func(config *mysql.Config) { config.InterpolateParams = true })
	defer interpolating.Close()
	expect(number(interpolating, "SELECT COUNT(*) FROM item WHERE n >= ?", 1000), int64(50))
}

func checkTransactions(db *sql.DB) {
	transaction, err := db.Begin()
	must(err)
	exec(transaction, "INSERT INTO item (n) VALUES (100)")
	expect(number(transaction, "SELECT COUNT(*) FROM item WHERE n = ?", 100), int64(1))
	expect(number(db, "SELECT COUNT(*) FROM item WHERE n = 100"), int64(0))
	must(transaction.Rollback())
	expect(number(db, "SELECT COUNT(*) FROM item WHERE n = 100"), int64(0))

	transaction, err = db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	must(err)
	exec(db, "INSERT INTO item (n) VALUES (200)")
	expect(number(transaction, "SELECT COUNT(*) FROM item WHERE n = 200"), int64(1))
	exec(db, "UPDATE item SET n = 201 WHERE n = 200")
	expect(number(transaction, "SELECT COUNT(*) FROM item WHERE n = 201"), int64(1))
	must(transaction.Commit())

	transaction, err = db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(err)
	expect(number(transaction, "SELECT COUNT(*) FROM item WHERE n = 201"), int64(1))
	exec(db, "DELETE FROM item WHERE n = 201")
	expect(number(transaction, "SELECT COUNT(*) FROM item WHERE n = 201"), int64(1))
	must(transaction.Commit())

	transaction, err = db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	must(err)
	_, err = transaction.Exec("INSERT INTO item (n) VALUES (1)")
	expectError(1792, err)
	must(transaction.Rollback())
}

func checkColumnTypes(db *sql.DB) {
	exec(db, `CREATE TABLE types (a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT, e BIGINT UNSIGNED, f FLOAT,
		g DOUBLE, h DECIMAL(30,10), i DATE, j DATETIME(6), k TIME(3), l YEAR, m CHAR(5), n VARCHAR(20), o BINARY(4),
		p VARBINARY(20), q TEXT, r LONGBLOB, s ENUM('x','y'), t SET('u','v','w'), u BIT(12), v JSON)`)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	wanted := []any{int64(-128), int64(65535), int64(-8388608), int64(-1 << 63), []byte("18446744073709551615"), float32(1.5), 2.25,
		[]byte("12345678901234567890.0123456789"), time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC), []byte("-100:01:02.345"), int64(2024), []byte("abc"),
		[]byte("v"), []byte{0, 1, 2, 255}, []byte("\x00'\"\\"), []byte("text"), all, []byte("y"), []byte("u,w"),
		[]byte{0x0a, 0xbc}, []byte(`{"k": [1, null]}`)}
	marks := "(" + strings.Repeat("?, ", len(wanted)-1) + "?)"
	arguments := append([]any(nil), wanted...)
	arguments[4] = uint64(1<<64 - 1) // returned as text, because it does not fit into an int64
	exec(db, "INSERT INTO types VALUES "+marks, arguments...)
	exec(db, "INSERT INTO types VALUES "+marks, make([]any, len(wanted))...)
	// With an argument it is a binary result set.
	rows, err := db.Query("SELECT * FROM types WHERE a IS NULL OR a = ? ORDER BY a IS NULL", -128)
	must(err)
	defer rows.Close()
	for _, wanted := range [][]any{wanted, make([]any, len(wanted))} {
		expect(rows.Next(), true)
		got, targets := make([]any, len(wanted)), make([]any, len(wanted))
		for i := range got {
			targets[i] = &got[i]
		}
		must(rows.Scan(targets...))
		for i := range wanted {
			expect(got[i], wanted[i])
		}
	}
	expect(rows.Next(), false)
	must(rows.Err())
}

func checkCharsets(db *sql.DB) {
	text := "grüße, 日本語, 🦀🚀"
	exec(db, "INSERT INTO item (name, n) VALUES (?, 300)", text)
	for _, statement := range []string{"SELECT name FROM item WHERE n = 300", "SELECT name FROM item WHERE name = ?"} {
		var got string
		must(db.QueryRow(statement, []any{text}[:strings.Count(statement, "?")]...).Scan(&got))
		expect(got, text)
	}
}

func checkManyRows(db *sql.DB) {
	exec(db, "CREATE TABLE digit (d INT)")
	exec(db, "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
	many := `SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d, REPEAT('x', 50)
		FROM digit a, digit b, digit c, digit d, digit e`
	for _, arguments := range [][]any{{}, {10}} {
		statement := many
		if len(arguments) > 0 {
			statement += " WHERE a.d < ?"
		}
		rows, err := db.Query(statement, arguments...)
		must(err)
		var sum, n, count int64
		var filler string
		for rows.Next() {
			must(rows.Scan(&n, &filler))
			sum += n
			count++
		}
		must(rows.Err())
		expect([]int64{count, sum}, []int64{100000, 4999950000})
	}
	// Leaving a result unread closes its connection; the next query must not notice.
	rows, err := db.Query(many)
	must(err)
	expect(rows.Next(), true)
	must(rows.Close())
	expect(number(db, "SELECT 7"), int64(7))
}

func checkBigValues(db *sql.DB) {
	exec(db, "CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)")
	data := make([]byte, 20<<20)
	_, err := rand.Read(data)
	must(err)
	exec(db, "INSERT INTO big VALUES (?, ?)", 1, data)
	var got []byte
	must(db.QueryRow("SELECT data FROM big").Scan(&got))
	expect(bytes.Equal(got, data), true)
	must(db.QueryRow("SELECT data FROM big WHERE id = ?", 1).Scan(&got))
	expect(bytes.Equal(got, data), true)
}

func checkErrors(db *sql.DB) {
	failing := func(statement string) error { _, err := db.Exec(statement); return err }
	expectError(1064, failing("SELEC 1"))
	expectError(1062, failing("INSERT INTO item (id) SELECT id FROM item"))
	expectError(1146, failing("SELECT * FROM no_such_table"))
	expectError(1049, failing("USE no_such_schema"))
	for code, change := range map[uint16]func(*mysql.Config){
		1049: func(config *mysql.Config) { config.DBName = "no_such_schema" },
		1045: func(config *mysql.Config) { config.Passwd = "wrong" },
	} {
		refused := open(change)
		expectError(code, refused.Ping())
		must(refused.Close())
	}
}

func checkMultiStatements(db *sql.DB) {
	multi := open(func(config *mysql.Config) { config.MultiStatements = true })
	defer multi.Close()
	rows, err := multi.Query("SELECT 1; INSERT INTO item (n) VALUES (400); SELECT n FROM item WHERE n = 400")
	must(err)
	var got []int64
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var n int64
			must(rows.Scan(&n))
			got = append(got, n)
		}
	}
	must(rows.Err())
	expect(got, []int64{1, 400})
	_, err = multi.Exec("INSERT INTO item (n) VALUES (401); SELECT * FROM no_such_table")
	expectError(1146, err)
}

func checkProcedures(db *sql.DB) {
	exec(db, `CREATE PROCEDURE twice (IN given INT, OUT doubled INT)
		BEGIN SELECT given AS first; SELECT given + 1 AS second; SET doubled = given * 2; END`)
	connection, err := db.Conn(context.Background())
	must(err)
	defer connection.Close()
	rows, err := connection.QueryContext(context.Background(), "CALL twice(21, @doubled)")
	must(err)
	var got []int64
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var n int64
			must(rows.Scan(&n))
			got = append(got, n)
		}
	}
	must(rows.Err())
	var doubled int64
	must(connection.QueryRowContext(context.Background(), "SELECT @doubled").Scan(&doubled))
	expect(append(got, doubled), []int64{21, 22, 42})
}

func checkLoadDataLocal(db *sql.DB) {
	var file bytes.Buffer
	for n := 0; n < 50000; n++ {
		fmt.Fprintf(&file, "%d,line %d\n", n, n)
	}
	mysql.RegisterReaderHandler("lines", func() io.Reader { return &file })
	exec(db, "CREATE TABLE loaded (n INT, text VARCHAR(50))")
	result := exec(db, "LOAD DATA LOCAL INFILE 'Reader::lines' INTO TABLE loaded FIELDS TERMINATED BY ','")
	expect(affected(result), int64(50000))
	expect(number(db, "SELECT SUM(n) FROM loaded"), int64(1249975000))
}

func checkCancellation(db *sql.DB) {
	patience, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err := db.ExecContext(patience, "DO SLEEP(20)")
	expect(errors.Is(err, context.DeadlineExceeded), true)
	expect(time.Since(started) < 5*time.Second, true)
	expect(number(db, "SELECT 1"), int64(1))
}

func run() (err error) {
	root := open(func(config *mysql.Config) { config.DBName = "" })
	defer root.Close()
	defer func() {
		_, dropped := root.Exec("DROP DATABASE " + schema)
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%v", failure)
		} else {
			err = dropped
		}
	}()
	exec(root, "CREATE DATABASE "+schema)
	db := open(nil)
	defer db.Close()
	for _, check := range []struct {
		name string
		run  func(*sql.DB)
	}{
		{"tables and rows", checkTablesAndRows},
		{"prepared statements", checkPreparedStatements},
		{"transactions", checkTransactions},
		{"column types", checkColumnTypes},
		{"charsets", checkCharsets},
		{"many rows", checkManyRows},
		{"big values", checkBigValues},
		{"errors", checkErrors},
		{"multi statements", checkMultiStatements},
		{"procedures", checkProcedures},
		{"load data local", checkLoadDataLocal},
		{"cancellation", checkCancellation},
	} {
		func() {
			defer func() {
				if failure := recover(); failure != nil {
					panic(fmt.Errorf("%s: %v", check.name, failure))
				}
			}()
			check.run(db)
		}()
		fmt.Println("ok", check.name)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}
