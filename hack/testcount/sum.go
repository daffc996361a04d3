package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// sum prints the closing line last and says whether everything is as it must be.
func sum(paths []string, counts string, update bool, out io.Writer) (bool, error) {
	total := map[verdict]int{}
	seen := map[string]int{} // "PLACE PACKAGE" → top-level tests
	for _, path := range paths {
		t, err := load(path)
		if err != nil {
			return false, err
		}
		for v, n := range t.counts() {
			total[v] += n
		}
		for _, pkg := range t.packages() {
			seen[t.Place+" "+pkg] = t.top(pkg)
		}
	}
	if update {
		if err := writeCounts(counts, seen); err != nil {
			return false, err
		}
	} else if counts != "" {
		want, err := readCounts(counts)
		if err != nil {
			return false, err
		}
		total[failed] += differences(want, seen, out)
	}
	ok := total[failed] == 0 && total[passed] > 0
	if total[skipped] > 0 && os.Getenv("LOCKBOX_ALLOW_SKIP") != "1" {
		fmt.Fprintln(out, "testcount: a skipped test is not a pass")
		ok = false
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", total[passed], total[failed], total[skipped])
	return ok, nil
}

// differences counts the committed rows that were not met; each is a failed test.
func differences(want, seen map[string]int, out io.Writer) (n int) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got := seen[key]; got != want[key] {
			fmt.Fprintf(out, "testcount: %s ran %d tests, %d are committed (make counts writes the number anew)\n", key, got, want[key])
			n++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if _, ok := want[key]; !ok && kernelTier(key) {
			fmt.Fprintf(out, "testcount: %s has no committed number (make counts writes it)\n", key)
			n++
		}
	}
	return n
}

// kernelTier says whether a row is one whose tests need a kernel. (The guests' tests are compared by name: hack/vm/run.sh.)
func kernelTier(key string) bool {
	place, pkg, _ := strings.Cut(key, " ")
	if place != "host" {
		return false
	}
	for _, p := range []string{"lockbox/sandbox", "lockbox/runner", "lockbox/bpf", "lockbox/test"} {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}

func readCounts(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want := map[string]int{}
	s := bufio.NewScanner(f)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		var place, pkg string
		var count int
		if _, err := fmt.Sscan(line, &place, &pkg, &count); err != nil {
			return nil, fmt.Errorf("%s:%d: want PLACE PACKAGE NUMBER: %w", path, n, err)
		}
		want[place+" "+pkg] = count
	}
	return want, s.Err()
}

func writeCounts(path string, seen map[string]int) error {
	var b strings.Builder
	b.WriteString("# Kernel tests that each place runs: place, package, top-level tests. Written by `make counts`, read by `make test`.\n")
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if kernelTier(key) {
			fmt.Fprintf(&b, "%s %d\n", key, seen[key])
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
