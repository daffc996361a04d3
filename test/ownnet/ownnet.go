// Package ownnet moves a root test program into a network namespace made for it,
// so that nothing it tries, confined or not, sends a packet anywhere else:
//
//	func TestMain(m *testing.M) {
//		if code, moved := ownnet.Enter(); moved {
//			os.Exit(code)
//		}
//		os.Exit(m.Run())
//	}
//
// # What it does not restrict
//
// An ordinary user's program stays where it is: it cannot make the namespace.
package ownnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// marker is set in the process that has the namespace.
const marker = "LOCKBOX_OWN_NET"

// Inside reports whether this process is in a namespace that Enter made.
func Inside() bool { return os.Getenv(marker) != "" }

// Enter runs this very program again in a network namespace of its own, as root,
// and returns its exit status with moved true. In that second process, and for
// ordinary users, it returns moved false; loopback is up.
func Enter() (code int, moved bool) {
	if os.Geteuid() != 0 {
		return 0, false
	}
	if Inside() {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback of the test's namespace:", err)
			return 1, true
		}
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode()), true
	case err != nil:
		fmt.Fprintln(os.Stderr, "a network namespace for the test:", err)
		return 1, true
	}
	return 0, true
}

// loopbackUp sets IFF_UP on lo (netdevice(7)).
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
