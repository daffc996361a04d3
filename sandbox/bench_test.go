package sandbox

import (
	"fmt"
	"testing"

	"lockbox/profiles"
	"lockbox/sandbox/script"
)

// BenchmarkPlan is everything between the command line and the first system
// call of a start: load, seal, compile, lay out.
func BenchmarkPlan(b *testing.B) {
	ex := profiles.Expand{Home: "/root", Workspace: "/usr/src", TmpDir: "/tmp", XDG: map[string]string{"XDG_CONFIG_HOME": "/root/.config", "XDG_STATE_HOME": "/root/.local/state", "XDG_CACHE_HOME": "/root/.cache", "XDG_DATA_HOME": "/root/.local/share"}}
	h, err := Probe()
	if err != nil {
		b.Fatal(err)
	}
	lookup := func(n string) (*profiles.Document, error) {
		d, ok := profiles.Preset(n)
		if !ok {
			return nil, fmt.Errorf("no preset %q", n)
		}
		return d, nil
	}
	var p *profiles.Profile
	var s *Sealed
	var pl *Plan
	load := func() {
		if p, err = profiles.Load([]string{"base"}, lookup, ex); err != nil {
			b.Fatal(err)
		}
	}
	seal := func() {
		if s, err = Seal(p, ex, profiles.Terminal, OSFS{}); err != nil {
			b.Fatal(err)
		}
	}
	compile := func() {
		if pl, err = Compile(s.Sealed, h, Options{Argv: []string{"true"}, Path: "/bin/true", Dir: "/", Attended: true, Links: s.Links}); err != nil {
			b.Fatal(err)
		}
	}
	layout := func() {
		e := &emitter{b: script.NewBuilder(), p: pl, made: map[string]bool{}, masks: map[string]bool{}, closed: map[string]bool{}}
		for _, st := range pl.steps {
			st.emit(e)
		}
	}
	load()
	seal()
	compile()
	for _, x := range []struct {
		name string
		f    func()
	}{{"load", load}, {"seal", seal}, {"compile", compile}, {"lay-out", layout}} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.f()
			}
		})
	}
}
