// Package needs says what a test cannot do without. A missing need fails the test and names the command that helps:
//
//	needs.Root(t)
//	needs.Command(t, "git")
//	needs.Kernel(t, 6, 7)
//
// Nothing is skipped quietly. Only LOCKBOX_ALLOW_SKIP=1, set by hand, turns a missing need into a loud skip, and not where CI
// is set.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// skipVar is the variable that allows skipping.
const skipVar = "LOCKBOX_ALLOW_SKIP"

// packages names the Debian package of a command where the two differ.
var packages = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"busybox":            "busybox-static",
	"python3":            "python3",
	"node":               "nodejs",
	"cc":                 "gcc",
	"bwrap":              "bubblewrap",
	"go":                 "golang",
}

// Missing ends the test: it needs what, and hint is what to do.
func Missing(t testing.TB, what, hint string) {
	t.Helper()
	if os.Getenv(skipVar) != "1" {
		t.Fatalf("this test needs %s\nhint: %s", what, hint)
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("this test needs %s, and %s is not allowed where CI is set\nhint: %s", what, skipVar, hint)
	}
	fmt.Fprintf(os.Stderr, "SKIPPED BY %s: %s needs %s\n", skipVar, t.Name(), what)
	t.Skipf("SKIPPED BY %s: needs %s (%s)", skipVar, what, hint)
}

// Root needs uid 0.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", "sudo make test, or hack/vm/run.sh 6.12 with the test binary")
	}
}

// Cgroup2 needs a mounted cgroup v2 hierarchy, wherever it is.
func Cgroup2(t testing.TB) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), " - cgroup2 ") {
		Missing(t, "a cgroup2 mount", "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified, or hack/vm/run.sh 6.12 with the test binary")
	}
}

// Command needs a program in PATH and returns where it is.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		pkg := packages[name]
		if pkg == "" {
			pkg = name
		}
		Missing(t, "the command "+name, "apt-get install "+pkg)
	}
	return path
}

// Kernel needs a Linux kernel of at least this version.
func Kernel(t testing.TB, major, minor int) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		Missing(t, "Linux", "hack/vm/run.sh 6.12 with the test binary")
	}
	release := strings.TrimSpace(string(b))
	ok, err := atLeast(release, major, minor)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		Missing(t, fmt.Sprintf("Linux %d.%d (this is %s)", major, minor, release), "hack/vm/run.sh 6.12 with the test binary")
	}
}

// atLeast compares a kernel release such as "6.1.0-57-cloud-amd64" with a version.
func atLeast(release string, major, minor int) (bool, error) {
	var x, y int
	if n, err := fmt.Sscanf(release, "%d.%d", &x, &y); n != 2 {
		return false, fmt.Errorf("kernel release %q: %w", release, err)
	}
	return x > major || x == major && y >= minor, nil
}
