package service

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a terminal with a command on it.
type pty struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu  sync.Mutex // guards all below
	out strings.Builder
	eof bool
}

// onPTY starts a command as the leader of a session with a new terminal.
func onPTY(t *testing.T, x *exec.Cmd) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer slave.Close()
	if c := x.SysProcAttr.Credential; c != nil {
		must(t, slave.Chown(int(c.Uid), -1))
	}
	x.Stdin, x.Stdout, x.Stderr = slave, slave, slave
	x.SysProcAttr.Setsid, x.SysProcAttr.Setctty, x.SysProcAttr.Ctty = true, true, 0
	must(t, x.Start())
	p := &pty{t: t, master: master, cmd: x}
	go p.read()
	t.Cleanup(func() {
		x.Process.Kill()
		x.Wait()
		master.Close()
		if h, err := host(); err == nil {
			killAll(h.dir)
		}
	})
	return p
}

func (p *pty) read() {
	b := make([]byte, 4096)
	for {
		n, err := p.master.Read(b)
		p.mu.Lock()
		p.out.Write(b[:n])
		p.eof = err != nil
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(p.out.String(), "\r\n", "\n")
}

// expect waits until the terminal shows the text.
func (p *pty) expect(text string) {
	p.t.Helper()
	if !eventually(10*time.Second, func() bool { return strings.Contains(p.text(), text) }) {
		p.t.Fatalf("the terminal does not show %q but\n%s", text, p.text())
	}
}

func (p *pty) send(s string) {
	p.t.Helper()
	_, err := p.master.WriteString(s)
	must(p.t, err)
}

// end waits for the command's end and returns its code.
func (p *pty) end() int {
	p.t.Helper()
	done := make(chan struct{})
	go func() { p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		p.t.Fatalf("still running; the terminal shows\n%s", p.text())
	}
	eventually(200*time.Millisecond, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.eof })
	return code(p.cmd.ProcessState)
}

// underShell puts a shell with job control between the terminal and lockbox, so
// that lockbox leads a process group, not the session.
func (c caller) underShell(x *exec.Cmd) *exec.Cmd {
	y := exec.Command(c.probe, append([]string{"@inside", "jobs", x.Path}, x.Args[1:]...)...)
	y.Env, y.Dir = x.Env, x.Dir
	y.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: x.SysProcAttr.Credential}
	return y
}

// killAll ends what a failed test left.
func killAll(word string) {
	for _, p := range processes(word) {
		if pid, err := strconv.Atoi(strings.Split(p, ":")[0]); err == nil && pid != os.Getpid() {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}
