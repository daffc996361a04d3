package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer is who is at the other end of a connection.
type Peer struct {
	UID, GID int
	PID      int
	Groups   []int
	pidfd    int
}

// ErrConfined says that the peer is inside a run, or otherwise confined.
var ErrConfined = errors.New("the caller is confined; only unconfined processes may ask the runner")

// identify finds out who the peer is and refuses it if it is, or may be, inside a
// run. Everything that cannot be read refuses. The pidfd is alive before and
// after the reading, so what was read is the peer's.
func identify(c *net.UnixConn) (*Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &Peer{pidfd: -1}
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, e := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if e != nil {
			cerr = fmt.Errorf("SO_PEERCRED: %w", e)
			return
		}
		p.UID, p.GID, p.PID = int(cred.Uid), int(cred.Gid), int(cred.Pid)
		p.pidfd, cerr = peerPidfd(int(fd), p.PID)
	})
	if err = errors.Join(err, cerr); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err = alive(p.pidfd); err != nil {
		return nil, err
	}
	if err = unconfined(p); err != nil {
		return nil, err
	}
	if err = alive(p.pidfd); err != nil {
		return nil, err
	}
	return p, nil
}

// Close releases the peer's pidfd.
func (p *Peer) Close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// peerPidfd: SO_PEERPIDFD is Linux 6.5. Before, the process behind the number is
// taken, which the caller checks to be of the same uid. Any answer but that the
// option is unknown refuses: EINVAL and ESRCH say that the peer is gone, and its
// number may be another's by now.
func peerPidfd(fd, pid int) (int, error) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
		unix.CloseOnExec(n)
		return n, nil
	} else if err != unix.ENOPROTOOPT {
		return -1, fmt.Errorf("SO_PEERPIDFD: %w", err)
	}
	n, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd_open: %w", err)
	}
	return n, nil
}

// alive: a pidfd is readable once its process has ended (pidfd_open(2)).
func alive(pidfd int) error {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	if n != 0 {
		return errors.New("the caller has ended")
	}
	return nil
}

// unconfined reads what /proc says of the peer.
func unconfined(p *Peer) error {
	dir := fmt.Sprintf("/proc/%d", p.PID)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return err
	}
	fields := map[string]string{}
	for _, line := range strings.Split(string(status), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = strings.TrimSpace(v)
		}
	}
	if fields["NoNewPrivs"] != "0" || fields["Seccomp"] != "0" {
		return ErrConfined
	}
	uid := strings.Fields(fields["Uid"])
	if len(uid) != 4 || uid[1] != fmt.Sprint(p.UID) {
		return errors.New("the caller's process is another one by now")
	}
	for _, g := range strings.Fields(fields["Groups"]) {
		var n int
		if _, err := fmt.Sscan(g, &n); err == nil {
			p.Groups = append(p.Groups, n)
		}
	}
	for _, ns := range []string{"user", "mnt", "pid"} {
		theirs, err := os.Readlink(dir + "/ns/" + ns)
		if err != nil {
			return err
		}
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return err
		}
		if theirs != ours {
			return fmt.Errorf("%w (another %s namespace)", ErrConfined, ns)
		}
	}
	cg, err := os.ReadFile(dir + "/cgroup")
	if err != nil {
		return err
	}
	return outside(string(cg))
}

// runsRoot is the directory below which all runs' cgroups lie (package slot), in
// whichever place and hierarchy.
const runsRoot = "/lockbox-runs/"

// outside checks /proc/PID/cgroup: no line may be below the runs' root.
func outside(cgroups string) error {
	seen := false
	for _, line := range strings.Split(strings.TrimSpace(cgroups), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			return errors.New("unreadable cgroup of the caller")
		}
		seen = seen || f[0] == "0"
		if strings.Contains(f[2]+"/", runsRoot) {
			return fmt.Errorf("%w (it is in the cgroup of a run)", ErrConfined)
		}
	}
	if !seen {
		return errors.New("the caller has no cgroup v2")
	}
	return nil
}
