package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// buildFailure stands for the tests of a package that did not compile or did not run to its end.
const buildFailure = "(package)"

// readJSON tallies the stream and prints the output of what failed, and one line for each package.
func (t *tally) readJSON(in io.Reader, out io.Writer) error {
	output := map[string][]string{}
	key := func(e event) string { return e.Package + " " + e.Test }
	s := lines(in)
	for s.Scan() {
		var e event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			// go itself complains in plain text when it cannot begin.
			fmt.Fprintln(out, s.Text())
			continue
		}
		switch e.Action {
		case "output":
			output[key(e)] = append(output[key(e)], e.Output)
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "pass", "fail", "skip":
			t.end(e, output[key(e)], out)
			delete(output, key(e))
		}
	}
	return s.Err()
}

func (t *tally) end(e event, output []string, out io.Writer) {
	v := verdict(e.Action)
	if e.Test == "" {
		t.endPackage(e, v, output, out)
		return
	}
	t.add(e.Package, e.Test, v)
	if v == passed {
		return
	}
	fmt.Fprintf(out, "%s %s %s\n", strings.ToUpper(string(v)), e.Package, e.Test)
	const head, tail = 20, 80 // a failing script prints its whole session; its end says why
	for n, line := range output {
		switch {
		case n == head && len(output) > head+tail:
			fmt.Fprintf(out, "    … %d lines (go test -v -run '^%s$' %s)\n", len(output)-head-tail, e.Test, e.Package)
		case n >= head && n < len(output)-tail, strings.HasPrefix(line, "=== "):
		default:
			fmt.Fprint(out, "    ", line)
		}
	}
}

// endPackage: a package without test files ends with "skip", which is no skipped test.
func (t *tally) endPackage(e event, v verdict, output []string, out io.Writer) {
	if v == skipped && len(t.Tests[e.Package]) == 0 {
		return
	}
	mark := "ok  "
	if v == failed {
		mark = "FAIL"
		if (&tally{Tests: map[string]map[string]verdict{e.Package: t.Tests[e.Package]}}).clean() {
			t.add(e.Package, buildFailure, failed)
			for _, line := range output {
				fmt.Fprint(out, "    ", line)
			}
		}
	}
	fmt.Fprintf(out, "%s  %-40s %4d tests  %6.1fs\n", mark, e.Package, len(t.Tests[e.Package]), e.Elapsed)
}
