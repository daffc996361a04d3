package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIDs(t *testing.T) {
	const k = "K" // so that this file names no row by accident
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"one", "// " + k + "-019", []string{k + "-019"}},
		{"several, one twice", k + "-022, " + k + "-019 and " + k + "-022", []string{k + "-019", k + "-022"}},
		{"a range", k + "-004 to " + k + "-006", []string{k + "-004", k + "-005", k + "-006"}},
		{"a range over two sections names its ends", k + "-004 to L" + "-006", []string{k + "-004", "L" + "-006"}},
		{"four digits are no row", k + "-0191", nil},
		{"part of a word", "X" + k + "-019", nil},
		{"none", "nothing", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ids(tc.text)
			if len(got) == 0 {
				got = nil
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReport(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/requirements.tsv", "id\tkinds\ttext\nK-001\tU\tone\nK-002\tK\ttwo\nK-003\tM\tthree\n")
	write("a/a_test.go", "package a\n\n// K-001\nvar s = \"K-777 in a string is no comment\"\n")
	write("a/a.go", "package a\n\n// K-002 in the product is no test\n")
	write("a/testdata/x.txtar", "# K-003 by a script\nexec true K-888\n")
	var out bytes.Buffer
	ok, err := report(root, false, &out)
	if err != nil || !ok {
		t.Fatalf("ok %v, err %v\n%s", ok, err, out.String())
	}
	if want := "no test  K-002  [K]  two\nK: 2 of 3 rows are named by a test\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	write("a/b_test.go", "package a\n\n// K-999\n")
	out.Reset()
	if ok, err := report(root, false, &out); err != nil || ok || !strings.Contains(out.String(), "unknown  K-999  [a/b_test.go:3]") {
		t.Errorf("an unknown row: ok %v, err %v\n%s", ok, err, out.String())
	}
}

func TestReadRows(t *testing.T) {
	for _, text := range []string{"K-001\tU\n", "K-01\tU\tx\n", "K-001\tU\tx\nK-001\tU\tx\n", "\n"} {
		p := filepath.Join(t.TempDir(), "r")
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readRows(p); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// The committed table itself is well-formed, and no test of this repository names a row that is not in it.
func TestRepository(t *testing.T) {
	var out bytes.Buffer
	ok, err := report("../..", false, &out)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Error(out.String())
	}
}
