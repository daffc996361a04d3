package profiles_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"lockbox/profiles"
)

func file(path, access string, more ...string) string {
	return fmt.Sprintf("[[file]]\npath = %q\naccess = %q\n%s\n", path, access, strings.Join(more, "\n"))
}

// TestReading: how a [[file]] rule is read in view of what encloses it.
func TestReading(t *testing.T) {
	const r, w, x = profiles.Read, profiles.Write, profiles.Exec
	for _, tt := range []struct {
		name, text string
		want       map[string]profiles.Access
	}{
		{"nothing named", "", map[string]profiles.Access{"/": 0, "/a": 0}},
		{"the sibling with the same beginning stays closed", file("/a", "r"), map[string]profiles.Access{"/a": r, "/a/b": r, "/ab": 0, "/": 0}},
		{"a narrower rule that gives less closes", file("/a", "rw") + file("/a/b", "r"), map[string]profiles.Access{"/a/x": r | w, "/a/b": r, "/a/b/c": r}},
		{"in either order", file("/a/b", "r") + file("/a", "rw"), map[string]profiles.Access{"/a/x": r | w, "/a/b": r}},
		{"a narrower rule that gives more opens", file("/a", "r") + file("/a/b", "rw"), map[string]profiles.Access{"/a": r, "/a/b": r | w}},
		{"less in one right and more in another", file("/a", "rw") + file("/a/b", "rx"), map[string]profiles.Access{"/a/b": r | x}},
		{"none inside an allowed tree", file("/a", "rw") + file("/a/b", "none"), map[string]profiles.Access{"/a/b": 0, "/a/b/c": 0, "/a/c": r | w}},
		{"deeper opens again", file("/a", "rw") + file("/a/b", "none") + file("/a/b/c", "r"), map[string]profiles.Access{"/a/b": 0, "/a/b/c": r}},
		{"three levels", file("/a", "rwx") + file("/a/b", "r") + file("/a/b/c", "rw") + file("/a/b/c/d", "none"), map[string]profiles.Access{"/a/b/x": r, "/a/b/c": r | w, "/a/b/c/d/e": 0}},
		{"one path under two names is the union", file("~/x", "rw") + file("/home/u/x", "rx"), map[string]profiles.Access{"/home/u/x": r | w | x}},
		{"but none wins", file("~/x", "rw") + file("/home/u/x", "none"), map[string]profiles.Access{"/home/u/x": 0}},
		{"a cap alone grants nothing", file("/a", "r", "carve = true"), map[string]profiles.Access{"/a": 0}},
		{"a cap and a grant", file("/a", "r", "carve = true") + file("/a", "rw"), map[string]profiles.Access{"/a": r}},
		{"the root", file("/", "r") + file("/a", "none"), map[string]profiles.Access{"/": r, "/b": r, "/a": 0}},
		{"cleaned", file("/a/./b//../c/", "r"), map[string]profiles.Access{"/a/c": r, "/a/b": 0}},
		{"extends: a preset's tree, narrowed", `extends = ["git"]` + "\n" + file("$WORKSPACE", "r"), map[string]profiles.Access{"/home/u/src/app/x": r, "/usr/bin/git": r | x}},
		{"optional without a value", file("$XDG_RUNTIME_DIR/x", "r", "optional = true"), map[string]profiles.Access{"/run/user/1000/x": r}},
	} {
		p, err := tryLoad(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for path, want := range tt.want {
			if got := p.Access(path); got != want {
				t.Errorf("%s: %q has %s, want %s\n%s", tt.name, path, got, want, p)
			}
		}
	}
}

// docs makes a lookup of texts by name.
func docs(t *testing.T, texts map[string]string) func(string) (*profiles.Document, error) {
	return func(n string) (*profiles.Document, error) {
		s, ok := texts[n]
		if !ok {
			return nil, fmt.Errorf("no such profile")
		}
		d, err := profiles.Parse(n+".toml", []byte("version = 1\n"+s))
		if err != nil {
			t.Fatal(err)
		}
		return d, nil
	}
}

func TestExtends(t *testing.T) {
	lookup := docs(t, map[string]string{
		"top":   "extends = ['left', 'right']\nlimits.pids = 3\nprocess.tty = false\n" + file("/w/a", "r"),
		"left":  "extends = ['root']\nenv.set = { A = 'left', B = 'left' }\n" + file("/w", "rw"),
		"right": "extends = ['root']\nenv.set = { A = 'right' }\nprocess = { tty = true, syscalls = 'strict' }\n" + file("/w/b", "none"),
		"root":  "limits = { pids = 9, memory = '1MiB' }\nnet = { mode = 'gate', allow = ['a.example'] }\n" + file("/u", "rx"),
		"more":  "extends = ['root']\nnet.allow = ['b.example']\n",
		"shut":  "extends = ['root']\nnet.mode = 'none'\n",
		"bare":  "net.allow = ['b.example']\n",
		"loop":  "extends = ['loop2']", "loop2": "extends = ['loop']", "self": "extends = ['self']",
		"gone": "extends = ['missing']", "unset": file("$XDG_DATA_HOME/x", "r"),
	})
	p, err := profiles.Load([]string{"top"}, lookup, profiles.Expand{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "top" || p.Limits.Pids != 3 || p.Limits.Memory != 1<<20 || p.Process.TTY || p.Process.Syscalls.Mode != "strict" || p.Env.Set["A"] != "right" || p.Env.Set["B"] != "left" {
		t.Errorf("got\n%s", p)
	}
	for path, want := range map[string]profiles.Access{"/u": 5, "/w/x": 3, "/w/a": 1, "/w/b": 0} {
		if got := p.Access(path); got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}
	if p, err := profiles.Load([]string{"more"}, lookup, profiles.Expand{}); err != nil || len(p.Net.Allow) != 2 || p.Net.Mode != profiles.NetGate {
		t.Errorf("a list is added: %v %v", p, err)
	}
	if p, err := profiles.Load([]string{"shut"}, lookup, profiles.Expand{}); err != nil || p.Net.Mode != profiles.NetNone || p.Net.Allow != nil {
		t.Errorf("a named mode stands: %v %v", p, err)
	}
	for name, want := range map[string]string{
		"loop": `profile "loop" extends itself: loop → loop2 → loop`, "self": `profile "self" extends itself: self → self`,
		"gone": `profile "missing": no such profile`, "unset": "$XDG_DATA_HOME has no value here", "bare": "net.allow opens nothing while the mode is none",
	} {
		if p, err := profiles.Load([]string{name}, lookup, profiles.Expand{}); p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if p, err := profiles.Load(nil, lookup, profiles.Expand{}); p != nil || err == nil {
		t.Error("no names: no error")
	}
}

// TestJoinOrder: profiles named on one command line join in any order.
func TestJoinOrder(t *testing.T) {
	lookup := docs(t, map[string]string{"a": file("/x", "rw"), "b": file("/x/y", "rw"), "c": file("/x", "none")})
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		p, err := profiles.Load(names, lookup, profiles.Expand{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Access("/x") != 0 || p.Access("/x/y") != 3 || p.Name != strings.Join(names, "+") {
			t.Errorf("%v:\n%s", names, p)
		}
	}
}

// TestMany: 10,000 rules load, seal, print and decide at once.
func TestMany(t *testing.T) {
	var b strings.Builder
	const n = 10_000
	for i := range n {
		access := "rw"
		if i%2 == 1 {
			access = "none"
		}
		fmt.Fprintf(&b, "[[file]]\npath = \"/d%d/e%d/f%d\"\naccess = %q\n", i%7, i%101, i/2, access)
	}
	b.WriteString(file("/", "rw"))
	b.WriteString("[net]\nmode = 'direct'\nallow = [")
	for i := range n {
		fmt.Fprintf(&b, "'8.%d.%d.0/24:443',", i/250, i%250)
	}
	b.WriteString("]\n")
	p := load(t, b.String())
	m := profiles.Meet(p, p)
	if m.String() != p.String() || len(p.Net.Allow) != n {
		t.Fatal("Meet with itself differs")
	}
	s := seal(t, m)
	for i := range n {
		path := fmt.Sprintf("/d%d/e%d/f%d", i%7, i%101, i/2)
		if d := s.Decide(profiles.OpWrite, profiles.Object{Path: path + "/x"}); d.Allow != (i%2 == 0) {
			t.Fatalf("%s: %+v", path, d)
		}
		if d := s.Decide(profiles.OpConnect, profiles.Object{Addr: netip.AddrFrom4([4]byte{8, byte(i / 250), byte(i % 250), 1}), Port: 443}); !d.Allow {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	deep := "/" + strings.Repeat("a/", 2047)
	if d := s.Decide(profiles.OpRead, profiles.Object{Path: deep}); !d.Allow {
		t.Errorf("a deep path: %+v", d)
	}
	if len(profiles.Diff(p, m)) != 0 {
		t.Error("Diff of equals")
	}
}
