package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A verdict is the end of one test.
type verdict string

const (
	passed  verdict = "pass"
	failed  verdict = "fail"
	skipped verdict = "skip"
)

// A tally holds the tests of one place (the host, a guest) by package and full name.
type tally struct {
	Place string                        `json:"place"`
	Tests map[string]map[string]verdict `json:"tests"`
}

func newTally(place string) *tally { return &tally{place, map[string]map[string]verdict{}} }

func (t *tally) add(pkg, test string, v verdict) {
	if t.Tests[pkg] == nil {
		t.Tests[pkg] = map[string]verdict{}
	}
	t.Tests[pkg][test] = v
}

// counts are the leaves: a test with subtests is counted by these, but a failure of its own counts too.
func (t *tally) counts() (n map[verdict]int) {
	n = map[verdict]int{}
	for _, tests := range t.Tests {
		parents := map[string]bool{}
		childFailed := map[string]bool{}
		for name, v := range tests {
			for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
				parents[name[:i]] = true
				if v == failed {
					childFailed[name[:i]] = true
				}
			}
		}
		for name, v := range tests {
			if !parents[name] || v == failed && !childFailed[name] {
				n[v]++
			}
		}
	}
	return n
}

func (t *tally) clean() bool { return t.counts()[failed] == 0 }

// top is how many top-level tests a package ran.
func (t *tally) top(pkg string) (n int) {
	for name := range t.Tests[pkg] {
		if !strings.Contains(name, "/") {
			n++
		}
	}
	return n
}

func (t *tally) packages() []string { return slices.Sorted(maps.Keys(t.Tests)) }

func (t *tally) save(path string) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func load(path string) (*tally, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := newTally("")
	if err := json.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if t.Place == "" || t.Tests == nil {
		return nil, fmt.Errorf("%s: not a tally", path)
	}
	return t, nil
}

// lines is a scanner that takes long lines.
func lines(r interface{ Read([]byte) (int, error) }) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return s
}
