package egress

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bpf "lockbox/bpf/egress"

	"golang.org/x/sys/unix"
)

// TestNoEntry: a cgroup without an entry, and the parent itself, can make no socket; that is counted. K-021
func TestNoEntry(t *testing.T) {
	before := counts(t, 0)["socket/no entry"]
	for _, dir := range []string{newCgroup(t).dir, host.parent} {
		c := startChild(t, nil, dir)
		c.want(request{Op: "socket"}, unix.EPERM)
		c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, unix.EPERM)
		c.want(request{Op: "udp", Addr: netip.AddrPortFrom(open6, host.net.udpPort)}, unix.EPERM)
		c.want(request{Op: "unix", Path: "/nowhere"}, ifUnix(unix.EPERM, unix.ENOENT))
	}
	startChild(t, nil, "").want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, 0)
	if now := counts(t, 0)["socket/no entry"]; now != before+6 {
		t.Errorf("%d refusals counted, want 6", now-before)
	}
}

func ifUnix(yes, no unix.Errno) unix.Errno {
	if host.set.Unix() == nil {
		return yes
	}
	return no
}

// TestNested: cgroups inside the run's keep its policy and count for it, wherever the process came from. K-020
func TestNested(t *testing.T) {
	run := startRun(t, openPolicy())
	deep := filepath.Join(run.run.dir, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for d := deep; d != run.run.dir; d = filepath.Dir(d) {
			if err := removeCgroup(d); err != nil {
				t.Error(err)
			}
		}
	})
	born := startChild(t, nil, deep)
	run.want(request{Op: "move", Path: filepath.Dir(deep)}, 0)
	for _, c := range []*child{born, run} {
		c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, 0)
		c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(shut4, host.net.tcpPort)}, unix.EPERM)
		c.want(request{Op: "ping", Addr: netip.AddrPortFrom(open4, 0)}, unix.EPERM)
	}
	if c := counts(t, run.run.id); c["connect4/no rule"] != 2 || c["socket/socket type"] != 2 {
		t.Errorf("counters: %v", c)
	}
	born.stop()
	run.stop()
}

// TestRemoveCuts: taking the entry, or its rules, ends a live connection. K-021
func TestRemoveCuts(t *testing.T) {
	for _, how := range []string{"Remove", "Retire"} {
		t.Run(how, func(t *testing.T) {
			host.net.drain()
			run := startRun(t, openPolicy())
			fd := run.want(request{Op: "tcp-keep", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, 0).N
			far := <-host.net.conns
			defer far.Close()
			buf := make([]byte, 1024)
			run.want(request{Op: "write", FD: fd, N: 100}, 0)
			far.SetReadDeadline(time.Now().Add(2 * time.Second))
			if n, err := far.Read(buf); n != 100 {
				t.Fatalf("control: read %d bytes, %v", n, err)
			}
			id := run.run.id
			before := counts(t, 0)["egress/no entry"]
			cut := func() error { id = 0; return host.set.Remove(run.run.id) }
			if how == "Retire" {
				cut = func() error { return host.set.Retire(run.run.id) }
			}
			if err := cut(); err != nil {
				t.Fatal(err)
			}
			run.want(request{Op: "write", FD: fd, N: 100}, 0) // into the socket's buffer
			far.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			if n, err := far.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %s: read %d bytes, %v", how, n, err)
			}
			if c := counts(t, id); c["egress/no entry"] == before && c["egress/no rule"] == 0 {
				t.Errorf("counters: %v", c)
			}
			want := unix.Errno(unix.EPERM)
			run.want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, want)
		})
	}
}

// TestAddRefuses: what cannot be held is an error, and leaves nothing.
func TestAddRefuses(t *testing.T) {
	r := newCgroup(t)
	for _, p := range []Policy{
		{Listen: make([]uint16, 33), UnixAny: true},
		{Listen: []uint16{0}, UnixAny: true},
		{Unix: []string{"relative"}},
		{Unix: []string{"/a/../b"}},
		{Unix: []string{"/a//b"}},
		{Unix: []string{"/a\x00b"}},
		{Unix: []string{"/" + strings.Repeat("a", 107)}},
		{Rules: []Rule{{Prefix: netip.MustParsePrefix("1.0.0.0/8"), Proto: TCP}, {}}, UnixAny: true},
	} {
		if err := host.set.Add(r.id, p); err == nil {
			t.Errorf("%+v was taken", p)
		}
		if runs, err := host.set.Runs(); err != nil || len(runs) != 0 {
			t.Errorf("%+v left %v, %v", p, runs, err)
		}
	}
	if err := host.set.Add(r.id, Policy{UnixAny: true}); err != nil {
		t.Fatal(err)
	}
	if err := host.set.Add(r.id, Policy{UnixAny: true}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second entry: %v", err)
	}
	if runs, _ := host.set.Runs(); len(runs) != 1 {
		t.Errorf("the failed second entry took the first away: %v", runs)
	}
}

// TestSweep: entries outlive their cgroups only until the next sweep.
func TestSweep(t *testing.T) {
	live, dead := newCgroup(t), newCgroup(t)
	for _, r := range []*testRun{live, dead} {
		if err := host.set.Add(r.id, Policy{Rules: openPolicy().Rules, UnixAny: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(dead.dir); err != nil {
		t.Fatal(err)
	}
	swept, err := host.set.Sweep()
	if err != nil || len(swept) != 1 || swept[0] != dead.id {
		t.Errorf("swept %v, %v; want %d", swept, err, dead.id)
	}
	if runs, _ := host.set.Runs(); len(runs) != 1 || runs[0] != live.id {
		t.Errorf("left %v, want %d", runs, live.id)
	}
}

// TestManyRuns: entries come and go and nothing grows.
func TestManyRuns(t *testing.T) {
	r := newCgroup(t)
	before := openFDs()
	p := Policy{Rules: openPolicy().Rules, Listen: []uint16{80}, Unix: []string{"/run/x"}, UnixAny: true}
	for range 300 {
		if err := host.set.Add(r.id, p); err != nil {
			t.Fatal(err)
		}
		if err := host.set.Remove(r.id); err != nil {
			t.Fatal(err)
		}
	}
	if now := openFDs(); now != before {
		t.Errorf("%d descriptors, now %d", before, now)
	}
	if runs, err := host.set.Runs(); err != nil || len(runs) != 0 {
		t.Errorf("left %v, %v", runs, err)
	}
}

// own is a parent of its own, three levels down, with a bpffs of its own.
func own(t *testing.T) (parent, dir string) {
	t.Helper()
	root := filepath.Dir(host.parent)
	top := filepath.Join(root, testPrefix+"x"+filepath.Base(t.TempDir())+strings.TrimPrefix(filepath.Base(host.parent), testPrefix))
	parent = filepath.Join(top, "b", "c")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "bpf")
	t.Cleanup(func() {
		if err := RemovePinned(parent, dir); err != nil {
			t.Error(err)
		}
		for d := parent; d != root; d = filepath.Dir(d) {
			if err := removeCgroup(d); err != nil {
				t.Error(err)
			}
		}
	})
	return parent, dir
}

func mkdir(t *testing.T, dir string) uint64 {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	id, err := cgroupID(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPinned: the programs hold when their loader is gone, are found again, and end with RemovePinned, which refuses while a
// process lives below the parent.
func TestPinned(t *testing.T) {
	parent, dir := own(t)
	loader := startChild(t, nil, "")
	loader.want(request{Op: "open", Path: parent + " " + dir}, 0)
	loader.stop()
	run := filepath.Join(parent, "run")
	id := mkdir(t, run)
	c := startChild(t, nil, run)
	c.want(request{Op: "socket"}, unix.EPERM)
	set, err := Open(parent, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := set.Add(id, Policy{Rules: openPolicy().Rules, UnixAny: true}); err != nil {
		t.Fatal(err)
	}
	c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, 0)
	c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(shut4, host.net.tcpPort)}, unix.EPERM)
	if err := RemovePinned(parent, dir); err == nil {
		t.Error("the programs were removed under a live run")
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("bpffs: %v, %v", fi.Mode(), err)
	}
	c.stop()
	if err := removeCgroup(run); err != nil {
		t.Fatal(err)
	}
	set.Close()
	if err := RemovePinned(parent, dir); err != nil {
		t.Fatal(err)
	}
	if n, err := bpf.Attached(parent); err != nil || n != 0 {
		t.Errorf("%d programs attached, %v", n, err)
	}
	if err := RemovePinned(parent, dir); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
}

// TestOtherBuild: a set that this build cannot use is replaced, but not under a live run; one that was never proved is thrown away.
func TestOtherBuild(t *testing.T) {
	parent, dir := own(t)
	build := filepath.Join(dir, bpf.Build(builtin()))
	reopen := func() error {
		set, err := Open(parent, dir)
		if err == nil {
			err = set.Close()
		}
		return err
	}
	set, err := Open(parent, dir)
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(parent, "run")
	id := mkdir(t, run)
	if err := set.Add(id, Policy{UnixAny: true}); err != nil {
		t.Fatal(err)
	}
	set.Close()
	if err := os.Rename(build, filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if err := reopen(); err == nil || !strings.Contains(err.Error(), "another build") {
		t.Errorf("a live run's set was replaced: %v", err)
	}
	c := startChild(t, nil, run)
	c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(open4, host.net.tcpPort)}, unix.EPERM)
	c.stop()
	if err := removeCgroup(run); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", unfinished + "other"} { // first: the entry is stale now
		if name != "" {
			if err := os.Rename(build, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := reopen(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if n, err := bpf.Attached(parent); err != nil || n != 1 {
			t.Errorf("%q: %d programs attached, %v", name, n, err)
		}
		if old, err := oldSets(dir); err != nil || len(old) != 1 {
			t.Errorf("%q: sets %v, %v", name, old, err)
		}
	}
	// A pin is missing: not this build's set either.
	if err := os.Remove(filepath.Join(build, "egress_packet")); err != nil {
		t.Fatal(err)
	}
	if err := reopen(); err != nil {
		t.Error(err)
	}
	if n, err := bpf.Attached(parent); err != nil || n != 1 {
		t.Errorf("%d programs attached, %v", n, err)
	}
	// The parent was removed and made again.
	if err := errors.Join(removeCgroup(parent), os.Mkdir(parent, 0o755), reopen()); err != nil {
		t.Error(err)
	}
	if n, err := bpf.Attached(parent); err != nil || n != 1 {
		t.Errorf("%d programs attached, %v", n, err)
	}
}

// TestProbeSees: each part that is missing is noticed by the live probe, and the whole is not.
func TestProbeSees(t *testing.T) {
	parent, _ := own(t)
	scratch := filepath.Join(parent, "scratch")
	id := mkdir(t, scratch)
	t.Cleanup(func() { removeCgroup(scratch) })
	first, err := startProbe(scratch)
	if err != nil {
		t.Fatal(err)
	}
	defer first.stop()
	depth, err := depthOf(scratch, id, first)
	if err != nil || depth < 4 {
		t.Fatalf("depth %d, %v", depth, err)
	}
	for _, l := range []struct {
		name  string
		level int
		skip  string
		ok    bool
	}{
		{"all", depth, "", true},
		{"wrong level", depth - 1, "", false},
		{"no egress", depth, "egress_packet", false},
		{"no socket", depth, "egress_socket", false},
		{"no connect4", depth, "egress_connect4", false},
		{"no sendmsg4", depth, "egress_sendmsg4", false},
		{"no sendmsg6", depth, "egress_sendmsg6", false},
		{"no bind4", depth, "egress_bind4", false},
		{"no bind6", depth, "egress_bind6", false},
		{"no connect6", depth, "egress_connect6", false},
		{"none", depth, "*", false},
	} {
		t.Run(l.name, func(t *testing.T) {
			p, err := startProbe(scratch)
			if err != nil {
				t.Fatal(err)
			}
			defer p.stop()
			set, err := bpf.Load(l.level, builtin())
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			if l.skip != "*" {
				if err := set.Attach(parent); err != nil {
					t.Fatal(err)
				}
			}
			if l.skip != "" && l.skip != "*" {
				if err := set.Detach(l.skip); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.check(set, id); (err == nil) != l.ok {
				t.Errorf("the probe says %v", err)
			} else {
				t.Log(err)
			}
		})
	}
}

// TestSecondSet: programs that are not ours on the parent are an error, since both would have to agree.
func TestSecondSet(t *testing.T) {
	parent, dir := own(t)
	set, err := Open(parent, dir)
	if err != nil {
		t.Fatal(err)
	}
	set.Close()
	other, err := bpf.Load(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Attach(parent); err != nil {
		t.Fatal(err)
	}
	if set, err := Open(parent, dir); err == nil {
		set.Close()
		t.Error("a second set was not noticed")
	}
}

// TestOpenRefuses: one line for each bad place.
func TestOpenRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bpf")
	if _, err := Open(t.TempDir(), dir); err == nil || !strings.Contains(err.Error(), "not a cgroup version 2") {
		t.Errorf("not a cgroup: %v", err)
	}
	if _, err := Open(filepath.Join(host.parent, "absent"), dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no cgroup: %v", err)
	}
}
