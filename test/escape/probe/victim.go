package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// secret is what the victim's files and memory hold.
const secret = "lockbox-escape-secret-0123456789"

// victim makes everything that the probes reach for, in DIR and in the kernel, and prints it as a target. It has the
// user id of the run, so that nothing but the confinement stands between them.
func victim(dir string) (err error) {
	if dir == "-wait" { // a process to be killed, no more
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	// Yama's ptrace_scope 1 would hide what Landlock or the pid namespace does.
	if err := unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0); err != nil && err != unix.EINVAL {
		return err
	}
	t := &target{Dir: dir, Pid: os.Getpid(), UID: os.Getuid(), Key: fmt.Sprintf("lockbox-escape-%d", os.Getpid())}
	cell := []byte(secret)
	t.Addr = addressOf(cell)
	steps := []func(*target) error{victimFiles, victimSockets, victimIPC, victimKey}
	for _, step := range steps {
		if err := step(t); err != nil {
			return fmt.Errorf("victim: %w", err)
		}
	}
	arrived := make(chan os.Signal, 16)
	signal.Notify(arrived, unix.SIGUSR2)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(t); err != nil {
		return err
	}
	go func() {
		for range arrived {
			fmt.Println("signal")
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	ipcRemove(t)
	mqUnlink(t.MQ)
	for _, p := range []string{t.ShmFile, t.UnixTmp} {
		os.Remove(p)
	}
	if id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", t.Key, 0); err == nil {
		unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
	}
	if cell[0] != secret[0] {
		return fmt.Errorf("victim: memory was changed")
	}
	return nil
}

func victimFiles(t *target) error {
	for name, content := range map[string]string{"secret": secret, "scratch": "scratch", "removable": ""} {
		if err := os.WriteFile(t.file(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := os.Symlink("secret", t.file("alias")); err != nil {
		return err
	}
	b, err := os.ReadFile(self())
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.file("program"), b, 0o700); err != nil {
		return err
	}
	if t.FD, err = unix.Open(t.file("secret"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.file("secret"), 0); err == nil {
		t.Handle, t.HandleType = h.Bytes(), h.Type()
	}
	t.ShmFile = fmt.Sprintf("/dev/shm/lockbox-escape-%d", t.Pid)
	return os.WriteFile(t.ShmFile, []byte(secret), 0o600)
}

func victimSockets(t *target) error {
	// Plain TCP: Go's listener would be MPTCP, and an MPTCP client then reaches it too; both must.
	for _, l := range []struct {
		addr string
		port *int
	}{{"127.0.0.1:0", &t.TCP4}, {"[::1]:0", &t.TCP6}} {
		s, err := net.Listen("tcp", l.addr)
		if err != nil {
			if l.port == &t.TCP6 {
				continue // a host without IPv6; the control says so
			}
			return err
		}
		if raw, err := s.(*net.TCPListener).SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 16) })
		}
		*l.port = s.Addr().(*net.TCPAddr).Port
		go serve(s)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.UDP4 = u.LocalAddr().(*net.UDPAddr).Port
	go echoPackets(u)

	t.UnixTmp = fmt.Sprintf("/tmp/lockbox-escape-%d.sock", t.Pid)
	t.UnixDir = t.file("stream.sock")
	t.Abstract = fmt.Sprintf("lockbox-escape-%d", t.Pid)
	for _, name := range []string{t.UnixTmp, t.UnixDir, "@" + t.Abstract} {
		s, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		go serve(s)
	}
	t.UnixDgram = t.file("dgram.sock")
	_, err = net.ListenPacket("unixgram", t.UnixDgram)
	return err
}

// serve answers each connection with what it sends.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(c, c)
			c.Close()
		}()
	}
}

func echoPackets(p net.PacketConn) {
	b := make([]byte, 64)
	for {
		n, from, err := p.ReadFrom(b)
		if err != nil {
			return
		}
		p.WriteTo(b[:n], from)
	}
}

func victimIPC(t *target) (err error) {
	if t.Shm, err = unix.SysvShmGet(0, 4096, unix.IPC_CREAT|0o600); err != nil {
		return fmt.Errorf("shmget: %w", err)
	}
	if t.Msg, err = ipcMake(unix.SYS_MSGGET, unix.IPC_CREAT|0o600, 0); err != nil {
		return fmt.Errorf("msgget: %w", err)
	}
	if t.Sem, err = ipcMake(unix.SYS_SEMGET, 1, unix.IPC_CREAT|0o600); err != nil {
		return fmt.Errorf("semget: %w", err)
	}
	t.MQ = filepath.Base(t.ShmFile)
	if err := mqOpen(t.MQ, unix.O_CREAT|unix.O_RDWR); err != nil {
		return fmt.Errorf("mq_open: %w", err)
	}
	return nil
}

func victimKey(t *target) error {
	if _, err := unix.AddKey("user", t.Key, []byte(secret), unix.KEY_SPEC_USER_KEYRING); err != nil {
		return fmt.Errorf("add_key: %w", err)
	}
	return nil
}
