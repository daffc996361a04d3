package escape

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries are the programs under test.
type binaries struct{ lockbox, runner, probe string }

// programs takes them from LOCKBOX_BIN, LOCKBOX_RUNNER_BIN and LOCKBOX_PROBE, from those that were built into this test
// binary (tag embedded, for a guest without a Go tool chain), or builds them.
func programs(t *testing.T) binaries {
	b := binaries{os.Getenv("LOCKBOX_BIN"), os.Getenv("LOCKBOX_RUNNER_BIN"), os.Getenv("LOCKBOX_PROBE")}
	if b.lockbox != "" && b.runner != "" && b.probe != "" {
		return b
	}
	dir := t.TempDir()
	b = binaries{dir + "/lockbox", dir + "/lockbox-runner", dir + "/probe"}
	if unpack != nil {
		must(t, unpack(dir))
		return b
	}
	for out, pkg := range map[string]string{b.lockbox: "lockbox/cmd/lockbox", b.runner: "lockbox/cmd/lockbox-runner", b.probe: "lockbox/test/escape/probe"} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", pkg, err, msg)
		}
	}
	return b
}

// unpack writes the programs that this test binary carries; nil if it carries none.
var unpack func(dir string) error

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, b, 0o755))
	must(t, os.Chmod(filepath.Clean(to), 0o755)) // whatever the umask
}

type counter struct {
	mu sync.Mutex // guards n
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
