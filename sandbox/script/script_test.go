package script

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func wait(t *testing.T, c *Child) syscall.WaitStatus {
	t.Helper()
	defer unix.Close(c.PidFD)
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.Pid, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			t.Fatalf("wait4: %v", err)
		}
		return ws
	}
}

func none() ForkOptions { return ForkOptions{CgroupFD: -1, StopAt: -1} }

func TestForkRunsTheProgram(t *testing.T) {
	b := NewBuilder()
	b.Exec("/bin/sh", []string{"sh", "-c", "exit 7"}, nil)
	c, err := b.Script().Fork(none())
	if err != nil {
		t.Fatal(err)
	}
	if ws := wait(t, c); ws.ExitStatus() != 7 {
		t.Fatalf("status %v, want exit 7", ws)
	}
}

// A failing step comes back as (step, call, errno), and leaves no child.
func TestStepErrors(t *testing.T) {
	closeBad := func(b *Builder, o ...Option) { b.Call(Step{"close", "descriptor -1"}, unix.SYS_CLOSE, []any{-1}, o...) }
	rows := []struct {
		name   string
		build  func(*Builder)
		index  int
		errno  syscall.Errno
		canary bool
		ok     bool
	}{
		{"plain failure", func(b *Builder) { closeBad(b) }, 0, syscall.EBADF, false, false},
		{"ignored failure", func(b *Builder) { closeBad(b, Ignore()) }, 0, 0, false, true},
		{"wanted failure", func(b *Builder) { closeBad(b, WantErrno(syscall.EPERM, syscall.EBADF)) }, 0, 0, false, true},
		{"other failure than wanted", func(b *Builder) { closeBad(b, WantErrno(syscall.EPERM)) }, 0, syscall.EBADF, true, false},
		{"success where denial is wanted", func(b *Builder) {
			b.Call(Step{"getppid", ""}, unix.SYS_GETPPID, nil)
			b.Call(Step{"getppid", "canary"}, unix.SYS_GETPPID, nil, WantErrno(syscall.EPERM))
		}, 1, 0, true, false},
		{"exact result", func(b *Builder) { b.Call(Step{"getppid", ""}, unix.SYS_GETPPID, nil, WantResult(uintptr(os.Getpid()))) }, 0, 0, false, true},
		{"other result", func(b *Builder) { b.Call(Step{"getppid", ""}, unix.SYS_GETPPID, nil, WantResult(1<<40)) }, 0, 0, true, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			b := NewBuilder()
			r.build(b)
			b.Exec("/bin/true", []string{"true"}, nil)
			c, err := b.Script().Fork(none())
			if r.ok {
				if err != nil {
					t.Fatal(err)
				}
				wait(t, c)
				return
			}
			var se *StepError
			if !errors.As(err, &se) {
				t.Fatalf("error %v, want a StepError", err)
			}
			if se.Index != r.index || se.Errno != r.errno || se.Canary != r.canary {
				t.Fatalf("got %+v", se)
			}
		})
	}
	noChildren(t)
}

func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Fatalf("a child is left: pid %d, %v", pid, err)
	}
}

func TestExecFailure(t *testing.T) {
	for path, want := range map[string]syscall.Errno{"/nonexistent": syscall.ENOENT, "/etc/passwd": syscall.EACCES} {
		b := NewBuilder()
		b.Exec(path, []string{"x"}, nil)
		if _, err := b.Script().Fork(none()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	noChildren(t)
}

func TestRegistersAndStore(t *testing.T) {
	b := NewBuilder()
	r := b.NewReg()
	var cell int32 = -1
	b.Call(Step{"openat", "/dev/null"}, unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/dev/null", unix.O_RDWR}, Out(r))
	b.Store(&cell, r)
	b.Call(Step{"dup3", "to 9"}, unix.SYS_DUP3, []any{r, 9, 0}, WantResult(9))
	b.Exec("/bin/sh", []string{"sh", "-c", "test /proc/self/fd/9 -ef /dev/null"}, nil)
	c, err := b.Script().Fork(none())
	if err != nil {
		t.Fatal(err)
	}
	if ws := wait(t, c); ws.ExitStatus() != 0 {
		t.Fatalf("descriptor 9 is not /dev/null: %v", ws)
	}
	if cell < 3 {
		t.Fatalf("stored descriptor %d", cell)
	}
}

// A child that its own user stops between clone and exec holds up nothing else,
// and the deadline ends it (soundness: no P is held over the vfork).
func TestStoppedInTheWindow(t *testing.T) {
	b := NewBuilder()
	r := b.NewReg()
	b.Call(Step{"getpid", ""}, unix.SYS_GETPID, nil, Out(r))
	b.Call(Step{"kill", "itself with SIGSTOP"}, unix.SYS_KILL, []any{r, int(unix.SIGSTOP)})
	b.Exec("/bin/true", []string{"true"}, nil)
	s := b.Script()
	old := runtime.GOMAXPROCS(1) // with one P a held P would stop everything
	defer runtime.GOMAXPROCS(old)
	done := make(chan error, 1)
	go func() {
		o := none()
		o.Deadline = time.Second
		_, err := s.Fork(o)
		done <- err
	}()
	ticks := 0
	for {
		select {
		case err := <-done:
			if !errors.Is(err, ErrDeadline) {
				t.Fatalf("error %v, want the deadline", err)
			}
			// A held P would make it none; an emulated guest gives few.
			if ticks < 2 {
				t.Fatalf("other goroutines ran %d times only", ticks)
			}
			noChildren(t)
			return
		case <-time.After(10 * time.Millisecond):
			ticks++
			runtime.GC()
		}
	}
}

// Ending the child before any step leaves nothing behind.
func TestStopAtEachStep(t *testing.T) {
	for i := 0; i < 3; i++ {
		b := NewBuilder()
		b.Call(Step{"setsid", ""}, unix.SYS_SETSID, nil)
		b.Call(Step{"getpid", ""}, unix.SYS_GETPID, nil)
		b.Exec("/bin/true", []string{"true"}, nil)
		o := none()
		o.StopAt = i
		if _, err := b.Script().Fork(o); err == nil {
			t.Fatalf("stop at %d: no error", i)
		}
	}
	noChildren(t)
}

func TestManyForks(t *testing.T) {
	before := countFDs(t)
	for i := 0; i < 300; i++ {
		b := NewBuilder()
		b.Exec("/bin/true", []string{"true"}, nil)
		c, err := b.Script().Fork(none())
		if err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			runtime.GC()
		}
		wait(t, c)
	}
	if after := countFDs(t); after > before {
		t.Fatalf("descriptors %d → %d", before, after)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func BenchmarkStart(b *testing.B) {
	b.Run("script", func(b *testing.B) {
		for b.Loop() {
			sb := NewBuilder()
			sb.Exec("/bin/true", []string{"true"}, nil)
			c, err := sb.Script().Fork(none())
			if err != nil {
				b.Fatal(err)
			}
			syscall.Wait4(c.Pid, nil, 0, nil)
			unix.Close(c.PidFD)
		}
	})
	b.Run("os.StartProcess", func(b *testing.B) {
		for b.Loop() {
			p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
			if err != nil {
				b.Fatal(err)
			}
			p.Wait()
		}
	})
}
