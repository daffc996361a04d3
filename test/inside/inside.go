// Package inside holds the small commands that tests run confined: the test
// binary itself, called with a first argument "@inside". They need no shell and
// no other program, so they also run in a guest that has none:
//
//	func TestMain(m *testing.M) {
//		inside.Main() // does not return in a command
//		…
//	}
//	lockbox run --rx DIR -- DIR/probe @inside connect tcp 192.0.2.1:80 3
//
// Each prints what happened, errnos by name, and exits with 0 unless it says
// otherwise.
package inside

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Arg is the first argument of a command.
const Arg = "@inside"

var commands map[string]func(args []string) int

func init() {
	commands = map[string]func([]string) int{
		"exit": exitWith, "kill-self": killSelf, "env": printEnv, "sleep": sleep, "ready": ready, "ids": ids,
		"memory": memory, "memory-child": memoryChild, "forks": forks, "spin": spin, "files": files, "file-size": fileSize,
		"spew": spew, "copy": copyInput, "on-term": onTerm, "ignore-term": ignoreTerm, "ignored": ignored, "count": count, "daemon": daemon,
		"connect": connect, "send": send, "serve": serve, "serve-later": serveLater, "bind": bind, "read": read, "read-later": readLater, "write": write, "list": list,
		"tty": tty, "grab": grab, "jobs": jobs,
		"answer": answer, "no-userns": noUserNS, "read-only": readOnly, "ignoring": ignoring,
	}
}

// Main runs the command that the arguments name and exits; without one it returns.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != Arg {
		return
	}
	f := commands[os.Args[2]]
	if f == nil {
		fmt.Fprintf(os.Stderr, "no command %q inside\n", os.Args[2])
		os.Exit(99)
	}
	os.Exit(f(os.Args[3:]))
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	return n
}

// Errno names an error for comparison: "ok", "EPERM", …
func Errno(err error) string {
	var e syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	}
	return err.Error()
}

func exitWith(args []string) int { return number(args[0]) }

func killSelf(args []string) int {
	s := syscall.Signal(number(args[0]))
	unix.Kill(os.Getpid(), s)
	// Go handles SIGSEGV and its like itself when they are sent, not raised.
	select {}
}

func printEnv([]string) int {
	for _, e := range os.Environ() {
		fmt.Println(e)
	}
	return 0
}

func ids([]string) int {
	fmt.Printf("uid %d gid %d\n", os.Getuid(), os.Getgid())
	return 0
}

func read(args []string) int {
	bad := 0
	for _, p := range args {
		b, err := os.ReadFile(p)
		fmt.Printf("%s %s %.40q\n", p, Errno(err), b)
		if err != nil {
			bad = 1
		}
	}
	return bad
}

func write(args []string) int {
	bad := 0
	for _, p := range args {
		err := os.WriteFile(p, []byte("x"), 0o600)
		fmt.Printf("%s %s\n", p, Errno(err))
		if err != nil {
			bad = 1
		}
	}
	return bad
}

func list(args []string) int {
	for _, p := range args {
		d, err := os.ReadDir(p)
		fmt.Printf("%s %s %v\n", p, Errno(err), d)
	}
	return 0
}

// read-later MS PATH…
func readLater(args []string) int {
	sleep(args)
	return read(args[1:])
}
