package inside

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var kept [][]byte

// memory MIB: touches so much.
func memory(args []string) int {
	for i := range number(args[0]) {
		b := make([]byte, 1<<20)
		for j := 0; j < len(b); j += 4096 {
			b[j] = byte(i)
		}
		kept = append(kept, b)
	}
	fmt.Println("touched", args[0])
	return 0
}

// memory-child MIB: a child does it; its end does not matter.
func memoryChild(args []string) int {
	cmd := exec.Command("/proc/self/exe", Arg, "memory", args[0])
	fmt.Println("child:", cmd.Run())
	return 0
}

// forks MOST: forks until it is refused; exit 7.
func forks(args []string) int {
	for n := range number(args[0]) {
		// A bare fork: the children make nothing but raw system calls.
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			fmt.Printf("forks %d %s\n", n, unix.ErrnoName(errno))
			return 7
		}
		if pid == 0 {
			for {
				syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	fmt.Println("forks all")
	return 0
}

// spin MS: two threads burn so much time.
func spin(args []string) int {
	end := time.Now().Add(time.Duration(number(args[0])) * time.Millisecond)
	runtime.GOMAXPROCS(2)
	done := make(chan bool)
	for range 2 {
		go func() {
			for time.Now().Before(end) {
			}
			done <- true
		}()
	}
	<-done
	<-done
	return 0
}

// files: opens until it is refused.
func files([]string) int {
	for n := 3; ; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println("files", Errno(err))
			return 0
		}
		if n > 100_000 {
			fmt.Println("files without end")
			return 1
		}
	}
}

// file-size PATH: writes until it is refused.
func fileSize(args []string) int {
	signal.Ignore(unix.SIGXFSZ)
	f, err := os.Create(args[0])
	if err != nil {
		fmt.Println(Errno(err))
		return 1
	}
	n := 0
	for n < 64<<20 {
		k, err := f.Write(make([]byte, 4096))
		n += k
		if err != nil {
			fmt.Println("file-size", n, Errno(err))
			return 0
		}
	}
	fmt.Println("file-size all")
	return 0
}

// spew BYTES: writes to stdout.
func spew(args []string) int {
	left := number(args[0])
	b := make([]byte, 8192)
	for i := range b {
		b[i] = 'x'
	}
	for left > 0 {
		n, err := os.Stdout.Write(b[:min(left, len(b))])
		left -= n
		if err != nil {
			return 9
		}
	}
	return 0
}

// copy: stdin to stdout, then how much.
func copyInput([]string) int {
	b := make([]byte, 1<<16)
	total := 0
	for {
		n, err := os.Stdin.Read(b)
		total += n
		os.Stdout.Write(b[:n])
		if err != nil || n == 0 {
			fmt.Fprintln(os.Stderr, "copied", total)
			return 0
		}
	}
}

func sleep(args []string) int {
	time.Sleep(time.Duration(number(args[0])) * time.Millisecond)
	return 0
}

// ready MS: says so, sleeps.
func ready(args []string) int {
	fmt.Println("ready")
	return sleep(args)
}

// on-term CODE: ends itself on SIGTERM.
func onTerm(args []string) int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM)
	fmt.Println("ready")
	<-c
	fmt.Println("term")
	return number(args[0])
}

func ignoreTerm([]string) int {
	signal.Ignore(unix.SIGTERM)
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return 0
}

// ignored SIGNAL…: which of them are ignored from the start.
func ignored(args []string) int {
	for _, a := range args {
		fmt.Println(a, signal.Ignored(syscall.Signal(number(a))))
	}
	return 0
}

// daemon TAG MS: leaves a child of a child in a session of its own, and sleeps.
func daemon(args []string) int {
	if len(args) > 2 {
		if args[2] == "2" {
			time.Sleep(time.Minute)
			return 0
		}
		cmd := exec.Command("/proc/self/exe", Arg, "daemon", args[0], args[1], "2")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	if err := exec.Command("/proc/self/exe", Arg, "daemon", args[0], args[1], "1").Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	return sleep(args[1:])
}
