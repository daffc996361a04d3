package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// start runs a copy of this program at path and waits for it.
func start(path string) error {
	out, err := exec.Command(path, "ids").Output()
	if err != nil {
		return err
	}
	if len(out) == 0 {
		return errText("no-output")
	}
	return nil
}

// launch runs a command and ends as it ended.
func launch(argv []string) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, os.NewFile(8, "8"), os.NewFile(9, "9")}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		fatal(err)
	}
}

// startWith runs this program in another mode. A mode that fails says its errno as its exit status.
func startWith(attr *syscall.SysProcAttr, args ...string) error {
	cmd := exec.Command(self(), args...)
	cmd.SysProcAttr = attr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return unix.Errno(exit.ExitCode())
	}
	return err
}

// exitErrno ends the process and says the errno.
func exitErrno(err error) {
	var errno unix.Errno
	if errors.As(err, &errno) {
		os.Exit(int(errno))
	}
	os.Exit(0)
}

// daemonisedRead leaves session and parent behind, as a daemon does, and then opens the secret (K-019).
func daemonisedRead(t *target) error {
	out := t.mine(unique("orphan"))
	arg, err := json.Marshal(t)
	if err != nil {
		return err
	}
	cmd := exec.Command(self(), "orphan", string(arg), out)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return err
	}
	for range 100 {
		if b, err := os.ReadFile(out); err == nil && strings.HasSuffix(string(b), "\n") {
			if s := strings.TrimSpace(string(b)); s != "ok" {
				return errnoNamed(s)
			}
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errText("TIMEOUT")
}

// orphan is called twice: the first call starts the second and ends; the second waits until it has another parent.
func orphan(t *target, out string) {
	if len(os.Args) == 4 {
		cmd := exec.Command(self(), "orphan", os.Args[2], out, "second")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fatal(err)
		}
		return
	}
	time.Sleep(100 * time.Millisecond)
	msg := "ok"
	if err := readSecret(t.file("secret")); err != nil {
		msg = err.Error()
		if pe, ok := err.(*os.PathError); ok {
			if errno, ok := pe.Err.(unix.Errno); ok {
				msg = unix.ErrnoName(errno)
			}
		}
	}
	if err := os.WriteFile(out, []byte(msg+"\n"), 0o600); err != nil {
		fatal(err)
	}
}

// errnoNamed is the errno of that name, or a text.
func errnoNamed(name string) error {
	for e := unix.Errno(1); e < 200; e++ {
		if unix.ErrnoName(e) == name {
			return e
		}
	}
	return errText(name)
}
