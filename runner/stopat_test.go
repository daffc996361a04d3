package runner_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockbox/profiles"
	"lockbox/runner"
)

// kinds are the plans whose starts are stopped at each step.
var kinds = map[string]func() profiles.Flags{
	"plain":  func() profiles.Flags { return profiles.Flags{} },
	"slot":   func() profiles.Flags { return profiles.Flags{Limits: profiles.Limits{Pids: 64}} },
	"egress": func() profiles.Flags { return profiles.Flags{Net: direct(), Allow: []string{"192.0.2.1:80"}} },
}

// stopAt ends a start before each of its steps in turn, and looks for what it
// left: no process, folder, lock, cgroup, map entry, mount, descriptor.
func stopAt(kind string, e runner.Engine, weaker ...string) (steps int, err error) {
	var before counts
	stride := 1
	if os.Getenv("LOCKBOX_VM") != "" { // emulated: the host's tests take every step
		stride = 7
	}
	for step := 1; step < 5000; step += stride {
		s, err := spec(kinds[kind](), "exit", "3")
		if err != nil {
			return step, err
		}
		s.StopAt, s.Weaker = step, weaker
		receipt, err := supervise(s, e)
		if left := remains(); left != nil {
			return step, fmt.Errorf("step %d: left behind: %w", step, left)
		}
		if receipt != nil {
			if err == nil && receipt.Exit.Code != 3 {
				err = fmt.Errorf("the whole start: exit %+v", receipt.Exit)
			}
			return step, err
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return step, err // not a start at all
		}
		if err == nil {
			return step, fmt.Errorf("step %d: neither receipt nor error", step)
		}
		now := measure()
		if step <= 8 {
			before = now // the engine, the poller and the first mount are there
			continue
		}
		if now.fds > before.fds || now.mounts > before.mounts {
			return step, fmt.Errorf("step %d: %+v, before %+v", step, now, before)
		}
	}
	return 0, fmt.Errorf("more steps than a plan can have")
}

// A start that dies at any step leaves nothing. K-007, K-018, K-021
func TestStopAtEachStep(t *testing.T) {
	area()
	names := []string{"plain"}
	if os.Getuid() == 0 {
		names = []string{"plain", "slot", "egress"}
	}
	for _, kind := range names {
		t.Run(kind, func(t *testing.T) {
			var e runner.Engine
			if kind != "plain" {
				e = newEngine()
			}
			var weaker []string
			if kind == "egress" && older(t) {
				weaker = []string{"unix"}
			}
			n, err := stopAt(kind, e, weaker...)
			must(t, err)
			if n < 100 {
				t.Errorf("only %d steps", n)
			}
			t.Logf("%d steps", n-1)
		})
	}
	if os.Getuid() != 0 {
		return
	}
	t.Run("user", func(t *testing.T) {
		cmd := exec.Command(area()+"/inside/probe", "@stop-at", "plain")
		home := area() + "/user"
		must(t, os.Mkdir(home, 0o755))
		must(t, os.Chown(home, 65534, 65534))
		cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + home, "HOME=" + home}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), " steps") {
			t.Errorf("%v: %s", err, out)
		}
		t.Logf("%s", out)
	})
}

func stopAtMain(kind string) int {
	defer os.RemoveAll(area())
	n, err := stopAt(kind, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(n-1, "steps")
	return 0
}

// A thousand runs in a row: nothing grows. K-007
func TestThousandRuns(t *testing.T) {
	area()
	e := newEngine()
	plan := []struct {
		kind string
		n    int
	}{{"plain", 850}, {"slot", 100}, {"egress", 50}}
	if os.Getuid() != 0 {
		plan = plan[:1]
	}
	if os.Getenv("LOCKBOX_VM") != "" { // emulated: a tenth shows as much
		for i := range plan {
			plan[i].n /= 10
		}
	}
	run := func(kind string) {
		s, err := spec(kinds[kind](), "exit", "3")
		must(t, err)
		if kind == "egress" && older(t) {
			s.Weaker = []string{"unix"}
		}
		s.Path, s.Argv = "/bin/true", []string{"true"}
		if real, err := os.Readlink("/bin"); err == nil && !strings.HasPrefix(real, "/") {
			s.Path = "/" + real + "/true"
		}
		r, err := supervise(s, e)
		must(t, err)
		if r.Exit.Code != 0 || r.Exit.Cause != "" {
			t.Fatalf("%+v", r.Exit)
		}
	}
	for _, p := range slices.Concat(plan, plan) { // once over before measuring
		for range min(15, p.n) {
			run(p.kind)
		}
	}
	before := settled()
	for _, p := range plan {
		for range p.n {
			run(p.kind)
		}
	}
	after := settled()
	if after.fds > before.fds || after.threads > before.threads+2 || after.mounts != before.mounts || after.rss > before.rss+8<<10 {
		t.Errorf("before %+v, after %+v (rss in KiB)", before, after)
	}
	t.Logf("before %+v, after %+v", before, after)
	must(t, remains())
}

// settled measures once memory that is not used is given back.
func settled() counts {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	return measure()
}
