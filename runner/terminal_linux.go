package runner

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// foreground remembers that the caller's process group had the terminal, so
// that it gets it back when a shell inside the run took it and ended.
type foreground struct{ group int }

func terminal(tty bool) foreground {
	if !tty {
		return foreground{}
	}
	g, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil || g != unix.Getpgrp() {
		return foreground{}
	}
	return foreground{group: g}
}

func (f foreground) restore() {
	if f.group == 0 {
		return
	}
	// A background process that sets the foreground group is stopped by SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, f.group)
	signal.Reset(syscall.SIGTTOU)
}
