package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The tables are copies; golang.org/x/sys generates its numbers from the kernel's headers.
func TestHostTablesAreThoseOfXSys(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatalf("go list -m golang.org/x/sys: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "unix")
	line := regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+=\s+(\d+)`)
	for _, a := range []Arch{AMD64, ARM64} {
		src, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("zsysnum_linux_%v.go", a)))
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint32]string{}
		for _, m := range line.FindAllStringSubmatch(string(src), -1) {
			nr, err := strconv.ParseUint(m[2], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			if m[1] == "ARCH_SPECIFIC_SYSCALL" { // a base number, not a call
				continue
			}
			want[uint32(nr)] = strings.ToLower(m[1])
		}
		if len(want) < 300 {
			t.Fatalf("%v: found only %d numbers", a, len(want))
		}
		for nr := range uint32(1000) {
			if got := a.Name(nr); got != want[nr] {
				t.Errorf("%v %d: table has %q, x/sys %q", a, nr, got, want[nr])
			}
			if n := want[nr]; n != "" {
				if got, ok := a.Number(n); !ok || got != nr {
					t.Errorf("%v: Number(%q) = %d, %v; want %d", a, n, got, ok, nr)
				}
			}
		}
	}
	if _, ok := AMD64.Number(""); ok {
		t.Error("the empty name has a number")
	}
	if Arch(0).Name(0) != "" || Arch(9).Name(0) != "" {
		t.Error("an unknown architecture has names")
	}
}

// Every call of each table has one rule, and no rule names a call that neither table has.
func TestRulesNameEachCallOnce(t *testing.T) {
	seen := map[string]int{}
	for _, r := range rules {
		if r.usual == nil {
			t.Errorf("rule of %q has no outcome", r.names)
		}
		for _, n := range r.names {
			seen[n]++
			_, x := AMD64.Number(n)
			_, y := ARM64.Number(n)
			if !x && !y {
				t.Errorf("rule for unknown call %q", n)
			}
			if seen[n] > 1 {
				t.Errorf("%q has %d rules", n, seen[n])
			}
		}
	}
	for _, a := range []Arch{AMD64, ARM64} {
		for _, n := range a.names() {
			if n != "" && seen[n] == 0 {
				t.Errorf("%v: no rule for %q", a, n)
			}
		}
	}
}
