package runner

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Home is the state folder: $LOCKBOX_HOME, else /var/lib/lockbox for root, else
// $XDG_STATE_HOME/lockbox.
func Home() string {
	if h := os.Getenv("LOCKBOX_HOME"); filepath.IsAbs(h) {
		return filepath.Clean(h)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/lockbox"
	}
	if s := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(s) {
		return filepath.Join(s, "lockbox")
	}
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".local/state/lockbox")
	}
	return ""
}

// RunDir is the folder of sockets and locks: /run/lockbox for root, else
// $XDG_RUNTIME_DIR/lockbox, else below Home. With $LOCKBOX_HOME set it is below
// that, so that a test's runs and the host's do not meet.
func RunDir() string {
	if h := os.Getenv("LOCKBOX_HOME"); filepath.IsAbs(h) {
		return filepath.Join(filepath.Clean(h), "run")
	}
	if os.Geteuid() == 0 {
		return "/run/lockbox"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "lockbox")
	}
	if h := Home(); h != "" {
		return filepath.Join(h, "run")
	}
	return ""
}

// Socket is where the runner's service listens. It is the host's, whoever asks;
// $LOCKBOX_RUNNER names another one.
func Socket() string {
	if p := os.Getenv("LOCKBOX_RUNNER"); filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return "/run/lockbox/runner.sock"
}

// canary returns the path of a bound socket that no run may reach, making it on
// first use. Nobody listens on it. "" where it cannot be had: path sockets are
// then not verified, and the receipt says so.
func canary() string {
	dir := RunDir()
	if dir == "" {
		return ""
	}
	p := filepath.Join(dir, "canary.sock")
	if len(p) > 100 { // sun_path holds 107
		return ""
	}
	if _, err := os.Lstat(p); err == nil {
		return p
	}
	if os.MkdirAll(dir, 0o755) != nil {
		return ""
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: p}); err != nil && err != unix.EADDRINUSE {
		return ""
	}
	return p
}

// delegated reports whether the caller, not being root, may make cgroups below
// its own. It only decides who is asked (the engine, or rlimits); the engine
// proves it by doing.
func delegated() bool {
	if os.Geteuid() == 0 {
		return false
	}
	mount, ok := cgroup2Mount()
	if !ok {
		return false
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(b), "\n") {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			dir := filepath.Join(mount, p)
			return unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
		}
	}
	return false
}

// cgroup2Mount finds the cgroup v2 hierarchy (proc_pid_mountinfo(5)).
func cgroup2Mount() (string, bool) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", false
	}
	for _, line := range strings.Split(string(b), "\n") {
		head, tail, ok := strings.Cut(line, " - ")
		f := strings.Fields(head)
		if ok && strings.HasPrefix(tail, "cgroup2 ") && len(f) >= 5 {
			return f[4], true
		}
	}
	return "", false
}
