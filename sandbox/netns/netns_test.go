package netns

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// K-016: the message is what the library builds.
func TestLoopbackUpIsTheLibrarys(t *testing.T) {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	req.Seq = 1
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = 1, unix.IFF_UP, unix.IFF_UP
	req.AddData(msg)
	if want := req.Serialize(); !bytes.Equal(want, LoopbackUp) {
		t.Fatalf("have %x\nwant %x\nrun: go generate ./sandbox/netns", LoopbackUp, want)
	}
}

func TestAckError(t *testing.T) {
	ok := make([]byte, 36)
	ok[4] = 2
	bad := bytes.Clone(ok)
	copy(bad[16:], []byte{0xff, 0xff, 0xff, 0xff}) // −1
	other := bytes.Clone(ok)
	other[4] = 3
	for _, r := range []struct {
		name string
		in   []byte
		want int
	}{{"success", ok, 0}, {"EPERM", bad, 1}, {"other type", other, 74}, {"short", ok[:19], 74}, {"nothing", nil, 74}} {
		if got := AckError(r.in); got != r.want {
			t.Errorf("%s: %d, want %d", r.name, got, r.want)
		}
	}
}
