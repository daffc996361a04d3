package main

import (
	"strings"
	"testing"
	"time"
)

// K-026
func TestTable(t *testing.T) {
	plain := &candidate{name: "plain"}
	other := &candidate{name: "other"}
	for n := range 100 {
		plain.samples = append(plain.samples, time.Duration(100-n)*time.Millisecond)
		other.samples = append(other.samples, time.Duration(2*(n+1))*time.Millisecond)
	}
	var b strings.Builder
	table(&b, time.Millisecond, "ms", []*candidate{plain, other})
	for _, want := range []string{"| plain | 1.00 | 51.00 | 100.00 | 1.00 | 1.00 |", "| other | 2.00 | 102.00 | 200.00 | 2.00 | 2.00 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

// The works themselves run, so that none rots.
func TestWork(t *testing.T) {
	dir := t.TempDir()
	if err := makeFiles(dir); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"open", dir, "100"}, {"stat", dir, "100"}, {"connect", "0", "10"}, {"stream", "0", "4"}} {
		if err := work(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
