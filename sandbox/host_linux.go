package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Probe asks the kernel what this host and caller can do.
func Probe() (*Host, error) {
	h := &Host{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), PPID: os.Getppid(), FS: OSFS{}, LastCap: 40}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	h.Kernel = unix.ByteSliceToString(u.Release[:])
	h.Major, h.Minor = release(h.Kernel)
	if abi, err := ll.LandlockGetABIVersion(); err == nil {
		h.LandlockABI = abi
	}
	// PR_GET_SECCOMP answers EINVAL where the kernel has no seccomp (prctl(2)).
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	h.Seccomp = err == nil
	if h.UID != os.Getuid() || h.GID != os.Getegid() {
		return nil, fmt.Errorf("lockbox must not run setuid or setgid")
	}
	h.Admin = h.UID == 0 && hasCap(unix.CAP_SYS_ADMIN)
	if !h.Admin {
		h.UserNS = userNamespaces()
		nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if mode == unix.SECCOMP_MODE_FILTER && (err != nil || nnp != 0) {
			h.UserNS = "this process is confined already, as inside a run"
		}
	}
	for c := h.LastCap + 1; c < 64; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil {
			break
		}
		h.LastCap = c
	}
	if fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err == nil {
		unix.Close(fd)
		h.TTY = true
	}
	h.Leader = unix.Getpgrp() == h.PID
	return h, nil
}

func hasCap(c uint) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}

func release(s string) (major, minor int) {
	a, rest, _ := strings.Cut(s, ".")
	major, _ = strconv.Atoi(a)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	minor, _ = strconv.Atoi(rest)
	return major, minor
}

// userNamespaces returns why an ordinary user cannot make user namespaces here,
// or "". The settings: user_namespaces(7), Debian's unprivileged_userns_clone,
// Ubuntu's AppArmor restriction (since 23.10).
func userNamespaces() string {
	for _, s := range []struct{ path, bad string }{
		{"/proc/sys/user/max_user_namespaces", "0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0"},
		{apparmorRule, "1"},
	} {
		b, err := os.ReadFile(s.path)
		if err == nil && strings.TrimSpace(string(b)) == s.bad && !(s.path == apparmorRule && ownAppArmorProfile()) {
			return strings.ReplaceAll(strings.TrimPrefix(s.path, "/proc/sys/"), "/", ".") + " is " + s.bad
		}
	}
	return ""
}

// apparmorRule forbids user namespaces to programs without an AppArmor profile.
const apparmorRule = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"

// ownAppArmorProfile reports whether this process runs under a profile, which may
// allow what the rule forbids to others; the start proves it.
func ownAppArmorProfile() bool {
	b, err := os.ReadFile("/proc/self/attr/current")
	label := strings.TrimRight(string(b), "\x00\n")
	return err == nil && label != "" && label != "unconfined"
}
