package seccomp

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Limits that the start of a run counts on: the kernel emulates a filter for every number when it is loaded.
func TestSize(t *testing.T) {
	for _, a := range []Arch{AMD64, ARM64} {
		for _, s := range specs(a) {
			f := build(t, s)
			if len(f) > 250 || f.Depth() > 32 {
				t.Errorf("%+v: %d instructions, depth %d; want at most 250 and 32", s, len(f), f.Depth())
			}
			if s.AllowInet && s.SysVIPC && len(s.Additions) == 0 && !s.OwnPidNS {
				t.Logf("%v strict=%v: %d instructions, depth %d", a, s.Strict, len(f), f.Depth())
			}
		}
	}
}

func TestGolden(t *testing.T) {
	for _, s := range []Spec{{Arch: AMD64}, {Arch: ARM64}, {Arch: AMD64, Strict: true}, {Arch: ARM64, Strict: true}} {
		s.AllowInet, s.SysVIPC = true, !s.Strict
		name := fmt.Sprintf("%v.txt", s.Arch)
		if s.Strict {
			name = fmt.Sprintf("%v-strict.txt", s.Arch)
		}
		path := filepath.Join("testdata", name)
		got := build(t, s).String()
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; review the change and run go test -run TestGolden -update\n%s", path, got)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, row := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "no system-call table for arch(0)"},
		{Spec{Arch: 3}, "no system-call table for arch(3)"},
		{Spec{Arch: AMD64, Additions: []string{"mount"}}, `unknown addition "mount"; allowed: keyring, perf, userfaultfd`},
		{Spec{Arch: AMD64, Additions: []string{""}}, `unknown addition ""`},
		{Spec{Arch: AMD64, Strict: true, Additions: []string{"perf"}}, "strict takes no additions"},
	} {
		f, err := Build(row.spec)
		if f != nil || err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("Build(%+v) = %d instructions, %v; want the error %q", row.spec, len(f), err, row.want)
		}
	}
}

func TestZeroValuesDeny(t *testing.T) {
	if got, err := (Filter)(nil).Run(AMD64.Call(0)); got != KillProcess || err == nil {
		t.Errorf("an empty filter: %v, %v", got, err)
	}
	b := &builder{Spec: Spec{Arch: AMD64}, graph: new(graph)}
	for _, n := range b.decide([]string{"", "a call of the future"}) {
		if n != b.absent() {
			t.Errorf("a call without a rule leads to %+v", n)
		}
	}
}

func TestSameSpecSameFilter(t *testing.T) {
	s := Spec{Arch: AMD64, AllowInet: true, Additions: []string{"perf", "keyring"}}
	first := build(t, s)
	s.Additions = []string{"keyring", "perf", "perf"}
	for range 20 {
		if !slices.Equal(first, build(t, s)) {
			t.Fatal("two builds of one Spec differ")
		}
	}
}

// checkLoadable repeats what the kernel demands of a filter (bpf_check_classic, seccomp_check_filter).
func checkLoadable(f Filter) error {
	if len(f) == 0 || len(f) > 4096 {
		return fmt.Errorf("%d instructions", len(f))
	}
	if f[len(f)-1].Code != opRet {
		return fmt.Errorf("the last instruction is not a return")
	}
	for i, in := range f {
		switch in.Code {
		case opLoad:
			if in.K%4 != 0 || in.K >= 64 {
				return fmt.Errorf("%d loads from %d", i, in.K)
			}
		case opAnd, opRet, opJeq, opJge, opJset, opJa:
		default:
			return fmt.Errorf("%d has code %#x", i, in.Code)
		}
		for _, next := range f.next(i) {
			if next >= len(f) {
				return fmt.Errorf("%d goes to %d of %d", i, next, len(f))
			}
		}
	}
	return nil
}

func TestLoadable(t *testing.T) {
	for _, a := range []Arch{AMD64, ARM64} {
		for _, s := range specs(a) {
			if err := checkLoadable(build(t, s)); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}

// secondJudge runs the filter in golang.org/x/net/bpf's machine, which reads words in network order.
func secondJudge(t testing.TB, f Filter) func(Data) Action {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(f))
	for i, in := range f {
		raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("x/net/bpf does not know every instruction")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatal(err)
	}
	return func(d Data) Action {
		p := make([]byte, 64)
		put := func(off int, v uint64) {
			binary.BigEndian.PutUint32(p[off:], uint32(v))
			binary.BigEndian.PutUint32(p[off+4:], uint32(v>>32))
		}
		put(0, uint64(d.Nr)|uint64(d.Arch)<<32)
		put(8, d.IP)
		for i, a := range d.Args {
			put(16+8*i, a)
		}
		n, err := vm.Run(p)
		if err != nil {
			t.Fatal(err)
		}
		return Action(uint32(n))
	}
}

func TestPureEmulatorAgreesWithXNet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range []Spec{
		{Arch: AMD64, AllowInet: true, SysVIPC: true}, {Arch: ARM64, AllowInet: true, SysVIPC: true},
		{Arch: AMD64, Strict: true}, {Arch: ARM64, Strict: true},
	} {
		f := build(t, s)
		judge := secondJudge(t, f)
		for range 50_000 {
			d := Data{Nr: rng.Uint32N(480), Arch: s.Arch.audit(), IP: rng.Uint64()}
			if rng.IntN(20) == 0 {
				d.Nr, d.Arch = rng.Uint32(), rng.Uint32()
			}
			for i := range d.Args {
				d.Args[i] = argValues[rng.IntN(len(argValues))]
			}
			if got, want := run(t, f, d), judge(d); got != want {
				t.Fatalf("%+v %+v: emulator %v, x/net/bpf %v", s, d, got, want)
			}
		}
	}
}

// Any decision per number comes back out of the tree, also when the filter is far longer than a jump reaches.
func checkLayout(t *testing.T, picks []byte, distinct uint32, argBlocks bool) {
	t.Helper()
	g := new(graph)
	above := g.ret(Absent)
	to := make([]*node, len(picks))
	want := func(i int, p byte, arg uint64) Action {
		a := Action(retErrno | (uint32(p)*7+uint32(i))%distinct)
		if argBlocks && p%2 == 1 && uint32(arg)&0xff == uint32(p) {
			return Allow
		}
		return a
	}
	for i, p := range picks {
		to[i] = g.ret(want(i, p, 0))
		if argBlocks && p%2 == 1 {
			to[i] = g.choose(int(p)%6, 0xff, to[i], choice{[]uint32{uint32(p)}, g.ret(Allow)})
		}
	}
	f, err := assemble(g.load(offNr, tree(spans(to, above))))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkLoadable(f); err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	for i, p := range picks {
		for _, arg := range []uint64{0, uint64(p), uint64(p) | 0xab00, uint64(p) | 1<<40, ^uint64(0)} {
			d := Data{Nr: uint32(i), Args: [6]uint64{arg, arg, arg, arg, arg, arg}}
			if got := run(t, f, d); got != want(i, p, arg) {
				t.Fatalf("number %d arg %#x: %v, want %v\n%v", i, arg, got, want(i, p, arg), f)
			}
		}
	}
	for _, nr := range []uint32{uint32(len(picks)), uint32(len(picks)) + 1, ^uint32(0)} {
		if got := run(t, f, Data{Nr: nr}); got != Absent {
			t.Fatalf("number %d above the table: %v", nr, got)
		}
	}
}

func TestLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 2, 3, 5, 100, 254, 255, 256, 257, 300, 600, 900} {
		picks := make([]byte, n)
		for i := range picks {
			picks[i] = byte(rng.Uint32())
		}
		for _, distinct := range []uint32{1, 2, 3, 254, 4096} {
			checkLayout(t, picks, distinct, false)
			checkLayout(t, picks, distinct, true)
		}
	}
}

func TestLayoutUsesTrampolines(t *testing.T) {
	g := new(graph)
	to := make([]*node, 900)
	for i := range to {
		to[i] = g.ret(Action(retErrno | uint32(i+1)))
	}
	f, err := assemble(g.load(offNr, tree(spans(to, g.ret(Absent)))))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(f, func(i Insn) bool { return i.Code == opJa }) {
		t.Error("a filter of this size without a trampoline tests nothing")
	}
}

func TestTooLongIsAnError(t *testing.T) {
	g := new(graph)
	to := make([]*node, 3000)
	for i := range to {
		to[i] = g.ret(Action(retErrno | uint32(i+1)))
	}
	if _, err := assemble(g.load(offNr, tree(spans(to, g.ret(Absent))))); err == nil {
		t.Error("a filter of more than 4096 instructions was returned")
	}
}

func FuzzLayout(f *testing.F) {
	f.Add([]byte{1, 1, 2, 1, 3, 3}, uint32(4), true)
	f.Fuzz(func(t *testing.T, picks []byte, distinct uint32, args bool) {
		checkLayout(t, picks[:min(len(picks), 700)], 1+distinct%4095, args)
	})
}

func FuzzFilterKeepsTheIntents(f *testing.F) {
	f.Add(uint32(41), uint64(2), uint64(1), uint64(262), uint64(0), uint16(1))
	f.Add(uint32(16), uint64(0), uint64(0xdead00005412), uint64(0), uint64(0), uint16(0))
	type built struct {
		spec  Spec
		f     Filter
		judge func(Data) Action
	}
	var all []built
	for _, a := range []Arch{AMD64, ARM64} {
		for _, s := range specs(a) {
			p := build(f, s)
			all = append(all, built{s, p, secondJudge(f, p)})
		}
	}
	f.Fuzz(func(t *testing.T, nr uint32, a0, a1, a2, a3 uint64, pick uint16) {
		b := all[int(pick)%len(all)]
		nr %= 1 << 30
		d := b.spec.Arch.Call(nr, a0, a1, a2, a3)
		want := intended(b.spec, b.spec.Arch.Name(nr), d.Args)
		if got := run(t, b.f, d); got != want {
			t.Fatalf("%+v %s %+v: filter %v, intended %v", b.spec, b.spec.Arch.Name(nr), d, got, want)
		}
		if got := b.judge(d); got != want {
			t.Fatalf("%+v %s %+v: x/net/bpf %v, intended %v", b.spec, b.spec.Arch.Name(nr), d, got, want)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := Build(Spec{Arch: AMD64, AllowInet: true, SysVIPC: true}); err != nil {
			b.Fatal(err)
		}
	}
}
