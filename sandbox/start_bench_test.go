package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"testing"
	"time"

	"lockbox/profiles"
)

// BenchmarkStart compares whole lives of /bin/true (start until reaped) under
// plans of different weight with a bare os.StartProcess, one after the other in
// each round, and reports medians and ratios (K-026):
//
//	go test -run xxx -bench 'Start$' -benchtime 300x ./sandbox
func BenchmarkStart(b *testing.B) {
	runtime.LockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	variants := []struct {
		name string
		run  func() error
	}{
		{"bare", func() error {
			p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Files: []*os.File{null, null, null}})
			if err == nil {
				_, err = p.Wait()
			}
			return err
		}},
		{"no-mounts", starter(b, null, func(h *Host, o *Options) {
			h.Admin, h.UserNS = false, "forbidden"
			o.Attended = true
			o.Weaker = map[string]bool{"metadata": true, "unix": true, "processes": true, "tmp": true, "carve-outs": true}
		})},
		{"full", starter(b, null, func(h *Host, o *Options) { o.Attended = true })},
	}
	times := make([][]time.Duration, len(variants))
	for b.Loop() {
		for i, v := range variants {
			t := time.Now()
			if err := v.run(); err != nil {
				b.Fatalf("%s: %v", v.name, err)
			}
			times[i] = append(times[i], time.Since(t))
		}
	}
	for i := range times {
		sort.Slice(times[i], func(a, c int) bool { return times[i][a] < times[i][c] })
	}
	at := func(i int, q float64) float64 {
		return float64(times[i][int(q*float64(len(times[i])-1))].Microseconds())
	}
	for i, v := range variants {
		b.ReportMetric(at(i, 0.5), v.name+"-p50-µs")
		if i > 0 {
			b.ReportMetric(at(i, 0.5)/at(0, 0.5), v.name+"-p50-ratio")
			b.ReportMetric(at(i, 0.99)/at(0, 0.99), v.name+"-p99-ratio")
		}
	}
}

// starter compiles base once and returns a function that starts and reaps it.
func starter(b *testing.B, null *os.File, change func(*Host, *Options)) func() error {
	ex := profiles.Expand{Home: "/root", TmpDir: "/tmp", XDG: map[string]string{}}
	p, err := profiles.Load([]string{"base"}, func(n string) (*profiles.Document, error) {
		d, ok := profiles.Preset(n)
		if !ok {
			return nil, fmt.Errorf("no preset %q", n)
		}
		return d, nil
	}, ex)
	if err != nil {
		b.Fatal(err)
	}
	s, err := Seal(p, ex, profiles.Terminal, OSFS{})
	if err != nil {
		b.Fatal(err)
	}
	h, err := Probe()
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Argv: []string{"true"}, Path: "/bin/true", Dir: "/", Links: s.Links}
	change(h, &o)
	pl, err := Compile(s.Sealed, h, o)
	if err != nil {
		b.Fatal(err)
	}
	return func() error {
		if pl.InPlace {
			return fmt.Errorf("plan wants to exec in place")
		}
		pr, err := pl.Start(StartOptions{Stdin: null, Stdout: null, Stderr: null, CgroupFD: -1})
		if err != nil {
			return err
		}
		x, err := pr.Wait()
		if err == nil && (x.Code != 0 || x.Signal != 0 || x.ExecErrno != 0) {
			err = fmt.Errorf("ended with %+v", x)
		}
		return err
	}
}
