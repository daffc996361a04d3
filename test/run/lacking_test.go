package run

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// wrapped starts lockbox through one of the probe's wrappers.
func (c caller) wrapped(x *exec.Cmd, flags uintptr, wrapper ...string) *exec.Cmd {
	y := exec.Command(c.probe, append(append([]string{"@inside"}, wrapper...), append([]string{x.Path}, x.Args[1:]...)...)...)
	y.Env, y.Dir, y.SysProcAttr = x.Env, x.Dir, x.SysProcAttr
	y.SysProcAttr.Cloneflags |= flags
	return y
}

// A kernel that lacks a foundation refuses: one line, 125, nothing left. K-018
func TestLackingKernel(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		for what, words := range map[string]string{"landlock": `cannot enforce "files": needs Landlock`, "seccomp": `cannot enforce "syscalls": needs seccomp`} {
			for _, flags := range [][]string{nil, {"--timeout", "9s"}, {"--weaker", "metadata"}} {
				x := c.wrapped(c.command(flags, c.in("exit", "0")...), 0, "answer", what)
				c.refused(t, finish(t, x, ""), words)
			}
		}
		if c.uid != 0 {
			return // under any filter an ordinary user counts as confined already
		}
		// The control: the wrapper itself is not what fails.
		finish(t, c.wrapped(c.command(nil, c.in("exit", "4")...), 0, "answer", "none"), "").want(t, 4, "")
	})
}

// A cgroup that cannot be written to. K-007, K-018
func TestLackingCgroup(t *testing.T) {
	c := root(t)
	ns := uintptr(unix.CLONE_NEWNS)
	for _, flags := range [][]string{{"--memory", "64MiB"}, {"--pids", "9"}, {"--cpu", "1"}, {"--net", "direct"}} {
		x := c.wrapped(c.command(flags, c.in("exit", "0")...), ns, "read-only", "cgroup")
		c.refused(t, finish(t, x, ""), "cgroup")
	}
	// A run that needs none goes on.
	finish(t, c.wrapped(c.command([]string{"--timeout", "9s"}, c.in("exit", "4")...), ns, "read-only", "cgroup"), "").want(t, 4, "")
}

// A state folder that cannot be written to. K-018
func TestLackingState(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		blocked := c.home + "/file"
		must(t, os.WriteFile(blocked, nil, 0o644))
		for _, home := range []string{blocked + "/state", "/proc/lockbox"} {
			for _, flags := range [][]string{{"--timeout", "9s"}, {"--receipt", "/dev/null"}} {
				x := c.command(flags, c.in("exit", "0")...)
				x.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + c.home, "LOCKBOX_HOME=" + home}
				c.refused(t, finish(t, x, ""), "state folder")
			}
		}
		x := c.command([]string{"--receipt", c.home + "/none/r"}, c.in("exit", "0")...)
		c.refused(t, finish(t, x, ""), "--receipt")
	})
}

// Nothing is weaker unless it is named, and a name that is none is an error. K-018
func TestWeakerNamed(t *testing.T) {
	each(t, func(t *testing.T, c caller) {
		c.refused(t, c.run(t, []string{"--weaker", "everything"}, "exit", "0"), `--weaker "everything"`, "allowed: metadata")
		r := c.told(t, nil, "exit", "3")
		r.want(t, 3, "")
		if len(r.receipt.Weaker) != 0 {
			t.Errorf("weaker %v", r.receipt.Weaker)
		}
		// What this host has is not given up only because it may be.
		r = c.told(t, []string{"--weaker", "metadata", "--weaker", "unix", "--weaker", "tmp"}, "exit", "3")
		if len(r.receipt.Weaker) != 0 || !strings.Contains(r.receipt.by("files"), "mounts") {
			t.Errorf("weaker %v, files by %q", r.receipt.Weaker, r.receipt.by("files"))
		}
	})
}

// Where an ordinary user may make no user namespace, the run is refused with the
// flags that would accept less; with them Landlock and seccomp hold what they can,
// and the receipt names the rest. K-002, K-018
func TestWithoutUserNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root\nhint: sudo make test")
	}
	c := as(t, nobody)
	start := func(flags []string, args ...string) result {
		x := c.command(flags, c.in(args...)...)
		x.SysProcAttr = nil
		y := exec.Command(c.probe, append([]string{"@inside", "no-userns", "65534", x.Path}, x.Args[1:]...)...)
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
		y.Env, y.Dir = x.Env, x.Dir
		y.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
		return finish(t, y, "")
	}
	r := start(nil, "exit", "3")
	c.refused(t, r, `cannot enforce "metadata"`, "user.max_user_namespaces is 0", "--weaker metadata")
	_, hint, _ := strings.Cut(strings.TrimSpace(r.err), "accept less with ")
	flags := strings.Fields(hint)
	if len(flags) < 4 {
		t.Fatalf("hint: %s", r.err)
	}
	c.refused(t, start(flags[2:], "exit", "3"), "cannot enforce") // all but one
	start(flags, "exit", "3").want(t, 3, "")

	w := tree(t, c)
	flags = append(flags, "--rw", w, "--deny", w+"/none-yet")
	flags = flags[:len(flags)-2]
	file := c.home + "/receipt"
	start(append(flags, "--receipt", file), "read", w+"/open").want(t, 0, "open ok")
	rec := readReceipt(t, file)
	for _, f := range []string{"metadata", "processes", "tmp", "carve-outs"} {
		if !strings.Contains(strings.Join(rec.Weaker, " "), f) {
			t.Errorf("weaker %v lacks %s", rec.Weaker, f)
		}
	}
	for _, l := range rec.Layers {
		if l.Layer == "files" && (strings.Contains(l.By, "mounts") || !l.Verified) {
			t.Errorf("files: %+v", l)
		}
	}
	other := c.home + "/other"
	must(t, os.WriteFile(other, []byte("other"), 0o644))
	must(t, os.Chown(other, nobody, nobody))
	rows := []struct{ args, want string }{
		{"read " + other, "EACCES"},
		{"read " + c.home + "/receipt", "EACCES"},
		{"write " + other, "EACCES"},
		{"write " + w + "/new", "ok"}, // control
		{"list " + c.home, "EACCES"},
		{"list " + w, "ok"}, // control
		{"connect 127.0.0.1:1 1", "EPERM"},
		{"send 192.0.2.1:9 1", "EPERM"},
	}
	for _, row := range rows {
		got := start(flags, strings.Fields(row.args)...)
		if !strings.Contains(got.out, " "+row.want) {
			t.Errorf("%s: want %s, got %q %q", row.args, row.want, got.out, got.err)
		}
	}
	c.clean(t)
}
