package main

import (
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// K-019: identity and rights of the run's processes. These reach their aim when a protection is missing.
var idProbes = []probe{
	{"new-privs", func(*target) error { // no_new_privs is not set
		v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err != nil {
			return err
		}
		if v == 1 {
			return errText("set")
		}
		return nil
	}},
	{"seccomp-off", func(*target) error {
		v, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
		if err != nil {
			return err
		}
		if v != 0 {
			return errText("set")
		}
		return nil
	}},
	{"caps", func(*target) error { // any capability in any set
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			return err
		}
		if data == [2]unix.CapUserData{} {
			return errText("none")
		}
		return nil
	}},
	{"caps-bounding", func(*target) error {
		for c := range unix.CAP_LAST_CAP + 1 {
			if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && v == 1 {
				return nil
			}
		}
		return errText("none")
	}},
	{"setuid-call", func(*target) error { return rawSetresuid(12345) }},
	{"setgid-call", func(*target) error { return rawSetresgid(12345) }},
	{"setgroups", func(*target) error { return rawSetgroups() }},
	{"setuid-program", func(t *target) error {
		out, err := exec.Command(t.Suid, "ids").Output()
		if err != nil {
			return err
		}
		euid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			return err
		}
		if euid == unix.Geteuid() {
			return errText("same-uid")
		}
		return nil
	}},
	{"uid-changed", func(t *target) error {
		if unix.Getuid() == t.UID && unix.Geteuid() == t.UID {
			return errText("same-uid")
		}
		return nil
	}},
}
