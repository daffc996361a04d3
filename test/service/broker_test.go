package service

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockbox/runner/broker/client"
	"lockbox/test/apart"
	"lockbox/test/needs"
)

// askArg is the first argument of the test binary where it asks the service.
const askArg = "@ask"

// ask SOCKET WHAT…
func ask(args []string) int {
	if args[1] == "child" { // as a child of itself
		x := exec.Command("/proc/self/exe", append([]string{askArg, args[0]}, args[2:]...)...)
		x.Stdout, x.Stderr = os.Stdout, os.Stderr
		if err := x.Run(); err != nil {
			fmt.Println(err)
		}
		return 0
	}
	c, err := client.Dial(args[0])
	if err != nil {
		fmt.Println("dial:", err)
		return 0
	}
	answer := []byte("served")
	switch args[1] {
	case "hello":
		err = c.Hello()
	case "receipt":
		answer, err = c.Receipt(args[2])
	case "kill":
		err = c.Kill(args[2])
	case "ps":
		list, e := c.PS()
		answer, err = nil, e
		for _, i := range list {
			answer = fmt.Appendf(answer, "%s %d %s\n", i.Run, i.UID, i.State)
		}
	case "metrics":
		var s string
		s, err = c.Metrics()
		answer = []byte(s)
	}
	if err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	fmt.Println(string(answer))
	return 0
}

// broker is a lockbox-runner serve.
type broker struct {
	programs
	socket, home string
	cmd          *exec.Cmd
	log          *lines
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a service with a home of its own.
func serve(t testing.TB) *broker {
	t.Helper()
	needs.Root(t)
	needs.Cgroup2(t)
	p, err := host()
	must(t, err)
	dir, err := os.MkdirTemp(p.dir, "broker-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	b := &broker{programs: p, socket: filepath.Join(dir, "sock", "runner.sock"), home: dir + "/state"}
	b.start(t)
	t.Cleanup(func() {
		b.kill()
		if len(apart.Runs()) > 0 { // of a test that failed
			b.start(t)
			b.kill()
		}
	})
	return b
}

// start starts it, again perhaps.
func (b *broker) start(t testing.TB) {
	t.Helper()
	b.log = &lines{}
	b.cmd = exec.Command(b.bin+"/lockbox-runner", "serve", "--socket", b.socket)
	b.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + b.home, "LOCKBOX_HOME=" + b.home}
	b.cmd.Dir = "/"
	b.cmd.Stderr = b.log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, b.cmd.Start())
	if !eventually(10*time.Second, func() bool { return strings.Contains(b.log.String(), "msg=ready") }) {
		t.Fatalf("the service is not ready: %s", b.log)
	}
}

func (b *broker) kill() {
	b.cmd.Process.Kill()
	b.cmd.Wait()
}

// asked asks the service as somebody unconfined.
func (b *broker) asked(t testing.TB, uid int, args ...string) string {
	t.Helper()
	x := exec.Command(b.probe, append([]string{askArg, b.socket}, args...)...)
	x.Dir = "/"
	x.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := x.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// usage is what a service holds that could grow.
func (b *broker) usage(t testing.TB) (fds, threads, rssKiB int) {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(b.cmd.Process.Pid)
	d, err := os.ReadDir(proc + "/fd")
	must(t, err)
	s, err := os.ReadFile(proc + "/status")
	must(t, err)
	for _, line := range strings.Split(string(s), "\n") {
		if v, ok := strings.CutPrefix(line, "Threads:"); ok {
			fmt.Sscan(v, &threads)
		}
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(v, &rssKiB)
		}
	}
	return len(d), threads, rssKiB
}
