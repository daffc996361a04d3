package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/sandbox/pid1"
)

// ask is one thing that the prober tries; names are bytes, not text.
type ask struct {
	Op string
	A  [][]byte
}

// answer is what the kernel said. Zero Errno means that it let it happen.
type answer struct {
	Errno syscall.Errno
	Out   string
	Fault string // the prober itself failed: a broken test
}

func do(op string, args ...string) ask {
	a := ask{Op: op}
	for _, s := range args {
		a.A = append(a.A, []byte(s))
	}
	return a
}

func (a ask) String() string {
	var b strings.Builder
	b.WriteString(a.Op)
	for _, s := range a.A {
		fmt.Fprintf(&b, " %q", s)
	}
	return b.String()
}

// play is what the test binary does as the confined program.
func play(role string) {
	runtime.LockOSThread()
	switch role {
	case "probe":
		in, err := io.ReadAll(os.Stdin)
		var asks []ask
		if err == nil {
			err = json.Unmarshal(in, &asks)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "prober:", err)
			os.Exit(100)
		}
		out := make([]answer, len(asks))
		for i, a := range asks {
			out[i] = try(a)
		}
		b, _ := json.Marshal(out)
		if _, err := os.Stdout.Write(b); err != nil {
			os.Exit(101)
		}
		os.Exit(0)
	case "count-signals":
		c := make(chan os.Signal, 16)
		signal.Notify(c, syscall.SIGUSR1)
		fmt.Println("ready")
		n := 0
		end := time.After(5 * time.Second)
		for {
			select {
			case <-c:
				if n++; n == 1 {
					end = time.After(300 * time.Millisecond)
				}
			case <-end:
				fmt.Println(n)
				os.Exit(0)
			}
		}
	case "wait":
		fmt.Println("ready")
		time.Sleep(60 * time.Second)
		os.Exit(1)
	case "daemon":
		// A grandchild in a session of its own that holds stdout open.
		p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
			Env:   []string{roleVar + "=wait"},
			Files: []*os.File{nil, os.Stdout, nil}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			fmt.Println("daemon:", err)
			os.Exit(100)
		}
		p.Release()
		time.Sleep(60 * time.Second)
		os.Exit(1)
	case "daemon-and-exit": // the daemon keeps the caller's stdout, as its stderr
		r, w, err := os.Pipe()
		if err != nil {
			fmt.Println("pipe:", err)
			os.Exit(100)
		}
		p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
			Env:   []string{roleVar + "=wait"},
			Files: []*os.File{nil, w, os.Stdout}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			fmt.Println("daemon:", err)
			os.Exit(100)
		}
		p.Release()
		w.Close()
		line, _ := bufio.NewReader(r).ReadString('\n')
		fmt.Print(line)
		os.Exit(0)
	case "euid":
		fmt.Print(os.Geteuid())
		os.Exit(0)
	case "daemon-short": // ends at once and leaves a child that ends soon
		syscall.ForkExec(os.Args[0], []string{os.Args[0], "0"}, &syscall.ProcAttr{Env: []string{roleVar + "=exit"}})
		os.Exit(0)
	case "exit":
		n, _ := strconv.Atoi(os.Args[1])
		os.Exit(n)
	case "kill-self":
		n, _ := strconv.Atoi(os.Args[1])
		unix.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(10 * time.Second)
		os.Exit(100)
	case "supervise", "in-place", "supervise-sh":
		os.Exit(playSupervisor(role))
	}
	fmt.Fprintln(os.Stderr, "prober: no role", role)
	os.Exit(100)
}

// try does one thing, undoes it, and says what the kernel answered.
func try(a ask) answer {
	f := probes[a.Op]
	if f == nil {
		return answer{Fault: "no probe " + a.Op}
	}
	args := make([]string, len(a.A))
	for i, s := range a.A {
		args[i] = string(s)
	}
	var an answer
	err := f(args, &an)
	var e syscall.Errno
	switch {
	case err == nil:
	case errors.As(err, &e):
		an.Errno = e
	default:
		an.Fault = err.Error()
	}
	return an
}

func undo(an *answer, what string, err error) {
	if err != nil {
		an.Fault = "undo " + what + ": " + err.Error()
	}
}

const fresh = ".lockbox-fresh"

var probes = map[string]func(a []string, an *answer) error{
	"read": func(a []string, an *answer) error { // a file's content or a directory's names
		fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		buf := make([]byte, 4096)
		n, err := unix.Read(fd, buf)
		if err == unix.EISDIR {
			n, err = unix.ReadDirent(fd, buf)
			var names []string
			if n > 0 {
				_, _, names = unix.ParseDirent(buf[:n], -1, nil)
			}
			an.Out = strings.Join(names, " ")
			return err
		}
		if n > 0 {
			an.Out = string(buf[:n])
		}
		return err
	},
	"write": func(a []string, an *answer) error { // without changing anything; in a directory: a new entry
		fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == unix.EISDIR {
			return create(path.Join(a[0], fresh), an)
		}
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"append": func(a []string, an *answer) error {
		fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CLOEXEC|unix.O_APPEND|unix.O_CREAT, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(a[1]))
		return err
	},
	"truncate": func(a []string, an *answer) error {
		var st unix.Stat_t
		if err := unix.Lstat(a[0], &st); err != nil {
			return err
		}
		return unix.Truncate(a[0], st.Size)
	},
	"exec": func(a []string, an *answer) error {
		pid, err := syscall.ForkExec(a[0], append([]string{"x"}, a[1:]...), &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			return err
		}
		var ws syscall.WaitStatus
		_, err = syscall.Wait4(pid, &ws, 0, nil)
		an.Out = strconv.Itoa(ws.ExitStatus())
		return err
	},
	"create": func(a []string, an *answer) error { return create(a[0], an) },
	"mkdir": func(a []string, an *answer) error {
		err := unix.Mkdir(a[0], 0o755)
		if err == nil {
			undo(an, "mkdir", unix.Rmdir(a[0]))
		}
		return err
	},
	"mkdir-keep": func(a []string, an *answer) error { return unix.Mkdir(a[0], 0o755) },
	"symlink": func(a []string, an *answer) error {
		err := unix.Symlink(a[0], a[1])
		if err == nil {
			undo(an, "symlink", unix.Unlink(a[1]))
		}
		return err
	},
	"symlink-keep": func(a []string, an *answer) error { return unix.Symlink(a[0], a[1]) },
	"mknod": func(a []string, an *answer) error { // a character device 0:0 needs no capability
		err := unix.Mknod(a[0], unix.S_IFCHR|0o644, 0)
		if err == nil {
			undo(an, "mknod", unix.Unlink(a[0]))
		}
		return err
	},
	"mkfifo": func(a []string, an *answer) error {
		err := unix.Mknod(a[0], unix.S_IFIFO|0o644, 0)
		if err == nil {
			undo(an, "mkfifo", unix.Unlink(a[0]))
		}
		return err
	},
	"remove": func(a []string, an *answer) error {
		var st unix.Stat_t
		serr := unix.Lstat(a[0], &st)
		err := unix.Unlink(a[0])
		if err == unix.EISDIR {
			err = unix.Rmdir(a[0])
			if err == nil {
				undo(an, "rmdir", unix.Mkdir(a[0], 0o755))
			}
			if err == unix.ENOTEMPTY { // the file system answers last: nothing forbade it
				err = nil
			}
			return err
		}
		if err == nil && serr == nil {
			undo(an, "unlink", os.WriteFile(a[0], pid1.Binary, 0o755))
		}
		return err
	},
	"rename": func(a []string, an *answer) error {
		err := unix.Rename(a[0], a[1])
		if err == nil {
			undo(an, "rename", unix.Rename(a[1], a[0]))
		}
		return err
	},
	"rename-keep": func(a []string, an *answer) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string, an *answer) error {
		err := unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
		if err == nil {
			undo(an, "exchange", unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE))
		}
		return err
	},
	"link": func(a []string, an *answer) error {
		err := unix.Link(a[0], a[1])
		if err == nil {
			undo(an, "link", unix.Unlink(a[1]))
		}
		return err
	},
	"chmod": func(a []string, an *answer) error { return unix.Chmod(a[0], mode(a[0], 0o644)) },
	"chown": func(a []string, an *answer) error { return unix.Lchown(a[0], os.Getuid(), os.Getgid()) },
	"utime": func(a []string, an *answer) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, a[0], nil, unix.AT_SYMLINK_NOFOLLOW)
	},
	"setxattr": func(a []string, an *answer) error {
		err := unix.Setxattr(a[0], "user.lockbox", []byte("1"), 0)
		if err == nil {
			undo(an, "setxattr", unix.Removexattr(a[0], "user.lockbox"))
		}
		return err
	},
	"stat": func(a []string, an *answer) error {
		var st unix.Stat_t
		err := unix.Lstat(a[0], &st)
		an.Out = fmt.Sprintf("%o", st.Mode)
		return err
	},
	"readlink": func(a []string, an *answer) error {
		s, err := os.Readlink(a[0])
		an.Out = s
		return err
	},
	"chdir": func(a []string, an *answer) error {
		err := unix.Chdir(a[0])
		if err == nil {
			undo(an, "chdir", unix.Chdir("/"))
		}
		return err
	},
	"inotify": func(a []string, an *answer) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return fmt.Errorf("inotify_init1: %v", err)
		}
		defer unix.Close(fd)
		_, err = unix.InotifyAddWatch(fd, a[0], unix.IN_ALL_EVENTS)
		return err
	},
	"connect-path":     func(a []string, an *answer) error { return connectUnix(&unix.SockaddrUnix{Name: a[0]}) },
	"connect-abstract": func(a []string, an *answer) error { return connectUnix(&unix.SockaddrUnix{Name: "@" + a[0]}) },
	"own-path-socket": func(a []string, an *answer) error { // listen, connect to it, take it away
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]}); err != nil {
			return err
		}
		if !strings.HasPrefix(a[0], "@") {
			defer func() { undo(an, "socket", unix.Unlink(a[0])) }()
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		return connectUnix(&unix.SockaddrUnix{Name: a[0]})
	},
	"socket": func(a []string, an *answer) error {
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(a[i])
		}
		fd, err := unix.Socket(n[0], n[1], n[2])
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"connect": func(a []string, an *answer) error { // tcp or udp, address, port
		addr, err := netip.ParseAddr(a[1])
		if err != nil {
			return fmt.Errorf("%v", err)
		}
		port, _ := strconv.Atoi(a[2])
		kind := unix.SOCK_STREAM
		if a[0] == "udp" {
			kind = unix.SOCK_DGRAM
		}
		return dial(addr, port, kind)
	},
	"own-loopback": func(a []string, an *answer) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return err
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		sa, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		return dial(netip.MustParseAddr("127.0.0.1"), sa.(*unix.SockaddrInet4).Port, unix.SOCK_STREAM)
	},
	"kill": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		sig, _ := strconv.Atoi(a[1])
		return unix.Kill(pid, syscall.Signal(sig))
	},
	"ptrace": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		err := unix.PtraceSeize(pid)
		if err == nil {
			unix.PtraceDetach(pid)
		}
		return err
	},
	"process-vm-readv": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		buf := make([]byte, 1)
		// Address 0 is mapped nowhere: EFAULT comes after the permission check.
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 1}}, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
		if err == unix.EFAULT {
			return nil
		}
		return err
	},
	"pidfd-getfd": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		got, err := unix.PidfdGetfd(fd, 0, 0)
		if err == nil {
			unix.Close(got)
		}
		return err
	},
	"prlimit": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		var old unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
			return err
		}
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil) // to read is no harm, to set is
	},
	"getpriority": func(a []string, an *answer) error {
		pid, _ := strconv.Atoi(a[0])
		_, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		return err
	},
	"pids": func(a []string, an *answer) error {
		e, err := os.ReadDir("/proc")
		var out []string
		for _, d := range e {
			if n, nerr := strconv.Atoi(d.Name()); nerr == nil {
				out = append(out, strconv.Itoa(n))
			}
		}
		an.Out = strings.Join(out, " ")
		return err
	},
	"ids": func(a []string, an *answer) error {
		sid, _ := unix.Getsid(0)
		an.Out = fmt.Sprintf("pid=%d ppid=%d sid=%d uid=%d euid=%d gid=%d", os.Getpid(), os.Getppid(), sid, os.Getuid(), os.Geteuid(), os.Getgid())
		return nil
	},
	"env": func(a []string, an *answer) error { an.Out = strings.Join(os.Environ(), "\n"); return nil },
	"nofile": func(a []string, an *answer) error {
		// What exec passed on: a plain child of this process would show the raised one.
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return err
		}
		b, err := os.ReadFile("/proc/self/limits")
		an.Out = string(b)
		return err
	},
	"fds": func(a []string, an *answer) error {
		e, err := os.ReadDir("/proc/self/fd")
		var out []string
		for _, d := range e {
			if s, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && !strings.HasPrefix(s, "/proc/") && !strings.HasPrefix(s, "anon_inode:") {
				out = append(out, d.Name()+"="+s)
			}
		}
		an.Out = strings.Join(out, " ")
		return err
	},
	"statfs": func(a []string, an *answer) error {
		var st unix.Statfs_t
		err := unix.Statfs(a[0], &st)
		an.Out = fmt.Sprintf("blocks=%d files=%d type=%x", st.Blocks, st.Files, st.Type)
		return err
	},
	"shm-key": func(a []string, an *answer) error { // an existing segment of this key
		key, _ := strconv.Atoi(a[0])
		_, err := unix.SysvShmGet(key, 4096, 0o600)
		return err
	},
	"shm-own": func(a []string, an *answer) error {
		id, err := unix.SysvShmGet(0x10cb0c, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	},
	"setuid": func(a []string, an *answer) error {
		uid, _ := strconv.Atoi(a[0])
		return syscall.Setreuid(uid, uid)
	},
	"orphans": func(a []string, an *answer) error { // children of children that end: someone must reap them
		for range 5 {
			pid, err := syscall.ForkExec(a[0], []string{a[0]}, &syscall.ProcAttr{Env: []string{roleVar + "=daemon-short"}, Files: []uintptr{0, 1, 2}})
			if err != nil {
				return err
			}
			syscall.Wait4(pid, nil, 0, nil)
		}
		return nil
	},
	"zombies": func(a []string, an *answer) error {
		time.Sleep(200 * time.Millisecond)
		e, err := os.ReadDir("/proc")
		n := 0
		for _, d := range e {
			if b, err := os.ReadFile("/proc/" + d.Name() + "/stat"); err == nil && strings.Contains(string(b), ") Z ") {
				n++
			}
		}
		an.Out = strconv.Itoa(n)
		return err
	},
	"connect-wait": func(a []string, an *answer) error { // TCP, until it is answered
		port, _ := strconv.Atoi(a[1])
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(a[0]).As4()})
	},
	"euid": func(a []string, an *answer) error { // of a program that prints it
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		p, err := os.StartProcess(a[0], []string{a[0]}, &os.ProcAttr{Env: []string{roleVar + "=euid"}, Files: []*os.File{nil, w, nil}})
		w.Close()
		if err != nil {
			return err
		}
		b, _ := io.ReadAll(r)
		an.Out = string(b)
		_, err = p.Wait()
		return err
	},
	"sh": func(a []string, an *answer) error { return run(an, "/bin/sh", "-c", a[0]) },
	"run": func(a []string, an *answer) error {
		return run(an, a[0], a[1:]...)
	},
}

// run runs a program and keeps its output; a status other than 0 is in Out.
func run(an *answer, name string, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%v", err)
	}
	p, err := os.StartProcess(name, append([]string{path.Base(name)}, args...), &os.ProcAttr{Files: []*os.File{nil, w, w}})
	w.Close()
	if err != nil {
		r.Close()
		return err
	}
	b, _ := io.ReadAll(r)
	r.Close()
	st, err := p.Wait()
	if err != nil {
		return err
	}
	an.Out = fmt.Sprintf("%d\n%s", st.ExitCode(), b)
	return nil
}

func create(p string, an *answer) error {
	fd, err := unix.Open(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	unix.Close(fd)
	undo(an, "create", unix.Unlink(p))
	return nil
}

func mode(p string, otherwise uint32) uint32 {
	var st unix.Stat_t
	if unix.Lstat(p, &st) != nil {
		return otherwise
	}
	return st.Mode & 0o7777
}

func connectUnix(sa *unix.SockaddrUnix) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, sa)
}

func dial(addr netip.Addr, port, kind int) error {
	domain, sa := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: port})
	if addr.Is4() {
		sa.(*unix.SockaddrInet4).Addr = addr.As4()
	} else {
		domain, sa = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, sa)
	if err == unix.EINPROGRESS {
		err = nil // it left
	}
	return err
}
