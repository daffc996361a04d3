package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"
)

// A candidate is one way of doing the same work.
type candidate struct {
	name string
	// once does the work and returns how long it took.
	once    func() (time.Duration, error)
	samples []time.Duration
}

// interleave runs rounds of all candidates, in a new order each round, after one round that does not count.
func interleave(rounds int, cs []*candidate) error {
	for n := range rounds + 1 {
		for _, i := range rand.Perm(len(cs)) {
			d, err := cs[i].once()
			if err != nil {
				return fmt.Errorf("%s: %w", cs[i].name, err)
			}
			if n > 0 {
				cs[i].samples = append(cs[i].samples, d)
			}
		}
	}
	return nil
}

// quantile of the samples, 0 to 1.
func (c *candidate) quantile(q float64) time.Duration {
	s := slices.Sorted(slices.Values(c.samples))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// table prints medians and 99th percentiles; ratios are to the first candidate.
func table(w io.Writer, unit time.Duration, unitName string, cs []*candidate) {
	fmt.Fprintf(w, "| | min %[1]s | median %[1]s | p99 %[1]s | median ratio | p99 ratio |\n|---|---|---|---|---|---|\n", unitName)
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	for _, c := range cs {
		fmt.Fprintf(w, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", c.name, in(c.quantile(0)), in(c.quantile(0.5)), in(c.quantile(0.99)),
			float64(c.quantile(0.5))/float64(cs[0].quantile(0.5)), float64(c.quantile(0.99))/float64(cs[0].quantile(0.99)))
	}
}

// spawn starts argv as uid, with nothing but the standard streams on /dev/null, and waits: what a shell's loop does.
func spawn(argv []string, uid int, env []string, dir string, stdout *os.File) (time.Duration, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if stdout == nil {
		stdout = null
	}
	attr := &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{null, stdout, os.Stderr}}
	if os.Getuid() == 0 && uid != 0 {
		attr.Sys = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}}
	}
	begin := time.Now()
	p, err := os.StartProcess(argv[0], argv, attr)
	if err != nil {
		return 0, err
	}
	st, err := p.Wait()
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	if !st.Success() {
		return 0, fmt.Errorf("%v: %v", argv, st)
	}
	return took, nil
}
