package inside

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tty: what there is of a terminal.
func tty([]string) int {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	fmt.Println("open", Errno(err))
	if err == nil {
		unix.Close(fd)
	}
	fmt.Println("sti", Errno(sti(0)))
	sid, _ := unix.Getsid(0)
	fmt.Println("leader", sid == os.Getpid())
	g, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	fmt.Println("foreground", err == nil && g == unix.Getpgrp())
	return 0
}

// count MS: counts the signals of a keyboard and of a window; ends MS after the
// first SIGINT or SIGTERM, with 5.
func count(args []string) int {
	c := make(chan os.Signal, 16)
	signal.Notify(c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGWINCH, unix.SIGUSR1)
	fmt.Println("ready")
	got := map[os.Signal]int{}
	var end <-chan time.Time
	for {
		select {
		case s := <-c:
			got[s]++
			if s == unix.SIGWINCH {
				if ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
					fmt.Println("window", ws.Row, ws.Col)
				}
				fmt.Println("winch")
			}
			if s == unix.SIGHUP || s == unix.SIGUSR1 {
				fmt.Println(unix.SignalName(s.(syscall.Signal)))
			}
			if end == nil && (s == unix.SIGINT || s == unix.SIGTERM) {
				end = time.After(time.Duration(number(args[0])) * time.Millisecond)
			}
		case <-end:
			fmt.Println("int", got[unix.SIGINT], "term", got[unix.SIGTERM])
			return 5
		}
	}
}

// grab: takes the terminal for a group of its own and is killed with it.
func grab([]string) int {
	signal.Ignore(unix.SIGTTOU)
	if err := unix.Setpgid(0, 0); err != nil {
		fmt.Println("setpgid", Errno(err))
		return 1
	}
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, os.Getpid()); err != nil {
		fmt.Println("tcsetpgrp", Errno(err))
		return 1
	}
	fmt.Println("grabbed")
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// jobs CMD…: the smallest shell with job control. It is the leader of the
// terminal's session; a stopped job goes on in the foreground with a line "fg".
func jobs(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	signal.Ignore(unix.SIGTTOU) // not before: it would stay ignored in the job
	pid := cmd.Process.Pid
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err == syscall.EINTR {
			continue
		} else if err != nil {
			fmt.Println(err)
			return 1
		}
		g, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		fmt.Println("foreground is the job's", g == pid)
		unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
		if !ws.Stopped() {
			fmt.Println("job ended", ws.ExitStatus(), ws.Signaled())
			return 0
		}
		fmt.Println("job stopped", unix.SignalName(ws.StopSignal()))
		line := make([]byte, 16)
		os.Stdin.Read(line)
		unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid)
		unix.Kill(-pid, unix.SIGCONT)
	}
}
