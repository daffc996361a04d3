package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/sandbox/nofile"
)

// victim is an unconfined process of the same user.
func victim(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(prober)
	cmd.Env = []string{roleVar + "=wait", "SECRET=of-the-victim"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// othersRows are what may not be done to a process outside (K-024, L-041).
func othersRows(pid int) []row {
	p := strconv.Itoa(pid)
	gone := errs(unix.ESRCH, unix.EPERM)
	hidden := errs(unix.ENOENT, unix.EACCES)
	rows := []row{
		no(gone, "kill", p, "0"), no(gone, "kill", p, "18"), // SIGCONT
		no(gone, "pidfd-getfd", p), no(gone, "prlimit", p),
		no(hidden, "read", "/proc/"+p+"/environ"), no(hidden, "read", "/proc/"+p+"/cmdline"), no(hidden, "read", "/proc/"+p+"/status"),
		no(hidden, "read", "/proc/"+p+"/maps"), no(hidden, "read", "/proc/"+p+"/fd"), no(hidden, "readlink", "/proc/"+p+"/root"),
		no(hidden, "readlink", "/proc/"+p+"/cwd"), no(hidden, "readlink", "/proc/"+p+"/exe"), no(hidden, "stat", "/proc/"+p),
	}
	// Yama: 0 lets a process trace others of its user.
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err != nil || strings.TrimSpace(string(b)) == "0" || os.Geteuid() == 0 && strings.TrimSpace(string(b)) < "3" {
		rows = append(rows, no(gone, "ptrace", p), no(gone, "process-vm-readv", p))
	}
	return rows
}

// K-024: other processes cannot be signalled, traced, read or seen.
func TestOtherProcesses(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		pid := victim(t)
		o := check(t, &setup{profile: grants()}, append(othersRows(pid), yes("pids"), yes("read", "/proc/self/status"), yes("read", "/proc/1/cmdline")))
		n := len(othersRows(pid))
		if pids := strings.Fields(o.answers[n].Out); o.plan.pidNS && len(pids) != 2 {
			t.Errorf("processes inside: %v, want the init and the command", pids)
		}
		if l := o.plan.layer("processes"); !l.Verified || !l.Applied {
			t.Errorf("layer %+v", *l)
		}
	})
}

// Every layer that is asked for is applied, and verified where it can be tried.
func TestLayersAreVerified(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t)
		listen(t, d+"/s")
		o := confine(t, &setup{profile: grants(), start: StartOptions{CanaryPath: d + "/s"}}, do("ids"))
		for _, l := range o.plan.Layers {
			want := l.Layer != "limits" && l.Layer != "env"
			if l.Asked && !l.Applied || l.Verified != want {
				t.Errorf("%+v, want verified %v", l, want)
			}
		}
		// Without a socket to try, the layer is applied and not verified.
		o = confine(t, &setup{profile: grants()}, do("ids"))
		if l := o.plan.layer("unix"); !l.Applied || l.Verified {
			t.Errorf("without a canary: %+v", *l)
		}
	})
}

// SysV IPC is the run's own; strict has none.
func TestSysVIPC(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		key := 0x10c00000 + os.Getpid()
		id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		check(t, &setup{profile: grants()}, []row{no(errs(unix.ENOENT), "shm-key", strconv.Itoa(key)), yes("shm-own")})
		strict := grants()
		strict.Process.Syscalls = profiles.Syscalls{Mode: "strict"}
		check(t, &setup{profile: strict}, []row{no(errs(unix.EPERM, unix.ENOSYS), "shm-own")})
	})
}

// K-019: no capabilities, no way to them, no groups, the caller's ids.
func TestNoPrivileges(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		a := confine(t, &setup{profile: grants()}, do("read", "/proc/self/status"), do("setuid", "0"), do("ids")).answers
		status := a[0].Out
		for name, want := range map[string]string{"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
			"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
			if !strings.Contains(status, "\n"+name+":\t"+want) {
				t.Errorf("%s is not %s:\n%s", name, want, status)
			}
		}
		if os.Geteuid() == 0 && !strings.Contains(status, "\nGroups:\t \n") && !strings.Contains(status, "\nGroups:\t\n") {
			t.Errorf("groups kept:\n%s", status)
		}
		if os.Geteuid() != 0 && a[1].Errno != unix.EINVAL && a[1].Errno != unix.EPERM {
			t.Errorf("setuid 0: %v", a[1].Errno)
		}
		if want := fmt.Sprintf("uid=%d euid=%d gid=%d", os.Geteuid(), os.Geteuid(), os.Getegid()); !strings.Contains(a[2].Out, want) {
			t.Errorf("ids %s, want %s", a[2].Out, want)
		}
	})
}

// K-019: a setuid program gains nothing inside.
func TestSetuidProgram(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		program := filepath.Join(filepath.Dir(prober), "setuid-root") // made by TestMain where it is root
		gains := "0"
		if os.Geteuid() == 0 {
			program, gains = filepath.Join(filepath.Dir(prober), "setuid-nobody"), strconv.Itoa(nobody)
		}
		if _, err := os.Lstat(program); err != nil {
			// A test process that started as an ordinary user cannot make one.
			if os.Getenv(baseVar) != "" || os.Geteuid() == 0 {
				t.Fatal(err)
			}
			program = "/bin/su"
		}
		if program != "/bin/su" {
			if out := unconfined(t, do("euid", program))[0].Out; out != gains {
				t.Errorf("control: the setuid program has euid %q, want %q", out, gains)
			}
		}
		a := confine(t, &setup{profile: grants("rx " + program)}, do("euid", program)).answers[0]
		if a.Errno != 0 || a.Out != strconv.Itoa(os.Geteuid()) {
			t.Errorf("inside: euid %q, %v", a.Out, a.Errno)
		}
	})
}

// A session of its own, and no terminal, unless one is asked for.
func TestSessionAndTerminal(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		a := confine(t, &setup{profile: grants()}, do("ids"), do("stat", "/dev/tty"), do("stat", "/dev/pts"), do("read", "/dev/tty")).answers
		// The session was made before the pid namespace had its init, so it is seen as 1 or, from outside, 0.
		own, _ := unix.Getsid(0)
		if strings.Contains(a[0].Out, fmt.Sprintf("sid=%d ", own)) {
			t.Errorf("the caller's session: %s", a[0].Out)
		}
		for _, x := range a[1:] {
			if x.Errno != unix.ENOENT {
				t.Errorf("a terminal: %v %s", x.Errno, x.Out)
			}
		}
		a = confine(t, &setup{profile: grants(), options: Options{TTY: true}}, do("stat", "/dev/pts"), do("stat", "/dev/tty"), do("stat", "/dev/ptmx")).answers
		for _, x := range a {
			if x.Errno != 0 {
				t.Errorf("tty asked: %v", x.Errno)
			}
		}
	})
}

// soundness 7: the caller's own limit of open files, not Go's raised one; no core
// files; the profile's limits as hard limits.
func TestResourceLimits(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		ulimits := "echo $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Sc) $(ulimit -Hc) $(ulimit -Sf) $(ulimit -Hf)"
		shell := func(p *profiles.Profile) []string {
			o, err := start(t, &setup{profile: p, options: Options{Path: "/bin/sh", Argv: []string{"sh", "-c", ulimits}, Env: []string{}}})
			if err != nil || o.exit.Code != 0 || o.exit.ExecErrno != 0 {
				t.Fatalf("%v %+v %s", err, o.exit, o.errs)
			}
			return strings.Fields(o.out)
		}
		cur, max := nofile.Caller()
		var now unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NOFILE, &now)
		t.Logf("caller %d/%d, this process now %d", cur, max, now.Cur)
		got := shell(system())
		if got[0] != fmt.Sprint(cur) || got[1] != fmt.Sprint(max) || got[2] != "0" || got[3] != "0" {
			t.Errorf("open files and core: %v, want %d %d 0 0", got, cur, max)
		}
		p := system()
		p.Limits.Files, p.Limits.FileSize = 33, 1<<20
		got = shell(p)
		if got[0] != "33" || got[1] != "33" || got[4] != got[5] || got[4] == "unlimited" {
			t.Errorf("limits of the profile: %v", got)
		}
	})
}

// RLIMIT_NOFILE, shown where the caller's and the raised one differ.
func TestCallersOpenFiles(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		cmd := exec.Command("/bin/sh", "-c", "ulimit -Sn 777; exec "+prober+" -c 'ulimit -Sn'")
		cmd.Env = []string{roleVar + "=supervise-sh", rulesVar + "=rx /usr\nrx? /bin\nrx? /lib\nrx? /lib64"}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "777" {
			t.Errorf("%v: %s, want 777", err, out)
		}
	})
}

// Descriptors above 2 do not reach the command, whatever their flags.
func TestInheritedDescriptors(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "secret")
		fd, err := unix.Open(d+"/secret", unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		dir, err := unix.Open(d, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(dir)
		for _, f := range []int{fd, dir} {
			if flags, _ := unix.FcntlInt(uintptr(f), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC != 0 {
				t.Fatal("control: the descriptor would not be inherited")
			}
		}
		a := confine(t, &setup{profile: grants()}, do("fds")).answers[0]
		for _, f := range strings.Fields(a.Out) {
			if n, _, _ := strings.Cut(f, "="); n != "0" && n != "1" && n != "2" {
				t.Errorf("descriptor %s reached the command", f)
			}
		}
	})
}

// The environment is the given one, and nothing else.
func TestEnvironment(t *testing.T) {
	t.Setenv("LOCKBOX_TEST_SECRET", "x")
	a := confine(t, &setup{profile: grants(), options: Options{Env: []string{roleVar + "=probe", "A=b c\nd"}}}, do("env")).answers[0]
	if a.Out != roleVar+"=probe\nA=b c\nd" {
		t.Errorf("environment %q", a.Out)
	}
}
