package runner

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
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

// terminalPath is the path of the terminal that the command gets, "" without one.
func terminalPath(files ...*os.File) string {
	for i, f := range files {
		fd := i
		if f != nil {
			fd = int(f.Fd())
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			continue
		}
		p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || !strings.HasPrefix(p, "/dev/") {
			continue
		}
		var a, b unix.Stat_t
		if unix.Fstat(fd, &a) == nil && unix.Stat(p, &b) == nil && a.Rdev == b.Rdev && a.Ino == b.Ino {
			return p
		}
	}
	return ""
}
