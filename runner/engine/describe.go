package engine

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"lockbox/runner/egress"

	bpf "lockbox/bpf/egress"
)

// describe names the operation and the object of a refusal as receipts do.
func describe(ev egress.Event) (op, target string) {
	op = opOf("cgroup:" + ev.Hook.String())
	switch {
	case ev.Path != "":
		return op, ev.Path
	case ev.Hook == bpf.HookSocket:
		return op, fmt.Sprintf("type %d protocol %d", ev.Type, ev.Proto)
	case ev.Proto == unix.IPPROTO_UDP:
		return op, ev.Dst.String() + "/udp"
	}
	return op, ev.Dst.String()
}

// opOf maps a hook to the receipt's words: connect send bind listen socket.
func opOf(by string) string {
	hook := strings.TrimPrefix(by, "cgroup:")
	switch {
	case strings.HasPrefix(hook, "connect"):
		return "connect"
	case strings.HasPrefix(hook, "bind"):
		return "bind"
	case strings.HasPrefix(hook, "sock"):
		return "socket"
	}
	return "send"
}

// hint is the smallest change that would allow it.
func hint(ev egress.Event) string {
	switch {
	case ev.Path != "":
		return "--unix " + ev.Path
	case ev.Reason == bpf.ReasonListen:
		return fmt.Sprintf("--listen %d", ev.Dst.Port())
	case ev.Dst.Port() == 53:
		return "" // no rule opens it
	case ev.Reason == bpf.ReasonNoRule || ev.Reason == bpf.ReasonBuiltin:
		s := "--allow " + ev.Dst.String()
		if ev.Proto == unix.IPPROTO_UDP {
			s += "/udp"
		}
		return s
	}
	return ""
}
