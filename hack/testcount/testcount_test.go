package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stream = `{"Action":"run","Package":"lockbox/sandbox","Test":"TestA"}
{"Action":"output","Package":"lockbox/sandbox","Test":"TestA/x","Output":"the reason\n"}
{"Action":"fail","Package":"lockbox/sandbox","Test":"TestA/x"}
{"Action":"pass","Package":"lockbox/sandbox","Test":"TestA/y"}
{"Action":"fail","Package":"lockbox/sandbox","Test":"TestA"}
{"Action":"skip","Package":"lockbox/sandbox","Test":"TestB"}
{"Action":"fail","Package":"lockbox/sandbox","Elapsed":1}
{"ImportPath":"lockbox/broken","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"ImportPath":"lockbox/broken","Action":"build-fail"}
{"Action":"fail","Package":"lockbox/broken","Elapsed":0,"FailedBuild":"lockbox/broken"}
{"Action":"output","Package":"lockbox/none","Output":"?   \tlockbox/none\t[no test files]\n"}
{"Action":"skip","Package":"lockbox/none","Elapsed":0}
`

// K-014
func TestStream(t *testing.T) {
	var out bytes.Buffer
	tl := newTally("host")
	if err := tl.readJSON(strings.NewReader(stream), &out); err != nil {
		t.Fatal(err)
	}
	n := tl.counts()
	if n[passed] != 1 || n[failed] != 2 || n[skipped] != 1 {
		t.Errorf("counts %v, want 1 passed, 2 failed (a test and a package), 1 skipped", n)
	}
	for _, want := range []string{"FAIL lockbox/sandbox TestA/x", "the reason", "SKIP lockbox/sandbox TestB", "syntax error"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	if tl.clean() {
		t.Error("a failed tally is not clean")
	}
}

func TestConsole(t *testing.T) {
	const head = "VMBOOT 1.8 6.1.0 lsm=landlock\n=== RUN   TestA\n--- PASS: TestA (0.01s)\n    --- PASS: TestA/x (0.00s)\nPASS\n"
	for _, tc := range []struct {
		name, log    string
		pass, failed int
	}{
		{"all pass", head + "VMTEST sandbox.test rc=0 at 3\nVMRESULT 12 ran=1 failed=0\n", 1, 0},
		{"a binary that dies between tests", head + "VMTEST sandbox.test rc=2 at 3\nVMRESULT 12 ran=1 failed=1\n", 1, 1},
		{"a guest that stops", head + "VMTEST sandbox.test rc=0 at 3\n", 1, 1},
		{"nothing at all", "", 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tl := newTally("vm-6.1")
			if err := tl.readConsole(strings.NewReader(tc.log), new(bytes.Buffer)); err != nil {
				t.Fatal(err)
			}
			if n := tl.counts(); n[passed] != tc.pass || n[failed] != tc.failed {
				t.Errorf("counts %v, want %d passed and %d failed", n, tc.pass, tc.failed)
			}
		})
	}
}

func TestSum(t *testing.T) {
	dir := t.TempDir()
	tl := newTally("host")
	tl.add("lockbox/sandbox", "TestA", passed)
	path, counts := filepath.Join(dir, "t"), filepath.Join(dir, "counts")
	if err := tl.save(path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKBOX_ALLOW_SKIP", "")
	for _, tc := range []struct {
		name, counts string
		ok           bool
		last         string
	}{
		{"as committed", "host lockbox/sandbox 1\n", true, "1 passed, 0 failed, 0 skipped\n"},
		{"one fewer", "host lockbox/sandbox 2\n", false, "1 passed, 1 failed, 0 skipped\n"},
		{"a package that did not run", "host lockbox/sandbox 1\nhost lockbox/runner 1\n", false, "1 passed, 1 failed, 0 skipped\n"},
		{"a new one", "# nothing\n", false, "1 passed, 1 failed, 0 skipped\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(counts, []byte(tc.counts), 0o644); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			ok, err := sum([]string{path}, counts, false, &out)
			if err != nil || ok != tc.ok || !strings.HasSuffix(out.String(), tc.last) {
				t.Errorf("ok %v, err %v, want %v and %q; said\n%s", ok, err, tc.ok, tc.last, out.String())
			}
		})
	}
	// Written anew, they agree.
	if _, err := sum([]string{path}, counts, true, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if ok, err := sum([]string{path}, counts, false, new(bytes.Buffer)); !ok || err != nil {
		t.Errorf("after the update: %v, %v", ok, err)
	}
}

// A skipped test is not a pass.
func TestSumSkip(t *testing.T) {
	tl := newTally("host")
	tl.add("p", "TestA", passed)
	tl.add("p", "TestB", skipped)
	path := filepath.Join(t.TempDir(), "t")
	if err := tl.save(path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKBOX_ALLOW_SKIP", "")
	if ok, _ := sum([]string{path}, "", false, new(bytes.Buffer)); ok {
		t.Error("a skip passed")
	}
	t.Setenv("LOCKBOX_ALLOW_SKIP", "1")
	if ok, _ := sum([]string{path}, "", false, new(bytes.Buffer)); !ok {
		t.Error("an allowed skip failed")
	}
}
