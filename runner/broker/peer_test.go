package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/runner/broker/client"
	"lockbox/test/needs"
)

// Who is confined in any of the ways in which a run is, is refused, root or not;
// who is not is served. (Whole runs of every kind: test/service.) K-001, K-019
func TestPeer(t *testing.T) {
	needs.Root(t)
	needs.Cgroup2(t)
	s := serving(t)
	hello := func(uid uint32, how ...string) *exec.Cmd {
		c := peer(append(how, "hello")[0], append(append(how, "hello")[1:], s.socket)...)
		return as(c, uid)
	}
	in := func(flags uintptr) func(uid uint32) *exec.Cmd {
		return func(uid uint32) *exec.Cmd {
			c := hello(0)
			c.SysProcAttr.Credential = nil
			c.SysProcAttr.Cloneflags = flags
			if flags&unix.CLONE_NEWUSER != 0 {
				id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(uid), Size: 1}}
				c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = id, id
			}
			return c
		}
	}
	group := runsCgroup(t)
	rows := []struct {
		name string
		make func(uid uint32) *exec.Cmd
		uids []uint32
		want string
	}{
		{"plain", func(uid uint32) *exec.Cmd { return hello(uid) }, []uint32{0, 65534, 2001}, "served"},
		{"no_new_privs", func(uid uint32) *exec.Cmd { return hello(uid, "no-new-privs") }, []uint32{0, 2001}, "confined"},
		{"seccomp", func(uid uint32) *exec.Cmd { return hello(uid, "seccomp") }, []uint32{0}, "confined"},
		{"seccomp and no_new_privs", func(uid uint32) *exec.Cmd { return hello(uid, "no-new-privs", "seccomp") }, []uint32{0, 2001}, "confined"},
		{"user namespace", in(unix.CLONE_NEWUSER), []uint32{0}, "another user namespace"},
		{"mount namespace", in(unix.CLONE_NEWNS), []uint32{0}, "another mnt namespace"},
		{"pid namespace", in(unix.CLONE_NEWPID), []uint32{0}, "another pid namespace"},
		{"network namespace", in(unix.CLONE_NEWNET), []uint32{0}, "served"}, // a person's own; no mark of a run
		{"cgroup of a run", func(uid uint32) *exec.Cmd {
			c := hello(uid)
			c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, group
			return c
		}, []uint32{0, 65534}, "cgroup of a run"},
	}
	for _, row := range rows {
		for _, uid := range row.uids {
			t.Run(fmt.Sprintf("%s/%d", row.name, uid), func(t *testing.T) {
				out, err := row.make(uid).CombinedOutput()
				if text := strings.TrimSpace(string(out)); err != nil || !strings.Contains(text, row.want) || row.want == "served" && text != row.want {
					t.Errorf("%q, %v; want %q", text, err, row.want)
				}
			})
		}
	}
}

// runsCgroup is a cgroup as a run has it, in the hierarchy that every host has.
func runsCgroup(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		head, tail, _ := strings.Cut(line, " - ")
		f := strings.Fields(head)
		if !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		dir := filepath.Join(f[4], "lockbox-runs", "peer")
		must(t, os.MkdirAll(dir, 0o755))
		t.Cleanup(func() {
			eventually(5*time.Second, func() bool { return unix.Rmdir(dir) == nil })
			unix.Rmdir(filepath.Dir(dir))
		})
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	t.Fatal("no cgroup2 mount")
	return -1
}

// accepted is one connection of a role's, and how the role ended.
func accepted(t *testing.T, wait bool) (*net.UnixConn, *exec.Cmd) {
	t.Helper()
	path := filepath.Join(folder(t), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	defer l.Close()
	must(t, os.Chmod(path, 0o666))
	x := peer("write", path)
	must(t, x.Start())
	if wait {
		x.Wait()
	} else { // ended, and a zombie
		fd, err := unix.PidfdOpen(x.Process.Pid, 0)
		must(t, err)
		eventually(5*time.Second, func() bool { return alive(fd) != nil })
		unix.Close(fd)
	}
	c, err := l.AcceptUnix()
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c, x
}

// Who writes and ends leaves data that can be read; it is nobody's word. K-001
func TestWriteAndEnd(t *testing.T) {
	needs.Root(t)
	for _, reaped := range []bool{true, false} {
		c, x := accepted(t, reaped)
		if p, err := identify(c); err == nil {
			p.Close()
			t.Errorf("reaped %v: served as %+v", reaped, p)
		}
		x.Wait()
		b := make([]byte, 64) // the control: the data is there
		if n, err := c.Read(b); n == 0 || !strings.Contains(string(b[:n]), "hello") {
			t.Errorf("read %d, %v", n, err)
		}
	}
}

// Many that write and end at once, beside one that stays: what is served is
// served to the one that stays.
func TestWriteAndEndAtOnce(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	var all []*exec.Cmd
	for range 20 {
		x := peer("no-new-privs", "write", s.socket)
		must(t, x.Start())
		all = append(all, x)
	}
	c, err := client.Dial(s.socket)
	must(t, err)
	defer c.Close()
	must(t, c.Hello())
	for _, x := range all {
		x.Wait()
	}
	if !eventually(5*time.Second, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.events["refused"] == 20 }) {
		t.Errorf("refused: %v\n%s", s.events, s.log)
	}
	must(t, c.Hello())
}

// Who cannot be looked at is refused. K-019
func TestUnreadable(t *testing.T) {
	needs.Root(t)
	x := peer("blind", filepath.Join(folder(t), "sock"))
	x.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	if out, err := x.CombinedOutput(); err != nil || string(out) != "served\nno such file or directory\n" {
		t.Errorf("with /proc, and without: %q, %v", out, err)
	}
	if err := unconfined(&Peer{UID: 0, PID: 1 << 29}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nobody's number: %v", err)
	}
	if err := unconfined(&Peer{UID: 5, PID: os.Getpid()}); err == nil {
		t.Error("a process of another uid was taken for the peer")
	}
}

// K-001
func TestOutside(t *testing.T) {
	rows := []struct {
		cgroups string
		ok      bool
	}{
		{"0::/\n", true},
		{"0::/user.slice/user-1000.slice/session-1.scope\n", true},
		{"4:memory:/a\n0::/b\n", true},
		{"0::/lockbox-runs-of-mine/x\n", true}, // the neighbour
		{"0::/my-lockbox-runs/x\n", true},
		{"0::/lockbox-runs\n", false},
		{"0::/lockbox-runs/01J8\n", false},
		{"0::/lockbox-runs/01J8/nested/deeper\n", false},
		{"0::/user.slice/lockbox-runs/01J8\n", false},
		{"0::/../../lockbox-runs/01J8\n", false}, // seen from another cgroup namespace
		{"0::/lockbox-runs/01J8 (deleted)\n", false},
		{"4:memory:/lockbox-runs/01J8\n0::/\n", false},
		{"1:name=systemd:/lockbox-runs/x\n0::/\n", false},
		{"4:memory:/a\n", false}, // no v2: nobody could tell
		{"", false},
		{"nonsense", false},
		{"0::/\n\n0::/", false},
	}
	for _, row := range rows {
		if err := outside(row.cgroups); (err == nil) != row.ok {
			t.Errorf("%q: %v", row.cgroups, err)
		}
	}
}

// Groups come from the peer's own list.
func TestOperatorOfAGroup(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	for _, row := range []struct {
		peer Peer
		want bool
	}{
		{Peer{UID: 5, GID: operators}, true}, {Peer{UID: 5, GID: 5, Groups: []int{1, operators}}, true},
		{Peer{UID: operators, GID: 5}, false}, {Peer{}, false},
	} {
		if s.isOperator(&row.peer) != row.want {
			t.Errorf("%+v", row.peer)
		}
	}
	s.cfg.Operators = -1
	if s.isOperator(&Peer{GID: -1, Groups: []int{-1}}) {
		t.Error("an operator where there are none")
	}
	// Read from a real process.
	x := as(peer("sleep"), 2001, 7, operators)
	child(t, x)
	p := &Peer{UID: 2001, PID: x.Process.Pid}
	must(t, unconfined(p))
	if len(p.Groups) != 2 || p.Groups[1] != operators {
		t.Errorf("groups %v", p.Groups)
	}
}

// blind: how one judges oneself, with /proc and without.
func blind(path string) (with, without error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err, nil
	}
	x, err := client.Dial(path)
	if err != nil {
		return err, nil
	}
	defer x.Close()
	c, err := l.AcceptUnix()
	if err != nil {
		return err, nil
	}
	p, with := identify(c)
	if with == nil {
		p.Close()
	}
	err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", "/proc", "tmpfs", 0, "")
	}
	if err != nil {
		return err, nil
	}
	_, without = identify(c)
	if errors.Is(without, os.ErrNotExist) {
		without = unix.ENOENT
	}
	return with, without
}
