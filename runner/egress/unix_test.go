package egress

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnixPaths: only the named socket, and what is below a named directory; no other spelling, no abstract one. Each refused address
// is a live socket that the same call reaches without the restriction. K-023
func TestUnixPaths(t *testing.T) {
	if host.set.Unix() != nil {
		// Before 6.7 a restriction cannot be held, so it is refused.
		r := newCgroup(t)
		if err := host.set.Add(r.id, Policy{Unix: []string{"/run/x"}}); !errors.Is(err, ErrNoUnix) {
			t.Errorf("got %v, want %v", err, ErrNoUnix)
		}
		return
	}
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	free := startChild(t, nil, "")
	named, other, inside := filepath.Join(dir, "s"), filepath.Join(dir, "s2"), filepath.Join(below, "s")
	for _, p := range []string{named, other, inside, "@lockbox-egress-test"} {
		free.want(request{Op: "unix-listen", Path: p}, 0)
	}
	bound, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bound)
	dgram := filepath.Join(dir, "d")
	if err := unix.Bind(bound, &unix.SockaddrUnix{Name: dgram}); err != nil {
		t.Fatal(err)
	}
	run, any := startRun(t, Policy{Unix: []string{named, below + "/"}}), startRun(t, Policy{UnixAny: true})
	ring, err := host.set.Watch(run.run.id, 65536)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	if err := os.Symlink(other, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		op, path string
		want     unix.Errno
	}{
		{"unix", named, 0},
		{"unix", inside, 0},
		{"unix", other, unix.EPERM},
		{"unix", filepath.Join(dir, "link"), unix.EPERM},
		{"unix", dir + "/below/../s2", unix.EPERM},
		{"unix", dir + "/./s", unix.EPERM},
		{"unix", "/proc/self/root" + named, unix.EPERM},
		{"unix-dgram", dgram, unix.EPERM},
		{"abstract", "lockbox-egress-test", unix.EPERM},
	} {
		any.want(request{Op: l.op, Path: l.path}, 0)
		run.want(request{Op: l.op, Path: l.path}, l.want)
		if l.want == 0 {
			continue
		}
		e, err := ring.Read(time.Now().Add(time.Second))
		want := l.path
		if l.op == "abstract" {
			want = "@" + want
		}
		if err != nil || e.Path != want || e.Reason.String() != "unix path" || int(e.PID) != run.cmd.Process.Pid {
			t.Errorf("event %+v, %v; want path %q", e, err, want)
		}
	}
	if c := counts(t, run.run.id); c["connect_unix/unix path"] != 6 || c["sendmsg_unix/unix path"] != 1 {
		t.Errorf("counters: %v", c)
	}
}
