package profiles

import "fmt"

// Warning is something in a profile that is legal and likely not meant.
type Warning struct {
	Rule string // id of the rule; may be empty
	Text string
}

func (w Warning) String() string {
	if w.Rule == "" {
		return w.Text
	}
	return w.Rule + ": " + w.Text
}

// wide are places that hold much more than one program needs.
var wide = []string{"/", "/home", "/root", "/etc", "/var", "/run", "/sys", "/dev"}

// Check lists warnings about a document and what became of it. Doc may be nil.
func Check(doc *Document, s *Sealed) []Warning {
	var out []Warning
	for _, n := range s.notes {
		out = append(out, Warning{Text: n})
	}
	p := s.profile
	for _, g := range p.Grants {
		for _, w := range wide {
			if g.Path == w {
				out = append(out, Warning{g.ID, fmt.Sprintf("opens all of %s; name what is needed in it", w)})
			}
		}
	}
	if doc != nil && doc.Name == "" {
		out = append(out, Warning{Text: "no name; rules are listed under the name of the file"})
	}
	if p.Net.Mode == NetDirect && len(p.Net.Allow) == 0 {
		out = append(out, Warning{Text: "net.mode is direct and net.allow is empty: nothing can be reached"})
	}
	for _, e := range p.Net.Allow {
		if e.Prefix.IsValid() && e.Prefix.Addr().IsLoopback() && p.Net.Mode != NetNone {
			out = append(out, Warning{allowID(e), "has no effect: loopback reaches only servers of the run itself"})
		}
		if e.Port == dnsPort && p.Net.Mode == NetDirect {
			out = append(out, Warning{allowID(e), "has no effect: port 53 stays shut"})
		}
		if d, bad := Denied(e.Prefix.Addr()); e.Prefix.IsValid() && bad && d.Prefix.Bits() <= e.Prefix.Bits() {
			out = append(out, Warning{allowID(e), "opens " + d.Prefix.String() + " in part (" + d.ID + ")"})
		}
	}
	return out
}
