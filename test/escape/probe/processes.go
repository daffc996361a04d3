package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// harmless is a signal that a Go program takes without effect: what counts is whether it may be sent.
const harmless = unix.SIGURG

// K-024: processes outside the run. The victim has the same user id and allows any tracer.
var processProbes = []probe{
	{"kill", func(t *target) error { return unix.Kill(t.Pid, harmless) }},
	{"kill-parent", func(t *target) error {
		if t.Parent <= 1 {
			return unix.ESRCH // the parent is outside the pid namespace: it has no number here, and 1 is the run's own init
		}
		return unix.Kill(t.Parent, harmless)
	}},
	{"tgkill", func(t *target) error { return unix.Tgkill(t.Pid, t.Pid, harmless) }},
	{"sigqueue", func(t *target) error { return sigqueue(t.Pid, harmless) }},
	{"pidfd-signal", func(t *target) error {
		fd, err := unix.PidfdOpen(t.Pid, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, harmless, nil, 0)
	}},
	{"sigio", func(t *target) error { // the test counts what arrives; nil says only that everything was accepted
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, t.Pid); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETSIG, int(unix.SIGUSR2)); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
			return err
		}
		if _, err := unix.Write(p[1], []byte("x")); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		return nil
	}},
	{"exists-pidfd", func(t *target) error {
		fd, err := unix.PidfdOpen(t.Pid, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}},
	{"exists-getsid", func(t *target) error { _, err := unix.Getsid(t.Pid); return err }},
	{"prlimit", func(t *target) error {
		var old unix.Rlimit
		if err := unix.Prlimit(t.Pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
			return err
		}
		return unix.Prlimit(t.Pid, unix.RLIMIT_NOFILE, &old, nil)
	}},
	{"setpriority", func(t *target) error { return unix.Setpriority(unix.PRIO_PROCESS, t.Pid, 1) }},
	{"sched-affinity", func(t *target) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(t.Pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(t.Pid, &set)
	}},
	{"ioprio", func(t *target) error { return ioprio(t.Pid) }},
	{"ptrace", func(t *target) error {
		runtime.LockOSThread()
		if err := ptraceSeize(t.Pid); err != nil {
			return err
		}
		return ptraceLeave(t.Pid)
	}},
	{"ptrace-own-child", ptraceOwnChild},
	{"vm-read", func(t *target) error {
		b := make([]byte, len(secret))
		if err := vmRead(t.Pid, t.Addr, b); err != nil {
			return err
		}
		if string(b) != secret {
			return errText("other-content")
		}
		return nil
	}},
	{"pidfd-getfd", func(t *target) error {
		fd, err := unix.PidfdOpen(t.Pid, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	}},
	{"kcmp", func(t *target) error { return kcmp(os.Getpid(), t.Pid) }},
	{"setns", func(t *target) error {
		fd, err := unix.PidfdOpen(t.Pid, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}},
	{"proc-root", func(t *target) error { return readSecret(t.proc("root") + t.file("secret")) }},
	{"proc-cwd", func(t *target) error { return openClose(t.proc("cwd"), unix.O_RDONLY) }},
	{"proc-fd", func(t *target) error { return readSecret(t.proc(fmt.Sprintf("fd/%d", t.FD))) }},
	{"proc-mem", func(t *target) error { return openClose(t.proc("mem"), unix.O_RDONLY) }},
	{"proc-exe", func(t *target) error { return openClose(t.proc("exe"), unix.O_RDONLY) }},
	{"proc-environ", func(t *target) error { return procHas(t, "environ", "LOCKBOX_ESCAPE_SECRET") }},
	{"proc-maps", func(t *target) error { return procHas(t, "maps", "[stack]") }},
	{"proc-cmdline", func(t *target) error { return procHas(t, "cmdline", "victim") }},
	{"proc-status", func(t *target) error { return procHas(t, "status", "probe") }},
	{"proc-stat", func(t *target) error { return procHas(t, "stat", "probe") }},
	{"proc-list", func(t *target) error { return list("/proc", fmt.Sprint(t.Pid)) }},
	{"signal-own-child", func(*target) error {
		cmd := exec.Command(self(), "victim", "-wait")
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
			return err
		}
		var ee *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			return errText("not-killed")
		}
		return nil
	}},
}

func (t *target) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", t.Pid, name) }

func procHas(t *target, name, want string) error {
	b, err := os.ReadFile(t.proc(name))
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), want) {
		return errText("other-content")
	}
	return nil
}

func ptraceOwnChild(*target) error {
	runtime.LockOSThread()
	cmd := exec.Command(self(), "ids")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	cmd.Wait() // the stop at exec
	if err := syscall.PtraceDetach(cmd.Process.Pid); err != nil {
		return err
	}
	return nil
}
