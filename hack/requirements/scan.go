package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scan returns the tests' comments that name a row: id → places.
func scan(root string) (map[string][]string, error) {
	named := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		var comments []comment
		switch {
		case strings.HasSuffix(path, "_test.go"):
			comments, err = goComments(path)
		case strings.HasSuffix(path, ".txtar"):
			comments, err = scriptComments(path)
		}
		if err != nil {
			return err
		}
		for _, c := range comments {
			for _, id := range ids(c.text) {
				if place := fmt.Sprintf("%s:%d", filepath.ToSlash(rel), c.line); !slices.Contains(named[id], place) {
					named[id] = append(named[id], place)
				}
			}
		}
		return nil
	})
	return named, err
}

type comment struct {
	line int
	text string
}

func goComments(path string) ([]comment, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []comment
	for _, g := range f.Comments {
		for _, c := range g.List {
			all = append(all, comment{fset.Position(c.Pos()).Line, c.Text})
		}
	}
	return all, nil
}

// scriptComments are the lines of a testscript that begin with #.
func scriptComments(path string) ([]comment, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []comment
	for n, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			all = append(all, comment{n + 1, line})
		}
	}
	return all, nil
}

var (
	idInText    = regexp.MustCompile(`\b[LWGK]-\d{3}\b`)
	rangeInText = regexp.MustCompile(`\b([LWGK])-(\d{3}) to ([LWGK])-(\d{3})\b`)
)

// ids are the rows that a text names; "K-004 to K-006" names three.
func ids(text string) []string {
	all := idInText.FindAllString(text, -1)
	for _, m := range rangeInText.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[4])
		if m[1] != m[3] {
			continue
		}
		for n := from + 1; n < to; n++ {
			all = append(all, fmt.Sprintf("%s-%03d", m[1], n))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
