package cli

import "testing"

// What a run without flags pays before the runner: read base, seal, look up.
func BenchmarkLoadPolicy(b *testing.B) {
	for b.Loop() {
		if _, err := loadPolicy(&options{}); err != nil {
			b.Fatal(err)
		}
	}
}
