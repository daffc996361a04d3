package profiles

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// String is the canonical form: a profile file that reads back as the same
// policy. Grants that add nothing to what encloses them are left out.
func (p *Profile) String() string {
	var b strings.Builder
	b.WriteString("version = 1\n")
	if p.Name != "" {
		fmt.Fprintf(&b, "name = %s\n", quote(p.Name))
	}
	t := p.tree()
	for i := range t.nodes {
		t.nodes[i].print(&b)
	}
	p.Net.print(&b)
	p.Limits.print(&b)
	p.Env.print(&b)
	p.Process.print(&b)
	return b.String()
}

// Hash is the SHA-256 of the canonical form, in hex.
func (p *Profile) Hash() string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])
}

// print writes the rules of n so that read makes the same of them.
func (n *node) print(b *strings.Builder) {
	adds := n.eff != n.inherit&n.cap
	capped := n.cap != all
	switch {
	case capped && n.cap == None:
		n.line(b, None, false, n.capOpt)
		return
	case capped && n.cap == n.eff && !n.cap.Has(n.inherit) && (!adds || n.grantOpt == n.capOpt):
		n.line(b, n.cap, false, n.capOpt)
		return
	case capped:
		n.line(b, n.cap, true, n.capOpt)
	}
	if adds {
		n.line(b, n.eff, false, n.grantOpt)
	}
}

func (n *node) line(b *strings.Builder, a Access, carve, optional bool) {
	b.WriteString("\n[[file]]\n")
	if plain(n.path) {
		fmt.Fprintf(b, "path = %s\n", quote(n.path))
	} else {
		fmt.Fprintf(b, "path_b64 = %s\n", quote(base64.StdEncoding.EncodeToString([]byte(n.path))))
	}
	fmt.Fprintf(b, "access = %s\n", quote(a.String()))
	if carve {
		b.WriteString("carve = true\n")
	}
	if optional {
		b.WriteString("optional = true\n")
	}
}

// plain reports whether a path can be shown as text.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func (n Net) print(b *strings.Builder) {
	if n.Mode == NetNone && n.Allow == nil && len(n.Listen)+len(n.Unix) == 0 {
		return
	}
	fmt.Fprintf(b, "\n[net]\nmode = %s\n", quote(n.Mode.String()))
	if n.Allow != nil {
		out := make([]string, len(n.Allow))
		for i, e := range n.Allow {
			out[i] = quote(e.String())
		}
		fmt.Fprintf(b, "allow = [%s]\n", strings.Join(out, ", "))
	}
	if len(n.Listen) > 0 {
		out := make([]string, len(n.Listen))
		for i, p := range n.Listen {
			out[i] = strconv.Itoa(int(p))
		}
		fmt.Fprintf(b, "listen = [%s]\n", strings.Join(out, ", "))
	}
	printList(b, "unix", n.Unix)
}

func (l Limits) print(b *strings.Builder) {
	if l == (Limits{}) {
		return
	}
	b.WriteString("\n[limits]\n")
	size := func(key string, n int64) {
		if n != 0 {
			fmt.Fprintf(b, "%s = %s\n", key, quote(FormatSize(n)))
		}
	}
	count := func(key string, n int64) {
		if n != 0 {
			fmt.Fprintf(b, "%s = %d\n", key, n)
		}
	}
	size("memory", l.Memory)
	count("pids", l.Pids)
	if l.CPU != 0 {
		fmt.Fprintf(b, "cpu = %s\n", formatCPU(l.CPU))
	}
	if l.Wall != 0 {
		fmt.Fprintf(b, "wall = %s\n", quote(formatDuration(l.Wall)))
	}
	size("output", l.Output)
	count("files", l.Files)
	size("file_size", l.FileSize)
}

func formatCPU(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if f == math.Trunc(f) {
		s += ".0"
	}
	return s
}

// formatDuration is time.Duration's form without zero parts at the end.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (e Env) print(b *strings.Builder) {
	if len(e.Pass)+len(e.Set)+len(e.Secret) == 0 {
		return
	}
	b.WriteString("\n[env]\n")
	printList(b, "pass", e.Pass)
	printMap(b, "set", e.Set)
	printMap(b, "secret", e.Secret)
}

func (p Process) print(b *strings.Builder) {
	if p.Syscalls.Mode == "" && !p.TTY {
		return
	}
	b.WriteString("\n[process]\n")
	switch {
	case len(p.Syscalls.Additions) > 0:
		printList(b, "syscalls", append([]string{p.Syscalls.Mode}, p.Syscalls.Additions...))
	case p.Syscalls.Mode != "":
		fmt.Fprintf(b, "syscalls = %s\n", quote(p.Syscalls.Mode))
	}
	if p.TTY {
		b.WriteString("tty = true\n")
	}
}

func printList(b *strings.Builder, key string, list []string) {
	if len(list) == 0 {
		return
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quote(s)
	}
	fmt.Fprintf(b, "%s = [%s]\n", key, strings.Join(out, ", "))
}

func printMap(b *strings.Builder, key string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, quote(k)+" = "+quote(m[k]))
	}
	fmt.Fprintf(b, "%s = { %s }\n", key, strings.Join(out, ", "))
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
