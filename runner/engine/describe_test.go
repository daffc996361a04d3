package engine

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	bpf "lockbox/bpf/egress"
	"lockbox/runner"
	"lockbox/runner/egress"
)

// The words of receipts for each kind of refusal, and the flag that would allow
// it; none where no flag does. K-025
func TestDescribe(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	rows := []struct {
		ev               egress.Event
		op, target, hint string
	}{
		{egress.Event{Hook: bpf.HookConnect4, Reason: bpf.ReasonNoRule, Proto: unix.IPPROTO_TCP, Dst: at("9.9.9.9:443")}, "connect", "9.9.9.9:443", "--allow 9.9.9.9:443"},
		{egress.Event{Hook: bpf.HookConnect6, Reason: bpf.ReasonBuiltin, Proto: unix.IPPROTO_UDP, Dst: at("[2001:db8::1]:5")}, "connect", "[2001:db8::1]:5/udp", "--allow [2001:db8::1]:5/udp"},
		{egress.Event{Hook: bpf.HookConnect4, Reason: bpf.ReasonNoRule, Proto: unix.IPPROTO_UDP, Dst: at("9.9.9.9:53")}, "connect", "9.9.9.9:53/udp", ""},
		{egress.Event{Hook: bpf.HookConnect4, Reason: bpf.ReasonLoopback, Proto: unix.IPPROTO_TCP, Dst: at("127.0.0.1:80")}, "connect", "127.0.0.1:80", ""},
		{egress.Event{Hook: bpf.HookBind4, Reason: bpf.ReasonListen, Proto: unix.IPPROTO_TCP, Dst: at("0.0.0.0:3000")}, "bind", "0.0.0.0:3000", "--listen 3000"},
		{egress.Event{Hook: bpf.HookSocket, Reason: bpf.ReasonSocket, Type: 3, Proto: 1}, "socket", "type 3 protocol 1", ""},
	}
	for _, r := range rows {
		op, target := describe(r.ev)
		if h := hint(r.ev); op != r.op || target != r.target || h != r.hint {
			t.Errorf("%+v: %q %q %q", r.ev, op, target, h)
		}
	}
}

// What was counted and not seen is a line of its own; the start's own tries are
// in none.
func TestMerge(t *testing.T) {
	seen := map[denialKey]*runner.Denial{
		{"connect", "a", "r"}: {Kind: "net", Op: "connect", Target: "a", Count: 4, By: "cgroup:connect4"},
	}
	counters := []egress.Counter{{Hook: bpf.HookConnect4, Reason: bpf.ReasonNoRule, N: 9}, {Hook: bpf.HookConnect4, Reason: bpf.ReasonBuiltin, N: 1}}
	out := merge(seen, counters, map[string]uint64{"cgroup:connect4": 1})
	var total uint64
	for _, d := range out {
		total += d.Count
	}
	if len(out) != 2 || total != 9 || out[0].Target != "" || out[0].Count != 5 {
		t.Errorf("%+v", out)
	}
	if out := merge(seen, []egress.Counter{{Hook: bpf.HookConnect4, N: 5}}, map[string]uint64{"cgroup:connect4": 1}); len(out) != 1 {
		t.Errorf("all seen: %+v", out)
	}
}
