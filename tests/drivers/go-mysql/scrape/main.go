// Command scrape runs the queries of exporters for ProxySQL (Percona's, Datadog's and Netdata's) on the admin
// interface, reads the answers as they do, and prints each figure: scrape HOST PORT USER PASSWORD.
//
// Every column that is not a label must be a number; a status is one of five words.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"

	_ "github.com/go-sql-driver/mysql"
)

// A query, and which of its columns are labels; the others are figures.
type question struct {
	name, text string
	labels     []string
	// For full users only: statistics users do not see it.
	full bool
}

var questions = []question{
	{name: "status", text: "SELECT Variable_Name, Variable_Value FROM stats_mysql_global", labels: []string{"Variable_Name"}},
	{name: "connection_pool", text: "SELECT hostgroup, srv_host, srv_port, * FROM stats_mysql_connection_pool",
		labels: []string{"hostgroup", "srv_host", "srv_port"}},
	{name: "client_connection_list",
		text:   "SELECT COUNT(cli_host) as connection_count, cli_host FROM stats_mysql_processlist GROUP BY cli_host",
		labels: []string{"cli_host"}},
	{name: "detailed_client_connection_count",
		text: "SELECT user, db, cli_host, hostgroup, COUNT(*) as count from stats_mysql_processlist " +
			"group by user, db, cli_host, hostgroup",
		labels: []string{"user", "db", "cli_host", "hostgroup"}},
	{name: "command_counter",
		text: "SELECT Command, Total_Time_us, Total_cnt, cnt_100us, cnt_500us, cnt_1ms, cnt_5ms, cnt_10ms, cnt_50ms, " +
			"cnt_100ms, cnt_500ms, cnt_1s, cnt_5s, cnt_10s, cnt_INFs FROM stats_mysql_commands_counters WHERE Command IN " +
			"('CREATE_TEMPORARY','DELETE','INSERT','LOCK_TABLES','SELECT','SELECT_FOR_UPDATE','UPDATE')",
		labels: []string{"Command"}},
	{name: "runtime_servers", text: "SELECT hostgroup_id, hostname, port, gtid_port, * FROM runtime_mysql_servers",
		labels: []string{"hostgroup_id", "hostname", "port", "comment"}, full: true},
	{name: "memory", text: "select Variable_Name, Variable_Value  from stats_memory_metrics", labels: []string{"Variable_Name"}},
	{name: "version", text: "select variable_value from global_variables where variable_name = 'admin-version'",
		labels: []string{"variable_value"}},
	{name: "datadog_commands",
		text:   "SELECT Command, Total_time_us, Total_cnt FROM stats.stats_mysql_commands_counters",
		labels: []string{"Command"}, full: true},
	{name: "datadog_users",
		text:   "SELECT username, frontend_connections, frontend_max_connections FROM stats.stats_mysql_users",
		labels: []string{"username"}, full: true},
	{name: "netdata_digests",
		text: "SELECT digest AS `digest`, digest_text, count_star, sum_time/1000 AS `totalTime` FROM stats_mysql_query_digest " +
			"ORDER BY `totalTime` DESC LIMIT 500",
		labels: []string{"digest", "digest_text"}},
	{name: "netdata_columns", text: "SELECT * FROM stats_mysql_query_digest WHERE 1=0"},
}

var statuses = []string{"ONLINE", "SHUNNED", "OFFLINE_SOFT", "OFFLINE_HARD", "SHUNNED_REPLICATION_LAG"}

func main() {
	host, port, user, password := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s:%s)/", user, password, host, port))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(); err != nil {
		log.Fatal(err)
	}
	for _, question := range questions {
		if question.full && user != "admin" {
			continue
		}
		if err := ask(db, question); err != nil {
			log.Fatalf("%s: %s: %v", question.name, question.text, err)
		}
	}
}

func ask(db *sql.DB, question question) error {
	rows, err := db.Query(question.text)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		places := make([]any, len(columns))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			return err
		}
		labels := ""
		for i, column := range columns {
			// `*` repeats what was named before it.
			if slices.Contains(question.labels, column) && slices.Index(columns, column) == i {
				labels += "," + cells[i].String
			}
		}
		for i, column := range columns {
			if slices.Contains(question.labels, column) {
				continue
			}
			figure, err := read(column, cells[i].String)
			if err != nil {
				return fmt.Errorf("%s%s: %s: %w", question.name, labels, column, err)
			}
			fmt.Printf("%s %s %g\n", question.name+labels, column, figure)
		}
	}
	return rows.Err()
}

func read(column, text string) (float64, error) {
	if column == "status" {
		if place := slices.Index(statuses, text); place >= 0 {
			return float64(place + 1), nil
		}
		return 0, fmt.Errorf("no such status: %q", text)
	}
	// Some figures are words where others are numbers.
	if text == "true" || text == "false" {
		return map[string]float64{"true": 1, "false": 0}[text], nil
	}
	return strconv.ParseFloat(text, 64)
}
