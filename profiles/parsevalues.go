package profiles

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

func (p *parser) net(d *Document) error {
	in := p.in.Net
	if in.Mode != nil {
		m, err := ParseMode(*in.Mode)
		if err != nil {
			return p.value("net.mode", err)
		}
		d.Net.Mode = &m
	}
	if in.Allow != nil {
		d.Net.Allow = make([]Entry, 0, len(in.Allow))
	}
	for i, s := range in.Allow {
		e, err := ParseEntry(s)
		if err != nil {
			return p.value(index("net.allow", i), err)
		}
		d.Net.Allow = append(d.Net.Allow, e)
	}
	for i, n := range in.Listen {
		if n < 1 || n > 65535 {
			return p.value(index("net.listen", i), fmt.Errorf("bad port %d", n))
		}
		d.Net.Listen = append(d.Net.Listen, uint16(n))
	}
	for i, s := range in.Unix {
		if err := checkRaw(s); err != nil {
			return p.value(index("net.unix", i), err)
		}
	}
	d.Net.Unix = in.Unix
	return nil
}

func (p *parser) limits(d *Document) error {
	in, out := p.in.Limits, &d.Limits
	sizes := []struct {
		key string
		in  *string
		out *int64
	}{
		{"limits.memory", in.Memory, &out.Memory},
		{"limits.output", in.Output, &out.Output},
		{"limits.file_size", in.FileSize, &out.FileSize},
	}
	for _, s := range sizes {
		if s.in == nil {
			continue
		}
		n, err := ParseSize(*s.in)
		if err != nil {
			return p.value(s.key, err)
		}
		*s.out = n
	}
	counts := []struct {
		key string
		in  *int64
		out *int64
	}{{"limits.pids", in.Pids, &out.Pids}, {"limits.files", in.Files, &out.Files}}
	for _, c := range counts {
		if c.in == nil {
			continue
		}
		if *c.in <= 0 {
			return p.value(c.key, fmt.Errorf("bad number %d", *c.in))
		}
		*c.out = *c.in
	}
	if in.CPU != nil {
		if !validCPU(*in.CPU) {
			return p.value("limits.cpu", fmt.Errorf("bad number %v", *in.CPU))
		}
		out.CPU = *in.CPU
	}
	if in.Wall != nil {
		w, err := ParseDuration(*in.Wall)
		if err != nil {
			return p.value("limits.wall", err)
		}
		out.Wall = w
	}
	return nil
}

// validCPU bounds the cores: the kernel takes no quota below a hundredth of one
// (1 ms of 100 ms), and a cap keeps the arithmetic of a quota in range.
func validCPU(f float64) bool { return !math.IsNaN(f) && f >= 0.01 && f <= 1<<20 }

func (p *parser) env(d *Document) error {
	in := p.in.Env
	for i, n := range in.Pass {
		if err := checkEnvName(n); err != nil {
			return p.value(index("env.pass", i), err)
		}
	}
	for n, v := range in.Set {
		if err := errors.Join(checkEnvName(n), checkEnvValue(v)); err != nil {
			return p.value("env.set."+n, err)
		}
	}
	for n, ref := range in.Secret {
		if err := errors.Join(checkEnvName(n), checkSecret(ref)); err != nil {
			return p.value("env.secret."+n, err)
		}
	}
	d.Env = Env{Pass: in.Pass, Set: in.Set, Secret: in.Secret}
	return nil
}

func checkEnvName(n string) error {
	if n == "" || strings.ContainsAny(n, "=\x00") {
		return fmt.Errorf("bad name %q of a variable", shorten(n))
	}
	return nil
}

func checkEnvValue(v string) error {
	if strings.IndexByte(v, 0) >= 0 {
		return errors.New("the value holds a NUL byte")
	}
	return nil
}

// checkSecret checks the form of a reference; nothing here resolves one.
func checkSecret(ref string) error {
	kind, name, ok := strings.Cut(ref, ":")
	if !ok || name == "" || !slices.Contains([]string{"vault", "env", "file"}, kind) || strings.IndexByte(ref, 0) >= 0 {
		return errors.New("bad secret; want vault:NAME, env:NAME or file:PATH")
	}
	return nil
}

func (p *parser) process(d *Document) error {
	d.Process.TTY = p.in.Process.TTY
	var words []string
	switch v := p.in.Process.Syscalls.(type) {
	case nil:
		return nil
	case string:
		words = []string{v}
	case []any:
		for _, el := range v {
			s, ok := el.(string)
			if !ok {
				return p.value("process.syscalls", errors.New("not a list of strings"))
			}
			words = append(words, s)
		}
	default:
		return p.value("process.syscalls", errors.New("bad type"))
	}
	s, err := ParseSyscalls(words)
	if err != nil {
		return p.value("process.syscalls", err)
	}
	d.Process.Syscalls = &s
	return nil
}

// ParseSyscalls reads the words of process.syscalls: "strict" alone, or
// "default" and additions.
func ParseSyscalls(words []string) (Syscalls, error) {
	switch {
	case len(words) == 0:
		return Syscalls{}, errors.New("an empty list")
	case words[0] == "strict" && len(words) == 1:
		return Syscalls{Mode: "strict"}, nil
	case words[0] == "strict":
		return Syscalls{}, errors.New("strict takes no additions")
	case words[0] != "default":
		return Syscalls{}, fmt.Errorf("unknown filter %q", shorten(words[0]))
	}
	for _, w := range words[1:] {
		if !slices.Contains(SyscallAdditions, w) {
			return Syscalls{}, fmt.Errorf("unknown addition %q", shorten(w))
		}
	}
	return Syscalls{Mode: "default", Additions: sortedSet(words[1:])}, nil
}
