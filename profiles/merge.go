package profiles

import (
	"maps"
	"slices"
)

// Join composes two profiles of an author: grants and carve-outs are united,
// so nothing is narrowed outside carve-outs, and a preset's none survives.
func Join(a, b *Profile) *Profile {
	out := &Profile{
		Name:    joinNames(a.Name, b.Name),
		Net:     joinNet(a.Net, b.Net),
		Limits:  joinLimits(a.Limits, b.Limits),
		Env:     joinEnv(a.Env, b.Env),
		Process: joinProcess(a.Process, b.Process),
	}
	switch {
	case len(a.Grants)+len(a.Carves) == 0 && b.sorted():
		out.Grants, out.Carves = append([]Grant(nil), b.Grants...), append([]Carve(nil), b.Carves...)
	default:
		out.setFiles(newTree(slices.Concat(a.Grants, b.Grants), slices.Concat(a.Carves, b.Carves)))
	}
	out.tidy()
	return out
}

// sorted reports whether the file rules stand as a tree lists them: sorted, each
// path once.
func (p *Profile) sorted() bool {
	for i := 1; i < len(p.Grants); i++ {
		if comparePaths(p.Grants[i-1].Path, p.Grants[i].Path) >= 0 {
			return false
		}
	}
	for i := 1; i < len(p.Carves); i++ {
		if comparePaths(p.Carves[i-1].Path, p.Carves[i].Path) >= 0 {
			return false
		}
	}
	return true
}

// Meet narrows a by the ceiling b, or the other way round: a path is open only
// as far as both open it, carve-outs are united, and every limit is the smaller.
func Meet(a, b *Profile) *Profile {
	out := &Profile{
		Name:    meetNames(a.Name, b.Name),
		Net:     meetNet(a.Net, b.Net),
		Limits:  meetLimits(a.Limits, b.Limits),
		Env:     meetEnv(a.Env, b.Env),
		Process: meetProcess(a.Process, b.Process),
	}
	ta, tb := a.tree(), b.tree()
	var grants []Grant
	for _, g := range slices.Concat(a.Grants, b.Grants) {
		// A right that both have at g.Path but not both above it was granted
		// here by one of them, so these paths are enough.
		if g.Access = ta.access(g.Path) & tb.access(g.Path); g.Access != None {
			grants = append(grants, g)
		}
	}
	out.setFiles(newTree(grants, slices.Concat(a.Carves, b.Carves)))
	out.tidy()
	return out
}

func joinNet(a, b Net) Net {
	return Net{
		Mode:   max(a.Mode, b.Mode),
		Allow:  joinAllow(a, b),
		Listen: slices.Concat(a.Listen, b.Listen),
		Unix:   slices.Concat(a.Unix, b.Unix),
	}
}

// joinAllow unites the lists. The list of a gate that is not narrowed stays
// unnarrowed beside a gate or none; beside direct it has no equal, and only the
// named entries are kept.
func joinAllow(a, b Net) []Entry {
	if max(a.Mode, b.Mode) == NetGate && (a.unnarrowed() || b.unnarrowed()) {
		return nil
	}
	return append(append([]Entry{}, a.Allow...), b.Allow...)
}

func (n Net) unnarrowed() bool { return n.Mode == NetGate && n.Allow == nil }

func meetNet(a, b Net) Net {
	out := Net{Mode: min(a.Mode, b.Mode), Listen: both(a.Listen, b.Listen), Unix: both(a.Unix, b.Unix)}
	switch {
	case out.Mode == NetNone:
	case a.unnarrowed():
		out.Allow = slices.Clone(b.Allow)
	case b.unnarrowed():
		out.Allow = slices.Clone(a.Allow)
	default:
		out.Allow = meetEntries(a.Allow, b.Allow)
	}
	if out.Allow == nil && !(a.unnarrowed() && b.unnarrowed()) {
		out.Allow = []Entry{}
	}
	return out
}

func both[T comparable](a, b []T) []T {
	in := make(map[T]bool, len(b))
	for _, v := range b {
		in[v] = true
	}
	var out []T
	for _, v := range a {
		if in[v] {
			out = append(out, v)
		}
	}
	return out
}

func joinLimits(a, b Limits) Limits {
	return Limits{
		Memory: max(a.Memory, b.Memory), Pids: max(a.Pids, b.Pids), CPU: max(a.CPU, b.CPU), Wall: max(a.Wall, b.Wall),
		Output: max(a.Output, b.Output), Files: max(a.Files, b.Files), FileSize: max(a.FileSize, b.FileSize),
	}
}

func meetLimits(a, b Limits) Limits {
	return Limits{
		Memory: least(a.Memory, b.Memory), Pids: least(a.Pids, b.Pids), CPU: least(a.CPU, b.CPU), Wall: least(a.Wall, b.Wall),
		Output: least(a.Output, b.Output), Files: least(a.Files, b.Files), FileSize: least(a.FileSize, b.FileSize),
	}
}

// override takes the set values of b, else those of a.
func (a Limits) override(b Limits) Limits {
	return Limits{
		Memory: or(b.Memory, a.Memory), Pids: or(b.Pids, a.Pids), CPU: or(b.CPU, a.CPU), Wall: or(b.Wall, a.Wall),
		Output: or(b.Output, a.Output), Files: or(b.Files, a.Files), FileSize: or(b.FileSize, a.FileSize),
	}
}

// least is the smaller of two limits of which zero is none.
func least[T ~int64 | ~float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func or[T comparable](a, b T) T {
	var zero T
	if a != zero {
		return a
	}
	return b
}

func joinEnv(a, b Env) Env {
	return Env{Pass: slices.Concat(a.Pass, b.Pass), Set: overlay(a.Set, b.Set), Secret: overlay(a.Secret, b.Secret)}
}

func meetEnv(a, b Env) Env {
	return Env{Pass: both(a.Pass, b.Pass), Set: equalPairs(a.Set, b.Set), Secret: equalPairs(a.Secret, b.Secret)}
}

// overlay is a with b over it; nil where both are empty.
func overlay(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func equalPairs(a, b map[string]string) map[string]string {
	var out map[string]string
	for k, v := range a {
		if w, ok := b[k]; ok && v == w {
			out = overlay(out, map[string]string{k: v})
		}
	}
	return out
}

// syscallOrder says which filter lets more through; "" stands between, so that
// silence yields to a word on joining and to strict on meeting.
func syscallOrder(mode string) int {
	switch mode {
	case "":
		return 1
	case "default":
		return 2
	}
	return 0
}

func joinProcess(a, b Process) Process {
	return Process{TTY: a.TTY || b.TTY, Syscalls: joinSyscalls(a.Syscalls, b.Syscalls)}
}

func joinSyscalls(a, b Syscalls) Syscalls {
	switch {
	case a.Mode == "":
		return b
	case b.Mode == "" || syscallOrder(a.Mode) > syscallOrder(b.Mode):
		return a
	case syscallOrder(a.Mode) < syscallOrder(b.Mode):
		return b
	}
	return Syscalls{a.Mode, slices.Concat(a.Additions, b.Additions)}
}

func meetProcess(a, b Process) Process {
	out := Process{TTY: a.TTY && b.TTY, Syscalls: Syscalls{Mode: a.Syscalls.Mode}}
	if syscallOrder(b.Syscalls.Mode) < syscallOrder(a.Syscalls.Mode) {
		out.Syscalls.Mode = b.Syscalls.Mode
	}
	out.Syscalls.Additions = both(a.Syscalls.Additions, b.Syscalls.Additions)
	return out
}
