package egress

import "strconv"

// A Hook is the place where the kernel asked.
type Hook uint8

// In the order of run.h.
const (
	HookSocket Hook = iota + 1
	HookBind4
	HookBind6
	HookConnect4
	HookConnect6
	HookSendmsg4
	HookSendmsg6
	HookEgress
	HookConnectUnix
	HookSendmsgUnix
	hooks
)

var hookNames = [...]string{"none", "socket", "bind4", "bind6", "connect4", "connect6", "sendmsg4", "sendmsg6", "egress", "connect_unix", "sendmsg_unix"}

func (h Hook) String() string { return name(hookNames[:], int(h)) }

// A Reason is why a hook refused.
type Reason uint8

// In the order of run.h.
const (
	ReasonAllowed  Reason = iota
	ReasonNoEntry         // the cgroup has no entry
	ReasonNoRule          // no rule of the run names the destination
	ReasonBuiltin         // a built-in denial is narrower than the run's rule
	ReasonSocket          // not a TCP or UDP socket
	ReasonLoopback        // the listener on this host is not the run's, or there is none
	ReasonListen          // the port to bind is not in the run's list
	ReasonPacket          // a packet that cannot be judged: options, fragment, other protocol
	ReasonUnix            // the socket path is not in the run's list
)

const reasons = 16

var reasonNames = [...]string{"allowed", "no entry", "no rule", "built-in denial", "socket type", "loopback", "listen", "packet", "unix path"}

func (r Reason) String() string { return name(reasonNames[:], int(r)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "#" + strconv.Itoa(i)
}
