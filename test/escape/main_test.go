package escape

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// ownNet marks the process that has the network namespace of its own.
const ownNet = "LOCKBOX_ESCAPE_NET"

// As root everything happens in a network namespace made for it: no probe,
// confined or not, sends a packet anywhere else, and the metadata address is one
// of its own, with a server, so that reaching it has a positive control.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv(ownNet) == "" {
		os.Exit(inOwnNet())
	}
	if os.Getenv(ownNet) != "" {
		if err := metadataServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func inOwnNet() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), ownNet+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "a network namespace for the test:", err)
		return 1
	}
	return 0
}

// metadataServer gives the namespace its loopback and the metadata address, and
// answers there.
func metadataServer() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	addr, err := netlink.ParseAddr("169.254.169.254/32")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(lo, addr); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "169.254.169.254:80")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return nil
}
