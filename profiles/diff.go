package profiles

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change is one line of a comparison.
type Change struct {
	// Wider: the second profile allows what the first does not; else the
	// reverse. A value that is merely different is Wider in one line and not in
	// the next.
	Wider bool
	Kind  string // file, net, limit, env or process
	Text  string
}

// String starts with + for what the second allows more, − for what it allows
// less.
func (c Change) String() string {
	if c.Wider {
		return "+ " + c.Kind + " " + c.Text
	}
	return "- " + c.Kind + " " + c.Text
}

// differ collects changes.
type differ struct{ out []Change }

func (d *differ) add(wider bool, kind, format string, args ...any) {
	d.out = append(d.out, Change{wider, kind, fmt.Sprintf(format, args...)})
}

// Diff says what b allows that a does not, and the reverse.
func Diff(a, b *Profile) []Change {
	d := &differ{}
	d.files(a.tree(), b.tree())
	d.net(a.Net, b.Net)
	d.limits(a.Limits, b.Limits)
	d.env(a.Env, b.Env)
	d.process(a.Process, b.Process)
	return d.out
}

// files compares at every named path; a difference that the enclosing path
// already has is not repeated.
func (d *differ) files(a, b *tree) {
	paths := map[string]bool{}
	for _, t := range []*tree{a, b} {
		for _, n := range t.nodes {
			paths[n.path] = true
		}
	}
	list := slices.Collect(maps.Keys(paths))
	sortPaths(list)
	type pair struct{ a, b Access }
	var open []string
	seen := map[string]pair{}
	for _, p := range list {
		for len(open) > 0 && !within(p, open[len(open)-1]) {
			open = open[:len(open)-1]
		}
		above := pair{}
		if len(open) > 0 {
			above = seen[open[len(open)-1]]
		}
		now := pair{a.access(p), b.access(p)}
		open, seen[p] = append(open, p), now
		if more := now.b &^ now.a; more != None && more != above.b&^above.a {
			d.add(true, "file", "%s %s", quotePath(p), more)
		}
		if less := now.a &^ now.b; less != None && less != above.a&^above.b {
			d.add(false, "file", "%s %s", quotePath(p), less)
		}
	}
}

func (d *differ) net(a, b Net) {
	if a.Mode != b.Mode {
		d.add(b.Mode > a.Mode, "net", "mode %s → %s", a.Mode, b.Mode)
	}
	switch {
	case a.unnarrowed() && !b.unnarrowed() && b.Mode != NetNone:
		d.add(false, "net", "allow is narrowed")
	case b.unnarrowed() && !a.unnarrowed() && a.Mode != NetNone:
		d.add(true, "net", "allow is not narrowed")
	}
	listDiff(d, "net", "allow ", a.Allow, b.Allow)
	listDiff(d, "net", "listen ", a.Listen, b.Listen)
	listDiff(d, "net", "unix ", a.Unix, b.Unix)
}

// missing lists what is in a and not in b.
func missing[T comparable](a, b []T) []T {
	have := make(map[T]bool, len(b))
	for _, v := range b {
		have[v] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(v T) bool { return have[v] })
}

// listDiff compares two lists as sets.
func listDiff[T comparable](d *differ, kind, label string, a, b []T) {
	for _, v := range missing(a, b) {
		d.add(false, kind, "%s%v", label, v)
	}
	for _, v := range missing(b, a) {
		d.add(true, kind, "%s%v", label, v)
	}
}

func (d *differ) limits(a, b Limits) {
	size := func(n int64) string {
		if n == 0 {
			return "unset"
		}
		return FormatSize(n)
	}
	limit := func(name string, x, y float64, a, b string) {
		if x != y {
			d.add(y == 0 || x != 0 && y > x, "limit", "%s %s → %s", name, a, b)
		}
	}
	count := func(name string, x, y int64) { limit(name, float64(x), float64(y), orUnset(x), orUnset(y)) }
	limit("memory", float64(a.Memory), float64(b.Memory), size(a.Memory), size(b.Memory))
	count("pids", a.Pids, b.Pids)
	limit("cpu", a.CPU, b.CPU, orUnset(a.CPU), orUnset(b.CPU))
	limit("wall", float64(a.Wall), float64(b.Wall), orUnset(a.Wall), orUnset(b.Wall))
	limit("output", float64(a.Output), float64(b.Output), size(a.Output), size(b.Output))
	count("files", a.Files, b.Files)
	limit("file_size", float64(a.FileSize), float64(b.FileSize), size(a.FileSize), size(b.FileSize))
}

func orUnset[T comparable](v T) string {
	var zero T
	if v == zero {
		return "unset"
	}
	return fmt.Sprint(v)
}

func (d *differ) env(a, b Env) {
	listDiff(d, "env", "pass ", a.Pass, b.Pass)
	listDiff(d, "env", "set ", pairs(a.Set), pairs(b.Set))
	listDiff(d, "env", "secret ", pairs(a.Secret), pairs(b.Secret))
}

func pairs(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

func (d *differ) process(a, b Process) {
	if a.TTY != b.TTY {
		d.add(b.TTY, "process", "tty")
	}
	if x, y := a.Syscalls.words(), b.Syscalls.words(); x != y {
		if a.Syscalls.filter() != b.Syscalls.filter() {
			d.add(a.Syscalls.filter() == "strict", "process", "syscalls %s → %s", a.Syscalls.filter(), b.Syscalls.filter())
		}
		listDiff(d, "process", "syscalls ", a.Syscalls.Additions, b.Syscalls.Additions)
	}
}

// filter is the mode that is enforced.
func (s Syscalls) filter() string {
	if s.Mode == "" {
		return "default"
	}
	return s.Mode
}

func (s Syscalls) words() string {
	return strings.Join(append([]string{s.filter()}, s.Additions...), " ")
}
