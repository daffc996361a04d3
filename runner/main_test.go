package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	bpf "lockbox/bpf/egress"
	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/engine"
	"lockbox/sandbox"
	"lockbox/test/apart"
	"lockbox/test/inside"
)

func TestMain(m *testing.M) {
	inside.Main()
	if len(os.Args) > 2 && os.Args[1] == "@stop-at" { // as another user
		os.Exit(stopAtMain(os.Args[2]))
	}
	os.Exit(apart.Main(m, takeAway))
}

// area is where the tests of this process have their state.
var area = sync.OnceValue(func() string {
	base := "/var/lib"
	if os.Getuid() != 0 {
		base = os.TempDir()
	}
	dir, err := os.MkdirTemp(base, "lockbox-runner-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/inside", 0o755))
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile("/proc/self/exe")
	}
	if err == nil {
		err = errors.Join(os.WriteFile(dir+"/inside/probe", b, 0o755), os.Setenv("LOCKBOX_HOME", dir+"/state"))
	}
	if err != nil {
		panic(err)
	}
	return dir
})

// takeAway removes the pinned programs and fails on what runs left.
func takeAway() error {
	area()
	errs := []error{remains()}
	if os.Geteuid() == 0 {
		_, err := newEngine().RemovePinned()
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(area()))...)
}

func newEngine() *engine.Engine { area(); return engine.New(runner.RunDir()) }

// remains is an error if a run left a folder, a lock, a cgroup, a map entry or a
// child.
func remains() error {
	var errs []error
	for _, pattern := range []string{runner.Home() + "/runner/tmp/*", runner.RunDir() + "/slots/*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			errs = append(errs, fmt.Errorf("files %v", left))
		}
	}
	if r := apart.Runs(); os.Geteuid() == 0 && len(r) > 0 {
		errs = append(errs, fmt.Errorf("cgroups %v", r))
	}
	if ids := entries(); len(ids) > 0 {
		errs = append(errs, fmt.Errorf("map entries %v", ids))
	}
	// Every child was waited for.
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		errs = append(errs, fmt.Errorf("a child: %d %v", pid, err))
	}
	return errors.Join(errs...)
}

// entries are the cgroups with an entry in the pinned programs.
func entries() []uint64 {
	var out []uint64
	dirs, _ := filepath.Glob("/run/lockbox/bpf/*")
	for _, d := range dirs {
		if ids, err := bpf.PinnedRuns(d); err == nil {
			out = append(out, ids...)
		}
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// spec is a run of one of the probe's commands under base and some flags.
func spec(f profiles.Flags, args ...string) (runner.Spec, error) {
	dir := area()
	home := dir + "/home"
	ex := profiles.Expand{
		Home: home, UID: os.Getuid(), StateDirs: []string{runner.Home(), runner.RunDir()},
		XDG: map[string]string{"XDG_CONFIG_HOME": home + "/.config", "XDG_CACHE_HOME": home + "/.cache", "XDG_DATA_HOME": home + "/.local/share", "XDG_STATE_HOME": home + "/.local/state", "XDG_RUNTIME_DIR": dir + "/xdg"},
	}
	lookup := func(name string) (*profiles.Document, error) {
		d, ok := profiles.Preset(name)
		if !ok {
			return nil, fmt.Errorf("no preset %q", name)
		}
		return d, nil
	}
	p, err := profiles.Load([]string{"base"}, lookup, ex)
	if err != nil {
		return runner.Spec{}, err
	}
	f.RX = append(f.RX, dir+"/inside")
	if p, err = p.WithFlags(f); err != nil {
		return runner.Spec{}, err
	}
	for _, d := range []string{runner.Home(), runner.RunDir()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return runner.Spec{}, err
		}
	}
	sealed, err := sandbox.Seal(p, ex, profiles.Terminal, sandbox.OSFS{})
	if err != nil {
		return runner.Spec{}, err
	}
	null, err := devNull()
	if err != nil {
		return runner.Spec{}, err
	}
	probe := dir + "/inside/probe"
	return runner.Spec{Sealed: sealed, Argv: append([]string{probe, inside.Arg}, args...), Path: probe, Dir: "/", Env: []string{"PATH=/usr/bin"}, Receipt: true, Stdin: null, Stdout: null, Stderr: null}, nil
}

var devNull = sync.OnceValues(func() (*os.File, error) { return os.OpenFile("/dev/null", os.O_RDWR, 0) })

// supervise runs it to its end.
func supervise(s runner.Spec, e runner.Engine) (*runner.Receipt, error) {
	r, err := runner.Prepare(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.Supervise(ctx, e)
}

// older reports whether this kernel cannot close abstract sockets in a run that
// keeps the host's network namespace: no Landlock scopes (6.12), no connect_unix
// programs (6.7). Such a run needs --weaker unix.
func older(t testing.TB) bool {
	h, err := sandbox.Probe()
	must(t, err)
	return h.Major < 6 || h.Major == 6 && h.Minor < 7
}

func direct() *profiles.Mode { m := profiles.NetDirect; return &m }

// counts are what must stay flat.
type counts struct{ fds, threads, mounts, rss int }

func measure() counts {
	var c counts
	if d, err := os.ReadDir("/proc/self/fd"); err == nil {
		c.fds = len(d)
	}
	b, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(b), "\n") {
		fmt.Sscanf(line, "Threads: %d", &c.threads)
		fmt.Sscanf(line, "RssAnon: %d", &c.rss) // pages of the program itself come as they are first used
	}
	b, _ = os.ReadFile("/proc/self/mountinfo")
	c.mounts = strings.Count(string(b), "\n")
	return c
}
