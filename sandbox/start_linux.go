package sandbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"lockbox/sandbox/netns"
	"lockbox/sandbox/nofile"
	"lockbox/sandbox/pid1"
	"lockbox/sandbox/script"
)

// StartOptions are what only the moment of the start knows.
type StartOptions struct {
	Stdin, Stdout, Stderr *os.File
	CgroupFD              int   // v2 directory to start in; -1 for none. Caller closes.
	TaskFDs               []int // v1 tasks files to join. Caller closes.
	Deadline              time.Duration
	// Gate, when not nil, is called with the child's pidfd before the child takes
	// its first step; the child goes on once it returns nil. So a child can be
	// moved into a cgroup that this process may not write to. It runs on another
	// goroutine, and must return: the start deadline does not end it.
	Gate func(pidfd int) error
	// CanaryPath is a bound Unix socket outside the run's tree that the child
	// must not reach; "" leaves path sockets unverified.
	CanaryPath string
	// CanaryAbstract is a free abstract socket name that the child must not reach;
	// "" lets the kernel choose one.
	CanaryAbstract string
	// StopAt ends the child before this script step, for tests of what a failed
	// start leaves behind; zero means never, 1 is the first step.
	StopAt int

	stdin, stdout, stderr int
	lifeR, lifeW          int
	gateR, gateW          int
	statusW, initFD       int
	victim                int
	canaryPath            string
	canaryAbstract        string
	netPort               int // UDP port that this process holds in its own network namespace
	noFileCur, noFileMax  uint64
}

// Exit is how a command ended.
type Exit struct {
	Code      int
	Signal    syscall.Signal // zero: it exited
	ExecErrno syscall.Errno  // non-zero: it was never executed
	Usage     syscall.Rusage
}

// Process is a started run. The goroutine that started it must stay locked to
// its thread until Wait returns: the run dies with that thread.
type Process struct {
	Pid    int
	PidFD  int
	status int // read end of the init's status pipe; −1 without an init
	life   int // write end of the life line
	once   sync.Once
}

// Start starts the plan in a child. Every layer that the child could try was
// denied to it when Start returns; p.Layers says so.
func (p *Plan) Start(so StartOptions) (*Process, error) {
	if p.InPlace {
		return nil, errors.New("BUG: Start of a plan that execs in place")
	}
	if err := so.standard(); err != nil {
		return nil, err
	}
	var files closers
	defer files.close()
	lifeR, lifeW, err := pipe()
	if err != nil {
		return nil, err
	}
	files.add(lifeR)
	files.add(lifeW)
	so.lifeR, so.lifeW = lifeR, lifeW
	hold, gateErr, err := so.gate(&files)
	if err != nil {
		return nil, err
	}
	statusR := -1
	so.statusW, so.initFD = -1, -1
	if p.pidNS {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		files.add(r)
		files.add(w)
		statusR, so.statusW = r, w
		init, err := initFile()
		if err != nil {
			return nil, err
		}
		files.add(init)
		so.initFD = init
	}
	so.victim = os.Getpid()
	e, done, err := p.emit(&so)
	if err != nil {
		return nil, err
	}
	defer done()
	sc := e.b.Script()
	child, err := sc.Fork(script.ForkOptions{Namespaces: p.namespaces, CgroupFD: so.CgroupFD, Deadline: so.Deadline, StopAt: so.StopAt - 1, Hold: hold})
	runtime.KeepAlive(so)
	gerr := gateErr()
	if err != nil {
		return nil, p.explain(cmp.Or(gerr, err))
	}
	proc := &Process{Pid: child.Pid, PidFD: child.PidFD, status: -1, life: -1}
	if n := e.ackError(); n != 0 {
		proc.Kill()
		proc.Wait()
		return nil, fmt.Errorf("loopback up: %w", syscall.Errno(n))
	}
	files.keep(lifeW)
	proc.life = lifeW
	if statusR >= 0 {
		files.keep(statusR)
		proc.status = statusR
	}
	p.proved(&so)
	return proc, nil
}

// gate makes the pipe on which the child waits for Gate. A Gate that fails, or a
// supervisor that ends, closes it: the child then reads nothing and gives up.
func (so *StartOptions) gate(files *closers) (hold func(int), failed func() error, err error) {
	so.gateR, so.gateW = -1, -1
	if so.Gate == nil {
		return nil, func() error { return nil }, nil
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe2: %w", err)
	}
	so.gateR, so.gateW = p[0], p[1]
	files.add(p[0])
	var gerr error
	var once sync.Once
	shut := func() { once.Do(func() { unix.Close(p[1]) }) }
	hold = func(pidfd int) {
		if gerr = so.Gate(pidfd); gerr == nil {
			_, gerr = unix.Write(p[1], []byte{1})
		}
		shut()
	}
	return hold, func() error { shut(); return gerr }, nil
}

// Exec turns the calling process into the command. It returns only on failure,
// and the process must then exit: its thread may be partly confined.
func (p *Plan) Exec(so StartOptions) error {
	if !p.InPlace {
		return errors.New("BUG: Exec of a plan that needs a child")
	}
	so.CgroupFD = -1
	if err := so.standard(); err != nil {
		return err
	}
	so.victim = p.host.PPID
	if so.victim > 1 && unix.Kill(so.victim, 0) != nil {
		so.victim = 0 // no positive control, so no canary
	}
	e, done, err := p.emit(&so)
	if err != nil {
		return err
	}
	defer done()
	err = e.b.Script().Exec()
	runtime.KeepAlive(so)
	return p.explain(err)
}

// emit lays the steps out. done releases what only the start needed.
func (p *Plan) emit(so *StartOptions) (*emitter, func(), error) {
	so.noFileCur, so.noFileMax = nofile.Caller()
	release, err := so.controls(p.netNS)
	if err != nil {
		return nil, nil, err
	}
	ruleset, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: handledFS(p.abi), Scoped: scopes(p.abi)}, 0)
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("landlock_create_ruleset for ABI %d: %w", p.abi, err)
	}
	e := &emitter{b: script.NewBuilder(), p: p, so: *so, ruleset: ruleset, made: map[string]bool{}, masks: map[string]bool{}, closed: map[string]bool{}}
	for _, s := range p.steps {
		s.emit(e)
	}
	return e, func() { unix.Close(ruleset); release() }, nil
}

// controls runs the canaries' positive controls: what the child must not do can
// be done here. A canary without its control is left out, and so unverified.
func (so *StartOptions) controls(netNS bool) (func(), error) {
	if so.CanaryPath != "" && reachable(so.CanaryPath) {
		so.canaryPath = so.CanaryPath
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket AF_UNIX: %w", err)
	}
	// An empty name lets the kernel choose a free abstract one (unix(7), autobind).
	name := &unix.SockaddrUnix{}
	if so.CanaryAbstract != "" {
		name.Name = "@" + so.CanaryAbstract
	}
	if err := unix.Bind(fd, name); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind an abstract socket: %w", err)
	}
	sa, err := unix.Getsockname(fd)
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen on an abstract socket: %w", err)
	}
	if u, ok := sa.(*unix.SockaddrUnix); ok && strings.HasPrefix(u.Name, "@") {
		so.canaryAbstract = u.Name[1:]
	}
	port := -1
	if netNS {
		if port, so.netPort, err = heldPort(); err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	return func() { unix.Close(fd); unix.Close(port) }, nil
}

// heldPort binds a UDP port here: the child can bind the same one only in another
// network namespace (EADDRINUSE otherwise). Whether a host has a route says
// nothing about the namespace.
func heldPort() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("socket AF_INET: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("bind a UDP port: %w", err)
	}
	sa, err := unix.Getsockname(fd)
	in, ok := sa.(*unix.SockaddrInet4)
	if err != nil || !ok {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("getsockname: %w", err)
	}
	return fd, in.Port, nil
}

// reachable reports whether a path names a bound socket that this process may
// connect to (nobody listens: ECONNREFUSED).
func reachable(p string) bool {
	if len(p) > 100 {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: p})
	return err == nil || err == unix.ECONNREFUSED
}

// proved marks the layers that the child tried and was denied.
func (p *Plan) proved(so *StartOptions) {
	for i := range p.Layers {
		l := &p.Layers[i]
		if !l.Asked || l.By == "" {
			continue
		}
		l.Applied = true
		switch l.Layer {
		case "files", "syscalls", "egress", "fds":
			l.Verified = true
		case "unix":
			l.Verified = so.canaryPath != "" && (p.mounts || p.abi >= 9) && so.canaryAbstract != "" && (p.netNS || p.abi >= 6)
		case "processes":
			l.Verified = so.victim > 1
		case "limits":
			l.Note = join(l.Note, "a limit cannot be tried without reaching it")
		case "env":
			l.Note = join(l.Note, "nothing to try: the kernel copies the given list")
		}
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// ackError returns the errno of the loopback message, which the child's kernel
// wrote into our memory.
func (e *emitter) ackError() int {
	if e.ack == nil {
		return 0
	}
	return netns.AckError(e.ack)
}

// explain turns a failed start into an error with a hint where one helps.
func (p *Plan) explain(err error) error {
	var ce *script.CloneError
	if errors.As(err, &ce) && p.userNS {
		switch ce.Errno {
		case syscall.EPERM, syscall.ENOSPC, syscall.EUSERS, syscall.ENOSYS:
			return &UnsupportedError{Feature: "metadata", Need: "user namespaces", Have: "clone3: " + ce.Errno.Error(),
				Hint: "allow user namespaces (see `lockbox doctor`; in Docker, run with --security-opt seccomp=unconfined or as root inside)"}
		}
	}
	return err
}

// standard checks the descriptors that the command will have.
func (so *StartOptions) standard() error {
	fds := [3]*int{&so.stdin, &so.stdout, &so.stderr}
	for i, f := range [3]*os.File{so.Stdin, so.Stdout, so.Stderr} {
		*fds[i] = i
		if f != nil {
			*fds[i] = int(f.Fd())
		}
		if err := checkStdio(*fds[i], [3]string{"stdin", "stdout", "stderr"}[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkStdio refuses descriptors through which a run could reach what its
// profile closes: a socket made outside is bound by no cgroup program, and a
// directory is a way round the run's tree.
func checkStdio(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s is not open: %w", name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fmt.Errorf("%s is a directory; give a file, a pipe or a terminal", name)
	case unix.S_IFBLK:
		return fmt.Errorf("%s is a block device; give a file, a pipe or a terminal", name)
	case unix.S_IFSOCK:
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return fmt.Errorf("%s is a socket of an unknown kind: %w", name, err)
		}
		if domain != unix.AF_UNIX {
			return fmt.Errorf("%s is a network socket, which no rule of the run would bind; put a pipe between", name)
		}
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("%s: fcntl: %w", name, err)
	}
	if flags&unix.O_PATH != 0 {
		return fmt.Errorf("%s is an O_PATH descriptor; open it for reading or writing", name)
	}
	return nil
}

// initFile returns the init as an executable memfd.
func initFile() (int, error) {
	fd, err := unix.MemfdCreate("lockbox-init", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if _, err := unix.Write(fd, pid1.Binary); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("write init: %w", err)
	}
	return fd, nil
}

// Wait waits for the end and releases the descriptors.
func (pr *Process) Wait() (Exit, error) {
	var ws syscall.WaitStatus
	var x Exit
	for {
		_, err := syscall.Wait4(pr.Pid, &ws, 0, &x.Usage)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return x, fmt.Errorf("wait4: %w", err)
		}
		break
	}
	defer pr.release()
	if pr.status >= 0 {
		rec := make([]byte, pid1.RecordSize)
		if n, err := unix.Read(pr.status, rec); err == nil && n == len(rec) {
			v := binary.NativeEndian.Uint32(rec[4:])
			switch binary.NativeEndian.Uint32(rec) {
			case pid1.RecordExec:
				x.ExecErrno = syscall.Errno(v)
				return x, nil
			case pid1.RecordExit:
				ws = syscall.WaitStatus(v)
			}
		}
	}
	if ws.Signaled() {
		x.Signal = ws.Signal()
	} else {
		x.Code = ws.ExitStatus()
	}
	return x, nil
}

// Signal sends a signal to the command (through the init, where there is one).
func (pr *Process) Signal(s syscall.Signal) error {
	if err := unix.PidfdSendSignal(pr.PidFD, unix.Signal(s), nil, 0); err != nil {
		return fmt.Errorf("pidfd_send_signal: %w", err)
	}
	return nil
}

// Kill ends every process of the run.
func (pr *Process) Kill() error { return pr.Signal(syscall.SIGKILL) }

func (pr *Process) release() {
	pr.once.Do(func() {
		unix.Close(pr.PidFD)
		unix.Close(pr.status)
		unix.Close(pr.life)
	})
}

// pipe returns a close-on-exec pipe whose read end does not block.
func pipe() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("pipe2: %w", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return -1, -1, fmt.Errorf("fcntl: %w", err)
	}
	return p[0], p[1], nil
}

// closers are descriptors that a failed start must not leak.
type closers []int

func (c *closers) add(fd int) { *c = append(*c, fd) }
func (c *closers) keep(fd int) {
	for i, g := range *c {
		if g == fd {
			(*c)[i] = -1
		}
	}
}
func (c *closers) close() {
	for _, fd := range *c {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
