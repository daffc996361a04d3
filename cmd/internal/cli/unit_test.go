package cli

import (
	"slices"
	"strings"
	"testing"
)

// The environment is made from nothing; what loads code goes in only by its
// full name.
func TestBuildEnv(t *testing.T) {
	id := identity{uid: 7, user: "u", home: "/home/u"}
	outside := []string{"LC_ALL=C", "LD_PRELOAD=x", "LD_X=1", "GH_TOKEN=t", "PATH=", "BROKEN", "=C:", "HOME=/evil", "TMPDIR=/var/tmp"}
	tests := []struct {
		name string
		env  environment
		want []string
	}{
		{"nothing passed", environment{}, []string{"HOME=/home/u", "LOGNAME=u", "PATH=" + plainPath, "TMPDIR=/tmp", "USER=u"}},
		{"pattern", environment{pass: []string{"L*"}}, []string{"HOME=/home/u", "LC_ALL=C", "LOGNAME=u", "PATH=" + plainPath, "TMPDIR=/tmp", "USER=u"}},
		{"loader by name", environment{pass: []string{"LD_PRELOAD", "HOME", "TMPDIR"}},
			[]string{"HOME=/home/u", "LD_PRELOAD=x", "LOGNAME=u", "PATH=" + plainPath, "TMPDIR=/tmp", "USER=u"}},
		{"set wins over pass, secret over set", environment{pass: []string{"GH_TOKEN"}, set: map[string]string{"GH_TOKEN": "s", "A": ""}, secret: map[string]string{"GH_TOKEN": "v"}},
			[]string{"A=", "GH_TOKEN=v", "HOME=/home/u", "LOGNAME=u", "PATH=" + plainPath, "TMPDIR=/tmp", "USER=u"}},
	}
	for _, tt := range tests {
		if got := buildEnv(tt.env, outside, id); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "héllo", "héllo"},
		{"newline and escape", "a\nb\x1b[31m", `a\nb\x1b[31m`},
		{"not UTF-8", "a\xffb", `a\xffb`},
		{"bidirectional override (CVE-2021-42574)", "a\u202eb", `a\u202eb`},
		{"C1 control", "a\u009bb", `a\u009bb`},
	}
	for _, tt := range tests {
		if got := oneLine(tt.in, maxLine); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := oneLine(strings.Repeat("é", 1<<20), maxLine); len(got) > maxLine+40 || !strings.Contains(got, "2097152 bytes") {
		t.Errorf("long line: got %d bytes: %q", len(got), got)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"--memory", "--pids", "--receipt"}
	for typed, want := range map[string]string{"--memroy": "--memory", "--recipt": "--receipt", "--xyzzyplugh": "", "--pid": "--pids"} {
		if got := nearest(typed, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}

// The table is complete: every flag and command has what help and completion
// need, and no name stands twice.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands {
		if seen[c.name] || c.short == "" || c.code() == nil || strings.HasSuffix(c.short, ".") {
			t.Errorf("command %q: a doubled name, or no text, or no code", c.name)
		}
		seen[c.name] = true
		flags := map[string]bool{}
		for _, f := range c.allFlags() {
			if flags[f.long] || f.short != "" && flags[f.short] || f.help == "" || f.set == nil && f.list == nil && f.once == nil && f.toggle == nil || strings.ContainsAny(f.help, "'\"\n") {
				t.Errorf("%s --%s: a doubled name, or no help, or no code, or quotes", c.name, f.long)
			}
			flags[f.long], flags[f.short] = true, true
		}
	}
}

func TestMaskLongestFirst(t *testing.T) {
	a := &app{masks: maskValues(map[string]string{"A": "hunter", "B": "hunter2-x", "C": "abc"})}
	if got := a.mask("hunter2-x hunter abc"); got != "*** *** abc" {
		t.Errorf("got %q", got)
	}
}

func TestPasswdEntry(t *testing.T) {
	data := []byte("root:x:0:0:root:/root:/bin/bash\nbad line\nu:x:1000:1000::/home/u:/bin/sh\n")
	if name, home, ok := passwdEntry(data, 1000); name != "u" || home != "/home/u" || !ok {
		t.Errorf("got %q %q %v", name, home, ok)
	}
	if _, _, ok := passwdEntry(data, 100); ok {
		t.Error("uid 100 was found")
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/", true}, {"/", "/a", false}} {
		if got := within(tt.path, tt.dir); got != tt.want {
			t.Errorf("within(%q, %q) = %v", tt.path, tt.dir, got)
		}
	}
}
