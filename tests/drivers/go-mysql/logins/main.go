// Logins with go-sql-driver/mysql: a line of input each, TRANSPORT, ADDRESS, PLUGIN, USER, PASSWORD and perhaps OPTIONS
// of the DSN separated by tabs; a line of output each, `ok` or the error message.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

func login(transport, address, plugin, user, password, options string) string {
	if plugin != "mysql_native_password" && plugin != "caching_sha2_password" {
		return "none: the driver answers for the plugin of the greeting"
	}
	config, err := mysql.ParseDSN("/?" + options)
	if err != nil {
		return err.Error()
	}
	config.User, config.Passwd = user, password
	config.Net, config.Addr = "tcp", "127.0.0.1:"+address
	switch transport {
	case "unix":
		config.Net, config.Addr = "unix", address
	case "tls":
		config.TLSConfig = "skip-verify"
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err.Error()
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	limit, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var answer string
	if err := db.QueryRowContext(limit, "SELECT 'in'").Scan(&answer); err != nil {
		return err.Error()
	}
	return map[bool]string{true: "ok", false: "wrong answer"}[answer == "in"]
}

func main() {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := append(strings.Split(lines.Text(), "\t"), "")
		result := login(words[0], words[1], words[2], words[3], words[4], words[5])
		fmt.Println(strings.Join(strings.Fields(result), " "))
	}
}
