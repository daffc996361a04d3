package cli_test

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lockbox/cmd/internal/cli"
	"lockbox/test/needs"
	"lockbox/test/ownnet"
)

var update = flag.Bool("update", false, "rewrite the golden texts")

func TestMain(m *testing.M) {
	// As root the scripts try destinations that must be denied: in a namespace that leads nowhere. The test binary is
	// also the two programs, by their names.
	if name := filepath.Base(os.Args[0]); name != "lockbox" && name != "lockbox-runner" {
		if code, moved := ownnet.Enter(); moved {
			os.Exit(code)
		}
	}
	testscript.Main(m, map[string]func(){
		"lockbox":        func() { os.Exit(lockbox()) },
		"lockbox-runner": func() { os.Exit(lockbox()) },
	})
}

// lockbox is both programs: which one the file was started as decides, since
// lockbox-runner is started under the name lockbox.
func lockbox() int {
	self, err := os.Executable()
	if err == nil && filepath.Base(self) == "lockbox-runner" {
		return cli.Main(os.Args[1:], newEngine(), cli.Std())
	}
	return cli.Main(os.Args[1:], nil, cli.Std())
}

// Each script is one behaviour; both streams are asserted.
func TestScripts(t *testing.T) { scripts(t, "testdata/script") }

// These need root: cgroups with limits and the egress programs.
func TestScriptsAsRoot(t *testing.T) {
	needs.Root(t)
	needs.Cgroup2(t)
	scripts(t, "testdata/root")
}

func scripts(t *testing.T, dir string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		WorkdirRoot:         workRoot(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o755); err != nil {
				return err
			}
			e.Setenv("HOME", home)
			e.Setenv("LOCKBOX_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			e.Setenv("PATH", os.Getenv("PATH"))
			e.Setenv("LONG", strings.Repeat("a", 100_000))
			e.Setenv("ODD", "a\nlockbox: b")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   code,
			"repeat": repeat,
			"mode":   mode,
			"lines":  lines,
		},
	})
}

// workRoot is a folder outside /tmp: every run has a /tmp of its own, and what
// lies in the host's is not what explain and run talk about.
func workRoot(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "lockbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// code N CMD ARG… runs a program and asserts its exit code; its streams are
// those that stdout and stderr then look at.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if exit, ok := err.(*exec.ExitError); ok {
		got = strconv.Itoa(exit.ExitCode())
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() { // as a shell has it
			got = strconv.Itoa(128 + int(status.Signal()))
		}
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// repeat FILE N TEXT appends TEXT N times; \n means a newline, # the number of
// the repetition.
func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat FILE N TEXT")
	}
	n := 0
	for _, c := range args[1] {
		n = n*10 + int(c-'0')
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	ts.Check(err)
	w := bufio.NewWriter(f)
	text := strings.ReplaceAll(args[2], `\n`, "\n")
	for i := range n {
		w.WriteString(strings.ReplaceAll(text, "#", strconv.Itoa(i)))
	}
	ts.Check(w.Flush())
	ts.Check(f.Close())
}

// mode FILE PERM asserts permission bits.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode FILE PERM")
	}
	st, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := st.Mode().Perm().String(); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// lines stdout|stderr N asserts the number of lines, and that none is long.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines stdout|stderr N")
	}
	text := ts.ReadFile(args[0])
	got := strings.Count(text, "\n")
	if want := int(args[1][0] - '0'); got != want || !strings.HasSuffix(text, "\n") && text != "" {
		ts.Fatalf("%s has %d lines, want %d:\n%s", args[0], got, want, text)
	}
	for _, l := range strings.Split(text, "\n") {
		if len(l) > 800 {
			ts.Fatalf("a line of %s has %d bytes", args[0], len(l))
		}
	}
}
