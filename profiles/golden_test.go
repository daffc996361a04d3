package profiles_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"lockbox/profiles"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestPresets: what each preset is after sealing, for review as text.
func TestPresets(t *testing.T) {
	if got := strings.Join(profiles.PresetNames(), " "); got != "base git go node python shell" {
		t.Errorf("presets %s", got)
	}
	if _, ok := profiles.Preset("../base"); ok {
		t.Error("a preset by path")
	}
	for _, n := range profiles.PresetNames() {
		p := preset(t, n)
		s, err := profiles.Seal(p, testExpand, profiles.Terminal)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+n+".golden", describe(s))
		for _, path := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/home/u/.ssh/id_ed25519", "/home/u/.bash_history", "/home/u/x", "/root", "/run/dbus/system_bus_socket", "/etc/ssl/private/k", "/var/log/syslog"} {
			for _, op := range []profiles.Op{profiles.OpRead, profiles.OpWrite, profiles.OpExec, profiles.OpStat} {
				if d := s.Decide(op, profiles.Object{Path: path}); d.Allow {
					t.Errorf("%s: %s %s: %+v", n, op, path, d)
				}
			}
		}
		for _, path := range []string{"/usr", "/etc/passwd", "/lib/x", "/home/u/.bashrc"} {
			if d := s.Decide(profiles.OpWrite, profiles.Object{Path: path}); d.Allow {
				t.Errorf("%s: write %s: %+v", n, path, d)
			}
		}
		if d := s.Decide(profiles.OpWrite, profiles.Object{Path: "/home/u/src/app/x"}); d.Allow != (n != "base") {
			t.Errorf("%s: the workspace: %+v", n, d)
		}
		if p.Net.Mode != profiles.NetNone || p.Limits != (profiles.Limits{}) || len(s.Notes()) != 0 || p.Process.TTY != (n != "base" && n != "git") {
			t.Errorf("%s: %v %v %q", n, p.Net, p.Limits, s.Notes())
		}
	}
}

func preset(t *testing.T, names ...string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Load(names, func(n string) (*profiles.Document, error) {
		d, ok := profiles.Preset(n)
		if !ok {
			return nil, fmt.Errorf("no preset %q", n)
		}
		return d, nil
	}, testExpand)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func describe(s *profiles.Sealed) string {
	var b strings.Builder
	b.WriteString(s.Profile().String())
	b.WriteString("\n# rules\n")
	for _, r := range s.Rules() {
		fmt.Fprintf(&b, "# %-4s %s carve=%v optional=%v (%s)\n", r.Access, r.Path, r.Carve, r.Optional, r.ID)
	}
	for _, p := range s.Pins() {
		fmt.Fprintf(&b, "# pin  %s\n", p)
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test ./profiles -update writes it", err)
	}
	if string(want) != got {
		t.Errorf("%s differs; go test ./profiles -update rewrites it\n%s", file, got)
	}
}

func TestDiff(t *testing.T) {
	a := load(t, file("/w", "rw")+file("/v", "r")+"[net]\nmode = 'direct'\nallow = ['8.8.8.8']\n[limits]\nmemory = '1GiB'\npids = 5\n[env]\npass = ['A']\n[process]\nsyscalls = 'default'")
	b := load(t, file("/w", "r")+file("/w/x", "rwx")+"[net]\nmode = 'direct'\nallow = ['8.8.4.4']\n[limits]\nmemory = '2GiB'\ncpu = 1\n[env]\npass = ['B']\n[process]\nsyscalls = 'strict'\ntty = true")
	var got []string
	for _, c := range profiles.Diff(a, b) {
		got = append(got, c.String())
	}
	want := `- file /v r
- file /w w
+ file /w/x x
- net allow 8.8.8.8
+ net allow 8.8.4.4
+ limit memory 1GiB → 2GiB
+ limit pids 5 → unset
- limit cpu unset → 1
- env pass A
+ env pass B
+ process tty
- process syscalls default → strict`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if d := profiles.Diff(a, a); len(d) != 0 {
		t.Errorf("with itself: %v", d)
	}
}

func TestCheck(t *testing.T) {
	s := sealed(t, file("/", "r")+file("/srv/state/x", "r")+"[net]\nmode = 'direct'\nallow = ['10.0.0.0/8', '127.0.0.1:1', '8.8.8.8:53']", profiles.Terminal)
	if w := profiles.Check(nil, s); len(w) < 5 {
		t.Errorf("warnings %v", w)
	}
	if w := profiles.Check(nil, sealed(t, file("/w", "r"), profiles.Terminal)); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
}
