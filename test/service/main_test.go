// Package service tests the runner's service as whole binaries: who is served,
// what runs of ordinary users have of it, and what is left when somebody is killed.
//
// LOCKBOX_BIN and LOCKBOX_RUNNER_BIN name the programs; without them they are
// built. Everything needs root: the service does.
package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockbox/test/apart"
	"lockbox/test/inside"
)

func TestMain(m *testing.M) {
	inside.Main()
	if len(os.Args) > 3 && os.Args[1] == askArg {
		os.Exit(ask(os.Args[2:]))
	}
	os.Exit(apart.Main(m, takeAway))
}

// host holds the programs under test, once for all tests.
var host = sync.OnceValues(func() (programs, error) {
	// Not below /tmp: that is private to a run, and writable, so rules below it mean
	// something else.
	base := "/var/lib"
	if os.Getuid() != 0 {
		base, _ = os.UserHomeDir()
	}
	dir, err := os.MkdirTemp(base, "lockbox-service-")
	if err != nil {
		return programs{}, err
	}
	p := programs{dir: dir, bin: dir + "/bin", probe: dir + "/inside/probe"}
	for _, d := range []string{dir, p.bin, dir + "/inside"} {
		os.Mkdir(d, 0o755)
		if err := os.Chmod(d, 0o755); err != nil {
			return p, err
		}
	}
	return p, errors.Join(p.put("LOCKBOX_BIN", "lockbox"), p.put("LOCKBOX_RUNNER_BIN", "lockbox-runner"), copyFile("/proc/self/exe", p.probe))
})

type programs struct{ dir, bin, probe string }

func (p programs) put(env, name string) error {
	if from := os.Getenv(env); from != "" {
		return copyFile(from, p.bin+"/"+name)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", p.bin+"/"+name, "lockbox/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", name, err, msg)
	}
	return os.Chmod(p.bin+"/"+name, 0o755)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, b, 0o755), os.Chmod(to, 0o755))
}

// takeAway removes what the tests' lockbox keeps: pinned programs and folders.
func takeAway() error {
	p, err := host()
	if err != nil {
		return err
	}
	var errs []error
	if _, err := os.Stat("/run/lockbox/bpf"); err == nil && os.Getuid() == 0 {
		cmd := exec.Command(p.bin+"/lockbox", "doctor", "--remove")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + p.dir, "LOCKBOX_HOME=" + p.dir + "/state"}
		if out, err := cmd.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("doctor --remove: %w: %s", err, out))
		}
	}
	if n := strings.Count(mountinfo(), p.dir); n > 0 {
		errs = append(errs, fmt.Errorf("%d mounts below %s", n, p.dir))
	}
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

func mountinfo() string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return string(b)
}

// caller is somebody who types lockbox.
type caller struct {
	programs
	b    *broker // nil: none
	name string
	uid  int
	home string // also the state folder's place
}

var homes struct {
	sync.Mutex
	n int
}

// as returns a caller with a home of its own.
func as(t testing.TB, b *broker, uid int) caller {
	t.Helper()
	p, err := host()
	if err != nil {
		t.Fatal(err)
	}
	homes.Lock()
	homes.n++
	c := caller{programs: p, b: b, name: "root", uid: uid, home: p.dir + "/homes/" + strconv.Itoa(homes.n)}
	homes.Unlock()
	if uid != 0 {
		c.name = "user"
	}
	must(t, os.MkdirAll(c.home, 0o755))
	must(t, os.Chmod(filepath.Dir(c.home), 0o755))
	must(t, os.Chown(c.home, uid, uid))
	return c
}

// nobody is an ordinary user.
const nobody = 65534

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// result is how a lockbox ended.
type result struct {
	code    int // 128+N for a signal
	out     string
	err     string
	took    time.Duration
	receipt *receipt
}

// receipt is what these tests read of one; the runner's own tests hold its shape.
type receipt struct {
	Exit struct {
		Code          int
		Signal, Cause string
	}
	Profile string
	Argv    []string
	MS      int64
	Usage   struct {
		CPU  int64 `json:"cpu_ms"`
		RSS  int64 `json:"max_rss_bytes"`
		Pids int64 `json:"pids_peak"`
	}
	Layers []struct {
		Layer, By, Note          string
		Asked, Applied, Verified bool
	}
	Weaker  []string
	Denials []denial
	Lost    int `json:"denials_lost"`
	Notes   []string
	Run     string

	raw map[string]any
}

type denial struct {
	Kind, Op, Target, By, Rule, Exe, Hint string
	Count                                 int
}

// find returns the denial of an operation on a target.
func (r *receipt) find(op, target string) denial {
	for _, d := range r.Denials {
		if d.Op == op && d.Target == target {
			return d
		}
	}
	return denial{}
}

// environ is what a caller has around it.
func (c caller) environ(more ...string) []string {
	socket := c.home + "/none"
	if c.b != nil {
		socket = c.b.socket
	}
	return append([]string{"PATH=/usr/bin:/bin", "HOME=" + c.home, "LOCKBOX_HOME=" + c.home + "/state", "LOCKBOX_RUNNER=" + socket}, more...)
}

// command is `lockbox run FLAGS --rx the probe's folder -- CMD`.
func (c caller) command(flags []string, cmd ...string) *exec.Cmd {
	args := append([]string{"run", "--rx", filepath.Dir(c.probe)}, flags...)
	x := exec.Command(c.bin+"/lockbox", append(append(args, "--"), cmd...)...)
	x.Env = c.environ()
	x.Dir = "/"
	x.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.uid != os.Getuid() {
		x.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}
	}
	return x
}

// in is one of the probe's commands.
func (c caller) in(args ...string) []string { return append([]string{c.probe, inside.Arg}, args...) }

// run runs a command of the probe's under flags and returns how it ended.
func (c caller) run(t testing.TB, flags []string, args ...string) result {
	t.Helper()
	return finish(t, c.command(flags, c.in(args...)...), "")
}

// told is run with a receipt.
func (c caller) told(t testing.TB, flags []string, args ...string) result {
	t.Helper()
	file := filepath.Join(c.home, "receipt")
	os.Remove(file)
	r := finish(t, c.command(append(flags, "--receipt", file), c.in(args...)...), "")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("no receipt; lockbox ended with %d: %s", r.code, r.err)
	}
	r.receipt = readReceipt(t, file)
	c.clean(t)
	return r
}

func readReceipt(t testing.TB, file string) *receipt {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	r := &receipt{}
	if err := json.Unmarshal(b, r); err != nil {
		t.Fatalf("receipt: %v\n%s", err, b)
	}
	must(t, json.Unmarshal(b, &r.raw))
	return r
}

// finish runs a command to its end.
func finish(t testing.TB, x *exec.Cmd, stdin string) result {
	t.Helper()
	var out, err bytes.Buffer
	x.Stdin, x.Stdout, x.Stderr = strings.NewReader(stdin), &out, &err
	begin := time.Now()
	e := x.Run()
	if x.ProcessState == nil {
		t.Fatal(e)
	}
	return result{code: code(x.ProcessState), out: out.String(), err: err.String(), took: time.Since(begin)}
}

func code(s *os.ProcessState) int {
	if ws := s.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// clean fails if a run left something: folders, locks, cgroups, sockets but the
// canary, processes of the probe.
func (c caller) clean(t testing.TB) {
	t.Helper()
	if left := c.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func (c caller) left() []string {
	tmp, _ := filepath.Glob(c.home + "/state/runner/tmp/*")
	slots, _ := filepath.Glob(c.home + "/state/run/slots/*")
	out := slices.Concat(tmp, slots)
	// The service ends its part after the client has gone.
	eventually(2*time.Second, func() bool { return len(apart.Runs()) == 0 })
	out = append(out, apart.Runs()...)
	for _, p := range processes(c.probe) {
		out = append(out, "process "+p)
	}
	return out
}

// processes lists those whose command line has the word.
func processes(word string) []string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if strings.Contains(line, word) {
			out = append(out, filepath.Base(filepath.Dir(f))+": "+line)
		}
	}
	return out
}

// eventually waits until f holds.
func eventually(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// want compares an exit code and parts of both streams.
func (r result) want(t testing.TB, code int, out string, errs ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	if !strings.Contains(r.out, out) {
		t.Errorf("stdout %q, want %q in it\nstderr: %s", r.out, out, r.err)
	}
	for _, e := range errs {
		if !strings.Contains(r.err, e) {
			t.Errorf("stderr %q, want %q in it", r.err, e)
		}
	}
}
