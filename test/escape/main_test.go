package escape

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"lockbox/test/ownnet"
)

// As root everything happens in a network namespace made for it, in which the
// metadata address is one of its own, with a server: reaching it has a positive
// control, and no probe sends a packet anywhere else.
func TestMain(m *testing.M) {
	if code, moved := ownnet.Enter(); moved {
		os.Exit(code)
	}
	if ownnet.Inside() {
		if err := metadataServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// metadataServer gives the namespace the metadata address, and answers there.
func metadataServer() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
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
