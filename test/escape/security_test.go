//go:build !embedded

package escape

import (
	"os"
	"strings"
	"testing"
)

// TestOpenRowsAreTold: what is open by design is named in SECURITY.md, by the name of its row.
func TestOpenRowsAreTold(t *testing.T) {
	b, err := os.ReadFile("../../SECURITY.md")
	must(t, err)
	for name, r := range table {
		told := strings.Contains(string(b), "\n| `"+name+"` |")
		if isOpen := r.open != "" || r.mayBeOpen != ""; isOpen && !told {
			t.Errorf("SECURITY.md does not name %q (%s%s)", name, r.open, r.mayBeOpen)
		} else if !isOpen && told {
			t.Errorf("SECURITY.md names %q, which is closed", name)
		}
	}
}
