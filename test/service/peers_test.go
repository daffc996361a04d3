package service

import (
	"path/filepath"
	"strings"
	"testing"
)

// A process inside a run is refused, whatever its uid, its tier and its depth,
// even where its profile opens the socket's path for it. Without that it does not
// see the socket. K-001, K-019
func TestPeersInsideRuns(t *testing.T) {
	b := serve(t)
	root, user := as(t, b, 0), as(t, b, nobody)
	direct := []string{"--net", "direct"}
	rows := []struct {
		name  string
		c     caller
		flags []string
	}{
		{"root in place", root, nil},
		{"root supervised", root, []string{"--receipt", "/dev/null"}},
		{"root with limits", root, []string{"--memory", "1GiB", "--pids", "100"}},
		{"root direct", root, direct},
		{"root with a tty", root, []string{"--tty"}},
		{"user", user, nil},
		{"user supervised", user, []string{"--receipt", "/dev/null"}},
		{"user with limits", user, []string{"--memory", "1GiB", "--pids", "100"}},
		{"user direct", user, direct},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			open := append([]string{"--unix", b.socket}, row.flags...)
			for _, how := range [][]string{{"hello"}, {"child", "child", "ps"}} {
				r := finish(t, row.c.command(open, append([]string{b.probe, askArg, b.socket}, how...)...), "")
				r.want(t, 0, "refused: the runner refused: ")
				if !strings.Contains(r.out, "confined") {
					t.Errorf("%v: %s", how, r.out)
				}
			}
			r := finish(t, row.c.command(row.flags, b.probe, askArg, b.socket, "hello"), "")
			if r.code != 0 || !strings.HasPrefix(r.out, "dial: ") {
				t.Errorf("without --unix: %d %q %s", r.code, r.out, r.err)
			}
			row.c.clean(t)
		})
	}
	// The control: the same program, unconfined.
	for _, uid := range []int{0, nobody, 2001} {
		if got := b.asked(t, uid, "hello"); got != "served" {
			t.Errorf("uid %d: %s", uid, got)
		}
	}
	if !strings.Contains(b.log.String(), "refused a caller") {
		t.Errorf("not told:\n%s", b.log)
	}
}

// A lockbox inside a run does not get a cgroup from the service. Without it, it
// has what the run leaves it: nothing wider. K-013
func TestNested(t *testing.T) {
	b := serve(t)
	for _, uid := range []int{0, nobody} {
		c := as(t, b, uid)
		nested := []string{b.bin + "/lockbox", "run", "--rx", filepath.Dir(b.probe), "--pids", "50", "--", "/bin/true"}
		r := finish(t, c.command([]string{"--rx", b.bin, "--unix", b.socket, "--pids", "100", "--env", "LOCKBOX_RUNNER=" + b.socket}, nested...), "")
		if r.code == 0 || !strings.Contains(r.err, "lockbox: ") {
			t.Errorf("%s: %+v", c.name, r)
		}
		c.clean(t)
	}
}
