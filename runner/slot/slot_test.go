//go:build linux

package slot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockbox/test/needs"

	"golang.org/x/sys/unix"
)

func newSlot(t *testing.T, tree *Tree, l Limits) *Slot {
	t.Helper()
	s, err := tree.New("t1", l)
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, hintOf(err))
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// 64 MiB are enough for 30 and not for 200: the kernel ends the run, and the counters say why (K-007).
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		name string
		mib  string
		dead bool
	}{{"control", "30", false}, {"over", "200", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSlot(t, scratch(t), Limits{MemoryBytes: 64 << 20})
			ch := start(t, s, nil, "bomb", c.mib)
			if !c.dead {
				ch.lines(t)
			} else if err := ch.Wait(); ch.ProcessState == nil || ch.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the bomb ended with %v", err)
			}
			cause, err := s.Cause()
			if want := map[bool]string{true: "memory"}[c.dead]; err != nil || cause != want {
				t.Errorf("cause %q, %v; want %q", cause, err, want)
			}
			u, err := s.Usage()
			if err != nil || u.MemoryPeak < 30<<20 || u.MemoryPeak > 65<<20 {
				t.Errorf("usage %+v, %v", u, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if cause2, err := s.Cause(); err != nil || cause2 != cause {
				t.Errorf("cause after Close %q, %v", cause2, err)
			}
		})
	}
}

// The cause is told although the main program outlives the child that was killed (v1), or is killed with it (v2, oom.group).
func TestMemoryLimitOfChild(t *testing.T) {
	tree := scratch(t)
	s := newSlot(t, tree, Limits{MemoryBytes: 64 << 20})
	ch := start(t, s, nil, "kidbomb", "200")
	if _, v1 := tree.v1["memory"]; v1 {
		if got := ch.lines(t); len(got) != 1 || got[0] != "kid: signal: killed" {
			t.Errorf("v1: %q", got)
		}
	} else if ch.Wait(); ch.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("v2: the whole run must go, main program ended with %v", ch.ProcessState)
	}
	if cause, err := s.Cause(); err != nil || cause != "memory" {
		t.Errorf("cause %q, %v", cause, err)
	}
}

// The pids limit refuses a fork with EAGAIN.
func TestPidsLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		want  string
		cause string
	}{{"control", 400, "no fork refused", ""}, {"over", 60, fmt.Sprintf("errno %d", int(unix.EAGAIN)), "pids"}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSlot(t, scratch(t), Limits{Pids: c.limit})
			ch := start(t, s, nil, "forks", "100")
			if got := strings.Join(ch.lines(t), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("child said %q, want %q", got, c.want)
			}
			if cause, err := s.Cause(); err != nil || cause != c.cause {
				t.Errorf("cause %q, %v; want %q", cause, err, c.cause)
			}
			u, err := s.Usage()
			if err != nil || u.PidsPeak != -1 && (u.PidsPeak < 50 || u.PidsPeak > c.limit) {
				t.Errorf("usage %+v, %v", u, err)
			}
			if exists(s.dirOf("pids"), "pids.peak") != (u.PidsPeak != -1) {
				t.Errorf("pids peak %d", u.PidsPeak)
			}
			// The refused forks leave their brothers; the slot takes them all down.
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A quota of a fifth of a processor holds roughly; the same work without one is never throttled.
func TestCPULimit(t *testing.T) {
	used := func(l Limits) (ms, throttled int64, wall time.Duration) {
		s := newSlot(t, scratch(t), l)
		begin := time.Now()
		start(t, s, nil, "spin", "1500ms").lines(t)
		wall = time.Since(begin)
		u, err := s.Usage()
		if err != nil || u.CPUMillis < 0 {
			t.Fatalf("usage %+v, %v", u, err)
		}
		stat, _ := read(filepath.Join(s.dirOf("cpu"), "cpu.stat"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return u.CPUMillis, parseFlat(stat)["nr_throttled"], wall
	}
	free, none, _ := used(Limits{})
	held, some, wall := used(Limits{CPU: 0.2})
	t.Logf("cpu without a limit %d ms, throttled %d times; with 0.2 processors %d ms in %v, throttled %d times", free, none, held, wall, some)
	if most := wall.Milliseconds()*3/10 + 150; held > most {
		t.Errorf("used %d ms of cpu in %v, want at most %d", held, wall, most)
	}
	// On a busy host both get little, so the kernel's own count of throttled periods is the control.
	if some == 0 || none != 0 {
		t.Errorf("throttled %d times with a limit and %d times without", some, none)
	}
}

// A child that is cloned into the slot is in it, in each hierarchy, from its first instruction on (K-007).
func TestPlacedAtClone(t *testing.T) {
	tree := scratch(t)
	s := newSlot(t, tree, Limits{MemoryBytes: 64 << 20, Pids: 100, CPU: 1})
	c, err := startIn(s, "cat", "/proc/self/cgroup")
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	// Once more with its output, now that it is known to run.
	c, err = startIn(s, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer s.Close()
	var own string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.Process.Pid))
		if own = string(b); strings.Count(own, parentName+"/t1") == 1+len(s.TaskFDs()) {
			break
		}
	}
	o, err := parseSelfCgroup(own)
	if err != nil || !strings.HasSuffix(o.V2, "/"+parentName+"/t1") {
		t.Errorf("v2 cgroup %q, %v", o.V2, err)
	}
	for ctl := range tree.v1 {
		if !strings.HasSuffix(o.V1[ctl], "/"+parentName+"/t1") {
			t.Errorf("v1 %s cgroup %q", ctl, o.V1[ctl])
		}
	}
	if len(s.TaskFDs()) != len(tree.v1) {
		t.Errorf("%d tasks files for %d v1 controllers", len(s.TaskFDs()), len(tree.v1))
	}
	if live, err := s.Populated(); err != nil || !live {
		t.Errorf("populated %v, %v", live, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.Dir(), &st); err != nil || st.Ino != s.ID() || s.ID() == 0 {
		t.Errorf("id %d, inode %d, %v", s.ID(), st.Ino, err)
	}
}

// The values that were asked for are in the kernel's files.
func TestLimitFiles(t *testing.T) {
	tree := scratch(t)
	s := newSlot(t, tree, Limits{MemoryBytes: 96 << 20, Pids: 77, CPU: 1.5})
	v2 := map[string]string{"memory.max": "100663296", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "77", "cpu.max": "150000 100000"}
	v1 := map[string]string{"memory.limit_in_bytes": "100663296", "memory.memsw.limit_in_bytes": "100663296", "pids.max": "77", "cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}
	for _, c := range limited {
		want := v2
		if _, ok := tree.v1[c]; ok {
			want = v1
		}
		n := 0
		for file, value := range want {
			if !strings.HasPrefix(file, c) {
				continue
			}
			got, err := read(filepath.Join(s.dirOf(c), file))
			if strings.Contains(file, "sw") && errors.Is(err, fs.ErrNotExist) {
				continue // a kernel without swap accounting
			}
			n++
			if err != nil || got != value {
				t.Errorf("%s: %q, %v; want %q", file, got, err, value)
			}
		}
		if n == 0 {
			t.Errorf("no file of %s was checked", c)
		}
	}
}

// Killing a slot takes a double-forked daemon in its own session with it (K-007, K-019).
func TestKillDaemon(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(s *Slot) error
	}{
		{"cgroup.kill", (*Slot).Kill},
		{"freeze and signal", func(s *Slot) error { return killFrozen(s.Dir(), time.Now().Add(5*time.Second)) }},
		{"v1 or v2 by signal", func(s *Slot) error {
			return killV1(s.dirOf("memory"), time.Now().Add(5*time.Second))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSlot(t, scratch(t), Limits{})
			ch := start(t, s, nil, "daemon")
			var pid int
			for _, l := range ch.lines(t) {
				fmt.Sscanf(l, "daemon %d", &pid)
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatalf("daemon %d: %v", pid, err)
			}
			defer unix.Close(fd)
			if sid, err := unix.Getsid(pid); err != nil || sid != pid {
				t.Errorf("daemon's session %d, %v; want its own", sid, err)
			}
			if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
				t.Fatalf("control: the daemon is not alive: %v", err)
			}
			if err := c.kill(s); err != nil {
				t.Fatal(err)
			}
			if err := s.WaitEmpty(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); err != nil || n != 1 {
				t.Errorf("the daemon lives on: poll %d, %v", n, err)
			}
			if live, err := s.Populated(); err != nil || live {
				t.Errorf("populated %v, %v", live, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWaitEmptyDeadline(t *testing.T) {
	s := newSlot(t, scratch(t), Limits{})
	c, err := startIn(s, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer s.Close()
	if err := s.WaitEmpty(30 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want deadline exceeded", err)
	}
}

// A cgroup made inside the slot falls under its limits, its kill and its removal (K-020).
func TestNestedCgroup(t *testing.T) {
	tree := scratch(t)
	s := newSlot(t, tree, Limits{MemoryBytes: 64 << 20, Pids: 60})
	nest := func(dir string) string {
		d := filepath.Join(dir, "a", "b")
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		return d
	}
	join := func(pid int) error {
		var errs []error
		for _, d := range s.dirs() {
			errs = append(errs, write(filepath.Join(nest(d), "cgroup.procs"), strconv.Itoa(pid)))
		}
		return errors.Join(errs...)
	}
	c, _ := self("forks", "100")
	got := strings.Join(begin(t, c, join).lines(t), "\n")
	if !strings.Contains(got, fmt.Sprintf("errno %d", int(unix.EAGAIN))) {
		t.Errorf("child said %q", got)
	}
	if live, err := s.Populated(); err != nil || !live {
		t.Errorf("populated %v, %v with processes two cgroups down", live, err)
	}
	if cause, err := s.Cause(); err != nil || cause != "pids" {
		t.Errorf("cause %q, %v", cause, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, d := range s.dirs() {
		if exists(d, ".") {
			t.Errorf("%s is still there", d)
		}
	}
}

// The depth of cgroups is bounded, so that removing them is.
func TestDepthBound(t *testing.T) {
	s := newSlot(t, scratch(t), Limits{})
	d := s.Dir()
	for i := range 40 {
		d = filepath.Join(d, "x")
		if err := os.Mkdir(d, 0o755); err != nil {
			if !errors.Is(err, unix.EAGAIN) || i < 20 {
				t.Errorf("level %d: %v, want EAGAIN after 20 or more", i, err)
			}
			return
		}
	}
	t.Error("40 levels were made")
}

// 200 slots leave no descriptor, thread, directory or lock file behind.
func TestManySlots(t *testing.T) {
	tree := scratch(t)
	one := func(i int) {
		s, err := tree.New(fmt.Sprintf("many-%d", i), Limits{MemoryBytes: 64 << 20, Pids: 50, CPU: 1})
		if err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			c, err := startIn(s, "sleep", "600")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Wait()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("closing twice: %v", err)
		}
		if s.FD() != -1 || len(s.TaskFDs()) != 0 {
			t.Fatalf("descriptors after Close: %d %v", s.FD(), s.TaskFDs())
		}
	}
	one(0)
	fds := openFDs()
	begin := time.Now()
	for i := range 200 {
		one(i)
	}
	t.Logf("%v a slot", time.Since(begin)/200)
	if n := openFDs(); n != fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	for _, p := range append([]string{tree.v2.parent()}, func() (out []string) {
		for _, p := range tree.v1 {
			out = append(out, p.parent())
		}
		return
	}()...) {
		if d := subdirs(t, p); len(d) > 0 {
			t.Errorf("left below %s: %v", p, d)
		}
	}
	if e, err := os.ReadDir(filepath.Join(tree.runDir, "slots")); err != nil || len(e) > 0 {
		t.Errorf("lock files left: %v, %v", e, err)
	}
}

func subdirs(t *testing.T, dir string) (out []string) {
	t.Helper()
	e, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range e {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// An id that is in use is refused and stays untouched, both with its lock and with only its directory.
func TestExistingID(t *testing.T) {
	tree := scratch(t)
	s := newSlot(t, tree, Limits{})
	if _, err := tree.New("t1", Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("same id: %v", err)
	}
	other := &Tree{runDir: t.TempDir(), v2: tree.v2, v1: tree.v1, no: tree.no}
	if _, err := other.New("t1", Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("same id from another run directory: %v", err)
	}
	if e, _ := os.ReadDir(filepath.Join(other.runDir, "slots")); len(e) > 0 {
		t.Errorf("lock file left: %v", e)
	}
	if _, err := s.Populated(); err != nil {
		t.Errorf("the first slot: %v", err)
	}
}

// A parent that was removed is made again.
func TestParentRemoved(t *testing.T) {
	tree := scratch(t)
	if _, err := tree.Parent(); err != nil {
		t.Fatal(err)
	}
	for _, d := range append([]string{tree.v2.parent()}, tree.v1["memory"].parent()) {
		if err := unix.Rmdir(d); err != nil && err != unix.ENOENT {
			t.Fatal(err)
		}
	}
	if err := newSlot(t, tree, Limits{MemoryBytes: 64 << 20}).Close(); err != nil {
		t.Error(err)
	}
}

// A run directory that others can write to is refused.
func TestLockDirChecked(t *testing.T) {
	tree := scratch(t)
	dir := filepath.Join(tree.runDir, "slots")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  func() error
	}{
		{"writable", func() error { return os.Chmod(dir, 0o777) }},
		{"somebody else's", func() error { return errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 1000, 1000)) }},
		{"a link", func() error { return errors.Join(os.Remove(dir), os.Symlink(t.TempDir(), dir)) }},
	} {
		if err := c.set(); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.New("x", Limits{}); err == nil || !strings.Contains(err.Error(), "nobody else can write") {
			t.Errorf("%s: New: %v", c.name, err)
		}
		if _, err := tree.Sweep(); err == nil {
			t.Errorf("%s: Sweep did not mind", c.name)
		}
	}
}

// An ordinary user gets slots in a delegated subtree, and a hint elsewhere.
func TestDelegated(t *testing.T) {
	const uid = 1000
	for _, c := range []struct {
		name      string
		delegated bool
		leaf      bool // the process starts in a leaf, not in the delegated cgroup itself
		other     bool // another process is in the delegated cgroup
		want      []string
	}{
		{"own leaf", true, true, false, []string{"place PLACE", "in slot true", "self false"}},
		{"alone in the delegated cgroup", true, false, false, []string{"place PLACE", "in slot true", "self SELF"}},
		{"not alone", true, false, true, []string{"place PLACE", "NOLIMIT"}},
		{"not delegated", false, true, false, []string{"hint: start it in a delegated scope: systemd-run --user"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := scratch(t)
			pure := len(tree.v1) == 0
			for _, ctl := range limited {
				if pure {
					if err := enable(tree.v2.Dir, ctl); err != nil {
						t.Fatal(err)
					}
				}
			}
			d := filepath.Join(tree.v2.Dir, "deleg")
			in := d
			if c.leaf {
				in = filepath.Join(d, "leaf")
			}
			if err := os.MkdirAll(in, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { remove(d, time.Now().Add(time.Second)) })
			if c.delegated {
				for _, f := range []string{d, d + "/cgroup.procs", d + "/cgroup.subtree_control", d + "/cgroup.threads", in, in + "/cgroup.procs"} {
					if err := os.Chown(f, uid, uid); err != nil {
						t.Fatal(err)
					}
				}
			}
			run := userDir(t, uid)
			fd, err := unix.Open(in, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			as := func(role string, args ...string) *child {
				cmd, _ := self(role, args...)
				cmd.Env = append(cmd.Env, runVar+"="+run)
				cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
				return begin(t, cmd, func(int) error { return nil })
			}
			if c.other {
				as("hold")
			}
			got := strings.Join(as("user", "u1").lines(t), "\n")
			for _, w := range c.want {
				w = strings.Replace(w, "PLACE", d, 1)
				// Without v2 controllers nothing has to make way and there are no limits to be had.
				w = strings.Replace(w, "SELF", fmt.Sprint(pure), 1)
				w = strings.Replace(w, "NOLIMIT", map[bool]string{true: "no memory limiting memory is not possible here: need no processes directly", false: "no memory"}[pure], 1)
				if !strings.Contains(got, w) {
					t.Errorf("want %q in:\n%s", w, got)
				}
			}
			if pure && c.delegated && !c.other && strings.Count(got, "yes ") != 3 {
				t.Errorf("not all limits:\n%s", got)
			}
		})
	}
}

// userDir is a directory that a user can reach and write to.
func userDir(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "slot-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The real place, not the scratch one: what lockbox itself does.
func TestRealTree(t *testing.T) {
	needs.Root(t)
	needs.Cgroup2(t)
	tree, err := Find(t.TempDir())
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, hintOf(err))
	}
	parent, err := tree.Parent()
	if err != nil || filepath.Base(parent) != parentName {
		t.Fatalf("parent %q, %v", parent, err)
	}
	id := fmt.Sprintf("test-%d", os.Getpid())
	s, err := tree.New(id, Limits{MemoryBytes: 64 << 20, Pids: 50, CPU: 0.5})
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, hintOf(err))
	}
	if s.Dir() != filepath.Join(parent, id) {
		t.Errorf("dir %q", s.Dir())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, d := range s.dirs() {
		if exists(d, ".") {
			t.Errorf("%s is still there", d)
		}
	}
}
