package profiles_test

import (
	"strings"
	"testing"

	"lockbox/profiles"
)

// flagsOf reads the file flags of a line.
func flagsOf(line string) (profiles.Flags, bool) {
	var f profiles.Flags
	words := strings.Fields(line)
	for i := 0; i+1 < len(words); i += 2 {
		switch words[i] {
		case "--ro":
			f.RO = append(f.RO, words[i+1])
		case "--rw":
			f.RW = append(f.RW, words[i+1])
		case "--rx":
			f.RX = append(f.RX, words[i+1])
		case "--deny":
			f.Deny = append(f.Deny, words[i+1])
		default:
			return f, false
		}
	}
	return f, true
}

func load(t testing.TB, text string) *profiles.Profile {
	t.Helper()
	p, err := tryLoad(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var testExpand = profiles.Expand{
	Home: "/home/u", Workspace: "/home/u/src/app", TmpDir: "/tmp", UID: 1000,
	XDG: map[string]string{
		"XDG_CONFIG_HOME": "/home/u/.config", "XDG_CACHE_HOME": "/home/u/.cache", "XDG_DATA_HOME": "/home/u/.local/share",
		"XDG_STATE_HOME": "/home/u/.local/state", "XDG_RUNTIME_DIR": "/run/user/1000",
	},
	StateDirs: []string{"/srv/state"}, ConfigDirs: []string{"/srv/config"},
}

func tryLoad(text string) (*profiles.Profile, error) {
	d, err := profiles.Parse("t.toml", []byte("version = 1\n"+text))
	if err != nil {
		return nil, err
	}
	return profiles.Load([]string{"t"}, func(n string) (*profiles.Document, error) {
		if p, ok := profiles.Preset(n); ok {
			return p, nil
		}
		return d, nil
	}, testExpand)
}

func TestWithFlags(t *testing.T) {
	p := load(t, `
[[file]]
path = "/w"
access = "rw"
[[file]]
path = "/w/hooks"
access = "none"
[net]
mode = "direct"
allow = ["192.0.2.1:443"]
[limits]
memory = "1GiB"
pids = 5
`)
	none, gate, tty := profiles.NetNone, profiles.NetGate, true
	for _, tt := range []struct {
		name string
		f    profiles.Flags
		path string
		want profiles.Access
	}{
		{"narrower opens", profiles.Flags{RX: []string{"/w/hooks/x"}}, "/w/hooks/x", profiles.Read | profiles.Exec},
		{"the carve-out wins at its own path", profiles.Flags{RW: []string{"/w/hooks"}}, "/w/hooks", profiles.None},
		{"ro narrows", profiles.Flags{RO: []string{"/w/d"}}, "/w/d/x", profiles.Read},
		{"ro at the granted path narrows", profiles.Flags{RO: []string{"/w"}}, "/w/x", profiles.Read},
		{"rw and rx are rwx", profiles.Flags{RW: []string{"/w/d"}, RX: []string{"/w/d"}}, "/w/d", 7},
		{"deny wins over rw", profiles.Flags{RW: []string{"/w/d"}, Deny: []string{"/w/d/"}}, "/w/d", profiles.None},
		{"rx alone takes the write", profiles.Flags{RX: []string{"/w/d"}}, "/w/d", profiles.Read | profiles.Exec},
		{"the sibling stays", profiles.Flags{RO: []string{"/w/d"}}, "/w/dd", profiles.Read | profiles.Write},
		{"variables", profiles.Flags{RO: []string{"$WORKSPACE/x"}, Expand: testExpand}, "/home/u/src/app/x", profiles.Read},
	} {
		q, err := p.WithFlags(tt.f)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := q.Access(tt.path); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	q, err := p.WithFlags(profiles.Flags{Net: &none, TTY: &tty, Limits: profiles.Limits{Pids: 9}, Env: []string{"A", "B=c=d"}, Secret: []string{"S=vault:x"}})
	if err != nil {
		t.Fatal(err)
	}
	if q.Net.Mode != none || q.Net.Allow != nil || !q.Process.TTY || q.Limits.Pids != 9 || q.Limits.Memory != 1<<30 || q.Env.Set["B"] != "c=d" || q.Env.Secret["S"] != "vault:x" {
		t.Errorf("flags gave\n%s", q)
	}
	if q, err = p.WithFlags(profiles.Flags{Net: &gate, Allow: []string{"example.org"}}); err != nil || len(q.Net.Allow) != 2 {
		t.Errorf("gate: %v\n%s", err, q)
	}
	if q, err = p.WithFlags(profiles.Flags{}); err != nil || q.String() != p.String() {
		t.Errorf("no flags: %v\n%s", err, q)
	}
	for _, bad := range []profiles.Flags{
		{RO: []string{"x"}}, {RO: []string{""}}, {RO: []string{"~/x"}}, {RO: []string{"/a\x00b"}}, {RO: []string{"/" + strings.Repeat("a", 1<<20)}},
		{Allow: []string{"a b"}}, {Net: &none, Allow: []string{"example.org"}}, {Listen: []int{0}}, {Listen: []int{65536}}, {Unix: []string{"\xff"}},
		{Unix: []string{"rel"}}, {Env: []string{""}}, {Env: []string{"=x"}}, {Env: []string{"A=\x00"}}, {Env: []string{"A=\xff"}}, {Secret: []string{"A"}}, {Secret: []string{"A=ftp:x"}}, {Secret: []string{"A=vault:"}},
	} {
		if q, err := p.WithFlags(bad); err == nil {
			t.Errorf("%+v: no error but\n%s", bad, q)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%+v: not one short line: %v", bad, err)
		}
	}
}
