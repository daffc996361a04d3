//go:build linux

package slot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockbox/test/needs"

	"golang.org/x/sys/unix"
)

// The test binary runs itself in these roles.
const (
	roleVar  = "SLOT_TEST_ROLE"
	placeVar = "SLOT_TEST_PLACES"
	runVar   = "SLOT_TEST_RUNDIR"
)

var roles = map[string]func(args []string) error{
	"hold":    func([]string) error { return nil },
	"bomb":    bomb,
	"kidbomb": kidBomb,
	"forks":   forks,
	"spin":    spin,
	"daemon":  daemon,
	"daemon2": daemon2,
	"owner":   owner,
	"storm":   storm,
	"user":    user,
}

// A role says "ready", waits for a line on stdin (while its parent puts it into a slot), does its work, says what came of it,
// and stays until stdin ends.
func runRole(name string) {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(3)
	}
	if err := roles[name](os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("done")
	io.Copy(io.Discard, in)
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if r := os.Getenv(roleVar); r != "" {
		runRole(r)
	}
	before := openFDs()
	rc := m.Run()
	for end := time.Now().Add(2 * time.Second); openFDs() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	// os/exec and the poller may keep an epoll descriptor and an eventfd.
	if n := openFDs(); n > before+2 {
		fmt.Printf("FAIL: %d descriptors open, %d before\n", n, before)
		rc = 1
	}
	if b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err == nil && len(b) > 0 {
		fmt.Printf("FAIL: children left: %s\n", b)
		rc = 1
	}
	os.Exit(rc)
}

func openFDs() int {
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(e)
}

func bomb(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range n { // 1 MiB each, every page touched
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	return nil
}

// kidBomb lets a child run into the limit and says how it ended.
func kidBomb(args []string) error {
	c, err := self("bomb", args...)
	if err != nil {
		return err
	}
	c.Stdin = strings.NewReader("\n")
	fmt.Println("kid:", c.Run())
	return nil
}

// forks forks single-threaded processes until the kernel refuses, and says which errno it gave. The children only pause: a forked Go
// process can do no more. They are killed with the slot.
func forks(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range n {
		if e := rawFork(); e != 0 {
			fmt.Printf("fork %d: errno %d\n", i, int(e))
			return nil
		}
	}
	fmt.Println("no fork refused")
	return nil
}

//go:norace
func rawFork() syscall.Errno {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 || pid != 0 {
		return e
	}
	for {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

func spin(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range 2 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
			}
		})
	}
	wg.Wait()
	return nil
}

// self is a command that runs this binary in a role.
func self(role string, args ...string) (*exec.Cmd, error) {
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), roleVar+"="+role)
	return c, nil
}

// daemon leaves a process behind the classic way: fork, setsid, fork, and its parent is gone.
func daemon([]string) error {
	c, _ := self("daemon2")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Stdin = strings.NewReader("\n")
	out, err := c.Output()
	fmt.Print(string(out))
	return err
}

func daemon2([]string) error {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Println("daemon", c.Process.Pid)
	os.Exit(0) // do not wait for stdin: the daemon must lose its parent
	return nil
}

// owner makes a slot with a process in it and waits to be killed.
func owner(args []string) error {
	tree, err := treeFromEnv()
	if err != nil {
		return err
	}
	s, err := tree.New(args[0], Limits{})
	if err != nil {
		return err
	}
	c, err := startIn(s, "sleep", "600")
	if err != nil {
		return err
	}
	fmt.Println("holding", c.Process.Pid)
	return nil
}

// storm makes, uses, closes and sweeps slots in parallel and reports any that was touched while it was owned.
func storm(args []string) error {
	tree, err := treeFromEnv()
	if err != nil {
		return err
	}
	rounds, _ := strconv.Atoi(args[1])
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for g := range errs {
		wg.Go(func() {
			for i := range rounds {
				if err := stormOne(tree, fmt.Sprintf("%s-%d-%d", args[0], g, i)); err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func stormOne(tree *Tree, id string) error {
	s, err := tree.New(id, Limits{})
	if err != nil {
		return err
	}
	c, err := startIn(s, "sleep", "600")
	if err != nil {
		return errors.Join(err, s.Close())
	}
	swept, err := tree.Sweep()
	if err != nil {
		err = fmt.Errorf("sweep: %w", err)
	}
	for _, x := range swept {
		if !strings.HasPrefix(x, "victim") {
			err = errors.Join(err, fmt.Errorf("%s swept the live slot %s", id, x))
		}
	}
	time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	if live, e := s.Populated(); e != nil || !live {
		err = errors.Join(err, fmt.Errorf("slot %s: populated %v, %v while owned", id, live, e))
	}
	err = errors.Join(err, s.Close())
	c.Wait()
	return err
}

// user is what an ordinary user sees: it finds its own tree.
func user(args []string) error {
	tree, err := Find(os.Getenv(runVar))
	if err != nil {
		fmt.Println("find:", err, "hint:", hintOf(err))
		return nil
	}
	fmt.Println("place", tree.v2.Dir)
	l := Limits{}
	for _, c := range limited {
		if by, err := tree.Supports(c); err != nil {
			fmt.Println("no", c, err, "hint:", hintOf(err))
		} else {
			fmt.Println("yes", c, by)
			l.MemoryBytes, l.Pids = 64<<20, 50
		}
	}
	s, err := tree.New(args[0], l)
	if err != nil {
		return err
	}
	c, err := startIn(s, "sleep", "600")
	if err != nil {
		return errors.Join(err, s.Close())
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.Process.Pid))
	fmt.Println("in slot", strings.Contains(string(own), parentName+"/"+args[0]))
	err = errors.Join(err, s.Close())
	c.Wait()
	me, _ := os.ReadFile("/proc/self/cgroup")
	fmt.Println("self", strings.Contains(string(me), selfName))
	return errors.Join(err, tree.RemoveParent())
}

// startIn starts a program as lockbox does on v2: at clone. On hybrid hosts a shell writes "0" to the tasks files first.
func startIn(s *Slot, name string, args ...string) (*exec.Cmd, error) {
	join, files := "", []*os.File{}
	for i, fd := range s.TaskFDs() {
		d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(d), "tasks")
		defer f.Close()
		files = append(files, f)
		join += fmt.Sprintf("echo 0 >&%d; exec %d>&-; ", 3+i, 3+i)
	}
	c := exec.Command("/bin/sh", append([]string{"-c", join + `exec "$@"`, "sh", name}, args...)...)
	c.ExtraFiles = files
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: s.FD()}
	return c, c.Start()
}

// A child is a role that runs in a slot.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// start starts a role, puts it into s (if not nil) and lets it go.
func start(t *testing.T, s *Slot, env []string, role string, args ...string) *child {
	t.Helper()
	c, err := self(role, args...)
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, env...)
	if s != nil {
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: s.FD()}
	}
	return begin(t, c, func(pid int) error {
		if s == nil {
			return nil
		}
		return s.Add(pid)
	})
}

func begin(t *testing.T, c *exec.Cmd, place func(pid int) error) *child {
	t.Helper()
	ch := &child{Cmd: c}
	var err error
	if ch.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	ch.out = bufio.NewScanner(out)
	if l := ch.line(t); l != "ready" {
		t.Fatalf("child said %q", l)
	}
	if err := place(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	io.WriteString(ch.in, "\n")
	return ch
}

// line returns the next line, or "" when the child is gone.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

// lines returns all lines up to "done".
func (c *child) lines(t *testing.T) (out []string) {
	t.Helper()
	for c.out.Scan() {
		if c.out.Text() == "done" {
			return out
		}
		out = append(out, c.out.Text())
	}
	t.Fatalf("child ended early: %q, %v", out, c.Wait())
	return nil
}

// scratch returns a tree of its own below the real place, so that tests see no other runs. It is removed at the end of the test,
// and the test fails if that is not possible.
func scratch(t *testing.T) *Tree {
	t.Helper()
	needs.Root(t)
	needs.Cgroup2(t)
	base, err := Find(t.TempDir())
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, hintOf(err))
	}
	for _, c := range limited {
		if by, err := base.Supports(c); err != nil {
			needs.Missing(t, by+err.Error(), hintOf(err))
		}
	}
	name := fmt.Sprintf("lockbox-test-%d-%d", os.Getpid(), rand.Uint32())
	dirs := map[string]string{"": filepath.Join(base.v2.Dir, name)}
	for c, p := range base.v1 {
		dirs[c] = filepath.Join(p.Dir, name)
	}
	for _, c := range base.v2.Controllers {
		for _, l := range limited {
			if c == l {
				if err := base.v2.enable(c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, d := range dirs {
		if err := mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	tree := treeAt(base.runDir, dirs)
	t.Cleanup(func() {
		if err := tree.RemoveParent(); err != nil {
			t.Errorf("slots left: %v", err)
		}
		for _, d := range dirs {
			if err := remove(d, time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
		}
	})
	return tree
}

// treeAt makes a tree in given directories; the key "" is v2.
func treeAt(runDir string, dirs map[string]string) *Tree {
	tree := &Tree{runDir: runDir, v1: map[string]place{}, no: map[string]error{}}
	tree.v2, _ = live{}.v2(dirs[""])
	for c, d := range dirs {
		if c != "" {
			tree.v1[c] = place{Dir: d}
		}
	}
	return tree
}

// env hands a tree to a role.
func (t *Tree) env() []string {
	dirs := map[string]string{"": t.v2.Dir}
	for c, p := range t.v1 {
		dirs[c] = p.Dir
	}
	b, _ := json.Marshal(dirs)
	return []string{placeVar + "=" + string(b), runVar + "=" + t.runDir}
}

func treeFromEnv() (*Tree, error) {
	var dirs map[string]string
	if err := json.Unmarshal([]byte(os.Getenv(placeVar)), &dirs); err != nil {
		return nil, err
	}
	return treeAt(os.Getenv(runVar), dirs), nil
}
