//go:build linux

package slot

import (
	"fmt"
	"testing"
)

// What a slot costs a start: New and Close of an empty one, with all limits.
func BenchmarkSlot(b *testing.B) {
	tree, err := Find(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		s, err := tree.New(fmt.Sprintf("bench-%d", i), Limits{MemoryBytes: 64 << 20, Pids: 50, CPU: 1})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if _, err := Find(dir); err != nil {
			b.Fatal(err)
		}
	}
}
