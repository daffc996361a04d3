package egress

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// host is what the kernel tests share: a parent cgroup with the programs, and a network of their own.
var host struct {
	parent string
	dir    string
	set    *Set
	net    *testNet
}

const testPrefix = "lockbox-egress-test-"

func TestMain(m *testing.M) {
	if os.Args[0] == childArg {
		os.Exit(childMain())
	}
	os.Exit(runTests(m))
}

// runTests sets up, runs and cleans up, and fails on anything that stays behind.
func runTests(m *testing.M) (code int) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
	}
	if os.Geteuid() != 0 {
		fail(errors.New("the kernel tests need root; in a VM: hack/vm/run.sh 6.12 ./runner/egress"))
		return code
	}
	root, err := cgroup2()
	if err != nil {
		fail(err)
		return code
	}
	sweepDead(root)
	host.parent = filepath.Join(root, testPrefix+strconv.Itoa(os.Getpid()))
	host.dir = filepath.Join(os.TempDir(), testPrefix+strconv.Itoa(os.Getpid()), "bpf")
	if err := os.Mkdir(host.parent, 0o755); err != nil {
		fail(err)
		return code
	}
	defer func() { fail(removeCgroup(host.parent)) }()
	defer os.RemoveAll(filepath.Dir(host.dir))
	defer func() { fail(RemovePinned(host.parent, host.dir)) }()
	if host.set, err = Open(host.parent, host.dir); err != nil {
		fail(err)
		return code
	}
	defer func() { fail(host.set.Close()) }()
	if host.net, err = newTestNet(); err != nil {
		fail(err)
		return code
	}
	defer host.net.close()
	before := openFDs()
	if code = m.Run(); code != 0 {
		return code
	}
	host.net.drain()
	fail(leaks(before))
	return code
}

// leaks: every test took away what it made.
func leaks(fds int) error {
	var errs []error
	if now := openFDs(); now > fds {
		list, _ := filepath.Glob("/proc/self/fd/*")
		for i, f := range list {
			list[i], _ = os.Readlink(f)
		}
		errs = append(errs, fmt.Errorf("%d descriptors were open before the tests, now %d: %q", fds, now, list))
	}
	if ids, err := children(host.parent); err != nil || len(ids) > 0 {
		errs = append(errs, fmt.Errorf("cgroups left: %v %w", ids, err))
	}
	if runs, err := host.set.Runs(); err != nil || len(runs) > 0 {
		errs = append(errs, fmt.Errorf("map entries left: %v %w", runs, err))
	}
	return errors.Join(errs...)
}

func openFDs() int {
	for range 50 { // closes by finalisers and the poller are not at once
		time.Sleep(time.Millisecond)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// cgroup2 finds the mount: hosts are hybrid.
func cgroup2() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if _, rest, ok := strings.Cut(s.Text(), " - "); ok && strings.HasPrefix(rest, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", errors.New("no cgroup version 2 hierarchy is mounted; in a VM: hack/vm/run.sh 6.12 ./runner/egress")
}

// sweepDead removes what a killed test process left.
func sweepDead(root string) {
	cgroups, _ := filepath.Glob(filepath.Join(root, testPrefix+"*"))
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), testPrefix+"*"))
	for _, d := range append(cgroups, dirs...) {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), testPrefix))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		if strings.HasPrefix(d, root) {
			os.WriteFile(filepath.Join(d, "cgroup.kill"), []byte("1"), 0)
			subs, _ := filepath.Glob(filepath.Join(d, "*", "*", "cgroup.procs"))
			more, _ := filepath.Glob(filepath.Join(d, "*", "cgroup.procs"))
			for _, s := range append(subs, more...) {
				removeCgroup(filepath.Dir(s))
			}
			removeCgroup(d)
			continue
		}
		unix.Unmount(filepath.Join(d, "bpf"), unix.MNT_DETACH)
		os.RemoveAll(d)
	}
}
