// Command chatter connects as go-sql-driver does by default: chatter HOST PORT USER PASSWORD SCHEMA. It runs one marker
// statement; what is sent before it is the driver's chatter.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	_ "github.com/go-sql-driver/mysql"
)

func main() {
	host, port, user, password, schema := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s:%s)/%s", user, password, host, port, schema))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var text string
	if err := db.QueryRow("SELECT 'ready'").Scan(&text); err != nil {
		log.Fatal(err)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/go-sql-driver/mysql" {
				fmt.Println(module.Version)
			}
		}
	}
}
