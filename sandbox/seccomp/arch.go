package seccomp

import (
	"fmt"
	"runtime"
)

// Arch is a system-call architecture. The zero value is none, and builds nothing.
type Arch uint8

// The architectures that have a table.
const (
	AMD64 Arch = iota + 1
	ARM64
)

// AUDIT_ARCH_* of linux/audit.h: what the kernel puts into seccomp_data.arch.
const (
	auditAMD64 = 0xc000003e
	auditARM64 = 0xc00000b7
)

// HostArch returns the architecture this program was built for.
func HostArch() (Arch, error) {
	switch runtime.GOARCH {
	case "amd64":
		return AMD64, nil
	case "arm64":
		return ARM64, nil
	}
	return 0, fmt.Errorf("seccomp: no system-call table for %s; there are tables for amd64 and arm64", runtime.GOARCH)
}

// String returns the architecture's Go name.
func (a Arch) String() string {
	switch a {
	case AMD64:
		return "amd64"
	case ARM64:
		return "arm64"
	}
	return fmt.Sprintf("arch(%d)", uint8(a))
}

// Name returns the name of call nr, or "" if the table has none.
func (a Arch) Name(nr uint32) string {
	if names := a.names(); uint64(nr) < uint64(len(names)) {
		return names[nr]
	}
	return ""
}

// Number returns the number of the named call. The second result is false if the architecture has no such call.
func (a Arch) Number(name string) (uint32, bool) {
	for nr, n := range a.names() {
		if n == name && n != "" {
			return uint32(nr), true
		}
	}
	return 0, false
}

func (a Arch) names() []string {
	switch a {
	case AMD64:
		return amd64Names[:]
	case ARM64:
		return arm64Names[:]
	}
	return nil
}

func (a Arch) audit() uint32 {
	switch a {
	case AMD64:
		return auditAMD64
	case ARM64:
		return auditARM64
	}
	return 0
}
