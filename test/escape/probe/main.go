// Command probe tries the ways out of a confined run, one after the other, and prints one JSON line for each.
//
//	probe run TARGET-JSON [NAME…]   try all probes (or the named ones); each group in a process of its own
//	probe group TARGET-JSON NAME…   try these in this process
//	probe victim DIR                be the victim: make files, sockets, keys and IPC objects, print the target as JSON,
//	                                clean up at the end of standard input
//	probe launch CMD…               start CMD as a child that leads no process group, as a script would
//	probe ids                       print the effective user id (for the setuid probe)
//
// A line is {"name":"file-read","ok":true} when the probe reached what it tried to reach, and
// {"name":"file-read","ok":false,"errno":"EACCES"} when it did not. The program judges nothing; the table in
// test/escape does. It is static and uses the system calls themselves, so that it runs in a guest that has nothing else.
//
// # What it does not show
//
// A probe that fails shows that this way is closed, not that every way is.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// perGroup bounds a group; the slowest needs some seconds.
const perGroup = 60 * time.Second

func main() {
	if len(os.Args) < 2 {
		fatal(errors.New("usage: probe run|one|victim|ids …"))
	}
	switch os.Args[1] {
	case "launch":
		launch(os.Args[2:])
	case "ids":
		fmt.Println(os.Geteuid())
	case "victim":
		if err := victim(os.Args[2]); err != nil {
			fatal(err)
		}
	case "run":
		runAll(parse(os.Args[2]), os.Args[3:])
	case "group":
		runGroup(parse(os.Args[2]), os.Args[3:])
	case "umount":
		exitErrno(unix.Unmount("/proc", unix.MNT_DETACH))
	case "chroot":
		exitErrno(unix.Chroot(os.Args[2]))
	case "orphan":
		orphan(parse(os.Args[2]), os.Args[3])
	default:
		fatal(fmt.Errorf("unknown mode %q", os.Args[1]))
	}
}

func parse(s string) *target {
	t := new(target)
	if err := json.Unmarshal([]byte(s), t); err != nil {
		fatal(err)
	}
	return t
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(2)
}

// self is the path of this program; /proc may be hidden or another process's view of it.
func self() string {
	p, err := filepath.Abs(os.Args[0])
	if err != nil {
		fatal(err)
	}
	return p
}

// runAll tries each group in a child of its own: a probe may change its process, or be killed by the filter.
func runAll(t *target, only []string) {
	t.Parent = os.Getppid()
	arg, err := json.Marshal(t)
	if err != nil {
		fatal(err)
	}
	for _, g := range groups {
		var names []string
		for _, p := range g.probes {
			if len(only) == 0 || slices.Contains(only, p.name) {
				names = append(names, p.name)
			}
		}
		if len(names) > 0 {
			runChild(g.name, append([]string{"group", string(arg)}, names...))
		}
	}
}

// runChild reports only what its child could not: that it hung, or was killed.
func runChild(name string, args []string) {
	cmd := exec.Command(self(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		print(name, fmt.Errorf("start: %w", err))
		return
	}
	timer := time.AfterFunc(perGroup, func() { cmd.Process.Kill() })
	if err := cmd.Wait(); !timer.Stop() {
		print(name, errText("TIMEOUT"))
	} else if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		print(name, errText(unix.SignalName(ws.Signal())))
	} else if err != nil {
		print(name, errText(err.Error()))
	}
}

func runGroup(t *target, names []string) {
	for _, g := range groups {
		for _, p := range g.probes {
			if slices.Contains(names, p.name) {
				print(p.name, p.try(t))
			}
		}
	}
}

// errText is a failure that has no errno.
type errText string

func (e errText) Error() string { return string(e) }

// result is one line of output.
type result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Errno string `json:"errno,omitempty"`
	Note  string `json:"note,omitempty"`
	// Port asks whoever reads the line to connect to this port of loopback; the probe then reports what it accepted.
	Port int `json:"port,omitempty"`
}

func print(name string, err error) {
	r := result{Name: name, OK: err == nil}
	var errno unix.Errno
	switch {
	case err == nil:
	case errors.As(err, &errno):
		if r.Errno = unix.ErrnoName(errno); r.Errno == "" {
			r.Errno = fmt.Sprintf("errno %d", int(errno))
		}
		r.Note = err.Error()
	default:
		r.Errno = err.Error()
	}
	emit(r)
}

func emit(r result) {
	b, err := json.Marshal(r)
	if err != nil {
		fatal(err)
	}
	os.Stdout.Write(append(b, '\n'))
}

// groups are all probes, in the order in which they are tried.
var groups = []struct {
	name   string
	probes []probe
}{
	{"group-files", fileProbes}, {"group-sockets", socketProbes}, {"group-processes", processProbes}, {"group-kernel", kernelProbes},
	{"group-ipc", ipcProbes}, {"group-state", stateProbes}, {"group-ids", idProbes},
}

// A probe reaches for something outside; try returns nil if it got there.
type probe struct {
	name string
	try  func(t *target) error
}

// target says where the victims are. The victim process fills most of it; the test the rest.
type target struct {
	Dir    string `json:"dir"`    // victim's folder, outside every granted root
	Work   string `json:"work"`   // a folder that the run may write
	Suid   string `json:"suid"`   // a copy of this program with the set-user-ID bit and another owner
	UID    int    `json:"uid"`    // user id that the caller has
	Parent int    `json:"parent"` // pid of the confined program's parent, filled in by run

	TCP4       int    `json:"tcp4"`
	Metadata   bool   `json:"metadata"` // 169.254.169.254 is this namespace's own, so that it may be tried
	TCP6       int    `json:"tcp6"`
	UDP4       int    `json:"udp4"`
	UnixTmp    string `json:"unix_tmp"`
	UnixRun    string `json:"unix_run"`
	UnixDir    string `json:"unix_dir"`
	UnixDgram  string `json:"unix_dgram"`
	Abstract   string `json:"abstract"`
	Pid        int    `json:"pid"`
	Addr       uint64 `json:"addr"` // of `secret` in the victim's memory
	Handle     []byte `json:"handle"`
	HandleType int32  `json:"handle_type"`
	FD         int    `json:"fd"` // number under which the victim has its secret file open

	Shm     int    `json:"shm"`
	Msg     int    `json:"msg"`
	Sem     int    `json:"sem"`
	MQ      string `json:"mq"`
	ShmFile string `json:"shm_file"`
	Key     string `json:"key"` // description of a key of type user in the user keyring

	Disk   string `json:"disk"`   // a block device of the host, "" if it has none
	Cgroup string `json:"cgroup"` // a cgroup v2 folder of the host
	Bpffs  string `json:"bpffs"`  // a mounted bpffs
	State  string `json:"state"`  // a file in lockbox's state folder
	Config string `json:"config"` // folder of the user's named profiles
}
