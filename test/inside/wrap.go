package inside

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// execute becomes the command.
func execute(args []string) int {
	fmt.Fprintln(os.Stderr, syscall.Exec(args[0], args, os.Environ()))
	return 98
}

// ignoring CMD…: with SIGHUP and SIGINT ignored, as nohup and a background job.
func ignoring(args []string) int {
	signal.Ignore(unix.SIGHUP, unix.SIGINT)
	return execute(args)
}

// no-userns UID CMD…: in a user namespace of the caller's in which nobody may
// make another, as UID. The setting belongs to that namespace alone.
func noUserNS(args []string) int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	id := number(args[0])
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setresgid(id, id, id), syscall.Setresuid(id, id, id)} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 98
		}
	}
	return execute(args[1:])
}

// read-only FSTYPE CMD…: with every mount of that file system type read-only, in
// a mount namespace that the caller made for it.
func readOnly(args []string) int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(b), "\n") {
		head, tail, _ := strings.Cut(line, " - ")
		f := strings.Fields(head)
		if len(f) < 5 || !strings.HasPrefix(tail, args[0]) {
			continue
		}
		if err := unix.Mount("", f[4], "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			fmt.Fprintln(os.Stderr, f[4], err)
			return 98
		}
	}
	return execute(args[1:])
}
