// Package apart gives the tests of a package a part of the host that nobody else
// uses, so that they can count what is left behind:
//
//	func TestMain(m *testing.M) {
//		inside.Main()
//		os.Exit(apart.Main(m))
//	}
//
// As root the tests run in mount, pid and network namespaces of their own, in
// which lo is up and has the address [Addr], and /etc/hosts has the names; no process outlives them. On a host with cgroup v1 beside v2 they also have a cgroup
// namespace below cgroups of their own, because every run of a host lives below
// one cgroup; the test fails if one of those is not empty at the end. Pure cgroup
// v2 does not let a process and its limited children live in one cgroup: there
// the tests share the host's, and the parent of all runs must be empty.
package apart

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// Addr is an address of the tests' own host that is built in as closed (RFC
	// 5737), Closed its name.
	Addr   = "203.0.113.5"
	Closed = "closed.example"
	// Far is an address that could be anybody's and to which there is no way, Name
	// its name.
	Far  = "11.0.113.5"
	Name = "pinned.example"

	// inner says how far we are: empty, the list of mounts to make, or tests.
	inner = "LOCKBOX_TEST_APART"
	tests = "tests"
)

// Main runs the tests apart and returns the exit status.
func Main(m *testing.M, after ...func() error) int {
	if os.Geteuid() != 0 {
		return check(m.Run(), after)
	}
	var code int
	var err error
	switch mounts := os.Getenv(inner); mounts {
	case "":
		code, err = outer()
	case tests:
		os.Unsetenv(inner)
		return check(m.Run(), append(after, noRuns))
	default:
		code, err = first(strings.Fields(mounts))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return max(code, 1)
	}
	return code
}

func check(code int, after []func() error) int {
	for _, f := range after {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: left behind:", err)
			code = max(code, 1)
		}
	}
	return code
}

// outer starts the test binary again, in its own namespaces.
func outer() (int, error) {
	runtime.LockOSThread() // the parent death signal is tied to the thread
	own, err := cgroups()
	if err != nil {
		return 1, err
	}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID)
	list := []string{"none"}
	if len(own) > 0 {
		flags |= unix.CLONE_NEWCGROUP
		list = nil
	}
	for _, c := range own {
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			return 1, err
		}
		defer unix.Rmdir(c.dir)
		if err := join(c.dir); err != nil {
			return 1, err
		}
		defer join(c.home)
		list = append(list, c.String())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inner+"="+strings.Join(list, " "))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	var left []error
	for _, c := range own {
		left = append(left, c.empty())
	}
	return cmd.ProcessState.ExitCode(), errors.Join(left...)
}

// hosts is the file behind /etc/hosts. A mount whose file was removed cannot be
// moved, so it stays as long as the tests.
var hosts string

// first is the first process of the pid namespace: it makes the namespaces the
// tests' own, starts the tests and waits for everything.
func first(mounts []string) (int, error) {
	// Taken away first: of two values of one name a Go program reads the first.
	os.Unsetenv(inner)
	err := enter(mounts)
	defer os.Remove(hosts)
	if err != nil {
		return 1, fmt.Errorf("a part of the host for the tests: %w", err)
	}
	p, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env: append(os.Environ(), inner+"="+tests), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 1, err
	}
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 1, fmt.Errorf("wait4: %w", err)
		case pid == p.Pid && ws.Signaled():
			return 1, fmt.Errorf("the tests: %s", ws.Signal())
		case pid == p.Pid:
			return ws.ExitStatus(), nil
		}
	}
}

// enter makes the namespaces the tests' own.
func enter(mounts []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount / private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, text := range mounts {
		c, ok := parse(text)
		if !ok {
			continue
		}
		if err := unix.Unmount(c.mount, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("umount %q: %w", c.mount, err)
		}
		if err := unix.Mount("cgroup", c.mount, c.fstype, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, c.options); err != nil {
			return fmt.Errorf("mount %q: %w", c.mount, err)
		}
	}
	if err := loopback(); err != nil {
		return err
	}
	// The programs are pinned in one place of a host.
	if err := os.MkdirAll("/run/lockbox", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/run/lockbox", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run/lockbox: %w", err)
	}
	f, err := os.CreateTemp("", "lockbox-hosts-")
	if err != nil {
		return err
	}
	hosts = f.Name()
	fmt.Fprintf(f, "127.0.0.1 localhost\n%s %s\n%s %s\n", Far, Name, Addr, Closed)
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	if err := unix.Mount(f.Name(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /etc/hosts: %w", err)
	}
	return nil
}

// loopback brings lo up and gives it Addr.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	addr, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := addr.SetInet4Addr([]byte{203, 0, 113, 5}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, addr); err != nil {
		return fmt.Errorf("address of lo: %w", err)
	}
	return nil
}

// Runs lists the cgroups of all runs that this part of the host has.
func Runs() []string {
	var out []string
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(b), "\n") {
		head, tail, _ := strings.Cut(line, " - ")
		f := strings.Fields(head)
		if len(f) < 5 || !strings.HasPrefix(tail, "cgroup") {
			continue
		}
		more, _ := filepath.Glob(filepath.Join(f[4], "lockbox-runs", "*", "cgroup.procs"))
		for _, p := range more {
			out = append(out, filepath.Dir(p))
		}
	}
	return out
}

func noRuns() error {
	if r := Runs(); len(r) > 0 {
		return fmt.Errorf("cgroups of runs: %v", r)
	}
	return nil
}
