package profiles

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Lookup finds the document of a name.
type Lookup func(name string) (*Document, error)

// loader remembers what it has resolved, so that a profile that several others
// extend is read once.
type loader struct {
	lookup Lookup
	ex     Expand
	done   map[string]*Profile
	open   []string // names being resolved, outermost first
}

// Load resolves the named profiles with all that they extend, expands their
// paths, and joins them. Invariants are not in it: see Seal.
func Load(names []string, lookup func(name string) (*Document, error), ex Expand) (*Profile, error) {
	if len(names) == 0 {
		return nil, errors.New("no profile named")
	}
	l := &loader{lookup: lookup, ex: ex, done: map[string]*Profile{}}
	if len(names) == 1 {
		p, err := l.resolve(names[0])
		if err == nil && joinNames("", p.Name) == p.Name {
			return p, nil // joined with nothing it would be the same
		}
		if err != nil {
			return nil, err
		}
	}
	out := &Profile{}
	for _, n := range names {
		p, err := l.resolve(n)
		if err != nil {
			return nil, err
		}
		out = Join(out, p)
	}
	return out, nil
}

func (l *loader) resolve(name string) (*Profile, error) {
	if p, ok := l.done[name]; ok {
		return p, nil
	}
	if slices.Contains(l.open, name) {
		return nil, fmt.Errorf("profile %q extends itself: %s", name, strings.Join(append(l.open, name), " → "))
	}
	doc, err := l.lookup(name)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", name, err)
	}
	if doc == nil {
		return nil, fmt.Errorf("profile %q: not found", name)
	}
	l.open = append(l.open, name)
	defer func() { l.open = l.open[:len(l.open)-1] }()
	parent := &Profile{}
	for _, n := range doc.Extends {
		p, err := l.resolve(n)
		if err != nil {
			return nil, err
		}
		parent = Join(parent, p)
	}
	p, err := doc.apply(parent, l.ex)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doc.Source, err)
	}
	l.done[name] = p
	return p, nil
}

// label is the name that rule ids start with.
func (d *Document) label() string {
	if d.Name != "" {
		return d.Name
	}
	return strings.TrimSuffix(path.Base(d.Source), ".toml")
}

// apply reads d in view of parent.
func (d *Document) apply(parent *Profile, ex Expand) (*Profile, error) {
	out := &Profile{
		Name:    d.label(),
		Limits:  parent.Limits.override(d.Limits),
		Env:     joinEnv(parent.Env, d.Env),
		Process: parent.Process,
	}
	if !validName(out.Name) {
		out.Name = "unnamed"
	}
	if d.Process.Syscalls != nil {
		out.Process.Syscalls = *d.Process.Syscalls
	}
	if d.Process.TTY != nil {
		out.Process.TTY = *d.Process.TTY
	}
	var err error
	if out.Net, err = d.Net.apply(parent.Net, ex); err != nil {
		return nil, err
	}
	rules, err := d.expand(ex)
	if err != nil {
		return nil, err
	}
	if len(rules) == 0 && parent.sorted() {
		out.Grants, out.Carves = slices.Clone(parent.Grants), slices.Clone(parent.Carves)
	} else {
		out.setFiles(read(parent, rules))
	}
	out.tidy()
	return out, nil
}

// apply: a mode that d names stands; its lists are added. A gate that the
// parent left unnarrowed is narrowed by a list of d.
func (n NetRules) apply(parent Net, ex Expand) (Net, error) {
	out := Net{Mode: parent.Mode, Listen: slices.Concat(parent.Listen, n.Listen), Unix: slices.Clone(parent.Unix)}
	if n.Mode != nil {
		out.Mode = *n.Mode
	}
	if out.Mode == NetNone && n.Allow != nil {
		return out, errors.New("net.allow opens nothing while the mode is none; set net.mode to gate or direct")
	}
	if parent.Allow != nil || n.Allow != nil {
		out.Allow = append(append([]Entry{}, parent.Allow...), n.Allow...)
	}
	for _, raw := range n.Unix {
		p, err := ex.Path(raw)
		if err != nil {
			return out, fmt.Errorf("net.unix: %w", err)
		}
		out.Unix = append(out.Unix, p)
	}
	return out, nil
}

// placed is a file rule whose path is expanded.
type placed struct {
	FileRule
	id string
}

func (d *Document) expand(ex Expand) ([]placed, error) {
	out := make([]placed, 0, len(d.Files))
	label := d.label()
	for i, r := range d.Files {
		id := r.id
		if id == "" {
			id = label + ":file[" + strconv.Itoa(i+1) + "]"
		}
		p, err := r.Path, error(nil)
		if r.Literal {
			p, err = cleanPath(p)
		} else {
			p, err = ex.Path(p)
		}
		if errors.As(err, new(errUnset)) && r.Optional {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		r.Path = p
		out = append(out, placed{r, id})
	}
	return out, nil
}
