package egress

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf/link"
)

// Attached counts the programs on the cgroup dir, whoever's they are: the most that any of the hooks has. A pinned program leaves some
// time after its pin.
func Attached(dir string) (int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	most := 0
	for _, a := range attachments {
		q, err := link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: a.at})
		if err != nil {
			return 0, fmt.Errorf("list the programs of %q: %w", dir, err)
		}
		most = max(most, len(q.Programs))
	}
	return most, nil
}
