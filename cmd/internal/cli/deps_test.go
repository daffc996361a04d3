package cli_test

import (
	"os/exec"
	"strings"
	"testing"
)

// heavy maps what the thin binary must not link to the reason: it has to start
// in about the time of an empty Go program.
var heavy = map[string]string{
	"github.com/cilium/ebpf":          "BPF is lockbox-runner's",
	"github.com/containerd/cgroups":   "cgroup slots are lockbox-runner's",
	"github.com/alecthomas/kong":      "flags come from one table",
	"github.com/mark3labs/mcp-go":     "costs 6 ms at every start",
	"github.com/rogpeppe/go-internal": "for tests",
	"github.com/sirupsen/logrus":      "logs at start, and nobody asked",
	"google.golang.org/protobuf":      "registers itself at start",
	"net/http":                        "costs start-up time, and reaches out",
	"crypto/tls":                      "costs start-up time",
	"regexp":                          "compiles patterns at start",
	"text/template":                   "costs start-up time",
	"html/template":                   "costs start-up time",
	"os/user":                         "reads more than /etc/passwd where cgo is on",
	"C":                               "no cgo",
}

// K-016: what the thin binary links.
func TestThinBinaryIsThin(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "lockbox/cmd/lockbox").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 30 {
		t.Fatalf("go list named %d packages; the test would prove nothing", len(deps))
	}
	for _, dep := range deps {
		for bad, why := range heavy {
			if dep == bad || strings.HasPrefix(dep, bad+"/") {
				t.Errorf("lockbox links %s: %s", dep, why)
			}
		}
	}
}
