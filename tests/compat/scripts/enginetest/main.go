// Prints the exported scripts and queries of go-mysql-server's enginetest as scripts. The lists themselves, `lists`, are in a file
// that the suite generates from the module's sources. Usage: enginetest SHARE [PATTERN]
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
)

// Queries of a list run one after another on one set of tables; so many of them share it.
const queriesPerScript = 100

type script struct {
	Name       string
	Statements []string
	Clients    []string
	Ask        bool
}

var (
	ofClient = regexp.MustCompile(`/\*\s*client\s+(\w+)\s*\*/`)
	unsafe   = regexp.MustCompile(`[^A-Za-z0-9_.,=-]+`)
	// These end the server, or are about all accounts or about a clock.
	excluded = regexp.MustCompile(`(?i)\b(shutdown|sleep\s*\(|kill\s|(drop|create|alter)\s+user\s+root|flush\s+tables\s+with)`)
)

func main() {
	share, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	pattern := "*"
	if len(os.Args) > 2 && os.Args[2] != "" {
		pattern, share = os.Args[2], 1
	}
	names := make([]string, 0, len(lists))
	for name := range lists {
		names = append(names, name)
	}
	sort.Strings(names)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	number := 0
	for _, name := range names {
		for _, one := range scriptsOf(name, reflect.ValueOf(lists[name])) {
			number++
			if matches, _ := path.Match(pattern, one.Name); matches && number%share == 0 {
				if err := out.Encode(one); err != nil {
					log.Fatal(err)
				}
			}
		}
	}
}

// scriptsOf makes a script of each element that has a set-up, and of each hundred queries of a list of queries.
func scriptsOf(list string, values reflect.Value) []script {
	var scripts []script
	var queries []string
	for i := range values.Len() {
		value := reflect.Indirect(values.Index(i))
		texts := textsOf(value)
		if !hasSetUp(value) {
			queries = append(queries, texts...)
			continue
		}
		scripts = append(scripts, newScript(fmt.Sprintf("%s.%d.%s", list, i, nameOf(value)), nil, texts))
	}
	for start := 0; start < len(queries); start += queriesPerScript {
		name := fmt.Sprintf("%s.%d", list, start)
		scripts = append(scripts, newScript(name, simpleTables(), queries[start:min(start+queriesPerScript, len(queries))]))
	}
	return scripts
}

func newScript(name string, before, texts []string) script {
	name = unsafe.ReplaceAllString(name, "_")
	made := script{Name: name[:min(len(name), 120)], Ask: true}
	for _, text := range append(before, texts...) {
		if excluded.MatchString(text) || strings.TrimSpace(text) == "" {
			continue
		}
		client := ""
		if found := ofClient.FindStringSubmatch(text); found != nil {
			client = found[1]
		}
		made.Statements = append(made.Statements, text)
		made.Clients = append(made.Clients, client)
	}
	return made
}

func simpleTables() []string {
	var texts []string
	for _, data := range setup.SimpleSetup {
		for _, part := range data {
			texts = append(texts, part...)
		}
	}
	return texts
}

func hasSetUp(value reflect.Value) bool {
	return value.Kind() == reflect.Struct && value.FieldByName("SetUpScript").IsValid()
}

func nameOf(value reflect.Value) string {
	if name := value.FieldByName("Name"); name.IsValid() {
		return name.String()
	}
	return ""
}

// textsOf are the statements in a test of any of the module's types, by the names of their fields, in their order.
func textsOf(value reflect.Value) []string {
	value = reflect.Indirect(value)
	switch value.Kind() {
	case reflect.String:
		return []string{value.String()}
	case reflect.Slice:
		var texts []string
		for i := range value.Len() {
			texts = append(texts, textsOf(value.Index(i))...)
		}
		return texts
	case reflect.Struct:
		var texts []string
		for _, field := range []string{"SetUpScript", "WriteQuery", "Query", "SelectQuery", "Queries", "Assertions"} {
			if member := value.FieldByName(field); member.IsValid() {
				texts = append(texts, textsOf(member)...)
			}
		}
		return texts
	}
	return nil
}
