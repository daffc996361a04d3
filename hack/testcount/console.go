package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

var (
	testLine   = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	binaryLine = regexp.MustCompile(`^VMTEST (\S+) rc=(\d+)`)
	resultLine = regexp.MustCompile(`^VMRESULT \S+ ran=(\d+) failed=(\d+)`)
)

// readConsole tallies the text of `go test -v` binaries that ran one after the other in a guest; a VMTEST line ends each.
// What failed is printed with the lines of its binary.
func (t *tally) readConsole(in io.Reader, out io.Writer) error {
	var text []string
	tests := map[string]verdict{}
	ended := false
	s := lines(in)
	for s.Scan() {
		line := s.Text()
		text = append(text, line)
		if m := testLine.FindStringSubmatch(line); m != nil {
			tests[m[2]] = map[string]verdict{"PASS": passed, "FAIL": failed, "SKIP": skipped}[m[1]]
		} else if m := binaryLine.FindStringSubmatch(line); m != nil {
			t.endBinary(m[1], m[2], tests, text, out)
			text, tests = nil, map[string]verdict{}
		} else if resultLine.MatchString(line) {
			ended = true
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if !ended {
		t.add("guest", "(no verdict)", failed)
		show(t.Place+": the guest gave no verdict", text, out)
	}
	return nil
}

func (t *tally) endBinary(name, rc string, tests map[string]verdict, text []string, out io.Writer) {
	name = strings.TrimSuffix(name, ".test")
	bad := false
	for test, v := range tests {
		t.add(name, test, v)
		bad = bad || v != passed
	}
	if rc != "0" && (&tally{Tests: map[string]map[string]verdict{name: tests}}).clean() {
		t.add(name, buildFailure, failed)
	}
	if bad || rc != "0" {
		show(fmt.Sprintf("%s: %s ended with %s", t.Place, name, rc), text, out)
	}
	mark := "ok  "
	if rc != "0" {
		mark = "FAIL"
	}
	fmt.Fprintf(out, "%s  %-40s %4d tests\n", mark, t.Place+" "+name, len(tests))
}

// show prints the end of a text; the whole is in the log.
func show(title string, text []string, out io.Writer) {
	const most = 200
	if len(text) > most {
		text = text[len(text)-most:]
	}
	fmt.Fprintln(out, title)
	for _, line := range text {
		fmt.Fprintln(out, "   ", line)
	}
}
