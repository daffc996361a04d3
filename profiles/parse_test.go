package profiles_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockbox/profiles"
)

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // in follows "version = 1\n"
		{"[[file]]\npath = '/x'\nacess = 'r'", `x.toml:4:1: unknown key "acess"; allowed: access, carve, optional, path, path_b64`},
		{"[[file]]\npath = '/x'", "x.toml:2:3: file.access: missing"},
		{"[[file]]\naccess = 'r'", "x.toml:2:3: file.path: missing"},
		{"[[file]]\npath = '/x'\naccess = 'r'\n[[file]]\npath = '/x'\naccess = 'w'", `x.toml:6:1: path "/x" stands twice; first in [[file]] 1`},
		{"file = [{ path = '/a', access = 'x' }]", "x.toml:2:24: file.access: bad access \"x\": the kernel reads what it executes: use rx"},
		{"[[file]]\npath = 'rel'\naccess = 'r'", `x.toml:3:1: file.path: path "rel" is not absolute`},
		{"[[file]]\npath = \"/a\\u0000\"\naccess = 'r'", "x.toml:3:1: file.path: path \"/a\\x00\" holds a NUL byte"},
		{"[[file]]\npath = '/" + strings.Repeat("a", 1<<20) + "'\naccess = 'r'", "1048577 bytes long; at most 4096"},
		{"[[file]]\npath_b64 = '!'\naccess = 'r'", "x.toml:3:1: file.path_b64: not base64"},
		{"[[file]]\npath = '/a'\npath_b64 = 'L2E='\naccess = 'r'", "x.toml:4:1: path and path_b64 exclude each other"},
		{"Net = 1", `x.toml:2:1: unknown key "Net"`},
		{"'env.set.x' = 1", `x.toml:2:1: unknown key "env.set.x"`},
		{"'file[0].path' = '/x'", `x.toml:2:1: unknown key`},
		{"file.path = 1", "x.toml:2:"},
		{"[net]\nmode = 'some'", "x.toml:3:1: net.mode: bad mode \"some\"; want none, gate or direct"},
		{"[net]\nmode = 1", "x.toml:3:8: bad type for net.mode; want none, gate or direct"},
		{"[net]\nallow = ['a.example',\n  'a b']", `x.toml:4:3: net.allow[1]: bad destination "a b"`},
		{"[net]\nlisten = [65535, 65536]", "x.toml:3:18: net.listen[1]: bad port 65536"},
		{"[net]\nunix = ['rel']", "net.unix[0]: path \"rel\" is not absolute"},
		{"[limits]\nmemory = '5'", `x.toml:3:1: limits.memory: bad size "5"; want`},
		{"[limits]\nmemory = 5", "bad type for limits.memory; want a size"},
		{"[limits]\npids = 0", "limits.pids: bad number 0; want a positive whole number"},
		{"[limits]\ncpu = nan", "limits.cpu: bad number NaN"},
		{"[limits]\ncpu = inf", "limits.cpu: bad number +Inf"},
		{"[limits]\ncpu = 0.001", "limits.cpu: bad number"},
		{"[limits]\nwall = '1'", `limits.wall: bad duration "1"`},
		{"[env]\npass = ['A=B']", `env.pass[0]: bad name "A=B" of a variable`},
		{"[env]\nset = { A = 1 }", "bad type for env.set"},
		{"[env.set]\n'a=b' = 'x'", `bad name "a=b"`},
		{"[env]\nsecret = { A = 'literal' }", "env.secret.A: bad secret; want vault:NAME, env:NAME or file:PATH"},
		{"[process]\nsyscalls = ['default', 'bpf']", `process.syscalls: unknown addition "bpf"; want`},
		{"[process]\nsyscalls = ['strict', 'perf']", "strict takes no additions"},
		{"[process]\nsyscalls = []", "an empty list"},
		{"[process]\nsyscalls = 1", "process.syscalls: bad type"},
		{"[process]\nsyscalls = [1]", "not a list of strings"},
		{"[process]\ntty = 'yes'", "bad type for process.tty; want true or false"},
		{"name = 'a b'", `x.toml:2:1: name: bad name "a b"`},
		{"extends = ['']", "extends[0]: bad name"},
		{"version = 1", "x.toml:2:1: key version is already defined"},
		{"x = [", "x.toml:2:"},
		{"name = \"\xff\"", "x.toml:2:"},
	} {
		d, err := profiles.Parse("x.toml", []byte("version = 1\n"+tt.in))
		var se *profiles.SyntaxError
		if !errors.As(err, &se) || d != nil {
			t.Errorf("%q: %v, %v", tt.in[:min(len(tt.in), 60)], d, err)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q:\n got %v\nwant %s", tt.in[:min(len(tt.in), 60)], err, tt.want)
		}
	}
	for in, want := range map[string]string{
		"":            `x.toml: no version; write "version = 1" first`,
		"version = 2": "x.toml:1:1: version: 2 is not known; want 1",
	} {
		if _, err := profiles.Parse("x.toml", []byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := profiles.Parse("x.toml", make([]byte, 4<<20+1)); err == nil || !strings.Contains(err.Error(), "at most 4194304") {
		t.Errorf("4 MiB and a byte: %v", err)
	}
}

func TestParseAll(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString([]byte("/w/\xff\n"))
	p := load(t, fmt.Sprintf(`
name = "all"
file = [{ path = "~/src", access = "rw" }, { path_b64 = %q, access = "r", optional = true }]
net.mode = "gate"
net.allow = [ # two
  "git.example.org:443",
  "[2001:db8::]/32:443",
]
net.listen = [3000]
net.unix = ["$XDG_RUNTIME_DIR/x.sock"]
limits = { memory = "1GiB", pids = 256, cpu = 2, wall = "10m", output = "8MiB", files = 100, file_size = "1TiB" }
[env]
pass = ["PATH", "LANG", "PATH"]
set = { CI = "1", "odd.name" = "a\"\n\\" }
secret.GH_TOKEN = "vault:github"
[process]
syscalls = ["default", "userfaultfd", "perf"]
tty = true
`, b64))
	want := `version = 1
name = "all"

[[file]]
path = "/home/u/src"
access = "rw"

[[file]]
path_b64 = "` + b64 + `"
access = "r"
optional = true

[net]
mode = "gate"
allow = ["[2001:db8::]/32:443", "git.example.org:443"]
listen = [3000]
unix = ["/run/user/1000/x.sock"]

[limits]
memory = "1GiB"
pids = 256
cpu = 2.0
wall = "10m"
output = "8MiB"
files = 100
file_size = "1TiB"

[env]
pass = ["LANG", "PATH"]
set = { "CI" = "1", "odd.name" = "a\"\u000A\\" }
secret = { "GH_TOKEN" = "vault:github" }

[process]
syscalls = ["default", "perf", "userfaultfd"]
tty = true
`
	if p.String() != want {
		t.Errorf("got\n%s", p)
	}
	if q := reparse(t, p); q.String() != want {
		t.Errorf("read again:\n%s", q)
	}
	// A list that is there and empty is not a list that is absent.
	empty, absent := load(t, "net = { mode = 'gate', allow = [] }"), load(t, "net.mode = 'gate'")
	if empty.Net.Allow == nil || absent.Net.Allow != nil || empty.String() == absent.String() {
		t.Errorf("%v and %v", empty.Net, absent.Net)
	}
}
