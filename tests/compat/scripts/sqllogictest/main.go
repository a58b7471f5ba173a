// Prints the statements and queries of sqllogictest files as scripts, one per file, with the file's path as its name.
// Usage: sqllogictest [-records N] SERVER FOLDER FILES...; SERVER is what `onlyif` and `skipif` are compared with.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	limit := flag.Int("records", 1<<30, "how many records of a file are taken")
	flag.Parse()
	server, folder, files := flag.Arg(0), flag.Arg(1), flag.Args()[2:]
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			log.Fatal(err)
		}
		statements := records(server, string(text))
		statements = statements[:min(len(statements), *limit)]
		script := map[string]any{"Name": strings.ReplaceAll(name, "/", "."), "Statements": statements, "Ask": true}
		if err := out.Encode(script); err != nil {
			log.Fatal(err)
		}
	}
}

// records are the texts of a file that are for this server. A record begins with `statement` or `query` and ends with an empty
// line; the results that are expected of a query are after a line of dashes.
func records(server, text string) []string {
	var found []string
	for _, record := range strings.Split(strings.ReplaceAll(text, "\r", ""), "\n\n") {
		wanted, inside := true, false
		var lines []string
		for _, line := range strings.Split(record, "\n") {
			words := strings.Fields(line)
			switch {
			case inside && line == "----":
				inside = false
			case inside:
				lines = append(lines, line)
			case len(words) == 0 || strings.HasPrefix(line, "#"):
			case words[0] == "onlyif" && len(words) > 1:
				wanted = wanted && words[1] == server
			case words[0] == "skipif" && len(words) > 1:
				wanted = wanted && words[1] != server
			case words[0] == "halt" && wanted:
				return found
			case (words[0] == "statement" || words[0] == "query") && lines == nil:
				inside = true
			}
		}
		if wanted && lines != nil {
			found = append(found, strings.Join(lines, "\n"))
		}
	}
	return found
}
