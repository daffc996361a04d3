package profiles

import (
	"strings"
	"testing"
)

func TestExpandPath(t *testing.T) {
	ex := Expand{Home: "/home/u", Workspace: "/w", TmpDir: "/tmp/u/", XDG: map[string]string{"XDG_CONFIG_HOME": "/home/u/.config", "XDG_CACHE_HOME": "rel"}}
	long := "/" + strings.Repeat("a", maxPath-1)
	for _, tt := range []struct{ in, want, fail string }{
		{in: "/", want: "/"}, {in: "//", want: "/"}, {in: "/a/", want: "/a"}, {in: "/a//b/./c/../d", want: "/a/b/d"}, {in: "/..", want: "/"}, {in: "/../../etc", want: "/etc"},
		{in: "~", want: "/home/u"}, {in: "~/", want: "/home/u"}, {in: "~/a", want: "/home/u/a"}, {in: "~/../v", want: "/home/v"},
		{in: "$WORKSPACE", want: "/w"}, {in: "$WORKSPACE/a", want: "/w/a"}, {in: "$TMPDIR/x", want: "/tmp/u/x"}, {in: "$XDG_CONFIG_HOME/x", want: "/home/u/.config/x"},
		// Only the start is expanded, and once.
		{in: "/a/~", want: "/a/~"}, {in: "/a/$TMPDIR", want: "/a/$TMPDIR"}, {in: "/$TMPDIR", want: "/$TMPDIR"}, {in: "/a\nb\xff", want: "/a\nb\xff"},
		{in: long, want: long},
		{in: long + "a", fail: "4097 bytes long; at most 4096"}, {in: "/" + strings.Repeat("b", 1<<20), fail: "at most 4096"},
		{in: "", fail: "not absolute"}, {in: "a", fail: "not absolute"}, {in: "./a", fail: "not absolute"}, {in: "../a", fail: "not absolute"}, {in: "/a\x00b", fail: "NUL"},
		{in: "~v/x", fail: "unknown variable"}, {in: "$HOME/x", fail: "unknown variable"}, {in: "$TMPDIRX", fail: "unknown variable"}, {in: "$XDG_NOPE/x", fail: "unknown variable"},
		{in: "$XDG_DATA_HOME/x", fail: "no value here"}, {in: "$XDG_CACHE_HOME/x", fail: "not an absolute path"},
	} {
		got, err := ex.Path(tt.in)
		if tt.fail == "" && (err != nil || got != tt.want) || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail) || len(err.Error()) > 300) {
			t.Errorf("Path(%q) = %q, %v", shorten(tt.in), got, err)
		}
	}
}

func TestWorkspace(t *testing.T) {
	for _, tt := range []struct {
		ws string
		ok bool
	}{
		{"/home/u/src", true}, {"/srv/x", true}, {"/home/u2", true}, {"/home/v", true},
		{"/", false}, {"//", false}, {"/home/u", false}, {"/home/u/", false}, {"/home", false}, {"/home/u/src/..", false}, {"rel", false}, {"", false},
		{"/var", false}, {"/var/lib/lockbox", false}, {"/var/lib", false}, {"/var/lib/other", true},
	} {
		_, err := Expand{Home: "/home/u", Workspace: tt.ws, StateDirs: []string{"/var/lib/lockbox"}}.Path("$WORKSPACE/x")
		if (err == nil) != tt.ok {
			t.Errorf("workspace %q: %v", tt.ws, err)
		}
	}
}

func TestComparePaths(t *testing.T) {
	sorted := []string{"/", "/a", "/a/b", "/a/b/c", "/a/c", "/a!", "/a-b", "/ab", "/b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := comparePaths(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("comparePaths(%q, %q) = %d", a, b, got)
			}
		}
	}
	for _, tt := range []struct {
		p, dir string
		want   bool
	}{{"/a", "/", true}, {"/", "/", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/a", true}} {
		if within(tt.p, tt.dir) != tt.want {
			t.Errorf("within(%q, %q)", tt.p, tt.dir)
		}
	}
}
