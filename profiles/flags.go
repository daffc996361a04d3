package profiles

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Flags are what a command line adds to a profile. The zero value adds nothing.
type Flags struct {
	RO, RW, RX, Deny []string
	Net              *Mode
	Allow            []string
	Listen           []int
	Unix             []string
	Limits           Limits   // set values override
	Env              []string // NAME passes, NAME=VALUE sets
	Secret           []string // NAME=REF
	TTY              *bool
	Syscalls         *Syscalls
	// Expand is for ~ and $NAME in the paths; without it they are errors.
	Expand Expand
}

// WithFlags reads f as a profile that extends p: the narrower path wins, at the
// same path the carve-out wins, and a set value overrides.
func (p *Profile) WithFlags(f Flags) (*Profile, error) {
	d := &Document{Source: "flags", Name: p.Name, Limits: f.Limits}
	d.Net.Mode, d.Net.Unix = f.Net, f.Unix
	d.Process = ProcessRules{Syscalls: f.Syscalls, TTY: f.TTY}
	f.fileRules(d)
	for _, part := range []func(*Document) error{f.net, f.env} {
		if err := part(d); err != nil {
			return nil, err
		}
	}
	out, err := d.apply(p, f.Expand)
	if err != nil {
		return nil, err
	}
	out.Name = p.Name
	return out, nil
}

func (f Flags) fileRules(d *Document) {
	for _, list := range []struct {
		flag   string
		paths  []string
		access Access
	}{{"--ro", f.RO, Read}, {"--rw", f.RW, Read | Write}, {"--rx", f.RX, Read | Exec}, {"--deny", f.Deny, None}} {
		for _, path := range list.paths {
			d.Files = append(d.Files, FileRule{Path: path, Access: list.access, id: "flag:" + list.flag})
		}
	}
}

func (f Flags) net(d *Document) error {
	for _, s := range f.Allow {
		e, err := ParseEntry(s)
		if err != nil {
			return fmt.Errorf("--allow: %w", err)
		}
		d.Net.Allow = append(d.Net.Allow, e)
	}
	for _, n := range f.Listen {
		if n < 1 || n > 65535 {
			return fmt.Errorf("--listen: bad port %d; want 1 to 65535", n)
		}
		d.Net.Listen = append(d.Net.Listen, uint16(n))
	}
	for _, s := range f.Unix {
		if !utf8.ValidString(s) {
			return fmt.Errorf("--unix: %q is not UTF-8", s)
		}
	}
	return nil
}

func (f Flags) env(d *Document) error {
	d.Env.Set, d.Env.Secret = map[string]string{}, map[string]string{}
	for _, s := range f.Env {
		name, value, set := strings.Cut(s, "=")
		if err := errors.Join(checkEnvName(name), checkEnvValue(value)); err != nil {
			return fmt.Errorf("--env: %w", err)
		}
		if !utf8.ValidString(s) {
			return fmt.Errorf("--env: the value of %q is not UTF-8", name)
		}
		if set {
			d.Env.Set[name] = value
		} else {
			d.Env.Pass = append(d.Env.Pass, name)
		}
	}
	for _, s := range f.Secret {
		name, ref, _ := strings.Cut(s, "=")
		if err := errors.Join(checkEnvName(name), checkSecret(ref)); err != nil {
			return fmt.Errorf("--secret: %w", err)
		}
		if !utf8.ValidString(s) {
			return fmt.Errorf("--secret: %q is not UTF-8", name)
		}
		d.Env.Secret[name] = ref
	}
	return nil
}
