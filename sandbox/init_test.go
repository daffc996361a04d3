package sandbox

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func role(name string, args ...string) Options {
	return Options{Path: prober, Argv: append([]string{prober}, args...), Env: []string{roleVar + "=" + name}}
}

// The command's exit status or signal comes through the init.
func TestExitStatus(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		for _, code := range []int{0, 1, 37, 125, 127, 128, 255} {
			o, err := start(t, &setup{profile: grants(), options: role("exit", strconv.Itoa(code))})
			if err != nil || o.exit.Code != code || o.exit.Signal != 0 || o.exit.ExecErrno != 0 {
				t.Errorf("exit %d: %v %+v", code, err, o.exit)
			}
		}
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR2} {
			// The command is not the init, so a signal's default action is done.
			o, err := start(t, &setup{profile: system(), options: Options{Path: "/bin/sh", Argv: []string{"sh", "-c", "kill -" + strconv.Itoa(int(sig)) + " $$; sleep 5"}, Env: []string{"PATH=/bin:/usr/bin"}}})
			if err != nil || o.exit.Signal != sig || o.exit.Code != 0 {
				t.Errorf("signal %v: %v %+v", sig, err, o.exit)
			}
		}
	})
}

// A command that cannot be executed is told apart from one that ended.
func TestExecErrno(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "noexec", "garbage", "outside/x")
		os.WriteFile(d+"/garbage", []byte("\x7fELF garbage"), 0o755)
		os.Chmod(d+"/garbage", 0o755)
		os.Chmod(d+"/outside/x", 0o755)
		for path, want := range map[string]syscall.Errno{d + "/noexec": syscall.EACCES, d + "/garbage": syscall.ENOEXEC, d + "/absent": syscall.ENOENT, d + "/outside/x": syscall.ENOENT} {
			o, err := start(t, &setup{profile: grants("rx "+d+"/noexec", "rx "+d+"/garbage"), options: Options{Path: path, Argv: []string{"x"}}})
			if err != nil || o.exit.ExecErrno != want {
				t.Errorf("%s: %v %+v, want %v", path, err, o.exit, want)
			}
		}
	})
}

// running starts a run whose output the test reads line by line.
func running(t *testing.T, o Options) (*Process, *bufio.Reader, func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	_, p, err := compileRun(t, &setup{profile: grants(), options: o})
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	proc, err := p.Start(StartOptions{Stdin: null, Stdout: w, Stderr: w, CgroupFD: -1})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return proc, bufio.NewReader(r), func() { r.Close(); runtime.UnlockOSThread() }
}

// A signal to the run reaches the command once, and only what is sent.
func TestSignalsAreForwardedOnce(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		proc, out, done := running(t, role("count-signals"))
		defer done()
		if l, err := out.ReadString('\n'); l != "ready\n" {
			t.Fatalf("%q, %v", l, err)
		}
		if err := proc.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		l, _ := out.ReadString('\n')
		if strings.TrimSpace(l) != "1" {
			t.Errorf("the command got %q signals, want 1", l)
		}
		if x, err := proc.Wait(); err != nil || x.Code != 0 {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// TERM ends a command that does not handle it, although PID 1 would ignore it.
func TestTermEndsTheRun(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL} {
			proc, out, done := running(t, Options{Path: prober, Argv: []string{prober}, Env: []string{roleVar + "=wait"}})
			out.ReadString('\n')
			if err := proc.Signal(sig); err != nil {
				t.Fatal(err)
			}
			x, err := proc.Wait()
			done()
			if err != nil || x.Signal != sig && x.Code != 2 { // Go prints a trace and exits 2 for some
				t.Errorf("%v: %+v, %v", sig, x, err)
			}
		}
	})
}

// Orphans are reaped, and what a command leaves behind dies with it (K-019:
// double fork, daemonise).
func TestOrphans(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		a := confine(t, &setup{profile: grants()}, do("orphans", prober), do("zombies")).answers
		if a[0].Errno != 0 || a[1].Out != "0" {
			t.Errorf("%v, zombies %s", a[0].Errno, a[1].Out)
		}
		begin := time.Now()
		o, err := start(t, &setup{profile: grants(), options: role("daemon-and-exit")}) // returns when nobody holds stdout
		if err != nil || o.exit.Code != 0 || !strings.Contains(o.out, "ready") {
			t.Fatalf("%v %+v %q", err, o.exit, o.out)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("the daemon lived on for %s", took)
		}
	})
}

// SIGKILL of a supervisor takes every process of its run with it, daemonised
// ones too (soundness 15).
func TestDescendantsDieWithTheSupervisor(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := exec.Command(prober)
		cmd.Env = []string{roleVar + "=supervise", nextVar + "=daemon"}
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		out := bufio.NewReader(r)
		if l, err := out.ReadString('\n'); l != "ready\n" {
			t.Fatalf("%q, %v", l, err)
		}
		// The control: the daemon lives while the supervisor does.
		r.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := out.ReadByte(); err == io.EOF {
			t.Fatal("the run ended by itself")
		}
		cmd.Process.Kill()
		cmd.Wait()
		r.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := out.ReadByte(); err != io.EOF {
			t.Errorf("something of the run still holds its output: %v", err)
		}
	})
}

// The supervising thread's end is the run's end, also when it comes before the
// child asked to be told: the life line is read after the prctl.
func TestSupervisingThreadEnds(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, p, err := compileRun(t, &setup{profile: grants(), options: role("wait")})
		if err != nil {
			t.Fatal(err)
		}
		procs := make(chan *Process, 1)
		go notOnMain(func() { // its thread ends with it
			null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			defer null.Close()
			proc, err := p.Start(StartOptions{Stdin: null, Stdout: w, Stderr: w, CgroupFD: -1})
			if err != nil {
				t.Error(err)
			}
			procs <- proc
		})
		proc := <-procs
		w.Close()
		if proc == nil {
			return
		}
		x, err := proc.Wait()
		if err != nil || x.Signal != unix.SIGKILL {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// notOnMain calls f on a thread that ends with the goroutine. The main thread
// would only be parked.
func notOnMain(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f() // the lock is kept: that is what ends the thread
		return
	}
	done := make(chan bool)
	go func() { defer close(done); notOnMain(f) }()
	<-done
	runtime.UnlockOSThread()
}
