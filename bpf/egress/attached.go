package egress

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Attached counts the egress programs on the cgroup dir, whoever's they are.
func Attached(dir string) (int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	q, err := link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: ebpf.AttachCGroupInetEgress})
	if err != nil {
		return 0, fmt.Errorf("list the programs of %q: %w", dir, err)
	}
	return len(q.Programs), nil
}
