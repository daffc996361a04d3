package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A row is one requirement.
type row struct{ id, kinds, text string }

var idForm = regexp.MustCompile(`^[LWGK]-\d{3}$`)

func readRows(path string) ([]row, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	seen := map[string]bool{}
	for n, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if n == 0 && line == "id\tkinds\ttext" {
			continue
		}
		if len(f) != 3 || !idForm.MatchString(f[0]) {
			return nil, fmt.Errorf("%s:%d: want id, kinds and text, separated by tabs", path, n+1)
		}
		if seen[f[0]] {
			return nil, fmt.Errorf("%s:%d: %s is there twice", path, n+1, f[0])
		}
		seen[f[0]] = true
		rows = append(rows, row{f[0], f[1], f[2]})
	}
	return rows, nil
}
