package seccomp

import "testing"

func TestSize(t *testing.T) {
	for _, a := range []Arch{AMD64, ARM64} {
		for _, strict := range []bool{false, true} {
			f, err := Build(Spec{Arch: a, Strict: strict, AllowInet: true, SysVIPC: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v strict=%v: %d instructions, depth %d", a, strict, len(f), f.Depth())
		}
	}
}
