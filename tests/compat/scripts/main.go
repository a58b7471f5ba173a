// Runs scripts of SQL statements against a server, each as texts and each with the statements prepared that can be, and writes what
// every statement returned. Usage: scripts HOST:PORT USER PASSWORD < SCRIPTS, one Script as JSON per line.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Script is a list of statements on an empty database.
type Script struct {
	Name       string
	Statements []string
	// Whose connection a statement uses, by its number; all use the same one without this.
	Clients []string
	// Questions about the session are asked in between.
	Ask bool
}

const (
	statementTime = 30 * time.Second
	scriptTime    = 10 * time.Minute
	maxRows       = 2000
)

// Asked in turns, because programs seldom ask what a session has.
var questions = []string{
	"SELECT FOUND_ROWS()",
	"SHOW WARNINGS",
	"SELECT ROW_COUNT(), LAST_INSERT_ID()",
	"SELECT @@sql_mode, @@autocommit, @@sql_select_limit, @@foreign_key_checks, @@time_zone, @d, DATABASE()",
	"SELECT @@warning_count, @@error_count",
	"SELECT FOUND_ROWS(), ROW_COUNT()",
	"SELECT @@collation_connection, @@character_set_results, @@character_set_database, @@lc_time_names, @@sql_safe_updates, @@div_precision_increment",
}

type runner struct {
	connector driver.Connector
	prepared  bool
	out       *bufio.Writer
}

func main() {
	log.SetFlags(0)
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	seen := os.Getenv("COMPAT_SEEN")
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := input.ReadBytes('\n')
		if len(line) > 1 {
			var script Script
			if err := json.Unmarshal(line, &script); err != nil {
				log.Fatal(err)
			}
			for _, prepared := range []bool{false, true} {
				name := script.Name
				if prepared {
					name += " (prepared)"
				}
				runScript(&script, name, prepared, filepath.Join(seen, name))
			}
		}
		if err != nil {
			return
		}
	}
}

func runScript(script *Script, name string, prepared bool, path string) {
	outcome := "pass"
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	hash := sha256.New()
	run := &runner{prepared: prepared, out: bufio.NewWriter(io.MultiWriter(file, hash))}
	if err := run.script(script); err != nil {
		fmt.Fprintf(run.out, "the script ended: %v\n", err)
		outcome = "fail"
	}
	run.out.Flush()
	file.Close()
	fmt.Printf("%s %x\t%s\n", outcome, hash.Sum(nil)[:8], name)
}

func connector(database string) (driver.Connector, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd, config.DBName = "tcp", os.Args[1], os.Args[2], os.Args[3], database
	config.MultiStatements = true
	config.AllowNativePasswords = true
	config.Timeout = 30 * time.Second
	return mysql.NewConnector(config)
}

func (run *runner) script(script *Script) error {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	admin, err := connector("")
	if err != nil {
		return err
	}
	conn, err := admin.Connect(ctx)
	if err != nil {
		return err
	}
	for _, text := range []string{"SET SESSION foreign_key_checks = 0", "DROP DATABASE IF EXISTS mydb", "DROP DATABASE IF EXISTS foo", "CREATE DATABASE mydb", "CREATE DATABASE foo"} {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, text, nil); err != nil {
			conn.Close()
			return err
		}
	}
	conn.Close()
	if run.connector, err = connector("mydb"); err != nil {
		return err
	}
	clients := map[string]driver.Conn{}
	defer func() {
		for _, client := range clients {
			client.Close()
		}
	}()
	for number, text := range script.Statements {
		name := ""
		if script.Clients != nil {
			name = script.Clients[number]
		}
		run.one(ctx, clients, name, text)
		if script.Ask && number%3 == 2 {
			run.one(ctx, clients, name, questions[number/3%len(questions)])
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// one runs a statement of a client, which is connected first if it has no connection any more.
func (run *runner) one(ctx context.Context, clients map[string]driver.Conn, name, text string) {
	client := clients[name]
	if client == nil {
		var err error
		if client, err = run.connector.Connect(ctx); err != nil {
			fmt.Fprintf(run.out, "no connection: %v\n", err)
			return
		}
		clients[name] = client
	}
	fmt.Fprintf(run.out, "> %s\n", strings.Join(strings.Fields(text), " "))
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	err := run.statement(ctx, client, text)
	if err == nil {
		return
	}
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		fmt.Fprintf(run.out, "error %d %s %s\n", refused.Number, refused.SQLState, oneLine(refused.Message))
		return
	}
	fmt.Fprintf(run.out, "lost: %v\n", err)
	client.Close()
	delete(clients, name)
}

func (run *runner) statement(ctx context.Context, conn driver.Conn, text string) error {
	if !run.prepared {
		if returnsRows(text) {
			rows, err := conn.(driver.QueryerContext).QueryContext(ctx, text, nil)
			if err != nil {
				return err
			}
			return run.rows(rows)
		}
		result, err := conn.(driver.ExecerContext).ExecContext(ctx, text, nil)
		if err != nil {
			return err
		}
		return run.result(result)
	}
	statement, err := conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	var refused *mysql.MySQLError
	// 1295: not in this protocol; 1064: several statements.
	if errors.As(err, &refused) && (refused.Number == 1295 || refused.Number == 1064) {
		fmt.Fprintf(run.out, "not prepared: %d\n", refused.Number)
		plain := &runner{out: run.out}
		return plain.statement(ctx, conn, text)
	}
	if err != nil {
		return err
	}
	defer statement.Close()
	if count := statement.NumInput(); count > 0 {
		fmt.Fprintf(run.out, "parameters: %d\n", count)
		return nil
	}
	if returnsRows(text) {
		rows, err := statement.(driver.StmtQueryContext).QueryContext(ctx, nil)
		if err != nil {
			return err
		}
		return run.rows(rows)
	}
	result, err := statement.(driver.StmtExecContext).ExecContext(ctx, nil)
	if err != nil {
		return err
	}
	return run.result(result)
}

// returnsRows tells which of the driver's two calls shows more: rows, or numbers of rows and identifiers.
func returnsRows(text string) bool {
	word := strings.ToUpper(strings.TrimLeft(text, " \t\r\n(;"))
	for strings.HasPrefix(word, "/*") && strings.Contains(word, "*/") {
		word = strings.TrimLeft(word[strings.Index(word, "*/")+2:], " \t\r\n(;")
	}
	for _, first := range []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "TRUNCATE", "DO ", "GRANT", "REVOKE", "LOCK", "UNLOCK", "LOAD", "RENAME", "SAVEPOINT", "RELEASE"} {
		if strings.HasPrefix(word, first) {
			return strings.Contains(word, "RETURNING")
		}
	}
	return true
}

func (run *runner) result(result driver.Result) error {
	all := result.(mysql.Result)
	fmt.Fprintf(run.out, "rows %v ids %v\n", all.AllRowsAffected(), all.AllLastInsertIds())
	return nil
}

func (run *runner) rows(rows driver.Rows) error {
	defer rows.Close()
	for {
		names := rows.Columns()
		for number, name := range names {
			if number > 0 {
				run.out.WriteString(" | ")
			}
			fmt.Fprintf(run.out, "%s", oneLine(name))
			if typed, ok := rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
				fmt.Fprintf(run.out, " %s", typed.ColumnTypeDatabaseTypeName(number))
			}
		}
		run.out.WriteString("\n")
		values := make([]driver.Value, len(names))
		for count := 0; ; count++ {
			err := rows.Next(values)
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if count >= maxRows {
				continue
			}
			for number, value := range values {
				if number > 0 {
					run.out.WriteString(" | ")
				}
				if bytes, ok := value.([]byte); ok {
					run.out.WriteString(oneLine(string(bytes)))
				} else {
					fmt.Fprintf(run.out, "%v", value)
				}
			}
			run.out.WriteString("\n")
		}
		next, ok := rows.(driver.RowsNextResultSet)
		if !ok || !next.HasNextResultSet() {
			return nil
		}
		if err := next.NextResultSet(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

func oneLine(text string) string {
	return strings.NewReplacer("\n", "\\n", "\r", "\\r").Replace(text)
}
