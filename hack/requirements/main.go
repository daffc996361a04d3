// Command requirements compares docs/requirements.tsv with the tests: a test names the rows that it shows in a comment
// (`// K-019`, or `// K-004 to K-006`), in Go test files and in the scripts of testscript.
//
//	requirements [-all] [ROOT]
//
// It lists the rows that no test names, which is no failure while the project grows, and the names in test comments that are
// no rows, which is one.
//
// # What it does not show
//
// That a test that names a row really shows it. That is read in review.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	all := flag.Bool("all", false, "list each row with the tests that name it")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	ok, err := report(root, *all, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func report(root string, all bool, out io.Writer) (ok bool, err error) {
	rows, err := readRows(filepath.Join(root, "docs", "requirements.tsv"))
	if err != nil {
		return false, err
	}
	named, err := scan(root)
	if err != nil {
		return false, err
	}
	known, shown := map[string]bool{}, map[byte]int{}
	perSection := map[byte]int{}
	for _, r := range rows {
		known[r.id] = true
		perSection[r.id[0]]++
		switch places := named[r.id]; {
		case len(places) == 0:
			fmt.Fprintf(out, "no test  %s  [%s]  %s\n", r.id, r.kinds, r.text)
		default:
			shown[r.id[0]]++
			if all {
				fmt.Fprintf(out, "named    %s  %v\n", r.id, places)
			}
		}
	}
	ok = true
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !known[id] {
			fmt.Fprintf(out, "unknown  %s  %v\n", id, named[id])
			ok = false
		}
	}
	for _, s := range slices.Sorted(maps.Keys(perSection)) {
		fmt.Fprintf(out, "%c: %d of %d rows are named by a test\n", s, shown[s], perSection[s])
	}
	return ok, nil
}
